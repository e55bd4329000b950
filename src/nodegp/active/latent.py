"""The covariance that a Gaussian process gives its latent values h, as labels come in.

Under the prior h has the covariance K of the model's own kernel and filter. An answer at node k
tells h_k up to a noise, whatever it is, so that the covariance left is known before it is given:
``C - C e_k e_k^T C / (C_kk + noise)``. Up to ``MAX_DENSE`` nodes C is kept whole. For more, K is
taken for what some landmark nodes say of it, and the rest of each node's variance for its own.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from scipy.linalg import cho_factor, solve_triangular

from nodegp.prior import Domain, Prior, whole

MAX_DENSE = 5_000  # C has the square of this many entries: 200 MiB
N_LANDMARKS = 512
_BLOCK = 1 << 22  # entries of the largest array made on the way


class LatentCovariance(Protocol):
    """C, with what the worth of a question is made of."""

    noise: float
    labelled: list[int]

    def condition(self, node: int) -> None:
        """Take a node as labelled too."""

    def variances(self) -> np.ndarray:
        """Diagonal of C, (N,)."""

    def squares(self, weights: np.ndarray) -> np.ndarray:
        """sum_j weights_j C_ij^2 for every node i, (N,)."""


@torch.no_grad()
def latent_covariance(
    prior: Prior, domain: Domain, noise: float, labelled: np.ndarray
) -> LatentCovariance:
    """C for these labels, a mask; ``noise`` is a share of the mean prior variance."""
    everyone = prior.at(domain, np.arange(domain.n_nodes))
    variances = prior.var(everyone).numpy()
    # Nodes without any feature may have no variance at all, and nothing to divide by.
    level = max(noise * float(variances.mean()), 1e-12)
    found: LatentCovariance
    if domain.n_nodes <= MAX_DENSE:
        found = DenseCovariance(prior.cov(everyone, everyone).numpy(), level)
    else:
        nodes = _landmarks(domain.n_nodes)
        cross = whole(prior.cross(everyone, prior.at(domain, nodes).materialise()))
        found = LowRankCovariance(cross.numpy(), nodes, variances, level)
    for node in np.flatnonzero(labelled).tolist():
        found.condition(node)
    return found


def _landmarks(n_nodes: int) -> np.ndarray:
    """Nodes at random, with a seed of their own: the same questions get the same answers."""
    return np.sort(np.random.default_rng(0).choice(n_nodes, N_LANDMARKS, replace=False))


class DenseCovariance:
    """C itself; a label costs O(N^2), and so does a question."""

    def __init__(self, prior: np.ndarray, noise: float):
        self.noise = noise
        self.labelled: list[int] = []
        self._C = prior

    def condition(self, node: int) -> None:
        column = self._C[node].copy()
        scaled = column / (column[node] + self.noise)
        step = max(_BLOCK // len(column), 1)
        for start in range(0, len(column), step):
            some = slice(start, start + step)
            self._C[some] -= np.outer(column[some], scaled)
        self.labelled.append(node)

    def variances(self) -> np.ndarray:
        return np.maximum(self._C.diagonal(), 0.0)

    def squares(self, weights: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij,j->i", self._C, self._C, weights)


class LowRankCovariance:
    """C = Phi S Phi^T + diag(rest), with a row of Phi for each node and S = I before any label.

    Phi Phi^T is what R landmarks u say, ``Cov(h, u) Cov(u, u)^-1 Cov(u, h)``. A label changes S
    alone; a question costs O(N R^2).
    """

    def __init__(self, cross: np.ndarray, landmarks: np.ndarray, prior: np.ndarray, noise: float):
        self.noise = noise
        self.labelled: list[int] = []
        within = cross[landmarks]
        within[np.diag_indices_from(within)] += 1e-9 * max(within.trace(), 1e-12)
        factor, _ = cho_factor(within, lower=True)
        self._phi = solve_triangular(factor, cross.T, lower=True).T  # (N, R)
        self._S = np.eye(len(landmarks))
        self._told = np.einsum("ir,ir->i", self._phi, self._phi)  # diagonal of Phi S Phi^T
        self._rest = np.maximum(prior - self._told, 0.0)
        self._weighed: tuple[np.ndarray, np.ndarray] | None = None  # w and Phi^T diag(w) Phi

    def condition(self, node: int) -> None:
        direction = self._S @ self._phi[node]
        total = direction @ self._phi[node] + self._rest[node] + self.noise
        self._S -= np.outer(direction, direction) / total
        self._told -= (self._phi @ direction) ** 2 / total
        self.labelled.append(node)

    def variances(self) -> np.ndarray:
        return np.maximum(self._told, 0.0) + self._rest

    def squares(self, weights: np.ndarray) -> np.ndarray:
        if self._weighed is None or self._weighed[0] is not weights:  # in a batch they stay
            self._weighed = weights, self._phi.T @ (self._phi * weights[:, None])
        product = self._phi @ (self._S @ self._weighed[1] @ self._S)
        own = self._rest * (2.0 * self._told + self._rest)
        return np.einsum("ir,ir->i", product, self._phi) + weights * own
