"""Covariances of many inputs with few, read a range at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.budget import budget
from nodegp.kernels import Kernel, LinearForm, Tile
from nodegp.linalg import sparse_matmul
from nodegp.prior.base import Cross, Factors, ScaledRows, side_by_side
from nodegp.prior.inputs import WeightedRows
from nodegp.prior.lengths import norm_ratios
from nodegp.prior.tiles import covariance, variance
from nodegp.rows import InnerProducts, Rows, RowSource


class KernelCross:
    """k(a, b) for rows a, one for each input: the kernel of inner products and lengths."""

    def __init__(self, kernel: Kernel, rows: RowSource, others: Rows):
        self._kernel, self._rows, self._others = kernel, rows, others
        self._form = kernel.linear_form()
        narrow = None if self._form is None else rows.narrow(len(others))
        self._inner: InnerProducts | None = None
        if narrow is None:
            self._inner = rows.inner_with(others)
        self._left, self._right = rows.squared_norms(), others.squared_norms()
        self._factors: Factors | None = None
        if self._form is not None and narrow is not None:
            self._factors = self._product_of(self._form, narrow)

    def __len__(self) -> int:
        return len(self._rows)

    def block(self, some: slice) -> Tensor:
        if self._inner is None:
            return _product(self._factors, some)
        inner, left, right = self._inner(some), self._left[some], self._right
        if self._form is None:
            left, right = left.to(inner.dtype), right.to(inner.dtype)
            return self._kernel(Tile(inner, left[:, None], right[None, :]))
        # The same in a third of the passes over the largest array of a prediction.
        value = inner * _scales(self._form, right).to(inner.dtype)
        value *= _scales(self._form, left).to(inner.dtype)[:, None]
        return value.add_(self._form.constant) if self._form.constant > 0 else value

    def factors(self) -> Factors | None:
        return self._factors

    def _product_of(self, form: LinearForm, narrow: Callable[[slice], Tensor]) -> Factors:
        others, constant = torch.from_numpy(self._others.dense()), form.constant**0.5
        left = ScaledRows(narrow, _scales(form, self._left), constant)
        right = ScaledRows(lambda some: others[some], _scales(form, self._right), constant)
        return Factors((left,), side_by_side((right,), slice(None)))

    def variances(self) -> Tensor:
        sketches = self._rows.sketches()
        if sketches is None:
            return self._kernel(Tile(self._left, self._left, self._left))
        inner = self._inner or self._rows.inner_with(self._others)
        ratios = norm_ratios(inner, sketches, self._left, self._others)
        return self._kernel(Tile(ratios * self._left, self._left, self._left))


def _product(factors: Factors | None, some: slice) -> Tensor:
    assert factors is not None
    left = factors.left(some)
    return left @ factors.right.to(left.dtype).mT


def _scales(form: LinearForm, squared_lengths: Tensor) -> Tensor:
    """What each row is multiplied with, so that products are all that is left of the kernel."""
    scale = torch.full_like(squared_lengths, form.slope**0.5)
    if not form.unit:
        return scale
    return (scale / squared_lengths.sqrt()).masked_fill(squared_lengths <= 0, 0.0)


class MixedCross:
    """Weighted sums of k over the rows of each set: ``W_a k(X_a, b) W_b^T``."""

    def __init__(self, kernel: Kernel, sets: WeightedRows, others: WeightedRows):
        assert sets.weights is not None
        self._kernel, self._sets, self._others = kernel, sets, others
        self._weights: sp.csr_array = sets.weights
        self._by_row: Tensor | None = None
        if len(sets.rows) * len(others) <= budget.large:
            # With every row once; mixing them range by range then needs no second such array.
            self._by_row = covariance(kernel, WeightedRows(None, sets.rows), others)

    def __len__(self) -> int:
        return len(self._sets)

    def block(self, some: slice) -> Tensor:
        if self._by_row is not None:
            return sparse_matmul(self._weights[some], self._by_row)
        index = np.arange(*some.indices(len(self)))
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
        known = [part for part in factors if part is not None]
        self._factors: Factors | None = None
        if len(known) == len(parts):
            right = torch.cat([part.right for part in known], 1)
            self._factors = Factors(sum((part.parts for part in known), ()), right)

    def __len__(self) -> int:
        return len(self._parts[0])

    def block(self, some: slice) -> Tensor:
        if self._factors is not None:
            return _product(self._factors, some)
        total, *others = (part.block(some) for part in self._parts)
        for other in others:
            total = total + other
        return total

    def factors(self) -> Factors | None:
        return self._factors

    def variances(self) -> Tensor:
        return torch.stack([part.variances() for part in self._parts]).sum(0)
