"""Likelihoods p(y | h): from latent values to labels. They know nothing of graphs.

Each gives the expected log-likelihood under independent Gaussians (the first term of Eq. 5) with
its gradients in their means and variances, and the predictive distribution. ``y`` holds class
positions (or numbers), ``confidence`` the probability that a label is right, 1 for certain.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.component import Component
from nodegp.expectations import softmax_mean

__all__ = [
    "Bernoulli",
    "Expectation",
    "Gaussian",
    "Likelihood",
    "RobustMax",
    "Softmax",
    "entropy",
]

_SMALLEST_CDF = 1e-30  # where Phi is less, its share of any product is nothing
_CERTAIN = 40.0  # standard deviations: Phi is one and phi is zero there, in any precision


class Expectation(NamedTuple):
    """E[log p(y | h)] of each label, and its gradients in the marginals' mean and variance."""

    value: Tensor  # (O,)
    mean_gradient: Tensor  # (O, L)
    variance_gradient: Tensor  # (O, L)


@dataclass(frozen=True)
class Likelihood(Component):
    """p(y | h) for L latent values h of a node."""

    # Whether y is a class; else a number.
    classifies: ClassVar[bool] = True
    # Whether adding the same number to all latents leaves p(y | h) as it is.
    shift_invariant: ClassVar[bool] = False
    # Whether multiplying all latents by the same positive number does.
    scale_invariant: ClassVar[bool] = False
    # Whether all classes but a label's own have a small and similar say where there are hundreds,
    # so that one site precision may stand for all of theirs.
    rivals_alike: ClassVar[bool] = False
    # Where the temperature that calibrates its probabilities mostly is: the mean and the standard
    # deviation of its log; None if that depends on how sharp they are. With few labels this counts
    # for more than they do.
    temperature_prior: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    # Values that are made for each node and latent, which say how many nodes to work on at a time:
    # for an expectation in a fit, for a prediction, for an entropy.
    fit_points: ClassVar[int] = 128
    predict_points: ClassVar[int] = 20
    entropy_points: ClassVar[int] = 1024

    def n_latents(self, n_classes: int) -> int:
        """How many latent functions the likelihood needs."""
        return n_classes

    def start_sites(self, n_latents: int, variance: Tensor) -> tuple[Tensor, Tensor] | None:
        """Where a fit begins: lambda1 and lambda2 of each latent for a label of each class, each
        (L, C), for a prior with this variance between nodes; None for the prior itself.

        On any data q comes out much the same at the labels, once it is put in units of that
        variance; starting at its sites saves half of the steps.
        """
        return None

    @abstractmethod
    def expected_log_prob(self, y: Tensor, mean: Tensor, var: Tensor, confidence: Tensor) -> Tensor:
        """E[log p(y | h)] for h ~ N(mean, diag var), shape (O,); differentiable."""

    @abstractmethod
    def predict(self, mean: Tensor, var: Tensor) -> Tensor:
        """Class probabilities (N, C), or the predictive mean (N, 1) in regression."""

    def class_probabilities(self, h: Tensor) -> Tensor:
        """Class probabilities p(y | h), shape (..., C), at latent values (..., L)."""
        raise NotImplementedError(f"{type(self).__name__} has no classes")

    def expected_entropy(self, mean: Tensor, var: Tensor) -> Tensor:
        """E[H(p(y | h))] for h ~ N(mean, diag var), (N,): the aleatoric uncertainty, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no classes")

    def expectation(self, y: Tensor, mean: Tensor, var: Tensor, confidence: Tensor) -> Expectation:
        """The expected log-likelihood with its gradients; by autograd unless overridden."""
        with torch.enable_grad():
            mean = mean.detach().requires_grad_()
            var = var.detach().requires_grad_()
            value = self.expected_log_prob(y, mean, var, confidence)
            gradients = torch.autograd.grad(value.sum(), (mean, var))
        return Expectation(value.detach(), *gradients)


@dataclass(frozen=True)
class RobustMax(Likelihood):
    """The paper's multi-class likelihood: the class is the argmax of h, except with probability
    ``epsilon``, when it is any other class.

    The probability that one latent is the largest is a one-dimensional integral, done by
    Gauss-Hermite quadrature.
    """

    alias: ClassVar = "robustmax"
    shift_invariant: ClassVar = True
    scale_invariant: ClassVar = True
    epsilon: float = 1e-3
    quadrature: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_count(self, "quadrature")
        if not 0 < self.epsilon < 1:
            raise ValueError(f"RobustMax: epsilon must lie between 0 and 1, got {self.epsilon}")

    def start_sites(self, n_latents: int, variance: Tensor) -> tuple[Tensor, Tensor]:
        own = torch.eye(n_latents, dtype=variance.dtype)
        # Twice what they come out as: of the several optima there are, the better ones are reached
        # from sites that are too sure rather than from those that are not.
        return (11.4 * own - 0.6) / variance.sqrt(), (3.6 * own + 0.8) / variance

    def expected_log_prob(self, y: Tensor, mean: Tensor, var: Tensor, confidence: Tensor) -> Tensor:
        largest = self._probability_largest(y, mean, var)
        hit, miss = self._log_probabilities(confidence, mean.shape[1])
        return miss + largest * (hit - miss)

    def expectation(self, y: Tensor, mean: Tensor, var: Tensor, confidence: Tensor) -> Expectation:
        # By hand: this is the inner loop of every fit, and autograd would cost several times
        # what the quadrature does.
        # Latents come first, so that products and sums over them run along long rows.
        node, weight = _hermite(self.quadrature, mean)
        label = _each(y)
        sd = var.sqrt()
        own_mean, own_sd = mean[label, y], sd[label, y]
        at, spread = (t.mT.contiguous()[:, :, None] for t in (mean, sd))  # (L, O, 1)
        z = (own_mean[:, None] + own_sd[:, None] * node - at).div_(spread)  # (L, O, Q)
        z[y, label] = _CERTAIN  # the own latent is no rival: probability one, density zero
        cdf = torch.special.ndtr(z)
        product = weight * cdf.prod(0)  # (O, Q)
        # Each other latent's share of d product: phi(z) / Phi(z) / sd.
        slope = (z * z).mul_(-0.5).exp_().div_(cdf.clamp_min_(_SMALLEST_CDF).mul_(spread))
        slope.mul_(product * (1.0 / math.sqrt(2 * math.pi)))
        per_point = slope.sum(0)  # (O, Q)

        hit, miss = self._log_probabilities(confidence, mean.shape[1])
        mean_gradient = -slope.sum(2).mT  # (O, L)
        mean_gradient[label, y] = per_point.sum(1)
        variance_gradient = slope.mul_(z).sum(2).mT / (-2 * sd)
        variance_gradient[label, y] = (per_point @ node) / (2 * own_sd)
        value = miss + product.sum(1) * (hit - miss)
        scale = (hit - miss)[:, None]
        return Expectation(value, scale * mean_gradient, scale * variance_gradient)

    def predict(self, mean: Tensor, var: Tensor) -> Tensor:
        n_latents = mean.shape[1]
        if n_latents == 1:
            return torch.ones_like(mean)
        node, weight = _hermite(self.quadrature, mean)
        # As _probability_largest, for one class after the other: latents first, in place.
        at, sd = mean.mT.contiguous()[:, :, None], var.sqrt().mT.contiguous()[:, :, None]
        columns = []
        for c in range(n_latents):
            z = (at[c] + sd[c] * node - at).div_(sd)  # (L, O, Q)
            z[c] = torch.inf  # its own latent is no rival
            columns.append(torch.special.ndtr(z, out=z).prod(0) @ weight)
        largest = torch.stack(columns, 1)
        largest = largest / largest.sum(1, keepdim=True)  # the quadrature's error
        return largest * (1 - self.epsilon) + (1 - largest) * self.epsilon / (n_latents - 1)

    def class_probabilities(self, h: Tensor) -> Tensor:
        n_latents = h.shape[-1]
        if n_latents == 1:
            return torch.ones_like(h)
        proba = torch.full_like(h, self.epsilon / (n_latents - 1))
        return proba.scatter_(-1, h.argmax(-1, keepdim=True), 1 - self.epsilon)

    def expected_entropy(self, mean: Tensor, var: Tensor) -> Tensor:
        # The same for every h: all that robust-max calls noise is its share epsilon.
        return entropy(self.class_probabilities(mean))

    def _probability_largest(self, y: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """P(h_y is the largest latent) of each label, shape (O,)."""
        node, weight = _hermite(self.quadrature, mean)
        own = y[:, None] == torch.arange(mean.shape[1])  # (O, L)
        points = mean[own][:, None] + var[own].sqrt()[:, None] * node  # (O, Q)
        z = (points[:, :, None] - mean[:, None]) / var.sqrt()[:, None]
        return torch.special.ndtr(z).masked_fill(own[:, None], 1.0).prod(2) @ weight

    def _log_probabilities(self, confidence: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
        """log p(y) if the label's latent is the largest, and if it is not."""
        if n_classes == 1:
            return torch.zeros_like(confidence), torch.zeros_like(confidence)
        right = confidence * (1 - self.epsilon)
        return right.log(), ((1 - right) / (n_classes - 1)).log()


@dataclass(frozen=True)
class Softmax(Likelihood):
    """p(y | h) = softmax(h)_y; an uncertain label is mixed with a uniform one over the others.

    The expected log-likelihood has no closed form. It is a mean over a fixed set of quasi-random
    normal points (Sobol, in antithetic pairs), so that the ELBO is deterministic. Predictions are a
    one-dimensional integral and need no such points.
    """

    alias: ClassVar = "softmax"
    shift_invariant: ClassVar = True
    rivals_alike: ClassVar = True
    temperature_prior: ClassVar = None
    n_points: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_count(self, "n_points")

    def start_sites(self, n_latents: int, variance: Tensor) -> tuple[Tensor, Tensor]:
        own = torch.eye(n_latents, dtype=variance.dtype)
        mean, var = 1.6 * variance.sqrt() * (own - own.mean()), variance * (0.9 - 0.15 * own)
        labels = torch.arange(n_latents), mean, var, torch.ones_like(own[0])
        classes = blocks(n_latents, n_latents * self.n_points, budget.passing)
        parts = [self.expectation(*(part[block] for part in labels)) for block in classes]
        at = Expectation(*(torch.cat(part) for part in zip(*parts, strict=True)))
        lambda2 = (-2.0 * at.variance_gradient).clamp_min(0.0)
        return (at.mean_gradient + lambda2 * mean).mT, lambda2.mT

    def expected_log_prob(self, y: Tensor, mean: Tensor, var: Tensor, confidence: Tensor) -> Tensor:
        h = self._draws(mean, var, self.n_points)
        log_right = h[y, _each(y)] - torch.logsumexp(h, 0)
        return self._mixed(log_right, confidence, mean.shape[1]).mean(1)

    def expectation(self, y: Tensor, mean: Tensor, var: Tensor, confidence: Tensor) -> Expectation:
        # By hand, as it is the inner loop of every fit: the gradient of log p(y | h) at each draw
        # is that in the mean, and times its share of noise that in the standard deviation.
        h = self._draws(mean, var, self.n_points)
        h -= h.amax(0)
        own = h[y, _each(y)]
        total = h.exp_().sum(0)
        log_right = own - total.log()
        value = self._mixed(log_right, confidence, mean.shape[1])
        gradient = h.div_(-total)  # (L, O, S)
        gradient[y, _each(y)] += 1.0
        if bool((confidence < 1).any()):
            sure = (confidence - self._by_chance(confidence, mean.shape[1])).clamp_min(0.0)
            gradient *= (sure.log()[:, None] + log_right - value).exp()
        normals = self._normals(mean, self.n_points)  # (L, S)
        weights = torch.stack([torch.ones_like(normals), normals], 2) / normals.shape[1]
        by_mean, by_deviation = torch.bmm(gradient, weights).mT.unbind(1)  # (L, O) each
        return Expectation(value.mean(1), by_mean.mT, by_deviation.mT / (2.0 * var.sqrt()))

    def _mixed(self, log_right: Tensor, confidence: Tensor, n_classes: int) -> Tensor:
        """log p(y | h) of labels that are right, or are there by chance."""
        if bool((confidence == 1).all()):
            return log_right
        chance = self._by_chance(confidence, n_classes)
        sure = (confidence - chance).clamp_min(0.0)
        return torch.logaddexp(sure.log()[:, None] + log_right, chance.log()[:, None])

    @staticmethod
    def _by_chance(confidence: Tensor, n_classes: int) -> Tensor:
        """The share of a wrong label's probability that falls on each other class."""
        return (1 - confidence) / max(n_classes - 1, 1)

    def predict(self, mean: Tensor, var: Tensor) -> Tensor:
        return softmax_mean(mean, var)

    def class_probabilities(self, h: Tensor) -> Tensor:
        return torch.softmax(h, -1)

    def expected_entropy(self, mean: Tensor, var: Tensor) -> Tensor:
        # Four times as many points as in a fit, as no average over nodes evens out their error.
        # Beside that error the rounding of single precision is nothing, and it halves the time.
        h = self._draws(mean.float(), var.float(), 4 * self.n_points)
        return torch.special.entr(torch.softmax(h, 0)).sum(0).mean(1).to(mean)

    def _draws(self, mean: Tensor, var: Tensor, n_points: int) -> Tensor:
        """Values of h, (L, N, S): latents first, so that sums over them run along long rows."""
        at, sd = (part.mT.contiguous()[:, :, None] for part in (mean, var.sqrt()))
        return torch.addcmul(at, sd, self._normals(mean, n_points)[:, None])

    def _normals(self, like: Tensor, n_points: int) -> Tensor:
        """Points in each latent, (L, S)."""
        return _sobol_normals(n_points, like.shape[1]).to(like)


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Two classes through a probit: p(second class | h) = Phi(h), one latent."""

    alias: ClassVar = "bernoulli"

    quadrature: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_count(self, "quadrature")

    def n_latents(self, n_classes: int) -> int:
        if n_classes > 2:
            raise ValueError(
                f"Bernoulli is for two classes, the labels have {n_classes}; "
                "use likelihood RobustMax or Softmax"
            )
        return 1

    def expected_log_prob(self, y: Tensor, mean: Tensor, var: Tensor, confidence: Tensor) -> Tensor:
        node, weight = _hermite(self.quadrature, mean)
        sign = (2 * y - 1).to(mean.dtype)[:, None]
        h = sign * (mean + var.sqrt() * node)
        log_right = torch.special.log_ndtr(h)
        if bool((confidence == 1).all()):
            return (weight * log_right).sum(1)
        sure = confidence[:, None]
        # In logs: a sure label among unsure ones must not underflow to log 0.
        log_wrong = torch.special.log_ndtr(-h)
        mixed = torch.logaddexp(sure.log() + log_right, torch.log1p(-sure) + log_wrong)
        return (weight * mixed).sum(1)

    def predict(self, mean: Tensor, var: Tensor) -> Tensor:
        second = torch.special.ndtr(mean / (1 + var).sqrt())
        return torch.cat([1 - second, second], 1)

    def class_probabilities(self, h: Tensor) -> Tensor:
        return torch.cat([torch.special.ndtr(-h), torch.special.ndtr(h)], -1)

    def expected_entropy(self, mean: Tensor, var: Tensor) -> Tensor:
        node, weight = _hermite(self.quadrature, mean)
        h = mean + var.sqrt() * node  # (N, Q): one latent
        return entropy(self.class_probabilities(h[:, :, None])) @ weight


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Real targets with Gaussian noise; the noise variance of a target is divided by its
    confidence."""

    alias: ClassVar = "gaussian"
    classifies: ClassVar = False
    positive: ClassVar = ("noise",)
    noise: float = 0.1

    def n_latents(self, n_classes: int) -> int:
        return 1

    def expected_log_prob(self, y: Tensor, mean: Tensor, var: Tensor, confidence: Tensor) -> Tensor:
        noise = self.noise / confidence
        log_noise = noise.log() if isinstance(noise, Tensor) else math.log(noise)
        misfit = (y - mean[:, 0]) ** 2 + var[:, 0]
        return -0.5 * (math.log(2 * math.pi) + log_noise + misfit / noise)

    def predict(self, mean: Tensor, var: Tensor) -> Tensor:
        return mean


def entropy(proba: Tensor) -> Tensor:
    """Of each distribution along the last dimension, in nats."""
    return torch.special.entr(proba).sum(-1)


def _check_count(likelihood: Likelihood, name: str) -> None:
    value = getattr(likelihood, name)
    if value < 1:
        raise ValueError(f"{type(likelihood).__name__}: {name} must be at least 1, got {value}")


def _each(y: Tensor) -> Tensor:
    return torch.arange(len(y), device=y.device)


def _hermite(n_points: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights for expectations under a standard normal, shape (Q,)."""
    node, weight = _hermite_arrays(n_points)
    return torch.from_numpy(node).to(like), torch.from_numpy(weight).to(like)


@lru_cache
def _hermite_arrays(n_points: int) -> tuple[np.ndarray, np.ndarray]:
    node, weight = np.polynomial.hermite_e.hermegauss(n_points)
    return node, weight / weight.sum()


@lru_cache
def _sobol_normals(n_points: int, dimension: int) -> Tensor:
    engine = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=0)
    half = torch.special.ndtri(engine.draw(max(n_points // 2, 1), dtype=torch.float64))
    return torch.cat([half, -half]).mT.contiguous()
