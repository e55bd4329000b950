"""Base kernels k(x, x'), as functions of inner products.

Every kernel here has the form ``kappa(<x, x'>, |x|^2, |x'|^2)``, so it is evaluated on a
:class:`Tile` of a Gram matrix and never sees the features: sparse features with thousands
of columns cost nothing per hyper-parameter step. Kernels add and multiply with ``+`` and
``*``; a number times a kernel scales it. Graphs and filters are not known here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import reduce
from math import comb
from operator import mul
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.linalg import inverse_roots

__all__ = [
    "RBF",
    "ArcCosine",
    "Constant",
    "Cosine",
    "Kernel",
    "Linear",
    "LinearForm",
    "Matern",
    "Polynomial",
    "Product",
    "Scaled",
    "Sum",
    "Tile",
]


@dataclass(frozen=True)
class Tile:
    """Inner products of some points with some others, and both sides' squared norms.

    ``inner`` has any shape; ``left`` and ``right`` broadcast against it.
    """

    inner: Tensor
    left: Tensor
    right: Tensor

    @property
    def squared_distance(self) -> Tensor:
        total = self.left + self.right
        squared = total - 2.0 * self.inner
        # What rounding leaves of equal points is no distance. A lengthscale far below the size of
        # the points would make much of it: a node would be no longer like itself.
        rounding = 8.0 * torch.finfo(squared.dtype).eps
        return squared.masked_fill(squared.detach() < rounding * total.detach(), 0.0)

    @property
    def distance(self) -> Tensor:
        """|x - x'|, with gradient zero where the points are equal."""
        squared = self.squared_distance
        apart = squared > 1e-14 * (self.left + self.right)
        return torch.where(apart, squared, 1.0).sqrt() * apart

    def transposed(self) -> Tile:
        return Tile(self.inner.mT, self.right.mT, self.left.mT)


class LinearForm(NamedTuple):
    """k = constant + slope <x, x'>, with x / |x| in place of x if ``unit``."""

    constant: float
    slope: float
    unit: bool | None  # None where there is no slope


@dataclass(frozen=True)
class Kernel(Component):
    """A positive definite function of two feature vectors.

    Examples
    --------
    >>> kernel = Linear() + RBF(lengthscale=2.0, fixed=("variance",))
    >>> kernel.free_parameters()
    {'terms[0].variance': 1.0, 'terms[1].lengthscale': 2.0}
    """

    @abstractmethod
    def __call__(self, tile: Tile) -> Tensor:
        """Kernel values for a tile of inner products, in the tile's shape."""

    def coefficients(self) -> list[Any] | None:
        """a_0, a_1, ... if the kernel is the polynomial sum_k a_k <x, x'>^k, else None.

        Such kernels commute with any filter power by power: their covariances over a graph
        are sums of a few matrices that are computed once (see :mod:`nodegp.prior.tiles`).
        """
        return None

    def takes_any_lengths(self) -> bool:
        """Whether it stays positive definite with any positive numbers in the place of |x|^2:
        they are nothing but a scale of each point then."""
        return False

    def linear_form(self) -> LinearForm | None:
        """The kernel as a constant and a multiple of <x, x'>, of rows as they are or of length
        one, if that is what it is."""
        return None

    def __add__(self, other: Kernel) -> Kernel:
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum((*_parts(self, Sum), *_parts(other, Sum)))

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Product((*_parts(self, Product), *_parts(other, Product)))
        if isinstance(other, int | float):
            return Scaled(self, float(other))
        return NotImplemented

    __rmul__ = __mul__

    def learn(self, *names: str) -> Kernel:
        """A copy in which only these own hyper-parameters are learnt (none: all fixed)."""
        if any(True for _ in self.children()):
            raise TypeError(
                f"{type(self).__name__} is made of kernels: call learn on those, then combine them"
            )
        unknown = [name for name in names if name not in self.positive]
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no hyper-parameter {unknown[0]!r}; "
                f"it has {list(self.positive)}"
            )
        return replace(self, fixed=tuple(n for n in self.positive if n not in names))


def _is_one(value: Any) -> bool:
    """Whether a factor is the number one, and multiplying by it a waste."""
    return not isinstance(value, Tensor) and value == 1.0


def _parts(kernel: Kernel, kind: type[Combination]) -> tuple[Kernel, ...]:
    return kernel.terms if isinstance(kernel, kind) else (kernel,)


@dataclass(frozen=True)
class Constant(Kernel):
    """k = variance: a bias shared by all nodes."""

    positive: ClassVar = ("variance",)
    variance: float = 1.0

    def __call__(self, tile: Tile) -> Tensor:
        return self.variance * torch.ones_like(tile.inner)

    def coefficients(self) -> list[Any]:
        return [self.variance]

    def takes_any_lengths(self) -> bool:
        return True

    def linear_form(self) -> LinearForm:
        return LinearForm(self.variance, 0.0, None)


@dataclass(frozen=True)
class Linear(Kernel):
    """k = variance <x, x'>."""

    positive: ClassVar = ("variance",)
    variance: float = 1.0

    def __call__(self, tile: Tile) -> Tensor:
        return self.variance * tile.inner

    def coefficients(self) -> list[Any]:
        return [0.0, self.variance]

    def linear_form(self) -> LinearForm:
        return LinearForm(0.0, self.variance, False)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """k = (variance <x, x'> + offset)^degree; the paper's is cubic with variance 1."""

    positive: ClassVar = ("variance", "offset")
    degree: int = 3
    variance: float = 1.0
    offset: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if int(self.degree) != self.degree or self.degree < 1:
            raise ValueError(f"Polynomial: degree must be a whole number >= 1, got {self.degree}")
        object.__setattr__(self, "degree", int(self.degree))

    def __call__(self, tile: Tile) -> Tensor:
        scaled = tile.inner if _is_one(self.variance) else self.variance * tile.inner
        base = scaled + self.offset
        # Multiplying out is several times faster than torch.pow, and in place, where nobody
        # needs the steps again, by another half.
        if base.requires_grad or self.degree == 1:
            return reduce(mul, [base] * self.degree)
        power = base * base
        for _ in range(self.degree - 2):
            power.mul_(base)
        return power

    def coefficients(self) -> list[Any]:
        p = self.degree
        return [comb(p, k) * self.variance**k * self.offset ** (p - k) for k in range(p + 1)]


@dataclass(frozen=True)
class RBF(Kernel):
    """k = variance exp(-|x - x'|^2 / (2 lengthscale^2))."""

    positive: ClassVar = ("variance", "lengthscale")
    variance: float = 1.0
    lengthscale: float = 1.0

    def __call__(self, tile: Tile) -> Tensor:
        return self.variance * torch.exp(-0.5 * tile.squared_distance / self.lengthscale**2)


@dataclass(frozen=True)
class Matern(Kernel):
    """The Matern kernel with smoothness nu = 0.5, 1.5 or 2.5."""

    positive: ClassVar = ("variance", "lengthscale")
    nu: float = 1.5
    variance: float = 1.0
    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"Matern: nu must be 0.5, 1.5 or 2.5, got {self.nu}")

    def __call__(self, tile: Tile) -> Tensor:
        r = math.sqrt(2.0 * self.nu) * tile.distance / self.lengthscale
        polynomial = 1.0 if self.nu == 0.5 else 1.0 + r
        if self.nu == 2.5:
            polynomial = polynomial + r**2 / 3.0
        return self.variance * polynomial * torch.exp(-r)


@dataclass(frozen=True)
class Cosine(Kernel):
    """k = variance <x, x'> / (|x| |x'|), and zero where a point is zero."""

    positive: ClassVar = ("variance",)
    variance: float = 1.0

    def __call__(self, tile: Tile) -> Tensor:
        # Of lengths, which are fewer than pairs of them.
        scale = inverse_roots(tile.left) * inverse_roots(tile.right)
        return self.variance * (tile.inner * scale)

    def takes_any_lengths(self) -> bool:
        return True

    def linear_form(self) -> LinearForm:
        return LinearForm(0.0, self.variance, True)


@dataclass(frozen=True)
class ArcCosine(Kernel):
    """The arc-cosine kernel of order 0, 1 or 2 (Cho & Saul 2009): an infinitely wide layer.

    Points are seen through ``weight <x, x'> + bias``; order 1 is the ReLU's kernel.
    """

    positive: ClassVar = ("variance", "weight", "bias")
    order: int = 1
    variance: float = 1.0
    weight: float = 1.0
    bias: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in (0, 1, 2):
            raise ValueError(f"ArcCosine: order must be 0, 1 or 2, got {self.order}")

    def __call__(self, tile: Tile) -> Tensor:
        inner = self.weight * tile.inner + self.bias
        norms = (self.weight * tile.left + self.bias) * (self.weight * tile.right + self.bias)
        norms = norms.clamp_min(1e-300).sqrt()
        # acos has no derivative at +-1; there the kernel's own derivative is finite.
        cos = (inner / norms).clamp(-1.0 + 1e-15, 1.0 - 1e-15)
        angle, sin = torch.acos(cos), (1.0 - cos**2).sqrt()
        gap = math.pi - angle
        if self.order == 0:
            shape = gap
        elif self.order == 1:
            shape = sin + gap * cos
        else:
            shape = 3.0 * sin * cos + gap * (1.0 + 2.0 * cos**2)
        return self.variance / math.pi * norms**self.order * shape


@dataclass(frozen=True)
class Combination(Kernel):
    """Kernels that are added or multiplied."""

    terms: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if not self.terms or not all(isinstance(term, Kernel) for term in self.terms):
            raise ValueError(f"{type(self).__name__} needs kernels to combine, got {self.terms!r}")
        object.__setattr__(self, "terms", tuple(self.terms))
        super().__post_init__()

    def takes_any_lengths(self) -> bool:
        return all(term.takes_any_lengths() for term in self.terms)


@dataclass(frozen=True)
class Sum(Combination):
    """The sum of kernels."""

    def __call__(self, tile: Tile) -> Tensor:
        return reduce(torch.add, [term(tile) for term in self.terms])

    def linear_form(self) -> LinearForm | None:
        forms = [term.linear_form() for term in self.terms]
        kinds = {form.unit for form in forms if form is not None} - {None}
        if None in forms or len(kinds) > 1:
            return None
        constant, slope, _ = zip(*(form for form in forms if form is not None), strict=True)
        return LinearForm(sum(constant), sum(slope), next(iter(kinds), None))

    def coefficients(self) -> list[Any] | None:
        parts = [term.coefficients() for term in self.terms]
        if any(part is None for part in parts):
            return None
        size = max(len(part) for part in parts)  # type: ignore[arg-type]
        return [sum(part[k] for part in parts if k < len(part)) for k in range(size)]  # type: ignore[index, arg-type]


@dataclass(frozen=True)
class Product(Combination):
    """The product of kernels."""

    def __call__(self, tile: Tile) -> Tensor:
        return reduce(torch.mul, [term(tile) for term in self.terms])

    def coefficients(self) -> list[Any] | None:
        product: list[Any] = [1.0]
        for term in self.terms:
            factor = term.coefficients()
            if factor is None:
                return None
            longer: list[Any] = [0.0] * (len(product) + len(factor) - 1)
            for i, a in enumerate(product):
                for j, b in enumerate(factor):
                    longer[i + j] = longer[i + j] + a * b
            product = longer
        return product


@dataclass(frozen=True)
class Scaled(Kernel):
    """A kernel times a positive number: ``2.0 * RBF()``."""

    positive: ClassVar = ("scale",)
    kernel: Kernel
    scale: float = 1.0

    def __call__(self, tile: Tile) -> Tensor:
        return self.scale * self.kernel(tile)

    def takes_any_lengths(self) -> bool:
        return self.kernel.takes_any_lengths()

    def linear_form(self) -> LinearForm | None:
        form = self.kernel.linear_form()
        if form is None:
            return None
        return LinearForm(self.scale * form.constant, self.scale * form.slope, form.unit)

    def coefficients(self) -> list[Any] | None:
        inner = self.kernel.coefficients()
        return None if inner is None else [self.scale * a for a in inner]
