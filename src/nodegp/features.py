"""All nodes' features as rows that are preprocessed only when they are needed.

Products with columns need no rows at all: what scales them goes into the factors, and the centre of
a sparse matrix enters in the products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.linalg import index_type, sparse_product
from nodegp.preprocessing import Preprocessor
from nodegp.rows import InnerProducts, Rows, squared_lengths, width_of

__all__ = ["FeatureRows"]

_SMALL = 1 << 19  # entries up to which double precision costs nothing


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """All nodes' features, preprocessed only when rows are taken."""

    raw: Any
    preprocessor: Preprocessor
    index: np.ndarray | None = None
    in_double: bool = False  # whatever their size

    @classmethod
    def of(cls, preprocessor: Preprocessor, raw: Any, n_nodes: int) -> FeatureRows:
        """The features of a graph's nodes, checked against those fitted on."""
        n_features = preprocessor.n_features
        if preprocessor.kind == "one-hot":
            if raw is not None:
                raise ValueError(
                    f"the model was fitted on a graph without features; this one has {raw.shape[1]}"
                )
            if n_nodes < n_features:
                raise ValueError(
                    f"the model was fitted on a graph of {n_features} nodes without features, "
                    f"which it knows by position; this one has only {n_nodes}. Keep the old "
                    "nodes first and in their order, and put new ones after them."
                )
            return cls(sp.eye_array(n_nodes, format="csr"), preprocessor)
        if raw is None:
            raise ValueError(
                f"the model was fitted with {n_features} features; this graph has none"
            )
        if raw.shape[1] != n_features:
            raise ValueError(
                f"this graph has {raw.shape[1]} features; the model was fitted with {n_features}"
            )
        return cls(raw, preprocessor)

    def __len__(self) -> int:
        return self.raw.shape[0] if self.index is None else len(self.index)

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.raw)

    @property
    def width(self) -> int:
        return width_of(self.raw)

    @property
    def n_columns(self) -> int:
        return self.raw.shape[1]

    @property
    def precision(self) -> type[np.floating]:
        """Of sums over many rows: single if there are many entries. Features are hardly ever known
        to more, and it halves time and memory."""
        is_small = np.prod(self.raw.shape) <= _SMALL
        return np.float64 if is_small or self.in_double else np.float32

    def prepare(self) -> None:
        """What products with columns take, ahead of the first of them."""
        if self.is_sparse:
            _ = self._stored, self._stored_transposed

    def take(self, index: np.ndarray) -> Rows:
        return self.preprocessor.transform(self.raw, self._at(index))

    def materialise(self) -> Rows:
        return self.take(np.arange(len(self)))

    def select(self, index: np.ndarray) -> FeatureRows:
        if np.array_equal(index, np.arange(len(self))):
            return self  # with what has been made of it
        return FeatureRows(self.raw, self.preprocessor, self._at(index), self.in_double)

    def inner_with(self, other: Rows) -> InnerProducts:
        columns = other.dense(self.n_columns).T.astype(self.precision, copy=False)
        return lambda block: torch.from_numpy(self.times(columns, block))

    def squared_norms(self) -> Tensor:
        if not self.is_sparse:
            rows = blocks(len(self), self.width, budget.block)
            parts = [self._part(block, slice(None)) for block in rows]
            return torch.cat([torch.zeros(0).double(), *map(squared_lengths, parts)])
        if not self.preprocessor.unit_rows:
            return self.materialise().squared_norms()
        # |u - c|^2 = |u|^2 - 2 <u - c, c> - |c|^2 for rows u of length one, or zero.
        centre = self.preprocessor.centre
        result = self.preprocessor.is_nonzero(self._chosen).astype(np.float64)
        if centre is not None:
            result -= 2.0 * self.times(centre[:, None])[:, 0] + centre @ centre
        return torch.from_numpy(np.maximum(result, 0.0))

    def narrow(self, limit: int) -> Callable[[slice], Tensor] | None:
        if self.is_sparse or self.n_columns > limit:
            return None
        return lambda block: torch.from_numpy(self._part(block, slice(None)))

    def sketches(self) -> None:
        return None

    def times(self, columns: np.ndarray, within: slice = slice(None)) -> np.ndarray:
        """``rows @ columns`` for all rows or a range of them, (D, C) -> (n, C), in the columns'
        precision.

        Rows of a sparse matrix are not made for it: what scales them goes into the factors.
        """
        start, stop, _ = within.indices(len(self))
        prepare = self.preprocessor
        if not self.is_sparse:
            product = np.empty((stop - start, columns.shape[1]), columns.dtype)
            # A copy: torch warns of arrays that must not be written to, as those of a sketch.
            right = torch.from_numpy(np.array(columns))
            for block in blocks(stop - start, self.width, budget.block):
                part = slice(start + block.start, start + block.stop)
                rows = self._part(part, slice(None)).astype(columns.dtype, copy=False)
                product[block] = (torch.from_numpy(rows) @ right).numpy()
            return product
        scaled = columns
        if prepare.scale is not None:
            scaled = columns * prepare.scale.astype(columns.dtype)[:, None]
        ends, places, entries = self._stored
        first, last = int(ends[start]), int(ends[stop])
        matrix = torch.sparse_csr_tensor(
            ends[start : stop + 1] - first,
            places[first:last],
            entries[first:last].to(torch.from_numpy(np.empty(0, columns.dtype)).dtype),
            (stop - start, self.n_columns),
            check_invariants=False,
        )
        made = sparse_product(matrix, torch.from_numpy(np.array(scaled, order="C")))
        if prepare.centre is not None:
            made -= torch.from_numpy(prepare.centre.astype(columns.dtype) @ columns)
        result: np.ndarray = made.numpy()
        return result

    def transposed_times(self, columns: np.ndarray) -> np.ndarray:
        """``rows.T @ columns`` over all rows, (n, C) -> (D, C), in the columns' precision."""
        dtype, prepare = columns.dtype, self.preprocessor
        if not self.is_sparse:
            total = np.zeros((self.n_columns, columns.shape[1]), dtype)
            for block in blocks(len(self), self.width, budget.block):
                rows = self._part(block, slice(None)).astype(dtype, copy=False)
                total += (torch.from_numpy(rows).mT @ torch.from_numpy(columns[block])).numpy()
            return total
        ends, places, entries = self._stored_transposed
        right = torch.from_numpy(columns)
        matrix = torch.sparse_csr_tensor(
            *(ends, places, entries.to(right.dtype), (self.n_columns, len(self))),
            check_invariants=False,
        )
        result: np.ndarray = sparse_product(matrix, right).numpy()  # (D, C)
        if prepare.scale is not None:
            result *= prepare.scale.astype(dtype)[:, None]
        if prepare.centre is not None:
            result -= np.outer(prepare.centre.astype(dtype), right.sum(0).numpy())
        return result

    def columns(self, block: slice) -> np.ndarray:
        """Some columns of dense features, (n, c), with nothing made of the others."""
        return self._part(slice(None), block)

    def _part(self, rows: slice, columns: slice) -> np.ndarray:
        """A range of dense rows and columns, in :attr:`precision`; not to be written to."""
        if len(self) * self.n_columns <= budget.block:
            return self._whole[rows, columns]
        return self._make(rows, columns)

    @cached_property
    def _whole(self) -> np.ndarray:
        return self._make(slice(None), slice(None))

    def _make(self, rows: slice, columns: slice) -> np.ndarray:
        prepare, raw = self.preprocessor, self._chosen
        # No coarser than the answer: rows that are taken are in double precision.
        kind = np.result_type(self.precision, raw.dtype, np.float32)
        part = prepare.entries(raw[rows, columns].astype(kind))
        if prepare.scale is not None and prepare.centre is not None and not prepare.unit_rows:
            # The mean first: a large one would take the digits of what is left of it.
            scale = prepare.scale[columns]
            mean = prepare.centre[columns] / np.where(scale > 0, scale, 1.0)
            part -= mean.astype(kind)
            part *= scale.astype(kind)
            return part.astype(self.precision, copy=False)
        if prepare.scale is not None:
            part *= prepare.scale[columns].astype(kind)
        if prepare.unit_rows:
            part /= self._lengths[rows, None].astype(kind)
        if prepare.centre is not None:
            part -= prepare.centre[columns].astype(kind)
        return part.astype(self.precision, copy=False)

    @cached_property
    def _chosen(self) -> sp.csr_array:
        return self.raw if self.index is None else self.raw[self.index]

    @cached_property
    def _lengths(self) -> np.ndarray:
        return self.preprocessor.lengths(self._chosen)

    @property
    def _entries(self) -> np.ndarray:
        """Those of a sparse matrix, in rows of length one where they are to be, before columns are
        scaled."""
        raw = self._chosen
        entries = self.preprocessor.entries(raw.data.astype(np.float64))
        if self.preprocessor.unit_rows:
            entries /= np.repeat(self._lengths, np.diff(raw.indptr))
        return entries.astype(self.precision, copy=False)

    @cached_property
    def _stored(self) -> tuple[Tensor, Tensor, Tensor]:
        """A sparse matrix's rows as torch wants them."""
        return _for_torch(self._chosen, self._entries)

    @cached_property
    def _stored_transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same of its columns."""
        raw = self._chosen
        # The transpose of a csr matrix is a csc matrix with the same arrays.
        parts = (self._entries, raw.indices, raw.indptr)
        columns = sp.csc_array(parts, shape=raw.shape[::-1]).tocsr()
        return _for_torch(columns, columns.data)

    def _at(self, index: np.ndarray) -> np.ndarray:
        return index if self.index is None else self.index[index]


def _for_torch(matrix: sp.csr_array, entries: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    kind = index_type(matrix)
    ends, places = (torch.tensor(part, dtype=kind) for part in (matrix.indptr, matrix.indices))
    return ends, places, torch.tensor(entries)
