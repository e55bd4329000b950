"""Graph operators: products of the normalised adjacency matrix with dense or sparse columns.

A filter is a polynomial in such an operator (:mod:`nodegp.propagation`), so edges stored elsewhere,
on disk or on several machines, need only another operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.budget import blocks
from nodegp.disk.graph import GraphOnDisk
from nodegp.disk.operator import StoredOperator
from nodegp.graph import Graph
from nodegp.linalg import one_column_product, sparse_product, torch_sparse

__all__ = ["GraphOperator", "MemoryOperator", "operator_of"]

# Columns at a time: as many as the caches hold. Fewer waste the reading of the edges.
_FEWEST, _MOST, _CACHED_BYTES = 16, 256, 5 << 20

# Graphs do not change, so what follows from one alone is worked out once and dies with it.
_operators: WeakKeyDictionary[Graph, dict[bool, GraphOperator]] = WeakKeyDictionary()


class GraphOperator(Protocol):
    """S = D^-1/2 A D^-1/2 with the degrees D of A; a node without edges gets a self-loop."""

    @property
    def n_nodes(self) -> int: ...

    @property
    def degrees(self) -> np.ndarray:
        """Weighted degrees of the graph, (N,), without self-loops."""

    @property
    def cost(self) -> int:
        """Multiplications of one product with one column."""

    @property
    def is_symmetric(self) -> bool: ...

    products: int  # columns that S has been multiplied with so far

    def matmul(
        self,
        columns: Tensor,
        times: float = 1.0,
        subtract: Tensor | None = None,
        transposed: bool = False,
    ) -> Tensor:
        """``times * S @ columns - subtract``, (N, C), in the precision of the columns: a step of
        a Chebyshev recursion. The memory of ``subtract`` may be reused for the result."""

    def row_matmul(self, rows: sp.csr_array) -> sp.csr_array:
        """``rows @ S`` for a few sparse rows, in their precision."""

    def column_blocks(self, n_columns: int) -> Iterator[slice]:
        """How many columns to propagate at a time."""


def operator_of(graph: Graph, self_loops: bool) -> GraphOperator:
    """The operator of a graph, or of the graph with a self-loop at every node."""
    operators = _operators.setdefault(graph, {})
    if self_loops not in operators:
        if isinstance(graph, GraphOnDisk):
            operators[self_loops] = StoredOperator(graph.store, self_loops)
        else:
            operators[self_loops] = MemoryOperator(graph, self_loops)
    return operators[self_loops]


class MemoryOperator:
    """The operator of a graph in memory, as sparse matrices of scipy and torch."""

    def __init__(self, graph: Graph, self_loops: bool):
        self.degrees = graph.degrees
        self.products = 0
        # Nodes that no other node hears of: then S is not its own transpose.
        self.is_symmetric = graph.n_fitted_nodes is None
        self._incoming = graph.incoming
        # A node without edges keeps its eigenvalue zero (Chung 1997), as a loop would give it:
        # a filter then leaves its features as they are.
        is_alone = (self.degrees == 0).astype(np.float64)
        self._loops = np.ones(graph.n_nodes) if self_loops else is_alone
        self._made: dict[type[np.floating], sp.csr_array] = {}
        self._in_torch: dict[tuple[torch.dtype, bool], Tensor] = {}

    @property
    def n_nodes(self) -> int:
        return len(self._loops)

    @property
    def cost(self) -> int:
        return int(self._incoming.nnz + np.count_nonzero(self._loops))

    def matmul(
        self,
        columns: Tensor,
        times: float = 1.0,
        subtract: Tensor | None = None,
        transposed: bool = False,
    ) -> Tensor:
        self.products += columns.shape[1]
        if columns.shape[1] == 1:
            return self._times_one(columns, times, subtract, transposed and not self.is_symmetric)
        S = self._torch_matrix(columns.dtype, transposed and not self.is_symmetric)
        return sparse_product(S, columns, times, subtract)

    def _times_one(
        self, column: Tensor, times: float, subtract: Tensor | None, transposed: bool
    ) -> Tensor:
        """One column, as one more label is."""
        S = self._matrix(np.dtype(str(column.dtype).removeprefix("torch.")).type)
        return one_column_product(S.T if transposed else S, column, times, subtract)

    def column_blocks(self, n_columns: int) -> Iterator[slice]:
        column = 4 * max(self.n_nodes, 1)  # bytes
        most = int(np.clip(_CACHED_BYTES // column, _FEWEST, _MOST))
        n_blocks = max(-(-n_columns // most), 1)
        return blocks(n_columns, 1, -(-n_columns // n_blocks))  # of one size: none for a few

    def row_matmul(self, rows: sp.csr_array) -> sp.csr_array:
        self.products += rows.shape[0]
        return rows @ self._matrix(rows.dtype.type)

    def _matrix(self, dtype: type[np.floating]) -> sp.csr_array:
        if dtype not in self._made:
            loops = self._loops
            looped = (
                sp.csr_array(self._incoming + _diagonal(loops)) if loops.any() else self._incoming
            )
            root = 1.0 / np.sqrt(self.degrees + loops)
            scaled = looped.data * root[looped.indices]
            scaled *= np.repeat(root, np.diff(looped.indptr))
            parts = (scaled.astype(dtype, copy=False), looped.indices, looped.indptr)
            self._made[dtype] = sp.csr_array(parts, shape=looped.shape)
        return self._made[dtype]

    def _torch_matrix(self, dtype: torch.dtype, transposed: bool) -> Tensor:
        key = dtype, transposed
        if key not in self._in_torch:
            matrix = self._matrix(np.float32 if dtype == torch.float32 else np.float64)
            matrix = sp.csr_array(matrix.T) if transposed else matrix
            self._in_torch[key] = torch_sparse(matrix, dtype)
        return self._in_torch[key]


def _diagonal(values: np.ndarray) -> sp.csr_array:
    places = np.arange(len(values) + 1)
    return sp.csr_array((values, places[:-1], places), shape=(len(values), len(values)))
