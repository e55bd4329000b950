"""What every filter is: a way from nodes to the bags that h is made of there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp

from nodegp.component import Component
from nodegp.features import LazyRows, RowSource
from nodegp.filters.bags import Bags, cut
from nodegp.graph import Graph


@dataclass(frozen=True)
class Filter(Component):
    """Which nodes' f make up each h_n, and with what weight."""

    @abstractmethod
    def weights(self, graph: Graph, nodes: np.ndarray) -> sp.csr_array | None:
        """Rows ``nodes`` of F, shape (len(nodes), N); None for rows of the identity."""

    def columns(self, graph: Graph, columns: np.ndarray) -> np.ndarray:
        """F @ columns, shape (N, C)."""
        rows = self.weights(graph, np.arange(graph.n_nodes))
        return columns if rows is None else np.asarray(rows @ columns)

    def bags(self, graph: Graph, features: LazyRows, nodes: np.ndarray) -> Bags:
        """What h is made of at these nodes. ``features`` are all nodes' rows."""
        rows = self.weights(graph, nodes)
        if rows is None:
            return Bags(None, features.select(nodes))
        weights, touched = cut(rows)
        return Bags(weights, features.select(touched))

    def inputs(self, graph: Graph, features: LazyRows) -> RowSource:
        """Rows at which f itself is asked for, of all nodes or of a sample that is spread over
        them: where inducing points belong."""
        return features

    def prepared(self, graph: Graph, features: LazyRows) -> Self:
        """This filter with whatever it takes over from the graph that a model is fitted on."""
        return self

    def parts(self) -> tuple[Filter, ...]:
        """The filters that this one sums: itself, unless it is a sum."""
        return (self,)

    def with_parts(self, parts: Sequence[Filter]) -> Filter:
        """The same with others in their place."""
        return parts[0]
