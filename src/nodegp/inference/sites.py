"""Natural-gradient variational inference in site form, at fixed hyper-parameters.

Conjugate-computation VI (Khan & Lin 2017; Adam et al. 2021): the posterior is the prior times
one Gaussian site per label and latent, ``B = I + W diag(lambda2) W^T`` and
``q(v) = N(B^-1 W lambda1, B^-1)``. A natural-gradient step moves the sites towards the ones
that match the likelihood's gradients. The ELBO never falls: a step that lowers it is halved.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nodegp.inducing import Projection
from nodegp.likelihoods import Expectation, Likelihood
from nodegp.posterior import Marginals, Sites

_BLOCK = 1 << 23  # entries of the largest array over (latents, inducing variables, labels)
# A site with negative precision could make B indefinite. Robust-max, which is not
# log-concave, asks for some; they are held at zero.
_FLOOR = 0.0


class State(NamedTuple):
    """q for some sites, and the ELBO with what the next step needs."""

    sites: Sites
    mean: Tensor  # (L, M) E[v]
    chol_B: Tensor  # (L, M, M)
    labels: Marginals
    explained: Tensor  # (O, L) w_n^T Cov[v] w_n
    expectation: Expectation
    elbo: float


class Labels(NamedTuple):
    """What was observed at the labelled nodes."""

    y: Tensor
    confidence: Tensor


def start_sites(
    projection: Projection, likelihood: Likelihood, labels: Labels, n_latents: int
) -> Sites:
    """Where to begin: near the answer if the likelihood compares latents, else at the prior.

    Sites of well-separated classes come out much the same on any data once they are put in
    units of the prior's variance between nodes; starting there saves half of the steps.
    """
    W = projection.W
    if not likelihood.shift_invariant or n_latents == 1:
        zeros = W.new_zeros(n_latents, W.shape[1])
        return Sites(zeros, zeros)
    variance = (projection.prior_var.mean() - W.mean(1).square().sum()).clamp_min(1e-12)
    own = (labels.y == torch.arange(n_latents, device=W.device)[:, None]).to(W.dtype)
    return Sites((5.7 * own - 0.3) / variance.sqrt(), (1.8 * own + 0.4) / variance)


def evaluate(projection: Projection, likelihood: Likelihood, labels: Labels, sites: Sites) -> State:
    """q and the ELBO at these sites."""
    W, lambda1, lambda2 = projection.W, sites.lambda1, sites.lambda2
    n_latents, n_labels = lambda1.shape
    n_inducing = len(W)
    step = max(_BLOCK // (n_latents * n_inducing), 1)
    blocks = [slice(i, i + step) for i in range(0, n_labels, step)]

    B = torch.diag_embed(W.new_ones(n_latents, n_inducing))
    for block in blocks:
        Wb = W[:, block]
        B = torch.baddbmm(B, Wb * lambda2[:, None, block], Wb.mT.expand(n_latents, -1, -1))
    chol_B = torch.linalg.cholesky_ex(B)[0]

    whole = len(blocks) == 1
    projected = W.new_zeros(n_latents, n_inducing, 1)
    for block in blocks:
        V = _solve(chol_B, W[:, block])  # (L, M, block)
        projected = torch.baddbmm(projected, V, lambda1[:, block, None])
    mean_h, explained = [], []
    for block in blocks:
        if not whole:
            V = _solve(chol_B, W[:, block])
        mean_h.append((V.mT @ projected)[:, :, 0])
        explained.append((V * V).sum(1))
    s = torch.cat(explained, 1)  # (L, O)
    m = torch.cat(mean_h, 1)
    alpha = lambda1 - lambda2 * m  # E[v] = W alpha
    if likelihood.shift_invariant:
        # A shift common to all latents changes no likelihood and costs KL, so the best q has
        # none. Steps taken latent by latent would take hundreds to find that out.
        alpha = alpha - alpha.mean(0)
        mean = alpha @ W.mT  # (L, M)
        m = mean @ W
        sites = Sites(alpha + lambda2 * m, lambda2)
    else:
        mean = alpha @ W.mT

    slack = projection.prior_var - (W * W).sum(0)
    at_labels = Marginals(m.mT, (slack.clamp_min(0.0) + s).mT.clamp_min(1e-12))
    expectation = likelihood.expectation(labels.y, *at_labels, labels.confidence)
    # KL = 0.5 sum (tr B^-1 - M + log|B| + |E[v]|^2), and tr B^-1 - M = -sum lambda2 s.
    log_det = chol_B.diagonal(dim1=1, dim2=2).log().sum()
    kl = 0.5 * ((mean * mean).sum() - (lambda2 * s).sum()) + log_det
    elbo = float(expectation.value.sum() - kl)  # Eq. 5
    return State(sites, mean, chol_B, at_labels, s.mT, expectation, elbo)


def _solve(chol_B: Tensor, W: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(chol_B, W.expand(len(chol_B), -1, -1), upper=False)


def matching_sites(state: State) -> Sites:
    """The sites whose gradients match the likelihood's: where a full step would go."""
    return sites_from(state.expectation, state.labels)


def sites_from(expectation: Expectation, labels: Marginals) -> Sites:
    lambda2 = (-2.0 * expectation.variance_gradient).clamp_min(_FLOOR)
    # The floor enters lambda1 too, or the fixed point would move.
    lambda1 = expectation.mean_gradient + lambda2 * labels.mean
    return Sites(lambda1.mT.contiguous(), lambda2.mT.contiguous())


def residual(sites: Sites, target: Sites) -> float:
    """How far the sites are from their fixed point, relative to their size."""
    return max(
        float((a - b).norm() / b.norm().clamp_min(1e-12))
        for a, b in zip(sites, target, strict=True)
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
    state = evaluate(projection, likelihood, labels, sites)
    trace = [state.elbo]
    # Latents are stepped as if independent; their coupling would make whole steps overshoot.
    full_rate = 1.0 if len(sites.lambda1) == 1 else 0.7
    accelerate = _Anderson()
    for _ in range(max_steps):
        target = matching_sites(state)
        if residual(state.sites, target) < tol:
            return Solution(state, trace, True)
        proposal = evaluate(
            projection, likelihood, labels, accelerate(state.sites, target, full_rate)
        )
        rate = full_rate
        while not proposal.elbo >= state.elbo:
            accelerate.forget()
            if rate < 1e-4:
                # Nowhere to go that the floating-point ELBO can tell is up.
                return Solution(state, trace, residual(state.sites, target) < 100 * tol)
            moved = (torch.lerp(a, b, rate) for a, b in zip(state.sites, target, strict=True))
            proposal = evaluate(projection, likelihood, labels, Sites(*moved))
            rate *= 0.5
        state = proposal
        trace.append(state.elbo)
    return Solution(state, trace, False)


class _Anderson:
    """Anderson acceleration of a fixed-point iteration: the next point is the mixture of the
    last few whose steps, if steps were linear in the point, would cancel."""

    def __init__(self, memory: int = 6):
        self._memory = memory
        self._points: list[Tensor] = []
        self._steps: list[Tensor] = []

    def forget(self) -> None:
        """Drop all but the newest point."""
        self._points, self._steps = self._points[-1:], self._steps[-1:]

    def __call__(self, sites: Sites, target: Sites, rate: float) -> Sites:
        # lambda1 and lambda2 have different units: compare each relative to its step's size.
        step = torch.stack([b - a for a, b in zip(sites, target, strict=True)])  # (2, L, O)
        units = step.flatten(1).norm(dim=1).clamp_min(1e-300)[:, None, None]
        self._points = [*self._points[-self._memory :], torch.stack(list(sites))]
        self._steps = [*self._steps[-self._memory :], step]
        moved = self._points[-1] + rate * step
        if len(self._points) > 1:
            points, steps = torch.stack(self._points), torch.stack(self._steps)
            d_points, d_steps = points.diff(dim=0), steps.diff(dim=0)
            A = (d_steps / units).flatten(1)  # (m, 2 L O)
            gram = A @ A.mT
            gram.diagonal().add_(1e-10 * gram.trace())
            weights = torch.linalg.solve(gram, A @ (step / units).flatten())
            moved = moved - torch.tensordot(weights, d_points + rate * d_steps, 1)
        return Sites(moved[0], moved[1].clamp_min(_FLOOR))


def gradients(projection: Projection, state: State) -> tuple[Tensor, Tensor]:
    """The ELBO's gradients in W (M, O) and in the prior variances (O,), the sites held.

    By hand, so that only the one factorisation of Kuu is differentiated automatically and not
    one per latent. With C = B^-1, mu = E[v] and g the expectation's gradients:
    adjoints reach W directly, through mu (t) and through C (R).
    """
    W = projection.W
    lambda1, lambda2 = state.sites
    g_mean = state.expectation.mean_gradient.mT  # (L, O)
    g_var = state.expectation.variance_gradient.mT
    mu, mean_h = state.mean, state.labels.mean.mT
    # Through mu; zero where the sites match the likelihood exactly.
    t = torch.cholesky_solve((g_mean @ W.mT - mu)[:, :, None], state.chol_B)[:, :, 0]  # (L, M)
    gradient = mu.mT @ (g_mean - lambda2 * (t @ W)) + t.mT @ (lambda1 - lambda2 * mean_h)
    gradient = gradient - 2.0 * W * g_var.sum(0)
    for c in range(len(mu)):
        V = torch.cholesky_solve(W, state.chol_B[c])  # C W
        # Through C: R W lambda2 with R = C (W g_var W^T - I/2) C, and log|B|.
        Q = (W * g_var[c]) @ W.mT  # (M, M)
        RW = torch.cholesky_solve(Q @ V - 0.5 * V, state.chol_B[c])
        gradient += 2.0 * V * g_var[c] - (2.0 * RW + V) * lambda2[c]
    return gradient, g_var.sum(0)
