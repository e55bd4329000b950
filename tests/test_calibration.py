"""A temperature on probabilities: what it does, and that the right one is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegp import GraphGPClassifier
from nodegp.kernels import Linear
from nodegp.model.calibration import fit_temperature, set_threshold, tempered
from nodegp_paper.datasets import synthetic


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


# --- prediction sets ----------------------------------------------------------------------------


def test_the_threshold_by_hand():
    proba = np.column_stack([np.arange(1, 20) / 20, 1 - np.arange(1, 20) / 20])
    y = np.zeros(19, dtype=int)
    # 10 % of 20 is 2: the second smallest is the least that is still let in.
    assert set_threshold(proba, y, 0.9) == pytest.approx(0.1)
    assert set_threshold(proba, y, 0.96) == 0.0  # nobody may be missed: every class is in
    with pytest.raises(ValueError, match="between 0 and 1"):
        set_threshold(proba, y, 1.0)


def test_sets_cover_what_they_promise():
    """On data like the labels; within four binomial standard errors of many draws."""
    covered, sizes, total = 0, [], 0
    for seed in range(20):
        data = synthetic(600, n_classes=3, n_features=20, homophily=0.5, seed=seed)
        shown = np.random.default_rng(seed).choice(600, 80, replace=False)
        y = np.full(600, -1)
        y[shown] = data.y[shown]
        model = GraphGPClassifier(kernel=Linear(), likelihood="softmax").fit(data.graph, y)
        rest = np.setdiff1d(np.arange(600), shown)
        found = model.predict_set(data.graph, rest, coverage=0.8)
        covered += found[np.arange(len(rest)), data.y[rest]].sum()
        sizes.append(found.sum(axis=1).mean())
        total += len(rest)
        assert (model.predict_set(data.graph, rest, 0.95) >= found).all()  # larger, never smaller
        assert found[np.arange(len(rest)), model.predict_proba(nodes=rest).argmax(1)].all()
    # The threshold is itself uncertain: 80 labels leave it a standard deviation of 0.045 per seed.
    assert abs(covered / total - 0.8) < 4 * 0.045 / np.sqrt(20) + 0.01
    assert np.mean(sizes) < 2.5


def test_the_only_label_of_a_class_has_no_say_in_the_temperature():
    proba = np.array([[0.9, 0.05, 0.05], [0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.5, 0.49, 0.01]])
    with_lone = fit_temperature(proba, np.array([0, 0, 1, 2]))
    without = fit_temperature(proba[:2], np.array([0, 0]))
    assert with_lone == pytest.approx(without, abs=1e-3)
    assert fit_temperature(proba[1:], np.array([0, 1, 2])) == 1.0
