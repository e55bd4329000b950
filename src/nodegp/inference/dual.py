"""The default engine: natural gradients in site form, hyper-parameters by the profiled ELBO.

At each evaluation of the hyper-parameters the sites, warm-started, are brought to
convergence; there the gradient with the sites held is exact, and a quasi-Newton method climbs
it. All labels are used in every step, streamed in blocks, so the ELBO can be held to never
fall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from nodegp.inducing import Projection, Whitened
from nodegp.inference.ascent import ascend
from nodegp.inference.base import Engine, Fit, Problem, Report
from nodegp.inference.moments import gradients, posterior_arrays
from nodegp.inference.shared import SharedFactor
from nodegp.inference.sites import (
    Labels,
    Solution,
    matching_sites,
    solve,
    start_sites,
    variance_between,
)
from nodegp.likelihoods import Likelihood
from nodegp.linalg import NotPositiveDefiniteError
from nodegp.posterior import Posterior, Sites
from nodegp.prior import Prior

__all__ = ["Dual"]

# Hyper-parameters stay within these factors of one another's scale; beyond, kernels overflow.
_LOG_BOUND = math.log(1e6)


@dataclass(frozen=True)
class Dual(Engine):
    """Conjugate-computation VI inside a quasi-Newton search over hyper-parameters.

    At most ``max_iter`` quasi-Newton iterations for the hyper-parameters, with ``max_steps`` site
    steps each. ``tol`` is the relative residual of the sites at convergence; the error of the ELBO
    is of the order of its square. Inducing points are then optimised for at most ``point_iter``
    iterations. If the recipe has a prior on the hyper-parameters, its log is part of the trace but
    not of the reported ELBO: their sum never decreases, the ELBO alone may.
    """

    alias: ClassVar = "dual"

    max_iter: int = 100
    tol: float = 1e-3
    max_steps: int = 200
    point_iter: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_iter < 1:
            raise ValueError(f"Dual: max_iter must be at least 1, got {self.max_iter}")
        if not self.tol > 0:
            raise ValueError(f"Dual: tol must be positive, got {self.tol}")

    def fit(self, problem: Problem, report: Report) -> Fit:
        search = _Search(self, problem, report)
        names = list(problem.free_parameters())
        n_iter, settled, advice = 1, True, ""
        if names:
            n_iter, settled, advice = search.climb(None, self.max_iter)
        if problem.projector.points is not None:
            # That these stop at point_iter is by choice, not a failure to converge.
            search.climb(problem.projector.points, self.point_iter)
        return search.finish(n_iter, settled, advice)


class _Search:
    """The profiled ELBO as a function of hyper-parameters and inducing points."""

    def __init__(self, engine: Dual, problem: Problem, report: Report):
        self.engine, self.problem, self.report = engine, problem, report
        self.labels = Labels(problem.y, problem.confidence)
        self.names = list(problem.free_parameters())
        self.theta = np.log([*problem.free_parameters().values()])
        centre = problem.hyperprior_mean or problem.free_parameters()
        self.centre = np.log([centre[name] for name in self.names])
        spread = problem.hyperprior_std
        self.precision = 0.0 if spread is None else spread**-2
        self.points: Tensor | None = None
        # Of one best after the other: the ELBO, and the log prior of the hyper-parameters.
        self.trace: list[float] = []
        self.best: tuple[Solution, Projection] | None = None
        self.rough = False  # whether the best is the first, and its sites only roughly solved
        self.whitened = False
        self.curvature: np.ndarray | None = None
        # The first solve, the longest, is only for a direction: a tenth of the precision will do.
        self.earlier = None if problem.warm is None else problem.warm.label_marginals
        is_long = self.names and self.earlier is None
        self.tol = 10 * engine.tol if is_long else engine.tol

    def climb(self, points: Tensor | None, max_iter: int) -> tuple[int, bool, str]:
        """Quasi-Newton ascent; leaves the best seen in ``theta``, ``points`` and ``best``."""
        n_theta = len(self.theta)
        start = self.theta
        if points is not None:
            start = np.concatenate([start, points.numpy().ravel()])

        # A start beyond the bounds is the user's word for it that there is no harm there.
        low, high = np.minimum(self.theta, -_LOG_BOUND), np.maximum(self.theta, _LOG_BOUND)

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            z = None if points is None else torch.from_numpy(x[n_theta:].reshape(points.shape))
            try:
                return self.evaluate(np.clip(x[:n_theta], low, high), z)
            except NotPositiveDefiniteError:
                if self.best is None:
                    raise
                return -math.inf, np.zeros_like(x)  # a step too far, not the end of the fit

        # One latent is solved to rounding; several leave an ELBO that is good to some 1e-5, and
        # nobody can tell hyper-parameters apart that differ by less than a thousandth of a nat.
        gain = 1e-5 if self.problem.n_latents == 1 else 1e-3
        warm = self.problem.warm
        curvature = warm.curvature if points is None and warm is not None else None
        climb = ascend(objective, start, max_iter, gain, curvature)
        if points is None:
            self.curvature = climb.curvature
        advice = "" if climb.settled else f"raise max_iter (now {max_iter})"
        return climb.n_iter, climb.settled, advice

    def evaluate(self, theta: np.ndarray, points: Tensor | None) -> tuple[float, np.ndarray]:
        """The ELBO with the sites at convergence, and its gradient."""
        values = torch.from_numpy(np.array(theta)).requires_grad_()
        z = None if points is None else points.clone().requires_grad_()
        inputs = [values] if z is None else [values, z]
        with torch.enable_grad():
            prior, likelihood = self._components(values)
            projection = self.problem.projector(prior, z)
        solution, projection = self._solve(projection, likelihood)
        state = solution.state
        with torch.no_grad():
            seeds = list(gradients(projection.detached(), state))
        with torch.enable_grad():
            outputs = list(projection.inputs())
            if likelihood.free_parameters():
                fit = likelihood.expected_log_prob(
                    self.labels.y, *state.label_marginals, self.labels.confidence
                ).sum()
                outputs.append(fit)
                seeds.append(torch.ones_like(fit))
            pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
            grads = torch.autograd.grad(
                [o for o, _ in pairs], inputs, [s for _, s in pairs], allow_unused=True
            )
        gradient = np.concatenate(
            [
                np.zeros(x.numel()) if g is None else g.double().numpy().ravel()
                for g, x in zip(grads, inputs, strict=True)
            ]
        )
        gradient[: len(theta)] -= self.precision * (theta - self.centre)
        self._keep(solution, projection, theta, points)
        return state.elbo - self._penalty(theta), gradient

    def _penalty(self, theta: np.ndarray) -> float:
        """Minus the log of the hyper-parameters' prior, up to a constant."""
        return 0.5 * self.precision * float(((theta - self.centre) ** 2).sum())

    def finish(self, n_iter: int, settled: bool, advice: str) -> Fit:
        """The posterior at the best hyper-parameters seen."""
        if self.best is None or self.rough:  # nothing was free, or there was nowhere to go
            prior, likelihood = self._components(torch.from_numpy(self.theta))
            projection = self.problem.projector(prior, self.points)
            solution, projection = self._solve(projection, likelihood)
            self._keep(solution, projection, self.theta, self.points)
        assert self.best is not None
        solution, projection = self.best
        state = solution.state
        if not solution.converged:
            advice = self._advice(solution, state.label_marginals.mean.dtype)
        plain = {n: float(v) for n, v in zip(self.names, np.exp(self.theta), strict=True)}
        prior, likelihood = self.problem.components(plain)
        inducing = self.problem.projector.inducing(prior, self.points)
        return Fit(
            posterior=Posterior(prior, inducing, *posterior_arrays(projection, state)),
            likelihood=likelihood,
            label_marginals=state.label_marginals,
            inducing_variance=state.moments.inducing_variance.mT,
            cavity_share=state.moments.cavity_share.mT,
            alpha=state.moments.alpha.mT,
            sites=state.sites,
            label_projection=projection.W if isinstance(projection, Whitened) else None,
            elbo=state.elbo,
            elbo_trace=np.array(self.trace),
            n_iter=n_iter,
            converged=settled and solution.converged,
            jitter=projection.jitter,
            curvature=self.curvature,
            advice=advice,
        )

    def _advice(self, solution: Solution, dtype: torch.dtype) -> str:
        if len(solution.trace) > self.engine.max_steps:
            return f"raise max_steps of Dual (now {self.engine.max_steps}) or loosen tol"
        if dtype == torch.float32:
            return "float32 cannot tell whether the next step is up; use dtype='float64'"
        return (
            "no step raises the ELBO any more, though the sites have not settled: the posterior "
            "is a valid bound; likelihood='softmax' has no such points"
        )

    def _components(self, theta: Tensor) -> tuple[Prior, Likelihood]:
        return self.problem.components(dict(zip(self.names, theta.exp(), strict=True)))

    def _solve(self, projection: Projection, likelihood: Likelihood) -> tuple[Solution, Projection]:
        """The converged sites, and the form of the projection that they were found in."""
        if self.whitened:
            projection = projection.whitened()
        with torch.no_grad():
            solution = self._solve_in(projection, likelihood)
        is_shared = isinstance(solution.state.moments.factor, SharedFactor)
        if solution.converged or is_shared or isinstance(projection, Whitened):
            return solution, projection
        # The exact form holds site precisions above zero. Robust-max may want some below, and
        # then stands still short of its optimum; the whitened form lets it go there.
        self.whitened = True
        whitened = projection.whitened()
        with torch.no_grad():
            return self._solve_in(whitened, likelihood), whitened

    def _solve_in(self, projection: Projection, likelihood: Likelihood) -> Solution:
        fixed = projection.detached()
        sites = self._warm_sites(fixed, likelihood)
        return solve(fixed, likelihood, self.labels, sites, self.tol, self.engine.max_steps)

    def _warm_sites(self, projection: Projection, likelihood: Likelihood) -> Sites:
        """The best sites seen, in units of this prior if the likelihood has none of its own."""
        if self.best is None and self.earlier is not None:
            return matching_sites(projection, likelihood, self.labels, self.earlier)
        if self.best is None:
            return start_sites(projection, likelihood, self.labels, self.problem.n_latents)
        solution, then = self.best
        sites = solution.state.sites
        if not likelihood.scale_invariant:
            return sites
        ratio = variance_between(then) / variance_between(projection)
        return Sites(sites.lambda1 * ratio.sqrt(), sites.lambda2 * ratio)

    def _keep(
        self, solution: Solution, projection: Projection, theta: np.ndarray, points: Tensor | None
    ) -> None:
        """Remember the best seen: the search may end at, or return from, a worse place."""
        values = [elbo - self._penalty(theta) for elbo in solution.trace]
        if self.best is not None and not values[-1] >= self.trace[-1]:
            return
        self.trace += values if self.best is None else values[-1:]
        self.best = solution, projection.detached()
        self.rough, self.tol = self.tol > self.engine.tol, self.engine.tol
        self.theta = np.array(theta)
        self.points = None if points is None else points.detach().clone()
        self.report(f"elbo {solution.state.elbo:.4f}  " + self._describe())

    def _describe(self) -> str:
        return "  ".join(
            f"{n.split('.', 1)[1]} {v:.4g}"
            for n, v in zip(self.names, np.exp(self.theta), strict=True)
        )
