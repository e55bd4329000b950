"""Probabilities to be trusted, without a validation set: a temperature, and prediction sets.

Leave-one-out predictions of the labelled nodes come with the posterior at no cost. The temperature
that makes them score best is applied to every prediction, and how unlikely the model finds the true
classes tells how many classes a set needs to hold.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

__all__ = ["fit_temperature", "in_sets", "set_threshold", "tempered"]

_SMALLEST = 1e-300
# Beyond these a temperature only makes up certainty or throws all of it away.
_BOUNDS = (np.log(0.1), np.log(10.0))


def tempered(proba: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities to the power 1/temperature, normalised again. Above 1 they flatten."""
    if temperature == 1.0:
        return proba
    scaled = np.log(np.maximum(proba, _SMALLEST)) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    powered = np.exp(scaled)
    return powered / powered.sum(axis=1, keepdims=True)


def fit_temperature(
    loo_proba: np.ndarray,
    y: np.ndarray,
    confidence: np.ndarray | None = None,
    usual: float = 0.0,
    spread: float = 1.0,
) -> float:
    """The temperature with the least leave-one-out log loss; 1 if there is one class only.

    A few dozen labels may leave the loss nearly flat, and a class that loses one of its two labels
    looks worse than it is, so log T has a normal prior of mean ``usual`` and standard deviation
    ``spread``. A label of which the expert was unsure counts for less.
    """
    weight = np.ones(len(y)) if confidence is None else confidence
    if loo_proba.shape[1] < 2:
        return 1.0
    # Without its only label a class is unknown: what is then said of it says nothing.
    weight = weight * (np.bincount(y, minlength=loo_proba.shape[1])[y] > 1)
    rows = np.arange(len(y))

    def loss(log_temperature: float) -> float:
        proba = tempered(loo_proba, float(np.exp(log_temperature)))
        fit = -float((weight * np.log(np.maximum(proba[rows, y], _SMALLEST))).sum())
        return fit + 0.5 * ((log_temperature - usual) / spread) ** 2

    optimum = minimize_scalar(loss, bounds=_BOUNDS, method="bounded", options={"xatol": 1e-3})
    return float(np.exp(optimum.x)) if optimum.fun < loss(usual) else float(np.exp(usual))


def set_threshold(loo_proba: np.ndarray, y: np.ndarray, coverage: float) -> float:
    """The probability from which on a class belongs to a prediction set.

    Conformal prediction (Sadinle, Lei and Wasserman 2019) with leave-one-out probabilities in the
    place of a calibration set: if nodes to come were drawn like the labelled ones, and the model
    did not change by one label more or less, a share ``coverage`` of the sets would hold the truth.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is a share between 0 and 1, got {coverage!r}")
    of_truth = np.sort(loo_proba[np.arange(len(y)), y])
    # The 1e-9 is for shares such as 1 - 0.9, which fall short of a tenth by rounding.
    rank = int(np.floor((1.0 - coverage) * (len(y) + 1) + 1e-9))
    return float(of_truth[rank - 1]) if rank >= 1 else 0.0


def in_sets(proba: np.ndarray, threshold: float) -> np.ndarray:
    """Which classes are in each prediction set: the likeliest, and all above the threshold."""
    return (proba >= threshold) | (proba >= proba.max(axis=1, keepdims=True))
