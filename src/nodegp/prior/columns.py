"""Columns to carry over a graph, made a block at a time: those of the features X, or of X M."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nodegp.features import FeatureRows
from nodegp.propagation import dense
from nodegp.rows import Rows

__all__ = ["FeatureColumns", "ProductColumns"]


class FeatureColumns:
    """The columns of X, dense a block at a time."""

    def __init__(self, rows: FeatureRows, dtype: type[np.floating] | None = None):
        self._rows, self._dtype = rows, dtype or rows.precision
        self._made: sp.csc_array | None = None
        if rows.is_sparse:
            self._made = rows.take(np.arange(len(rows))).values.tocsc()

    def __len__(self) -> int:
        return self._rows.n_columns

    def block(self, columns: slice) -> np.ndarray:
        if self._made is None:
            return self._rows.columns(columns).astype(self._dtype, copy=False)
        part = dense(self._made[:, columns], self._dtype)
        centre = self._rows.preprocessor.centre
        if centre is not None:
            part -= centre[columns].astype(self._dtype)
        return part


class ProductColumns:
    """The columns of X M, with few enough columns that a block of them fits in memory."""

    def __init__(self, rows: FeatureRows, by: Rows | np.ndarray):
        matrix = by.dense(rows.n_columns).T if isinstance(by, Rows) else by
        self._rows, self._matrix = rows, matrix.astype(rows.precision, copy=False)
        # Dense features are preprocessed once for all columns, sparse ones hardly need it.
        self._made = None if rows.is_sparse else rows.times(self._matrix)

    def __len__(self) -> int:
        return self._matrix.shape[1]

    def block(self, columns: slice) -> np.ndarray:
        if self._made is not None:
            return np.ascontiguousarray(self._made[:, columns])
        return self._rows.times(self._matrix[:, columns])
