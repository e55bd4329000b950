"""Contract of every likelihood: exact gradients, and agreement with its own definition."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from scipy.stats import norm

import nodegp.likelihoods as module
from nodegp.budget import budget
from nodegp.component import Component, from_dict
from nodegp.likelihoods import Bernoulli, Gaussian, Likelihood, RobustMax, Softmax

ALL = {
    "RobustMax": RobustMax(epsilon=0.01),
    "Softmax": Softmax(),
    "Bernoulli": Bernoulli(),
    "Gaussian": Gaussian(noise=0.3),
}
# The same with integration so fine that its error is far below Monte Carlo's.
FINE = {
    "RobustMax": RobustMax(epsilon=0.01, quadrature=100),
    "Softmax": Softmax(n_points=1 << 14),
    "Bernoulli": Bernoulli(quadrature=100),
    "Gaussian": Gaussian(noise=0.3),
}
CLASSIFIERS = [name for name in ALL if name != "Gaussian"]
SURE, UNSURE, MIXED = (1.0, 1.0), (0.7, 0.7), (1.0, 0.8)

every = pytest.mark.parametrize("name", list(ALL))
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)


def n_classes(name: str) -> int:
    return {"Bernoulli": 2, "Gaussian": 1}.get(name, 3)


def grid(name: str, dtype=torch.float64, n: int = 40, confidence=SURE):
    """Labels, means, variances and confidences over the ranges that a fit goes through."""
    rng = np.random.default_rng(5)
    latents = ALL[name].n_latents(n_classes(name))
    mean = torch.from_numpy(rng.uniform(-3, 3, size=(n, latents))).to(dtype)
    var = torch.from_numpy(np.exp(rng.uniform(np.log(0.05), np.log(4), size=(n, latents))))
    if name == "Gaussian":
        y = torch.from_numpy(rng.normal(size=n)).to(dtype)
    else:
        y = torch.from_numpy(rng.integers(n_classes(name), size=n))
    sure = torch.tensor(confidence, dtype=dtype).repeat(n)[:n]
    return y, mean, var.to(dtype), sure


def log_prob(name: str, y, h: np.ndarray, confidence: float) -> np.ndarray:
    """log p(y | h) by definition, for draws h (S, L) of one label."""
    if name == "RobustMax":
        right = confidence * (1 - ALL[name].epsilon)
        return np.where(h.argmax(1) == y, np.log(right), np.log((1 - right) / (h.shape[1] - 1)))
    if name == "Gaussian":
        return norm.logpdf(y, h[:, 0], np.sqrt(ALL[name].noise / confidence))
    if name == "Softmax":
        p = np.exp(h - h.max(1, keepdims=True))
        p = p[:, y] / p.sum(1)
        return np.log(confidence * p + (1 - confidence) / (h.shape[1] - 1) * (1 - p))
    p = norm.cdf(h[:, 0] if y == 1 else -h[:, 0])
    return np.log(confidence * p + (1 - confidence) * (1 - p))


def draws(mean, var, n: int = 100_000) -> np.ndarray:
    normals = np.random.default_rng(11).normal(size=(n, len(mean)))
    return mean.numpy() + np.sqrt(var.numpy()) * normals


def test_no_likelihood_is_missing():
    concrete = {
        name
        for name, cls in Component.registry.items()
        if issubclass(cls, Likelihood)
        and cls.__module__ == module.__name__
        and cls.expected_log_prob is not Likelihood.expected_log_prob
    }
    assert concrete == set(ALL)


@every
@pytest.mark.parametrize("confidence", [SURE, UNSURE, MIXED], ids=["sure", "unsure", "mixed"])
class TestExpectation:
    def test_value_is_the_expected_log_prob(self, name, confidence):
        y, mean, var, sure = grid(name, confidence=confidence)
        found = ALL[name].expectation(y, mean, var, sure)
        torch.testing.assert_close(
            found.value, ALL[name].expected_log_prob(y, mean, var, sure), rtol=1e-12, atol=1e-12
        )
        assert found.mean_gradient.shape == found.variance_gradient.shape == mean.shape

    def test_gradients_are_finite_differences(self, name, confidence):
        y, mean, var, sure = grid(name, confidence=confidence)
        value = lambda m, v: ALL[name].expected_log_prob(y, m, v, sure)  # noqa: E731
        found = ALL[name].expectation(y, mean, var, sure)
        for latent in range(mean.shape[1]):
            e = torch.zeros_like(mean)
            e[:, latent] = 1e-5
            by_mean = (value(mean + e, var) - value(mean - e, var)) / 2e-5
            e = e * var
            by_var = (value(mean, var + e) - value(mean, var - e)) / (2e-5 * var[:, latent])
            torch.testing.assert_close(
                found.mean_gradient[:, latent], by_mean, rtol=1e-6, atol=1e-8
            )
            torch.testing.assert_close(
                found.variance_gradient[:, latent], by_var, rtol=1e-6, atol=1e-8
            )

    def test_value_is_the_monte_carlo_mean(self, name, confidence):
        y, mean, var, sure = grid(name, n=12, confidence=confidence)
        value = FINE[name].expected_log_prob(y, mean, var, sure)
        for n in range(len(y)):
            sampled = log_prob(name, y[n].item(), draws(mean[n], var[n]), float(sure[n]))
            error = sampled.std() / np.sqrt(len(sampled))
            assert abs(float(value[n]) - sampled.mean()) < 4 * error + 1e-4

    def test_label_that_is_surely_wrong_stays_finite(self, name, confidence):
        latents = ALL[name].n_latents(n_classes(name))
        for dtype in (torch.float32, torch.float64):
            for size in (1e3, -1e3):
                mean = torch.zeros(2, latents, dtype=dtype)
                mean[:, 0] = size
                for var in (1e-12, 1e-6, 1.0, 1e6):
                    for label in range(max(n_classes(name), 1)):
                        y = torch.tensor([label, label])
                        y = y.to(dtype) if name == "Gaussian" else y
                        sure = torch.tensor(confidence, dtype=dtype)
                        found = ALL[name].expectation(y, mean, torch.full_like(mean, var), sure)
                        case = f"{dtype} mean {size} var {var} label {label}"
                        assert all(torch.isfinite(part).all() for part in found), case


@every
def test_default_integration_is_close_to_fine(name):
    # Twenty points follow a step badly when the own latent varies much more than the others:
    # up to 0.1 of the robust-max's log-odds of 5; the rest are smooth.
    y, mean, var, sure = grid(name)
    fine = FINE[name].expected_log_prob(y, mean, var, sure)
    error = (ALL[name].expected_log_prob(y, mean, var, sure) - fine).abs().max()
    assert error < (0.1 * np.log(0.99 * 2 / 0.01) if name == "RobustMax" else 0.02)


@every
def test_confidence_lowers_the_pull_of_a_label(name):
    y, mean, var, _ = grid(name)
    if name == "Gaussian":
        own = torch.zeros_like(y, dtype=torch.long)
    elif name == "Bernoulli":
        own, mean = torch.zeros_like(y), 0.1 * mean
    else:
        own, mean = y, 0.1 * mean
    pulls = [
        ALL[name]
        .expectation(y, mean, var, torch.full_like(mean[:, 0], sure))
        .mean_gradient.gather(1, own[:, None])
        .abs()
        for sure in (1.0, 0.9, 0.7, 0.55)
    ]
    for more, less in pairwise(pulls):
        assert (less < more).all()


@every_classifier
def test_confidence_of_pure_chance_says_nothing(name):
    y, mean, var, sure = grid(name)
    found = ALL[name].expectation(y, mean, var, torch.full_like(sure, 1 / n_classes(name)))
    # Robust-max multiplies the confidence by 1 - epsilon, so it is that far off.
    assert found.mean_gradient.abs().max() < (0.02 if name == "RobustMax" else 1e-12)


@every
def test_prediction_is_the_monte_carlo_mean(name):
    y, mean, var, _ = grid(name, n=10)
    found = FINE[name].predict(mean, var)
    if name == "Gaussian":
        torch.testing.assert_close(found, mean)
        return
    for n in range(len(y)):
        h = draws(mean[n], var[n])
        for label in range(n_classes(name)):
            p = np.exp(log_prob(name, label, h, 1.0))
            assert abs(float(found[n, label]) - p.mean()) < 4 * p.std() / np.sqrt(len(p)) + 1e-5


@every_classifier
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_predictions_are_distributions(name, dtype):
    _, mean, var, _ = grid(name, dtype)
    extreme = torch.cat([mean, 1e3 * mean.sign(), 0 * mean, 1e3 * mean])
    spread = torch.cat([var, 1e-12 * var, 1e-12 * var, 1e6 * var])
    p = ALL[name].predict(extreme, spread)
    assert p.shape == (len(extreme), n_classes(name))
    assert ((p >= 0) & (p <= 1)).all()
    torch.testing.assert_close(p.sum(1), torch.ones(len(p), dtype=dtype), rtol=0, atol=2e-6)


@every
def test_float32_is_close_to_float64(name):
    y, mean, var, sure = grid(name)
    for scale in (1.0, 1e-3):
        double = ALL[name].expectation(y, mean, scale * var, sure)
        y32 = y.float() if name == "Gaussian" else y
        single = ALL[name].expectation(y32, mean.float(), scale * var.float(), sure.float())
        for a, b in zip(single, double, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=2e-3, atol=2e-3)


@every
def test_shift_invariance_is_as_declared(name):
    y, mean, var, sure = grid(name)
    likelihood = ALL[name]
    same = torch.allclose(
        likelihood.expected_log_prob(y, mean, var, sure),
        likelihood.expected_log_prob(y, mean + 7.3, var, sure),
        rtol=1e-9,
        atol=1e-9,
    )
    assert same == likelihood.shift_invariant


@every_classifier
def test_one_class_is_certain(name):
    likelihood = ALL[name]
    assert likelihood.n_latents(1) == 1
    y = torch.zeros(3, dtype=torch.long)
    mean, ones = torch.tensor([[-1.0], [0.0], [2.0]]).double(), torch.ones(3).double()
    found = likelihood.expectation(y, mean, torch.ones_like(mean), ones)
    assert all(torch.isfinite(part).all() for part in found)
    if likelihood.shift_invariant:
        assert all((part == 0).all() for part in found)


@every
def test_round_trip_through_json(name):
    for likelihood in (ALL[name], FINE[name]):
        assert from_dict(json.loads(json.dumps(likelihood.to_dict()))) == likelihood


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((RobustMax, {"epsilon": e}) for e in (0.0, 1.0, -0.1, 2.0, float("nan"))),
        *((Gaussian, {"noise": v}) for v in (0.0, -1.0, float("nan"), float("inf"))),
        (RobustMax, {"quadrature": 0}),
        (Bernoulli, {"quadrature": -1}),
        (Softmax, {"n_points": 0}),
        (Gaussian, {"fixed": ("nonsense",)}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_bad_parameters_are_refused(kind, settings):
    with pytest.raises(ValueError, match=kind.__name__):
        kind(**settings)


def test_bernoulli_refuses_three_classes():
    with pytest.raises(ValueError, match=r"two classes.*3"):
        Bernoulli().n_latents(3)


# --- what a known latent value would leave open -------------------------------------------------


@pytest.mark.parametrize("likelihood", [RobustMax(0.01), Softmax(4096), Bernoulli(60)], ids=repr)
def test_probabilities_given_the_latents_average_to_the_prediction(likelihood):
    generator = torch.Generator().manual_seed(0)
    n_latents = likelihood.n_latents(2 if isinstance(likelihood, Bernoulli) else 3)
    mean = torch.randn(4, n_latents, generator=generator, dtype=torch.float64)
    var = torch.rand(4, n_latents, generator=generator, dtype=torch.float64) + 0.1
    noise = torch.randn(200_000, 4, n_latents, generator=generator, dtype=torch.float64)
    given = likelihood.class_probabilities(mean + var.sqrt() * noise)
    assert torch.allclose(given.sum(-1), torch.ones(()).double())
    assert torch.allclose(given.mean(0), likelihood.predict(mean, var), atol=5e-3)
    left = torch.special.entr(given).sum(-1).mean(0)
    assert torch.allclose(left, likelihood.expected_entropy(mean, var), atol=5e-3)


# --- the mean of a softmax ----------------------------------------------------------------------

VARIANCES = (1e-12, 1e-3, 0.1, 0.5, 2.0, 10.0, 100.0, 1e4)


def softmax_predictions(mean, var) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean, var = np.asarray(mean, dtype=float), np.asarray(var, dtype=float)
    found = Softmax().predict(torch.from_numpy(mean), torch.from_numpy(var))
    return mean, var, found.numpy()


def assert_accurate(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-5)
    seen = expected > 1e-6
    np.testing.assert_allclose(found[seen], expected[seen], rtol=3e-3)


def test_softmax_of_two_classes_is_the_logistic_of_their_difference():
    # Differences up to eight standard deviations, of all variances beside all others. The
    # trapezoid rule is the oracle, as a logistic function is a step to Gauss-Hermite's far nodes.
    cases = [
        ((0.0, gap * np.sqrt(own + other + 3.0)), (own, other))
        for own in VARIANCES
        for other in VARIANCES
        for gap in np.linspace(-8, 8, 41)
    ]
    mean, var, found = softmax_predictions(*zip(*cases, strict=True))
    z = np.linspace(-12, 12, 8001)
    weight = norm.pdf(z) / norm.pdf(z).sum()
    pairs = zip(mean[:, 1] - mean[:, 0], np.sqrt(var.sum(1)), strict=True)
    expected = [[expit(-d - s * z) @ weight, expit(d + s * z) @ weight] for d, s in pairs]
    assert_accurate(found, np.array(expected))


@pytest.mark.parametrize("var", [(0.3, 0.3, 0.3), (0.01, 1.0, 4.0), (2.0, 1e-12, 0.5)], ids=str)
def test_softmax_of_three_classes_is_the_product_rule(var):
    gaps = [(a, b, 0.0) for a in (-9.0, -2.0, 0.0, 1.0) for b in (-6.0, 0.0, 3.0)]
    mean, var, found = softmax_predictions(gaps, [var] * len(gaps))
    node, weight = np.polynomial.hermite_e.hermegauss(48)
    weight = weight / weight.sum()
    noise = np.stack(np.meshgrid(node, node, node, indexing="ij"), -1).reshape(-1, 3)
    joint = np.einsum("i,j,k->ijk", weight, weight, weight).ravel()
    expected = [joint @ softmax(m + np.sqrt(v) * noise, 1) for m, v in zip(mean, var, strict=True)]
    assert_accurate(found, np.array(expected))


@pytest.mark.parametrize("n_latents", [4, 7, 30])
def test_softmax_of_many_classes_is_the_monte_carlo_mean(n_latents):
    rng = np.random.default_rng(n_latents)
    spread = rng.choice([0.3, 3.0, 30.0], size=(6, 1))
    mean, var, found = softmax_predictions(
        spread * rng.normal(size=(6, n_latents)), 10 ** rng.uniform(-4, 4, size=(6, n_latents))
    )
    for n in range(len(mean)):
        drawn = softmax(draws(torch.from_numpy(mean[n]), torch.from_numpy(var[n])), 1)
        error = drawn.std(0) / np.sqrt(len(drawn))
        assert (np.abs(found[n] - drawn.mean(0)) < 4.5 * error + 2e-5).all()


def test_softmax_without_variance_is_the_softmax_of_the_mean():
    rng = np.random.default_rng(0)
    mean, _, found = softmax_predictions(4 * rng.normal(size=(50, 7)), np.full((50, 7), 1e-12))
    expected = softmax(mean, 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
    np.testing.assert_allclose(found[expected > 1e-7], expected[expected > 1e-7], rtol=2e-4)


def test_softmax_with_much_variance_is_the_probability_of_the_largest():
    # Of two that differ by the noise alone; however wide one of them is, beside the other.
    for wide in (1e6, 1e12, 1e30):
        mean = [[0.0, np.sqrt(wide)], [0.0, 0.0]]
        *_, found = softmax_predictions(mean, [[wide, 1.0], [wide, 1e-12]])
        np.testing.assert_allclose(found[:, 1], norm.cdf([1.0, 0.0]), atol=1e-3)


def test_softmax_prediction_follows_the_order_of_the_classes():
    rng = np.random.default_rng(1)
    mean, var = 3 * rng.normal(size=(200, 6)), np.exp(2 * rng.normal(size=(200, 6)))
    order = rng.permutation(6)
    *_, found = softmax_predictions(mean, var)
    *_, other = softmax_predictions(mean[:, order], var[:, order])
    np.testing.assert_allclose(other, found[:, order], rtol=2e-5, atol=1e-12)
    *_, same = softmax_predictions(np.zeros((1, 40)), np.full((1, 40), 2.0))
    np.testing.assert_allclose(same, 1 / 40, rtol=1e-6)


def test_softmax_prediction_of_a_node_is_its_own(monkeypatch):
    # Neither the other nodes nor the size of the blocks inside change it; nor does precision.
    rng = np.random.default_rng(2)
    mean = torch.from_numpy(3 * rng.normal(size=(300, 5)))
    var = torch.from_numpy(np.exp(3 * rng.normal(size=(300, 5))))
    whole = Softmax().predict(mean, var)
    parts = [Softmax().predict(*part) for part in zip(mean.split(7), var.split(7), strict=True)]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=2e-5, atol=1e-12)
    single = Softmax().predict(mean.float(), var.float())
    assert (whole.dtype, single.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(whole.sum(1), torch.ones(300).double(), rtol=0, atol=1e-14)
    torch.testing.assert_close(single.double(), whole, rtol=0, atol=1e-5)
    monkeypatch.setattr(budget, "cached", 1000)
    torch.testing.assert_close(Softmax().predict(mean, var), whole, rtol=2e-5, atol=1e-12)


def test_softmax_prediction_of_no_node_one_class_or_nothing_known():
    assert Softmax().predict(torch.zeros(0, 3), torch.ones(0, 3)).shape == (0, 3)
    assert (Softmax().predict(torch.randn(4, 1), torch.ones(4, 1)) == 1).all()
    mean = torch.zeros(3, 2)
    mean[1, 0] = torch.nan
    found = Softmax().predict(mean, torch.ones(3, 2))
    assert found.isnan().any(1).tolist() == [False, True, False]


def test_softmax_finds_nothing_quite_impossible():
    found = Softmax().predict(torch.tensor([[0.0, 60.0, 1e4]]), torch.tensor([[1.0, 0.01, 5.0]]))
    assert (found > 0).all()
    assert found[0, 2] == 1
