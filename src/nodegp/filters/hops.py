"""Sums of independent functions, each with a filter of its own: h = sum_j F_j f_j.

The paper names this as a direction for several hops. Each function has its own copy of the kernel,
and their learnt variances say how much each mattered. The same serves several kinds of edges.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

import numpy as np

from nodegp.features import LazyRows
from nodegp.filters.bags import SeveralBags
from nodegp.filters.base import Filter
from nodegp.filters.neighbourhood import Identity
from nodegp.filters.responses import PageRank, Propagation
from nodegp.graph import Graph


@dataclass(frozen=True)
class Summed(Filter):
    """Filters that are summed; see :class:`Hops` and :class:`Relations`."""

    @abstractmethod
    def terms(self, graph: Graph) -> list[tuple[str, Filter, Graph]]:
        """What is summed on this graph: a name, a filter, and the graph that it runs on."""

    def weights(self, graph: Graph, nodes: np.ndarray) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is a sum of filters, without weights of its own")

    def prepared(self, graph: Graph, features: LazyRows) -> Self:
        return self.with_parts([part.prepared(graph, features) for part in self.parts()])

    @abstractmethod
    def with_parts(self, parts: Sequence[Filter]) -> Self: ...

    def bags(self, graph: Graph, features: LazyRows, nodes: np.ndarray) -> Any:
        terms = self.terms(graph)
        return SeveralBags(tuple(f.bags(g, features, nodes) for _, f, g in terms))


@dataclass(frozen=True)
class Hops(Summed):
    """h = sum_j F_j f_j: a node's own features, those nearby, and those further off.

    Where neighbours tend to be alike the far terms come to matter; where they differ, the first.
    """

    filters: tuple[Filter, ...] = (Identity(), Propagation(1), Propagation(2))

    def __post_init__(self) -> None:
        super().__post_init__()
        filters = tuple(self.filters)
        object.__setattr__(self, "filters", filters)
        if not filters or not all(isinstance(f, Filter) for f in filters):
            raise ValueError(f"Hops: filters must be a tuple of filters, got {self.filters!r}")
        if any(isinstance(f, Summed) for f in filters):
            raise ValueError("Hops: a sum of sums is one sum; list all filters in it")

    def terms(self, graph: Graph) -> list[tuple[str, Filter, Graph]]:
        return [(f"{n}: {type(f).__name__}", f, graph) for n, f in enumerate(self.filters)]

    def parts(self) -> tuple[Filter, ...]:
        return self.filters

    def with_parts(self, parts: Sequence[Filter]) -> Self:
        return replace(self, filters=tuple(parts))


@dataclass(frozen=True)
class Relations(Summed):
    """One function for each kind of edges of a graph, and one for the features alone.

    The graph must have kinds: ``Graph({"cites": A, "same author": B}, features)``.
    """

    filter: Filter = field(default_factory=lambda: PageRank(0.1, fixed=("strength",)))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.filter.free_parameters():
            raise ValueError(
                "Relations: its filter serves all kinds of edges, so its hyper-parameters stay as "
                f"they are; pass fixed={tuple(self.filter.free_parameters())} to it"
            )

    def terms(self, graph: Graph) -> list[tuple[str, Filter, Graph]]:
        if graph.relations is None:
            raise ValueError(
                "Relations: this graph has one kind of edges only; give it several, as "
                "Graph({'name': adjacency, ...}, features), or use another filter"
            )
        own: list[tuple[str, Filter, Graph]] = [("features", Identity(), graph)]
        return own + [(name, self.filter, graph.relation(name)) for name in sorted(graph.relations)]

    def parts(self) -> tuple[Filter, ...]:
        return (self.filter,)

    def with_parts(self, parts: Sequence[Filter]) -> Self:
        return replace(self, filter=parts[0])
