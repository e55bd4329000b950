"""Propagation of values along the edges of a graph.

A filter is a polynomial in a graph's operator (:class:`FilterPolynomial`). Applying it to columns
costs ``order`` sparse products, in blocks of columns; rows of the filter are the result for
indicator columns. Neither eigenvectors nor an N x N matrix are needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.budget import budget
from nodegp.operators import GraphOperator

__all__ = [
    "ArrayColumns",
    "ColumnSource",
    "Countdown",
    "FilterPolynomial",
    "basis_columns",
    "basis_rows",
    "dense",
    "filter_rows",
    "filter_rows_dense",
    "filter_rows_short",
    "propagate",
    "propagate_blocks",
    "squared_row_lengths",
    "watched",
]

_NEGLIGIBLE = 1e-12  # of a row's largest entry
_SPARSE = 0.01  # share of entries up to which the next product is faster in sparse form
_CHEAP = 5e7  # multiplications of a dense product that are done before a sparse one has begun
_PATIENCE = 2.0  # seconds between two lines of progress

_watcher: ContextVar[Callable[[str], None] | None] = ContextVar("watcher", default=None)


class ColumnSource(Protocol):
    """Columns (N, C) that are made a block at a time."""

    def __len__(self) -> int:
        """How many columns there are."""

    def block(self, columns: slice) -> np.ndarray:
        """Some of them, (N, c), to be kept unchanged."""


class ArrayColumns:
    """The columns of an array."""

    def __init__(self, values: np.ndarray):
        self._values = values

    def __len__(self) -> int:
        return self._values.shape[1]

    def block(self, columns: slice) -> np.ndarray:
        return np.ascontiguousarray(self._values[:, columns])


@dataclass(frozen=True)
class FilterPolynomial:
    """F = sum_k c_k T_k(L - I), with L = I - S the normalised Laplacian of a graph.

    S is the normalised adjacency of A, or of A + I with ``self_loops``. An ``averaged`` filter is
    ``(I + D)^-1 (D + sum_k c_k T_k(L - I))`` (Eq. 15); the weight of a node's own values comes
    before the other coefficients. With ``hub_discount`` p the filter is multiplied by
    ``(I + D)^-p`` on the right: values are divided by a power of the degree before propagation. A
    ``centred`` filter also removes their component along the leading eigenvector of S.
    """

    coefficients: tuple[float, ...]
    self_loops: bool = False
    averaged: bool = False
    hub_discount: float = 0.0
    centred: bool = False

    @property
    def order(self) -> int:
        """The number of sparse products per column: the range in hops."""
        return len(self.coefficients) - 1 - self.averaged

    def __len__(self) -> int:
        return len(self.coefficients)

    @property
    def in_adjacency(self) -> list[float]:
        """The coefficients of T_k(S): T_k is even or odd, and L - I = -S."""
        chebyshev = self.coefficients[self.averaged :]
        return [-c if k % 2 else c for k, c in enumerate(chebyshev)]

    def discounts(self, operator: GraphOperator) -> np.ndarray:
        """(1 + degree)^-p: what each node's values are multiplied with before they spread."""
        return (1.0 + operator.degrees) ** -self.hub_discount

    def prepared(self, operator: GraphOperator, columns: Tensor) -> Tensor:
        """Values as they are before they spread."""
        if self.hub_discount != 0:
            columns = columns * self._discounts(operator, columns)
        return self._without_leading(operator, columns)

    def prepared_transposed(self, operator: GraphOperator, columns: Tensor) -> Tensor:
        """The transpose of :meth:`prepared`, which comes last where rows of F are made."""
        columns = self._without_leading(operator, columns)
        return columns * self._discounts(operator, columns) if self.hub_discount != 0 else columns

    def _discounts(self, operator: GraphOperator, like: Tensor) -> Tensor:
        return torch.from_numpy(self.discounts(operator)).to(like.dtype)[:, None]

    def leading(self, operator: GraphOperator) -> np.ndarray:
        """The eigenvector of S at one, of length one, (N,): roots of degrees, which is the same
        wherever one looks. Nodes without edges are not part of it: they share nothing."""
        roots = np.sqrt(operator.degrees + self.self_loops) * (operator.degrees > 0)
        result: np.ndarray = roots / max(np.linalg.norm(roots), np.finfo(np.float64).tiny)
        return result

    def _without_leading(self, operator: GraphOperator, columns: Tensor) -> Tensor:
        if not self.centred:
            return columns
        leading = torch.from_numpy(self.leading(operator)).to(columns.dtype)
        return columns - leading[:, None] * (leading @ columns)


@contextmanager
def watched(report: Callable[[str], None]) -> Iterator[None]:
    """Report the progress of long propagation, with a line every few seconds."""
    token = _watcher.set(report)
    try:
        yield
    finally:
        _watcher.reset(token)


class Countdown:
    """Lines of progress for whoever watches, no more than one every few seconds."""

    def __init__(self, what: str, units: str, total: int):
        self._what, self._units, self._total = what, units, total
        self._started = self._said = time.monotonic()

    def __call__(self, done: int) -> None:
        now, watcher = time.monotonic(), _watcher.get()
        if watcher is None or now - self._said <= _PATIENCE or done >= self._total:
            return
        self._said = now
        left = (now - self._started) * (self._total - done) / done
        watcher(f"{self._what}: {done} of {self._total} {self._units}, about {left:.0f} s left")


# --- columns: F @ X ---------------------------------------------------------------------------


def propagate(
    operator: GraphOperator, polynomial: FilterPolynomial, columns: ColumnSource | np.ndarray
) -> np.ndarray:
    """F @ columns, (N, C), in their precision: ``order`` products with each."""
    source = ArrayColumns(columns) if isinstance(columns, np.ndarray) else columns
    result: np.ndarray | None = None
    for block, carried in propagate_blocks(operator, polynomial, source):
        if carried.shape[1] == len(source):
            return carried
        if result is None:
            result = np.empty((operator.n_nodes, len(source)), carried.dtype)
        result[:, block] = carried
    return np.empty((operator.n_nodes, 0)) if result is None else result


def propagate_blocks(
    operator: GraphOperator, polynomial: FilterPolynomial, source: ColumnSource
) -> Iterator[tuple[slice, np.ndarray]]:
    """F @ columns a block at a time: for sums over them, of which no more is needed at once."""
    progress = Countdown("propagating along the edges", "columns", len(source))
    for block in operator.column_blocks(len(source)):
        yield block, _carry(operator, polynomial, source.block(block))
        progress(block.stop)


def _carry(
    operator: GraphOperator, polynomial: FilterPolynomial, columns: np.ndarray
) -> np.ndarray:
    """F @ columns by Clenshaw's recursion, from the last term to the first: one pass over memory
    beside each product, where summing the terms takes two."""
    x = polynomial.prepared(operator, torch.from_numpy(columns))
    *others, last = polynomial.in_adjacency
    total = _clenshaw(operator, others, last * x, None, lambda to, c: to.add_(x, alpha=c))
    if polynomial.averaged:
        passed = torch.from_numpy(1.0 / (1.0 + operator.degrees)).to(x.dtype)[:, None]
        total = total * passed + x * (polynomial.coefficients[0] * (1.0 - passed))  # Eq. 15
    result: np.ndarray = total.numpy()
    return result


def _clenshaw(
    operator: GraphOperator,
    others: list[float],
    current: Tensor,
    previous: Tensor | None,
    add: Callable[[Tensor, float], object],
    transposed: bool = False,
) -> Tensor:
    """sum_k c_k T_k(S) x. ``others`` are the coefficients of terms before the one that the
    recursion has come to; ``add(array, c)`` adds c x to an array."""
    for k in reversed(range(len(others))):
        times = 1.0 if k == 0 else 2.0
        following = operator.matmul(current, times, previous, transposed)
        add(following, others[k])
        previous, current = current, following
    return current


# --- rows of F --------------------------------------------------------------------------------


def filter_rows_dense(
    operator: GraphOperator,
    polynomial: FilterPolynomial,
    nodes: np.ndarray,
    dtype: type[np.floating] = np.float64,
) -> np.ndarray:
    """Rows ``nodes`` of F as columns, (N, len(nodes)): F^T applied to indicators."""
    each = torch.arange(len(nodes))
    place = torch.from_numpy(nodes)

    def add(to: Tensor, c: float | np.ndarray) -> None:
        to[place, each] += torch.as_tensor(c, dtype=to.dtype)

    before: Tensor | None = None
    if len(nodes) == 1 or operator.cost * len(nodes) <= _CHEAP:
        *others, end = polynomial.in_adjacency
        last = torch.from_numpy(np.zeros((operator.n_nodes, len(nodes)), dtype))
        add(last, end)
    else:
        current, previous, others = _sparse_levels(operator, polynomial, nodes, _SPARSE, dtype)
        last, before = (torch.from_numpy(dense(part.T)) for part in (current, previous))
    total = _clenshaw(operator, others, last, before, add, transposed=True)
    if polynomial.averaged:
        passed = 1.0 / (1.0 + operator.degrees[nodes])
        total *= torch.from_numpy(passed).to(total.dtype)
        add(total, polynomial.coefficients[0] * (1.0 - passed))
    result: np.ndarray = polynomial.prepared_transposed(operator, total).numpy()
    return result


def filter_rows(
    operator: GraphOperator, polynomial: FilterPolynomial, nodes: np.ndarray
) -> sp.csr_array:
    """Rows ``nodes`` of F, (len(nodes), N), sparse and without negligible entries.

    They cost ``order`` products for each block of nodes, and reach ``order`` hops: on most graphs
    that is nearly everywhere.
    """
    parts, entries = [sp.csr_array((0, operator.n_nodes))], 0
    for block in operator.column_blocks(len(nodes)):
        rows = filter_rows_dense(operator, polynomial, nodes[block]).T
        size = np.abs(rows)
        rows = np.where(size > _NEGLIGIBLE * size.max(axis=1, keepdims=True), rows, 0.0)
        parts.append(sp.csr_array(rows))
        entries += parts[-1].nnz
        if entries > budget.large:
            raise ValueError(
                f"the filter's rows for {len(nodes)} of {operator.n_nodes} nodes have more than "
                f"{budget.large:,} entries. Ask about fewer nodes at a time, take a smaller order, "
                "or filter the features (on='features')."
            )
    return sp.csr_array(sp.vstack(parts, format="csr"))


def filter_rows_short(
    operator: GraphOperator, polynomial: FilterPolynomial, nodes: np.ndarray
) -> sp.csr_array:
    """Rows ``nodes`` of F, sparse all the way: for an order of one or two. A centred filter has no
    sparse rows."""
    if polynomial.centred:
        return filter_rows(operator, polynomial, nodes)
    total, _, _ = _sparse_levels(operator, polynomial, nodes, 1.0, np.float64)
    if polynomial.averaged:
        passed = 1.0 / (1.0 + operator.degrees[nodes])
        own = polynomial.coefficients[0] * (1.0 - passed)
        total = sp.diags_array(passed) @ total + _indicators(operator.n_nodes, nodes, own)
    if polynomial.hub_discount > 0:
        total = total @ sp.diags_array(polynomial.discounts(operator))
    return sp.csr_array(total)


def squared_row_lengths(operator: GraphOperator, polynomial: FilterPolynomial) -> np.ndarray:
    """|F_n|^2 of each row of F, (N,), for a filter of an order of one that discounts no hubs: its
    rows are no more than the edges."""
    everyone = np.arange(operator.n_nodes)
    rows = filter_rows_short(operator, replace(polynomial, centred=False), everyone)
    lengths: np.ndarray = np.asarray(rows.power(2).sum(axis=1)).ravel()
    if polynomial.centred:  # what is taken from a row is at right angles to what is left
        lengths = np.maximum(lengths - (rows @ polynomial.leading(operator)) ** 2, 0.0)
    return lengths


def _sparse_levels(
    operator: GraphOperator,
    polynomial: FilterPolynomial,
    nodes: np.ndarray,
    share: float,
    dtype: type[np.floating],
) -> tuple[sp.csr_array, sp.csr_array, list[float]]:
    """The first levels of :func:`_clenshaw` for rows of F, for as long as no more than a share of
    the entries is there: neighbourhoods are small at first. Where it is then, where it was before
    that, and the coefficients that are left."""
    *others, last = polynomial.in_adjacency
    own = _indicators(operator.n_nodes, nodes, np.ones(len(nodes), dtype))
    current, previous = dtype(last) * own, dtype(0.0) * own
    while others and current.nnz <= share * len(nodes) * operator.n_nodes:
        c = others.pop()
        following = operator.row_matmul(current)
        if others:
            following *= dtype(2.0)
        current, previous = following - previous + dtype(c) * own, current
    return current, previous, others


def _indicators(n_nodes: int, nodes: np.ndarray, values: np.ndarray) -> sp.csr_array:
    """Rows with one entry each, at these nodes."""
    return sp.csr_array((values, nodes, np.arange(len(nodes) + 1)), shape=(len(nodes), n_nodes))


# --- each term by itself, for filters whose coefficients are learnt -----------------------------


def basis_columns(
    operator: GraphOperator, polynomial: FilterPolynomial, columns: np.ndarray
) -> Iterator[np.ndarray]:
    """The terms of F @ columns that its coefficients weight, in turn, (N, C) each; none may be
    changed by the caller."""
    columns = polynomial.prepared(operator, torch.from_numpy(columns)).numpy()
    terms = _chebyshev(operator, polynomial.order, columns, transposed=False)
    if not polynomial.averaged:
        yield from terms
        return
    passed = 1.0 / (1.0 + operator.degrees)[:, None]
    yield columns * (1.0 - passed)
    for term in terms:
        yield term * passed


def basis_rows(
    operator: GraphOperator, polynomial: FilterPolynomial, nodes: np.ndarray
) -> Iterator[np.ndarray]:
    """Rows ``nodes`` of each term of F in turn, as columns: (N, len(nodes))."""
    ones = dense(_indicators(operator.n_nodes, nodes, np.ones(len(nodes))).T)

    def spread(columns: np.ndarray) -> np.ndarray:
        result: np.ndarray = polynomial.prepared_transposed(
            operator, torch.from_numpy(columns)
        ).numpy()
        return result

    terms = _chebyshev(operator, polynomial.order, ones, transposed=True)
    passed = 1.0 / (1.0 + operator.degrees[nodes]) if polynomial.averaged else 1.0
    if polynomial.averaged:
        yield spread(ones * (1.0 - passed))
    for term in terms:
        yield spread(term * passed)


def _chebyshev(
    operator: GraphOperator, order: int, columns: np.ndarray, transposed: bool
) -> Iterator[np.ndarray]:
    """T_k(L - I) @ columns = (-1)^k T_k(S) @ columns, k = 0..order."""
    yield columns
    previous, current = None, torch.from_numpy(columns)
    for k in range(order):
        # T_k+1(x) = 2 x T_k(x) - T_k-1(x); a copy, as the caller may still hold the one before.
        before = None if previous is None else previous.clone()
        times = -2.0 if k else -1.0
        previous, current = current, operator.matmul(current, times, before, transposed)
        yield current.numpy()


def dense(matrix: sp.csc_array, dtype: type[np.floating] | None = None) -> np.ndarray:
    """The matrix as an array, row by row: several times as fast as scipy does it, which sorts the
    entries first."""
    result = np.zeros(matrix.shape, dtype or matrix.dtype)
    column = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
    result[matrix.indices, column] = matrix.data
    return result
