"""Small stored graphs for tests: hubs larger than a part, parts without edges, lonely nodes; the
tables that a store is prepared from; and filtered features of both.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch

from nodegp.disk import on_disk
from nodegp.disk.filtered import FilteredMatrix
from nodegp.disk.hops import Recursion
from nodegp.features import FeatureRows
from nodegp.graph import Graph
from nodegp.operators import MemoryOperator, operator_of
from nodegp.propagation import FilterPolynomial, propagate
from nodegp.store import StoredGraph, store_graph


def awkward_graph(n_nodes=900, n_columns=11, seed=0, weighted=False, dtype=np.float32, ids=False):
    """A hub that is linked to half of all, a stretch of nodes without edges, classes that show."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, n_nodes)
    ends = rng.integers(0, n_nodes, (2, 4 * n_nodes))
    same = classes[ends[0]] == classes[ends[1]]
    ends = ends[:, same | (rng.random(ends.shape[1]) < 0.2)]
    hub = np.arange(0, n_nodes, 2)
    ends = np.concatenate([ends, np.stack([np.full(len(hub), 7), hub])], axis=1)
    lonely = (ends >= n_nodes // 2) & (ends < n_nodes // 2 + n_nodes // 5)
    ends = ends[:, ~lonely.any(axis=0)]
    weights = rng.random(ends.shape[1]) + 0.1 if weighted else np.ones(ends.shape[1])
    adjacency = sp.coo_array((weights, tuple(ends)), shape=(n_nodes, n_nodes))
    if not weighted:
        adjacency = sp.csr_array(adjacency)
        adjacency.data[:] = 1.0
    means = rng.standard_normal((3, n_columns))
    features = 0.7 * means[classes] + rng.standard_normal((n_nodes, n_columns)) + 5.0
    names = [f"node {n}" for n in range(n_nodes)] if ids else None
    return Graph(adjacency, features.astype(dtype), names), classes


def stored(graph: Graph, folder, part_entries=150, rows=40) -> StoredGraph:
    """In small parts: some without any edge, one with more than it should have."""
    with patch("nodegp.store.memory.largest_rows", lambda n_features: rows):
        return store_graph(graph, folder, part_entries)


def read_back(store: StoredGraph) -> Graph:
    """The whole of a store as a graph in memory."""
    parts = range(store.n_parts)
    adjacency = sp.vstack([store.edges(part) for part in parts], format="csr")
    features = ids = None
    if store.has_features:
        stack = sp.vstack if store.has_sparse_features else np.concatenate
        features = stack([store.features_of(part) for part in parts])
    if store.has_ids:
        ids = np.concatenate([store.ids_of(part) for part in parts])
    return Graph(adjacency, features, ids, store.is_prepared)


def assert_same(store: StoredGraph, graph: Graph) -> None:
    """To the bit: edges, degrees, features and ids."""
    found = read_back(store)
    assert (store.n_nodes, store.n_edges) == (graph.n_nodes, graph.n_edges)
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found.adjacency, name), getattr(graph.adjacency, name))
    assert np.array_equal(store.degrees, graph.degrees)
    assert store.n_features == graph.n_features
    if graph.features is None:
        assert not store.has_features
    elif sp.issparse(graph.features):
        assert (found.features != graph.features).nnz == 0
    else:
        assert np.array_equal(found.features, graph.features)
    assert (graph.ids is None) == (not store.has_ids)
    if graph.ids is not None:
        assert found.ids is not None
        assert found.ids.tolist() == graph.ids.tolist()


# --- tables to prepare a store from ---------------------------------------------------------------


def tables(n_nodes=40, n_edges=150, seed=0, ids="integer", weighted=False, n_columns=3):
    rng = np.random.default_rng(seed)
    names = {
        "integer": rng.permutation(n_nodes) + 100,
        "far": rng.integers(-(2**62), 2**62, n_nodes),
        "text": np.array([f"é{n * 31}" for n in rng.permutation(n_nodes)], dtype=object),
    }[ids]
    nodes = pd.DataFrame({"name": names})
    for n in range(n_columns):
        nodes[f"x{n}"] = rng.standard_normal(n_nodes)
    ends = rng.integers(0, n_nodes, (2, n_edges))
    edges = pd.DataFrame({"from": names[ends[0]], "to": names[ends[1]]})
    if weighted:
        edges["w"] = rng.integers(0, 4, n_edges) / 2
    return nodes, edges


def write(folder, frame, kind="parquet", n_files=1):
    """A table as a folder of files."""
    folder.mkdir(parents=True)
    cuts = np.linspace(0, len(frame), n_files + 1).astype(int)
    for n, (start, stop) in enumerate(pairwise(cuts)):
        part = frame.iloc[start:stop]
        if kind == "parquet":
            part.to_parquet(folder / f"{n}.parquet", index=False, row_group_size=7)
        elif kind == "txt":
            part.to_csv(folder / f"{n}.txt", index=False, sep=" ")
        else:
            part.to_csv(folder / f"{n}.csv", index=False)
    return folder


def graph_of(nodes, edges, weight=None, **options) -> Graph:
    return Graph.from_dataframes(
        nodes, edges, id="name", source="from", target="to", weight=weight, **options
    )


# --- filtered features ----------------------------------------------------------------------------

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
    columns = FeatureRows(graph.features, preprocessor).columns(slice(None))
    return propagate(
        MemoryOperator(graph, polynomial.self_loops), polynomial, columns.astype(dtype)
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its name."""
    names = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def filling_disk(n_writes: int) -> Callable[[int], None]:
    """What stands in for ``os.fsync`` on a disk that is full after so many writes."""
    real, n_left = os.fsync, [n_writes]

    def fsync(handle: int) -> None:
        n_left[0] -= 1
        if n_left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    return fsync
