"""Filters: how the values h of the nodes are made from the latent function f, h = F f.

A filter turns nodes into :class:`Bags`: row n of ``F`` (Eq. 10), cut to the nodes that it
touches, with those nodes' features. Everything downstream works on bags, so a filter of
another range, or one that acts on the features, needs no other change than a class here.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch

from nodegp.component import Component
from nodegp.features import LazyRows, Rows, RowSource
from nodegp.graph import Graph


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
        weights, touched = _cut(self.weights[index])
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


@dataclass(frozen=True)
class Filter(Component):
    """Which nodes' f make up each h_n, and with what weight."""

    @abstractmethod
    def weights(self, graph: Graph, nodes: np.ndarray) -> sp.csr_array | None:
        """Rows ``nodes`` of F, shape (len(nodes), N); None for rows of the identity."""

    def bags(self, graph: Graph, features: LazyRows, nodes: np.ndarray) -> Bags:
        """What h is made of at these nodes. ``features`` are all nodes' rows."""
        rows = self.weights(graph, nodes)
        if rows is None:
            return Bags(None, features.select(nodes))
        weights, touched = _cut(rows)
        return Bags(weights, features.select(touched))


@dataclass(frozen=True)
class NeighbourMean(Filter):
    """The paper's filter, the mean over a node and its neighbours: P = (I + D)^-1 (I + A).

    On a weighted graph D is the weighted degree; the node itself counts with weight one.
    """

    def weights(self, graph: Graph, nodes: np.ndarray) -> sp.csr_array:
        linked = graph.adjacency[nodes]
        ones = np.ones(len(nodes))
        self_loops = sp.csr_array(
            (ones, nodes, np.arange(len(nodes) + 1)), shape=(len(nodes), graph.n_nodes)
        )
        rows = sp.csr_array(linked + self_loops)
        degree = np.asarray(linked.sum(axis=1)).ravel()
        rows.data /= np.repeat(1.0 + degree, np.diff(rows.indptr))  # Eq. 10
        return rows


@dataclass(frozen=True)
class Identity(Filter):
    """h = f: an ordinary Gaussian process on the features; the edges are not used."""

    def weights(self, graph: Graph, nodes: np.ndarray) -> None:
        return None


def _cut(rows: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
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
