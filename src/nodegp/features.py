"""Node features as the model sees them: preprocessing with a fitted state, and rows.

A :class:`Preprocessor` is fitted once and applied to any rows, also of new nodes. All it
does is row by row: scale the columns, scale each row to length one, subtract a centre. So
nothing is ever transformed but the rows that are needed, and a sparse matrix stays sparse:
its centre is carried beside it and enters in the inner products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.linalg import sparse_matmul

KINDS = ("auto", "damped", "tfidf", "root", "l2", "standardise", "raw")
WORDS = ("damped", "tfidf")  # kinds for counts of words
UNIT = (*WORDS, "root", "l2")  # kinds that bring rows to length one
_ROOTS = ("damped", "root")
_DENSE = 1 << 23  # entries of a sparse matrix that may be made dense in passing: 64 MiB
_SMALL = 1 << 20  # entries up to which double precision costs nothing
_FEW = 1000  # entries
_BLOCK = 1 << 22  # entries at a time where a pass over all nodes is needed


@dataclass(frozen=True)
class Rows:
    """Preprocessed feature rows, in memory: ``values - centre``.

    ``values`` is a scipy csr matrix, or a float64 torch tensor with no centre. A tensor may
    require gradients (inducing points do).
    """

    values: Any
    centre: np.ndarray | None = None

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.values)

    @property
    def width(self) -> int:
        """How many numbers a row takes in memory, about."""
        return _width(self.values)

    def take(self, index: np.ndarray) -> Rows:
        return Rows(self.values[index], self.centre)

    def squared_norms(self) -> Tensor:
        """|x - centre|^2 of each row."""
        if not self.is_sparse:
            return (self.values**2).sum(1)
        squares = _row_squares(self.values)
        if self.centre is not None:
            squares = squares - 2.0 * (self.values @ self.centre) + self.centre @ self.centre
        return torch.from_numpy(np.maximum(squares, 0.0))

    def combined(self, weights: sp.csr_array) -> Rows:
        """The rows ``weights @ (values - centre)``; sparse rows stay sparse."""
        if not self.is_sparse:
            return Rows(sparse_matmul(weights, self.values))
        mixed = sp.csr_array(weights @ self.values)
        if self.centre is None:
            return Rows(mixed)
        # Rows of weights that sum to one keep the centre; others are few and made dense.
        totals = np.asarray(weights.sum(axis=1)).ravel()
        if np.allclose(totals, 1.0, rtol=0, atol=1e-12):
            return Rows(mixed, self.centre)
        return Rows(torch.from_numpy(mixed.toarray() - np.outer(totals, self.centre)))

    def uncentred(self) -> Any:
        """The values in a form that scikit-learn takes: it wants 32-bit indices."""
        if not self.is_sparse:
            return self.values.numpy()
        v = self.values
        parts = (v.data, v.indices.astype(np.int32), v.indptr.astype(np.int32))
        return sp.csr_array(parts, shape=v.shape)


class RowSource(Protocol):
    """Anything that hands out preprocessed rows by their number."""

    @property
    def is_sparse(self) -> bool: ...

    @property
    def width(self) -> int: ...

    def __len__(self) -> int: ...

    def take(self, index: np.ndarray) -> Rows: ...


@dataclass(frozen=True)
class LazyRows:
    """All nodes' features, preprocessed only when rows are taken."""

    raw: Any
    preprocessor: Preprocessor
    index: np.ndarray | None = None

    def __len__(self) -> int:
        return self.raw.shape[0] if self.index is None else len(self.index)

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.raw)

    @property
    def width(self) -> int:
        return _width(self.raw)

    @property
    def precision(self) -> type[np.floating]:
        """Of sums over many rows: single if there are many entries. Features are hardly ever known
        to more, and it halves time and memory."""
        return np.float64 if np.prod(self.raw.shape) <= _SMALL else np.float32

    def take(self, index: np.ndarray) -> Rows:
        return self.preprocessor.transform(self.raw, self._at(index))

    def select(self, index: np.ndarray) -> LazyRows:
        return LazyRows(self.raw, self.preprocessor, self._at(index))

    def mixer(self, dtype: type[np.floating]) -> Callable[[np.ndarray], np.ndarray]:
        """A function ``weights -> weights.T @ rows`` over all rows, (N, C) -> (C, D), in this
        precision.

        Rows of a sparse matrix are not made for it: what scales them is taken into the weights.
        """
        prepare = self.preprocessor
        if not self.is_sparse:
            rows = self.take(np.arange(len(self))).values.numpy().astype(dtype, copy=False)
            return lambda weights: weights.T @ rows
        raw = self.raw if self.index is None else self.raw[self.index]
        lengths = prepare.lengths(raw).astype(dtype)[:, None]
        parts = (prepare._entries(raw.data.astype(dtype)), raw.indices, raw.indptr)
        columns = sp.csr_array(parts, shape=raw.shape).T
        scale, centre = (
            None if part is None else part.astype(dtype) for part in (prepare.scale, prepare.centre)
        )

        def mix(weights: np.ndarray) -> np.ndarray:
            result = columns @ (weights / lengths)  # (D, C)
            if scale is not None:
                result *= scale[:, None]
            if centre is not None:
                result -= np.outer(centre, np.ones(len(weights), dtype) @ weights)
            return result.T

        return mix

    def _at(self, index: np.ndarray) -> np.ndarray:
        return index if self.index is None else self.index[index]


def _row_squares(matrix: sp.csr_array) -> np.ndarray:
    squared = sp.csr_array((matrix.data**2, matrix.indices, matrix.indptr), shape=matrix.shape)
    return squared @ np.ones(matrix.shape[1])


def _width(matrix: Any) -> int:
    return matrix.nnz // max(matrix.shape[0], 1) if sp.issparse(matrix) else matrix.shape[1]


def inner_products(left: Rows, right: Rows) -> Tensor:
    """The Gram tile <x, x'> of two sets of rows, shape (len(left), len(right)), in float64
    unless inducing points among them are coarser."""
    if left.is_sparse and right.is_sparse:
        a, b = _same_width(left.values, right.values)
        # Sparse times dense is the faster product; the dense side must be small, though.
        small = b.shape[0] * b.shape[1] <= _DENSE
        inner = torch.from_numpy(a @ _dense_transpose(b) if small else (a @ b.T).toarray())
        if left.centre is not None:
            inner -= torch.from_numpy(b @ left.centre)
        if right.centre is not None:
            inner -= torch.from_numpy(a @ right.centre)[:, None]
        if left.centre is not None and right.centre is not None:
            inner += float(left.centre @ right.centre)
        return inner
    if left.is_sparse:
        # One-hot rows of a grown graph are wider than inducing points of the graph fitted on.
        missing = left.values.shape[1] - right.values.shape[1]
        points = torch.nn.functional.pad(right.values, (0, missing)) if missing else right.values
        inner = sparse_matmul(left.values, points.mT)
        if left.centre is not None:
            inner = inner - right.values @ torch.from_numpy(left.centre).to(right.values)
        return inner
    if right.is_sparse:
        return inner_products(right, left).mT
    if left.values is right.values:
        return _Gram.apply(left.values)
    coarser = min(left.values.dtype, right.values.dtype, key=lambda t: t.itemsize)
    return left.values.to(coarser) @ right.values.to(coarser).mT


class _Gram(torch.autograd.Function):
    """X X^T, whose gradient is one product where autograd would take it for two."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return rows @ rows.mT

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (rows,) = ctx.saved_tensors
        return (grads[0] + grads[0].mT) @ rows


def paired_cosines(left: Rows, right: Rows) -> np.ndarray:
    """The cosine of each row with the row of the same number; zero where one of them is zero."""
    if left.is_sparse:
        inner = np.asarray(left.values.multiply(right.values).sum(axis=1)).ravel()
        if left.centre is not None:
            centre = left.centre
            inner = inner - left.values @ centre - right.values @ centre + centre @ centre
    else:
        inner = (left.values * right.values).sum(1).numpy()
    squares = (left.squared_norms() * right.squared_norms()).numpy()
    return inner / np.sqrt(np.where(squares > 0, squares, np.inf))


def inner_products_stacked(rows: Rows, groups: np.ndarray) -> Tensor:
    """Gram tiles of groups of dense rows: ``groups`` (B, d) are row numbers, the answer is
    (B, d, d)."""
    n_groups, size = groups.shape
    gathered = rows.values[torch.from_numpy(groups.ravel())].view(n_groups, size, -1)
    return gathered @ gathered.mT


def inner_products_ragged(rows: Rows, sizes: np.ndarray) -> Tensor:
    """Gram tiles of consecutive groups of sparse rows, of any sizes, flattened one after the
    other: group g contributes ``sizes[g]^2`` numbers.

    One sparse product does them all: giving each group columns of its own makes it
    block-diagonal.
    """
    values, width = rows.values, rows.values.shape[1]
    group = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)  # of each row
    column = values.indices + np.repeat(group * width, np.diff(values.indptr))
    n_columns = len(sizes) * width
    if n_columns > 64 * values.nnz:  # number only the columns in use: the transpose needs all
        used, column = np.unique(column, return_inverse=True)
        n_columns = len(used)
    apart = sp.csr_array((values.data, column, values.indptr), shape=(len(group), n_columns))
    product = apart @ apart.T
    first_row = np.cumsum(sizes) - sizes
    first_pair = np.cumsum(sizes**2) - sizes**2
    row = np.repeat(np.arange(len(group)), np.diff(product.indptr))
    g = group[row]
    place = first_pair[g] + (row - first_row[g]) * sizes[g] + product.indices - first_row[g]
    inner = np.zeros(int((sizes**2).sum()))
    inner[place] = product.data
    if rows.centre is not None:
        along = values @ rows.centre
        left, right = ragged_pairs(sizes)
        inner += rows.centre @ rows.centre - along[left] - along[right]
    return torch.from_numpy(inner)


def ragged_pairs(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of both sides of every pair, in the order of :func:`inner_products_ragged`."""
    group = np.repeat(np.arange(len(sizes)), sizes**2)
    first_row, first_pair = np.cumsum(sizes) - sizes, np.cumsum(sizes**2) - sizes**2
    within = np.arange(len(group)) - first_pair[group]
    return first_row[group] + within // sizes[group], first_row[group] + within % sizes[group]


def _dense_transpose(matrix: sp.csr_array) -> np.ndarray:
    return matrix.toarray(order="F").T


def _same_width(a: sp.csr_array, b: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """One-hot rows of a grown graph are wider than those of the graph fitted on."""
    width = max(a.shape[1], b.shape[1])
    widened = []
    for m in (a, b):
        if m.shape[1] < width:
            m = sp.csr_array((m.data, m.indices, m.indptr), shape=(m.shape[0], width))
        widened.append(m)
    return widened[0], widened[1]


@dataclass(frozen=True)
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
                norms = np.sqrt(_row_squares(values))
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

    def lengths(self, raw: sp.csr_array) -> np.ndarray:
        """What each row is divided by, after its columns were scaled."""
        if not self.unit_rows:
            return np.ones(raw.shape[0])
        weights = np.ones(raw.shape[1]) if self.scale is None else self.scale**2
        squares = [np.zeros(0)]
        for start, stop in _blocks(raw):
            first, last = raw.indptr[start], raw.indptr[stop]
            entries = raw.data[first:last].astype(np.float64, copy=False)
            parts = (entries if self.kind in _ROOTS else entries**2, raw.indices[first:last])
            offsets = raw.indptr[start : stop + 1] - first
            squared = sp.csr_array((*parts, offsets), shape=(stop - start, raw.shape[1]))
            squares.append(squared @ weights)
        lengths = np.sqrt(np.concatenate(squares))
        return np.where(lengths > 0, lengths, 1.0)

    def _mean(self, raw: Any) -> np.ndarray:
        """Of all rows, before they are centred."""
        n_rows = raw.shape[0]
        if sp.issparse(raw):
            rows = LazyRows(raw, self)
            mix = rows.mixer(rows.precision)
            return mix(np.full((n_rows, 1), 1.0 / n_rows, rows.precision))[0].astype(np.float64)
        total = np.zeros(raw.shape[1])
        for start, stop in _blocks(raw):
            total += self.transform(raw, np.arange(start, stop)).values.sum(0).numpy()
        return total / n_rows


def _blocks(raw: Any) -> Iterator[tuple[int, int]]:
    """Ranges of rows with a bounded number of entries."""
    step = max(_BLOCK // max(_width(raw), 1), 1)
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
        step = max(_BLOCK // max(_width(raw), 1), 1)
        for start in range(0, n, step):
            square += ((raw[start : start + step] - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(square / n)
    deviation[deviation < 1e-9 * np.abs(mean)] = 0.0
    return mean, deviation
