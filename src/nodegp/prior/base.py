"""The interface of a prior of h: covariances of h at some inputs.

Engines, posteriors, active learning and baselines use nothing else. A prior is a component, with
settings and hyper-parameters but without a graph or data; these are in its inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.prior.domain import Domain
from nodegp.prior.inputs import Inputs
from nodegp.rows import RowSource

__all__ = ["Cross", "Factors", "Prior", "ScaledRows", "side_by_side", "whole"]


class Cross(Protocol):
    """Cov(a, b) for many a and few b, to be read a range of rows at a time.

    Whatever travels along edges has done so when there is one of these.
    """

    def __len__(self) -> int: ...

    def block(self, rows: slice) -> Tensor:
        """Cov(a[some], b), (len of some, len(b))."""

    def variances(self) -> Tensor:
        """Var(h_a), (len(a),), as well as it can be known beside b."""

    def factors(self) -> Factors | None:
        """The same as a product of two, if it is one with fewer columns than there are b."""


@dataclass(frozen=True)
class ScaledRows:
    """Rows of features, each times a number of its own, beside a constant if that is not zero."""

    rows: Callable[[slice], Tensor]  # a range of them, (n, D)
    scales: Tensor  # (len,)
    constant: float


@dataclass(frozen=True)
class Factors:
    """Cov(a, b) = left right^T: a linear kernel seen from the space of its weights."""

    parts: tuple[ScaledRows, ...]  # left, (len(a), P)
    right: Tensor  # (len(b), P)

    def left(self, block: slice) -> Tensor:
        """A range of its rows."""
        return side_by_side(self.parts, block)


def side_by_side(parts: tuple[ScaledRows, ...], block: slice) -> Tensor:
    """A range of rows of all parts, (n, P), in the coarsest precision among them."""
    rows = [part.rows(block) for part in parts]
    kind = min((values.dtype for values in rows), key=lambda kind: kind.itemsize)
    widths = [
        values.shape[1] + (part.constant > 0) for part, values in zip(parts, rows, strict=True)
    ]
    joined = torch.empty(len(rows[0]), sum(widths), dtype=kind)
    for part, values, own in zip(parts, rows, joined.split(widths, 1), strict=True):
        n_columns = values.shape[1]
        torch.mul(values.to(kind), part.scales[block, None].to(kind), out=own[:, :n_columns])
        own[:, n_columns:] = part.constant
    return joined


@dataclass(frozen=True)
class Prior(Component):
    """A Gaussian process prior of h over the nodes of graphs."""

    @abstractmethod
    def at(self, domain: Domain, nodes: np.ndarray) -> Inputs:
        """Some nodes as inputs, at the current hyper-parameters. Nothing is computed yet."""

    def prepare(self, domain: Domain) -> None:
        """Work out what needs no label and is kept with the graph: edges that follow from features,
        and lengths."""

    def to_learn(self, domain: Domain, nodes: np.ndarray) -> Inputs:
        """A few nodes as inputs that remain valid while the hyper-parameters change."""
        return self.at(domain, nodes).materialise()

    def freeze(self, inputs: Inputs) -> Inputs:
        """Inputs of :meth:`to_learn` at these hyper-parameters, independent of the graph."""
        return inputs.materialise()

    def with_exact_lengths(self) -> Self:
        """The same prior without estimated lengths: for inducing points, whose variances must be
        those of the covariance itself."""
        return self

    @abstractmethod
    def cov(self, a: Inputs, b: Inputs) -> Tensor:
        """Cov(h_a, h_b), (len(a), len(b)), float64; differentiable in hyper-parameters."""

    @abstractmethod
    def var(self, a: Inputs) -> Tensor:
        """Var(h) at each input, (len(a),), float64; differentiable in hyper-parameters."""

    def cross(self, a: Inputs, b: Inputs) -> Cross:
        """Cov(h_a, h_b) for many a and few b that are in memory."""
        return WholeCross(self.cov(a, b), self.var(a))

    def cached_cov(self, a: Inputs, b: Inputs) -> Callable[[Self], Tensor]:
        """:meth:`cov` of the same inputs for many values of the hyper-parameters, with
        intermediate results cached."""
        return lambda prior: prior.cov(a, b)

    def cached_var(self, a: Inputs) -> Callable[[Self], Tensor]:
        """:meth:`var` of the same inputs for many values of the hyper-parameters."""
        return lambda prior: prior.var(a)

    def products(self, a: Inputs, n_others: int) -> int:
        """The cost without caches: the number of columns multiplied by the graph's operator for the
        variances of a and their covariances with this many others."""
        return 0

    def points(self, points: Tensor) -> Inputs:
        """f itself at points in feature space, for inducing variables (Eq. 16)."""
        raise self._without_points()

    def inducing_candidates(self, domain: Domain) -> RowSource:
        """Feature rows of all nodes, or of a sample spread over them: candidates for inducing
        points."""
        raise self._without_points()

    def _without_points(self) -> ValueError:
        return ValueError(
            f"inducing points are points of one function, and {type(self).__name__} has none or "
            "several; use inducing='labelled'"
        )


@dataclass(frozen=True)
class WholeCross:
    """A covariance that is there as a whole."""

    values: Tensor
    var: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def variances(self) -> Tensor:
        return self.var

    def block(self, rows: slice) -> Tensor:
        return self.values[rows]

    def factors(self) -> None:
        return None


@torch.no_grad()
def whole(cross: Cross) -> Tensor:
    """All of a cross-covariance, float64."""
    return cross.block(slice(0, len(cross))).double()
