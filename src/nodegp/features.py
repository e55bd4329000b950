"""Node features as the model sees them: preprocessing with a fitted state, and rows.

A :class:`Preprocessor` is fitted once and applied to any rows, also of new nodes. All it
does is row by row: scale the columns, scale each row to length one, subtract a centre. So
nothing is ever transformed but the rows that are needed, and a sparse matrix stays sparse:
its centre is carried beside it and enters in the inner products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.linalg import index_type
from nodegp.rows import InnerProducts, Rows, row_squares, squared_lengths, width_of

__all__ = ["KINDS", "UNIT", "WORDS", "LazyRows", "Preprocessor", "kind_for"]

KINDS = ("auto", "damped", "tfidf", "root", "l2", "standardise", "raw")
WORDS = ("damped", "tfidf")  # kinds for counts of words
UNIT = (*WORDS, "root", "l2")  # kinds that bring rows to length one
_ROOTS = ("damped", "root")
_SMALL = 1 << 19  # entries up to which double precision costs nothing
_FEW = 1000  # entries
_BLOCK = 1 << 22  # entries at a time where a pass over all nodes is needed


@dataclass(frozen=True, eq=False)
class LazyRows:
    """All nodes' features, preprocessed only when rows are taken."""

    raw: Any
    preprocessor: Preprocessor
    index: np.ndarray | None = None
    in_double: bool = False  # whatever their size

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

    def take(self, index: np.ndarray) -> Rows:
        return self.preprocessor.transform(self.raw, self._at(index))

    def materialise(self) -> Rows:
        return self.take(np.arange(len(self)))

    def select(self, index: np.ndarray) -> LazyRows:
        return LazyRows(self.raw, self.preprocessor, self._at(index), self.in_double)

    def inner_with(self, other: Rows) -> InnerProducts:
        columns = other.dense(self.n_columns).T.astype(self.precision, copy=False)
        return lambda some: torch.from_numpy(self.times(columns, some))

    def squared_norms(self) -> Tensor:
        if not self.is_sparse:
            parts = [self._part(slice(a, b), slice(None)) for a, b in self._blocks()]
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
        return lambda some: torch.from_numpy(self._part(some, slice(None)))

    def sketches(self) -> None:
        return None

    def times(self, columns: np.ndarray, some: slice = slice(None)) -> np.ndarray:
        """``rows @ columns`` for all rows or a range of them, (D, C) -> (n, C), in the columns'
        precision.

        Rows of a sparse matrix are not made for it: what scales them goes into the factors.
        """
        start, stop, _ = some.indices(len(self))
        prepare = self.preprocessor
        if not self.is_sparse:
            made = np.empty((stop - start, columns.shape[1]), columns.dtype)
            for a, b in self._blocks(start, stop):
                rows = self._part(slice(a, b), slice(None)).astype(columns.dtype, copy=False)
                made[a - start : b - start] = rows @ columns
            return made
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
        # A copy: torch warns of arrays that must not be written to, as those of a sketch.
        result: np.ndarray = (matrix @ torch.from_numpy(np.array(scaled, order="C"))).numpy()
        if prepare.unit_rows:
            result /= self._lengths[start:stop, None].astype(columns.dtype)
        if prepare.centre is not None:
            result -= prepare.centre.astype(columns.dtype) @ columns
        return result

    def transposed_times(self, columns: np.ndarray) -> np.ndarray:
        """``rows.T @ columns`` over all rows, (n, C) -> (D, C), in the columns' precision."""
        dtype, prepare = columns.dtype, self.preprocessor
        if not self.is_sparse:
            total = np.zeros((self.n_columns, columns.shape[1]), dtype)
            for a, b in self._blocks():
                rows = self._part(slice(a, b), slice(None)).astype(dtype, copy=False)
                total += rows.T @ columns[a:b]
            return total
        raw = self._chosen
        parts = (self._entries(dtype), raw.indices, raw.indptr)
        weighted = columns
        if prepare.unit_rows:
            weighted = columns / self._lengths.astype(dtype)[:, None]
        # The transpose of a csr matrix is a csc matrix with the same arrays.
        result = sp.csc_array(parts, shape=raw.shape[::-1]) @ weighted  # (D, C)
        if prepare.scale is not None:
            result *= prepare.scale.astype(dtype)[:, None]
        if prepare.centre is not None:
            result -= np.outer(prepare.centre.astype(dtype), columns.sum(axis=0))
        return result

    def columns(self, some: slice) -> np.ndarray:
        """Some columns of dense features, (n, c), with nothing made of the others."""
        return self._part(slice(None), some)

    def _part(self, rows: slice, columns: slice) -> np.ndarray:
        """A range of dense rows and columns, in :attr:`precision`; not to be written to."""
        if len(self) * self.n_columns <= _BLOCK:
            return self._whole[rows, columns]
        return self._make(rows, columns)

    @cached_property
    def _whole(self) -> np.ndarray:
        return self._make(slice(None), slice(None))

    def _make(self, rows: slice, columns: slice) -> np.ndarray:
        prepare, raw = self.preprocessor, self._chosen
        # No coarser than the answer: rows that are taken are in double precision.
        kind = np.result_type(self.precision, raw.dtype, np.float32)
        part = prepare._entries(raw[rows, columns].astype(kind))
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

    def _entries(self, dtype: Any) -> np.ndarray:
        return self.preprocessor._entries(self._chosen.data.astype(dtype, copy=False))

    @cached_property
    def _stored(self) -> tuple[Tensor, Tensor, Tensor]:
        """A sparse matrix's rows, before they are scaled, as torch wants them."""
        raw = self._chosen
        kind = index_type(raw)
        ends, places = (torch.tensor(part, dtype=kind) for part in (raw.indptr, raw.indices))
        return ends, places, torch.tensor(self._entries(self.precision))

    def _blocks(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int]]:
        step = max(_BLOCK // max(self.width, 1), 1)
        stop = len(self) if stop is None else stop
        for first in range(start, stop, step):
            yield first, min(first + step, stop)

    def _at(self, index: np.ndarray) -> np.ndarray:
        return index if self.index is None else self.index[index]


@dataclass(frozen=True, eq=False)
class Preprocessor:
    """Fitted preprocessing: ``x -> unit(x * scale) - centre``, with the square root of x first for
    "damped" (the root of TF-IDF) and "root".

    ``kind`` is what was asked for or, for "auto", what was found right: it is "one-hot" for
    a graph without features, whose nodes are told apart by their position alone.
    """

    kind: str
    scale: np.ndarray | None = None
    unit_rows: bool = False
    centre: np.ndarray | None = None
    n_features: int = 0

    @classmethod
    def fit(
        cls, raw: Any, kind: str = "auto", center: bool = False, n_nodes: int = 0
    ) -> Preprocessor:
        """Learn the preprocessing of raw features (csr, array, or None for ``n_nodes`` nodes)."""
        if kind not in KINDS:
            raise ValueError(f"features must be one of {list(KINDS)}, got {kind!r}")
        if raw is None:
            return cls("one-hot", n_features=n_nodes)
        if kind == "auto":
            kind = kind_for(raw)
        n_features = raw.shape[1]
        scale, centre = None, None
        if kind in WORDS:
            scale = _idf(raw) if kind == "tfidf" else np.sqrt(_idf(raw))
        elif kind == "standardise":
            mean, deviation = _moments(raw)
            # A column that never varies says nothing. Variance 1/D, not 1, gives rows a
            # squared norm near one, as TF-IDF rows have, so that one kernel suits both.
            with np.errstate(divide="ignore"):
                scale = np.where(deviation > 0, 1.0 / (deviation * np.sqrt(n_features)), 0.0)
            centre = mean * scale
        fitted = cls(kind, scale, kind in UNIT, centre, n_features)
        if center and kind != "standardise":
            return cls(kind, scale, fitted.unit_rows, fitted._mean(raw), n_features)
        return fitted

    def rows_of(self, raw: Any, n_nodes: int) -> LazyRows:
        """The features of a graph's nodes, checked against those fitted on."""
        if self.kind == "one-hot":
            if raw is not None:
                raise ValueError(
                    f"the model was fitted on a graph without features; this one has {raw.shape[1]}"
                )
            if n_nodes < self.n_features:
                raise ValueError(
                    f"the model was fitted on a graph of {self.n_features} nodes without features, "
                    f"which it knows by position; this one has only {n_nodes}. Keep the old "
                    "nodes first and in their order, and put new ones after them."
                )
            return LazyRows(sp.eye_array(n_nodes, format="csr"), self)
        if raw is None:
            raise ValueError(
                f"the model was fitted with {self.n_features} features; this graph has none"
            )
        if raw.shape[1] != self.n_features:
            raise ValueError(
                f"this graph has {raw.shape[1]} features; the model was fitted "
                f"with {self.n_features}"
            )
        return LazyRows(raw, self)

    def transform(self, raw: Any, index: np.ndarray) -> Rows:
        """The preprocessed rows with these numbers."""
        if sp.issparse(raw):
            values = raw[index].astype(np.float64, copy=False)
            values.data = self._entries(values.data)
            if self.scale is not None:
                values.data *= self.scale[values.indices]
            if self.unit_rows:
                norms = np.sqrt(row_squares(values))
                values.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(values.indptr))
            return Rows(values, self.centre)
        dense = self._entries(raw[index].astype(np.float64))
        if self.scale is not None:
            dense *= self.scale
        if self.unit_rows:
            norms = np.linalg.norm(dense, axis=1, keepdims=True)
            dense /= np.where(norms > 0, norms, 1.0)
        if self.centre is not None:
            dense -= self.centre
        return Rows(torch.from_numpy(dense))

    def _entries(self, values: np.ndarray) -> np.ndarray:
        if self.kind not in _ROOTS:
            return values
        if values.size and values.min() < 0:
            raise ValueError(
                f"features={self.kind!r} takes square roots, and there are negative values; "
                "use 'l2' or 'standardise'"
            )
        return np.sqrt(values)

    @cached_property
    def fingerprint(self) -> bytes:
        """What equal preprocessing can be known by."""
        mark = sha256(repr((self.kind, self.unit_rows, self.n_features)).encode())
        for part in (self.scale, self.centre):
            mark.update(b"none" if part is None else part.tobytes())
        return mark.digest()

    def lengths(self, raw: Any) -> np.ndarray:
        """What each row is divided by, after its columns were scaled."""
        if not self.unit_rows:
            return np.ones(raw.shape[0])
        weights = np.ones(raw.shape[1]) if self.scale is None else self.scale**2
        squares = [np.zeros(0)]
        for start, stop in _blocks(raw):
            if not sp.issparse(raw):
                squares.append(self._entries(raw[start:stop].astype(np.float64)) ** 2 @ weights)
                continue
            first, last = raw.indptr[start], raw.indptr[stop]
            entries = raw.data[first:last].astype(np.float64, copy=False)
            parts = (entries if self.kind in _ROOTS else entries**2, raw.indices[first:last])
            offsets = raw.indptr[start : stop + 1] - first
            squared = sp.csr_array((*parts, offsets), shape=(stop - start, raw.shape[1]))
            squares.append(squared @ weights)
        lengths = np.sqrt(np.concatenate(squares))
        return np.where(lengths > 0, lengths, 1.0)

    def is_nonzero(self, raw: sp.csr_array) -> np.ndarray:
        """Which rows are not zero after their columns were scaled, (n,)."""
        entries = raw.data if self.scale is None else raw.data * self.scale[raw.indices]
        stored = sp.csr_array((entries != 0, raw.indices, raw.indptr), shape=raw.shape)
        some: np.ndarray = stored @ np.ones(raw.shape[1]) > 0
        return some

    def _mean(self, raw: Any) -> np.ndarray:
        """Of all rows, before they are centred."""
        n_rows = raw.shape[0]
        if sp.issparse(raw):
            # In double precision: in single a mean over millions of rows is off by per cents.
            entries = self._entries(raw.data.astype(np.float64))
            if self.unit_rows:
                entries /= np.repeat(self.lengths(raw), np.diff(raw.indptr))
            total = np.bincount(raw.indices, entries, raw.shape[1]) / n_rows
            return total if self.scale is None else total * self.scale
        total = np.zeros(raw.shape[1])
        for start, stop in _blocks(raw):
            total += self.transform(raw, np.arange(start, stop)).values.sum(0).numpy()
        return total / n_rows


def _blocks(raw: Any) -> Iterator[tuple[int, int]]:
    """Ranges of rows with a bounded number of entries."""
    step = max(_BLOCK // max(width_of(raw), 1), 1)
    for start in range(0, raw.shape[0], step):
        yield start, min(start + step, raw.shape[0])


def kind_for(raw: Any) -> str:
    """What suits sparse counts, unit rows for other sparse non-negative ones, else standardise."""
    values = raw.data if sp.issparse(raw) else raw
    many = 0.25 * raw.shape[0] * raw.shape[1]
    if values.size > many and np.count_nonzero(values) > many:
        return "standardise"
    if values.size and values.min() < 0:
        return "standardise"
    some, others = values[:_FEW], values[_FEW:]  # a few tell most weights from counts
    whole = all(np.array_equal(part, np.round(part)) for part in (some, others))
    return "damped" if whole else "l2"


def _idf(raw: Any) -> np.ndarray:
    """Smoothed inverse document frequencies, ln((1 + N) / (1 + df)) + 1."""
    if sp.issparse(raw):
        counted = np.bincount(raw.indices[raw.data != 0], minlength=raw.shape[1])
    else:
        counted = np.count_nonzero(raw, axis=0)
    return np.log((1.0 + raw.shape[0]) / (1.0 + counted)) + 1.0


def _moments(raw: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, without a dense or doubled copy."""
    n = raw.shape[0]
    if sp.issparse(raw):
        values, width = raw.data.astype(np.float64), raw.shape[1]
        mean = np.bincount(raw.indices, values, width) / n
        # In two passes: the difference of large squares would lose a small variance.
        square = np.bincount(raw.indices, (values - mean[raw.indices]) ** 2, width)
        empty = n - np.bincount(raw.indices, minlength=width)
        square = square + empty * mean**2
    else:
        mean = raw.mean(axis=0, dtype=np.float64)
        square = np.zeros(raw.shape[1])
        step = max(_BLOCK // max(width_of(raw), 1), 1)
        for start in range(0, n, step):
            square += ((raw[start : start + step] - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(square / n)
    deviation[deviation < 1e-9 * np.abs(mean)] = 0.0
    return mean, deviation
