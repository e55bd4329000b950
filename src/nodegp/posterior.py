"""The posterior of the model and what follows from it, whichever engine found it.

q is Gaussian in the inducing variables, or in their whitened form v with ``u = L v``. Call
either one w-space: h at a node has covariance ``w = Cov(h, u)``, or ``w = L^-1 Cov(h, u)``,
with it. Then for latent l the mean of h is ``mean_l . w``, and the labels have lowered its prior
variance by ``w^T gain_l w``. Everything about h at any node follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.declared import check_shapes, require
from nodegp.gains import OwnClassGains, SiteGains, latent_blocks
from nodegp.linalg import QuadraticForms
from nodegp.prior import Inputs, Prior, bias_of

__all__ = ["Marginals", "Posterior", "Sites", "leave_one_out", "sample_joint"]

# A variance can round to zero, or below it, where the prior's own is zero (a node and
# neighbours without any feature); square roots and divisions want a little room.
_SMALLEST_VARIANCE = 1e-12
# By how much a mean that is a sum over labels may be off in single precision, as a share of the sum
# of sizes.
_ROUNDING = 1e-5


class Marginals(NamedTuple):
    """Means and variances of h, each (nodes, latents)."""

    mean: Tensor
    var: Tensor


class Sites(NamedTuple):
    """The likelihood of each label as a Gaussian factor: ``lambda1 h - lambda2 h^2 / 2``."""

    lambda1: Tensor  # (L, O)
    lambda2: Tensor  # (L, O)


@dataclass(frozen=True, eq=False)
class Posterior:
    """q with the inducing variables and the prior that it belongs to."""

    prior: Prior
    inducing: Inputs  # M of them
    chol: Tensor | None  # (M, M) lower, Kuu = chol chol^T, if q is in whitened form
    mean: Tensor  # (L, M)
    # (L, M, M) symmetric; of many latents only what it is made of
    gain: Tensor | SiteGains | OwnClassGains

    def __post_init__(self) -> None:
        check_shapes(self, inducing="M", chol="M M", mean="L M", gain="L M M")
        # Row by row, as a file holds them: another order in memory gives other last digits.
        for name in ("chol", "mean", "gain"):
            value = getattr(self, name)
            if isinstance(value, Tensor):
                object.__setattr__(self, name, value.contiguous())

    @property
    def n_latents(self) -> int:
        return self.mean.shape[0]

    @property
    def n_inducing(self) -> int:
        return self.mean.shape[1]

    def marginals(self, inputs: Inputs) -> Marginals:
        """q(h) at each input; an error where it is not finite."""
        marginals = self._marginals(inputs)
        require(
            all(torch.isfinite(part).all() for part in marginals),
            "this model gives values that are NaN or infinite: its numbers, or the features, are "
            "far too large",
        )
        return marginals

    @torch.no_grad()
    def _marginals(self, inputs: Inputs) -> Marginals:
        if len(inputs) == 0:
            empty = torch.zeros(0, self.n_latents, dtype=torch.float64)
            return Marginals(empty, empty)
        cross = self.prior.cross(inputs, self.inducing)  # propagation along the edges is here
        prior_var = cross.variances()
        factors = cross.factors() if len(inputs) > self.n_inducing else None
        if factors is not None and self._prefers(factors.right.shape[1]):
            # More labels than features: the same posterior in the space of weights.
            right = self.project(factors.right.mT)  # (M, P)
            return self._by_block(factors.left, prior_var, right)
        if self.chol is None:
            return self._by_block(cross.block, prior_var)
        return self._by_block(lambda rows: self.project(cross.block(rows)).mT, prior_var)

    @torch.no_grad()
    def is_reached(self, marginals: Marginals) -> Tensor:
        """Whether q(h) at each input, (nodes,), owes anything to the labels but a bias that all
        nodes share."""
        bias = torch.full((1, self.n_inducing), bias_of(self.prior), dtype=torch.float64)
        w = self.project(bias)[:, 0]
        mean, size = (self.mean @ w).double(), (self.mean.abs() @ w.abs()).double()
        return ((marginals.mean - mean).abs() > _ROUNDING * size).any(1)

    def _by_block(
        self, block: Callable[[slice], Tensor], prior_var: Tensor, right: Tensor | None = None
    ) -> Marginals:
        """Means ``mean . w`` and variances ``prior_var - w^T gain w``, for w a range of inputs at a
        time and in the precision that it comes in; if ``right`` is there w is that times a row."""
        mean = torch.empty(len(prior_var), self.n_latents, dtype=torch.float64)
        var = torch.empty_like(mean)
        kind = min(block(slice(0, 1)).dtype, self.gain.dtype, key=lambda kind: kind.itemsize)
        weights = (self.mean if right is None else self.mean @ right).mT.to(kind)
        for latents, gained in self._forms(right, kind):
            for rows in blocks(len(mean), len(weights), budget.cached):
                w = block(rows).to(kind)  # (rows, M)
                mean[rows, latents] = (w @ weights[:, latents]).double()
                var[rows, latents] = prior_var[rows, None] - gained(w).double()
        return Marginals(mean, var.clamp_min_(_SMALLEST_VARIANCE))

    def _forms(
        self, right: Tensor | None, kind: torch.dtype
    ) -> Iterator[tuple[slice, Callable[[Tensor], Tensor]]]:
        """Ranges of latents, and ``w^T gain w`` of each of these for rows w."""
        if isinstance(self.gain, OwnClassGains):
            yield slice(0, self.n_latents), self.gain.forms(right, kind)
            return
        ranges = list(latent_blocks(self.n_latents, self.n_inducing))
        if len(ranges) == 1:
            yield ranges[0], self._kept_forms(right, kind)
            return
        for latents in ranges:
            yield latents, _form(self.gain[latents], right, kind)

    def _kept_forms(self, right: Tensor | None, kind: torch.dtype) -> QuadraticForms:
        """Those of all latents, which the next question takes as well, whatever it is about."""
        before = _forms.get(self)
        if before is not None and before.kind == kind and _is_same(before.right, right):
            return before.forms
        made = _form(self.gain[:], right, kind)
        _forms[self] = _KeptForms(right, kind, made)
        return made

    def _prefers(self, n_weights: int) -> bool:
        """Whether so many weights are less work for each node than the inducing variables, whose
        covariances have to be made of them first."""
        n_matrices = self.n_latents
        if isinstance(self.gain, OwnClassGains):
            n_matrices = 2  # what is common, and the directions of labels
        by_inducing = n_weights * self.n_inducing + n_matrices * self.n_inducing**2
        return n_matrices * n_weights**2 < by_inducing

    @torch.no_grad()
    def joint(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Mean (R, L) and covariance (L, R, R) of h over all the inputs together."""
        w = self.project(self.prior.cov(inputs, self.inducing))
        cov = self.prior.cov(inputs, inputs).to(self.mean.dtype) - self._gained(w, w)
        return (self.mean @ w).mT, 0.5 * (cov + cov.mT)

    @torch.no_grad()
    def across(self, a: Inputs, b: Inputs) -> Tensor:
        """Covariance of h at a few inputs with h at others, (L, len(a), len(b))."""
        wa, wb = (self.project(self.prior.cov(inputs, self.inducing)) for inputs in (a, b))
        return self.prior.cov(b, a).mT.to(self.mean.dtype) - self._gained(wa, wb)

    def _gained(self, wa: Tensor, wb: Tensor) -> Tensor:
        """By how much the labels lower covariances, (L, len(a), len(b))."""
        if isinstance(self.gain, OwnClassGains):
            return self.gain.between(wa, wb)
        every = latent_blocks(self.n_latents, self.n_inducing)
        return torch.cat([(wa.mT @ self.gain[latents]) @ wb for latents in every])

    def project(self, cross: Tensor) -> Tensor:
        """w for covariances with u, (M, R)."""
        w = cross.to(self.mean.dtype).mT
        if self.chol is None:
            return w.contiguous()
        return torch.linalg.solve_triangular(self.chol, w, upper=False)


class _KeptForms(NamedTuple):
    right: Tensor | None
    kind: torch.dtype
    forms: QuadraticForms


# For as long as a posterior lives.
_forms: WeakKeyDictionary[Posterior, _KeptForms] = WeakKeyDictionary()


def _form(gain: Tensor, right: Tensor | None, kind: torch.dtype) -> QuadraticForms:
    return QuadraticForms((gain if right is None else right.mT @ gain @ right).to(kind))


def _is_same(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and torch.equal(a, b))


def sample_joint(mean: Tensor, cov: Tensor, n_samples: int, rng: np.random.Generator) -> Tensor:
    """Draws of h, shape (n_samples, R, L). Eigenvalues, not Cholesky: the covariance of
    nodes that share their neighbourhood is singular. The symmetric root, since the signs of
    eigenvectors turn with the last digit of a covariance, and draws would with them."""
    values, vectors = torch.linalg.eigh(cov)
    root = (vectors * values.clamp_min(0.0).sqrt()[:, None, :]) @ vectors.mT
    noise = torch.from_numpy(rng.standard_normal((n_samples, *mean.T.shape))).to(mean.dtype)
    return mean + torch.einsum("lrk,slk->srl", root, noise)


def leave_one_out(
    marginals: Marginals, inducing_variance: Tensor, cavity_share: Tensor, alpha: Tensor
) -> Marginals:
    """q(h_n) without label n, for each label: its site is divided out of the posterior.

    All (O, L): ``inducing_variance`` is the part s of each variance that u carries,
    ``w_n^T Cov[v] w_n``; ``cavity_share`` is 1 - lambda2 s and ``alpha`` is lambda1 - lambda2 m.
    The engine hands these over, because it has them to more digits than the differences would
    give.
    """
    # 1/s_- = 1/s - lambda2, arranged so that s = 0 (no features at all) is no special case.
    without = inducing_variance / cavity_share.clamp_min(torch.finfo(cavity_share.dtype).tiny)
    mean = marginals.mean - without * alpha
    var = (marginals.var - inducing_variance + without).clamp_min(_SMALLEST_VARIANCE)
    # Where the other sites' precision is negative, nothing is left without this one: no division
    # gives a Gaussian then, and the latent is taken for one that nothing is known of.
    nothing = cavity_share <= 0
    mean = torch.where(nothing, torch.zeros_like(mean), mean)
    var = torch.where(nothing, marginals.var, var)
    return Marginals(mean, var)
