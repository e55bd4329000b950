"""Which library an object comes from, told by its type alone, and what it is to an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodegp.graph import Graph
from nodegp.interchange import networkx, pyg


def as_graph(X: Any) -> Any:
    """A networkx graph or PyTorch Geometric ``Data`` as a Graph; anything else as it is."""
    library = _library(X)
    if library == "networkx":
        return networkx.from_networkx(X)
    if library == "torch_geometric":
        return pyg.from_pyg(X)
    return X


def node_labels(X: Any, y: Any, unlabelled: Any) -> Any:
    """Labels that X holds, as a list with ``unlabelled`` where there is none; other y as it is.

    On a networkx graph y may be the name of a node attribute or a dict node -> label; on a Graph
    a dict id -> label, or number -> label where it has no ids. On a ``Data`` without y, the labels
    are ``data.y`` at the nodes of its ``train_mask``, or at all if it has none.
    """
    library = _library(X)
    if library == "networkx" and isinstance(y, str | Mapping):
        found = networkx.labels(X, y)
    elif library == "torch_geometric" and y is None:
        found = pyg.labels(X)
    elif isinstance(X, Graph) and isinstance(y, Mapping):
        found = _labels(X, y)
    else:
        return y
    return [unlabelled if value is None or value != value else value for value in found]


def _labels(graph: Graph, y: Mapping) -> list:
    """Labels in node order, None where there is none."""
    nodes = list(y)
    places = graph.numbers(nodes) if graph.ids is None else graph.positions(nodes)
    found: list = [None] * graph.n_nodes
    for place, label in zip(places.tolist(), y.values(), strict=True):
        found[place] = label
    return found


def _library(X: Any) -> str:
    homes = {kind.__module__.partition(".")[0] for kind in type(X).__mro__}
    return next((name for name in ("networkx", "torch_geometric") if name in homes), "")
