"""The graph convolutional network: its gradients, its stopping rule, and what it draws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from helpers import hide, random_graph, smooth_classes
from nodegp import Graph
from nodegp_paper.baselines import GCN, gcn
from nodegp_paper.baselines.network import has_risen
from nodegp_paper.baselines.sparse import SparseMatrix, normalised_adjacency, row_normalised

GRAPH = random_graph()  # some of its nodes are isolated
TRUTH = smooth_classes(GRAPH)
SHOWN = np.arange(0, 24, 2)
Y = hide(TRUTH, SHOWN)
Y_VAL = hide(TRUTH, np.arange(1, 24, 4))


# --- the graph convolutional network ----------------------------------------------------------


def problem(seed: int = 0):
    """Weights, the field of six labelled nodes, their classes, and dropped values, in float64."""
    graph = random_graph(24, 5, seed, p=0.15)
    rng = torch.Generator().manual_seed(seed)
    draw = {"dtype": torch.float64, "generator": rng}
    weights = gcn.Weights(torch.randn(5, 4, **draw), torch.randn(4, 3, **draw))
    nodes = np.array([1, 5, 8, 13, 20, 23])
    matrices = normalised_adjacency(graph), row_normalised(graph.features)
    field = gcn.Field.of(*matrices, nodes, dtype=torch.float64)
    targets = torch.tensor([0, 2, 1, 1, 0, 2])
    inputs = gcn.dropped(field.features.values, 0.4, rng)
    kept = gcn.dropped(torch.ones(len(field.near), 4, dtype=torch.float64), 0.5, rng)
    return weights, field, targets, inputs, kept


def test_the_network_against_dense_matrices():
    graph = Graph(np.abs(random_graph(40, 6).adjacency * 1.7), np.abs(random_graph(40, 6).features))
    y = hide(np.arange(40) % 3, np.arange(0, 40, 2))
    model = GCN(random_state=0, epochs=20).fit(graph, y)
    A = graph.adjacency.toarray() + np.eye(40)
    A /= np.sqrt(np.outer(A.sum(axis=1), A.sum(axis=1)))
    X = graph.features / graph.features.sum(axis=1, keepdims=True)
    first, second = model.weights_
    assert (first.shape, second.shape, first.dtype) == ((6, 16), (16, 3), np.float32)
    logits = A @ np.maximum(A @ X @ first, 0.0) @ second
    odds = np.exp(logits)
    expected = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(), expected, rtol=0, atol=1e-6)


def test_a_field_holds_all_that_its_nodes_depend_on():
    graph = random_graph(24, 5)
    matrices = normalised_adjacency(graph), row_normalised(graph.features)
    rng = torch.Generator().manual_seed(0)
    weights = gcn.Weights(gcn.glorot(5, 4, rng), gcn.glorot(4, 3, rng))
    nodes = np.array([3, 17, 4])
    everywhere = gcn.forward(weights, gcn.Field.of_all(*matrices))
    here = gcn.forward(weights, gcn.Field.of(*matrices, nodes))
    torch.testing.assert_close(here, everywhere[nodes])


@pytest.mark.parametrize("seed", range(3))
def test_gradients_against_finite_differences(seed):
    weights, field, targets, inputs, kept = problem(seed)

    class Loss(torch.autograd.Function):
        """The loss by its formula, with the gradients that training uses."""

        @staticmethod
        def forward(ctx, first, second):
            ctx.save_for_backward(first, second)
            hidden = field.inner.product(field.features.product(first, inputs)).relu() * kept
            return F.cross_entropy(field.outer.product(hidden @ second), targets)

        @staticmethod
        def backward(ctx, grad):
            found = gcn.gradients(gcn.Weights(*ctx.saved_tensors), field, targets, inputs, kept)
            return tuple(grad * gradient for gradient in found)

    with_gradients = [weight.requires_grad_() for weight in weights]
    assert torch.autograd.gradcheck(Loss.apply, with_gradients)


def test_gradients_change_nothing_they_are_given():
    weights, field, targets, inputs, kept = problem()
    before = inputs.clone(), kept.clone(), field.features.values.clone()
    gcn.gradients(weights, field, targets, inputs, kept)
    for old, new in zip(before, (inputs, kept, field.features.values), strict=True):
        torch.testing.assert_close(old, new)


def test_products_with_a_sparse_matrix():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.4)
    matrix = SparseMatrix(sp.csr_array(dense), torch.float64)
    right, left = torch.tensor(rng.normal(size=(5, 3))), torch.tensor(rng.normal(size=(7, 3)))
    np.testing.assert_allclose(matrix.product(right), dense @ right.numpy())
    np.testing.assert_allclose(matrix.transposed_product(left), dense.T @ left.numpy())
    doubled = 2.0 * matrix.values
    np.testing.assert_allclose(matrix.product(right, doubled), 2.0 * dense @ right.numpy())
    twice = matrix.transposed_product(left, doubled)
    np.testing.assert_allclose(twice, 2.0 * dense.T @ left.numpy())


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_dropout_keeps_its_share_and_the_mean(rate):
    rng = torch.Generator().manual_seed(0)
    values = gcn.dropped(torch.ones(100_001), rate, rng)
    assert float((values == 0).double().mean()) == pytest.approx(rate, abs=0.006)
    assert values.unique().tolist() == pytest.approx([0.0, 1.0 / (1.0 - rate)], rel=1e-3)
    neighbours = torch.corrcoef(torch.stack([values[:-1], values[1:]]))[0, 1]
    assert abs(float(neighbours)) < 0.015
    assert gcn.dropped(values, 0.0, rng) is values


def test_the_epochs_are_those_of_adam_on_the_whole_graph():
    """Without dropout, training is plain: torch's own gradients on dense matrices agree."""
    y = np.where(Y == -1, -1, Y)
    model = GCN(dropout=0.0, epochs=25, random_state=0).fit(GRAPH, y)
    rng = torch.Generator().manual_seed(int(np.random.default_rng(0).integers(2**63)))
    first, second = gcn.glorot(3, 16, rng).requires_grad_(), gcn.glorot(16, 3, rng).requires_grad_()
    A = torch.tensor(normalised_adjacency(GRAPH).toarray(), dtype=torch.float32)
    X = torch.tensor(row_normalised(GRAPH.features).toarray(), dtype=torch.float32)
    optimiser = torch.optim.Adam([first, second], lr=0.01)
    for _ in range(25):
        optimiser.zero_grad()
        logits = A @ (A @ X @ first).relu() @ second
        penalty = 0.5 * 5e-4 * first.square().sum()
        (F.cross_entropy(logits[SHOWN], torch.tensor(TRUTH[SHOWN])) + penalty).backward()
        optimiser.step()
    np.testing.assert_allclose(model.weights_[0], first.detach(), rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.weights_[1], second.detach(), rtol=0, atol=1e-4)


def test_early_stopping_follows_the_authors_rule():
    rng = np.random.default_rng(0)
    y_val = np.where(Y == -1, rng.integers(3, size=24), -1)  # noise: its loss soon rises
    settings = {"learning_rate": 0.1, "random_state": 0}
    model = GCN(**settings).fit(GRAPH, Y, y_val=y_val)
    loss = np.array(model.validation_loss_)
    assert len(loss) == model.n_iter_ < 200
    risen = [e > 10 and loss[e] > loss[e - 10 : e].mean() for e in range(len(loss))]
    assert risen == [False] * (len(loss) - 1) + [True]
    # Validation labels decide when to stop and nothing else.
    shorter = GCN(**settings, epochs=model.n_iter_).fit(GRAPH, Y)
    np.testing.assert_array_equal(shorter.proba_, model.proba_)
    assert GCN(**settings, patience=None).fit(GRAPH, Y, y_val=y_val).n_iter_ == 200
    assert GCN(**settings).fit(GRAPH, Y).n_iter_ == 200


def test_the_rule_compares_with_the_epochs_before():
    cases = {(3, 2, 1): False, (9, 1, 2, 1): False, (9, 1, 2, 1.6): True, (1, 2, 3): False}
    for losses, stops in cases.items():
        assert has_risen(list(losses), patience=2) is stops, losses


def test_the_validation_loss_includes_the_weight_decay():
    model = GCN(epochs=12, weight_decay=0.3, random_state=0).fit(GRAPH, Y, y_val=Y_VAL)
    asked = np.flatnonzero(Y_VAL >= 0)
    fit = -np.log(model.proba_[asked, Y_VAL[asked]]).mean()
    penalty = 0.15 * (model.weights_[0].astype(float) ** 2).sum()
    assert penalty > 0.01
    assert model.validation_loss_[-1] == pytest.approx(fit + penalty, abs=1e-5)


def test_features_without_an_entry():
    graph = Graph(GRAPH.adjacency, sp.csr_array((24, 4)))
    np.testing.assert_allclose(
        GCN(epochs=30, random_state=0).fit(graph, Y).predict_proba(), 1.0 / 3.0
    )


def test_features_with_signs_are_scaled_by_their_size():
    rows = row_normalised(np.array([[1.0, -1.0], [0.0, 0.0], [3.0, 1.0]]))
    np.testing.assert_allclose(rows.toarray(), [[0.5, -0.5], [0.0, 0.0], [0.75, 0.25]])


@pytest.mark.parametrize(
    "bad",
    [
        {"hidden": 0},
        {"hidden": 2.5},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"weight_decay": -1.0},
        {"learning_rate": "fast"},
        {"learning_rate": np.nan},
        {"epochs": 0},
        {"patience": 0},
    ],
    ids=str,
)
def test_bad_settings_are_named(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=f"{name} must be a"):
        GCN(**bad).fit(GRAPH, Y)


def test_training_that_diverges_is_an_error():
    with pytest.raises(ValueError, match="diverged"):
        GCN(learning_rate=1e30, random_state=0).fit(GRAPH, Y)
