"""The posterior of the model and what follows from it, whichever engine found it.

q is Gaussian in the inducing variables, or in their whitened form v with ``u = L v``. Call
either one w-space: h at a node has covariance ``w = Cov(h, u)``, or ``w = L^-1 Cov(h, u)``,
with it. Then for latent l the mean of h is ``mean_l . w``, and the labels have lowered its prior
variance by ``w^T gain_l w``. Everything about h at any node follows from that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nodegp.covariance import covariance, plain, variance
from nodegp.filters import Bags, SeveralBags
from nodegp.kernels import Kernel
from nodegp.linalg import sparse_matmul

_BLOCK = 1 << 22  # entries of the largest array over (latents, inducing variables, nodes)
# A variance can round to zero, or below it, where the prior's own is zero (a node and
# neighbours without any feature); square roots and divisions want a little room.
_SMALLEST_VARIANCE = 1e-12


class Marginals(NamedTuple):
    """Means and variances of h, each (nodes, latents)."""

    mean: Tensor
    var: Tensor


class Sites(NamedTuple):
    """The likelihood of each label as a Gaussian factor: ``lambda1 h - lambda2 h^2 / 2``."""

    lambda1: Tensor  # (L, O)
    lambda2: Tensor  # (L, O)


@dataclass(frozen=True)
class Posterior:
    """q with the inducing variables and the kernel that it belongs to."""

    kernel: Kernel
    inducing: Bags  # M of them
    chol: Tensor | None  # (M, M) lower, Kuu = chol chol^T, if q is in whitened form
    mean: Tensor  # (L, M)
    gain: Tensor  # (L, M, M) symmetric

    @property
    def n_latents(self) -> int:
        return self.mean.shape[0]

    @property
    def n_inducing(self) -> int:
        return self.mean.shape[1]

    @torch.no_grad()
    def marginals(self, bags: Bags) -> Marginals:
        """q(h) at each bag."""
        # With every row of the bags first, then mixed block by block: the rows' covariances are
        # the one large array here, and a second of that size would double the memory.
        kernel, bags, inducing = plain(self.kernel, bags, self.inducing)
        weights = None if isinstance(bags, SeveralBags) else bags.weights
        rows = bags if weights is None else Bags(None, bags.rows)
        by_row = covariance(kernel, rows, inducing)  # (T, M)
        prior = self._cast(variance(kernel, bags))
        mean = torch.empty(len(bags), self.n_latents, dtype=self.mean.dtype)
        var = torch.empty_like(mean)
        step = max(_BLOCK // self.mean.numel(), 1)
        for start in range(0, len(bags), step):
            block = slice(start, start + step)
            cross = by_row[block] if weights is None else sparse_matmul(weights[block], by_row)
            w = self.project(cross)  # (M, block)
            mean[block] = (self.mean @ w).mT.cpu()
            gained = (self.gain @ w).mul_(w).sum(1)  # (L, block)
            var[block] = (prior[block] - gained).mT.clamp_min(_SMALLEST_VARIANCE).cpu()
        return Marginals(mean, var)

    @torch.no_grad()
    def joint(self, bags: Bags) -> tuple[Tensor, Tensor]:
        """Mean (R, L) and covariance (L, R, R) of h over all the bags together."""
        kernel, bags, inducing = plain(self.kernel, bags, self.inducing)
        w = self.project(covariance(kernel, bags, inducing))
        cov = self._cast(covariance(kernel, bags, bags)) - w.mT @ self.gain @ w
        return (self.mean @ w).mT.cpu(), (0.5 * (cov + cov.mT)).cpu()

    @torch.no_grad()
    def across(self, a: Bags, b: Bags) -> Tensor:
        """Covariance of h at some bags with h at others, (L, len(a), len(b))."""
        kernel, a, b, inducing = plain(self.kernel, a, b, self.inducing)
        wa, wb = (self.project(covariance(kernel, bags, inducing)) for bags in (a, b))
        cov = self._cast(covariance(kernel, a, b)) - (wa.mT @ self.gain) @ wb
        return cov.cpu()

    def project(self, cross: Tensor) -> Tensor:
        w = self._cast(cross).mT
        if self.chol is None:
            return w.contiguous()
        return torch.linalg.solve_triangular(self.chol, w, upper=False)

    def _cast(self, values: Tensor) -> Tensor:
        return values.to(self.mean.device, self.mean.dtype)


def sample_joint(mean: Tensor, cov: Tensor, n_samples: int, rng: np.random.Generator) -> Tensor:
    """Draws of h, shape (n_samples, R, L). Eigenvalues, not Cholesky: the covariance of
    nodes that share their neighbourhood is singular."""
    values, vectors = torch.linalg.eigh(cov)
    root = vectors * values.clamp_min(0.0).sqrt()[:, None, :]
    noise = torch.from_numpy(rng.standard_normal((n_samples, *mean.T.shape))).to(mean.dtype)
    return mean + torch.einsum("lrk,slk->srl", root, noise)


def leave_one_out(
    marginals: Marginals, explained: Tensor, kept: Tensor, alpha: Tensor
) -> Marginals:
    """q(h_n) without label n, for each label: its site is divided out of the posterior.

    All (O, L): ``explained`` is the part s of each variance that u carries, ``w_n^T Cov[v] w_n``;
    ``kept`` is 1 - lambda2 s and ``alpha`` is lambda1 - lambda2 m. The engine hands these over,
    because it has them to more digits than the differences would give.
    """
    # 1/s_- = 1/s - lambda2, arranged so that s = 0 (no features at all) is no special case.
    without = explained / kept.clamp_min(torch.finfo(kept.dtype).tiny)
    mean = marginals.mean - without * alpha
    var = (marginals.var - explained + without).clamp_min(_SMALLEST_VARIANCE)
    # Where the other sites' precision is negative, nothing is left without this one: no division
    # gives a Gaussian then, and the latent is taken for one that nothing is known of.
    nothing = kept <= 0
    mean = torch.where(nothing, torch.zeros_like(mean), mean)
    var = torch.where(nothing, marginals.var, var)
    return Marginals(mean.cpu(), var.cpu())
