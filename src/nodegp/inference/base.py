"""What an engine is given and what it gives back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.inducing import Projector
from nodegp.likelihoods import Likelihood
from nodegp.posterior import Marginals, Posterior, Sites
from nodegp.prior import Prior

__all__ = ["Engine", "Fit", "Problem", "Report", "Warm"]

Report = Callable[[str], None]


class Warm(NamedTuple):
    """What an earlier fit of the same model knew. Its hyper-parameters are the problem's."""

    label_marginals: Marginals | None  # q(h) at the labelled nodes, new ones too, if it had them
    curvature: np.ndarray | None  # of the ELBO in the hyper-parameters


@dataclass(frozen=True)
class Problem:
    """One model and its labels, ready to be fitted."""

    prior: Prior
    likelihood: Likelihood
    projector: Projector
    y: Tensor  # (O,) class positions or targets
    confidence: Tensor  # (O,)
    n_latents: int
    rng: np.random.Generator
    warm: Warm | None = None  # to start from; an engine may leave it
    # Of a normal prior on the logs of the free parameters, if there is one: their own values unless
    # others are given.
    hyperprior_mean: Mapping[str, float] | None = None
    hyperprior_std: float | None = None

    def free_parameters(self) -> dict[str, float]:
        """Hyper-parameters to learn, of prior and likelihood."""
        return {f"prior.{k}": v for k, v in self.prior.free_parameters().items()} | {
            f"likelihood.{k}": v for k, v in self.likelihood.free_parameters().items()
        }

    def components(self, values: Mapping[str, Tensor | float]) -> tuple[Prior, Likelihood]:
        """Prior and likelihood with these values in place of their own."""
        prior, likelihood = (
            {k.removeprefix(owner): v for k, v in values.items() if k.startswith(owner)}
            for owner in ("prior.", "likelihood.")
        )
        return self.prior.with_parameters(prior), self.likelihood.with_parameters(likelihood)


@dataclass(frozen=True)
class Fit:
    """A fitted posterior, and how the engine got there."""

    posterior: Posterior
    likelihood: Likelihood
    label_marginals: Marginals  # q(h) at the labelled nodes
    inducing_variance: Tensor  # (O, L) the part of that variance which u carries
    cavity_share: Tensor  # (O, L) what of its precision is left without the label's own site
    alpha: Tensor  # (O, L) lambda1 - lambda2 m
    sites: Sites
    label_projection: Tensor | None  # (M, O) the labels in w-space; None if they are u
    elbo: float
    elbo_trace: np.ndarray
    n_iter: int
    converged: bool
    jitter: float
    curvature: np.ndarray | None = None  # of the ELBO in the hyper-parameters, if it was found
    advice: str = ""  # what to do if it did not converge


@dataclass(frozen=True)
class Engine(Component):
    """A way to find q. ``dtype`` is the precision of its linear algebra."""

    dtype: str = field(default="float64", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype not in ("float64", "float32"):
            raise ValueError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}")

    @property
    def template(self) -> Tensor:
        """A number in that precision."""
        return torch.zeros((), dtype=getattr(torch, self.dtype))

    @abstractmethod
    def fit(self, problem: Problem, report: Report) -> Fit:
        """Maximise the ELBO (Eq. 5); ``report`` takes lines of progress."""
