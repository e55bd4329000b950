"""What the graph networks share: how they start, drop, train and stop.

Each network is its own file; this one knows nothing of graphs, only of weights and losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from nodegp.linalg import threads_for
from nodegp_paper.baselines.base import Labels, check_number

__all__ = [
    "Training",
    "check_settings",
    "check_training",
    "dropped",
    "glorot",
    "has_risen",
    "threads",
    "train",
    "train_with_adam",
    "undropped",
]


class Training(NamedTuple):
    """How a training went: epochs that were run, and the validation loss after each."""

    epochs: int
    validation_losses: list[float]


def train(
    step: Callable[[], None],
    validation_loss: Callable[[], Tensor] | None,
    epochs: int,
    patience: int | None,
) -> Training:
    """Take up to so many steps, fewer if the validation loss rises before."""
    losses: list[float] = []
    for epoch in range(1, epochs + 1):
        step()
        if validation_loss is not None:
            losses.append(float(validation_loss()))
            if has_risen(losses, patience):
                return Training(epoch, losses)
    return Training(epochs, losses)


def train_with_adam(
    network: Any,
    decayed: list[Tensor],
    undecayed: list[Tensor],
    backward: Callable[[], None],
    held_out: Callable[[], Tensor] | None,
    validation: Labels | None,
) -> Training:
    """:func:`train` as Kipf and Welling do: Adam on all labels, decay on some of the weights.

    ``backward`` leaves on each weight the gradient of the mean cross-entropy; ``held_out`` gives
    the logits at the validation nodes. The weight decay is half the squared norm, and part of the
    validation loss too.
    """
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": network.weight_decay},
        {"params": undecayed},
    ]
    optimiser = torch.optim.Adam(groups, lr=network.learning_rate, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        backward()
        optimiser.step()

    if held_out is None or validation is None:
        return train(step, None, network.epochs, network.patience)
    targets, logits = torch.from_numpy(validation.targets), held_out

    @torch.no_grad()
    def validation_loss() -> Tensor:
        penalty = 0.5 * network.weight_decay * sum(weight.square().sum() for weight in decayed)
        return F.cross_entropy(logits(), targets) + penalty

    return train(step, validation_loss, network.epochs, network.patience)


def has_risen(losses: list[float], patience: int | None) -> bool:
    """Kipf and Welling's rule: the last loss is above the mean of those before it."""
    if patience is None or len(losses) < patience + 2:
        return False
    return losses[-1] > float(np.mean(losses[-patience - 1 : -1]))


def dropped(values: Tensor, rate: float, rng: torch.Generator) -> Tensor:
    """The values with a share of them set to zero, and the rest scaled up to make up for it."""
    steps = min(round(rate * 2**16), 2**16 - 1)
    if steps == 0:
        return values
    # Sixteen random bits decide over each value: four values to a number drawn.
    drawn = torch.empty((values.numel() + 3) // 4, dtype=torch.int64)
    drawn.random_(-(2**63), None, generator=rng)
    level = drawn.view(torch.int16)[: values.numel()].view(values.shape)
    return (values * (level >= steps - 2**15)).mul_(2**16 / (2**16 - steps))


def undropped(values: Tensor) -> Tensor:
    """What stands in for :func:`dropped` outside of training: nothing is."""
    return values


def glorot(n_in: int, n_out: int, rng: torch.Generator) -> Tensor:
    """Glorot and Bengio's uniform start."""
    limit = (6.0 / (n_in + n_out)) ** 0.5
    return torch.empty(n_in, n_out).uniform_(-limit, limit, generator=rng)


def threads(features: sp.csr_array) -> Any:
    """As many torch threads as training on these features is worth."""
    # Ten thousand stored features cost about what one row and column of a factorisation does.
    return threads_for(features.nnz // 10_000)


def check_settings(network: Any) -> None:
    """Refuse parameters, of those that the networks share, that are out of their range."""
    check_number("hidden", network.hidden, 1, whole=True)
    check_number("dropout", network.dropout, 0, 1)
    check_number("weight_decay", network.weight_decay, 0)
    check_training(network)


def check_training(network: Any) -> None:
    """The same for those of how long and how fast to train."""
    check_number("learning_rate", network.learning_rate, 0)
    check_number("epochs", network.epochs, 1, whole=True)
    if network.patience is not None:
        check_number("patience", network.patience, 1, whole=True)
