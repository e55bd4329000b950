"""The Gaussian field that sopt, vopt and eer take the labels for.

Its precision is L, the graph's Laplacian. Given labels, the others have the covariance
``C = L_uu^-1`` over the unlabelled nodes u. Each connected component is a field of its own; one
without a label has a level that nothing determines, which is given the variance of one average
edge (and C then stands for the pseudo-inverse of L plus that variance).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.linalg import inv
from scipy.sparse.csgraph import connected_components

from nodegp.active.large import LargeField
from nodegp.graph import Graph

__all__ = ["MAX_COMPONENT", "ExactField", "GaussianField", "Part"]

# The pseudo-inverse of a component of n nodes has n^2 entries and takes n^3 operations. Above
# this many, columns of C are solved for one by one, and its diagonal is estimated.
MAX_COMPONENT = 5_000


class GaussianField:
    """The field on a whole graph: one part per component."""

    def __init__(self, graph: Graph):
        self.graph = graph
        _, self._part_of = connected_components(graph.adjacency, directed=False)
        weights = graph.adjacency.data
        level_variance = 1.0 / weights.mean() if len(weights) else 1.0
        order = np.argsort(self._part_of, kind="stable")
        self._place = np.empty(graph.n_nodes, dtype=np.int64)
        self._labelled = np.zeros(graph.n_nodes, dtype=bool)
        self.parts: list[Part] = []
        for nodes in np.split(order, np.cumsum(np.bincount(self._part_of))[:-1]):
            self._place[nodes] = np.arange(len(nodes))
            adjacency = graph.adjacency[nodes][:, nodes]
            kind = ExactField if len(nodes) <= MAX_COMPONENT else LargeField
            self.parts.append(kind(nodes, adjacency, level_variance))

    def follow(self, labelled: np.ndarray) -> None:
        """Bring the field to these labels, a mask."""
        if (self._labelled & ~labelled).any():  # another run, or a batch that was not answered
            for part in self.parts:
                part.forget()
            self._labelled[:] = False
        new = np.flatnonzero(labelled & ~self._labelled)
        for number in np.unique(self._part_of[new]):
            self.parts[number].condition(self._place[new[self._part_of[new] == number]].tolist())
        self._labelled[new] = True

    def condition(self, node: int) -> Part:
        """Take a node as labelled; the part that changed."""
        part = self.parts[self._part_of[node]]
        part.condition([int(self._place[node])])
        self._labelled[node] = True
        return part


class ExactField:
    """A component small enough for the pseudo-inverse P of its Laplacian.

    The first label, at the root r, leaves the covariance ``S_ij = P_ij - P_ir - P_rj + P_rr``.
    From there on conditioning is a Cholesky factorisation whose pivots are the labels: each adds
    one row ``v = C e_k / sqrt(C_kk)``, and ``C = S - V^T V``. C itself is never formed, so a label
    costs O(n) for each label so far.
    """

    def __init__(self, nodes: np.ndarray, adjacency: sp.csr_array, level_variance: float):
        self.nodes = nodes
        self._pinv = _pseudo_inverse(adjacency)
        self._level_variance = level_variance
        self.forget()

    def forget(self) -> None:
        """Back to no labels."""
        self.labelled: list[int] = []  # places within the component
        self._V = np.empty((0, len(self.nodes)))
        self._SV = self._V  # S v for as many of the v as squares were asked for with

    def condition(self, places: Sequence[int]) -> None:
        """Take these as labelled too."""
        for k in places:
            if self.labelled:
                column = self.columns(np.array([k]))
                self._V = np.vstack([self._V, column / np.sqrt(column[0, k])])
            self.labelled.append(k)

    def sums(self) -> np.ndarray:
        """Row sums of C, (n,)."""
        n = len(self.nodes)
        if not self.labelled:
            return np.full(n, n * self._level_variance)
        return n * self._shifts()[0] - self._V.sum(axis=1) @ self._V

    def variances(self) -> np.ndarray:
        """Diagonal of C, (n,)."""
        if not self.labelled:
            return self._pinv.diagonal() + self._level_variance
        a, b = self._shifts()
        return self._pinv.diagonal() + a + b - (self._V**2).sum(axis=0)

    def squares(self) -> np.ndarray:
        """Diagonal of C^2, (n,)."""
        n, squares = len(self.nodes), np.einsum("ij,ij->i", self._pinv, self._pinv)
        if not self.labelled:
            return squares + n * self._level_variance**2
        a, b = self._shifts()
        V, new = self._V, self._V[len(self._SV) :]
        new = new @ self._pinv + np.outer(new.sum(axis=1), b) + (new @ a)[:, None]
        self._SV = np.vstack([self._SV, new])
        # Of S = P + b 1^T + 1 a^T, whose P has rows that sum to zero; then of S - V^T V.
        squares += 2.0 * (self._pinv @ a + b * a.sum()) + n * b * b + a @ a
        return squares - 2.0 * (V * self._SV).sum(axis=0) + (V * (V @ V.T @ V)).sum(axis=0)

    def columns(self, places: np.ndarray) -> np.ndarray:
        """Columns of C, one per row, (places, n); once there is a label."""
        a, b = self._shifts()
        return self._pinv[places] + b[places, None] + a - self._V[:, places].T @ self._V

    def _shifts(self) -> tuple[np.ndarray, np.ndarray]:
        """a and b of ``S_ij = P_ij + b_i + a_j``."""
        root = self.labelled[0]
        at_root = self._pinv[root]
        return at_root[root] - at_root, -at_root


# Either form of the field on one connected component, given the labels so far.
Part = ExactField | LargeField


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
    return inv(laplacian, overwrite_a=True, check_finite=False) - 1.0 / (scale * n)
