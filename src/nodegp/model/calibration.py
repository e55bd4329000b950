"""Probabilities to be trusted, without a validation set: a temperature, and sets of classes.

Predictions of labelled nodes without their labels come with the posterior at no cost. The
temperature that makes them score best is applied to every prediction; and how unlikely the model
finds the true classes tells how many classes a set needs to hold. No class is ever ruled out: a few
dozen labels cannot show that something never happens. How common classes are:
:mod:`nodegp.model.frequencies`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.special import gammaln

from nodegp.budget import blocks, budget

__all__ = [
    "TemperaturePrior",
    "Temperatures",
    "averaged",
    "fit_temperatures",
    "in_sets",
    "least_probability",
    "mixed",
    "set_threshold",
    "sharpness",
    "tempered",
    "usual_temperature",
    "weighted",
]

_SMALLEST = 1e-300
_LOG_TEMPERATURES = np.arange(-6.0, 2.31, 0.05)
# Of log T, for probabilities whose logs have a known spread: by how much it is below the log of
# that spread as a rule, and how far it strays: little on most graphs, and far on some.
_BELOW, _STRAYS, _DEGREES = 0.74, 0.25, 1.0
# Labels left out count for less than as many that a model never saw: predictions without them have
# nearly all other labels in common, and err together. By as much as if these were so many more.
_IN_COMMON = 25
# And of predictions that are worth nothing: how often that is so, and by how much log T is above.
_HOPELESS, _ABOVE = 0.06, 1.0
# Where means over log T are taken, in standard deviations, and with which weights: those that are
# right for all polynomials up to the fifth degree.
_PLACES, _WEIGHTS = (-(3.0**0.5), 0.0, 3.0**0.5), (1 / 6, 2 / 3, 1 / 6)
# What every class keeps: a quarter of a label among those there are and some more, and of a node no
# more than this in all.
_QUARTER, _MORE, _MOST = 0.25, 15, 0.05


def tempered(proba: np.ndarray, temperature: float | np.ndarray) -> np.ndarray:
    """Probabilities to the power 1/temperature, normalised again. Above 1 they flatten. There may
    be a temperature for each row, as a column."""
    return averaged(proba, temperature, 0.0)


def averaged(
    proba: np.ndarray, temperature: float | np.ndarray, spread: float | np.ndarray
) -> np.ndarray:
    """The mean of tempered probabilities over temperatures whose log strays by ``spread``. There
    may be one for each row, as columns."""
    if np.all(spread == 0.0) and np.all(temperature == 1.0):
        return proba
    # In torch, whose exponentials take a fraction of the time of numpy's, and classes first: so
    # softmax runs along long rows, in a tenth of the time.
    logs = torch.from_numpy(proba).clamp_min(_SMALLEST).log_().mT.contiguous()
    total = torch.zeros_like(logs)
    places = zip(_PLACES, _WEIGHTS, strict=True) if np.any(spread) else [(0.0, 1.0)]
    for place, share in places:
        power = np.transpose(1.0 / (temperature * np.exp(place * spread)))
        total.add_(torch.softmax(logs * torch.as_tensor(power), dim=0), alpha=share)
    result: np.ndarray = total.mT.contiguous().numpy()
    return result


def weighted(proba: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probabilities times a weight for each class, normalised again."""
    if (weights == 1.0).all():
        return proba
    result = proba * weights
    return result / np.maximum(result.sum(axis=1, keepdims=True), _SMALLEST)


def least_probability(n_labels: int, n_classes: int) -> float:
    """What every class has, however unlikely it looks.

    A few nodes are unlike all that is known of their class. With nothing left for them, one that is
    among the labels would make all predictions more modest, and one that is not would cost dear.
    """
    return min(_QUARTER / (_MORE + n_labels), _MOST / n_classes)


def mixed(proba: np.ndarray, least: float) -> np.ndarray:
    """Probabilities of which every class has that much at least; their order stays."""
    return least + (1.0 - proba.shape[-1] * least) * proba if least > 0 else proba


def sharpness(proba: np.ndarray) -> float:
    """The log of how far the logs of probabilities are from their mean, which is what a
    temperature divides. Of the mean over nodes: a few beside the labels may be far sharper than
    the rest, and their squares would speak for all."""
    logs = np.log(np.maximum(proba, _SMALLEST))
    spread = logs.std(axis=1)
    return float(np.log(max(spread.mean(), _SMALLEST)))


class TemperaturePrior(NamedTuple):
    """What is known of log T before any label: normal or Student's t about ``usual``, and with a
    small chance far above it, where there is nothing to know and predictions should say so."""

    usual: float
    spread: float
    hopeless: float = 0.0  # the chance that predictions are worth nothing
    at: float = 0.0  # log T there
    around: float = 1.0
    degrees: float | None = None  # of freedom of Student's t, which may stray far

    def log_density(self, log_temperature: np.ndarray) -> np.ndarray:
        """Up to a constant."""
        near = _log_normal(log_temperature, self.usual, self.spread)
        if self.degrees is not None:
            near = _log_student(log_temperature, self.usual, self.spread, self.degrees)
        if self.hopeless == 0.0:
            return near
        far = _log_normal(log_temperature, self.at, self.around)
        return np.logaddexp(near + np.log1p(-self.hopeless), far + np.log(self.hopeless))


def _log_normal(x: np.ndarray, mean: float, deviation: float) -> np.ndarray:
    result: np.ndarray = -0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation)
    return result


def _log_student(x: np.ndarray, mean: float, scale: float, degrees: float) -> np.ndarray:
    half = degrees / 2
    constant = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(half)  # beside a normal's
    squares = ((x - mean) / scale) ** 2
    result: np.ndarray = constant - np.log(scale) - (half + 0.5) * np.log1p(squares / degrees)
    return result


class Temperatures(NamedTuple):
    """What labels left out speak for."""

    by_all: float
    by_others: np.ndarray  # (O,) what is there for each label if it has no say
    spread: float  # the standard deviation of what by_all leaves open of its log
    spreads: np.ndarray  # (O,) and of what others do


def fit_temperatures(
    left_out: np.ndarray,
    y: np.ndarray,
    confidence: np.ndarray,
    growth: float = 1.0,
    prior: TemperaturePrior | None = None,
    least: float = 0.0,
) -> Temperatures:
    """The temperature that predictions of labels left out speak for, (turns, O, C) and in the mean
    over turns, of all of them and without each; 1 if there is one class only.

    Predictions without a group of labels are less sharp than those that the temperature is for, by
    a factor of about ``growth``, since evidence adds up. A few dozen labels may leave much open, so
    it has a prior, and what is left open of log T has a mean and a spread. A label of which the
    expert was unsure counts for less; none at all, if its class has no other. Every class has
    ``least``, whatever the temperature.
    """
    if left_out.shape[2] < 2:
        return Temperatures(1.0, np.ones(len(y)), 0.0, np.zeros(len(y)))
    prior = prior or TemperaturePrior(0.0, 1.0)
    logs = np.log(np.maximum(left_out, _SMALLEST))
    below = torch.from_numpy(logs - logs.max(axis=2, keepdims=True))
    of_label = below[:, torch.arange(len(y)), torch.from_numpy(y)]
    powers = torch.from_numpy(growth * np.exp(-_LOG_TEMPERATURES))
    each = np.empty((len(powers), len(y)))
    for block in blocks(len(powers), below.numel(), budget.cached):
        power = powers[block, None, None]
        sums = (power[..., None] * below).exp_().sum(3)  # (temperatures, turns, O)
        of_truth = power * of_label - sums.log_()
        if least > 0:
            of_truth = (least + (1.0 - left_out.shape[2] * least) * of_truth.exp_()).log_()
        each[block] = confidence * of_truth.mean(1).numpy()
    every, count = each.sum(axis=1, keepdims=True), confidence.sum()
    of_others = _power(count - confidence) * (every - each)
    total = np.concatenate([_power(count) * every, of_others], axis=1)
    total += prior.log_density(_LOG_TEMPERATURES)[:, None]
    chances = np.exp(total - total.max(axis=0))
    chances /= chances.sum(axis=0)
    mean = _LOG_TEMPERATURES @ chances
    spread = np.sqrt(((_LOG_TEMPERATURES[:, None] - mean) ** 2 * chances).sum(axis=0))
    found = np.exp(mean)
    return Temperatures(float(found[0]), found[1:], float(spread[0]), spread[1:])


def _power(count: np.ndarray) -> np.ndarray:
    """That of the probability of so many labels left out, as far as it counts."""
    return count / (count + _IN_COMMON)


def usual_temperature(proba: np.ndarray) -> TemperaturePrior:
    """What is known of the temperature from predictions without one. A strong prior makes softmax
    far too modest, by a factor that differs between graphs; but tempered as it should be, it is
    about as sharp on all of them, if there is anything to know."""
    own = sharpness(proba)
    return TemperaturePrior(own - _BELOW, _STRAYS, _HOPELESS, own + _ABOVE, 1.0, _DEGREES)


def set_threshold(
    left_out: np.ndarray, y: np.ndarray, coverage: float, weights: np.ndarray | None = None
) -> float:
    """The probability from which on a class belongs to a prediction set.

    Conformal prediction (Sadinle, Lei and Wasserman 2019) with probabilities of labels left out in
    the place of a calibration set: if nodes to come were drawn like the labelled ones, and the
    model did not change by some labels more or less, a share ``coverage`` of the sets would hold
    the truth. Where classes are labelled more or less often than they occur, ``weights`` set that
    right (Tibshirani et al. 2019).
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is a share between 0 and 1, got {coverage!r}")
    of_truth = left_out[np.arange(len(y)), y]
    order = np.argsort(of_truth)
    each = np.ones(len(y)) if weights is None else weights * (len(y) / weights.sum())
    # The 1e-9 is for shares such as 1 - 0.9, which fall short of a tenth by rounding.
    below = np.cumsum(each[order]) <= (1.0 - coverage) * (len(y) + 1) + 1e-9
    rank = int(below.sum())
    return float(of_truth[order[rank - 1]]) if rank >= 1 else 0.0


def in_sets(proba: np.ndarray, threshold: float) -> np.ndarray:
    """Which classes are in each prediction set: the likeliest, and all above the threshold."""
    return (proba >= threshold) | (proba >= proba.max(axis=1, keepdims=True))
