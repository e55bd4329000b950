"""Plain tables: a k-nearest-neighbour graph for their rows, so that any table can be fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.features import FeatureRows
from nodegp.graph import Graph

__all__ = ["Table", "joined_graph", "stack", "table_graph"]


@dataclass(frozen=True, eq=False)
class Table:
    """A feature matrix without a graph: each row is linked to its nearest neighbours.

    Examples
    --------
    >>> import nodegp
    >>> rows = [[0.0], [0.1], [5.0], [5.1], [0.2]]
    >>> kinds = ["a", "a", "b", "b", None]
    >>> model = nodegp.GraphGPClassifier().fit(Table(rows, n_neighbors=1), kinds)
    >>> model.predict([[4.9]]).tolist()
    ['b']
    """

    rows: Any
    n_neighbors: int = 10

    def __post_init__(self) -> None:
        if self.rows is None or isinstance(self.rows, Graph):
            raise TypeError(f"a Table is of rows of features, not of a {type(self.rows).__name__}")
        if not isinstance(self.n_neighbors, Integral) or self.n_neighbors < 1:
            raise ValueError(
                f"n_neighbors must be a whole number of at least 1, got {self.n_neighbors!r}"
            )

    def __len__(self) -> int:
        return int(np.shape(self.rows)[0])

    def __getitem__(self, index: Any) -> Table:
        return Table(self.rows[index], self.n_neighbors)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows, n_neighbors={self.n_neighbors})"

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.rows)


def table_graph(raw: Any, rows: FeatureRows, n_neighbors: int) -> Graph:
    """The graph that links each row to its nearest others, either way round."""
    k = min(n_neighbors, len(rows) - 1)
    if k < 1:
        return Graph(sp.csr_array((len(rows), len(rows))), raw, links_alike=True)
    links = _searcher(k).fit(_coordinates(rows)).kneighbors_graph()
    return Graph(links, raw, links_alike=True)


def joined_graph(
    graph: Graph, graph_rows: FeatureRows, raw: Any, rows: FeatureRows, k: int
) -> Graph:
    """The known rows followed by new ones, each new one linked to its nearest known rows only,
    which take no notice: so an answer does not depend on which other rows are asked about."""
    n_known, n_new = graph.n_nodes, len(rows)
    searcher = _searcher(min(k, n_known)).fit(_coordinates(graph_rows))
    links = searcher.kneighbors_graph(_coordinates(rows))
    adjacency = sp.block_array([[graph.adjacency, None], [sp.csr_array(links), _empty(n_new)]])
    features = stack([graph.features, raw])
    joined = Graph(adjacency, features, is_prepared=graph.is_prepared, links_alike=True)
    joined.n_fitted_nodes = n_known
    return joined


def stack(matrices: Sequence[Any], axis: int = 0) -> Any:
    """Features below or (axis 1) beside each other: csr if any are sparse; None for none."""
    if len(matrices) < 2:
        return matrices[0] if matrices else None
    if any(sp.issparse(matrix) for matrix in matrices):
        combine = sp.hstack if axis else sp.vstack
        return sp.csr_array(combine([sp.csr_array(m) for m in matrices], format="csr"))
    return np.concatenate([np.asarray(matrix) for matrix in matrices], axis)


def _empty(n: int) -> sp.csr_array:
    return sp.csr_array((n, n))


def _coordinates(rows: FeatureRows) -> Any:
    """All rows without their centre, which changes no distance."""
    return rows.take(np.arange(len(rows))).uncentred()


def _searcher(k: int) -> Any:
    from sklearn.neighbors import NearestNeighbors  # heavy, and only tables need it

    return NearestNeighbors(n_neighbors=k)
