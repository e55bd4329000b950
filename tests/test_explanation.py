"""Shares of labels and neighbours in a prediction: they add up, and they make sense."""

from __future__ import annotations

import numpy as np
import pytest

import nodegp
from helpers import FIXED_RBF, hide, one_hop, random_graph, smooth_classes, smooth_scores
from nodegp import Graph, GraphGPRegressor
from nodegp.filters import Identity, PageRank, SumOfFilters
from nodegp.inducing import Points
from nodegp.kernels import Constant, Cosine, Linear
from nodegp.model import Recipe
from nodegp_paper.inference import Adam

GRAPH = random_graph(30, seed=3)
TRUTH = smooth_classes(GRAPH)
Y = hide(TRUTH, np.arange(0, 24, 2))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"filter": "identity"},
        {"likelihood": "softmax"},
        {"inducing": Points(6)},
        {"preprocessing": "standardise"},
    ],
)
def test_shares_add_up_to_the_latent_mean(settings):
    model = one_hop(**{"kernel": FIXED_RBF, "random_state": 0, **settings})
    model.fit(GRAPH, Y)
    for node in (0, 7, 29):
        found = model.explain(node)
        mean = model.predict_latent(nodes=[node])[0][0]
        assert found.latent_mean == pytest.approx(mean, abs=1e-9)
        assert found.from_labels.sum(0) + found.common + found.rest == pytest.approx(mean, abs=1e-9)
        assert np.abs(found.rest).max() < 1e-6  # the labels say it all
        assert found.from_neighbours.sum(0) == pytest.approx(mean, abs=1e-9)


def test_neighbours_are_the_filters():
    model = one_hop(kernel=FIXED_RBF).fit(GRAPH, Y)
    node = int(np.argmax(GRAPH.degrees))
    linked = set(GRAPH.adjacency[[node]].indices.tolist()) | {node}
    assert set(model.explain(node).neighbours.tolist()) == linked
    alone = one_hop(kernel=FIXED_RBF, filter="identity").fit(GRAPH, Y)
    assert alone.explain(node).neighbours.tolist() == [node]


@pytest.mark.parametrize("kind", [Linear, Cosine])
def test_filtered_features_are_taken_apart_by_node(kind):
    """With a linear kernel each node's own features have a share, near by or far."""
    far = PageRank(0.2, order=4, fixed=("strength",))
    near = Linear(variance=0.5, fixed=("variance",)) + Constant(0.3, fixed=("variance",))
    kernels = (near, kind(variance=0.7, fixed=("variance",)))
    recipe = Recipe(SumOfFilters((Identity(), far)), kernels)
    model = nodegp.GraphGPClassifier(recipe, preprocessing="raw").fit(GRAPH, Y)
    F = far.weights(GRAPH, np.arange(30)).toarray()
    X = model.model_.domain().rows.materialise().dense()  # centred
    spread, weights = F @ X, model.label_weights_
    lengths = np.linalg.norm(spread, axis=1) if kind is Cosine else np.ones(30)
    for node in (0, 7, 29):
        shares = np.zeros((30, weights.shape[1]))
        for j in range(30):
            for label, weight in zip(model.labelled_, weights, strict=True):
                alike = 0.7 * F[node, j] * (X[j] @ spread[label])
                alike /= lengths[node] * lengths[label]
                if j == node:
                    alike += 0.5 * (X[node] @ X[label])
                shares[j] += alike * weight
        found = model.explain(node)
        order = np.argsort(found.neighbours)
        assert found.from_neighbours[order] == pytest.approx(shares[shares.any(1)], abs=1e-9)
        assert found.anywhere == pytest.approx(0.3 * weights.sum(0), abs=1e-9)


def test_an_optimiser_that_stopped_short_says_so():
    model = one_hop(kernel=FIXED_RBF, engine=Adam(max_iter=50, tol=0)).fit(GRAPH, Y)
    found = model.explain(3)
    whole = found.from_labels.sum(0) + found.common + found.rest
    assert whole == pytest.approx(found.latent_mean)
    assert np.abs(found.rest).max() > 1e-4


def test_a_label_speaks_for_its_class_at_its_own_node():
    model = one_hop(kernel=FIXED_RBF, filter="identity").fit(GRAPH, Y)
    for position, node in enumerate(model.labelled_):
        own = model.explain(int(node)).from_labels[position]
        assert model.classes_[own.argmax()] == TRUTH[node]
        assert own.max() > 0


def test_likeness_to_all_labels_alike_is_kept_apart():
    """A large constant in the kernel changes the common part alone."""
    A = np.kron(np.eye(2), np.ones((4, 4)) - np.eye(4))
    X = np.repeat(np.eye(2), 4, axis=0)
    y = np.full(8, -1)
    y[[0, 4]] = 0, 1
    small, large = (
        one_hop(kernel=FIXED_RBF + Constant(c, fixed=("variance",))).fit(Graph(A, X), y)
        for c in (0.01, 1000.0)
    )
    first, second = small.explain(1), large.explain(1)
    assert first.from_labels == pytest.approx(second.from_labels, abs=0.05)
    assert (first.from_labels[:, 0] > 0).all()  # like its own, unlike the other
    assert (first.from_labels[:, 1] < 0).all()


def test_new_nodes_regression_and_saved_models(tmp_path):
    larger = random_graph(35, seed=3)
    model = one_hop(kernel=FIXED_RBF, inducing=Points(5), random_state=0).fit(GRAPH, Y)
    found = model.explain(34, larger)
    assert found.latent_mean == pytest.approx(model.predict_latent(larger, [34])[0][0])
    model.save(tmp_path / "whole", include_graph=True)
    model.save(tmp_path / "bare")
    again = nodegp.load(tmp_path / "whole").explain(34, larger)
    assert np.array_equal(again.from_labels, found.from_labels)
    with pytest.raises(ValueError, match="include_graph=True"):
        nodegp.load(tmp_path / "bare").explain(34, larger)
    target = np.where(Y >= 0, smooth_scores(GRAPH, 1)[:, 0], np.nan)
    regressor = GraphGPRegressor(kernel=FIXED_RBF).fit(GRAPH, target)
    latent = regressor.explain(5)
    in_units = (
        latent.from_labels.sum() + latent.common[0]
    ) * regressor.target_scale_ + regressor.target_mean_
    assert in_units == pytest.approx(regressor.predict(nodes=[5])[0])


def test_one_node_at_a_time():
    model = one_hop(kernel=FIXED_RBF).fit(GRAPH, Y)
    with pytest.raises(ValueError, match="one node at a time"):
        model.explain([1, 2])
    with pytest.raises(ValueError, match=r"0\.\.29"):
        model.explain(30)
