"""Which library an object comes from, told by its type alone, and what it is to an estimator.

``CONVERSIONS`` lists the libraries whose graphs are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from nodegp.graph import Graph
from nodegp.interchange import networkx, pyg

__all__ = ["CONVERSIONS", "Conversion", "as_graph", "node_labels"]


class Conversion(NamedTuple):
    """What a library's graph is to an estimator."""

    graph: Callable[[Any], Graph]
    labels: Callable[[Any, Any], list | None]
    """Labels in node order (None where there is none) that y, or without it the object itself,
    gives; None if y is not of the library's kind and stays as it is."""


CONVERSIONS = {  # by the name of the package that the type comes from
    "networkx": Conversion(networkx.graph, networkx.labels),
    "torch_geometric": Conversion(pyg.from_pyg, pyg.labels),
}


def as_graph(X: Any) -> Any:
    """A networkx graph or PyTorch Geometric ``Data`` as a Graph; anything else as it is."""
    conversion = _conversion(X)
    return X if conversion is None else conversion.graph(X)


def node_labels(X: Any, y: Any) -> Any:
    """Labels that X holds, as a list with None where there is none; other y as it is.

    On a networkx graph y may be the name of a node attribute or a dict node -> label; on a Graph
    a dict id -> label, or number -> label where it has no ids. On a ``Data`` without y, the labels
    are ``data.y`` at the nodes of its ``train_mask``, or at all if it has none.
    """
    conversion, labels = _conversion(X), None
    if conversion is not None:
        labels = conversion.labels(X, y)
    elif isinstance(X, Graph) and isinstance(y, Mapping):
        nodes = list(y)
        places = X.numbers(nodes) if X.ids is None else X.positions(nodes)
        labels = [None] * X.n_nodes
        for place, label in zip(places.tolist(), y.values(), strict=True):
            labels[place] = label
    return y if labels is None else labels


def _conversion(X: Any) -> Conversion | None:
    homes = (kind.__module__.partition(".")[0] for kind in type(X).__mro__)
    return next((CONVERSIONS[home] for home in homes if home in CONVERSIONS), None)
