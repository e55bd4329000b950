"""Why a node was predicted as it was: shares of labels and of neighbours in its latent mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nodegp.covariance import covariance
from nodegp.features import LazyRows
from nodegp.filters import Bags
from nodegp.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Explanation:
    """One node's latent mean, taken apart in two ways.

    By labels: each labelled node adds its covariance with this node times its weight in the
    posterior. By neighbours: ``h = sum_j F_j f(x_j)``, so each adds its part of the mean of f.
    """

    latent_mean: np.ndarray  # (L,), the sum of either
    labelled: np.ndarray  # (O,) node numbers
    from_labels: np.ndarray  # (O, L)
    # What the labels leave unsaid: nothing, but for inducing points or an optimiser that stopped
    # short of its optimum.
    rest: np.ndarray  # (L,)
    neighbours: np.ndarray  # (T,) node numbers, the node itself among them if it counts
    from_neighbours: np.ndarray  # (T, L)


def explain(
    posterior: Posterior,
    here: Bags,
    labels: Bags | None,
    labelled: np.ndarray,
    label_weights: np.ndarray,
) -> Explanation:
    """Take the latent mean of one node apart.

    ``here`` is the node's bag, ``labels`` are the labelled nodes' (None if they are the inducing
    variables themselves).
    """
    assert isinstance(here.rows, LazyRows)
    assert here.rows.index is not None
    with torch.no_grad():
        w = _projected(posterior, here)[:, 0]  # (M,)
        mean = _plain(posterior.mean @ w)
        # Cov(h, h_i) of the node and each label i, as far as u carries it.
        shared = w if labels is None else _projected(posterior, labels).mT @ w
        f = posterior.marginals(Bags(None, here.rows)).mean
    from_labels = _plain(shared)[:, None] * label_weights
    return Explanation(
        latent_mean=mean,
        labelled=labelled,
        from_labels=from_labels,
        rest=mean - from_labels.sum(axis=0),
        neighbours=here.rows.index,
        from_neighbours=here.row_weights().toarray()[0][:, None] * _plain(f),
    )


def _projected(posterior: Posterior, bags: Bags) -> Tensor:
    return posterior.project(covariance(posterior.kernel, bags, posterior.inducing))


def _plain(values: Tensor) -> np.ndarray:
    result: np.ndarray = values.cpu().double().numpy()
    return result
