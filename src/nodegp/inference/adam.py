"""The paper's engine: whitened mean, covariance factor, inducing points and hyper-parameters,
all optimised together by Adam on the ELBO (Section 3.3 of the paper).

The best ELBO seen at regular checks is what is kept, so no early stopping is needed. With
many labels each step may use a minibatch; the checks always use all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nodegp.inducing import Whitened
from nodegp.inference.base import Engine, Fit, Problem, Report
from nodegp.inference.sites import sites_from, smallest_precision
from nodegp.posterior import Marginals, Posterior


@dataclass(frozen=True)
class Adam(Engine):
    """Joint optimisation by Adam; the defaults are the paper's recipe.

    Every ``check_every`` steps the ELBO is computed on all labels and kept if it is the best.
    It has converged when the best has not risen by more than ``tol`` (relative) over
    ``patience`` checks; ``tol=0`` runs all ``max_iter`` steps.
    """

    max_iter: int = 10_000
    tol: float = 1e-6
    learning_rate: float = 5e-4
    batch_size: int | None = None
    check_every: int = 200
    patience: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_iter < 1:
            raise ValueError(f"Adam: max_iter must be at least 1, got {self.max_iter}")
        if not self.tol >= 0:
            raise ValueError(f"Adam: tol must not be negative, got {self.tol}")
        if self.learning_rate <= 0:
            raise ValueError(f"Adam: learning_rate must be positive, got {self.learning_rate}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"Adam: batch_size must be at least 1, got {self.batch_size}")

    def fit(self, problem: Problem, report: Report) -> Fit:
        run = _Run(problem)
        optimiser = torch.optim.Adam(run.variables(), lr=self.learning_rate)
        n_labels = len(problem.y)
        whole = self.batch_size is None or self.batch_size >= n_labels
        best, best_elbo, trace = run.snapshot(), run.elbo_value(), []
        since_best, converged, step = 0, False, 0
        advice = "raise max_iter or the learning_rate of Adam"
        trace.append(best_elbo)
        for step in range(1, self.max_iter + 1):
            optimiser.zero_grad()
            if whole:
                loss = -run.elbo(None)
            else:
                loss = -run.elbo(problem.rng.choice(n_labels, self.batch_size, replace=False))
            loss.backward()
            optimiser.step()
            if step % self.check_every and step != self.max_iter:
                continue
            elbo = run.elbo_value()
            trace.append(elbo)
            report(f"step {step}  elbo {elbo:.4f}  {run.describe()}")
            since_best = 0 if elbo > best_elbo + self.tol * abs(best_elbo) else since_best + 1
            if elbo > best_elbo:
                best, best_elbo = run.snapshot(), elbo
            if not math.isfinite(elbo):
                advice = "it diverged: lower the learning_rate of Adam"
                break
            if self.tol > 0 and since_best >= self.patience:
                # At rest near the best, or on the way down from it?
                converged = elbo >= best_elbo - 0.01 * abs(best_elbo)
                advice = advice if converged else "it diverged: lower the learning_rate of Adam"
                break
        run.restore(best)
        # With tol=0 the number of steps is the user's choice, and taking them all is the plan.
        planned = self.tol == 0 and step == self.max_iter
        return run.finish(best_elbo, np.array(trace), step, converged or planned, advice)


class _Run:
    """The free variables of one fit and the ELBO as a function of them."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.names = list(problem.free_parameters())
        log_values = np.log([*problem.free_parameters().values()])
        self.theta = torch.from_numpy(log_values).requires_grad_()
        points = problem.projector.points
        self.points = None if points is None else points.clone().requires_grad_()
        with torch.no_grad():
            start = problem.projector(problem.kernel, self.points).whitened()
        n_inducing = len(start.W)
        self.mean = start.W.new_zeros(problem.n_latents, n_inducing).requires_grad_()
        eye = torch.eye(n_inducing, dtype=start.W.dtype, device=start.W.device)
        self.factor = eye.repeat(problem.n_latents, 1, 1).requires_grad_()

    def variables(self) -> list[Tensor]:
        return [v for v in (self.theta, self.points, self.mean, self.factor) if v is not None]

    def snapshot(self) -> list[Tensor]:
        return [v.detach().clone() for v in self.variables()]

    def restore(self, snapshot: list[Tensor]) -> None:
        with torch.no_grad():
            for variable, value in zip(self.variables(), snapshot, strict=True):
                variable.copy_(value)

    def components(self) -> tuple:
        return self.problem.components(dict(zip(self.names, self.theta.exp(), strict=True)))

    def elbo(self, batch: np.ndarray | None) -> Tensor:
        """Eq. 5, on all labels or estimated from a batch of them."""
        kernel, likelihood = self.components()
        y, confidence = self.problem.y, self.problem.confidence
        if batch is None:
            projection = self.problem.projector(kernel, self.points).whitened()
            scale = 1.0
        else:
            projection = self.problem.projector.some(kernel, self.points, batch)
            scale = len(y) / len(batch)
            y, confidence = y[batch], confidence[batch]
        labels, _ = self.marginals(projection)
        fit = likelihood.expected_log_prob(y, *labels, confidence).sum()
        return scale * fit - self.kl()

    def elbo_value(self) -> float:
        with torch.no_grad():
            return float(self.elbo(None))

    def kl(self) -> Tensor:
        """KL[q(v) || N(0, I)], summed over latents."""
        factor = self.factor.tril()
        log_det = factor.diagonal(dim1=1, dim2=2).abs().log().sum()
        return (
            0.5 * (factor.square().sum() + self.mean.square().sum() - self.mean.numel()) - log_det
        )

    def marginals(self, projection: Whitened) -> tuple[Marginals, Tensor]:
        """q(h) at the labels, and the part of the variance that u carries."""
        W = projection.W
        explained = (self.factor.tril().mT @ W).square().sum(1).mT  # (O, L)
        slack = (projection.prior_var - W.square().sum(0)).clamp_min(0.0)
        var = (slack[:, None] + explained).clamp_min(1e-12)
        return Marginals((self.mean @ W).mT, var), explained

    def finish(
        self, elbo: float, trace: np.ndarray, n_iter: int, converged: bool, advice: str
    ) -> Fit:
        problem = self.problem
        with torch.no_grad():
            plain = {n: math.exp(v) for n, v in zip(self.names, self.theta.tolist(), strict=True)}
            kernel, likelihood = problem.components(plain)
            points = None if self.points is None else self.points.detach().clone()
            projection = problem.projector(kernel, points).whitened()
            labels, explained = self.marginals(projection)
            factor = self.factor.tril()
            eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        # Adam has no sites. The ones that match the likelihood at its q take their place.
        expectation = likelihood.expectation(problem.y, *labels, problem.confidence)
        sites = sites_from(expectation, labels, smallest_precision(projection))
        return Fit(
            posterior=Posterior(
                kernel,
                problem.projector.bags(points),
                projection.chol,
                self.mean.detach().clone(),
                eye - factor @ factor.mT,
            ),
            likelihood=likelihood,
            labels=labels,
            explained=explained,
            # Short of convergence a site may exceed the posterior's precision.
            kept=(1.0 - sites.lambda2.mT * explained).clamp_min(1e-6),
            alpha=sites.lambda1.mT - sites.lambda2.mT * labels.mean,
            sites=sites,
            elbo=elbo,
            elbo_trace=trace,
            n_iter=n_iter,
            converged=converged,
            jitter=projection.jitter,
            advice=advice,
        )

    def describe(self) -> str:
        values = zip(self.names, self.theta.exp().tolist(), strict=True)
        return "  ".join(f"{name.split('.', 1)[1]} {value:.4g}" for name, value in values)
