"""Shares of classes and factors of their probabilities: what they do, and that the right ones are
found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from nodegp.model.calibration import weighted
from nodegp.model.frequencies import class_factors, class_shares


def drawn(shares, n, c, spread=2.0, prior=None, seed=0):
    """Nodes whose classes have some shares, and what Bayes' rule says of them with other shares as
    the prior."""
    rng = np.random.default_rng(seed)
    y = rng.choice(c, n, p=shares)
    seen = rng.normal(size=(n, c)) + spread * np.eye(c)[y]
    proba = (np.full(c, 1 / c) if prior is None else prior) * np.exp(spread * seen)
    return proba / proba.sum(axis=1, keepdims=True), y


def balanced(per_class, c, spread=2.0, seed=1):
    """Labels left out, as many of each class, and what is said of them."""
    y = np.repeat(np.arange(c), per_class)
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(len(y), c)) + spread * np.eye(c)[y]
    proba = np.exp(spread * seen)
    return proba / proba.sum(axis=1, keepdims=True), y


def simplex(shape, seed=0, spread=2.0):
    proba = np.exp(spread * np.random.default_rng(seed).standard_normal(shape))
    return proba / proba.sum(axis=-1, keepdims=True)


def log_loss(proba, y):
    return -np.log(proba[np.arange(len(y)), y]).mean()


# --- shares of classes --------------------------------------------------------------------------

TRUTH = np.array([0.65, 0.25, 0.1])


@pytest.mark.parametrize("spread", [1.0, 1.5, 2.5])
def test_shares_move_to_the_truth_where_labels_are_balanced_and_nodes_are_not(spread):
    proba, y = drawn(TRUTH, 20_000, 3, spread)
    off, gains = [], []
    for per_class in (5, 20, 80, 2000):
        draws = [balanced(per_class, 3, spread, seed) for seed in range(10)]
        found = [class_shares(proba.mean(0), said, c, np.ones(len(c))) for said, c in draws]
        np.testing.assert_allclose(np.sum(found, axis=1), 1.0)
        off.append(np.mean([np.abs(each - TRUTH).max() for each in found]))
        losses = [log_loss(weighted(proba, 3 * each), y) for each in found]
        gains.append(log_loss(proba, y) - np.mean(losses))
    assert off == sorted(off, reverse=True), "the more labels, the nearer"
    assert off[-1] < 0.05
    assert gains == sorted(gains)
    assert gains[0] > 0


@pytest.mark.parametrize("shares", [(0.6, 0.3, 0.1), (1 / 3, 1 / 3, 1 / 3)])
@pytest.mark.parametrize("n", [100, 400])
def test_shares_of_labels_drawn_at_random_are_nearer_to_the_truth_than_their_own(shares, n):
    shares = np.array(shares)
    proba, _ = drawn(shares, 20_000, 3, prior=shares)
    shown, off, own = proba.mean(axis=0), [], []
    for seed in range(1, 31):
        said, y = drawn(shares, n, 3, prior=shares, seed=seed)
        off.append(np.abs(class_shares(shown, said, y, np.ones(n)) - shares).max())
        own.append(np.abs(np.bincount(y) / n - shares).max())
    assert np.mean(off) < 0.9 * np.mean(own)


def test_predictions_that_say_nothing_move_nothing():
    """The same everywhere, and a little above the labels' shares for one class."""
    even, y = np.full(4, 0.25), np.repeat(np.arange(4), 5)
    said = np.tile([0.28, 0.24, 0.24, 0.24], (20, 1))
    found = class_shares(said[0], said, y, np.ones(20))
    assert found == pytest.approx(even, abs=1e-3)


def test_a_class_without_labels_has_no_share_and_no_class_vanishes():
    said, y = balanced(20, 3, spread=3.0)
    said, y = said[y != 1], y[y != 1]
    found = class_shares(np.array([0.98, 0.01, 0.01]), said, y, np.ones(40))
    assert found[1] == 0
    assert found.sum() == pytest.approx(1.0)
    assert found[0] > 0.7
    assert found[2] >= 0.04
    assert class_shares(np.full(3, 1 / 3), said[:1], y[:1], np.ones(1)).tolist() == [1, 0, 0]


@given(c=st.integers(2, 5), per_class=st.integers(1, 12), seed=st.integers(0, 500))
def test_shares_are_the_least_squares_of_their_docstring(c, per_class, seed):
    """By a general minimiser; classes may have other names, and confidences count."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(c), rng.integers(0, c, per_class * c - c)])
    said, shown = simplex((len(y), c), seed), rng.dirichlet(np.full(c, 8.0))
    sure = rng.uniform(0.3, 1.0, len(y))
    found = class_shares(shown, said, y, sure)
    own = np.array([sure[y == k].sum() for k in range(c)]) / sure.sum()
    taken = np.array([sure[y == k] @ said[y == k] + own for k in range(c)])
    taken /= taken.sum(axis=1, keepdims=True)

    def squares(q):
        return (
            len(y) * (((shown - q @ taken) ** 2) / shown).sum()
            + 15 * (((q - own) ** 2) / own).sum()
        )

    one = {"type": "eq", "fun": lambda q: q.sum() - 1}
    least = minimize(squares, own, constraints=one, tol=1e-14, options={"maxiter": 500}).x
    least = np.maximum(least, 0.1 * own)
    assert found == pytest.approx(least / least.sum(), abs=1e-4)
    names = rng.permutation(c)
    renamed = class_shares(shown[names], said[:, names], np.argsort(names)[y], sure)
    assert renamed == pytest.approx(found[names], abs=1e-9)


# --- factors ------------------------------------------------------------------------------------


def test_factors_set_right_what_is_said_too_often():
    said, y = balanced(2000, 3, spread=1.5)
    tilt = np.array([0.5, 1.0, 2.0])
    found, _ = class_factors(weighted(said, tilt)[None], y, np.ones(len(y)), 1.0)
    assert found * tilt == pytest.approx(np.ones(3), rel=0.1)
    assert found.prod() == pytest.approx(1.0)
    few, _ = class_factors(weighted(said, tilt)[None, ::400], y[::400], np.ones(15), 1.0)
    assert np.abs(np.log(few)).max() < 0.3 * np.abs(np.log(found)).max()


def test_labels_that_do_not_count_move_no_factor():
    said, y = balanced(3, 3)
    found, others = class_factors(said[None], y, np.zeros(9), 1.0)
    assert found == pytest.approx(np.ones(3))
    assert others == pytest.approx(np.ones((9, 3)))


@given(
    n=st.integers(1, 12),
    c=st.integers(2, 4),
    temperature=st.floats(0.2, 3.0),
    seed=st.integers(0, 500),
)
def test_factors_are_the_most_likely_ones(n, c, temperature, seed):
    """The labels' probability with the prior, in plain loops, is no higher anywhere near."""
    rng = np.random.default_rng(seed)
    said, y, sure = simplex((2, n, c), seed), rng.integers(0, c, n), rng.uniform(0.2, 1.0, n)
    found, _ = class_factors(said, y, sure, temperature)

    def likely(shift):
        total = -0.5 * sum(b * b for b in shift) / 0.15**2
        for turn in said:
            for k in range(n):
                powered = turn[k] ** (1 / temperature) * np.exp(shift)
                total += sure[k] * np.log(powered[y[k]] / powered.sum()) / 2
        return total

    best = likely(np.log(found))
    for _ in range(10):
        assert likely(np.log(found) + 0.05 * rng.standard_normal(c)) <= best + 1e-9


def test_factors_without_a_label_are_nearly_those_of_the_others():
    said, y = balanced(6, 3, spread=1.0)
    found, others = class_factors(said[None], y, np.ones(18), 0.7)
    for one in range(18):
        exact, _ = class_factors(said[None], y, (np.arange(18) != one).astype(float), 0.7)
        assert np.abs(np.log(others[one] / exact)).max() < 0.1 * np.abs(np.log(found / exact)).max()
