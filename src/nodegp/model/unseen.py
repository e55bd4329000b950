"""What would be said of labels left out, had the weights of views been found without them as well.

A label that is left out of the posterior has still had a say in how much each view counts, and with
five labels per class that is worth a few points. The views' own scores of labels left out, which
weights are found by, tell how much: pooled by all weights, and by weights without a label's group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nodegp.model.groups import STAY

__all__ = ["Pooled", "pooled_scores", "without_own_say"]

_SMALLEST = 1e-300


class Pooled(NamedTuple):
    """What views say together of labels left out, as scores (O, C)."""

    by_all: np.ndarray  # by weights that all labels had a say in
    by_others: np.ndarray  # by weights without the group of each label


def pooled_scores(
    scores: np.ndarray,
    losses: np.ndarray,
    groups: np.ndarray,
    log_prior: np.ndarray,
    power: float,
) -> Pooled:
    """Scores (turns, K, O, C) of K views, each without the label's group (turns, O), pooled by
    weights in proportion to ``exp(log_prior - power losses)``; losses (K, O) are of each label."""
    total = losses.sum(axis=1)
    weights = _shares(log_prior - power * total)
    by_all, by_others = np.zeros((2, *scores.shape[2:]))
    for each, group in zip(scores, groups, strict=True):
        together = np.einsum("k,koc->oc", weights, each)
        by_all += together / len(scores)
        by_others += together / len(scores)
        out = np.flatnonzero(group != STAY)
        if not len(out):
            continue
        is_in = np.eye(group.max() + 1)[group[out]]  # (labels, groups)
        left = total[:, None] - losses[:, out] @ is_in  # (K, groups)
        change = (_shares(log_prior[:, None] - power * left) - weights[:, None])[:, group[out]]
        by_others[out] += np.einsum("ko,koc->oc", change, each[:, out]) / len(scores)
    return Pooled(by_all, by_others)


def without_own_say(left_out: np.ndarray, pooled: Pooled) -> np.ndarray:
    """Probabilities of labels left out (turns, O, C), changed by as much as pooled scores change
    when labels lose their say, in units in which these are most like the logs of probabilities."""
    n_known = pooled.by_all.shape[1]  # later classes have no label: nothing was said of them
    by_all, by_others = (part - part.mean(axis=1, keepdims=True) for part in pooled)
    logs = np.log(np.maximum(left_out, _SMALLEST))
    known = logs[:, :, :n_known].mean(axis=0)
    known = known - known.mean(axis=1, keepdims=True)
    scale = max(float((known * by_all).sum()), 0.0) / max(float((by_all**2).sum()), _SMALLEST)
    logs[:, :, :n_known] += scale * (by_others - by_all)
    result = np.exp(logs - logs.max(axis=2, keepdims=True))
    return result / result.sum(axis=2, keepdims=True)


def _shares(logs: np.ndarray) -> np.ndarray:
    shares = np.exp(logs - logs.max(axis=0))
    result: np.ndarray = shares / shares.sum(axis=0)
    return result
