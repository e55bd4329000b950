"""Sites of hundreds of classes: a label has one precision for its own class and one for all others.

With a precision for each label and class every class is factorised by itself, at the cube of the
number of labels. Rivals of a label's class are many then and each is unlikely, so their precisions
are small and much the same. Sites whose precisions are restricted to those two are a smaller family
of Gaussians: the ELBO is that of the q that comes out, and the means are the best for its
covariances, as ``lambda1 = g_m + lambda2 m`` has the same fixed point whatever lambda2 is.

All classes share the posterior covariance C that goes with the precisions for others,
and a class takes from it what its own labels say beyond that: ``C_l = C - sum_j x_j x_j^T``, with j
over the labels of class l. In the space of inducing variables that is ``G_l = G + sum_j v_j v_j^T``
and ``x_j = K v_j``: one factorisation for all classes and one, in blocks, of what is their own.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nodegp.gains import OwnClassGains, exact_factor, exact_gain, sum_by_latent
from nodegp.inducing import Exact, Projection
from nodegp.likelihoods import Likelihood
from nodegp.posterior import Sites

__all__ = [
    "MANY_CLASSES",
    "SharedFactor",
    "shared_classes",
    "shared_gradient",
    "shared_moments",
    "shared_precisions",
    "shares_precisions",
]

# Above this many. What it costs in accuracy and log loss is in docs/decisions.md.
MANY_CLASSES = 100


class SharedFactor(NamedTuple):
    """What the posteriors of all classes are made of."""

    gains: OwnClassGains
    reach: Tensor  # (O, O) T = (I + lambda2 K)^-1, with the precisions for others
    lowered: Tensor  # (O, O) columns x_j


def shares_precisions(likelihood: Likelihood, n_latents: int) -> bool:
    """Whether precisions are shared where the labelled nodes are the inducing variables."""
    return likelihood.rivals_alike and n_latents > MANY_CLASSES


def shared_classes(
    projection: Projection, likelihood: Likelihood, y: Tensor, n_latents: int
) -> Tensor | None:
    """The latent of each label's own class if precisions are to be shared by all others."""
    is_shared = shares_precisions(likelihood, n_latents) and isinstance(projection, Exact)
    return y if is_shared else None


def shared_precisions(lambda2: Tensor, own: Tensor) -> Tensor:
    """Precisions (L, O) of that form: of other classes their mean, of a label's own class its own,
    or that mean if it is less."""
    of_own, of_others = _two(lambda2, own)
    shared = of_others.expand_as(lambda2).clone()
    shared[own, torch.arange(len(own))] = of_own
    return shared


def _two(lambda2: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """A label's precision for its own class and that for any other, each (O,)."""
    of_own = lambda2[own, torch.arange(len(own))]
    of_others = (lambda2.sum(0) - of_own) / (len(lambda2) - 1)
    return of_own.maximum(of_others), of_others


def shared_moments(
    K: Tensor, sites: Sites, own: Tensor
) -> tuple[Tensor, Tensor, Tensor, SharedFactor]:
    """Means and variances at the labels, both (L, O), 0.5 log |A| of all, and what made them."""
    n_latents = len(sites.lambda1)
    of_own, of_others = _two(sites.lambda2, own)
    (A_inverse,), half_log_det = exact_factor(K, of_others[None])
    (common,) = exact_gain(A_inverse[None], of_others[None])
    S = of_others.sqrt()
    reach = S[:, None] * A_inverse / S
    C = K @ reach
    # What a class's labels say beyond, D = of_own - of_others: C_l = (C^-1 + D)^-1. Labels of
    # different classes do not meet, so one factorisation has a block for each class.
    root = (of_own - of_others).sqrt()
    block = (root[:, None] * C).mul_(root).mul_(own[:, None] == own)
    block.diagonal().add_(1.0)
    chol, failed = torch.linalg.cholesky_ex(block)
    if failed:  # by rounding alone; such sites are no step forward
        chol = torch.full_like(chol, torch.nan)
    directions = torch.linalg.solve_triangular(chol.mT, reach * root, upper=True, left=False)
    gains = OwnClassGains(common, directions, own, n_latents)
    factor = SharedFactor(gains, reach, K @ directions)
    mean = sites.lambda1 @ C.mT - _within(factor.lowered, factor.lowered, sites.lambda1, own)
    by_own = sum_by_latent(factor.lowered.square(), own, n_latents)
    variance = (C.diagonal()[:, None] - by_own).mT.contiguous()
    return mean, variance, n_latents * half_log_det + chol.diagonal().log().sum(), factor


def _within(a: Tensor, b: Tensor, values: Tensor, own: Tensor) -> Tensor:
    """``sum_j a_j (b_j . values_l)`` over the labels j of each class l, (L, O)."""
    along = (b * values[own].mT).sum(0)
    return sum_by_latent(a * along, own, len(values)).mT


def shared_gradient(
    factor: SharedFactor,
    lambda2: Tensor,
    alpha: Tensor,
    mean: Tensor,
    mean_gradient: Tensor,
    variance_gradient: Tensor,
) -> Tensor:
    """The ELBO's gradient in K, the sites held; all others are (L, O). As for each class by itself,
    with ``T_l = (I + lambda2_l K)^-1 = T - sum_j v_j x_j^T`` in the place of T."""
    gains, T, x = factor
    v, own = gains.own, gains.latent
    mismatch = variance_gradient + 0.5 * lambda2  # zero where sites match the likelihood
    # The sum over l of T_l mismatch_l T_l^T, multiplied out.
    weighted = mismatch[own].mT * x
    crossed = T @ weighted @ v.mT
    among = (x.mT @ weighted).mul_(own[:, None] == own)
    gradient = (T * mismatch.sum(0)) @ T.mT - crossed - crossed.mT + v @ among @ v.mT
    gradient -= 0.5 * (len(lambda2) * gains.common + v @ v.mT)  # from log |A|
    along = mean_gradient @ T.mT - _within(v, x, mean_gradient, own)
    along = along + lambda2 * (mean @ T - _within(x, v, mean, own))
    gradient += (along - 0.5 * alpha).mT @ alpha
    return 0.5 * (gradient + gradient.mT)
