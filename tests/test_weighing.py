"""What views of a graph are worth: least squares without a group of labels, against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nodegp.model import weighing
from nodegp.model.groups import STAY, dealt_groups
from nodegp.model.unseen import Pooled, pooled_scores, without_own_say
from nodegp.model.weighing import AMPLITUDES, left_out_scores, ridge_inverses, weigh_numbers

PENALTY_AT, PENALTY_STD, POWER = 0.3, 1.0, 0.4


def covariance(features, told=1.0):
    """Linear, with variances of one on average."""
    K = told * features @ features.T
    return K / K.diagonal().mean()


def views(y, seed=0, noise=0.7):
    """Three views of labelled nodes: one that shows the class, one that shows half, and noise."""
    rng = np.random.default_rng(seed)
    c = y.max() + 1
    right = np.eye(c)[y] - 1 / c + noise * rng.normal(size=(len(y), c)) / np.sqrt(c)
    wrong = rng.normal(size=(len(y), 6))
    half = right + 1.5 * rng.normal(size=right.shape)
    return torch.from_numpy(np.stack([covariance(each) for each in (right, half, wrong)]))


def weigh(kernels, y, shares, variance, bias):
    c = int(y.max()) + 1
    return weighing.weigh(kernels, ridge_inverses(kernels, c, variance, bias), y, c, shares)


def scores_by_loops(K, y, c, groups):
    """Ridge regression on indicators, fitted again without each group."""
    noise, result = c**2 / (c - 1), np.full((len(y), c), np.nan)
    for group in set(groups[groups >= 0].tolist()):
        inside, rest = np.flatnonzero(groups == group), np.flatnonzero(groups != group)
        for n in inside:
            weights = np.linalg.solve(K[np.ix_(rest, rest)] + noise * np.eye(len(rest)), K[rest, n])
            for k in range(c):
                result[n, k] = sum(
                    w * ((y[j] == k) - 1 / c) for w, j in zip(weights, rest, strict=True)
                )
    return result


@given(seed=st.integers(0, 1000), c=st.integers(2, 4), n=st.integers(4, 14))
def test_scores_are_those_of_fits_without_the_group(seed, c, n):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, n)
    features = rng.normal(size=(2, n, 3))
    kernels = torch.from_numpy(features @ features.transpose(0, 2, 1)) + 0.3
    groups = rng.integers(-1, 4, n)
    inverses = torch.linalg.inv(kernels + c**2 / (c - 1) * torch.eye(n, dtype=torch.float64))
    found = left_out_scores(inverses, y, c, [groups])[0].numpy()
    out = groups >= 0
    for K, scores in zip(kernels.numpy(), found, strict=True):
        assert scores[out] == pytest.approx(scores_by_loops(K, y, c, groups)[out], abs=1e-8)


def losses_by_loops(scores, y):
    """The log loss of softmax of the scores at the one scale that suits them best, with a penalty
    for scales that are not usual; without the penalty."""
    spread = np.sqrt(np.mean((scores - scores.mean()) ** 2))
    best = None
    for log_scale in np.linspace(-4.0, 2.5, 27):
        loss = 0.0
        for row, k in zip(scores * np.exp(log_scale) / spread, y, strict=True):
            loss += np.log(np.exp(row - row[k]).sum())
        total = loss + 0.5 * ((log_scale - PENALTY_AT) / PENALTY_STD) ** 2
        if best is None or total < best[0]:
            best = total, loss
    return best[1]


@pytest.mark.parametrize("per_class", [2, 6])
@pytest.mark.parametrize("seed", range(3))
def test_weights_by_plain_loops(per_class, seed):
    y = np.repeat([0, 1, 2], per_class)
    kernels, shares = views(y, seed), np.array([0.2, 0.5, 0.3])
    variance, bias = 1.75, 0.6
    found = weigh(kernels, y, shares, variance, bias)
    order = kernels.numpy().mean(0).sum(1)
    losses = np.zeros((3, 2))
    for v in range(3):
        for a, amplitude in enumerate(AMPLITUDES):
            K = amplitude * variance * kernels[v].numpy() + bias
            for turn in range(2):
                scores = scores_by_loops(K, y, 3, dealt_groups(y, order, turn))
                losses[v, a] += losses_by_loops(scores, y) / 2
    unnormed = np.exp(-POWER * (losses - losses.min())) * np.outer(shares, [0.8, 0.2])
    expected = unnormed / unnormed.sum()
    assert found.views == pytest.approx(expected.sum(1), rel=1e-6)
    logs = expected.sum(0) @ np.log(AMPLITUDES)
    assert found.amplitude == pytest.approx(np.exp(logs))
    assert found.log_losses == pytest.approx(losses.min(1) / len(y))


@pytest.mark.parametrize("seed", range(4))
def test_the_view_that_is_right_wins(seed):
    y = np.repeat([0, 1, 2], 10)
    even = np.ones(3)
    found = weigh(views(y, seed), y, even, 1.75, 0.6)
    assert found.views.argmax() == 0
    assert found.views[0] > 0.8
    assert found.views[2] < 0.01
    assert found.log_losses.argmin() == 0
    assert found.views.sum() == pytest.approx(1.0)
    assert AMPLITUDES[0] <= found.amplitude <= AMPLITUDES[-1]
    few = weigh(views(y[::5], seed), y[::5], even, 1.75, 0.6)
    assert few.views[0] < found.views[0], "two labels of each class say less than ten"


# --- what labels left out would be told without a say in the weights ----------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("labels", [[0, 1, 2] * 4, [0, 0, 0, 1, 1, 1, 1, 2]])
def test_pooled_scores_by_plain_loops(labels, seed):
    y = np.sort(labels)
    kernels, shares, variance, bias = views(y, seed), np.array([0.2, 0.5, 0.3]), 1.75, 0.6
    found = weigh(kernels, y, shares, variance, bias).pooled
    order = kernels.numpy().mean(0).sum(1)
    turns = [dealt_groups(y, order, turn) for turn in range(2)]
    cases = [(v, a) for a in range(2) for v in range(3)]
    start = np.array([shares[v] * (0.8, 0.2)[a] for v, a in cases])
    scores = np.zeros((2, 6, len(y), 3))
    for turn, groups in enumerate(turns):
        for at, (v, a) in enumerate(cases):
            K = AMPLITUDES[a] * variance * kernels[v] + bias
            inverse = torch.linalg.inv(K + 4.5 * torch.eye(len(y), dtype=torch.float64))
            scores[turn, at] = left_out_scores(inverse[None], y, 3, [groups])[0, 0].numpy()
    judged = turns[0] != STAY
    losses = np.zeros((6, len(y)))  # of each label, at the scale that suits all of them
    for each in scores:
        for at in range(6):
            losses[at, judged] += losses_of_labels(each[at][judged], y[judged]) / 2

    def weights(counted):
        unnormed = start * np.exp(-POWER * losses[:, counted].sum(axis=1))
        return unnormed / unnormed.sum()

    for n in range(len(y)):
        by_all, by_others = np.zeros((2, 3))
        for turn, groups in enumerate(turns):
            others = groups != groups[n] if judged[n] else judged | True
            by_all += weights(judged | True) @ scores[turn, :, n] / 2
            by_others += weights(others) @ scores[turn, :, n] / 2
        assert found.by_all[n] == pytest.approx(by_all)
        assert found.by_others[n] == pytest.approx(by_others)


def losses_of_labels(scores, y):
    """As `losses_by_loops` has them in sum."""
    spread = np.sqrt(np.mean((scores - scores.mean()) ** 2))
    best = None
    for log_scale in np.linspace(-4.0, 2.5, 27):
        rows = scores * np.exp(log_scale) / spread
        losses = np.array([np.log(np.exp(r - r[k]).sum()) for r, k in zip(rows, y, strict=True)])
        total = losses.sum() + 0.5 * ((log_scale - PENALTY_AT) / PENALTY_STD) ** 2
        if best is None or total < best[0]:
            best = total, losses
    return best[1]


def test_views_chosen_by_luck_are_worth_nothing_to_those_that_chose_them():
    """Of many views of noise some suit the labels: by weights that a label had a say in it is
    predicted better than by chance, without its say no better than chance."""
    rng, right = np.random.default_rng(0), np.zeros(2)
    y = np.repeat([0, 1, 2], 4)
    for _ in range(60):
        noise = [covariance(rng.normal(size=(12, 3))) for _ in range(12)]
        found = weigh(torch.from_numpy(np.stack(noise)), y, np.ones(12), 1.75, 0.6).pooled
        right += [(part.argmax(axis=1) == y).mean() / 60 for part in found]
    assert right[0] > 1 / 3 + 0.05
    assert right[1] == pytest.approx(1 / 3, abs=0.05)


def test_one_view_has_all_the_say_with_or_without_a_label():
    scores = np.random.default_rng(0).normal(size=(2, 1, 6, 3))
    groups = np.array([[0, 0, 1, 1, STAY, 2], [0, 1, 1, 2, STAY, 0]])
    found = pooled_scores(scores, np.ones((1, 6)), groups, np.zeros(1), POWER)
    assert found.by_others == pytest.approx(found.by_all)
    assert found.by_all == pytest.approx(scores.mean(axis=0)[0])
    proba = np.random.default_rng(1).dirichlet(np.ones(3), (2, 6))
    assert without_own_say(proba, found) == pytest.approx(proba)


def test_probabilities_change_as_scores_do():
    """Scores that are the logs of probabilities in other units, and classes without a label."""
    rng = np.random.default_rng(0)
    logs, change = rng.normal(size=(2, 7, 3))
    proba = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    found = without_own_say(np.stack([proba, proba]), Pooled(0.1 * logs, 0.1 * (logs + change)))
    expected = np.exp(logs + change)
    expected /= expected.sum(axis=1, keepdims=True)
    assert found == pytest.approx(np.stack([expected, expected]))
    wider = np.concatenate([0.9 * proba, np.full((7, 1), 0.1)], axis=1)
    found = without_own_say(wider[None], Pooled(0.1 * logs, 0.1 * (logs + change)))[0]
    assert found.sum(axis=1) == pytest.approx(1.0)
    ratios = found[:, :3] / found[:, 3:] / (wider[:, :3] / wider[:, 3:])
    shift = change - change.mean(axis=1, keepdims=True)
    assert np.log(ratios) == pytest.approx(shift)


def test_scores_that_say_the_opposite_change_nothing():
    proba = np.random.default_rng(0).dirichlet(np.ones(3), (1, 5))
    pooled = Pooled(-np.log(proba[0]), np.random.default_rng(1).normal(size=(5, 3)))
    assert without_own_say(proba, pooled) == pytest.approx(proba)


def test_views_that_say_the_same_keep_their_shares():
    y = np.repeat([0, 1], 8)
    kernels, shares = views(y)[[0, 0, 0]], np.array([3.0, 1.0, 2.0])
    found = weigh(kernels, y, shares, 1.75, 0.6)
    assert found.views == pytest.approx(shares / 6)


@pytest.mark.parametrize("labels", [[0], [0, 1], [2, 1, 0]])
def test_one_label_of_each_class_leaves_the_shares(labels):
    y, shares = np.array(labels), np.array([0.3, 0.1, 0.2])
    kernels = torch.eye(len(y), dtype=torch.float64).expand(3, -1, -1)
    found = weigh(kernels, y, shares, 1.75, 0.6)
    assert found.views == pytest.approx(shares / 0.6)
    assert found.amplitude == 1.0
    assert found.log_losses is None


def test_a_lone_label_is_not_judged_but_helps():
    """What its class is cannot be known without it; that others are not of its class can."""
    y = np.array([0, 0, 0, 1, 1, 1, 2])
    kernels = views(y)
    found = weigh(kernels, y, np.ones(3), 1.75, 0.6)
    groups = dealt_groups(y, kernels.numpy().mean(0).sum(1))
    assert groups[-1] == STAY
    assert found.log_losses is not None
    other = kernels.clone()
    other[:, -1, -1] += 5.0  # what is known of it changes what it says of others
    assert weigh(other, y, np.ones(3), 1.75, 0.6).views != pytest.approx(found.views, rel=1e-6)


def test_one_class_in_all_is_no_error():
    y = np.zeros(5, dtype=int)
    found = weigh(torch.eye(5, dtype=torch.float64).expand(2, -1, -1), y, np.ones(2), 1.75, 0.6)
    assert np.isfinite(found.views).all()
    assert found.views.sum() == pytest.approx(1.0)


@given(seed=st.integers(0, 1000))
def test_weights_do_not_depend_on_the_order_of_labels_or_names_of_classes(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 5)
    kernels, moved, names = views(y, seed), rng.permutation(15), rng.permutation(3)
    found = weigh(kernels, y, np.ones(3), 1.75, 0.6)
    same = weigh(kernels[:, moved][:, :, moved], names[y][moved], np.ones(3), 1.75, 0.6)
    assert same.views == pytest.approx(found.views, rel=1e-6)
    assert same.amplitude == pytest.approx(found.amplitude, rel=1e-6)


# --- numbers -------------------------------------------------------------------------------------


def density_loss_by_loops(K, y, noise):
    """Minus the log density of each number given the others, at the scale that suits them best."""
    errors, variances = [], []
    for n in range(len(y)):
        rest = [j for j in range(len(y)) if j != n]
        noisy = K[np.ix_(rest, rest)] + noise * np.eye(len(rest))
        weights = np.linalg.solve(noisy, K[rest, n])
        errors.append(y[n] - weights @ y[rest])
        variances.append(K[n, n] + noise - weights @ K[rest, n])
    scale = np.mean([e**2 / v for e, v in zip(errors, variances, strict=True)])
    return sum(
        0.5 * (e**2 / (scale * v) + np.log(2 * np.pi * scale * v))
        for e, v in zip(errors, variances, strict=True)
    )


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_numbers_by_plain_loops(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(12, 3))
    y = features @ rng.normal(size=3) + 0.3 * rng.normal(size=12)
    y = (y - y.mean()) / y.std()
    kernels = np.stack([covariance(features), covariance(rng.normal(size=(12, 4)))])
    shares = np.array([0.4, 0.6])
    found = weigh_numbers(torch.from_numpy(kernels), y, shares)
    best = np.array(
        [min(density_loss_by_loops(K, y, s) for s in (0.03, 0.1, 0.3, 1.0, 3.0)) for K in kernels]
    )
    expected = shares * np.exp(-POWER * (best - best.min()))
    assert found.views == pytest.approx(expected / expected.sum())
    assert found.log_losses == pytest.approx(best / 12)
    assert found.views[0] > 0.5


def test_two_numbers_leave_the_shares():
    kernels, shares = torch.eye(2, dtype=torch.float64).expand(2, -1, -1), np.array([1.0, 3.0])
    found = weigh_numbers(kernels, np.array([-1.0, 1.0]), shares)
    assert found.views == pytest.approx([0.25, 0.75])
    assert found.log_losses is None
