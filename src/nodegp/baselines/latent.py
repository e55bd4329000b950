"""Gaussian-process classification for a covariance that is stated over the nodes of one graph.

The package's own models build theirs from a kernel and a filter. Earlier models state the
covariance of the nodes' latent values outright; this hands such a one to the same inference, with
the same likelihood: the class is that of the largest latent value.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol, cast

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from nodegp import inference
from nodegp.baselines.base import Labels
from nodegp.component import Component
from nodegp.filters import Bags
from nodegp.inducing import Exact, Whitened
from nodegp.kernels import Kernel
from nodegp.likelihoods import Likelihood, RobustMax
from nodegp.linalg import check_finite
from nodegp.posterior import Marginals

_BLOCK = 1 << 22  # entries of the largest array over (latents, labels, nodes)


class NodeCovariance(Protocol):
    """The prior covariance of the nodes' latent values, given hyper-parameters."""

    def of_labels(self, parameters: Any) -> Tensor:
        """Between the labelled nodes, (O, O); differentiable in the hyper-parameters."""

    def with_labels(self, parameters: Any, nodes: np.ndarray) -> Tensor:
        """Between these nodes and the labelled ones, (nodes, O)."""

    def variance(self, parameters: Any, nodes: np.ndarray) -> Tensor:
        """Of each of these nodes, (nodes,)."""


def fit(
    covariance: NodeCovariance,
    parameters: Component,
    y: np.ndarray,
    likelihood: Likelihood,
    n_latents: int,
    rng: np.random.Generator,
) -> inference.Fit:
    """The posterior at the labels ``y``, with what is free of the hyper-parameters learnt."""
    problem = inference.Problem(
        # The engine asks it for its hyper-parameters, and nothing else.
        kernel=cast(Kernel, parameters),
        likelihood=likelihood,
        projector=_Projector(covariance),
        y=torch.from_numpy(y),
        confidence=torch.ones(len(y), dtype=torch.float64),
        n_latents=n_latents,
        rng=rng,
    )
    found = inference.Dual().fit(problem, lambda line: None)
    if not found.converged:
        warnings.warn(
            f"the Gaussian process did not converge in {found.n_iter} iterations "
            f"(elbo {found.elbo:.4f}); {found.advice}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found


@torch.no_grad()
def marginals(covariance: NodeCovariance, fitted: inference.Fit, nodes: np.ndarray) -> Marginals:
    """The posterior of the latent values at these nodes; see :mod:`nodegp.posterior`."""
    q = fitted.posterior
    w = covariance.with_labels(q.kernel, nodes).mT  # (O, nodes)
    if q.chol is not None:  # q is in whitened form
        w = torch.linalg.solve_triangular(q.chol, w, upper=False)
    var = covariance.variance(q.kernel, nodes) - (q.gain @ w).mul_(w).sum(1)
    return Marginals((q.mean @ w).mT, var.mT.clamp_min(1e-12))


def classify(
    covariance: NodeCovariance,
    parameters: Component,
    labels: Labels,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> tuple[np.ndarray, inference.Fit]:
    """Class probabilities of all nodes, of this shape, and the fit that they come from."""
    # A class without labels has no latent of its own, and no chance.
    seen, targets = np.unique(labels.targets, return_inverse=True)
    fitted = fit(covariance, parameters, targets, RobustMax(), len(seen), rng)
    proba = np.zeros(shape)
    step = max(_BLOCK // (len(seen) * len(targets)), 1)
    for start in range(0, len(proba), step):
        nodes = np.arange(start, min(start + step, len(proba)))
        with torch.no_grad():
            found = fitted.likelihood.predict(*marginals(covariance, fitted, nodes))
        proba[np.ix_(nodes, seen)] = found.numpy()
    return proba, fitted


class _Projector:
    """The labelled nodes as inducing variables, with the covariance as it was stated."""

    points: Tensor | None = None

    def __init__(self, covariance: NodeCovariance):
        self._covariance = covariance

    def __call__(self, kernel: Any, points: Tensor | None) -> Exact:
        return Exact(check_finite(self._covariance.of_labels(kernel)))

    def some(self, kernel: Any, points: Tensor | None, index: np.ndarray) -> Whitened:
        whole = self(kernel, points).whitened()
        return whole._replace(W=whole.W[:, index], prior_var=whole.prior_var[index])

    def bags(self, points: Tensor | None) -> Bags:
        # For a posterior that makes its covariances from features; ``marginals`` does not.
        return Bags.points(torch.zeros(0, 0, dtype=torch.float64))
