"""networkx graphs in and out: nodes by name, features and labels as node attributes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.extras import to_install
from nodegp.graph import Graph
from nodegp.interchange.edges import as_names, graph_of

__all__ = ["from_networkx", "graph", "labels", "to_networkx"]

FEATURES = "x"  # where PyTorch Geometric keeps them too


def from_networkx(G: Any, features: Any = None, weight: str | None = "weight") -> Graph:
    """See :meth:`nodegp.Graph.from_networkx`."""
    if features is None:
        _warn_of_unused(G, None)
    return graph(G, features, weight)


def graph(G: Any, features: Any = None, weight: str | None = "weight") -> Graph:
    """The same, for an estimator: what is not used is said where the labels are known."""
    number = {name: n for n, name in enumerate(G)}
    # Where no weight is wanted, an attribute that no edge has: all get the default.
    edges = list(G.edges(data=object() if weight is None else weight, default=1.0))
    for source, target, value in edges:
        if not isinstance(value, Real):
            raise ValueError(
                f"the edge {source!r} - {target!r} has {weight}={value!r}, which is not a number; "
                "mend it, or pass weight=None to leave weights out"
            )
    ends = [np.array([number[edge[end]] for edge in edges], np.int64) for end in (0, 1)]
    weights = np.array([float(value) for _, _, value in edges])
    return graph_of(ends, weights, len(number), _features(G, features), as_names(G))


def to_networkx(graph: Graph) -> Any:
    """See :meth:`nodegp.Graph.to_networkx`."""
    try:
        import networkx
    except ImportError as missing:
        raise ImportError(f"this needs networkx: {to_install('interop')}") from missing
    names = list(range(graph.n_nodes)) if graph.ids is None else graph.ids.tolist()
    numbered = networkx.from_scipy_sparse_array(graph.adjacency)
    G = networkx.relabel_nodes(numbered, dict(enumerate(names)))
    if graph.features is not None:
        for n, name in enumerate(names):
            row = graph.features[[n]]
            G.nodes[name][FEATURES] = row if sp.issparse(row) else row[0]
    return G


def labels(G: Any, y: Any) -> list | None:
    """Labels in node order, None where there is none: a node attribute, or node -> label. None
    for any other y."""
    values = None
    if isinstance(y, str):
        values = [data.get(y) for _, data in G.nodes(data=True)]
        if values and all(value is None for value in values):
            raise ValueError(f"no node has the attribute {y!r}; {_attributes(G)}")
    elif isinstance(y, Mapping):
        unknown = [node for node in y if node not in G]
        if unknown:
            raise ValueError(
                f"y labels {len(unknown)} nodes that are not in the graph, first: {unknown[:5]}"
            )
        values = [y.get(node) for node in G]
    if y is not None:
        _warn_of_unused(G, y)
    return values


def _warn_of_unused(G: Any, label: Any) -> None:
    """Say which attributes could be features and are not: left out in silence, they are missed."""
    nodes = [data for _, data in G.nodes(data=True)]
    names = set(nodes[0]) if nodes else set()
    names -= {label} if isinstance(label, str) else set()
    unused = sorted(n for n in names if all(_is_number(data.get(n)) for data in nodes))
    if unused:
        warnings.warn(
            f"the nodes' numbers {unused} are not used as features; to use them, or not to be told "
            f"again, make a graph with Graph.from_networkx(G, features={unused}) or features=[]",
            stacklevel=4,
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _features(G: Any, features: Any) -> Any:
    """The feature matrix in node order; a matrix is taken as it is."""
    if features is None:
        rows = [data.get(FEATURES) for _, data in G.nodes(data=True)]
        is_vector = [sp.issparse(row) or np.ndim(row) == 1 for row in rows]
        return _stacked(rows, FEATURES) if rows and all(is_vector) else None
    if isinstance(features, str):
        return _stacked(_values(G, features), features)
    if isinstance(features, Sequence) and all(isinstance(name, str) for name in features):
        columns = [_values(G, name, numbers=True) for name in features]
        return np.column_stack(columns).astype(np.float64) if columns else None
    return features


def _values(G: Any, name: str, numbers: bool = False) -> list:
    """One attribute of every node."""
    values = [data.get(name) for _, data in G.nodes(data=True)]
    missing = [node for node, value in zip(G, values, strict=True) if value is None]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(G)} nodes have no attribute {name!r}, first: {missing[:5]}; "
            f"{_attributes(G)}"
        )
    for node, value in zip(G, values, strict=True):
        if numbers and not isinstance(value, Real):
            raise ValueError(
                f"node {node!r} has {name}={value!r}, which is not a number; pass the features "
                "as a matrix in node order"
            )
    return values


def _stacked(rows: list, name: str) -> Any:
    if all(sp.issparse(row) for row in rows):
        return sp.vstack(rows, format="csr")
    try:
        return np.stack([np.atleast_1d(row) for row in rows])
    except ValueError:
        lengths = sorted({np.size(row) for row in rows})
        raise ValueError(
            f"the attribute {name!r} must be a vector of one length at every node, got lengths "
            f"{lengths[:5]}"
        ) from None


def _attributes(G: Any) -> str:
    names = sorted({str(key) for _, data in G.nodes(data=True) for key in data})
    return f"attributes there are: {', '.join(names[:20])}" if names else "no node has any"
