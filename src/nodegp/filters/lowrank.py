"""A low-rank form of h = F f, for filters of long range and kernels that are not linear.

There Cov(h, h) = F K F^T takes a kernel value for every pair of nodes in range. Instead f is
replaced by what R landmarks u say of it, E[f | u]: h then has the features
``phi = Cov(h, u) Cov(u, u)^-1/2``, R for each node, and a linear kernel. A landmark is what h is
made of at one node, cut to its few largest weights: such averages span what a filter passes far
better than single values of f do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.features import LazyRows, Rows, inner_products
from nodegp.filters.bags import Bags, cut
from nodegp.filters.base import Filter
from nodegp.filters.neighbourhood import Identity
from nodegp.filters.rows import LARGEST
from nodegp.graph import Graph
from nodegp.linalg import cholesky

# Weights that a landmark keeps. On Cora its 300 landmarks leave out 0.26 of the variance of a cubic
# kernel with 1, 0.14 with 5 and 0.11 with 50, and the cost grows in proportion.
_REACH = 5
_CANDIDATES = 10  # nodes that are looked at for each landmark taken

Ask = Callable[[Any, Any], Tensor]  # the covariance of two kinds of bags under some kernel


@dataclass(frozen=True, eq=False)
class LowRankBags:
    """Nodes at which h is taken for what the landmarks say of it: h = F E[f | u]."""

    filter: Filter
    graph: Graph
    features: LazyRows  # all nodes'
    nodes: np.ndarray
    landmarks: Bags

    def __len__(self) -> int:
        return len(self.nodes)

    def take(self, index: np.ndarray) -> LowRankBags:
        return self._of(self.filter, self.nodes[index])

    def in_memory(self) -> LowRankBags:
        return self

    @cached_property
    def exact(self) -> Bags:
        """What h is made of at these nodes, with nothing approximated."""
        return Filter.bags(self.filter, self.graph, self.features, self.nodes)

    def unfiltered(self, nodes: np.ndarray) -> LowRankBags:
        """f itself at some nodes, as the landmarks show it."""
        return self._of(Identity(), nodes)

    def cross(self, ask: Ask, again: bool) -> Tensor:
        """Cov(h, u), shape (nodes, landmarks); ``again`` if it will be asked for again."""
        if again or torch.is_grad_enabled() or len(self) <= len(self.landmarks):
            return ask(self.exact, self.landmarks)
        # Rows of F for so many nodes cost more than F applied to what each node shares with u.
        everywhere = Bags(None, self.features)
        step = max(LARGEST // max(self.graph.n_nodes, 1), 1)
        parts = []
        for start in range(0, len(self.landmarks), step):
            block = np.arange(start, min(start + step, len(self.landmarks)))
            columns = ask(everywhere, self.landmarks.take(block)).numpy()
            parts.append(self.filter.columns(self.graph, columns)[self.nodes])
        return torch.from_numpy(np.concatenate(parts, axis=1))

    def _of(self, filter: Filter, nodes: np.ndarray) -> LowRankBags:
        return LowRankBags(filter, self.graph, self.features, nodes, self.landmarks)


@dataclass(frozen=True, eq=False)
class KnownBags:
    """Nodes by their low-rank features under a kernel that is settled: no graph is needed."""

    features: Tensor  # (n, R)

    def __len__(self) -> int:
        return len(self.features)

    def take(self, index: np.ndarray) -> KnownBags:
        return KnownBags(self.features[torch.from_numpy(index)])

    def in_memory(self) -> KnownBags:
        return self


def low_rank_features(ask: Ask, bags: tuple[Any, ...], again: bool) -> list[Bags] | None:
    """Bags of one row each, phi, on which a linear kernel gives the low-rank covariances.

    None if none of the bags is of low rank. Plain bags beside such are points of f, of which the
    landmarks say something too. ``again`` if they will be asked for again.
    """
    if all(isinstance(b, KnownBags) for b in bags):
        return [Bags.points(b.features) for b in bags]
    landmarks = next((b.landmarks for b in bags if isinstance(b, LowRankBags)), None)
    if landmarks is None:
        return None
    chol, _ = cholesky(ask(landmarks, landmarks), "covariance of the landmarks")
    made: dict[int, Bags] = {}
    for b in bags:
        if id(b) in made:
            continue
        if isinstance(b, KnownBags):
            made[id(b)] = Bags.points(b.features)
            continue
        cross = b.cross(ask, again) if isinstance(b, LowRankBags) else ask(b, landmarks)
        made[id(b)] = Bags.points(torch.linalg.solve_triangular(chol, cross.mT, upper=False).mT)
    return [made[id(b)] for b in bags]


def choose_landmarks(
    filter: Filter, graph: Graph, features: LazyRows, rows: Callable[[np.ndarray], Rows], rank: int
) -> Bags:
    """What h is made of, cut short, at nodes that are spread over the filtered features.

    ``rows`` gives those of some nodes. The choice depends on no hyper-parameter, so that a fit can
    learn the kernel's with the landmarks held.
    """
    nodes = np.arange(graph.n_nodes)
    if len(nodes) > _CANDIDATES * rank:
        nodes = np.linspace(0, len(nodes) - 1, _CANDIDATES * rank).astype(np.intp)
    nodes = nodes[_spread_out(rows(nodes), min(rank, len(nodes)))]
    weights = filter.weights(graph, nodes)
    assert weights is not None
    weights, touched = cut(_largest(weights, _REACH))
    return Bags(weights, features.take(touched))


def _spread_out(rows: Rows, n_wanted: int) -> np.ndarray:
    """Numbers of rows that leave little of the others unexplained: the pivots of a Cholesky
    factorisation of their RBF Gram matrix, one column at a time."""
    norms = rows.squared_norms().numpy()
    mean = np.asarray(rows.values.mean(axis=0) if rows.is_sparse else rows.values.mean(0)).ravel()
    if rows.centre is not None:
        mean = mean - rows.centre
    spread = max(float(norms.mean() - mean @ mean), 1e-300)  # half the mean squared distance
    left, factor, chosen = np.ones(len(rows)), np.zeros((n_wanted, len(rows))), []
    for n in range(n_wanted):
        pivot = int(left.argmax())
        chosen.append(pivot)
        scale, left[pivot] = left[pivot], -1.0  # never again
        if scale < 1e-10:
            continue  # all that are left look like others; still, what h is made of may differ
        inner = inner_products(rows, rows.take(np.array([pivot]))).numpy()[:, 0]
        distance = np.maximum(norms + norms[pivot] - 2.0 * inner, 0.0)
        column = np.exp(-0.25 * distance / spread) - factor[:n].T @ factor[:n, pivot]
        factor[n] = column / np.sqrt(scale)
        open_ = left >= 0
        left[open_] = np.maximum(left[open_] - factor[n, open_] ** 2, 0.0)
    return np.array(chosen, dtype=np.intp)


def _largest(weights: sp.csr_array, n_kept: int) -> sp.csr_array:
    """Each row with only its largest entries, by size."""
    row = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    order = np.lexsort((-np.abs(weights.data), row))  # rows stay together
    kept = np.sort(order[np.arange(len(row)) - weights.indptr[row] < n_kept])
    picked = (weights.data[kept], (row[kept], weights.indices[kept]))
    return sp.csr_array(sp.coo_array(picked, shape=weights.shape))
