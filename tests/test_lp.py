"""Label propagation against the dense harmonic solution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nodegp
from nodegp import Graph
from nodegp_paper.baselines import LabelPropagation, lp

# --- label propagation ------------------------------------------------------------------------


def test_propagation_on_three_nodes_by_hand():
    # 0 --1-- 1 --3-- 2, labels at both ends: node 1 is 1/4 the first class, 3/4 the second.
    graph = Graph(np.array([[0, 1, 0], [1, 0, 3], [0, 3, 0]]))
    y = ["a", None, "b"]
    plain = LabelPropagation(mass_normalisation=False).fit(graph, y)
    np.testing.assert_allclose(plain.predict_proba(), [[1, 0], [0.25, 0.75], [0, 1]])
    # One label each, so equal shares: the masses 1/4 and 3/4 of the one free node even out.
    even = LabelPropagation().fit(graph, y)
    np.testing.assert_allclose(even.predict_proba(), [[1, 0], [0.5, 0.5], [0, 1]])


def dense_harmonic(graph: Graph, y: np.ndarray, n_classes: int, normalise: bool) -> np.ndarray:
    """The linear system with everything dense, one node and class at a time where it matters."""
    W = graph.adjacency.toarray()
    proportion = np.array([(y == c).sum() + 1.0 for c in range(n_classes)])
    proba = np.tile(proportion / proportion.sum(), (len(y), 1))
    reached = np.linalg.matrix_power((W > 0) + np.eye(len(y)), len(y))[:, y >= 0].any(axis=1)
    labelled, free = np.flatnonzero(y >= 0), np.flatnonzero(reached & (y < 0))
    proba[labelled] = np.eye(n_classes)[y[labelled]]
    laplacian = np.diag(W.sum(axis=1)) - W
    known = W[np.ix_(free, labelled)] @ proba[labelled]
    f = np.linalg.solve(laplacian[np.ix_(free, free)], known)
    if normalise:
        for c in range(n_classes):
            f[:, c] *= proportion[c] / f[:, c].sum() if (y[labelled] == c).any() else 0.0
        f = np.nan_to_num(f)  # a class whose labels have no free neighbour
    proba[free] = f / f.sum(axis=1, keepdims=True)
    return proba


@st.composite
def labelled_graphs(draw):
    seed = draw(st.integers(0, 10_000))
    n_nodes, n_classes = draw(st.integers(2, 30)), draw(st.integers(1, 4))
    density = draw(st.sampled_from([0.03, 0.1, 0.4]))  # the first two leave it disconnected
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 4.0, (n_nodes, n_nodes)) * (rng.random((n_nodes, n_nodes)) < density)
    y = np.where(rng.random(n_nodes) < 0.3, rng.integers(n_classes, size=n_nodes), -1)
    y[rng.integers(n_nodes)] = 0
    return Graph(np.triu(weights, 1)), y, n_classes


@pytest.mark.parametrize("solver", ["factorisation", "conjugate gradients"])
@pytest.mark.parametrize("normalise", [True, False])
@given(case=labelled_graphs())
def test_propagation_solves_its_linear_system(case, normalise, solver):
    graph, y, n_classes = case
    model = LabelPropagation(normalise)
    with pytest.MonkeyPatch.context() as patch, np.errstate(invalid="ignore", divide="ignore"):
        patch.setattr(lp, "_FACTORISE", 10**9 if solver == "factorisation" else -1)
        proba = model.fit(graph, y, classes=range(n_classes)).predict_proba()
        expected = dense_harmonic(graph, y, n_classes, normalise)
    np.testing.assert_allclose(proba, expected, rtol=0, atol=1e-8)


def test_both_solvers_agree_on_cora():
    data = nodegp.load_dataset("cora")
    y = data.labels("train")
    answers = []
    for limit in (-1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lp, "_FACTORISE", limit)
            answers.append(LabelPropagation(False).fit(data.graph, y).proba_)
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-8)


def test_nodes_that_no_label_reaches_get_the_prior():
    graph = Graph(np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))
    model = LabelPropagation().fit(graph, [1, -1, -1, -1], classes=[0, 1, 2])
    np.testing.assert_allclose(model.predict_proba()[:2], [[0, 1, 0], [0, 1, 0]])
    np.testing.assert_allclose(model.predict_proba()[2:], [[0.25, 0.5, 0.25]] * 2)


def test_weights_beyond_floating_point_are_refused():
    graph = Graph(np.array([[0, 1e-30, 0], [1e-30, 0, 1], [0, 1, 0]]))
    with pytest.raises(ValueError, match="orders of magnitude"):
        LabelPropagation().fit(graph, [0, -1, -1])
