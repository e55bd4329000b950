"""Where a prior is asked about: nodes, or points in feature space, as weighted sets of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from nodegp.declared import check_shapes, require
from nodegp.rows import Rows, RowSource

__all__ = ["Inputs", "SumInputs", "WeightedRows", "cut"]


@runtime_checkable
class Inputs(Protocol):
    """Places at which a prior can tell the covariance of h, in an order."""

    def __len__(self) -> int: ...

    def take(self, index: np.ndarray) -> Inputs:
        """Some of them."""

    def materialise(self) -> Inputs:
        """The same with whatever follows from a graph worked out: they need it no more."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Weighted sets of feature rows: ``h_r = sum_t weights[r, t] f(x_t)``.

    The paper's view of the model as distribution regression (Eq. 13). An inducing point z is such
    a set too, of the one row z with weight one: ``weights=None`` stands for the identity.
    """

    weights: sp.csr_array | None  # (R, T)
    rows: RowSource  # T of them

    def __post_init__(self) -> None:
        check_shapes(self, weights="R T", rows="T")

    def __len__(self) -> int:
        return len(self.rows) if self.weights is None else self.weights.shape[0]

    @classmethod
    def of(cls, inputs: Inputs) -> WeightedRows:
        """The inputs as what they must be for a prior of one function."""
        if not isinstance(inputs, WeightedRows):
            raise TypeError(f"inputs of a prior of another kind: {type(inputs).__name__}")
        return inputs

    def take(self, index: np.ndarray) -> WeightedRows:
        """Some of the sets, with only the rows they touch, in memory."""
        if self.weights is None:
            return WeightedRows(None, self.rows.take(index))
        weights, touched = cut(self.weights[index])
        return WeightedRows(weights, self.rows.take(touched))

    def materialise(self) -> WeightedRows:
        return WeightedRows(self.weights, self.rows.materialise())

    def in_memory(self) -> Rows:
        """All the rows."""
        rows = self.rows.materialise()
        if not isinstance(rows, Rows):
            raise TypeError(f"{type(rows).__name__} cannot be made without hyper-parameters")
        return rows

    def row_weights(self) -> sp.csr_array:
        """The weights with the identity written out."""
        if self.weights is None:
            return sp.eye_array(len(self.rows), format="csr")
        return self.weights


@dataclass(frozen=True, eq=False)
class SumInputs:
    """Nodes at which h is a sum of independent functions: what each of these is made of there."""

    parts: tuple[Inputs, ...]  # of the same nodes, one for each function

    def __post_init__(self) -> None:
        require(len({len(part) for part in self.parts}) == 1, "inputs of a sum differ in number")

    def __len__(self) -> int:
        return len(self.parts[0])

    @classmethod
    def of(cls, inputs: Inputs) -> SumInputs:
        if not isinstance(inputs, SumInputs):
            raise TypeError(f"inputs of a prior of another kind: {type(inputs).__name__}")
        return inputs

    def take(self, index: np.ndarray) -> SumInputs:
        return SumInputs(tuple(part.take(index) for part in self.parts))

    def materialise(self) -> SumInputs:
        return SumInputs(tuple(part.materialise() for part in self.parts))


def cut(rows: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """The same rows over only the columns in use, and which columns those are."""
    used = np.zeros(rows.shape[1], dtype=bool)
    used[rows.indices] = True
    touched = np.flatnonzero(used)
    if len(touched) == rows.shape[1]:
        return rows, touched
    place = np.cumsum(used, dtype=np.int64) - 1
    cut = sp.csr_array(
        (rows.data, place[rows.indices].astype(np.int32), rows.indptr),
        shape=(rows.shape[0], len(touched)),
    )
    return cut, touched
