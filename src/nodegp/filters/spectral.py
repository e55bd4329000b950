"""Spectral filters F = g(L): the response g says what becomes of each frequency of the graph.

L is the normalised Laplacian, with eigenvalues in [0, 2]: small ones belong to what varies little
along edges. g is expanded in Chebyshev polynomials, so that F X costs a few sparse products.
The responses themselves are in :mod:`nodegp.filters.responses`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.filters.base import Filter
from nodegp.graph import Graph
from nodegp.operators import operator_of
from nodegp.propagation import FilterPolynomial, filter_rows

__all__ = ["Spectral", "check_whole", "expand"]

WAYS = ("features", "function")


@dataclass(frozen=True)
class Spectral(Filter):
    """F = g(L) for a response g, by a Chebyshev expansion.

    Parameters
    ----------
    order : int
        Degree of the expansion: its range in hops, and the number of sparse products.
    on : "features" or "function"
        What is filtered. "features" is the kernel k(F x, F x'): features are filtered once, and
        after that the cost is that of an ordinary Gaussian process, whatever the range. "function"
        is h = F f, as in the paper: averages of f over all nodes in range. It distinguishes
        neighbourhoods with the same mean but different members, but costs a kernel value for each
        pair of nodes in range, so it is for short ranges and small graphs. With a linear kernel
        both are the same.
    self_loops : bool
        Use the Laplacian of A + I instead of A, as graph convolutions do.
    averaged : bool
        Eq. 15 of the paper with g(L) instead of I - L: F = (I + D)^-1 (D + g(L)). The weight of a
        node's own features grows with its number of neighbours. In the paper L is the unnormalised
        Laplacian D - A, with eigenvalues up to twice the largest degree; the responses here are
        for the normalised one (Smola & Kondor 2003).
    hub_discount : float
        Features are divided by this power of 1 + degree before propagation, F (I + D)^-p, so that
        high-degree nodes are down-weighted; with 0.5 a neighbour's weight is the inverse of its
        degree.
    centred : bool
        Before propagation, remove the component along the leading eigenvector of the graph. On a
        graph without features a long-range filter would otherwise reflect little but a node's
        degree. (Features are already centred by their mean.)

    Notes
    -----
    A node without edges has eigenvalue zero: its features are unchanged.
    """

    order: int = field(default=10, kw_only=True)
    on: str = field(default="features", kw_only=True)
    self_loops: bool = field(default=False, kw_only=True)
    averaged: bool = field(default=False, kw_only=True)
    hub_discount: float = field(default=0.0, kw_only=True)
    centred: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "order", 0)
        if not (isinstance(self.hub_discount, Real) and 0 <= self.hub_discount < math.inf):
            raise ValueError(
                f"{type(self).__name__}: hub_discount must be a number of at least 0, "
                f"got {self.hub_discount!r}"
            )
        if self.on not in WAYS:
            raise ValueError(f"{type(self).__name__}: on must be one of {WAYS}, got {self.on!r}")

    @abstractmethod
    def response(self, eigenvalue: Tensor) -> Tensor:
        """g at eigenvalues in [0, 2], differentiable in the hyper-parameters."""

    def coefficients(self) -> Tensor:
        """The weights c of the filter's terms, float64, differentiable in the
        hyper-parameters: those of the Chebyshev polynomials T_0 .. T_order, and before them a
        one for a node's own features if ``averaged``."""
        # More nodes than the order asks for: what is cut off then hardly disturbs the rest.
        chebyshev = expand(self.response(_chebyshev_nodes(4 * self.order + 32)), self.order)
        if not self.averaged:
            return chebyshev
        return torch.cat([torch.ones(1, dtype=torch.float64), chebyshev])

    def polynomial(self) -> FilterPolynomial:
        """This filter at the present values of its hyper-parameters."""
        if any(isinstance(value, Tensor) for value in vars(self).values()):  # they may yet move
            return self._expanded()
        return self._polynomial

    @cached_property
    def _polynomial(self) -> FilterPolynomial:
        try:
            return _polynomial_of(self)
        except TypeError:  # a filter with something in it that has no hash
            return self._expanded()

    def _expanded(self) -> FilterPolynomial:
        numbers = tuple(self.coefficients().detach().tolist())
        return FilterPolynomial(
            numbers, self.self_loops, self.averaged, float(self.hub_discount), self.centred
        )

    def weights(self, graph: Graph, nodes: np.ndarray) -> sp.csr_array:
        return filter_rows(operator_of(graph, self.self_loops), self.polynomial(), nodes)


@lru_cache(maxsize=256)
def _polynomial_of(filter: Spectral) -> FilterPolynomial:
    """Kept, as every fit makes the default's filters anew."""
    return filter._expanded()


def _chebyshev_nodes(n: int) -> Tensor:
    """The zeros of T_n on [0, 2], falling."""
    return 1.0 + torch.cos((torch.arange(n, dtype=torch.float64) + 0.5) * (math.pi / n))


def expand(values: Tensor, order: int) -> Tensor:
    """Chebyshev coefficients up to ``order`` of a function known at its Chebyshev nodes."""
    n = len(values)
    angle = (torch.arange(n, dtype=torch.float64) + 0.5) * (math.pi / n)
    degree = torch.arange(order + 1, dtype=torch.float64)
    sums = torch.cos(torch.outer(degree, angle)) @ values
    return sums * torch.where(degree == 0, 1.0, 2.0).double() / n


def check_whole(component: Component, name: str, least: int) -> None:
    value = getattr(component, name)
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(
            f"{type(component).__name__}: {name} must be a whole number of at least {least}, "
            f"got {value!r}"
        )
    object.__setattr__(component, name, int(value))
