"""The paper's engine: whitened mean, covariance factor, inducing points and hyper-parameters,
all optimised together by Adam on the ELBO (Section 3.3 of the paper).

The best ELBO seen at regular checks is what is kept, so no early stopping is needed. With
many labels each step may use a minibatch; the checks always use all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from nodegp.identity import fingerprint
from nodegp.inducing import Whitened
from nodegp.inference.base import Engine, Fit, Problem, Report
from nodegp.inference.moments import smallest_precision
from nodegp.inference.sites import sites_from
from nodegp.likelihoods import Likelihood
from nodegp.posterior import Marginals, Posterior
from nodegp.prior import Prior
from nodegp_paper.inference import checkpoint
from nodegp_paper.tensors import lower_times

__all__ = ["Adam"]


@dataclass(frozen=True)
class Adam(Engine):
    """Joint optimisation by Adam; the defaults are the paper's recipe.

    Every ``check_every`` steps the ELBO is computed on all labels and kept if it is the best.
    It has converged when the best has not risen by more than ``tol`` (relative) over
    ``patience`` checks; ``tol=0`` runs all ``max_iter`` steps.

    ``checkpoint`` names a file that is written at every check. The same fit, started again after
    an interruption or with a larger ``max_iter``, continues from it and ends at the same result as
    without the interruption. The file is not removed afterwards.
    """

    alias: ClassVar = "adam"

    max_iter: int = 10_000
    tol: float = 1e-6
    learning_rate: float = 5e-4
    batch_size: int | None = None
    check_every: int = 200
    patience: int = 5
    checkpoint: str | None = None

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
        saved = _Saved(self, run, optimiser)
        progress = saved.read() or _Progress(run.snapshot(), run.elbo_value())
        outcome = self._outcome(progress)
        while not outcome:
            optimiser.zero_grad()
            if whole:
                loss = -run.elbo(None)
            else:
                loss = -run.elbo(problem.rng.choice(n_labels, self.batch_size, replace=False))
            loss.backward()
            optimiser.step()
            progress.step += 1
            if progress.step % self.check_every and progress.step != self.max_iter:
                continue
            elbo = run.elbo_value()
            report(f"step {progress.step}  elbo {elbo:.4f}  {run.describe()}")
            progress.note(elbo, run, self.tol)
            # Not after a last, uneven stretch: a longer fit would not have checked there.
            if progress.step % self.check_every == 0:
                saved.write(progress)
            outcome = self._outcome(progress)
        run.restore(progress.best)
        converged = outcome in ("settled", "planned")
        return run.finish(
            progress.best_elbo,
            np.array(progress.trace),
            progress.step,
            converged,
            "" if converged else outcome,
        )

    def _outcome(self, progress: _Progress) -> str:
        """Empty while there is more to do, else how it ended or what to do about it."""
        diverged = "it diverged: lower the learning_rate of Adam"
        elbo = progress.trace[-1]
        if not math.isfinite(elbo):
            return diverged
        if self.tol > 0 and progress.since_best >= self.patience:
            # At rest near the best, or on the way down from it?
            at_rest = elbo >= progress.best_elbo - 0.01 * abs(progress.best_elbo)
            return "settled" if at_rest else diverged
        if progress.step < self.max_iter:
            return ""
        # With tol=0 the number of steps is the user's choice, and taking them all is the plan.
        return "planned" if self.tol == 0 else "raise max_iter or the learning_rate of Adam"


class _Progress:
    """How far a fit has come, and the best it has seen."""

    def __init__(self, best: list[Tensor], elbo: float):
        self.best, self.best_elbo = best, elbo
        self.trace = [elbo]
        self.step = 0
        self.since_best = 0  # checks without a rise worth counting

    def note(self, elbo: float, run: _Run, tol: float) -> None:
        self.trace.append(elbo)
        rise = elbo > self.best_elbo + tol * abs(self.best_elbo)
        self.since_best = 0 if rise else self.since_best + 1
        if elbo > self.best_elbo:
            self.best, self.best_elbo = run.snapshot(), elbo


class _Saved:
    """A fit's progress, variables, optimiser and random numbers on disk, if so wished."""

    _NUMBERS = ("best_elbo", "trace", "step", "since_best")

    def __init__(self, engine: Adam, run: _Run, optimiser: torch.optim.Optimizer):
        self.run, self.optimiser = run, optimiser
        self.max_iter = engine.max_iter
        self.path = None if engine.checkpoint is None else Path(engine.checkpoint)
        if self.path is not None:
            problem = run.problem
            settings = {
                "learning_rate": engine.learning_rate,
                "batch_size": engine.batch_size,
                "check_every": engine.check_every,
                "tol": engine.tol,
                "prior": problem.prior.to_dict(),
                "likelihood": problem.likelihood.to_dict(),
                "rng": problem.rng.bit_generator.state,
            }
            # The start's W and variances stand for graph, features, filter and labelled nodes.
            data = [problem.y, problem.confidence, run.start.W, run.start.prior_var, run.points]
            arrays = (None if part is None else part.detach().numpy() for part in data)
            self.mark = fingerprint(settings, *arrays)

    def write(self, progress: _Progress) -> None:
        if self.path is None:
            return
        numbers = {name: getattr(progress, name) for name in self._NUMBERS}
        tensors = {f"now.{i}": v for i, v in enumerate(self.run.variables())}
        tensors |= {f"best.{i}": v for i, v in enumerate(progress.best)}
        tensors |= checkpoint.optimiser_tensors(self.optimiser)
        rng = self.run.problem.rng.bit_generator.state
        checkpoint.write(self.path, self.mark, {"progress": numbers, "rng": rng}, tensors)

    def read(self) -> _Progress | None:
        found = None if self.path is None else checkpoint.read(self.path, self.mark)
        if found is None:
            return None
        state, tensors = found
        if state["progress"]["step"] > self.max_iter:
            return None  # from a longer fit; this one is to stop before
        n = len(self.run.variables())
        self.run.restore([tensors[f"now.{i}"] for i in range(n)])
        checkpoint.restore_optimiser(self.optimiser, tensors)
        self.run.problem.rng.bit_generator.state = state["rng"]
        best = [tensors[f"best.{i}"].to(v) for i, v in enumerate(self.run.variables())]
        progress = _Progress(best, math.nan)
        for name in self._NUMBERS:
            setattr(progress, name, state["progress"][name])
        return progress


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
            self.start = problem.projector(problem.prior, self.points).whitened()
        n_inducing = len(self.start.W)
        self.mean = self.start.W.new_zeros(problem.n_latents, n_inducing).requires_grad_()
        eye = torch.eye(n_inducing, dtype=self.start.W.dtype, device=self.start.W.device)
        self.factor = eye.repeat(problem.n_latents, 1, 1).requires_grad_()

    def variables(self) -> list[Tensor]:
        return [v for v in (self.theta, self.points, self.mean, self.factor) if v is not None]

    def snapshot(self) -> list[Tensor]:
        return [v.detach().clone() for v in self.variables()]

    def restore(self, snapshot: list[Tensor]) -> None:
        with torch.no_grad():
            for variable, value in zip(self.variables(), snapshot, strict=True):
                variable.copy_(value)

    def components(self) -> tuple[Prior, Likelihood]:
        return self.problem.components(dict(zip(self.names, self.theta.exp(), strict=True)))

    def elbo(self, batch: np.ndarray | None) -> Tensor:
        """Eq. 5, on all labels or estimated from a batch of them."""
        prior, likelihood = self.components()
        y, confidence = self.problem.y, self.problem.confidence
        if batch is None:
            projection = self.problem.projector(prior, self.points).whitened()
            scale = 1.0
        else:
            projection = self.problem.projector.minibatch(prior, self.points, batch)
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
        inducing_variance = lower_times(self.factor, W).square().sum(1).mT  # (O, L)
        slack = (projection.prior_var - W.square().sum(0)).clamp_min(0.0)
        var = (slack[:, None] + inducing_variance).clamp_min(1e-12)
        return Marginals((self.mean @ W).mT, var), inducing_variance

    def finish(
        self, elbo: float, trace: np.ndarray, n_iter: int, converged: bool, advice: str
    ) -> Fit:
        problem = self.problem
        with torch.no_grad():
            plain = {n: math.exp(v) for n, v in zip(self.names, self.theta.tolist(), strict=True)}
            prior, likelihood = problem.components(plain)
            points = None if self.points is None else self.points.detach().clone()
            projection = problem.projector(prior, points).whitened()
            labels, inducing_variance = self.marginals(projection)
            factor = self.factor.tril()
            eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        # Adam has no sites. The ones that match the likelihood at its q take their place.
        expectation = likelihood.expectation(problem.y, *labels, problem.confidence)
        sites = sites_from(expectation, labels, smallest_precision(projection))
        return Fit(
            posterior=Posterior(
                prior,
                problem.projector.inducing(prior, points),
                projection.chol,
                self.mean.detach().clone(),
                eye - factor @ factor.mT,
            ),
            likelihood=likelihood,
            label_marginals=labels,
            inducing_variance=inducing_variance,
            # Short of convergence a site may exceed the posterior's precision.
            cavity_share=(1.0 - sites.lambda2.mT * inducing_variance).clamp_min(1e-6),
            alpha=sites.lambda1.mT - sites.lambda2.mT * labels.mean,
            sites=sites,
            label_projection=projection.W,
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
