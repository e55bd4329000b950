"""What the inducing variables u are: a choice of its own, apart from how q(u) is found.

- :class:`Labelled`: u is h at the labelled nodes. Nothing is approximated but the shape of
  q, so no bound is better; it costs the cube of the number of labels.
- :class:`Points`: u_m = f(z_m) at points z_m in feature space (the paper's inter-domain
  choice, Eq. 16), started by k-means and optimised. It is the one for many labels.

Prepared for a fit, either gives what the engines work with as a function of the
hyper-parameters: the labelled nodes' covariance, or their projection on whitened points.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.linalg import check_finite, cholesky
from nodegp.prior import Domain, Inputs, Prior, WeightedRows
from nodegp.rows import RowSource

__all__ = [
    "DEFAULT_POINTS",
    "MAX_LABELLED",
    "MAX_LABELLED_SHARED",
    "MAX_OPTIMISED",
    "Exact",
    "Inducing",
    "Labelled",
    "LabelledProjector",
    "Points",
    "Projection",
    "Projector",
    "Whitened",
    "choose",
    "kmeans",
]

# Above this many labels `auto` takes points, and above that it leaves them where k-means put
# them: see docs/decisions.md for the measurements.
MAX_LABELLED = 1000
MAX_LABELLED_SHARED = 3000  # where hundreds of classes share one factorisation
MAX_OPTIMISED = 5000
DEFAULT_POINTS = 300
_KMEANS_ROWS = 20_000


class Exact(NamedTuple):
    """u = h at the labelled nodes: their prior covariance is all there is to know."""

    K: Tensor  # (O, O)
    jitter: float = 0.0

    def whitened(self) -> Whitened:
        """The same in whitened form. There W = L^-1 (L L^T) is the factor itself."""
        L, jitter = cholesky(self.K, "covariance of the labelled nodes")
        return Whitened(L, L.mT, (L * L).sum(1), jitter)

    def inputs(self) -> tuple[Tensor, ...]:
        return (self.K,)

    def detached(self) -> Exact:
        return Exact(self.K.detach(), self.jitter)


class Whitened(NamedTuple):
    """The labelled nodes seen from u = L v: ``Kuu = L L^T``, ``W = L^-1 Kuh``, and Var(h)."""

    chol: Tensor  # (M, M)
    W: Tensor  # (M, O)
    prior_var: Tensor  # (O,)
    jitter: float

    def whitened(self) -> Whitened:
        return self

    def inputs(self) -> tuple[Tensor, ...]:
        return self.W, self.prior_var

    def detached(self) -> Whitened:
        return Whitened(self.chol.detach(), self.W.detach(), self.prior_var.detach(), self.jitter)


Projection = Exact | Whitened


class Projector(Protocol):
    """Inducing variables prepared for one fit."""

    @property
    def points(self) -> Tensor | None:
        """Free inducing points to start from, if there are any."""

    def __call__(self, prior: Prior, points: Tensor | None) -> Projection: ...

    def minibatch(self, prior: Prior, points: Tensor | None, index: np.ndarray) -> Whitened:
        """The same for some of the labels only."""

    def inducing(self, prior: Prior, points: Tensor | None) -> Inputs:
        """The inducing variables as inputs."""


@dataclass(frozen=True)
class Inducing(Component):
    """A choice of inducing variables."""

    @abstractmethod
    def prepare(
        self,
        prior: Prior,
        domain: Domain,
        labelled: np.ndarray,
        template: Tensor,
        rng: np.random.Generator,
        earlier: Inputs | None = None,
    ) -> Projector:
        """Set up for a fit to labels at some nodes. ``template`` gives the precision to work in,
        ``earlier`` the inducing variables that an earlier fit ended with, to start from."""


def choose(name: str | Inducing, n_labels: int, is_shared: bool = False) -> Inducing:
    """The inducing variables asked for by name; "auto" decides by the number of labels, and by
    whether all classes share a factorisation."""
    if isinstance(name, Inducing):
        return name
    if name == "auto":
        if n_labels > (MAX_LABELLED_SHARED if is_shared else MAX_LABELLED):
            return Points(optimise=n_labels <= MAX_OPTIMISED)
        name = "labelled"
    if name == "labelled":
        return Labelled()
    if name == "points":
        return Points()
    raise ValueError(f"inducing must be 'auto', 'labelled' or 'points', got {name!r}")


@dataclass(frozen=True)
class Labelled(Inducing):
    """u = h at the labelled nodes."""

    def prepare(
        self,
        prior: Prior,
        domain: Domain,
        labelled: np.ndarray,
        template: Tensor,
        rng: np.random.Generator,
        earlier: Inputs | None = None,
    ) -> Projector:
        return LabelledProjector(prior, prior.to_learn(domain, labelled), template)


class LabelledProjector:
    """The labelled nodes as inducing variables of any prior."""

    points: Tensor | None = None

    def __init__(self, prior: Prior, labelled: Inputs, template: Tensor):
        self._labelled = labelled
        self._template = template
        self._covariance = prior.cached_cov(labelled, labelled)

    def __call__(self, prior: Prior, points: Tensor | None) -> Exact:
        return Exact(check_finite(self._covariance(prior).to(self._template)))

    def minibatch(self, prior: Prior, points: Tensor | None, index: np.ndarray) -> Whitened:
        whole = self(prior, points).whitened()
        return whole._replace(W=whole.W[:, index], prior_var=whole.prior_var[index])

    def inducing(self, prior: Prior, points: Tensor | None) -> Inputs:
        return prior.freeze(self._labelled)


@dataclass(frozen=True)
class Points(Inducing):
    """u_m = f(z_m), with z_m from k-means over the nodes' features.

    ``n_points=None`` uses one per label, up to a few hundred. ``optimise=False`` keeps them at
    the k-means centres.
    """

    n_points: int | None = None
    optimise: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_points is not None and (self.n_points < 1 or int(self.n_points) != self.n_points):
            raise ValueError(f"Points: n_points must be a whole number >= 1, got {self.n_points}")

    def prepare(
        self,
        prior: Prior,
        domain: Domain,
        labelled: np.ndarray,
        template: Tensor,
        rng: np.random.Generator,
        earlier: Inputs | None = None,
    ) -> Projector:
        if earlier is not None:
            start = WeightedRows.of(earlier).in_memory().values.double()
        else:
            n_points = self.n_points or min(len(labelled), DEFAULT_POINTS)
            start = kmeans(prior.inducing_candidates(domain), n_points, rng)
        inputs = prior.to_learn(domain, labelled)
        return _PointsProjector(prior, inputs, start, template, self.optimise)


class _PointsProjector:
    def __init__(
        self, prior: Prior, labelled: Inputs, start: Tensor, template: Tensor, optimise: bool
    ):
        self._labelled = labelled
        self._template = template
        self._start = start
        self.points: Tensor | None = start if optimise else None
        self._prior_var = prior.cached_var(labelled)
        self._at_start: tuple[Callable[[Prior], Tensor], Callable[[Prior], Tensor]] | None = None

    def __call__(self, prior: Prior, points: Tensor | None) -> Whitened:
        u = self.inducing(prior, points)
        if points is None:
            Kuu, Kuh = self._cached(prior, u)
        else:
            Kuu, Kuh = prior.cov(u, u), prior.cov(self._labelled, u).mT
        return self._project(Kuu, Kuh, self._prior_var(prior))

    def minibatch(self, prior: Prior, points: Tensor | None, index: np.ndarray) -> Whitened:
        u, batch = self.inducing(prior, points), self._labelled.take(index)
        Kuh = prior.cov(batch, u).mT  # Eq. 16
        return self._project(prior.cov(u, u), Kuh, prior.var(batch))

    def inducing(self, prior: Prior, points: Tensor | None) -> Inputs:
        return prior.points(self._start if points is None else points)

    def _cached(self, prior: Prior, u: Inputs) -> tuple[Tensor, Tensor]:
        if self._at_start is None:
            self._at_start = prior.cached_cov(u, u), prior.cached_cov(self._labelled, u)
        Kuu, Khu = (cache(prior) for cache in self._at_start)
        return Kuu, Khu.mT

    def _project(self, Kuu: Tensor, Kuh: Tensor, prior_var: Tensor) -> Whitened:
        L, jitter = cholesky(Kuu.to(self._template), "covariance of the inducing points")
        W = torch.linalg.solve_triangular(L, Kuh.to(self._template), upper=False)
        return Whitened(L, W, prior_var.to(self._template), jitter)


def kmeans(features: RowSource, n_points: int, rng: np.random.Generator) -> Tensor:
    """Centres of the nodes' features, (at most n_points, D): fewer if fewer rows differ."""
    from sklearn.cluster import KMeans, MiniBatchKMeans  # heavy, and only needed here
    from sklearn.exceptions import ConvergenceWarning

    index = np.arange(len(features))
    if len(index) > _KMEANS_ROWS:
        size = min(len(index), max(_KMEANS_ROWS, 10 * n_points))
        index = np.sort(rng.choice(index, size, replace=False))
    rows = WeightedRows(None, features.take(index)).in_memory()
    # More clusters than distinct rows would leave some empty, with centres that mean nothing.
    n_points = min(n_points, len(set(rows.fingerprints)))
    seed = int(rng.integers(2**31 - 1))
    kind = KMeans if len(index) * n_points <= 2_000_000 else MiniBatchKMeans
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal centres go below
        centres = kind(n_points, n_init=1, random_state=seed).fit(rows.uncentred()).cluster_centers_
    if rows.centre is not None:
        centres = centres - rows.centre
    return torch.from_numpy(np.unique(centres, axis=0))
