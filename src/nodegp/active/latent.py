"""What a strategy may ask of a Gaussian process, and the covariance of its latent values h.

Any model has class probabilities: ``predict_proba(graph)``, a row for each node. A Gaussian process
says more, of h and of what it would expect without labels: see :class:`PosteriorModel`.

Under the prior h has the covariance K of the model's own kernel and filter. An answer at node k
tells h_k up to a noise, whatever it is, so that the covariance left is known before it is given:
``C - C e_k e_k^T C / (C_kk + noise)``. Up to ``MAX_DENSE`` nodes C is kept whole. For more, K is
taken for what some landmark nodes say of it, and the rest of each node's variance for its own.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from scipy.linalg.blas import dger
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.graph import Graph
from nodegp.linalg import QuadraticForms, cholesky, one_numpy_thread, weighted_gram
from nodegp.posterior import Marginals
from nodegp.prior import Domain, Prior, whole

__all__ = ["LatentCovariance", "PosteriorModel", "latent_covariance", "posterior_model"]

MAX_DENSE = 5_000  # C has the square of this many entries: 200 MiB
N_LANDMARKS = 512
# Scores in single precision are this close to exact ones, relative to the best: far more than they
# err by. So many nodes within that are scored exactly.
_ROUGHLY = 1e-3
_SINGLE = 1e-6  # and of what there was before any label, whose digits single precision keeps
_MOST_EXACT = 128
_BELOW = 1.0 - 1e-6
# Nodes without any feature may have no variance at all, and nothing to divide by.
_SMALLEST_NOISE = 1e-12


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


class DenseCovariance:
    """C itself; a label costs O(N^2), and so does a question."""

    def __init__(self, prior: np.ndarray, noise: float):
        self.noise = noise
        self.labelled = np.zeros(len(prior), dtype=bool)
        self._C = prior

    @one_numpy_thread()  # the model that learns from the answer is torch's
    def condition(self, node: int) -> None:
        """Take a node as labelled too."""
        column = self._C[node].copy()
        scaled = column / (column[node] + self.noise)
        # In place, seen the way round that Fortran has it.
        self._C = dger(-1.0, scaled, column, a=self._C.T, overwrite_a=1).T
        self.labelled[node] = True

    def variances(self) -> np.ndarray:
        """Diagonal of C, (N,)."""
        return np.maximum(self._C.diagonal(), 0.0)

    def squares(self, weights: np.ndarray) -> np.ndarray:
        """sum_j weights_j C_ij^2 for every node i, (N,)."""
        return np.einsum("ij,ij,j->i", self._C, self._C, weights)

    def worth(self, weights: np.ndarray, open_: np.ndarray) -> np.ndarray:
        """By how much a label lowers the weighted variances, (N,); exact for the best of the open
        nodes, a mask."""
        return self.squares(weights) / (self.variances() + self.noise)


class LowRankCovariance:
    """C = Phi S Phi^T + diag(rest), with a row of Phi for each node and S = I before any label.

    Phi Phi^T is what R landmarks u say, ``Cov(h, u) Cov(u, u)^-1 Cov(u, h)``. A label changes S
    alone; a question costs O(N R^2), most of it in single precision: :meth:`worth` scores all nodes
    so, and in double precision those that may be the best. Methods are as in
    :class:`DenseCovariance`.
    """

    def __init__(self, cross: Tensor, landmarks: np.ndarray, prior: np.ndarray, noise: float):
        self.noise = noise
        self.labelled = np.zeros(len(prior), dtype=bool)
        factor, _ = cholesky(cross[landmarks], "covariance of the landmarks")
        phi = torch.linalg.solve_triangular(factor, cross.mT, upper=False).mT
        self._phi = phi.numpy()  # (N, R)
        self._S = np.eye(len(landmarks))
        self._explained = np.einsum("ir,ir->i", self._phi, self._phi)  # diagonal of Phi S Phi^T
        self._rest = np.maximum(prior - self._explained, 0.0)
        self._at_first = self._explained.copy()
        self._weighted: tuple[np.ndarray, np.ndarray] | None = None  # w and Phi^T diag(w) Phi
        self._roughly_weighted: tuple[np.ndarray, Tensor] | None = None  # from single precision

    @one_numpy_thread()
    def condition(self, node: int) -> None:
        direction = self._S @ self._phi[node]
        total = direction @ self._phi[node] + self._rest[node] + self.noise
        self._S -= np.outer(direction, direction) / total
        self._explained -= (self._phi @ direction) ** 2 / total
        self.labelled[node] = True

    def variances(self) -> np.ndarray:
        return np.maximum(self._explained, 0.0) + self._rest

    def squares(self, weights: np.ndarray) -> np.ndarray:
        if self._weighted is None or self._weighted[0] is not weights:  # in a batch they stay
            self._weighted = weights, self._phi.T @ (self._phi * weights[:, None])
        product = self._phi @ (self._S @ self._weighted[1] @ self._S)
        own = self._rest * (2.0 * self._explained + self._rest)
        return np.einsum("ir,ir->i", product, self._phi) + weights * own

    @cached_property
    def _rough_phi(self) -> Tensor:
        return torch.from_numpy(self._phi).float()

    @one_numpy_thread()
    def worth(self, weights: np.ndarray, open_: np.ndarray) -> np.ndarray:
        scale = self.variances() + self.noise
        own = weights * self._rest * (2.0 * self._explained + self._rest)
        scores = (self._rough_forms(weights) + own) / scale
        best = scores[open_].max(initial=0.0)
        unsure = _ROUGHLY * best + _SINGLE * (weights @ self._at_first)
        places = np.flatnonzero(open_ & (scores >= best - unsure))
        if len(places) > _MOST_EXACT:  # hardly anything tells them apart
            return self.squares(weights) / scale
        across = self._phi @ (self._S @ self._phi[places].T)  # (N, places)
        forms = np.einsum("ij,ij,i->j", across, across, weights)
        exact = (forms + own[places]) / scale[places]
        # What is only known roughly may come close to the best that is known, and never above.
        scores = np.minimum(scores, _BELOW * exact.max(initial=0.0))
        scores[places] = exact
        return scores

    def _rough_forms(self, weights: np.ndarray) -> np.ndarray:
        """Diagonal of Phi S Phi^T diag(w) Phi S Phi^T, up to single precision."""
        phi = self._rough_phi
        if self._roughly_weighted is None or self._roughly_weighted[0] is not weights:
            gram = weighted_gram(phi, torch.from_numpy(weights).float())
            self._roughly_weighted = weights, gram.double()
        S = torch.from_numpy(self._S)
        inner = S @ self._roughly_weighted[1] @ S
        forms = QuadraticForms(inner.float()[None])
        rows = blocks(len(phi), phi.shape[1], budget.cached)
        return torch.cat([forms(phi[some]) for some in rows])[:, 0].double().numpy()


LatentCovariance = DenseCovariance | LowRankCovariance


@torch.no_grad()
def latent_covariance(prior: Prior, domain: Domain, noise: float) -> LatentCovariance:
    """C before any label; ``noise`` is a share of the mean prior variance."""
    everyone = prior.at(domain, np.arange(domain.n_nodes))
    variances = prior.var(everyone).numpy()
    noise = max(noise * float(variances.mean()), _SMALLEST_NOISE)
    if domain.n_nodes <= MAX_DENSE:
        return DenseCovariance(prior.cov(everyone, everyone).numpy(), noise)
    # At random, with a seed of their own: the same questions get the same answers.
    rng = np.random.default_rng(0)
    landmarks = np.sort(rng.choice(domain.n_nodes, N_LANDMARKS, replace=False))
    cross = whole(prior.cross(everyone, prior.at(domain, landmarks).materialise()))
    return LowRankCovariance(cross, landmarks, variances, noise)
