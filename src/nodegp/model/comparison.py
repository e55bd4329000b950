"""How recipes are compared: by leave-one-out predictions of the labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nodegp.linalg import ridge_inverse
from nodegp.model.recipe import Recipe

__all__ = ["Score", "Trial", "compare", "squared_error"]

_LABEL_NOISE = 0.3  # of least squares, as a share of the prior variance


class Score(NamedTuple):
    """How a recipe did when the classifier chose. Numbers are None where a recipe was not tried,
    or where no class has two labels and nothing was to go by."""

    name: str
    squared_error: float | None  # leave-one-out, of least squares, per label
    log_loss: float | None = None  # leave-one-out, per label
    gain: float | None = None  # of it over the first recipe of the list
    gain_error: float | None = None  # the standard error of the gain
    elbo: float | None = None
    chosen: bool = False


class Trial(NamedTuple):
    """What is known of a recipe: all of it if the classifier was fitted with it."""

    squared_error: float | None
    log_probabilities: np.ndarray | None  # leave-one-out, of the labels whose class has another
    elbo: float | None


def squared_error(K: Tensor, targets: np.ndarray) -> float:
    """The mean leave-one-out error of least squares on indicators of the classes, over labels
    whose class has another. It costs a hundredth of a fit."""
    has_another = np.bincount(targets)[targets] > 1
    inverse = ridge_inverse(K, _LABEL_NOISE * K.diagonal().mean())
    one_hot = torch.eye(int(targets.max()) + 1, dtype=K.dtype, device=K.device)[targets]
    left_out = (inverse @ one_hot) / inverse.diagonal()[:, None]
    return float(left_out.square().sum(1)[has_another].mean()) if has_another.any() else math.nan


def compare(recipes: Sequence[Recipe], trials: Sequence[Trial]) -> list[Score]:
    """Which recipe to take. The first must have been tried.

    Another must beat it by two standard errors of the difference: with a handful of labels one is
    exceeded too often by chance.
    """
    first = trials[0].log_probabilities
    assert first is not None
    scores = []
    for recipe, (error, own, elbo) in zip(recipes, trials, strict=True):
        score = Score(recipe.name, error, elbo=elbo)
        if own is not None and len(first) > 1:
            gains = own - first
            score = score._replace(
                log_loss=-float(own.mean()),
                gain=float(gains.mean()),
                gain_error=float(gains.std(ddof=1) / len(gains) ** 0.5),
            )
        scores.append(score)
    gains, errors = (np.array([getattr(s, n) or 0.0 for s in scores]) for n in Score._fields[3:5])
    best = int(np.where(gains > 2.0 * errors, gains, 0.0).argmax())
    return [score._replace(chosen=j == best) for j, score in enumerate(scores)]
