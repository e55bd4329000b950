"""Natural-gradient variational inference in site form, at fixed hyper-parameters.

Conjugate-computation VI (Khan & Lin 2017; Adam et al. 2021): the posterior is the prior times
one Gaussian site per label and latent. A natural-gradient step moves the sites towards the ones
that match the likelihood's gradients. The ELBO never falls: a step that lowers it is halved.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nodegp.budget import budget
from nodegp.inducing import Projection, Whitened
from nodegp.inference.anderson import Anderson
from nodegp.inference.moments import (
    State,
    posterior_moments,
    prior_times,
    prior_variance,
    smallest_precision,
    vague,
)
from nodegp.inference.shared import MANY_CLASSES, shared_classes, shared_precisions
from nodegp.likelihoods import Expectation, Likelihood
from nodegp.posterior import Marginals, Sites

__all__ = [
    "Labels",
    "Solution",
    "evaluate",
    "matching_sites",
    "sites_from",
    "solve",
    "start_sites",
    "variance_between",
]


_SMALLEST_RATE = 1e-4  # of a step that is halved until it goes up
_SMALLEST_SHARED_RATE = 0.2  # where precisions may be held instead


class Labels(NamedTuple):
    """What was observed at the labelled nodes."""

    y: Tensor
    confidence: Tensor


def evaluate(projection: Projection, likelihood: Likelihood, labels: Labels, sites: Sites) -> State:
    """q and the ELBO at these sites."""
    own = shared_classes(projection, likelihood, labels.y, len(sites.lambda1))
    moments = posterior_moments(projection, sites, own)
    if likelihood.shift_invariant:
        # A shift common to all latents changes no likelihood and costs KL, so the best q has
        # none. Steps taken latent by latent would take hundreds to find that out.
        alpha = moments.alpha - moments.alpha.mean(0)
        moments = moments._replace(alpha=alpha, mean=prior_times(projection, alpha))
        sites = Sites(alpha + sites.lambda2 * moments.mean, sites.lambda2)
    var = moments.inducing_variance
    if isinstance(projection, Whitened):
        var = var + (projection.prior_var - projection.W.square().sum(0)).clamp_min(0.0)
    at_labels = Marginals(moments.mean.mT, var.mT.clamp_min(1e-12))
    expectation = _expectation(likelihood, labels, at_labels)
    # KL = 0.5 (tr(Cov - I) + |E[v]|^2 + log |I + Khat lambda2|), whitened, in terms of sites.
    traces = (moments.alpha * moments.mean - sites.lambda2 * moments.inducing_variance).sum()
    elbo = float(expectation.value.sum() - 0.5 * traces - moments.half_log_det)  # Eq. 5
    return State(sites, moments, at_labels, expectation, elbo)


def _expectation(likelihood: Likelihood, labels: Labels, at: Marginals) -> Expectation:
    """The likelihood's expectation, a bounded number of labels at a time."""
    n_latents = at.mean.shape[1]
    # Of hundreds of latents in pieces that memory is not asked for anew each time.
    entries = budget.passing if n_latents <= MANY_CLASSES else budget.block // 2
    step = max(entries // (likelihood.fit_points * n_latents), 1)
    if len(at.mean) <= step:
        return likelihood.expectation(labels.y, *at, labels.confidence)
    pieces = zip(*(t.split(step) for t in (labels.y, *at, labels.confidence)), strict=True)
    parts = [likelihood.expectation(*piece) for piece in pieces]
    return Expectation(*(torch.cat(part) for part in zip(*parts, strict=True)))


def variance_between(projection: Projection) -> Tensor:
    """The prior's mean variance among the labelled nodes, without what they all share."""
    prior_var = prior_variance(projection)
    common = prior_times(projection, torch.full_like(prior_var, 1.0 / len(prior_var))[None])
    return (prior_var.mean() - common.mean()).clamp_min(1e-6 * prior_var.mean() + 1e-12)


def start_sites(
    projection: Projection, likelihood: Likelihood, labels: Labels, n_latents: int
) -> Sites:
    """Where to begin: near the answer if the likelihood knows where that is, else at the prior."""
    start = None
    if n_latents > 1:
        start = likelihood.start_sites(n_latents, variance_between(projection))
    if start is None:
        lambda2 = vague(prior_variance(projection)).expand(n_latents, -1)
        return Sites(torch.zeros_like(lambda2), lambda2)
    return Sites(*(part[:, labels.y] for part in start))


def sites_from(
    expectation: Expectation, labels: Marginals, floor: Tensor, own: Tensor | None = None
) -> Sites:
    """The sites whose gradients match the likelihood's: where a whole step would go."""
    lambda2 = (-2.0 * expectation.variance_gradient).maximum(floor[:, None])
    if own is not None:
        lambda2 = shared_precisions(lambda2.mT, own).mT
    # What holds lambda2 enters lambda1 too, or the fixed point would move.
    lambda1 = expectation.mean_gradient + lambda2 * labels.mean
    return Sites(lambda1.mT.contiguous(), lambda2.mT.contiguous())


def matching_sites(
    projection: Projection, likelihood: Likelihood, labels: Labels, q: Marginals
) -> Sites:
    """The sites that match the likelihood at q(h). If q is an earlier fit's, those of its labels
    are that fit's own, and those of new labels are where a first step from it would lead."""
    q = Marginals(*(part.to(prior_variance(projection)) for part in q))
    # No negative precisions: B need not stay positive when other sites come in beside them.
    floor = vague(prior_variance(projection))
    return sites_from(_expectation(likelihood, labels, q), q, floor)


def residual(sites: Sites, target: Sites, prior_var: Tensor) -> float:
    """How far the sites are from their fixed point, relative to their size.

    In units of the prior: else the enormous precision of a label whose prior variance is zero
    (no features, no neighbours) would drown all others.
    """
    units = (prior_var.sqrt(), prior_var)
    return max(
        float(((a - b) * unit).norm() / (b * unit).norm().clamp_min(1e-12))
        for a, b, unit in zip(sites, target, units, strict=True)
    )


class Solution(NamedTuple):
    state: State
    trace: list[float]
    converged: bool


def solve(
    projection: Projection,
    likelihood: Likelihood,
    labels: Labels,
    sites: Sites,
    tol: float,
    max_steps: int,
) -> Solution:
    """Steps until the sites stand still: their residual, not the ELBO's change, decides,
    because a halved step fakes a small change."""
    floor, prior_var = smallest_precision(projection), prior_variance(projection)
    own = shared_classes(projection, likelihood, labels.y, len(sites.lambda1))
    sites = Sites(sites.lambda1, _allowed(sites.lambda2, floor, own))
    state = evaluate(projection, likelihood, labels, sites)
    if not math.isfinite(state.elbo):
        # Sites from elsewhere, negative ones among them, can be too much for this prior.
        weak = vague(prior_var).expand_as(sites.lambda2)
        state = evaluate(projection, likelihood, labels, Sites(0.0 * weak, weak))
    trace = [state.elbo]
    # Latents are stepped as if independent; their coupling would make whole steps overshoot.
    full_rate = 1.0 if len(sites.lambda1) == 1 else 0.7
    accelerate = Anderson(floor)
    holds_precisions = False
    for _ in range(max_steps):
        target = sites_from(state.expectation, state.label_marginals, floor, own)
        if holds_precisions:
            target = _of_means(state)
        distance = residual(state.sites, target, prior_var)
        if distance < tol:
            return Solution(state, trace, True)
        moved = accelerate(state.sites, target, full_rate)
        moved = Sites(moved.lambda1, _allowed(moved.lambda2, floor, own))
        proposal = evaluate(projection, likelihood, labels, moved)
        rate = full_rate
        may_hold = own is not None and not holds_precisions
        smallest = _SMALLEST_SHARED_RATE if may_hold else _SMALLEST_RATE
        while not proposal.elbo >= state.elbo and rate >= smallest:
            accelerate.forget()
            nearer = (torch.lerp(a, b, rate) for a, b in zip(state.sites, target, strict=True))
            proposal = evaluate(projection, likelihood, labels, Sites(*nearer))
            rate *= 0.5
        if proposal.elbo >= state.elbo:
            state = proposal
            trace.append(state.elbo)
        elif not may_hold:
            # Nowhere to go that the floating-point ELBO can tell is up.
            return Solution(state, trace, distance < max(10 * tol, 1e-5))
        else:
            # A mean of precisions is not quite the best common one: the means go on alone.
            holds_precisions, accelerate = True, Anderson(floor)
    return Solution(state, trace, False)


def _allowed(lambda2: Tensor, floor: Tensor, own: Tensor | None) -> Tensor:
    """Precisions no less than their floor, and of the form that they are restricted to."""
    lambda2 = lambda2.maximum(floor)
    return lambda2 if own is None else shared_precisions(lambda2, own)


def _of_means(state: State) -> Sites:
    """Where a whole step of the means would go, their covariances as they are."""
    lambda2 = state.sites.lambda2
    lambda1 = state.expectation.mean_gradient + lambda2.mT * state.label_marginals.mean
    return Sites(lambda1.mT.contiguous(), lambda2)
