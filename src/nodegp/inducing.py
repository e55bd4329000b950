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
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.covariance import CovarianceCache, VarianceCache, covariance, variance
from nodegp.features import RowSource
from nodegp.filters import Bags, SeveralBags
from nodegp.kernels import Kernel
from nodegp.linalg import check_finite, cholesky

# Above this many labels `auto` takes points, and above that it leaves them where k-means put
# them: see docs/decisions.md for the measurements.
MAX_LABELLED = 1000
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

    points: Tensor | None  # free inducing points to start from, if there are any

    def __call__(self, kernel: Kernel, points: Tensor | None) -> Projection: ...

    def some(self, kernel: Kernel, points: Tensor | None, index: np.ndarray) -> Whitened:
        """The same for some of the labels only (a minibatch)."""

    def bags(self, points: Tensor | None) -> Bags: ...


@dataclass(frozen=True)
class Inducing(Component):
    """A choice of inducing variables."""

    @abstractmethod
    def prepare(
        self,
        kernel: Kernel,
        labelled: Bags,
        features: RowSource,
        like: Tensor,
        rng: np.random.Generator,
        earlier: Bags | None = None,
    ) -> Projector:
        """Set up for a fit. ``like`` gives the dtype and device to work in, ``earlier`` the
        points that an earlier fit ended with, to start from."""


def choose(name: str | Inducing, n_points: int | None, n_labels: int) -> Inducing:
    """The inducing variables asked for by name; "auto" decides by the number of labels."""
    if isinstance(name, Inducing):
        return name
    if name == "auto":
        if n_labels > MAX_LABELLED:
            return Points(n_points, optimise=n_labels <= MAX_OPTIMISED)
        name = "labelled"
    if name == "labelled":
        return Labelled()
    if name == "points":
        return Points(n_points)
    raise ValueError(f"inducing must be 'auto', 'labelled' or 'points', got {name!r}")


@dataclass(frozen=True)
class Labelled(Inducing):
    """u = h at the labelled nodes."""

    def prepare(self, kernel, labelled, features, like, rng, earlier=None):
        return _LabelledProjector(kernel, labelled, like)


class _LabelledProjector:
    points = None

    def __init__(self, kernel: Kernel, labelled: Bags, like: Tensor):
        self._bags = labelled.in_memory()
        self._like = like
        self._covariance = CovarianceCache(kernel, self._bags, self._bags)

    def __call__(self, kernel: Kernel, points: Tensor | None) -> Exact:
        return Exact(check_finite(self._covariance(kernel).to(self._like)))

    def some(self, kernel: Kernel, points: Tensor | None, index: np.ndarray) -> Whitened:
        whole = self(kernel, points).whitened()
        return whole._replace(W=whole.W[:, index], prior_var=whole.prior_var[index])

    def bags(self, points: Tensor | None) -> Bags:
        return self._bags


@dataclass(frozen=True)
class Points(Inducing):
    """u_m = f(z_m), with z_m from k-means over the nodes' features.

    ``n_points=None`` takes one per label, up to a few hundred. ``optimise=False`` leaves
    them where k-means put them.
    """

    n_points: int | None = None
    optimise: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_points is not None and (self.n_points < 1 or int(self.n_points) != self.n_points):
            raise ValueError(f"Points: n_points must be a whole number >= 1, got {self.n_points}")

    def prepare(self, kernel, labelled, features, like, rng, earlier=None):
        if isinstance(labelled, SeveralBags):
            raise ValueError(
                "inducing points are points of one function, and this filter sums several; use "
                "inducing='labelled'"
            )
        if earlier is not None:
            start = earlier.rows.values.double()
        else:
            start = kmeans(features, self.n_points or min(len(labelled), DEFAULT_POINTS), rng)
        return _PointsProjector(kernel, labelled, start, like, self.optimise)


class _PointsProjector:
    def __init__(self, kernel: Kernel, labelled: Bags, start: Tensor, like: Tensor, optimise: bool):
        self._labelled = labelled.in_memory()
        self._like = like
        self._start = start
        self.points = start if optimise else None
        self._prior_var = VarianceCache(kernel, self._labelled)
        self._at_start: tuple[CovarianceCache, CovarianceCache] | None = None

    def __call__(self, kernel: Kernel, points: Tensor | None) -> Whitened:
        if points is not None and kernel.coefficients() is not None:
            # Kernels of the inner product alone lose nothing to a precision that the rest of
            # the fit has anyway; others take differences of squares, which need every digit.
            points = points.to(self._like)
        u = self.bags(points)
        if points is None:
            Kuu, Kuh = self._cached(kernel, u)
        else:
            Kuu, Kuh = covariance(kernel, u, u), covariance(kernel, self._labelled, u).mT
        return self._project(Kuu, Kuh, self._prior_var(kernel))

    def some(self, kernel: Kernel, points: Tensor | None, index: np.ndarray) -> Whitened:
        u, batch = self.bags(points), self._labelled.take(index)
        Kuh = covariance(kernel, batch, u).mT  # Eq. 16
        return self._project(covariance(kernel, u, u), Kuh, variance(kernel, batch))

    def bags(self, points: Tensor | None) -> Bags:
        return Bags.points(self._start if points is None else points)

    def _cached(self, kernel: Kernel, u: Bags) -> tuple[Tensor, Tensor]:
        if self._at_start is None:
            self._at_start = (
                CovarianceCache(kernel, u, u),
                CovarianceCache(kernel, self._labelled, u),
            )
        Kuu, Khu = (cache(kernel) for cache in self._at_start)
        return Kuu, Khu.mT

    def _project(self, Kuu: Tensor, Kuh: Tensor, prior_var: Tensor) -> Whitened:
        L, jitter = cholesky(Kuu.to(self._like), "covariance of the inducing points")
        W = torch.linalg.solve_triangular(L, Kuh.to(self._like), upper=False)
        return Whitened(L, W, prior_var.to(self._like), jitter)


def _count_distinct(values: Any) -> int:
    if not sp.issparse(values):
        return len(np.unique(values, axis=0))
    ends = zip(values.indptr[:-1], values.indptr[1:], strict=True)
    return len({(values.indices[a:b].tobytes(), values.data[a:b].tobytes()) for a, b in ends})


def kmeans(features: RowSource, n_points: int, rng: np.random.Generator) -> Tensor:
    """Centres of the nodes' features, (at most n_points, D): fewer if fewer rows differ."""
    from sklearn.cluster import KMeans, MiniBatchKMeans  # heavy, and only needed here
    from sklearn.exceptions import ConvergenceWarning

    index = np.arange(len(features))
    if len(index) > _KMEANS_ROWS:
        size = min(len(index), max(_KMEANS_ROWS, 10 * n_points))
        index = np.sort(rng.choice(index, size, replace=False))
    rows = features.take(index)
    # More clusters than distinct rows would leave some empty, with centres that mean nothing.
    n_points = min(n_points, _count_distinct(rows.uncentred()))
    seed = int(rng.integers(2**31 - 1))
    kind = KMeans if len(index) * n_points <= 2_000_000 else MiniBatchKMeans
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal centres go below
        centres = kind(n_points, n_init=1, random_state=seed).fit(rows.uncentred()).cluster_centers_
    if rows.centre is not None:
        centres = centres - rows.centre
    return torch.from_numpy(np.unique(centres, axis=0))
