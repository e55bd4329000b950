"""A temperature on probabilities, shares of classes and sets: what they do, and that the right ones
are found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from scipy.stats import t as student

import nodegp
from nodegp import GraphGPClassifier
from nodegp.kernels import Linear
from nodegp.model.calibration import (
    TemperaturePrior,
    averaged,
    fit_temperatures,
    in_sets,
    least_probability,
    mixed,
    set_threshold,
    sharpness,
    tempered,
    usual_temperature,
    weighted,
)
from nodegp_paper.datasets import synthetic


def simplex(n, c, seed=0, spread=2.0):
    logits = spread * np.random.default_rng(seed).standard_normal((n, c))
    proba = np.exp(logits)
    return proba / proba.sum(axis=1, keepdims=True)


def draw(proba, seed=0):
    """A label for each row, with the row's probabilities."""
    below = np.random.default_rng(seed).random((len(proba), 1)) > proba.cumsum(axis=1)
    return below.sum(axis=1)


def fit_temperature_to(*labels_left_out):
    return fit_temperatures(*labels_left_out).by_all


def fit_temperature(proba, y, confidence=None, **settings):
    """Of labels that were left out once, and count alike."""
    confidence = np.ones(len(y)) if confidence is None else confidence
    return fit_temperatures(proba[None], y, confidence, **settings).by_all


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
    assert fit_temperature(sure, np.ones(n, dtype=int)) == pytest.approx(10.0, rel=0.01)
    # A strong prior leaves probabilities of almost one half that are right: far below one.
    modest = np.tile([0.5001, 0.4999], (n, 1))
    assert fit_temperature(modest, np.zeros(n, dtype=int)) == pytest.approx(np.exp(-6), rel=0.02)


@pytest.mark.parametrize("growth", [1.0, 1.25, 2.0])
def test_what_was_said_without_labels_is_less_sharp(growth):
    """Predictions that grow sharper by a factor with all labels need so much more temperature."""
    said = simplex(20_000, 3)
    y = draw(tempered(said, 0.5))
    assert fit_temperature(said, y, growth=growth) == pytest.approx(0.5 * growth, rel=0.06)


def test_turns_count_as_one_in_the_mean():
    said, y = simplex(50, 3), draw(simplex(50, 3), 1)
    once = fit_temperature_to(said[None], y, np.ones(50), 1.0, TemperaturePrior(-0.3, 0.4))
    twice = fit_temperature_to(
        np.stack([said, said]), y, np.ones(50), 1.0, TemperaturePrior(-0.3, 0.4)
    )
    assert twice == pytest.approx(once, rel=1e-3)


@pytest.mark.parametrize("degrees", [None, 2.0, 3.5])
def test_the_mean_over_a_grid_in_plain_loops(degrees):
    """Log losses with the prior, which may have two humps, and heavy tails."""
    said = np.stack([simplex(9, 3, seed) for seed in (1, 2)])
    y, confidence = draw(said[0], 4), np.linspace(0.2, 1.0, 9)
    prior = TemperaturePrior(-0.7, 0.6, 0.2, 1.0, 0.8, degrees)
    about = norm if degrees is None else student(degrees)
    found = fit_temperature_to(said, y, confidence, 1.5, prior)

    power = confidence.sum() / (confidence.sum() + 25)

    def loss(t):
        z = (np.log(t) + 0.7) / 0.6
        near, far = about.pdf(z) / 0.6, norm.pdf(np.log(t), 1.0, 0.8)
        total = -np.log(0.8 * near + 0.2 * far)
        for turn in said:
            for n in range(9):
                powered = turn[n] ** (1.5 / t)
                total -= (
                    power * confidence[n] * np.log(max(powered[y[n]] / powered.sum(), 1e-300)) / 2
                )
        return total

    logs = np.arange(-6.0, 2.31, 0.05)
    chances = [np.exp(-loss(np.exp(log))) for log in logs]
    mean = sum(c * log for c, log in zip(chances, logs, strict=True)) / sum(chances)
    assert found == pytest.approx(np.exp(mean), rel=1e-6)


@given(n=st.integers(2, 12), c=st.integers(2, 4), seed=st.integers(0, 500))
def test_the_temperature_without_a_label_is_that_of_the_others(n, c, seed):
    said = np.stack([simplex(n, c, seed), simplex(n, c, seed + 1)])
    y, confidence = draw(said[0], seed), np.linspace(0.3, 1.0, n)
    settings = 1.3, TemperaturePrior(-0.5, 0.7), 0.01
    found = fit_temperatures(said, y, confidence, *settings)
    for one in range(n):
        rest = np.arange(n) != one
        expected = fit_temperature_to(said[:, rest], y[rest], confidence[rest], *settings)
        assert found.by_others[one] == pytest.approx(expected, rel=1e-9)


def test_one_label_that_is_far_off_changes_the_temperature_less_if_no_class_is_ruled_out():
    said = simplex(60, 3, spread=3.0)
    y = draw(said, 1)
    odd = y.copy()
    odd[said.max(axis=1).argmax()] = said[said.max(axis=1).argmax()].argmin()
    plain, safe = (
        [fit_temperature(said, labels, least=least) for labels in (y, odd)]
        for least in (0.0, least_probability(60, 3))
    )
    assert plain[1] / plain[0] > 1.2
    assert safe[1] / safe[0] < plain[1] / plain[0] - 0.1


@given(n=st.integers(1, 5000), c=st.integers(2, 500), seed=st.integers(0, 100))
def test_every_class_has_something_and_the_order_stays(n, c, seed):
    least = least_probability(n, c)
    assert 0 < c * least <= 0.05 + 1e-12
    assert least_probability(n + 1, c) <= least
    proba = simplex(5, c, seed, spread=20.0)
    found = mixed(proba, least)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.min() >= least
    np.testing.assert_array_equal(found.argmax(axis=1), proba.argmax(axis=1))
    assert mixed(proba, 0.0) is proba


def test_the_least_probability_by_hand():
    assert least_probability(10, 2) == 0.01
    assert least_probability(85, 4) == 0.0025
    assert least_probability(985, 500) == pytest.approx(0.0001), "a twentieth in all at most"


def test_predictions_that_are_worth_nothing_are_flattened():
    def temperatures(said, y):
        usual = usual_temperature(said)
        priors = usual, usual._replace(hopeless=0.0)
        sure = np.ones(len(y))
        return [fit_temperature_to(said[None], y, sure, 1.0, prior) for prior in priors]

    flat, sharp = temperatures(simplex(20, 3), np.random.default_rng(0).integers(0, 3, 20))
    assert flat > 1.1 * sharp
    said = simplex(60, 3)  # where they are worth something, the chance of that is no matter
    with_it, without_it = temperatures(said, said.argmax(axis=1))
    assert with_it == pytest.approx(without_it, rel=5e-3)


def test_labels_that_do_not_count_leave_what_is_usual():
    said = simplex(5, 3)
    found = fit_temperature(said, draw(said), np.zeros(5), prior=TemperaturePrior(-1.2, 0.3))
    assert found == pytest.approx(np.exp(-1.2), rel=2e-3)


@given(c=st.integers(2, 6), power=st.floats(0.05, 5.0), seed=st.integers(0, 1000))
def test_the_usual_temperature_goes_with_sharpness(c, power, seed):
    """Probabilities to a power are sharper by that power, and so is what is usual for them: at
    their usual temperature both are the same."""
    proba = simplex(30, c, seed)
    powered = tempered(proba, 1 / power)
    assert sharpness(powered) == pytest.approx(sharpness(proba) + np.log(power), abs=1e-6)
    one, other = usual_temperature(proba), usual_temperature(powered)
    assert one.spread == other.spread > 0
    for a, b in ((one.usual, other.usual), (one.at, other.at)):
        np.testing.assert_allclose(
            tempered(powered, np.exp(b)), tempered(proba, np.exp(a)), atol=1e-9, rtol=1e-6
        )


def test_sharpness_by_plain_loops():
    proba = simplex(7, 4)
    spreads = []
    for row in proba:
        middle = np.mean([np.log(p) for p in row])
        spreads.append(np.sqrt(np.mean([(np.log(p) - middle) ** 2 for p in row])))
    assert sharpness(proba) == pytest.approx(np.log(np.mean(spreads)))
    assert np.isfinite(sharpness(np.full((3, 2), 0.5)))
    assert np.isfinite(sharpness(np.array([[1.0, 0.0]])))


@given(c=st.integers(2, 6), spread=st.floats(0.0, 0.6), seed=st.integers(0, 1000))
def test_the_mean_over_what_is_left_open_of_the_temperature(c, spread, seed):
    """Beside a sum over many temperatures; the order of classes stays."""
    proba = simplex(20, c, seed)
    places = np.linspace(-6, 6, 241)
    chances = np.exp(-0.5 * places**2) / np.exp(-0.5 * places**2).sum()
    every = [tempered(proba, 0.8 * np.exp(spread * place)) for place in places]
    found = averaged(proba, 0.8, spread)
    np.testing.assert_allclose(found, np.tensordot(chances, every, 1), atol=0.01)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(found.argsort(axis=1), proba.argsort(axis=1))
    columns = averaged(proba, np.full((20, 1), 0.8), np.full((20, 1), spread))
    np.testing.assert_allclose(columns, found)


def test_labels_leave_less_open_the_more_there_are():
    said = simplex(400, 3)
    y, sure = draw(said), np.ones(400)
    spreads = [fit_temperatures(said[None, :n], y[:n], sure[:n]).spread for n in (0, 4, 40, 400)]
    assert spreads[0] == pytest.approx(1.0, rel=0.05), "that of the prior"
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] < 0.15
    found = fit_temperatures(said[None, :40], y[:40], sure[:40])
    without = fit_temperatures(said[None, :40], y[:40], (np.arange(40) != 7).astype(float))
    assert found.spreads[7] == pytest.approx(without.spread)
    assert fit_temperatures(np.ones((1, 4, 1)), np.zeros(4, dtype=int), np.ones(4)).spread == 0


def test_a_few_nodes_that_are_far_sharper_do_not_speak_for_all():
    """One in a hundred, thirty times as sharp, would make the square ten times as large."""
    proba = simplex(500, 2)
    some = proba.copy()
    some[::100] = tempered(proba[::100], 1 / 30)
    assert abs(sharpness(some) - sharpness(proba)) < np.log(1.5)


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
    prior = TemperaturePrior(-2.0, 0.3)
    found = fit_temperature(np.zeros((0, 3)), np.zeros(0, dtype=int), prior=prior)
    assert found == pytest.approx(np.exp(-2.0), rel=1e-3)


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


def threshold_by_a_loop(of_truth, weights, coverage):
    """The largest score up to which no more than a share of 1 - coverage of the weights lies, where
    a label of average weight more is there for the node to come."""
    best, mean = 0.0, sum(weights) / len(weights)
    for score in of_truth:
        below = sum(w for other, w in zip(of_truth, weights, strict=True) if other <= score)
        if below <= (1 - coverage) * (sum(weights) + mean) + 1e-9:
            best = max(best, score)
    return best


@given(
    n=st.integers(1, 30),
    coverage=st.floats(0.05, 0.99),
    seed=st.integers(0, 1000),
    scale=st.floats(0.1, 10),
)
def test_the_threshold_with_weights_by_a_loop(n, coverage, seed, scale):
    rng = np.random.default_rng(seed)
    proba, y, weights = simplex(n, 3, seed), rng.integers(0, 3, n), rng.uniform(0.1, 3.0, n)
    of_truth = proba[np.arange(n), y]
    found = set_threshold(proba, y, coverage, weights * scale)
    assert found == pytest.approx(threshold_by_a_loop(of_truth, weights, coverage))
    alike = set_threshold(proba, y, coverage, np.full(n, scale))
    assert alike == pytest.approx(set_threshold(proba, y, coverage))


def test_weighted_sets_cover_where_classes_are_labelled_more_often_than_they_occur():
    """Half of the labels are of a class that one node in ten has, and which is hard to see."""
    rng = np.random.default_rng(0)
    covered = {"weights": [], "none": []}
    for _ in range(40):
        nodes = rng.choice(2, 2000, p=[0.9, 0.1])
        labels = np.repeat([0, 1], 60)

        def shown(y, rng=rng):
            logit = np.where(y == 0, 1.5, -0.3) + rng.normal(size=len(y))
            first = 1 / (1 + np.exp(-logit))
            return np.c_[first, 1 - first]

        said, asked = shown(labels), shown(nodes)
        weights = np.where(labels == 0, 0.9, 0.1) / 0.5
        for name, each in (("weights", weights), ("none", None)):
            sets = in_sets(asked, set_threshold(said, labels, 0.9, each))
            covered[name].append(sets[np.arange(2000), nodes].mean())
    assert np.mean(covered["weights"]) == pytest.approx(0.9, abs=0.02)
    assert np.mean(covered["none"]) > 0.93


def test_weights_of_one_change_nothing():
    proba = simplex(5, 3)
    assert weighted(proba, np.ones(3)) is proba
    found = weighted(proba, np.array([2.0, 1.0, 0.5]))
    for row, result in zip(proba, found, strict=True):
        total = 2 * row[0] + row[1] + 0.5 * row[2]
        assert result == pytest.approx([2 * row[0] / total, row[1] / total, 0.5 * row[2] / total])


# --- in a model ---------------------------------------------------------------------------------


def lonely(single):
    """A graph of three classes; the third has one label, or as many as the others."""
    data = synthetic(200, n_classes=3, n_features=20, homophily=0.7, seed=1)
    y = np.full(200, -1)
    for c in range(3):
        nodes = np.flatnonzero(data.y == c)[: 1 if single and c == 2 else 6]
        y[nodes] = c
    return data, y


def test_the_only_label_of_a_class_has_no_say_in_the_temperature(monkeypatch):
    counted = []

    def spy(left_out, y, confidence, *rest):
        counted.append((y, confidence))
        return fit_temperatures(left_out, y, confidence, *rest)

    monkeypatch.setattr("nodegp.model.classifier.fit_temperatures", spy)
    for single in (True, False):
        data, y = lonely(single)
        GraphGPClassifier().fit(data.graph, y)
    (y, confidence), (_, all_count) = counted
    assert confidence.tolist() == [float(c != 2) for c in y]
    assert (all_count == 1).all()


def test_class_weights_are_shares_by_the_labels_own():
    data, y = lonely(True)
    model = GraphGPClassifier().fit(data.graph, y)
    labelled = np.bincount(y[y >= 0]) / (y >= 0).sum()
    assert (labelled * model.class_weights_).sum() == pytest.approx(1.0)
    weights = model.class_weights_[np.searchsorted(model.classes_, model.labels_)]
    assert model.sampling_weights_ == pytest.approx(weights / weights.mean())
    plain = GraphGPClassifier(calibrate=False).fit(data.graph, y)
    assert (plain.class_weights_ == 1).all()
    assert plain.temperature_ == 1
    calm = averaged(plain.predict_proba(), model.temperature_, model.model_.temperature_spread)
    expected = weighted(calm, model.class_weights_ * model.model_.class_factors)
    least = least_probability(13, 3)
    np.testing.assert_allclose(model.predict_proba(), mixed(expected, least), atol=1e-9)
    assert model.model_.least_proba == least
    assert plain.model_.least_proba == 0
    assert model.model_.temperature_spread > 0
    assert plain.model_.temperature_spread == 0


def test_a_model_rules_no_class_out_unless_asked_to():
    """Of features that tell the class for sure."""
    y = np.arange(60) % 3
    graph = nodegp.Graph(np.zeros((60, 60)), 20.0 * np.eye(3)[y])
    shown = np.where(np.arange(60) < 30, y, -1)
    proba = GraphGPClassifier().fit(graph, shown).predict_proba()
    assert proba.min() >= least_probability(30, 3)
    assert (proba.argmax(axis=1) == y).all()


def test_a_class_that_has_no_label_has_a_weight_of_one():
    data, y = lonely(False)
    model = GraphGPClassifier().fit(data.graph, y, classes=[0, 1, 2, 3])
    assert model.class_weights_[3] == 1
    proba = model.predict_proba()
    assert proba.shape == (200, 4)
    assert proba[:, 3].max() < 0.25
