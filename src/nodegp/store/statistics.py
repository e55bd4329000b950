"""Statistics of columns over rows that come a part at a time, in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.budget import blocks, budget

__all__ = ["ColumnStatistics"]


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Of each column, (D,): what its rows sum up to, and between which values they lie."""

    count: np.ndarray  # rows, int64
    sum: np.ndarray
    squares: np.ndarray  # the sum of them
    deviations: np.ndarray  # the sum of squared differences from the mean
    min: np.ndarray
    max: np.ndarray
    nnz: np.ndarray  # how many are not zero, int64

    @classmethod
    def of(cls, rows: Any) -> ColumnStatistics:
        """Of a matrix of at least one row, sparse or not."""
        if sp.issparse(rows):
            return cls._of_sparse(sp.csc_array(rows))
        size = max(rows.shape[1], 1)
        parts = [cls._of_dense(rows[block]) for block in blocks(len(rows), size, budget.block)]
        return reduce(cls.__add__, parts)

    @classmethod
    def _of_dense(cls, rows: np.ndarray) -> ColumnStatistics:
        rows = rows.astype(np.float64, copy=False)
        total = rows.sum(axis=0)
        centred = rows - total / len(rows)
        return cls(
            count=np.full(rows.shape[1], len(rows), np.int64),
            sum=total,
            squares=(rows**2).sum(axis=0),
            deviations=(centred**2).sum(axis=0),
            min=rows.min(axis=0),
            max=rows.max(axis=0),
            nnz=np.count_nonzero(rows, axis=0).astype(np.int64),
        )

    @classmethod
    def _of_sparse(cls, rows: sp.csc_array) -> ColumnStatistics:
        n_rows, width = rows.shape
        values = rows.data.astype(np.float64)
        column = np.repeat(np.arange(width), np.diff(rows.indptr))
        total = np.bincount(column, values, width)
        mean = total / n_rows
        stored = np.diff(rows.indptr)
        deviations = np.bincount(column, (values - mean[column]) ** 2, width)
        low, high = (
            np.where(stored < n_rows, 0.0, start) for start in (np.full(width, np.inf), -np.inf)
        )
        np.minimum.at(low, column, values)
        np.maximum.at(high, column, values)
        return cls(
            count=np.full(width, n_rows, np.int64),
            sum=total,
            squares=np.bincount(column, values**2, width),
            deviations=deviations + (n_rows - stored) * mean**2,
            min=low,
            max=high,
            nnz=np.bincount(column[values != 0], minlength=width).astype(np.int64),
        )

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        """Of the rows of both (Chan, Golub and LeVeque 1979: a small variance is not lost in the
        difference of large sums)."""
        n_rows = self.count + other.count
        apart = other.sum / other.count - self.sum / self.count
        between = apart**2 * (self.count * (other.count / n_rows))
        return ColumnStatistics(
            count=n_rows,
            sum=self.sum + other.sum,
            squares=self.squares + other.squares,
            deviations=self.deviations + other.deviations + between,
            min=np.minimum(self.min, other.min),
            max=np.maximum(self.max, other.max),
            nnz=self.nnz + other.nnz,
        )

    @classmethod
    def read(cls, path: Path) -> ColumnStatistics:
        with np.load(path, allow_pickle=False) as arrays:
            return cls(**dict(arrays.items()))
