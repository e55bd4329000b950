"""Sigma-optimality (Ma, Garnett and Schneider 2013), the paper's SOPT.

The labels are taken for a Gaussian field with precision L, the graph's Laplacian. The next node
is the one whose label lowers the variance of the sum over all nodes the most:
``argmax_k rowsum(C)_k / sqrt(C_kk)`` with ``C = L_uu^-1`` over the unlabelled nodes u.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components

from nodegp.active.acquisition import Acquisition, Situation, best
from nodegp.graph import Graph

# The pseudo-inverse of a component of n nodes has n^2 entries: 3.2 GB here.
MAX_COMPONENT = 20_000


class SOPT(Acquisition):
    """Sigma-optimal design: needs the graph and where the labels are, no model.

    Removing a labelled node from u is a rank-one change of C. C itself is never formed: with
    the Laplacian's pseudo-inverse at hand, of which one is kept per graph, a question costs
    O(N) for each label so far.

    **Disconnected graphs.** Each component is a field of its own. One without a label has a
    level that nothing determines; it is given the variance of one average edge, so that the
    first label in a component of n nodes is worth about n, and is asked for at the node with
    the smallest variance around that level. A large component is opened before a small one,
    and an isolated node, from which no other learns, comes near the end.

    **Batches** are chosen one node after the other, as if each were labelled at once: the
    answers do not matter here, so a batch is what single questions would have been.
    """

    def __init__(self) -> None:
        self._fields: list[_Field] = []
        self._graph: Graph | None = None

    def scores(self, situation: Situation) -> np.ndarray:
        self._follow(situation)
        return self._scores()

    def choose(self, situation: Situation, n: int = 1) -> np.ndarray:
        self._follow(situation)
        chosen: list[int] = []
        open_ = situation.candidates.copy()
        for _ in range(min(n, int(open_.sum()))):
            node = best(self._scores(), open_)
            self._label(node)
            chosen.append(node)
            open_[node] = False
        return np.array(chosen, dtype=np.int64)

    def _follow(self, situation: Situation) -> None:
        """Bring the fields to the labels of this situation."""
        if self._graph is not situation.graph:
            self._graph = situation.graph
            self._fields, self._field_of, self._place = _fields(situation.graph)
        seen = np.zeros(len(situation.labelled), dtype=bool)
        for field in self._fields:
            seen[field.nodes[field.labelled]] = True
        if (seen & ~situation.labelled).any():  # another run, or a batch that was not answered
            for field in self._fields:
                field.forget()
            seen[:] = False
        for node in np.flatnonzero(situation.labelled & ~seen):
            self._label(int(node))

    def _label(self, node: int) -> None:
        self._fields[self._field_of[node]].label(int(self._place[node]))

    def _scores(self) -> np.ndarray:
        scores = np.empty(len(self._place))
        for field in self._fields:
            scores[field.nodes] = field.scores()
        return scores


class _Field:
    """The Gaussian field on one component, given the labels so far.

    Conditioning is a Cholesky factorisation whose pivots are the labels: each label adds one
    column ``v = C e_k / sqrt(C_kk)``, and the covariance left is the start's minus all v v^T.
    """

    def __init__(self, nodes: np.ndarray, pinv: np.ndarray, level_variance: float):
        self.nodes = nodes
        self._pinv = pinv
        self._level_variance = level_variance
        self.forget()

    def forget(self) -> None:
        """Back to no labels."""
        self.labelled: list[int] = []
        self._columns = np.empty((0, len(self.nodes)))

    def label(self, k: int) -> None:
        """Condition on the k-th node of the component."""
        if not self.labelled:
            # C = L_uu^-1 with u all but k, from the pseudo-inverse P: rows and columns of it
            # are P_ij - P_ik - P_kj + P_kk, and the rows of P sum to zero.
            self._root, n = k, len(self.nodes)
            at_root = self._pinv[k]
            self._diagonal = self._pinv.diagonal() - 2.0 * at_root + at_root[k]
            self._row_sums = n * (at_root[k] - at_root)
        else:
            v = self._covariance(k) / np.sqrt(self._diagonal[k])
            self._row_sums -= v * v.sum()
            self._diagonal -= v * v
            self._columns = np.vstack([self._columns, v])
        self.labelled.append(k)

    def scores(self) -> np.ndarray:
        """rowsum(C) / sqrt(diag C); minus infinity at labelled nodes."""
        if not self.labelled:
            variance = self._pinv.diagonal() + self._level_variance
            return len(self.nodes) * self._level_variance / np.sqrt(variance)
        scores = np.full(len(self.nodes), -np.inf)
        left = np.ones(len(self.nodes), dtype=bool)
        left[self.labelled] = False
        scores[left] = self._row_sums[left] / np.sqrt(self._diagonal[left])
        return scores

    def _covariance(self, k: int) -> np.ndarray:
        """Column k of the covariance that is left."""
        at_root = self._pinv[self._root]
        start = self._pinv[k] - at_root - at_root[k] + at_root[self._root]
        return start - self._columns[:, k] @ self._columns


def _fields(graph: Graph) -> tuple[list[_Field], np.ndarray, np.ndarray]:
    """One field per component; which one each node is in, and at what place."""
    n_components, field_of = connected_components(graph.adjacency, directed=False)
    largest = np.bincount(field_of).max()
    if largest > MAX_COMPONENT:
        raise ValueError(
            f"SOPT needs the inverse of a connected component's Laplacian, and one component has "
            f"{largest:,} nodes; more than {MAX_COMPONENT:,} do not fit. Choose among a part of "
            "the graph, or use another acquisition function."
        )
    weights = graph.adjacency.data
    level_variance = 1.0 / weights.mean() if len(weights) else 1.0
    order = np.argsort(field_of, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(field_of))[:-1])
    place = np.empty(graph.n_nodes, dtype=np.int64)
    fields = []
    for nodes in members:
        place[nodes] = np.arange(len(nodes))
        fields.append(_Field(nodes, _pseudo_inverse(graph, nodes), level_variance))
    assert len(fields) == n_components
    return fields, field_of, place


def _pseudo_inverse(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """L^+ of a connected component. L + s J/n, with J all ones, is positive definite and has
    the inverse L^+ + J / (s n); s near L's own size keeps it well-conditioned."""
    n = len(nodes)
    if n == 1:
        return np.zeros((1, 1))
    adjacency = graph.adjacency[nodes][:, nodes]
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
