"""Covariances of many inputs with few, read a range at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.budget import budget
from nodegp.kernels import Kernel, LinearForm, Tile
from nodegp.linalg import inverse_roots, sparse_matmul
from nodegp.prior.base import Cross, Factors, ScaledRows, side_by_side
from nodegp.prior.inputs import WeightedRows
from nodegp.prior.lengths import norm_ratios
from nodegp.prior.tiles import covariance, variance
from nodegp.rows import InnerProducts, Rows, RowSource

__all__ = ["KernelCross", "MixedCross", "SumCross", "scales"]


class KernelCross:
    """k(a, b) for rows a, one for each input: the kernel of inner products and lengths."""

    def __init__(self, kernel: Kernel, rows: RowSource, right_rows: Rows):
        self._kernel, self._rows, self._others = kernel, rows, right_rows
        self._form = kernel.linear_form()
        narrow = None if self._form is None else rows.narrow(len(right_rows))
        self._inner: InnerProducts | None = None
        if narrow is None:
            self._inner = rows.inner_with(right_rows)
        self._left, self._right = rows.squared_norms(), right_rows.squared_norms()
        self._factors: Factors | None = None
        if self._form is not None and narrow is not None:
            self._factors = self._product_of(self._form, narrow)

    def __len__(self) -> int:
        return len(self._rows)

    def block(self, rows: slice) -> Tensor:
        if self._inner is None:
            return _product(self._factors, rows)
        inner, left, right = self._inner(rows), self._left[rows], self._right
        if self._form is None:
            left, right = left.to(inner.dtype), right.to(inner.dtype)
            return self._kernel(Tile(inner, left[:, None], right[None, :]))
        # The same in a third of the passes over the largest array of a prediction.
        value = inner * scales(self._form, right).to(inner.dtype)
        value *= scales(self._form, left).to(inner.dtype)[:, None]
        return value.add_(self._form.constant) if self._form.constant > 0 else value

    def factors(self) -> Factors | None:
        return self._factors

    def _product_of(self, form: LinearForm, narrow: Callable[[slice], Tensor]) -> Factors:
        right_rows, constant = torch.from_numpy(self._others.dense()), form.constant**0.5
        left = ScaledRows(narrow, scales(form, self._left), constant)
        right = ScaledRows(lambda block: right_rows[block], scales(form, self._right), constant)
        return Factors((left,), side_by_side((right,), slice(None)))

    def variances(self) -> Tensor:
        sketches = self._rows.sketches()
        if sketches is None:
            return self._kernel(Tile(self._left, self._left, self._left))
        inner = self._inner or self._rows.inner_with(self._others)
        ratios = norm_ratios(inner, sketches, self._left, self._others)
        return self._kernel(Tile(ratios * self._left, self._left, self._left))


def _product(factors: Factors | None, block: slice) -> Tensor:
    assert factors is not None
    left = factors.left(block)
    return left @ factors.right.to(left.dtype).mT


def scales(form: LinearForm, squared_lengths: Tensor) -> Tensor:
    """What each row is multiplied with, so that products are all that is left of the kernel."""
    scale = torch.full_like(squared_lengths, form.slope**0.5)
    if not form.unit:
        return scale
    return scale * inverse_roots(squared_lengths)


class MixedCross:
    """Weighted sums of k over the rows of each set: ``W_a k(X_a, b) W_b^T``."""

    def __init__(self, kernel: Kernel, sets: WeightedRows, right_rows: WeightedRows):
        assert sets.weights is not None
        self._kernel, self._sets, self._others = kernel, sets, right_rows
        self._weights: sp.csr_array = sets.weights
        self._by_row: Tensor | None = None
        if len(sets.rows) * len(right_rows) <= budget.large:
            # With every row once; mixing them range by range then needs no second such array.
            self._by_row = covariance(kernel, WeightedRows(None, sets.rows), right_rows)

    def __len__(self) -> int:
        return len(self._sets)

    def block(self, rows: slice) -> Tensor:
        if self._by_row is not None:
            return sparse_matmul(self._weights[rows], self._by_row)
        index = np.arange(*rows.indices(len(self)))
        return covariance(self._kernel, self._sets.take(index), self._others)

    def factors(self) -> None:
        return None

    def variances(self) -> Tensor:
        return variance(self._kernel, self._sets)


class SumCross:
    """The sum of the covariances of independent functions."""

    def __init__(self, parts: tuple[Cross, ...]):
        self._parts = parts
        factors = [part.factors() for part in parts]
        factored = [part for part in factors if part is not None]
        self._factors: Factors | None = None
        if len(factored) == len(parts):
            right = torch.cat([part.right for part in factored], 1)
            self._factors = Factors(sum((part.parts for part in factored), ()), right)

    def __len__(self) -> int:
        return len(self._parts[0])

    def block(self, rows: slice) -> Tensor:
        if self._factors is not None:
            return _product(self._factors, rows)
        total, *right_rows = (part.block(rows) for part in self._parts)
        for other in right_rows:
            total = total + other
        return total

    def factors(self) -> Factors | None:
        return self._factors

    def variances(self) -> Tensor:
        return torch.stack([part.variances() for part in self._parts]).sum(0)
