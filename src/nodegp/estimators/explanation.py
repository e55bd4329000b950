"""Why a node was predicted as it was: shares of labels and of neighbours in its latent mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nodegp.covariance import covariance
from nodegp.features import LazyRows
from nodegp.filters import Bags, FilteredRows, LowRankBags, SeveralBags
from nodegp.posterior import Posterior


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
    here: Bags,
    labels: Bags | None,
    labelled: np.ndarray,
    label_weights: np.ndarray,
) -> Explanation:
    """Take the latent mean of one node apart.

    ``here`` is the node's bag, ``labels`` are the labelled nodes' (None if they are the inducing
    variables themselves).
    """
    with torch.no_grad():
        w = _projected(posterior, here)[:, 0]  # (M,)
        mean = _plain(posterior.mean @ w)
        # Cov(h, h_i) of the node and each label i, as far as u carries it.
        shared = w if labels is None else _projected(posterior, labels).mT @ w
    alike = _plain(shared)
    from_labels = (alike - alike.mean())[:, None] * label_weights
    common = alike.mean() * label_weights.sum(axis=0)
    neighbours, shares = _by_neighbours(posterior, node, here, mean)
    return Explanation(
        latent_mean=mean,
        labelled=labelled,
        from_labels=from_labels,
        common=common,
        rest=mean - from_labels.sum(axis=0) - common,
        neighbours=neighbours,
        from_neighbours=shares,
    )


def _by_neighbours(
    posterior: Posterior, node: int, here: Any, mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes whose f the node's h is made of, and what each adds to its mean."""
    if isinstance(here, SeveralBags) or isinstance(getattr(here, "rows", None), FilteredRows):
        return np.array([node]), mean[None]  # h is a function of the filtered features themselves
    made_of = here.exact if isinstance(here, LowRankBags) else here
    assert isinstance(made_of.rows, LazyRows)
    neighbours = made_of.rows.index
    assert neighbours is not None
    f_there: Any = Bags(None, made_of.rows)
    if isinstance(here, LowRankBags):
        f_there = here.unfiltered(neighbours)
    f = _plain(posterior.marginals(f_there).mean)
    return neighbours, made_of.row_weights().toarray()[0][:, None] * f


def _projected(posterior: Posterior, bags: Bags) -> Tensor:
    return posterior.project(covariance(posterior.kernel, bags, posterior.inducing))


def _plain(values: Tensor) -> np.ndarray:
    result: np.ndarray = values.cpu().double().numpy()
    return result
