"""Sums of independent functions, each with a filter of its own: h = sum_j F_j f_j.

The paper names this as a direction for several hops. Each function has its own copy of the kernel,
and their learnt variances say how much each mattered. The same serves several kinds of edges.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn, Self

import numpy as np

from nodegp.component import Component
from nodegp.filters.base import Filter
from nodegp.filters.neighbourhood import Identity
from nodegp.filters.responses import PageRank, Propagation
from nodegp.graph import Graph

__all__ = ["AdditiveFilter", "Relations", "SumOfFilters", "View", "Views"]


class Summand(NamedTuple):
    """One function of a sum: its name, its filter, and the kind of edges that it runs on."""

    name: str
    filter: Filter
    relation: str | None = None


@dataclass(frozen=True)
class AdditiveFilter(Filter):
    """h is a sum of independent functions; see :class:`SumOfFilters` and :class:`Relations`."""

    @abstractmethod
    def summands(self, graph: Graph) -> list[Summand]:
        """What is summed on this graph."""

    @abstractmethod
    def learnt(self, filters: Sequence[Filter]) -> Self:
        """The same with what was learnt of each summand's filter."""

    def weights(self, graph: Graph, nodes: np.ndarray) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is a sum of filters, without weights of its own")


@dataclass(frozen=True)
class SumOfFilters(AdditiveFilter):
    """h = sum_j F_j f_j: a node's own features, those nearby, and those further off.

    Where neighbours tend to be alike the far terms come to matter; where they differ, the first.
    """

    filters: tuple[Filter, ...] = (Identity(), Propagation(1), Propagation(2))

    def __post_init__(self) -> None:
        super().__post_init__()
        filters = tuple(self.filters)
        object.__setattr__(self, "filters", filters)
        if not filters or not all(isinstance(f, Filter) for f in filters):
            raise ValueError(
                f"SumOfFilters: filters must be a tuple of filters, got {self.filters!r}"
            )
        if any(isinstance(f, AdditiveFilter) for f in filters):
            raise ValueError("SumOfFilters: a sum of sums is one sum; list all filters in it")

    def summands(self, graph: Graph) -> list[Summand]:
        return [Summand(f"{n}: {type(f).__name__}", f) for n, f in enumerate(self.filters)]

    def learnt(self, filters: Sequence[Filter]) -> Self:
        return replace(self, filters=tuple(filters))


@dataclass(frozen=True)
class Relations(AdditiveFilter):
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

    def summands(self, graph: Graph) -> list[Summand]:
        if graph.relations is None:
            raise ValueError(
                "Relations: this graph has one kind of edges only; give it several, as "
                "Graph({'name': adjacency, ...}, features), or use another filter"
            )
        kinds = [Summand(name, self.filter, name) for name in sorted(graph.relations)]
        return [Summand("features", Identity()), *kinds]

    def learnt(self, filters: Sequence[Filter]) -> Self:
        return self  # its filter has nothing to learn


@dataclass(frozen=True)
class View(Component):
    """One way to look at the nodes of a graph: a filter, and the edges that it runs along.

    ``relation`` names a kind of edges of the graph, or edges that follow from it: "@alike" between
    nodes whose features are alike, "@both" these and the graph's own, "@links" the graph's own over
    nodes without features. None is for the graph as it is.
    """

    name: str
    filter: Filter
    relation: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.filter, Filter) or isinstance(self.filter, AdditiveFilter):
            raise ValueError(f"View: filter must be one filter, got {self.filter!r}")


@dataclass(frozen=True)
class Views(AdditiveFilter):
    """h is a sum of functions, each of which sees the graph in its own way."""

    views: tuple[View, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "views", tuple(self.views))
        if not self.views or not all(isinstance(view, View) for view in self.views):
            raise ValueError(f"Views: views must be a tuple of views, got {self.views!r}")

    def summands(self, graph: Graph) -> list[Summand]:
        return [Summand(view.name, view.filter, view.relation) for view in self.views]

    def learnt(self, filters: Sequence[Filter]) -> Self:
        pairs = zip(self.views, filters, strict=True)
        return replace(self, views=tuple(replace(view, filter=own) for view, own in pairs))
