"""The Gaussian field that sopt, vopt and eer take the labels for.

Its precision is L, the graph's Laplacian. Given labels, the others have the covariance
``C = L_uu^-1`` over the unlabelled nodes u. Each connected component is a field of its own; one
without a label has a level that nothing determines, which is given the variance of one average
edge (and C then stands for the pseudo-inverse of L plus that variance).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components

from nodegp.active.large import LargeField
from nodegp.graph import Graph

# The pseudo-inverse of a component of n nodes has n^2 entries and takes n^3 operations. Above
# this many, columns of C are solved for one by one, and its diagonal is estimated.
MAX_COMPONENT = 5_000


class Part(Protocol):
    """The field on one connected component of n nodes, given the labels so far."""

    nodes: np.ndarray
    labelled: list[int]  # places within the component

    def condition(self, places: Sequence[int]) -> None:
        """Take these as labelled too."""

    def forget(self) -> None:
        """Back to no labels."""

    def sums(self) -> np.ndarray:
        """Row sums of C, (n,)."""

    def variances(self) -> np.ndarray:
        """Diagonal of C, (n,)."""

    def squares(self) -> np.ndarray:
        """Diagonal of C^2, (n,)."""

    def columns(self, places: np.ndarray) -> np.ndarray:
        """Columns of C, one per row, (places, n); once there is a label."""


class GaussianField:
    """The field on a whole graph: one part per component."""

    def __init__(self, graph: Graph):
        self.graph = graph
        n_components, self._part_of = connected_components(graph.adjacency, directed=False)
        weights = graph.adjacency.data
        level_variance = 1.0 / weights.mean() if len(weights) else 1.0
        order = np.argsort(self._part_of, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(self._part_of))[:-1])
        assert len(members) == n_components
        self._place = np.empty(graph.n_nodes, dtype=np.int64)
        self.parts: list[Part] = []
        for nodes in members:
            self._place[nodes] = np.arange(len(nodes))
            adjacency = graph.adjacency[nodes][:, nodes]
            if len(nodes) <= MAX_COMPONENT:
                self.parts.append(ExactField(nodes, adjacency, level_variance))
            else:
                self.parts.append(LargeField(nodes, adjacency, level_variance))

    def follow(self, labelled: np.ndarray) -> None:
        """Bring the field to these labels, a mask."""
        seen = np.zeros(len(labelled), dtype=bool)
        for part in self.parts:
            seen[part.nodes[part.labelled]] = True
        if (seen & ~labelled).any():  # another run, or a batch that was not answered
            for part in self.parts:
                part.forget()
            seen[:] = False
        new = np.flatnonzero(labelled & ~seen)
        for number in np.unique(self._part_of[new]):
            self.parts[number].condition(self._place[new[self._part_of[new] == number]].tolist())

    def condition(self, node: int) -> Part:
        """Take a node as labelled; the part that changed."""
        part = self.parts[self._part_of[node]]
        part.condition([int(self._place[node])])
        return part


class ExactField:
    """A component small enough for the pseudo-inverse P of its Laplacian.

    Conditioning is a Cholesky factorisation whose pivots are the labels: each label adds one
    column ``v = C e_k / sqrt(C_kk)``, and the covariance left is the start's minus all v v^T.
    C itself is never formed, so a label costs O(n) for each label so far.
    """

    def __init__(self, nodes: np.ndarray, adjacency: sp.csr_array, level_variance: float):
        self.nodes = nodes
        self._pinv = _pseudo_inverse(adjacency)
        self._level_variance = level_variance
        self.forget()

    def forget(self) -> None:
        self.labelled: list[int] = []
        self._v = np.empty((0, len(self.nodes)))
        self._squares: np.ndarray | None = None  # after the first _n_squared of the v
        self._n_squared = 0

    def condition(self, places: Sequence[int]) -> None:
        for k in places:
            self._label(k)

    def _label(self, k: int) -> None:
        if not self.labelled:
            # C = L_uu^-1 with u all but k, from the pseudo-inverse P: rows and columns of it
            # are P_ij - P_ik - P_kj + P_kk, and the rows of P sum to zero.
            self._root, n = k, len(self.nodes)
            at_root = self._pinv[k]
            self._variances = self._pinv.diagonal() - 2.0 * at_root + at_root[k]
            self._sums = n * (at_root[k] - at_root)
            self._squares = None
        else:
            v = self.columns(np.array([k]))[0] / np.sqrt(self._variances[k])
            self._sums -= v * v.sum()
            self._variances -= v * v
            self._v = np.vstack([self._v, v])
        self.labelled.append(k)

    def sums(self) -> np.ndarray:
        if not self.labelled:
            return np.full(len(self.nodes), len(self.nodes) * self._level_variance)
        return self._sums

    def variances(self) -> np.ndarray:
        if not self.labelled:
            return self._pinv.diagonal() + self._level_variance
        return self._variances

    def squares(self) -> np.ndarray:
        if not self.labelled:
            return _row_squares(self._pinv) + len(self.nodes) * self._level_variance**2
        if self._squares is None:
            # The start is C_ij = P_ij + b_i + a_j, and the rows of P sum to zero.
            a, b, n = self._shift, -self._pinv[self._root], len(self.nodes)
            self._squares = _row_squares(self._pinv) + 2.0 * (self._pinv @ a + b * a.sum())
            self._squares += n * b * b + a @ a
        for v in self._v[self._n_squared :]:  # diag (C - v v^T)^2
            before = self._v[: self._n_squared]
            product = self._start_times(v) - (before @ v) @ before
            self._squares += v * v * (v @ v) - 2.0 * v * product
            self._n_squared += 1
        return self._squares

    def columns(self, places: np.ndarray) -> np.ndarray:
        at_root = self._pinv[self._root]
        start = self._pinv[places] - at_root - at_root[places, None] + at_root[self._root]
        return start - self._v[:, places].T @ self._v

    @property
    def _shift(self) -> np.ndarray:
        at_root = self._pinv[self._root]
        return at_root[self._root] - at_root

    def _start_times(self, v: np.ndarray) -> np.ndarray:
        return self._pinv @ v - self._pinv[self._root] * v.sum() + self._shift @ v


def _row_squares(matrix: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", matrix, matrix)


def _pseudo_inverse(adjacency: sp.csr_array) -> np.ndarray:
    """L^+ of a connected component. L + s J/n, with J all ones, is positive definite and has
    the inverse L^+ + J / (s n); s near L's own size keeps it well-conditioned."""
    n = adjacency.shape[0]
    if n == 1:
        return np.zeros((1, 1))
    degrees = adjacency.sum(axis=1)
    laplacian = (sp.diags_array(degrees) - adjacency).toarray()
    scale = degrees.mean()
    laplacian += scale / n
    inverse = cho_solve(
        cho_factor(laplacian, lower=True, overwrite_a=True, check_finite=False),
        np.eye(n),
        overwrite_b=True,
        check_finite=False,
    )
    inverse -= 1.0 / (scale * n)
    return inverse
