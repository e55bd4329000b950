"""Filters of one hop or none: the paper's neighbourhood mean, and the identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from nodegp.filters.base import Filter
from nodegp.graph import Graph

__all__ = ["Identity", "NeighbourMean"]


@dataclass(frozen=True)
class NeighbourMean(Filter):
    """The paper's filter, the mean over a node and its neighbours: P = (I + D)^-1 (I + A).

    On a weighted graph D is the weighted degree; the node itself counts with weight one.
    """

    alias: ClassVar = "mean"

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

    alias: ClassVar = "identity"

    def weights(self, graph: Graph, nodes: np.ndarray) -> None:
        return None
