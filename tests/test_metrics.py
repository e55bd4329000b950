"""Scores against plain-loop oracles, scikit-learn, and properties that must hold for any input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from nodegp import metrics
from nodegp_paper.metrics import area_under_learning_curve, debiased_calibration_error


@st.composite
def predictions(draw, max_rows=30):
    n, c = draw(st.integers(1, max_rows)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    proba = rng.dirichlet(np.full(c, draw(st.sampled_from([0.05, 0.5, 5.0]))), size=n)
    return rng.integers(c, size=n), proba


def loop_log_loss(y, proba):
    return -sum(math.log(max(proba[i][y[i]], metrics.LOG_LOSS_EPS)) for i in range(len(y))) / len(y)


def loop_brier(y, proba):
    total = 0.0
    for label, row in zip(y, proba, strict=True):
        total += sum((p - (c == label)) ** 2 for c, p in enumerate(row))
    return total / len(y)


def loop_calibration_error(y, proba, n_bins):
    total = 0.0
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        inside = [i for i in range(len(y)) if low < max(proba[i]) <= high]
        if inside:
            right = sum(int(np.argmax(proba[i])) == y[i] for i in inside) / len(inside)
            sure = sum(max(proba[i]) for i in inside) / len(inside)
            total += len(inside) / len(y) * abs(right - sure)
    return total


@given(predictions())
def test_scores_equal_plain_loops(case):
    y, proba = case
    assert metrics.log_loss(y, proba) == pytest.approx(loop_log_loss(y, proba))
    assert metrics.brier(y, proba) == pytest.approx(loop_brier(y, proba))
    right = sum(int(np.argmax(row)) == label for label, row in zip(y, proba, strict=True))
    assert metrics.accuracy(y, proba) == right / len(y)


@given(predictions(), st.integers(1, 20))
def test_calibration_error_equals_plain_loop(case, n_bins):
    y, proba = case
    found = metrics.expected_calibration_error(y, proba, n_bins)
    assert found == pytest.approx(loop_calibration_error(y, proba, n_bins), abs=1e-12)


def loop_debiased_error(y, proba, n_bins):
    total = 0.0
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        gaps = [
            (int(np.argmax(p)) == label) - max(p)
            for p, label in zip(proba, y, strict=True)
            if low < max(p) <= high
        ]
        pairs = [a * c for i, a in enumerate(gaps) for j, c in enumerate(gaps) if i != j]
        if pairs:
            total += len(gaps) / len(y) * sum(pairs) / len(pairs)
    return total


@given(predictions(), st.sampled_from([1, 4, 16]))
def test_debiased_calibration_error_equals_plain_loop(case, n_bins):
    y, proba = case
    found = debiased_calibration_error(y, proba, n_bins)
    assert found == pytest.approx(loop_debiased_error(y, proba, n_bins), abs=1e-12)


@pytest.mark.parametrize("bias", [0.0, 0.1])
def test_debiased_calibration_error_is_right_on_average(bias):
    """Labels drawn from the model's own probabilities, or from worse ones by a known gap."""
    rng = np.random.default_rng(0)
    found, plain = [], []
    for _ in range(400):
        p = rng.uniform(0.6, 1.0, size=60)
        y = (rng.random(60) >= p - bias).astype(int)
        proba = np.column_stack([p, 1.0 - p])
        found.append(debiased_calibration_error(y, proba))
        plain.append(metrics.expected_calibration_error(y, proba) ** 2)
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(bias**2, abs=4 * error)
    assert np.mean(plain) > bias**2 + 4 * error  # what chance adds


@given(predictions())
def test_scores_equal_scikit_learn(case):
    y, proba = case
    classes = list(range(proba.shape[1]))
    safe = np.clip(proba, 1e-12, 1)  # scikit-learn clips elsewhere
    safe /= safe.sum(axis=1, keepdims=True)
    assert metrics.log_loss(y, safe) == pytest.approx(
        sklearn.metrics.log_loss(y, safe, labels=classes)
    )
    assert metrics.accuracy(y, proba) == sklearn.metrics.accuracy_score(y, proba.argmax(1))


@given(predictions(), st.integers(0, 1000))
def test_nodes_may_stand_for_several(case, seed):
    """A whole weight is so many copies, and only ratios count."""
    y, proba = case
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    copied = np.repeat(np.arange(len(y)), times)
    for score in (
        metrics.accuracy,
        metrics.log_loss,
        metrics.brier,
        metrics.expected_calibration_error,
    ):
        expected = score(y[copied], proba[copied])
        assert score(y, proba, weights=times) == pytest.approx(expected)
        assert score(y, proba, weights=0.3 * times) == pytest.approx(expected)
        assert score(y, proba, weights=np.ones(len(y))) == pytest.approx(score(y, proba))
    named = proba.argmax(axis=1)
    found = metrics.accuracy(y, named, weights=times)
    assert found == pytest.approx(metrics.accuracy(y[copied], named[copied]))


def test_two_class_brier_is_twice_the_one_sided_score():
    rng = np.random.default_rng(0)
    y, p = rng.integers(2, size=50), rng.random(50)
    one_sided = sklearn.metrics.brier_score_loss(y, p)
    assert metrics.brier(y, np.column_stack([1 - p, p])) == pytest.approx(2 * one_sided)


@given(predictions())
def test_scores_stay_in_range_and_ignore_the_order_of_nodes(case):
    y, proba = case
    order = np.random.default_rng(0).permutation(len(y))
    ranges = {
        metrics.accuracy: (0, 1),
        metrics.brier: (0, 2),
        metrics.expected_calibration_error: (0, 1),
        metrics.log_loss: (0, -math.log(metrics.LOG_LOSS_EPS)),
    }
    for score, (low, high) in ranges.items():
        value = score(y, proba)
        assert low <= value <= high + 1e-12
        assert score(y[order], proba[order]) == pytest.approx(value, abs=1e-12)


@given(predictions())
def test_certain_and_right_is_perfect(case):
    y, proba = case
    sure = np.eye(proba.shape[1])[y]
    assert metrics.accuracy(y, sure) == 1
    assert metrics.log_loss(y, sure) == 0
    assert metrics.brier(y, sure) == 0
    assert metrics.expected_calibration_error(y, sure) == 0


def test_certain_and_wrong_is_worst_but_finite():
    sure = np.array([[1.0, 0.0]])
    assert metrics.log_loss([1], sure) == pytest.approx(-math.log(metrics.LOG_LOSS_EPS))
    assert metrics.log_loss([1], sure, eps=1e-3) == pytest.approx(-math.log(1e-3))
    assert metrics.brier([1], sure) == 2
    assert metrics.expected_calibration_error([1], sure) == 1


def test_accuracy_takes_predicted_classes_and_names():
    assert metrics.accuracy([0, 1, 1, 2], [0, 1, 2, 2]) == 0.75
    assert metrics.accuracy(["a", "b"], ["a", "a"]) == 0.5


@given(predictions(), st.integers(1, 12))
def test_reliability_curve_counts_every_node_once(case, n_bins):
    y, proba = case
    curve = metrics.reliability_curve(y, proba, n_bins)
    full = curve.count > 0
    assert curve.count.sum() == len(y)
    assert len(curve.edges) == n_bins + 1
    assert np.isnan(curve.confidence[~full]).all()
    assert np.isnan(curve.accuracy[~full]).all()
    assert np.all(curve.confidence[full] <= curve.edges[1:][full] + 1e-9)
    assert np.all(curve.confidence[full] >= curve.edges[:-1][full] - 1e-9)
    assert np.sum(curve.accuracy[full] * curve.count[full]) / len(y) == pytest.approx(
        metrics.accuracy(y, proba)
    )


@given(st.integers(1, 200), st.floats(0, 1))
def test_wilson_intervals_are_those_of_scipy(count, share):
    right = round(share * count)
    expected = binomtest(right, count).proportion_ci(0.95, "wilson")
    assert metrics.wilson_interval(right / count, count) == pytest.approx(expected, abs=1e-12)


def test_reliability_has_an_interval_in_bins_that_are_not_empty():
    curve = metrics.reliability_curve([0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]], n_bins=2)
    assert np.isnan(curve.interval[0]).all()
    assert curve.interval[1] == pytest.approx(metrics.wilson_interval(2 / 3, 3))


def test_a_confidence_on_an_edge_belongs_to_the_lower_bin():
    curve = metrics.reliability_curve([0, 0], [[0.5, 0.5], [1.0, 0.0]], n_bins=2)
    assert curve.count.tolist() == [1, 1]


def test_area_under_learning_curve():
    values = [0.2, 0.4, 0.9]
    assert area_under_learning_curve(values) == pytest.approx(0.5)
    assert area_under_learning_curve(values, form="trapezoid") == pytest.approx(
        ((values[0] + values[-1]) / 2 + sum(values[1:-1])) / 2
    )
    both = [[0.2, 0.4, 0.9], [0.0, 0.0, 0.0]]
    assert area_under_learning_curve(both, form="trapezoid") == pytest.approx(0.2375)


@given(st.floats(0, 1), st.integers(2, 60))
def test_a_flat_learning_curve_has_its_height_as_area(height, n):
    for form in ("mean", "trapezoid"):
        assert area_under_learning_curve([height] * n, form) == pytest.approx(height)


@pytest.mark.parametrize(
    ("y", "proba", "message"),
    [
        ([0, -1], [[0.5, 0.5], [0.5, 0.5]], "-1"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], "y holds 2"),
        ([0], [[0.5, 0.6]], "sums to 1.1"),
        ([0], [[np.nan, 0.5]], "NaN"),
        ([0], [[2.0, -1.0]], "outside"),
        ([0], [0.5], "shape"),
        ([0, 1], [[0.5, 0.5]], "one label per row"),
        (["a"], [[0.5, 0.5]], "class positions"),
        ([0.5], [[0.5, 0.5]], "class positions"),
        ([], np.zeros((0, 2)), "empty"),
    ],
)
@pytest.mark.parametrize(
    "score", [metrics.log_loss, metrics.brier, metrics.expected_calibration_error]
)
def test_bad_input_is_refused_with_a_reason(score, y, proba, message):
    with pytest.raises(ValueError, match=message):
        score(y, proba)


def test_other_bad_input():
    with pytest.raises(ValueError, match="same length"):
        metrics.accuracy([0, 1], [0])
    with pytest.raises(ValueError, match="unlabelled"):
        metrics.accuracy([0, -1], [0, 1])
    with pytest.raises(ValueError, match="names"):
        metrics.accuracy(["a"], [0])
    with pytest.raises(ValueError, match="empty"):
        metrics.accuracy([], [])
    with pytest.raises(ValueError, match="n_bins is 0"):
        metrics.expected_calibration_error([0], [[1.0, 0.0]], n_bins=0)
    with pytest.raises(ValueError, match="eps is 0"):
        metrics.log_loss([0], [[1.0, 0.0]], eps=0)
    with pytest.raises(ValueError, match="divide percentages"):
        area_under_learning_curve([71.0, 80.0])
    with pytest.raises(ValueError, match="in \\[0, 1\\]"):
        area_under_learning_curve([np.nan])
    with pytest.raises(ValueError, match="median"):
        area_under_learning_curve([0.5], form="median")
    with pytest.raises(ValueError, match="at least two"):
        area_under_learning_curve([0.5], form="trapezoid")
    with pytest.raises(ValueError, match="shape"):
        area_under_learning_curve([])


def test_inputs_are_left_alone():
    proba = np.array([[0.25, 0.75]])
    before = proba.copy()
    for score in (metrics.brier, metrics.log_loss, metrics.expected_calibration_error):
        score([1], proba)
    assert np.array_equal(proba, before)
