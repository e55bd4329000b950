"""APPNP against its formula, another library's layer, and its authors' rule of when to stop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import nodegp
from helpers import hide, random_graph, smooth_classes
from nodegp import Graph
from nodegp_paper.baselines import APPNP, appnp
from nodegp_paper.baselines.base import Labels
from nodegp_paper.baselines.network import dropped, glorot
from nodegp_paper.baselines.sparse import SparseMatrix, normalised_adjacency, row_normalised
from nodegp_paper.datasets import random_split

GRAPH = random_graph(24, 5)  # some of its nodes are isolated
TRUTH = smooth_classes(GRAPH)
SHOWN = np.arange(0, 24, 2)
Y = hide(TRUTH, SHOWN)
Y_VAL = hide(TRUTH, np.arange(1, 24, 4))


def propagation(graph: Graph, teleport: float, steps: int) -> appnp.Propagation:
    adjacency = SparseMatrix(normalised_adjacency(graph), torch.float64)
    return appnp.Propagation(adjacency, teleport, steps)


def start(n_in: int, n_out: int, rng: torch.Generator) -> torch.Tensor:
    return glorot(n_in, n_out, rng).double()


# --- propagation ------------------------------------------------------------------------------


def test_two_steps_on_three_nodes_by_hand():
    """A chain 0 - 1 - 2 with self-loops: degrees 2, 3, 2."""
    chain = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    own = [6.0, 0.0, 0.0]  # only the first node says anything
    middle = 1.0 / np.sqrt(6.0)
    first = [0.75 * 3.0 + 1.5, 0.75 * middle * 6.0, 0.0]
    second = [
        0.75 * (first[0] / 2 + middle * first[1]) + 1.5,
        0.75 * (middle * first[0] + first[1] / 3),
        0.75 * middle * first[1],
    ]
    local = torch.tensor(own, dtype=torch.float64)[:, None]
    found = propagation(chain, 0.25, 2).of(local).ravel().tolist()
    assert found == pytest.approx(second)


def test_many_steps_are_personalised_pagerank():
    """The limit is a (I - (1 - a) Â)^-1 H, Eq. 4."""
    local = np.random.default_rng(0).normal(size=(24, 3))
    dense = normalised_adjacency(GRAPH).toarray()
    limit = 0.2 * np.linalg.solve(np.eye(24) - 0.8 * dense, local)
    found = propagation(GRAPH, 0.2, 200).of(torch.tensor(local))
    np.testing.assert_allclose(found, limit, atol=1e-12)


@pytest.mark.parametrize(("teleport", "steps"), [(0.1, 10), (0.4, 3), (0.0, 1), (0.3, 0)])
def test_propagation_against_torch_geometric(teleport, steps):
    layers = pytest.importorskip("torch_geometric.nn")
    edges = np.array(GRAPH.adjacency.nonzero())
    local = torch.randn(24, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    theirs = layers.APPNP(steps, teleport)(local, torch.tensor(edges, dtype=torch.int64))
    torch.testing.assert_close(propagation(GRAPH, teleport, steps).of(local), theirs)


def test_every_step_has_edges_of_its_own():
    chain = Graph(np.array([[0, 1], [1, 0]]))
    local = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    half = propagation(chain, 0.5, 2)
    edges = torch.zeros(2, 4, dtype=torch.float64)
    torch.testing.assert_close(half.of(local, edges), 0.5 * local)  # nothing passes
    edges[1] = half.adjacency.values  # all 1/2; only the second step passes anything on
    torch.testing.assert_close(half.of(local, edges).ravel().tolist(), [0.625, 0.125])


# --- training ---------------------------------------------------------------------------------


def test_the_network_against_dense_matrices():
    model = APPNP(hidden=4, fixed_epochs=3, random_state=0).fit(GRAPH, Y)
    first, second = (weight.astype(float) for weight in model.weights_)
    local = np.maximum(row_normalised(GRAPH.features).toarray() @ first, 0.0) @ second
    dense, logits = normalised_adjacency(GRAPH).toarray(), local
    for _ in range(10):
        logits = 0.9 * dense @ logits + 0.1 * local
    odds = np.exp(logits)
    np.testing.assert_allclose(model.proba_, odds / odds.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_against_finite_differences(seed):
    rng = torch.Generator().manual_seed(seed)
    spread = propagation(GRAPH, 0.2, 3)
    features = SparseMatrix(row_normalised(GRAPH.features), torch.float64)
    labels = Labels(SHOWN, TRUTH[SHOWN])
    weights = appnp.Weights(start(5, 4, rng), start(4, 3, rng))
    parts = features.values, torch.ones(24, 4), spread.adjacency.values.expand(3, -1)
    drawn = appnp.Dropout(*(dropped(part, 0.4, rng).double() for part in parts))
    before = [part.clone() for part in drawn]

    def loss() -> float:
        hidden = features.product(weights.first, drawn.inputs).relu() * drawn.hidden
        logits = spread.of(hidden @ weights.second, drawn.edges)[SHOWN]
        return float(F.cross_entropy(logits, torch.tensor(TRUTH[SHOWN])))

    found = appnp.gradients(weights, spread, features, labels, drawn)
    for weight, gradient in zip(weights, found, strict=True):
        for place in np.ndindex(*weight.shape):
            weight[place] += 1e-5
            up = loss()
            weight[place] -= 2e-5
            slope = (up - loss()) / 2e-5
            weight[place] += 1e-5
            assert float(gradient[place]) == pytest.approx(slope, abs=1e-8)
    for old, new in zip(before, drawn, strict=True):  # what it was given is as it was
        torch.testing.assert_close(old, new)


def test_the_epochs_are_those_of_adam_on_dense_matrices():
    model = APPNP(dropout=0.0, fixed_epochs=25, random_state=0).fit(GRAPH, Y)
    rng = torch.Generator().manual_seed(int(np.random.default_rng(0).integers(2**63)))
    first, second = start(5, 64, rng).requires_grad_(), start(64, 3, rng).requires_grad_()
    A = torch.tensor(normalised_adjacency(GRAPH).toarray())
    X = torch.tensor(row_normalised(GRAPH.features).toarray())
    spread = torch.linalg.matrix_power(0.9 * A, 10)
    spread = spread + 0.1 * sum(torch.linalg.matrix_power(0.9 * A, k) for k in range(10))
    optimiser = torch.optim.Adam([first, second], lr=0.01)
    for _ in range(25):
        optimiser.zero_grad()
        logits = spread @ (X @ first).relu() @ second
        penalty = 0.5 * 5e-3 * first.square().sum()
        (F.cross_entropy(logits[SHOWN], torch.tensor(TRUTH[SHOWN])) + penalty).backward()
        optimiser.step()
    np.testing.assert_allclose(model.weights_[0], first.detach(), rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.weights_[1], second.detach(), rtol=0, atol=1e-4)


def test_the_validation_loss_includes_the_weight_decay():
    model = APPNP(epochs=1, weight_decay=0.3, random_state=0).fit(GRAPH, Y, y_val=Y_VAL)
    asked = np.flatnonzero(Y_VAL >= 0)
    fit = -np.log(model.proba_[asked, Y_VAL[asked]]).mean()
    penalty = 0.15 * (model.weights_[0].astype(float) ** 2).sum()
    assert model.validation_loss_ == [pytest.approx(fit + penalty, abs=1e-5)]


def kept_and_stopped(seen: list[tuple[float, float]], patience: int) -> tuple[int, int]:
    """The epoch whose weights are kept and the last one run, by going through the rule in words."""
    waiting = 0
    for epoch, (accuracy, loss) in enumerate(seen, 1):
        before = seen[: epoch - 1]
        as_good = not before or accuracy >= max(a for a, _ in before)
        as_low = not before or loss <= min(x for _, x in before)
        waiting = 0 if as_good or as_low else waiting + 1
        if waiting == patience:
            break
    run = seen[:epoch]
    return max(range(epoch), key=lambda e: (run[e][0], -run[e][1])) + 1, epoch


def test_early_stopping_follows_the_authors_rule():
    rng = np.random.default_rng(0)
    weights = appnp.Weights(torch.zeros(1, 1), torch.zeros(1, 1))
    for _ in range(50):
        seen = [(round(a, 1), x) for a, x in zip(rng.random(60), rng.random(60), strict=True)]
        best = appnp.Best()
        for epoch, (accuracy, loss) in enumerate(seen, 1):
            best.see(epoch, accuracy, loss, weights)
            if epoch - best.last_gain >= 5:
                break
        assert (best.epoch, epoch) == kept_and_stopped(seen, 5)


def test_the_best_weights_are_kept_not_the_last():
    noise = np.where(Y == -1, np.random.default_rng(0).integers(3, size=24), -1)
    settings = {"learning_rate": 0.1, "random_state": 0}
    model = APPNP(**settings, patience=20).fit(GRAPH, Y, y_val=noise)
    assert model.best_epoch_ < model.n_iter_ == len(model.validation_loss_) < 10_000
    # Validation labels choose the epoch and nothing else.
    shorter = APPNP(**settings, fixed_epochs=model.best_epoch_).fit(GRAPH, Y)
    np.testing.assert_array_equal(shorter.proba_, model.proba_)
    assert shorter.best_epoch_ == shorter.n_iter_ == model.best_epoch_
    assert APPNP(**settings, patience=None, epochs=150).fit(GRAPH, Y, y_val=noise).n_iter_ == 150


@pytest.mark.parametrize(
    "bad",
    [{"teleport": 1.0}, {"teleport": -0.1}, {"steps": -1}, {"steps": 2.5}, {"fixed_epochs": 0}],
    ids=str,
)
def test_bad_settings_are_named(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=f"{name} must be a"):
        APPNP(**bad).fit(GRAPH, Y)


def test_accuracy_on_cora():
    """On a random split, which leaves the public test nodes alone."""
    data = nodegp.load_dataset("cora")
    split = random_split(data, 20, seed=1)
    model = APPNP(fixed_epochs=150, random_state=0).fit(data.graph, hide(data.y, split["train"]))
    assert model.score(data.graph, hide(data.y, split["test"])) >= 0.79
