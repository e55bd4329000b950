"""Filtered features F X at some nodes, as rows that a kernel can be asked about.

Those of a few nodes are made. For many, nothing of the size of the features is: their inner
products with other rows are carried over the graph, one column for each of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nodegp.prior.domain import Domain
from nodegp.prior.kept import taken
from nodegp.prior.lengths import signs_as
from nodegp.propagation import FilterPolynomial
from nodegp.rows import InnerProducts, Rows

__all__ = ["BasisRows", "FilteredRows"]

_FEW = 64  # nodes whose rows are made, whatever is asked of them


@dataclass(frozen=True, eq=False)
class FilteredRows:
    """Rows of F X at some nodes, with lengths that are exact or, with ``sketch``, estimated."""

    domain: Domain
    polynomial: FilterPolynomial
    nodes: np.ndarray
    sketch: int = 0

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def is_sparse(self) -> bool:
        return self.domain.is_featureless and not self.polynomial.centred

    @property
    def width(self) -> int:
        return self.domain.n_columns

    def take(self, index: np.ndarray) -> Rows:
        return self.domain.filtered_rows(self.polynomial, self.nodes[index], self.sketch)

    def materialise(self) -> Rows:
        return self._made

    def inner_with(self, other: Rows) -> InnerProducts:
        domain, nodes = self.domain, self.nodes
        if self.may_be_made and domain.kept_columns(self.polynomial, other) is None:
            return self._made.inner_with(other)
        if domain.reads_whole(len(other)):
            whole = domain.whole(self.polynomial)
            kind = domain.rows.precision
            right = torch.from_numpy(other.dense().astype(kind, copy=False)).mT
            return lambda block: (
                torch.from_numpy(taken(whole, nodes[block]).astype(kind, copy=False)) @ right
            )
        columns = domain.columns(self.polynomial, other)
        return lambda block: torch.from_numpy(taken(columns, nodes[block]))

    def squared_norms(self) -> Tensor:
        if self._is_made:
            return self._made.squared_norms()
        if not self.sketch:
            return torch.from_numpy(self.domain.lengths_at(self.polynomial, self.nodes))
        sketches = self.domain.sketches_at(self.polynomial, self.sketch, self.nodes)
        return torch.from_numpy(np.einsum("ns,ns->n", sketches, sketches).astype(np.float64))

    def sketches(self) -> Callable[[slice], Tensor] | None:
        if not self.sketch:
            return None
        if self._is_made:
            return self._made.sketches()
        domain, nodes = self.domain, self.nodes
        return lambda block: torch.from_numpy(
            domain.sketches_at(self.polynomial, self.sketch, nodes[block])
        )

    @property
    def _is_made(self) -> bool:
        """Whether rows are made to see how long they are."""
        scale = self.domain.known_scale(self.polynomial, self.sketch)
        return self.may_be_made and scale is None

    def narrow(self, limit: int) -> InnerProducts | None:
        if self.may_be_made or not self.domain.reads_whole(limit):
            return None
        whole, nodes = self.domain.whole(self.polynomial), self.nodes
        return lambda block: torch.from_numpy(taken(whole, nodes[block]))

    def products(self, n_others: int) -> int:
        """Columns that the graph's operator is multiplied with for inner products with so many
        other rows and for the lengths, when nothing is kept."""
        if self.may_be_made:
            return self.polynomial.order * len(self)
        n_columns = self.domain.n_columns
        if self.domain.reads_whole(n_others):
            return self.polynomial.order * (n_columns + self.sketch)
        return self.polynomial.order * (n_others + (self.sketch or n_columns))

    @property
    def may_be_made(self) -> bool:
        """Whether these are few enough to be made whenever anything is asked of them."""
        return len(self.nodes) <= _FEW

    @cached_property
    def _made(self) -> Rows:
        return self.take(np.arange(len(self.nodes)))


@dataclass(frozen=True, eq=False)
class BasisRows:
    """Rows yet to be weighted by a filter's coefficients: for a filter that is being learnt."""

    basis: Tensor  # (terms, n, D)
    sketch: int = 0

    def __len__(self) -> int:
        return self.basis.shape[1]

    @property
    def is_sparse(self) -> bool:
        return False

    @property
    def width(self) -> int:
        return self.basis.shape[2]

    def weighted(self, coefficients: Tensor) -> Rows:
        """The rows as a filter shows them, differentiable in its hyper-parameters."""
        rows = torch.tensordot(coefficients, self.basis, 1)
        if not self.sketch:
            return Rows(rows)
        return Rows(rows, None, rows @ signs_as(rows.dtype, self.width, self.sketch))

    def take(self, index: np.ndarray) -> BasisRows:
        return BasisRows(self.basis[:, torch.from_numpy(index)], self.sketch)

    def materialise(self) -> BasisRows:
        return self

    def inner_with(self, other: Rows) -> InnerProducts:
        raise TypeError("these rows depend on a filter that is still to be learnt")

    def squared_norms(self) -> Tensor:
        raise TypeError("these rows depend on a filter that is still to be learnt")

    def narrow(self, limit: int) -> None:
        return None

    def sketches(self) -> None:
        return None
