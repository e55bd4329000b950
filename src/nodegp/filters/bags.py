"""Bags: what downstream code sees of a graph, weighted sets of feature rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nodegp.features import Rows, RowSource


@dataclass(frozen=True)
class Bags:
    """Weighted bags of feature rows: ``h_r = sum_t weights[r, t] f(x_t)``.

    The paper's view of the model as distribution regression (Eq. 13). An inducing point z is
    a bag too, of the one row z with weight one: ``weights=None`` stands for the identity.
    """

    weights: sp.csr_array | None  # (R, T)
    rows: RowSource  # T of them

    def __len__(self) -> int:
        return len(self.rows) if self.weights is None else self.weights.shape[0]

    @classmethod
    def points(cls, points: torch.Tensor) -> Bags:
        return cls(None, Rows(points))

    def take(self, index: np.ndarray) -> Bags:
        """Some of the bags, with only the rows they touch, in memory."""
        if self.weights is None:
            return Bags(None, self.rows.take(index))
        weights, touched = cut(self.weights[index])
        return Bags(weights, self.rows.take(touched))

    def in_memory(self) -> Bags:
        if isinstance(self.rows, Rows):
            return self
        return Bags(self.weights, self.rows.take(np.arange(len(self.rows))))

    def row_weights(self) -> sp.csr_array:
        """The weights with the identity written out."""
        if self.weights is None:
            return sp.eye_array(len(self.rows), format="csr")
        return self.weights


@dataclass(frozen=True, eq=False)
class SeveralBags:
    """Nodes at which h is a sum of independent functions: what each of these is made of there."""

    parts: tuple[Any, ...]  # bags of the same nodes, one for each function

    def __len__(self) -> int:
        return len(self.parts[0])

    def take(self, index: np.ndarray) -> SeveralBags:
        return SeveralBags(tuple(part.take(index) for part in self.parts))

    def in_memory(self) -> SeveralBags:
        return SeveralBags(tuple(part.in_memory() for part in self.parts))


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
