"""The family of spectral filters: one response g(lambda) each.

All but the learnt polynomial are one at zero, so that kernels keep their scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.filters.spectral import Spectral, check_whole, expand

__all__ = [
    "Chebyshev",
    "Diffusion",
    "InverseCosine",
    "MaternFilter",
    "PageRank",
    "Propagation",
    "RandomWalk",
    "RegularisedLaplacian",
    "ResponseValue",
]


@dataclass(frozen=True)
class PageRank(Spectral):
    """Personalised PageRank: g = t / (1 - (1 - t)(1 - lambda)), on A + I (Gasteiger et al. 2019).

    Row n of F is the distribution of the end of a random walk from n that stops with probability
    ``teleport`` = t at every step (for the symmetric normalisation). The hyper-parameter that is
    learnt is its ``strength`` (1 - t) / t, the mean number of steps, which may be any positive
    number.

    Notes
    -----
    The response is off by at most 0.0072 at t = 0.1 and order 10, and by 0.00007 at order 20. Its
    power series, cut off at order 10, is off by 0.31.
    """

    alias: ClassVar = "pagerank"
    positive: ClassVar = ("strength",)
    teleport: float = 0.1
    self_loops: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.teleport, Tensor):
            if not isinstance(self.teleport, Real):
                raise TypeError(f"PageRank: teleport must be a number, got {self.teleport!r}")
            if not 0 < self.teleport <= 1:
                raise ValueError(f"PageRank: teleport must lie in (0, 1), got {self.teleport}")
            object.__setattr__(self, "teleport", float(self.teleport))
        super().__post_init__()

    @property
    def strength(self) -> float:
        return (1.0 - self.teleport) / self.teleport

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        if "strength" not in values:
            return super().with_parameters(values)
        rest = {name: value for name, value in values.items() if name != "strength"}
        changed = replace(self, teleport=1.0 / (1.0 + values["strength"]))
        return changed.with_parameters(rest)

    def response(self, eigenvalue: Tensor) -> Tensor:
        return 1.0 / (1.0 + self.strength * eigenvalue)


@dataclass(frozen=True)
class Propagation(Spectral):
    """Symmetric normalised propagation over ``steps`` hops: g = (1 - lambda)^steps, on A + I.

    The filter of graph convolutions (Kipf & Welling 2017) and of SGC (Wu et al. 2019). Exact: its
    order is the number of steps.
    """

    alias: ClassVar = "propagation"

    steps: int = 2
    order: int = field(init=False, kw_only=True)
    self_loops: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_whole(self, "steps", 0)
        object.__setattr__(self, "order", self.steps)
        super().__post_init__()

    def response(self, eigenvalue: Tensor) -> Tensor:
        return (1.0 - eigenvalue) ** self.steps


@dataclass(frozen=True)
class RegularisedLaplacian(Spectral):
    """g = 1 / (1 + scale lambda) (Smola & Kondor 2003)."""

    alias: ClassVar = "laplacian"
    positive: ClassVar = ("scale",)
    scale: float = 1.0

    def response(self, eigenvalue: Tensor) -> Tensor:
        return 1.0 / (1.0 + self.scale * eigenvalue)


@dataclass(frozen=True)
class Diffusion(Spectral):
    """Heat diffusion: g = exp(-time lambda) (Kondor & Lafferty 2002)."""

    alias: ClassVar = "diffusion"
    positive: ClassVar = ("time",)
    time: float = 1.0

    def response(self, eigenvalue: Tensor) -> Tensor:
        return torch.exp(-self.time * eigenvalue)


@dataclass(frozen=True)
class RandomWalk(Spectral):
    """A lazy random walk: g = (1 - lambda / shift)^steps (Smola & Kondor 2003).

    With ``shift`` of at least 2, as there, g is never negative; less is allowed. Exact: its order
    is the number of steps.
    """

    alias: ClassVar = "walk"
    positive: ClassVar = ("shift",)
    steps: int = 2
    shift: float = 2.0
    order: int = field(init=False, kw_only=True)

    def __post_init__(self) -> None:
        check_whole(self, "steps", 0)
        object.__setattr__(self, "order", self.steps)
        super().__post_init__()
        if not isinstance(self.shift, Tensor) and self.shift == 0:
            raise ValueError("RandomWalk: shift must be positive, got 0")

    def response(self, eigenvalue: Tensor) -> Tensor:
        return (1.0 - eigenvalue / self.shift) ** self.steps


@dataclass(frozen=True)
class InverseCosine(Spectral):
    """g = cos(lambda pi / 4) (Smola & Kondor 2003): keeps more of the middle frequencies."""

    alias: ClassVar = "cosine"

    def response(self, eigenvalue: Tensor) -> Tensor:
        return torch.cos(eigenvalue * (math.pi / 4.0))


@dataclass(frozen=True)
class MaternFilter(Spectral):
    """g = (1 + scale^2 lambda / (2 smoothness))^(-smoothness / 2).

    White noise on the nodes that passes through it is the graph Matern process of Borovitskiy et
    al. (2021), whose covariance is (2 nu / kappa^2 + L)^-nu, up to its variance. ``scale`` is
    kappa and ``smoothness`` is nu, which is not learnt.
    """

    alias: ClassVar = "matern"
    positive: ClassVar = ("scale",)
    smoothness: float = 1.5
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.smoothness, Real) or not 0 < self.smoothness < math.inf:
            raise ValueError(
                f"MaternFilter: smoothness must be a positive number, got {self.smoothness!r}"
            )

    def response(self, eigenvalue: Tensor) -> Tensor:
        scaled = self.scale**2 * eigenvalue / (2.0 * self.smoothness)
        return (1.0 + scaled) ** (-0.5 * self.smoothness)


@dataclass(frozen=True)
class ResponseValue(Component):
    """The response at one place, for :class:`Chebyshev`; ``fixed="value"`` holds it there."""

    positive: ClassVar = ("value",)
    value: float


@dataclass(frozen=True)
class Chebyshev(Spectral):
    """Any polynomial that is positive at the Chebyshev nodes, with all its coefficients learnt.

    Parameters
    ----------
    values : positive numbers, or ResponseValue
        The response at the K + 1 Chebyshev nodes of [0, 2], from low frequencies to high; their
        number fixes the degree K. They stand for the K + 1 coefficients, one to one (He et al.
        2022), and unlike those can be read and stay positive when they are learnt. Rising ones
        sharpen what differs from its neighbours; equal ones are the identity.
    """

    alias: ClassVar = "chebyshev"

    values: tuple[Any, ...] = (1.0, 0.8, 0.5, 0.3, 0.2)
    order: int = field(init=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.values, Real | str) or not len(self.values):
            raise ValueError(f"Chebyshev: values must be one or more numbers, got {self.values!r}")
        values = (v if isinstance(v, ResponseValue) else ResponseValue(v) for v in self.values)
        object.__setattr__(self, "values", tuple(values))
        object.__setattr__(self, "order", len(self.values) - 1)
        super().__post_init__()

    def response(self, eigenvalue: Tensor) -> Tensor:
        values = torch.stack([torch.as_tensor(v.value, dtype=torch.float64) for v in self.values])
        coefficients = expand(values.flip(0), self.order)  # the nodes fall
        angle = torch.arccos((eigenvalue - 1.0).clamp(-1.0, 1.0))
        return torch.cos(angle[..., None] * torch.arange(self.order + 1)) @ coefficients
