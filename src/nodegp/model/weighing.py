"""How much each view of a graph has to say: by predictions of labels that were left out.

Least squares on indicators of the classes does for softmax here: under the default's strong prior
both say the same of the labels, and it costs a thousandth of a fit. Scores of labels left out in
groups become probabilities by one scale; how likely they make the labels is what a view is worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nodegp.linalg import ridge_inverse
from nodegp.model.groups import STAY, dealt_groups
from nodegp.model.unseen import Pooled, pooled_scores

__all__ = [
    "AMPLITUDES",
    "Score",
    "Weights",
    "left_out_scores",
    "ridge_inverses",
    "weigh",
    "weigh_numbers",
]

AMPLITUDES = (1.0, 8.0)  # of the prior variance, in units of the usual one
_AMPLITUDE_SHARES = (0.8, 0.2)  # before any label
_TURNS = 2  # groupings of the labels
# The power of the labels' probability that counts. Views are fitted to the same few labels and
# their losses go up and down together with luck: at 1, five labels too many would decide.
_POWER = 0.4
# Of the scale of scores, in units of their spread: the usual log, and how far it strays.
_LOG_SCALES = torch.linspace(-4.0, 2.5, 27, dtype=torch.float64)
_USUAL, _SPREAD = 0.3, 1.0
_NOISES = (0.03, 0.1, 0.3, 1.0, 3.0)  # of numbers, beside a prior variance of one


class Score(NamedTuple):
    """What a view of the graph was found worth."""

    name: str
    weight: float  # its share of the prior variance; 0 if it was left out
    # Of labels left out, per label; None if there was nothing to go by. Of numbers it is that of
    # their density.
    log_loss: float | None


class Weights(NamedTuple):
    """What weighing came to."""

    views: np.ndarray  # (V,) shares, which sum to one
    amplitude: float  # of the prior variance, in units of the usual
    log_losses: np.ndarray | None  # (V,) per label, at the better amplitude
    pooled: Pooled | None = None  # what views say together of labels left out


def ridge_inverses(kernels: Tensor, n_classes: int, variance: float, bias: float) -> Tensor:
    """What :func:`weigh` makes of covariances (V, O, O) before it looks at a label: inverses of
    those with the noise of least squares, (A V, O, O), for each amplitude."""
    covariances = torch.cat([amplitude * variance * kernels + bias for amplitude in AMPLITUDES])
    return ridge_inverse(covariances, _noise(n_classes))


def _noise(n_classes: int) -> float:
    """That of softmax about equal probabilities."""
    return n_classes**2 / max(n_classes - 1, 1)


def weigh(
    kernels: Tensor, inverses: Tensor, targets: np.ndarray, n_classes: int, shares: np.ndarray
) -> Weights:
    """Weights of views from the covariances (V, O, O) that they give the labelled nodes, each with
    variances near one, and :func:`ridge_inverses` of these. ``shares`` (V,) are what views get
    before any label."""
    order = kernels.mean(0).sum(1).numpy()
    groups = [dealt_groups(targets, order, turn) for turn in range(_TURNS)]
    judged = np.flatnonzero(groups[0] != STAY)
    if len(judged) < 2:
        return Weights(shares / shares.sum(), 1.0, None)
    every = left_out_scores(inverses, targets, n_classes, groups)
    lost = _losses(every[:, :, judged].flatten(0, 1), targets[judged]).numpy()
    by_label = np.zeros((len(AMPLITUDES), len(kernels), len(targets)))
    by_label[:, :, judged] = lost.reshape(_TURNS, *by_label.shape[:2], -1).mean(axis=0)
    losses = by_label.sum(2)
    prior = np.log(np.outer(_AMPLITUDE_SHARES, shares))
    log_weights = prior - _POWER * losses
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    amplitude = float(np.exp(weights.sum(1) @ np.log(AMPLITUDES)))
    pooled = pooled_scores(
        every.numpy(),
        by_label.reshape(-1, len(targets)),
        np.stack(groups),
        prior.ravel(),
        _POWER,
    )
    return Weights(weights.sum(0), amplitude, losses.min(0) / len(judged), pooled)


def weigh_numbers(kernels: Tensor, numbers: np.ndarray, shares: np.ndarray) -> Weights:
    """The same for targets that are numbers, in standard units: by the density that each view gives
    those left out, one at a time, at the noise and the scale that suit it best."""
    if len(numbers) < 3:
        return Weights(shares / shares.sum(), 1.0, None)
    y = torch.from_numpy(numbers).to(kernels.dtype)
    losses = torch.full((len(kernels), len(_NOISES)), torch.inf, dtype=kernels.dtype)
    for which, noise in enumerate(_NOISES):
        inverse = ridge_inverse(kernels, noise)
        precision = inverse.diagonal(dim1=1, dim2=2)  # of what is left to know of each without it
        error = (inverse @ y) / precision
        scale = (error.square() * precision).mean(1, keepdim=True).clamp_min(1e-12)
        squares = error.square() * precision / scale
        losses[:, which] = 0.5 * (squares + (2 * math.pi * scale / precision).log()).sum(1)
    best = losses.numpy().min(1)
    log_weights = np.log(shares) - _POWER * (best - best.min())
    weights = np.exp(log_weights - log_weights.max())
    return Weights(weights / weights.sum(), 1.0, best / len(numbers))


def left_out_scores(
    inverses: Tensor, targets: np.ndarray, n_classes: int, groupings: Sequence[np.ndarray]
) -> Tensor:
    """What least squares says of each label without its group, (turns, V, O, C), for each grouping,
    from the inverses (V, O, O) of covariances with noise."""
    wanted = torch.eye(n_classes, dtype=inverses.dtype)[targets] - 1.0 / n_classes
    pulled = inverses @ wanted
    scores = wanted.expand(len(groupings), len(inverses), -1, -1).clone()
    for turns, inside in _of_one_size(groupings):
        within = inverses[:, inside[:, :, None], inside[:, None, :]]
        factor = torch.linalg.cholesky(within)
        change = torch.cholesky_solve(pulled[:, inside], factor)  # (V, groups, labels, C)
        scores[turns[:, None], :, inside] -= change.permute(1, 2, 0, 3)
    return scores


def _of_one_size(groupings: Sequence[np.ndarray]) -> Iterator[tuple[Tensor, Tensor]]:
    """Groups of the same size, one size after the other: the grouping that each is of, (groups,),
    and its members, (groups, labels)."""
    of_size: dict[int, list[tuple[int, np.ndarray]]] = {}
    for turn, groups in enumerate(groupings):
        order = np.argsort(groups, kind="stable")[np.count_nonzero(groups == STAY) :]
        ends = np.cumsum(np.bincount(groups[order]))
        for members in np.split(order, ends[:-1]):
            of_size.setdefault(len(members), []).append((turn, members))
    for size in sorted(of_size.keys() - {0}):
        turns, members = zip(*of_size[size], strict=True)
        yield torch.tensor(turns), torch.from_numpy(np.stack(members))


def _losses(scores: Tensor, targets: np.ndarray) -> Tensor:
    """Log losses (V, O) of scores (V, O, C) at the scale that suits each view best."""
    spread = scores.std(dim=(1, 2), correction=0).clamp_min(1e-9)
    scales = (_LOG_SCALES.exp() / spread[:, None])[:, :, None]  # (V, scales, 1)
    above = scores - scores.amax(2, keepdim=True)
    # Classes first: sums over them run along rows of labels.
    sums = (above.permute(2, 0, 1)[:, :, None].contiguous() * scales).exp_().sum(0)
    of_truth = above[:, torch.arange(len(targets)), torch.from_numpy(targets)][:, None] * scales
    of_truth -= sums.log_()  # (V, scales, O)
    penalty = 0.5 * ((_LOG_SCALES - _USUAL) / _SPREAD) ** 2
    best = (penalty - of_truth.sum(-1)).argmin(1)  # of (V, scales)
    return -of_truth[torch.arange(len(of_truth)), best]
