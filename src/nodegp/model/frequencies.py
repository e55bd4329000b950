"""How often each class is, by what is said of labels left out.

A model may take labels left out for a class more or less often than they are of it: factors set
that right. And an expert's labels may have other shares of classes than nodes have: how often nodes
are taken for each class, beside how often labels of known classes are, tells the shares of all.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["class_factors", "class_shares"]

_SMALLEST = 1e-300
_STRAYS = 0.15  # the log of a factor, before any label
_STEPS, _NO_CHANGE = 50, 1e-9
# How many labels drawn at random would say as much of the shares of classes as the shares among
# labels do whatever they are; and what is left of a share at the least.
_OWN_SHARES_COUNT, _LEAST_LEFT = 15.0, 0.1


def class_factors(
    left_out: np.ndarray, y: np.ndarray, confidence: np.ndarray, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """Factors of the probabilities of classes that labels left out speak for, of all labels (C,)
    and without each (O, C), from what is said of each label (turns, O, C) and a temperature of it.

    They maximise the labels' probability times a log-normal prior about one, as in bias-corrected
    temperature scaling (Alexandari, Kundaje and Shrikumar 2020). Their product is one.
    """
    said = torch.from_numpy(left_out).clamp_min(_SMALLEST).log() / temperature
    sure = torch.from_numpy(confidence)
    n_turns, _, n_classes = said.shape
    prior = torch.eye(n_classes, dtype=torch.float64) / _STRAYS**2
    own = torch.from_numpy(np.eye(n_classes)[y])
    shift = torch.zeros(n_classes, dtype=torch.float64)
    for _ in range(_STEPS):  # Newton's, of a concave function
        proba = torch.softmax(said + shift, dim=2)
        each = sure[:, None] * (own - proba.mean(0))  # (O, C), the gradient of each label
        weighted = (sure[:, None] * proba).flatten(0, 1) / n_turns
        curvature = prior + weighted.sum(0).diag() - weighted.mT @ proba.flatten(0, 1)
        step = torch.linalg.solve(curvature, each.sum(0) - prior @ shift)
        shift = shift + step
        if step.abs().max() < _NO_CHANGE:
            break
    # Without a label the sum of gradients is less by its own: one more step says what follows.
    others = shift - torch.linalg.solve(curvature, each.mT).mT
    return _factors(shift), _factors(others)


def _factors(shift: Tensor) -> np.ndarray:
    result: np.ndarray = (shift - shift.mean(-1, keepdim=True)).exp().numpy()
    return result


def class_shares(
    shown: np.ndarray, left_out: np.ndarray, y: np.ndarray, confidence: np.ndarray
) -> np.ndarray:
    """How common each class is, (C,); zero for classes without a label.

    ``shown`` (C,) are mean predictions for nodes in general, and ``left_out`` (O, C) what is said
    of each label without it. If classes have shares q, and nodes of a class are taken for others as
    its labels are, the mean prediction is q^T M, with a row of M for each class (Lipton, Wang and
    Smola 2018). Labels are few, so q is also held near their own shares p: it is the least of
    ``O sum_d (shown_d - (q^T M)_d)^2 / shown_d + n sum_c (q_c - p_c)^2 / p_c``.
    """
    labelled = np.bincount(y, confidence, len(shown))
    known = labelled > 0
    if known.sum() < 2:
        return known.astype(np.float64)
    count, own = len(y), labelled[known] / labelled.sum()
    of_class = np.eye(len(shown))[y][:, known] * confidence[:, None]  # (O, classes)
    taken = of_class.T @ left_out[:, known] + own  # with one more label of each, taken at random
    taken /= taken.sum(axis=1, keepdims=True)
    shown = shown[known] / shown[known].sum()
    weighted = count * taken / np.maximum(shown, 1e-9)
    normal = weighted @ taken.T + np.diag(_OWN_SHARES_COUNT / own)
    change, level = np.linalg.solve(
        normal, np.stack([weighted @ (shown - own @ taken), np.ones(len(own))], axis=1)
    ).T
    change -= level * change.sum() / level.sum()  # shares sum to one
    shares = np.maximum(own + change, _LEAST_LEFT * own)
    result = np.zeros(len(known))
    result[known] = shares / shares.sum()
    return result
