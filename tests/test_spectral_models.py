"""Spectral filters in a model: by name, saved, with new nodes, points and explanations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nodegp
from conftest import concrete
from nodegp.component import aliases
from nodegp.filters import AdditiveFilter, Filter, PageRank, Spectral
from nodegp.graph import Graph
from nodegp.inducing import Points
from nodegp.kernels import RBF, Linear

SINGLE = 1e-6  # means of a softmax are in single precision


def test_every_filter_has_a_name():
    plain = {cls for cls in concrete(Filter, "weights") if not issubclass(cls, AdditiveFilter)}
    assert set(aliases(Filter).values()) == plain - {Spectral}


def labelled_graph(seed=0, features=True):
    """Two groups that the edges tell apart better than the features do."""
    rng = np.random.default_rng(seed)
    n = 60
    y = np.repeat(["left", "right"], n // 2)
    same = y[:, None] == y
    A = np.triu(rng.random((n, n)) < np.where(same, 0.15, 0.01), 1)
    X = rng.standard_normal((n, 4)) + 0.8 * (y == "right")[:, None]
    given = np.full(n, -1, dtype=object)
    given[[0, 7, 14, 31, 38, 45]] = y[[0, 7, 14, 31, 38, 45]]
    return Graph(A | A.T, X if features else None), given, y


def test_features_and_function_agree_for_a_linear_kernel():
    graph, given, _ = labelled_graph()
    models = [
        nodegp.GraphGPClassifier(filter=PageRank(0.1, on=on, fixed="strength"), kernel=kernel).fit(
            graph, given
        )
        for kernel in (Linear(), RBF())
        for on in ("features", "function")
    ]
    linear, linear_function, rbf, rbf_function = (model.predict_proba() for model in models)
    np.testing.assert_allclose(linear, linear_function, atol=1e-6)
    assert np.abs(rbf - rbf_function).max() > 1e-3


@pytest.mark.parametrize("name", sorted(set(aliases(Filter)) - {"mean", "identity"}))
@pytest.mark.parametrize("features", [True, False])
def test_every_filter_by_name(name, features, tmp_path):
    """It fits, and answers the same after a round trip through a file."""
    graph, given, y = labelled_graph(features=features)
    model = nodegp.GraphGPClassifier(filter=name).fit(graph, given)
    if features:  # without, a short range says nothing of most nodes
        assert (model.predict() == y).mean() > 0.6
    model.save(tmp_path / "model", include_graph=True)
    again = nodegp.load(tmp_path / "model")
    assert again.filter_ == model.filter_
    np.testing.assert_allclose(again.predict_proba(), model.predict_proba(), atol=1e-12)
    for some, every in zip(
        model.predict_latent(nodes=[59, 2]), model.predict_latent(), strict=True
    ):
        np.testing.assert_allclose(some, every[[59, 2]], atol=1e-10)
    some = model.predict_proba(nodes=[59, 2])
    np.testing.assert_allclose(some, model.predict_proba()[[59, 2]], atol=SINGLE)


@pytest.mark.parametrize("features", [True, False])
def test_new_nodes(features):
    """A new node among the right is one of them; a part of the graph apart changes nothing."""
    graph, given, _ = labelled_graph(features=features)
    model = nodegp.GraphGPClassifier(filter=PageRank(0.1)).fit(graph, given)
    right = sp.coo_array((np.ones(6), (np.zeros(6, int), np.arange(30, 36))), shape=(1, 60))
    apart = sp.block_array([[graph.adjacency, None], [None, sp.csr_array((1, 1))]])
    linked = sp.block_array([[graph.adjacency, None], [right, sp.csr_array((1, 1))]])
    X = np.vstack([graph.features, np.zeros((1, 4))]) if features else None
    beside = Graph(apart, X)
    for found, alone in zip(model.predict_latent(beside), model.predict_latent(), strict=True):
        np.testing.assert_allclose(found[:60], alone, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(beside)[:60], model.predict_proba(), atol=SINGLE)
    assert model.predict(Graph(linked, X), nodes=[60]) == ["right"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("kernel", [Linear(), RBF()], ids=repr)
def test_inducing_points_are_among_filtered_features(features, kernel):
    graph, given, y = labelled_graph(features=features)
    model = nodegp.GraphGPClassifier(
        filter=PageRank(0.1), kernel=kernel, inducing=Points(6), random_state=0
    )
    assert (model.fit(graph, given).predict() == y).mean() > 0.9
    points = model.posterior_.inducing.rows.values
    assert points.shape[1] == (4 if features else 60)


def test_explain_with_filtered_features():
    """h is f at the filtered features: labels share its mean, and so do nodes, by theirs."""
    graph, given, _ = labelled_graph()
    model = nodegp.GraphGPClassifier(filter="pagerank").fit(graph, given)
    found = model.explain(50)
    assert 50 in found.neighbours
    assert len(found.neighbours) > 1
    by_node = found.from_neighbours.sum(axis=0) + found.anywhere
    np.testing.assert_allclose(by_node, found.latent_mean, atol=1e-9)
    total = found.from_labels.sum(axis=0) + found.common + found.rest
    np.testing.assert_allclose(total, found.latent_mean, atol=1e-9)
