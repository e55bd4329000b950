"""Scores that only experiments need: of a learning curve, and of calibration over many splits."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from nodegp.metrics import confidence_bins

__all__ = ["area_under_learning_curve", "debiased_calibration_error"]


def debiased_calibration_error(y: ArrayLike, proba: ArrayLike, n_bins: int = 15) -> float:
    """Mean squared gap between top-label confidence and accuracy, without what chance adds to it.

    The gap of a bin is a mean of few right and wrong answers, so that even a perfect model has gaps
    and an expected calibration error above zero. Over all pairs of different nodes of a bin, the
    mean product of their gaps has the square of the bin's own gap as its expectation (after Kumar,
    Liang and Ma 2019). So its mean over many splits may be trusted, and a single value may be below
    zero. The square root of that mean is on the scale of a probability. Bins of one node tell
    nothing and count as nothing.
    """
    confidence, right, which, _ = confidence_bins(y, proba, n_bins)
    gap = right - confidence
    count = np.bincount(which)
    of_pairs = np.bincount(which, weights=gap) ** 2 - np.bincount(which, weights=gap**2)
    several = count > 1
    return float(np.sum(of_pairs[several] / (count[several] - 1)) / len(gap))


def area_under_learning_curve(
    accuracies: ArrayLike, form: Literal["mean", "trapezoid"] = "mean"
) -> float:
    """Area under accuracy against number of labels, scaled to [0, 1].

    ``accuracies`` holds one value per label asked for; a matrix (trials, labels) is averaged over
    its trials. "mean" is the mean of the values; "trapezoid" joins them by straight lines, so that
    the first and the last count half.
    """
    values = np.asarray(accuracies, dtype=np.float64)
    if form not in ("mean", "trapezoid"):
        raise ValueError(f'form is {form!r}; choose "mean" or "trapezoid".')
    if values.ndim not in (1, 2) or values.size == 0:
        raise ValueError(
            f"accuracies has shape {values.shape}; pass one row of accuracies, "
            "or a matrix with one row per trial."
        )
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError(
            f"accuracies range from {np.min(values)} to {np.max(values)}; "
            "they must lie in [0, 1] (divide percentages by 100)."
        )
    if form == "mean":
        return float(np.mean(values))
    if values.shape[-1] < 2:
        raise ValueError("The trapezoid form needs at least two accuracies; there is one.")
    areas = (values.sum(-1) - 0.5 * (values[..., 0] + values[..., -1])) / (values.shape[-1] - 1)
    return float(np.mean(areas))
