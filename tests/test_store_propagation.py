"""Filtered features from disk: equal to the bit, whatever was killed or damaged on the way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.stores import awkward_graph, stored

from nodegp.disk import on_disk, using
from nodegp.disk.filtered import FilteredMatrix
from nodegp.disk.hops import Recursion
from nodegp.operators import MemoryOperator, operator_of
from nodegp.preprocessing import Preprocessing
from nodegp.propagation import FilterPolynomial, propagate

POLYNOMIALS = [
    FilterPolynomial((0.3, 0.25, 0.2, 0.1, 0.05, 0.02, 0.01)),
    FilterPolynomial((0.3, -0.25, 0.2), self_loops=True),
    FilterPolynomial((1.0, 0.3, 0.25, 0.2, 0.1), averaged=True),
    FilterPolynomial((0.3, 0.25, 0.2, 0.1), hub_discount=0.5),
    FilterPolynomial((0.4, 0.6)),
    FilterPolynomial((0.4,)),
]


def recursion_of(polynomial):
    own = polynomial.coefficients[0] if polynomial.averaged else None
    terms = tuple(polynomial.in_adjacency)
    return Recursion(terms, polynomial.self_loops, polynomial.hub_discount, own)


def filtered(store, preprocessor, polynomial, dtype=torch.float32):
    return FilteredMatrix(store, preprocessor, recursion_of(polynomial), dtype)


def made(store, preprocessor, polynomial, dtype=torch.float32):
    features = filtered(store, preprocessor, polynomial, dtype)
    operator = operator_of(on_disk(store), polynomial.self_loops)
    features.make(operator, lambda done, total: None)
    return features


def in_memory(graph, preprocessor, polynomial, dtype=np.float32):
    from nodegp.features import FeatureRows

    columns = FeatureRows(graph.features, preprocessor).columns(slice(None))
    return propagate(
        MemoryOperator(graph, polynomial.self_loops), polynomial, columns.astype(dtype)
    )


@pytest.mark.parametrize("polynomial", POLYNOMIALS)
@pytest.mark.parametrize("memory", [1 << 30, 900 * 36])
def test_equal_to_the_bit(tmp_path, polynomial, memory):
    graph, _ = awkward_graph(weighted=True)
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    expected = in_memory(graph, preprocessor, polynomial)
    for threads in (1, 2):
        with using(threads, memory=memory):
            features = made(store, preprocessor, polynomial)
        assert np.array_equal(features[:], expected)
        assert np.array_equal(features[np.array([800, 3, 3, 20])], expected[[800, 3, 3, 20]])
        assert np.array_equal(features[5:700], expected[5:700])
        work = store.path / "work"
        left = [path.name for path in work.glob("filtered-*/*/*")]
        assert all(name.startswith("result.") for name in left)
        for path in work.glob("filtered-*/*/*"):
            path.unlink()
