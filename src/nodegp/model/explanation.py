"""Why a node was predicted as it was: shares of labels and of neighbours in its latent mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nodegp.posterior import Posterior
from nodegp.prior import FilteredFunction, Inputs, WeightedRows

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, eq=False)
class Explanation:
    """One node's latent mean, taken apart in two ways.

    By labels: the mean is a sum over labels of the node's covariance with each times the label's
    weight in the posterior. Most of that covariance is the same for all labels, and would swamp
    the rest: it is kept apart as ``common``, and each label's share is about how much more, or
    less, the node is like it than like labelled nodes on average. So a label of another class
    speaks for this one where the node is unlike it.

    By neighbours: ``h = sum_j F_j f(x_j)``, so each adds its part of the mean of f.
    """

    latent_mean: np.ndarray  # (L,): from_labels.sum(0) + common + rest = from_neighbours.sum(0)
    labelled: np.ndarray  # (O,) node numbers
    from_labels: np.ndarray  # (O, L)
    common: np.ndarray  # (L,) from what the node shares with all labelled nodes alike
    # What labels do not explain: nothing, unless an optimiser stopped short of its optimum.
    rest: np.ndarray  # (L,)
    neighbours: np.ndarray  # (T,) node numbers, the node itself among them if it counts
    from_neighbours: np.ndarray  # (T, L)


def explain(
    posterior: Posterior,
    node: int,
    here: Inputs,
    labels: Inputs | None,
    labelled: np.ndarray,
    label_weights: np.ndarray,
) -> Explanation:
    """Take the latent mean of one node apart.

    ``here`` is the node as an input, ``labels`` are the labelled nodes (None if they are the
    inducing variables themselves).
    """
    with torch.no_grad():
        w = _projected(posterior, here)[:, 0]  # (M,)
        mean = _array(posterior.mean @ w)
        # Cov(h, h_i) of the node and each label i, as far as u carries it.
        shared = w if labels is None else _projected(posterior, labels).mT @ w
    alike = _array(shared)
    from_labels = (alike - alike.mean())[:, None] * label_weights
    common = alike.mean() * label_weights.sum(axis=0)
    # Where h is a function of filtered features, or a sum, it is made of no other node's f.
    neighbours, shares = np.array([node]), mean[None]
    if isinstance(posterior.prior, FilteredFunction):
        neighbours, weights, there = posterior.prior.neighbours(WeightedRows.of(here))
        shares = weights[:, None] * _array(posterior.marginals(there).mean)
    return Explanation(
        latent_mean=mean,
        labelled=labelled,
        from_labels=from_labels,
        common=common,
        rest=mean - from_labels.sum(axis=0) - common,
        neighbours=neighbours,
        from_neighbours=shares,
    )


def _projected(posterior: Posterior, inputs: Inputs) -> Tensor:
    return posterior.project(posterior.prior.cov(inputs, posterior.inducing))


def _array(values: Tensor) -> np.ndarray:
    result: np.ndarray = values.double().numpy()
    return result
