"""Scores of class predictions: accuracy, log loss, Brier score, calibration.

Everything here takes plain arrays, so any model can be scored. Labels are class indices 0..C-1; a
node without a label (-1) is an error: select the nodes to score first. ``weights`` are the
weights of the nodes; by default all are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "LOG_LOSS_EPS",
    "ReliabilityCurve",
    "accuracy",
    "brier",
    "confidence_bins",
    "expected_calibration_error",
    "log_loss",
    "reliability_curve",
    "wilson_interval",
]

# Probabilities are clipped to at least this before their logarithm is taken.
LOG_LOSS_EPS = 1e-15

_DEVIATIONS = 1.959963984540054  # of a normal variable: 95 % lie within so many standard ones

_SUM_TOLERANCE = 1e-3  # float32 softmax outputs over many classes are off by about 1e-6


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Confidence against accuracy in equal-width bins; empty bins hold NaN and count 0."""

    edges: NDArray[np.float64]  # (n_bins + 1,)
    confidence: NDArray[np.float64]  # (n_bins,) mean top-label probability
    accuracy: NDArray[np.float64]  # (n_bins,) share of right answers
    count: NDArray[np.int64]  # (n_bins,)
    interval: NDArray[np.float64]  # (n_bins, 2) that holds the true accuracy in 95 % of cases


def accuracy(
    y: ArrayLike, proba_or_pred: ArrayLike, weights: NDArray[np.float64] | None = None
) -> float:
    """Share of correct predictions, from class probabilities (n, C) or predicted classes (n,).

    Predicted classes are compared with ``y`` directly, so they may be strings. If probabilities are
    equal, the first class is predicted.
    """
    predictions = np.asarray(proba_or_pred)
    if predictions.ndim == 2:
        labels, proba = _check(y, predictions)
        return float(np.average(np.argmax(proba, axis=1) == labels, weights=weights))
    labels = np.asarray(y)
    if predictions.ndim != 1 or labels.shape != predictions.shape:
        raise ValueError(
            f"y has shape {labels.shape} and the predictions {predictions.shape}; pass predicted "
            "classes of the same length as y, or probabilities of shape (len(y), n_classes)."
        )
    if not len(labels):
        raise ValueError("There is nothing to score: y is empty.")
    if labels.dtype.kind in "iuf" and np.any(labels == -1):
        raise ValueError(
            f"{int(np.sum(labels == -1))} of {len(labels)} labels are -1 (unlabelled); "
            "score only nodes that have a label, e.g. y[y >= 0]."
        )
    if (labels.dtype.kind in "US") != (predictions.dtype.kind in "US"):
        raise ValueError(
            f"y holds {labels.dtype} and the predictions {predictions.dtype}; "
            "pass both as names or both as class positions."
        )
    return float(np.average(labels == predictions, weights=weights))


def log_loss(
    y: ArrayLike,
    proba: ArrayLike,
    eps: float = LOG_LOSS_EPS,
    weights: NDArray[np.float64] | None = None,
) -> float:
    """Mean of -log p(true class), in nats, with p clipped to at least ``eps``."""
    if not 0 < eps < 1:
        raise ValueError(f"eps is {eps!r}; it must lie between 0 and 1.")
    labels, proba = _check(y, proba)
    of_truth = np.clip(proba[np.arange(len(labels)), labels], eps, 1.0)
    return float(-np.average(np.log(of_truth), weights=weights))


def brier(y: ArrayLike, proba: ArrayLike, weights: NDArray[np.float64] | None = None) -> float:
    """Mean over nodes of sum_c (p_c - [y = c])^2: 0 is perfect, 2 is certain and wrong.

    This is Brier's own multi-class form; for two classes it is twice the one-sided score.
    """
    labels, proba = _check(y, proba)
    error = proba.copy()
    error[np.arange(len(labels)), labels] -= 1.0
    return float(np.average(np.sum(error**2, axis=1), weights=weights))


def reliability_curve(y: ArrayLike, proba: ArrayLike, n_bins: int = 15) -> ReliabilityCurve:
    """Top-label confidence against accuracy, in ``n_bins`` bins of equal width over [0, 1].

    Bins are closed on the right, (a, b], as in Guo et al. (2017); a confidence of 0 cannot occur.
    """
    confidence, right, which, edges = confidence_bins(y, proba, n_bins)
    count = np.bincount(which, minlength=n_bins)
    with np.errstate(invalid="ignore"):  # 0 / 0 in an empty bin is the NaN we promise
        mean_confidence = np.bincount(which, weights=confidence, minlength=n_bins) / count
        mean_accuracy = np.bincount(which, weights=right, minlength=n_bins) / count
        interval = wilson_interval(mean_accuracy, count)
    return ReliabilityCurve(edges, mean_confidence, mean_accuracy, count, interval)


def wilson_interval(share: ArrayLike, count: ArrayLike) -> NDArray[np.float64]:
    """(..., 2) Wilson's 95 % interval for a proportion observed in this many trials.

    It is valid for few trials and for proportions of 0 and 1; NaN without trials.
    """
    share, count = np.asarray(share, np.float64), np.asarray(count, np.float64)
    square = _DEVIATIONS**2
    middle = count * share + square / 2
    spread = _DEVIATIONS * np.sqrt(count * share * (1 - share) + square / 4)
    return np.stack([middle - spread, middle + spread], axis=-1) / (count + square)[..., None]


def expected_calibration_error(
    y: ArrayLike, proba: ArrayLike, n_bins: int = 15, weights: NDArray[np.float64] | None = None
) -> float:
    """Mean gap between top-label confidence and accuracy in equal-width bins, by their counts."""
    confidence, right, which, _ = confidence_bins(y, proba, n_bins)
    each = np.ones(len(which)) if weights is None else np.asarray(weights, np.float64)
    gaps = np.bincount(which, weights=each * (right - confidence))
    return float(np.sum(np.abs(gaps)) / each.sum())


def confidence_bins(y: ArrayLike, proba: ArrayLike, n_bins: int) -> tuple[NDArray, ...]:
    """Each node's confidence, whether it is right and its bin; and the edges of the bins."""
    if not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
        raise ValueError(f"n_bins is {n_bins!r}; it must be a whole number of at least 1.")
    labels, proba = _check(y, proba)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    top = np.argmax(proba, axis=1)
    confidence = proba[np.arange(len(labels)), top]
    which = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, n_bins - 1)
    return confidence, (top == labels).astype(np.float64), which, edges


def _check(y: ArrayLike, proba: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels as class positions and probabilities as float64, or an error that says what to do."""
    labels, proba = np.asarray(y), np.asarray(proba, dtype=np.float64)
    if proba.ndim != 2:
        raise ValueError(
            f"The probabilities have shape {proba.shape}; "
            "pass one row per node and one column per class."
        )
    if labels.shape != (len(proba),):
        raise ValueError(
            f"y has shape {labels.shape} but there are {len(proba)} rows of probabilities; "
            "pass one label per row."
        )
    if not len(labels):
        raise ValueError("There is nothing to score: y is empty.")
    n_classes = proba.shape[1]
    is_whole = labels.dtype.kind == "f" and bool(np.all(labels == np.floor(labels)))
    if labels.dtype.kind not in "iu" and not is_whole:
        raise ValueError(
            f"y holds {labels.dtype}, not class positions; map names to 0..{n_classes - 1} "
            "in the order of the probabilities' columns first."
        )
    if labels.min() < 0 or labels.max() >= n_classes:
        bad = labels[(labels < 0) | (labels >= n_classes)][0]
        raise ValueError(
            f"y holds {bad}, but with {n_classes} columns of probabilities labels are "
            f"0..{n_classes - 1}; leave unlabelled (-1) nodes out before scoring."
        )
    if not np.all(np.isfinite(proba)):
        raise ValueError("The probabilities hold NaN or infinity; look at the model's output.")
    if proba.min() < -_SUM_TOLERANCE or proba.max() > 1 + _SUM_TOLERANCE:
        raise ValueError(
            f"The probabilities range from {proba.min():.6g} to {proba.max():.6g}, outside [0, 1]; "
            "pass probabilities, not scores or logits."
        )
    sums = proba.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > _SUM_TOLERANCE:
        raise ValueError(
            f"Row {worst} of the probabilities sums to {sums[worst]:.6g}, not 1; "
            "normalise the rows first."
        )
    # float32 rounding may leave a value an ulp outside [0, 1]
    return labels.astype(np.int64), np.clip(proba, 0.0, 1.0)
