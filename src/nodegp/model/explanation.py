"""Why a node was predicted as it was: shares of labels and of neighbours in its latent mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nodegp.posterior import Posterior
from nodegp.prior import Domain, Inputs, OneFunction, SumInputs, SumPrior

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, eq=False)
class Explanation:
    """One node's latent mean, decomposed in two ways.

    By labels: the mean is a sum over labels of the covariance of the node with the labelled node,
    times the label's weight in the posterior. The mean covariance over labels is separated as
    ``common``, because it would swamp the rest; so the term of a label says how much more, or less,
    similar the node is to it than to labelled nodes on average. A label of another class supports
    this class if the node is unlike it.

    By neighbours: h is a combination of the features of nearby nodes (or of f at each), so each
    contributes a term. The part that is the same for all nodes (the bias) is ``anywhere``.
    """

    latent_mean: np.ndarray  # (L,): the sum of either way's parts
    labelled: np.ndarray  # (O,) node numbers
    from_labels: np.ndarray  # (O, L)
    common: np.ndarray  # (L,) from what the node shares with all labelled nodes alike
    # What labels do not explain: nothing, unless an optimiser stopped short of its optimum.
    rest: np.ndarray  # (L,)
    neighbours: np.ndarray  # (T,) node numbers, the node itself among them if it counts
    from_neighbours: np.ndarray  # (T, L)
    anywhere: np.ndarray  # (L,)


@torch.no_grad()
def explain(
    posterior: Posterior,
    domain: Domain,
    node: int,
    labels: Inputs | None,
    labelled: np.ndarray,
    label_weights: np.ndarray,
) -> Explanation:
    """Take the latent mean of one node apart.

    ``labels`` are the labelled nodes as inputs (None if they are the inducing variables).
    """
    here = posterior.prior.at(domain, np.array([node]))
    w = _projected(posterior, here)[:, 0]  # (M,)
    mean = _array(posterior.mean @ w)
    # Cov(h, h_i) of the node and each label i, as far as u carries it.
    alike = _array(w if labels is None else _projected(posterior, labels).mT @ w)
    from_labels = (alike - alike.mean())[:, None] * label_weights
    common = alike.mean() * label_weights.sum(axis=0)
    neighbours, shares = _by_node(posterior, domain, node)
    return Explanation(
        latent_mean=mean,
        labelled=labelled,
        from_labels=from_labels,
        common=common,
        rest=mean - from_labels.sum(axis=0) - common,
        neighbours=neighbours,
        from_neighbours=shares,
        anywhere=mean - shares.sum(axis=0),
    )


def _by_node(posterior: Posterior, domain: Domain, node: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes whose features made the mean, and what each added, (nodes, L)."""
    prior, inducing = posterior.prior, posterior.inducing
    pairs = [(prior, inducing)]
    if isinstance(prior, SumPrior):
        pairs = list(zip(prior.parts, SumInputs.of(inducing).parts, strict=True))
    total: dict[int, np.ndarray] = {}
    for part, u in pairs:
        assert isinstance(part, OneFunction)
        nodes, covariances = part.by_node(domain, node, u)
        shares = _array(posterior.mean @ posterior.project(covariances)).T
        for place, share in zip(nodes.tolist(), shares, strict=True):
            total[place] = total.get(place, 0.0) + share
    return np.array(list(total)), np.stack(list(total.values()))


def _projected(posterior: Posterior, inputs: Inputs) -> Tensor:
    return posterior.project(posterior.prior.cov(inputs, posterior.inducing))


def _array(values: Tensor) -> np.ndarray:
    result: np.ndarray = values.double().numpy()
    return result
