"""Feature rows in memory, and the inner products of any two sets of them.

Rows are sparse or dense and may have a centre that is subtracted from all of them: a sparse matrix
stays sparse, and the centre enters in the inner products. How rows come out of a user's features is
in :mod:`nodegp.features`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.declared import check_shapes, require
from nodegp.identity import fingerprint
from nodegp.linalg import sparse_matmul

__all__ = [
    "InnerProducts",
    "RowSource",
    "Rows",
    "inner_products",
    "inner_products_ragged",
    "inner_products_stacked",
    "ragged_pairs",
    "row_squares",
    "squared_lengths",
    "width_of",
]

InnerProducts = Callable[[slice], Tensor]


@dataclass(frozen=True, eq=False)
class Rows:
    """Preprocessed feature rows, in memory: ``values - centre``.

    ``values`` is a scipy csr matrix, or a float64 torch tensor with no centre. A tensor may
    require gradients (inducing points do). A ``sketch``, (n, s), is there where a prior defines
    lengths by an estimate (:mod:`nodegp.prior.lengths`): its rows' lengths stand for our own.
    """

    values: Any
    centre: np.ndarray | None = None
    sketch: Tensor | None = None

    def __post_init__(self) -> None:
        check_shapes(self, values="n D", centre="D", sketch="n s")
        require("float" in str(self.values.dtype), f"rows are of type {self.values.dtype}")

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.values)

    @property
    def width(self) -> int:
        """How many numbers a row takes in memory, about."""
        return width_of(self.values)

    def take(self, index: np.ndarray) -> Rows:
        sketch = None if self.sketch is None else self.sketch[torch.from_numpy(index)]
        return Rows(self.values[index], self.centre, sketch)

    def knowing(self, gram: Tensor, fingerprints: tuple[str, ...]) -> Rows:
        """The same rows with their inner products with each other, (n, n), and what they are known
        by: both are asked for more than once."""
        rows = Rows(self.values, self.centre, self.sketch)
        vars(rows).update(_gram=gram, fingerprints=fingerprints)
        return rows

    @property
    def known_gram(self) -> Tensor | None:
        # No field: it follows from them, and no file has it.
        return vars(self).get("_gram")

    def materialise(self) -> Rows:
        return self

    def inner_with(self, other: Rows) -> InnerProducts:
        return lambda part: inner_products(Rows(self.values[part], self.centre), other)

    def squared_norms(self) -> Tensor:
        """|x - centre|^2 of each row, or what counts as that."""
        if (known := vars(self).get("_squared_norms")) is not None:
            return known
        squares = self._new_squared_norms()
        made_of = (self.values, self.centre, self.sketch)
        if not any(isinstance(part, Tensor) and part.requires_grad for part in made_of):
            vars(self)["_squared_norms"] = squares  # asked for by every kernel
        return squares

    def _new_squared_norms(self) -> Tensor:
        if self.sketch is not None:
            return self.sketch.square().sum(1)
        if not self.is_sparse:
            return (self.values**2).sum(1)
        squares = row_squares(self.values)
        if self.centre is not None:
            squares = squares - 2.0 * (self.values @ self.centre) + self.centre @ self.centre
        return torch.from_numpy(np.maximum(squares, 0.0))

    def narrow(self, limit: int) -> Callable[[slice], Tensor] | None:
        if self.is_sparse or self.values.shape[1] > limit:
            return None
        return lambda part: self.values[part]

    def sketches(self) -> Callable[[slice], Tensor] | None:
        sketch = self.sketch
        return None if sketch is None else lambda part: sketch[part]

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

    def dense(self, width: int | None = None) -> np.ndarray:
        """The rows as an array. Those of a graph without features are widened by zeros: its
        nodes may have become more since."""
        if self.is_sparse:
            values = self.values.toarray()
            if self.centre is not None:
                values -= self.centre
        else:
            values = self.values.detach().numpy()
        missing = 0 if width is None else width - values.shape[1]
        return np.pad(values, ((0, 0), (0, missing))) if missing > 0 else values

    def uncentred(self) -> Any:
        """The values in a form that scikit-learn takes: it wants 32-bit indices."""
        if not self.is_sparse:
            return self.values.numpy()
        v = self.values
        parts = (v.data, v.indices.astype(np.int32), v.indptr.astype(np.int32))
        return sp.csr_array(parts, shape=v.shape)

    @cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """What each row can be known by again: one hash for equal rows."""
        if not self.is_sparse:
            return tuple(fingerprint(row) for row in self.values.detach().numpy())
        v = self.values
        spans = zip(v.indptr[:-1], v.indptr[1:], strict=True)
        return tuple(fingerprint(v.indices[a:b], v.data[a:b]) for a, b in spans)


@runtime_checkable
class RowSource(Protocol):
    """Anything that hands out preprocessed rows by their number."""

    @property
    def is_sparse(self) -> bool: ...

    @property
    def width(self) -> int: ...

    def __len__(self) -> int: ...

    def take(self, index: np.ndarray) -> RowSource: ...

    def materialise(self) -> RowSource:
        """The rows in memory, as far as they can be."""

    def inner_with(self, other: Rows) -> InnerProducts:
        """Inner products with a few other rows, to be asked for a range of our own at a time."""

    def squared_norms(self) -> Tensor: ...

    def narrow(self, limit: int) -> Callable[[slice], Tensor] | None:
        """The rows themselves, a range at a time, if they are dense and no wider than this."""

    def sketches(self) -> Callable[[slice], Tensor] | None:
        """Sketches of the rows, a range at a time, where they define the lengths."""


def row_squares(matrix: sp.csr_array) -> np.ndarray:
    squared = sp.csr_array((matrix.data**2, matrix.indices, matrix.indptr), shape=matrix.shape)
    return squared @ np.ones(matrix.shape[1])


def squared_lengths(rows: np.ndarray) -> Tensor:
    """|x|^2 of each row of an array, summed in double precision."""
    values, lengths = torch.from_numpy(rows), torch.empty(len(rows), dtype=torch.float64)
    for block in blocks(len(rows), rows.shape[1], budget.cached):
        lengths[block] = values[block].double().square().sum(1)
    return lengths


def width_of(matrix: Any) -> int:
    return matrix.nnz // max(matrix.shape[0], 1) if sp.issparse(matrix) else matrix.shape[1]


def inner_products(left: Rows, right: Rows) -> Tensor:
    """The Gram tile <x, x'> of two sets of rows, shape (len(left), len(right)), in float64
    unless inducing points among them are coarser."""
    if left is right and left.known_gram is not None:
        return left.known_gram
    if left.is_sparse and right.is_sparse:
        a, b = _same_width(left.values, right.values)
        # Sparse times dense is the faster product; the dense side must be small, though.
        small = b.shape[0] * b.shape[1] <= budget.passing
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
    # Rows of links of a grown graph are wider than those of the graph fitted on.
    width = min(left.values.shape[1], right.values.shape[1])
    a, b = (side.values[:, :width].to(coarser) for side in (left, right))
    return a @ b.mT


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
