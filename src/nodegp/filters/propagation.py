"""Polynomials in the Laplacian of a graph, applied to columns: the engine of spectral filters.

A filter here is a weighted sum of fixed linear operators, the Chebyshev polynomials of the
Laplacian, each made from the two before it with one sparse product. Neither eigenvectors nor a
matrix of N x N is needed, only a few dense columns at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from nodegp.graph import Graph

# Columns at a time, and bytes of such a block: the products of a recursion run from cache then, or
# nearly. Below 8 columns all is overhead.
_COLUMNS = 64
_BLOCK = 5 << 20
_ENTRIES = 1 << 27  # entries of rows of F: with their indices 1.5 GiB
_NEGLIGIBLE = 1e-12  # of a row's largest entry
_SPARSE = 0.01  # share of entries up to which the next product is faster in sparse form

# Graphs do not change, so what follows from one alone is worked out once and dies with it.
_operators: WeakKeyDictionary[Graph, dict[Any, sp.csr_array]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Terms:
    """The operators B_j that a spectral filter is a weighted sum of.

    ``B_k = T_k(L - I)`` for k = 0..order, with L the normalised Laplacian of A, or of A + I with
    ``self_loops``. An ``averaged`` filter is ``(I + D)^-1 (D + g(L))`` (Eq. 15): then the first is
    ``(I + D)^-1 D``, and ``(I + D)^-1 T_k(L - I)`` follow. With ``hub_discount`` p all of them
    have ``(I + D)^-p`` on their right.
    """

    order: int
    self_loops: bool = False
    averaged: bool = False
    hub_discount: float = 0.0

    def __len__(self) -> int:
        return self.order + 1 + self.averaged

    def of_columns(self, graph: Graph, columns: np.ndarray) -> Iterator[np.ndarray]:
        """B_j @ columns for each j in turn, (N, C). None may be changed by the caller."""
        columns = self._discounted(graph, columns)
        terms = self._chebyshev(graph, columns)
        if not self.averaged:
            yield from terms
            return
        passed = 1.0 / (1.0 + graph.degrees)[:, None]
        yield columns * (1.0 - passed)
        for term in terms:
            yield term * passed

    def of_rows(self, graph: Graph, nodes: np.ndarray) -> Iterator[np.ndarray]:
        """Rows ``nodes`` of each B_j in turn, as columns: (N, len(nodes))."""
        ones = np.zeros((graph.n_nodes, len(nodes)))
        ones[nodes, np.arange(len(nodes))] = 1.0
        terms = self._chebyshev(graph, ones, by_rows=True)
        if not self.averaged:
            yield from (self._discounted(graph, term) for term in terms)
            return
        passed = 1.0 / (1.0 + graph.degrees[nodes])
        yield self._discounted(graph, ones * (1.0 - passed))
        for term in terms:
            yield self._discounted(graph, term * passed)

    def sum_of_columns(
        self, graph: Graph, coefficients: Sequence[float], columns: np.ndarray
    ) -> np.ndarray:
        """sum_j c_j B_j @ columns, in the precision of the columns."""
        columns = self._discounted(graph, columns)

        def add(to: np.ndarray, c: float) -> None:
            to += columns * columns.dtype.type(c)

        *others, last = coefficients[self.averaged :]
        twice = _twice_shifted(graph, self.self_loops, dtype=columns.dtype)
        total = _clenshaw(twice, others, columns * columns.dtype.type(last), None, add)
        if self.averaged:
            passed = (1.0 / (1.0 + graph.degrees)).astype(columns.dtype)[:, None]
            total *= passed
            total += columns * (columns.dtype.type(coefficients[0]) * (1 - passed))
        return total

    def sum_of_rows(
        self,
        graph: Graph,
        coefficients: Sequence[float],
        nodes: np.ndarray,
        dtype: type[np.floating] = np.float64,
    ) -> np.ndarray:
        """Rows ``nodes`` of sum_j c_j B_j, as columns: (N, len(nodes))."""
        each = np.arange(len(nodes))

        def add(to: np.ndarray, c: float | np.ndarray) -> None:
            to[nodes, each] += c

        current, previous, others = self._sparse_levels(graph, coefficients, nodes, _SPARSE, dtype)
        twice = _twice_shifted(graph, self.self_loops, transposed=True, dtype=dtype)
        total = _clenshaw(twice, others, dense(current.T), dense(previous.T), add)
        if self.averaged:
            passed = 1.0 / (1.0 + graph.degrees[nodes])
            total *= passed.astype(dtype)
            add(total, coefficients[0] * (1.0 - passed))
        return self._discounted(graph, total)

    def sparse_rows(
        self, graph: Graph, coefficients: Sequence[float], nodes: np.ndarray
    ) -> sp.csr_array:
        """Rows ``nodes`` of sum_j c_j B_j, sparse all the way: for an order of one or two."""
        total, _, _ = self._sparse_levels(graph, coefficients, nodes, 1.0, np.float64)
        if self.averaged:
            passed = 1.0 / (1.0 + graph.degrees[nodes])
            own = coefficients[0] * (1.0 - passed)
            total = sp.diags_array(passed) @ total + _indicators(graph, nodes, own)
        if self.hub_discount > 0:
            total = total @ sp.diags_array(self.discounts(graph))
        return sp.csr_array(total)

    def _sparse_levels(
        self,
        graph: Graph,
        coefficients: Sequence[float],
        nodes: np.ndarray,
        share: float,
        dtype: type[np.floating],
    ) -> tuple[sp.csr_array, sp.csr_array, list[np.floating]]:
        """The first levels of :func:`_clenshaw` for rows of the sum, for as long as no more than a
        share of the entries is there: neighbourhoods are small at first. Where it is then, where
        it was before that, and the coefficients that are left."""
        *others, last = (dtype(c) for c in coefficients[self.averaged :])
        twice = _twice_shifted(graph, self.self_loops, dtype=dtype)
        own = _indicators(graph, nodes, np.ones(len(nodes), dtype))
        current, previous = last * own, 0.0 * own
        while others and current.nnz <= share * len(nodes) * graph.n_nodes:
            c = others.pop()
            following = current @ twice
            if not others:
                following *= 0.5
            current, previous = following - previous + c * own, current
        return current, previous, others

    def discounts(self, graph: Graph) -> np.ndarray:
        """(1 + degree)^-p: what each node's features are multiplied with before they spread."""
        return (1.0 + graph.degrees) ** -self.hub_discount

    def _discounted(self, graph: Graph, columns: np.ndarray) -> np.ndarray:
        if self.hub_discount == 0:
            return columns
        return columns * self.discounts(graph).astype(columns.dtype)[:, None]

    def _chebyshev(
        self, graph: Graph, columns: np.ndarray, by_rows: bool = False
    ) -> Iterator[np.ndarray]:
        twice = _twice_shifted(graph, self.self_loops, by_rows)
        yield columns
        if self.order == 0:
            return
        previous, current = columns, twice @ columns
        current *= 0.5
        yield current
        for _ in range(self.order - 1):
            following = twice @ current
            following -= previous  # T_k+1(x) = 2 x T_k(x) - T_k-1(x)
            yield following
            previous, current = current, following


def _clenshaw(
    twice: sp.csr_array,
    others: Sequence[Any],
    current: np.ndarray,
    previous: np.ndarray | None,
    add: Callable[[np.ndarray, float], None],
) -> np.ndarray:
    """sum_k c_k T_k(L - I) @ columns by Clenshaw's recursion, from the last term to the first:
    in half the passes over memory that summing the terms takes. ``others`` are the coefficients
    of terms before the one that the recursion has come to; ``add(array, c)`` adds c times the
    columns to an array."""
    for k in reversed(range(len(others))):
        following = twice @ current
        if k == 0:
            following *= following.dtype.type(0.5)
        if previous is not None:
            following -= previous
        add(following, others[k])
        previous, current = current, following
    return current


def _indicators(graph: Graph, nodes: np.ndarray, values: np.ndarray) -> sp.csr_array:
    """Rows with one entry each, at these nodes."""
    parts = (values, nodes, np.arange(len(nodes) + 1))
    return sp.csr_array(parts, shape=(len(nodes), graph.n_nodes))


def dense(matrix: sp.csc_array, dtype: Any = None) -> np.ndarray:
    """The matrix as an array, row by row: several times as fast as scipy does it, which sorts the
    entries first."""
    result = np.zeros(matrix.shape, dtype or matrix.dtype)
    column = np.repeat(np.arange(matrix.shape[1]), np.diff(matrix.indptr))
    result[matrix.indices, column] = matrix.data
    return result


def filter_rows(
    terms: Terms, coefficients: Sequence[float], graph: Graph, nodes: np.ndarray
) -> sp.csr_array:
    """Rows ``nodes`` of F = sum_j c_j B_j, shape (len(nodes), N), without negligible entries.

    They cost ``order`` sparse products for each block of nodes, and reach ``order`` hops: on most
    graphs that is nearly everywhere.
    """
    parts, entries = [sp.csr_array((0, graph.n_nodes))], 0
    for some in blocks(len(nodes), graph.n_nodes):
        rows = terms.sum_of_rows(graph, coefficients, nodes[some]).T
        size = np.abs(rows)
        rows = np.where(size > _NEGLIGIBLE * size.max(axis=1, keepdims=True), rows, 0.0)
        parts.append(sp.csr_array(rows))
        entries += parts[-1].nnz
        if entries > _ENTRIES:
            raise ValueError(
                f"the filter's rows for {len(nodes)} of {graph.n_nodes} nodes have more than "
                f"{_ENTRIES:,} entries. Ask about fewer nodes at a time, take a smaller order, or "
                "filter the features (on='features')."
            )
    return sp.csr_array(sp.vstack(parts, format="csr"))


def filter_columns(
    terms: Terms, coefficients: Sequence[float], graph: Graph, columns: np.ndarray
) -> np.ndarray:
    """F @ columns for F = sum_j c_j B_j."""
    result = np.empty_like(columns)
    for some in blocks(columns.shape[1], graph.n_nodes):
        block = np.ascontiguousarray(columns[:, some])
        result[:, some] = terms.sum_of_columns(graph, coefficients, block)
    return result


def blocks(n_columns: int, n_nodes: int, dtype: type[np.floating] = np.float64) -> Iterator[slice]:
    """Cuts columns of N entries each into blocks of bounded size."""
    step = _BLOCK // (max(n_nodes, 1) * np.dtype(dtype).itemsize)
    step = int(np.clip(step, 8, _COLUMNS))
    for start in range(0, n_columns, step):
        yield slice(start, min(start + step, n_columns))


def _twice_shifted(
    graph: Graph, self_loops: bool, transposed: bool = False, dtype: Any = np.float64
) -> sp.csr_array:
    """2 (L - I) = -2 D^-1/2 A D^-1/2, the operator of the recursion."""
    made = _operators.setdefault(graph, {})
    transposed = transposed and graph.n_settled is not None  # else it is symmetric
    key = (self_loops, transposed, np.dtype(dtype))
    if key not in made:
        adjacency, degrees = graph.heard, graph.degrees
        # A node without edges keeps its eigenvalue zero (Chung 1997), as a loop would give it:
        # a filter then leaves its features as they are.
        loops = np.ones(graph.n_nodes) if self_loops else (degrees == 0).astype(np.float64)
        looped = sp.csr_array(adjacency + _diagonal(loops) if loops.any() else adjacency)
        root = 1.0 / np.sqrt(degrees + loops)
        scaled = looped.data * root[looped.indices] * np.repeat(-2.0 * root, np.diff(looped.indptr))
        parts = (scaled.astype(dtype, copy=False), looped.indices, looped.indptr)
        matrix = sp.csr_array(parts, shape=looped.shape)
        made[key] = sp.csr_array(matrix.T) if transposed else matrix
    return made[key]


def _diagonal(values: np.ndarray) -> sp.csr_array:
    places = np.arange(len(values) + 1)
    return sp.csr_array((values, places[:-1], places), shape=(len(values), len(values)))
