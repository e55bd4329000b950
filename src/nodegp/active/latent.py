"""The covariance that a Gaussian process gives its latent values h, as labels come in.

Under the prior h has the covariance K of the model's own kernel and filter. An answer at node k
tells h_k up to a noise, whatever it is, so that the covariance left is known before it is given:
``C - C e_k e_k^T C / (C_kk + noise)``. Up to ``MAX_DENSE`` nodes C is kept whole. For more, K is
taken for what some landmark nodes say of it, and the rest of each node's variance for its own.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nodegp.linalg import cholesky
from nodegp.prior import Domain, Prior, whole

__all__ = ["DenseCovariance", "LatentCovariance", "LowRankCovariance", "latent_covariance"]

MAX_DENSE = 5_000  # C has the square of this many entries: 200 MiB
N_LANDMARKS = 512
_BLOCK = 1 << 22  # entries of the largest array made on the way
# Nodes without any feature may have no variance at all, and nothing to divide by.
_SMALLEST_NOISE = 1e-12


class DenseCovariance:
    """C itself; a label costs O(N^2), and so does a question."""

    def __init__(self, prior: np.ndarray, noise: float):
        self.noise = noise
        self.labelled = np.zeros(len(prior), dtype=bool)
        self._C = prior

    def condition(self, node: int) -> None:
        """Take a node as labelled too."""
        column = self._C[node].copy()
        scaled = column / (column[node] + self.noise)
        step = max(_BLOCK // len(column), 1)
        for start in range(0, len(column), step):
            rows = slice(start, start + step)
            self._C[rows] -= np.outer(column[rows], scaled)
        self.labelled[node] = True

    def variances(self) -> np.ndarray:
        """Diagonal of C, (N,)."""
        return np.maximum(self._C.diagonal(), 0.0)

    def squares(self, weights: np.ndarray) -> np.ndarray:
        """sum_j weights_j C_ij^2 for every node i, (N,)."""
        return np.einsum("ij,ij,j->i", self._C, self._C, weights)


class LowRankCovariance:
    """C = Phi S Phi^T + diag(rest), with a row of Phi for each node and S = I before any label.

    Phi Phi^T is what R landmarks u say, ``Cov(h, u) Cov(u, u)^-1 Cov(u, h)``. A label changes S
    alone; a question costs O(N R^2). Methods are as in :class:`DenseCovariance`.
    """

    def __init__(self, cross: Tensor, landmarks: np.ndarray, prior: np.ndarray, noise: float):
        self.noise = noise
        self.labelled = np.zeros(len(prior), dtype=bool)
        factor, _ = cholesky(cross[landmarks], "covariance of the landmarks")
        self._phi = torch.linalg.solve_triangular(
            factor, cross.mT, upper=False
        ).mT.numpy()  # (N, R)
        self._S = np.eye(len(landmarks))
        self._explained = np.einsum("ir,ir->i", self._phi, self._phi)  # diagonal of Phi S Phi^T
        self._rest = np.maximum(prior - self._explained, 0.0)
        self._weighted: tuple[np.ndarray, np.ndarray] | None = None  # w and Phi^T diag(w) Phi

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
