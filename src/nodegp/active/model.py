"""What a strategy may ask of a model, and no more.

Any model has class probabilities: ``predict_proba(graph)``, a row for each node. A Gaussian process
says more, of its latent values h and of what it would expect without labels.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from nodegp.graph import Graph
from nodegp.posterior import Marginals
from nodegp.prior import Domain, Prior

__all__ = ["PosteriorModel", "posterior_model"]


@runtime_checkable
class PosteriorModel(Protocol):
    """A fitted Gaussian process, as ``nodegp.model.FittedModel`` is one.

    It is asked about node numbers of a graph as it sees it, which is what :meth:`domain` gives.
    """

    def domain(self, graph: Graph | None = None) -> Domain:
        """Where to ask: a graph with its features."""

    def marginals(self, domain: Domain, nodes: np.ndarray) -> Marginals:
        """Posterior means and variances of h, each (nodes, latents)."""

    def across(self, domain: Domain, nodes: np.ndarray, others: np.ndarray) -> Tensor:
        """Posterior covariance of h at some nodes with h at others, (latents, nodes, others)."""

    def planning_prior(self, domain: Domain) -> Prior:
        """The prior of h to plan questions with, which should change little as labels come in."""


def posterior_model(model: Any, strategy: str) -> PosteriorModel:
    """The Gaussian process of a model: an estimator has it in ``model_``."""
    inner = getattr(model, "model_", model)
    if not isinstance(inner, PosteriorModel):
        raise TypeError(
            f"{strategy} needs a Gaussian process (GraphGPClassifier), got "
            f"{type(model).__name__}; use sopt or margin"
        )
    return inner
