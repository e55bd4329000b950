"""The operator of a stored graph: rows of S by part, made once and read whenever they are needed.

Products are those of :class:`nodegp.operators.MemoryOperator` to the bit: self-loops are in their
place, weights come from degrees in double precision, and the same library sums each row in the
same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.budget import blocks
from nodegp.disk.work import DamagedWorkError, read_tensors, work_folder, write_tensors
from nodegp.disk.workers import SHARE_OF_COLUMNS, Threads, workers
from nodegp.linalg import one_column_product, sparse_product
from nodegp.store import StoredGraph

__all__ = ["ScaledParts", "StoredOperator"]

# Files that were found to be as they were written since a stored graph was opened.
_compared: WeakKeyDictionary[StoredGraph, set[Path]] = WeakKeyDictionary()


class ScaledParts:
    """Rows of S for each part of a stored graph, in some precision; kept in its work folder."""

    def __init__(self, store: StoredGraph, self_loops: bool, dtype: torch.dtype):
        self._store, self._self_loops, self._dtype = store, self_loops, dtype
        name = f"{'loops' if self_loops else 'plain'}-{8 * dtype.itemsize}-{store.fingerprint[:16]}"
        self._folder = store.path / "work" / f"operator-{name}"

    @property
    def n_bytes(self) -> int:
        """Of all parts, about."""
        index = 4 if self._store.n_nodes < 2**31 else 8
        return self._store.n_entries * (index + self._dtype.itemsize) + 4 * self._store.n_nodes

    def path(self, part: int) -> Path:
        return self._folder / f"{part:05d}"

    def rows(self, part: int) -> Tensor:
        """Rows of S, sparse, (rows, N). The first time that a part is read, it is compared with its
        checksum."""
        path, compared = self.path(part), _compared.setdefault(self._store, set())
        try:
            indptr, indices, values = read_tensors(path, verify=path not in compared)
        except DamagedWorkError:  # not there, or not as it was written
            indptr, indices, values = self._make(part)
            work_folder(self._store.path, self._folder.name)
            write_tensors(path, indptr, indices, values, is_to_stay=True)
        compared.add(path)
        shape = len(indptr) - 1, self._store.n_nodes
        return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False)

    def _make(self, part: int) -> tuple[Tensor, Tensor, Tensor]:
        store, rows = self._store, self._store.rows_of(part)
        edges, own = store.edges(part), np.arange(rows.start, rows.stop)
        loops = loops_of(store.degrees[rows], self._self_loops)
        if loops.any():
            places = np.arange(len(own) + 1)
            diagonal = sp.csr_array((loops, own, places), shape=edges.shape)
            edges = sp.csr_array(edges + diagonal)
            edges.sort_indices()
        # As MemoryOperator scales them, entry by entry.
        root = 1.0 / np.sqrt(store.degrees + loops_of(store.degrees, self._self_loops))
        scaled = edges.data * root[edges.indices]
        scaled *= np.repeat(root[rows], np.diff(edges.indptr))
        is_small = max(edges.nnz, store.n_nodes) < 2**31
        kind = torch.int32 if is_small else torch.int64
        return (
            torch.tensor(edges.indptr, dtype=kind),
            torch.tensor(edges.indices, dtype=kind),
            torch.tensor(scaled, dtype=self._dtype),
        )


def scipy_rows(rows: Tensor) -> sp.csr_array:
    """A sparse matrix of torch's for scipy, without a copy."""
    parts = (rows.values().numpy(), rows.col_indices().numpy(), rows.crow_indices().numpy())
    return sp.csr_array(parts, shape=tuple(rows.shape))


def loops_of(degrees: np.ndarray, self_loops: bool) -> np.ndarray:
    """A loop at every node, or at those without edges."""
    return np.ones(len(degrees)) if self_loops else (degrees == 0).astype(np.float64)


class StoredOperator:
    """S of a stored graph; see :class:`nodegp.operators.GraphOperator`."""

    is_symmetric = True

    def __init__(self, store: StoredGraph, self_loops: bool):
        self.store, self.self_loops = store, self_loops
        self.products = 0
        self.parts_read = 0

    @property
    def passes(self) -> float:
        """How often all edges have been read so far."""
        return self.parts_read / max(self.store.n_parts, 1)

    @property
    def n_nodes(self) -> int:
        return self.store.n_nodes

    @property
    def degrees(self) -> np.ndarray:
        return self.store.degrees

    @property
    def cost(self) -> int:
        loops = self.n_nodes if self.self_loops else int(np.count_nonzero(self.degrees == 0))
        return self.store.n_entries + loops

    def parts(self, dtype: torch.dtype) -> ScaledParts:
        return ScaledParts(self.store, self.self_loops, dtype)

    def count(self, n_parts: int, n_columns: int) -> None:
        """Take note of products that were made part by part."""
        self.parts_read += n_parts
        self.products += n_columns

    def matmul(
        self,
        columns: Tensor,
        times: float = 1.0,
        subtract: Tensor | None = None,
        transposed: bool = False,
    ) -> Tensor:
        parts, store = self.parts(columns.dtype), self.store
        result = columns.new_empty(columns.shape) if subtract is None else subtract

        def one(part: int) -> None:
            rows = store.rows_of(part)
            # A copy: its alignment does not depend on where the part begins.
            own = None if subtract is None else subtract[rows].clone()
            edges = parts.rows(part)
            if columns.shape[1] == 1:
                result[rows] = one_column_product(scipy_rows(edges), columns, times, own)
            else:
                result[rows] = sparse_product(edges, columns, times, own)

        threads = workers() if isinstance(workers(), Threads) else Threads()
        threads.run(one, [(part,) for part in range(store.n_parts)])
        self.count(store.n_parts, columns.shape[1])
        return result

    def row_matmul(self, rows: sp.csr_array) -> sp.csr_array:
        touched = np.unique(rows.indices)
        kind = torch.float32 if rows.dtype == np.float32 else torch.float64
        parts, owners = self.parts(kind), self.store.part_of(touched)
        pieces = [sp.csr_array((0, self.n_nodes), dtype=rows.dtype)]
        for part in np.unique(owners).tolist():
            start = self.store.boundaries[part]
            pieces.append(scipy_rows(parts.rows(part))[touched[owners == part] - start])
        self.count(len(pieces) - 1, rows.shape[0])
        reached: Any = sp.vstack(pieces, format="csr")
        return sp.csr_array(sp.csr_array(rows[:, touched]) @ reached)

    def column_blocks(self, n_columns: int) -> Iterator[slice]:
        # In double precision, with what a recursion has at a time: four arrays of these columns.
        room = SHARE_OF_COLUMNS * workers().memory
        width = max(int(room // (4 * 8 * max(self.n_nodes, 1))), 1)
        return blocks(n_columns, 1, min(width, 128))
