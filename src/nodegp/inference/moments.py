"""q at the labels in site form: its means and variances, the arrays of a posterior, gradients.

With ``alpha = lambda1 - lambda2 m`` the posterior mean at the labels is ``m = Khat alpha``, where
Khat is the labels' covariance as u carries it: K itself, or W^T W for inducing points. These are
two forms of the same posterior; that of hundreds of classes is in :mod:`nodegp.inference.shared`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.gains import (
    OwnClassGains,
    SiteGains,
    exact_factor,
    exact_gain,
    latent_blocks,
    whitened_factor,
    whitened_gain,
)
from nodegp.inducing import Exact, Projection, Whitened
from nodegp.inference.shared import SharedFactor, shared_gradient, shared_moments
from nodegp.likelihoods import Expectation
from nodegp.posterior import Marginals, Sites

__all__ = [
    "Moments",
    "State",
    "gradients",
    "posterior_arrays",
    "posterior_moments",
    "prior_times",
    "prior_variance",
    "smallest_precision",
    "vague",
]

# The smallest site precision in the exact form, relative to the prior's. Robust-max, which is
# not log-concave, asks for negative ones now and then; but dividing by the precision is the
# cheapest way to the posterior variances. The whitened form takes any that leave B positive.
_FLOOR = {torch.float64: 1e-6, torch.float32: 1e-3}


class Moments(NamedTuple):
    """q at the labels for some sites, before the likelihood has been looked at."""

    alpha: Tensor  # (L, O)
    mean: Tensor  # (L, O)
    inducing_variance: Tensor  # (L, O) the part of the variance that u carries
    cavity_share: Tensor  # (L, O) of the posterior precision: 1 - lambda2 inducing_variance
    half_log_det: Tensor  # 0.5 log |I + Khat lambda2|, summed over latents
    # (L, M, M) A^-1 or chol(B), for gradients; None if that is too large
    factor: Tensor | SharedFactor | None


class State(NamedTuple):
    """q for some sites, and the ELBO with what the next step needs."""

    sites: Sites
    moments: Moments
    label_marginals: Marginals
    expectation: Expectation
    elbo: float


def prior_variance(projection: Projection) -> Tensor:
    return projection.K.diagonal() if isinstance(projection, Exact) else projection.prior_var


def prior_times(projection: Projection, alpha: Tensor) -> Tensor:
    """Khat alpha, for each latent."""
    if isinstance(projection, Exact):
        return alpha @ projection.K
    return (alpha @ projection.W.mT) @ projection.W


def smallest_precision(projection: Projection) -> Tensor:
    """The floor of lambda2 at each label."""
    prior_var = prior_variance(projection)
    if isinstance(projection, Exact):
        return vague(prior_var)
    return torch.full_like(prior_var, -torch.inf)


def vague(prior_var: Tensor) -> Tensor:
    """A site precision that says next to nothing."""
    return _FLOOR[prior_var.dtype] / prior_var.clamp_min(1e-12)


def posterior_moments(projection: Projection, sites: Sites, own: Tensor | None = None) -> Moments:
    """Mean and variance at the labels, from the sites; a bounded number of latents at a time.

    ``own`` is the latent of each label's class if all others share a precision."""
    if own is not None:
        assert isinstance(projection, Exact)
        return _shared_moments(projection, sites, own)
    parts = []
    for latents in _latent_blocks(projection, sites):
        some_sites = Sites(*(values[latents] for values in sites))
        if isinstance(projection, Exact):
            part = _exact_moments(projection, some_sites)
        else:
            part = _whitened_moments(projection, some_sites)
        if len(part.alpha) == len(sites.lambda1):
            return part
        parts.append(part._replace(factor=None))  # too large to keep for all of them
    *columns, half_log_det, _ = zip(*parts, strict=True)
    alpha, mean, var, share = (torch.cat(column) for column in columns)
    return Moments(alpha, mean, var, share, torch.stack(half_log_det).sum(), None)


def _shared_moments(projection: Exact, sites: Sites, own: Tensor) -> Moments:
    mean, variance, half_log_det, factor = shared_moments(projection.K, sites, own)
    alpha, cavity_share = sites.lambda1 - sites.lambda2 * mean, 1.0 - sites.lambda2 * variance
    return Moments(alpha, mean, variance, cavity_share, half_log_det, factor)


def _latent_blocks(projection: Projection, sites: Sites) -> Iterator[slice]:
    return latent_blocks(len(sites.lambda1), len(projection.inputs()[0]))


def _exact_moments(projection: Exact, sites: Sites) -> Moments:
    """The variances are (1 - diag A^-1) / lambda2."""
    K, (lambda1, lambda2) = projection.K, sites
    S = lambda2.sqrt()
    A_inverse, half_log_det = exact_factor(K, lambda2)
    cavity_share = A_inverse.diagonal(dim1=1, dim2=2).clone()  # a view would keep A^-1 alive
    inducing_variance = (1.0 - cavity_share) / lambda2
    # S A^-1 S^-1 lambda1, as a sum: faster than a batch of small matrix-vector products.
    alpha = S * (A_inverse * (lambda1 / S)[:, None, :]).sum(2)
    return Moments(alpha, alpha @ K, inducing_variance, cavity_share, half_log_det, A_inverse)


def _whitened_moments(projection: Whitened, sites: Sites) -> Moments:
    """q(v) = N(B^-1 W lambda1, B^-1); labels in blocks."""
    W, (lambda1, lambda2) = projection.W, sites
    n_latents, n_labels = lambda1.shape
    chol_B, half_log_det = whitened_factor(W, lambda2)
    pulled = (lambda1 @ W.mT)[:, :, None]  # (L, M, 1)
    mean = torch.cholesky_solve(pulled, chol_B)[:, :, 0] @ W
    parts = []
    for block in blocks(n_labels, n_latents * len(W), budget.passing):
        Wb = W[:, block].expand(n_latents, -1, -1)
        parts.append(torch.linalg.solve_triangular(chol_B, Wb, upper=False).square_().sum(1))
    alpha = lambda1 - lambda2 * mean
    s = torch.cat(parts, 1)
    return Moments(alpha, mean, s, 1.0 - lambda2 * s, half_log_det, chol_B)


def posterior_arrays(
    projection: Projection, state: State
) -> tuple[Tensor | None, Tensor, Tensor | SiteGains | OwnClassGains]:
    """chol, mean and gain of :class:`nodegp.posterior.Posterior`."""
    alpha, factor, lambda2 = state.moments.alpha, state.moments.factor, state.sites.lambda2
    if isinstance(factor, SharedFactor):
        return None, alpha, factor.gains
    if isinstance(projection, Exact):
        if factor is None:
            return None, alpha, SiteGains(projection.K, lambda2, False).smallest()
        return None, alpha, exact_gain(factor, lambda2)
    mean = alpha @ projection.W.mT
    if factor is None:
        return projection.chol, mean, SiteGains(projection.W, lambda2, True).smallest()
    return projection.chol, mean, whitened_gain(factor)


def gradients(projection: Projection, state: State) -> tuple[Tensor, ...]:
    """The ELBO's gradients in the projection's inputs, the sites held.

    By hand, so that nothing with a latent dimension is differentiated automatically. They
    are exact at any sites, not only where these match the likelihood.
    """
    if isinstance(state.moments.factor, SharedFactor):
        return (_shared_gradient(state.moments.factor, state),)
    total: tuple[Tensor, ...] | None = None
    for latents in _latent_blocks(projection, state.sites):
        part = _some_latents(projection, state, latents)
        if isinstance(projection, Exact):
            gradient: tuple[Tensor, ...] = (_exact_gradient(projection, part),)
        else:
            gradient = _whitened_gradients(projection, part)
        total = gradient if total is None else tuple(map(torch.add, total, gradient))
    assert total is not None
    return total


def _some_latents(projection: Projection, state: State, latents: slice) -> State:
    """The state of some latents, its factor made again if it was not kept."""
    if state.moments.factor is not None:
        return state
    sites = Sites(*(values[latents] for values in state.sites))
    moments = posterior_moments(projection, sites)
    alpha, mean = state.moments.alpha[latents], state.moments.mean[latents]
    value, *by_marginals = state.expectation
    return state._replace(
        sites=sites,
        moments=moments._replace(alpha=alpha, mean=mean),
        expectation=Expectation(value, *(gradient[:, latents] for gradient in by_marginals)),
    )


def _shared_gradient(factor: SharedFactor, state: State) -> Tensor:
    _, by_mean, by_variance = state.expectation
    alpha, mean = state.moments.alpha, state.moments.mean
    return shared_gradient(factor, state.sites.lambda2, alpha, mean, by_mean.mT, by_variance.mT)


def _exact_gradient(projection: Exact, state: State) -> Tensor:
    """In K. With T = (I + K lambda2)^-1: d Var = T dK T^T and d mean = T dK alpha."""
    lambda2, alpha, mean = state.sites.lambda2, state.moments.alpha, state.moments.mean
    A_inverse = state.moments.factor  # (L, O, O)
    assert isinstance(A_inverse, Tensor)
    g_mean = state.expectation.mean_gradient.mT
    g_var = state.expectation.variance_gradient.mT
    S = lambda2.sqrt()
    T = A_inverse * (S[:, None, :] / S[:, :, None])  # S^-1 A^-1 S
    mismatch = (g_var + 0.5 * lambda2)[:, :, None]  # zero where the sites match the likelihood
    gradient = (mismatch * T).flatten(0, 1).mT @ T.flatten(0, 1)
    gradient -= 0.5 * (S[:, :, None] * A_inverse).mul_(S[:, None, :]).sum(0)  # from log |A|
    along = (T.mT @ g_mean[:, :, None] + lambda2[:, :, None] * (T @ mean[:, :, None]))[:, :, 0]
    gradient += (along - 0.5 * alpha).mT @ alpha
    return 0.5 * (gradient + gradient.mT)


def _whitened_gradients(projection: Whitened, state: State) -> tuple[Tensor, Tensor]:
    """In W and the prior variances. With C = B^-1 and mu = E[v], adjoints reach W directly,
    through mu (t) and through C (R)."""
    W = projection.W
    lambda2 = state.sites.lambda2
    g_mean = state.expectation.mean_gradient.mT  # (L, O)
    g_var = state.expectation.variance_gradient.mT
    chol_B = state.moments.factor
    assert isinstance(chol_B, Tensor)
    mu = state.moments.alpha @ W.mT  # (L, M)
    # Through mu; zero where the sites match the likelihood exactly.
    t = torch.cholesky_solve((g_mean @ W.mT - mu)[:, :, None], chol_B)[:, :, 0]
    gradient = mu.mT @ (g_mean - lambda2 * (t @ W)) + t.mT @ state.moments.alpha
    gradient = gradient - 2.0 * W * g_var.sum(0)
    for c in range(len(mu)):
        V = torch.cholesky_solve(W, chol_B[c])  # C W
        # Through C: R W lambda2 with R = C (W g_var W^T - I/2) C, and log|B|.
        Q = (W * g_var[c]) @ W.mT  # (M, M)
        RW = torch.cholesky_solve(Q @ V - 0.5 * V, chol_B[c])
        gradient += 2.0 * V * g_var[c] - (2.0 * RW + V) * lambda2[c]
    return gradient, g_var.sum(0)
