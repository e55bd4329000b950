"""A temperature on probabilities: what it does, and that the right one is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegp.calibration import fit_temperature, tempered


def simplex(n, c, seed=0, spread=2.0):
    logits = spread * np.random.default_rng(seed).standard_normal((n, c))
    proba = np.exp(logits)
    return proba / proba.sum(axis=1, keepdims=True)


def draw(proba, seed=0):
    """A label for each row, with the row's probabilities."""
    below = np.random.default_rng(seed).random((len(proba), 1)) > proba.cumsum(axis=1)
    return below.sum(axis=1)


def log_loss(proba, y):
    return -np.log(proba[np.arange(len(y)), y]).mean()


def test_temperature_one_changes_nothing():
    proba = simplex(5, 3)
    np.testing.assert_array_equal(tempered(proba, 1.0), proba)


def test_tempered_is_the_formula():
    proba = simplex(6, 4)
    expected = proba ** (1 / 2.5)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tempered(proba, 2.5), expected, rtol=1e-12)


def test_tempered_leaves_its_argument_alone():
    proba = simplex(6, 4)
    copy = proba.copy()
    tempered(proba, 3.0)
    np.testing.assert_array_equal(proba, copy)


@given(temperature=st.floats(0.1, 10), c=st.integers(1, 6), seed=st.integers(0, 1000))
def test_rows_sum_to_one_and_keep_their_order(temperature, c, seed):
    proba = simplex(8, c, seed)
    result = tempered(proba, temperature)
    np.testing.assert_allclose(result.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(result.argmax(axis=1), proba.argmax(axis=1))
    if temperature > 1:
        assert (result.max(axis=1) <= proba.max(axis=1) + 1e-12).all()


def test_zero_probabilities_stay_finite():
    proba = np.array([[1.0, 0.0], [0.0, 1.0]])
    for temperature in (0.1, 10.0):
        result = tempered(proba, temperature)
        assert np.isfinite(result).all()
        np.testing.assert_allclose(result.sum(axis=1), 1.0)


@pytest.mark.parametrize("true", [0.5, 1.7, 4.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_a_known_temperature_is_recovered(true, classes):
    """Labels drawn from tempered probabilities give that temperature back."""
    said = simplex(20_000, classes, spread=2.0)
    y = draw(tempered(said, true))
    assert fit_temperature(said, y) == pytest.approx(true, rel=0.06)


def test_calibrated_probabilities_are_kept():
    said = simplex(20_000, 3)
    assert fit_temperature(said, draw(said)) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_never_worse_than_no_temperature(seed):
    """Also on the handful of labels that are there in practice."""
    said = simplex(7, 3, seed)
    y = np.random.default_rng(seed).integers(0, 3, 7)
    temperature = fit_temperature(said, y)
    assert 0.1 <= temperature <= 10.0
    assert log_loss(tempered(said, temperature), y) <= log_loss(said, y)


def test_the_bounds_hold_where_the_data_would_go_further():
    n = 100_000
    sure = np.tile([0.6, 0.4], (n, 1))
    assert fit_temperature(sure, np.zeros(n, dtype=int)) == pytest.approx(0.1, rel=0.01)
    assert fit_temperature(sure, np.ones(n, dtype=int)) == pytest.approx(10.0, rel=0.01)


@pytest.mark.parametrize("label", [0, 1])
def test_few_labels_move_it_less_than_many(label):
    """All right or all wrong: the same evidence, but three of it are not three hundred."""
    steps = [
        abs(np.log(fit_temperature(np.tile([0.6, 0.4], (n, 1)), np.full(n, label))))
        for n in (3, 30, 300)
    ]
    assert 0 < steps[0] < steps[1] < steps[2]
    assert steps[0] < np.log(2.5)


def test_no_labels():
    assert fit_temperature(np.zeros((0, 3)), np.zeros(0, dtype=int)) == 1.0


def test_one_class():
    assert fit_temperature(np.ones((4, 1)), np.zeros(4, dtype=int)) == 1.0
    np.testing.assert_array_equal(tempered(np.ones((4, 1)), 2.0), np.ones((4, 1)))
