"""Labels of a stored graph: pairs of id and label, since an array of all nodes may be too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nodegp.disk import GraphOnDisk
from nodegp.labels import Observations, as_labels, check_confidence, is_labelled

__all__ = ["stored_observations"]

_HOW = (
    "labels of a stored graph are pairs: a dict of id: label, a list of (id, label), or a tuple of "
    "ids and labels; where nodes have no ids, their numbers. Those that it was prepared with are "
    "store.labels"
)


def stored_observations(
    graph: GraphOnDisk, y: Any, confidence: Any, unlabelled: Any
) -> Observations:
    """Labels at some nodes, which may be given in several ways; ``confidence`` by id, or one for
    each of them."""
    names, labels = _pairs(y)
    nodes = graph.positions(names) if graph.ids is not None else graph.numbers(names)
    values = as_labels(labels)
    if len(np.unique(nodes)) < len(nodes):
        raise ValueError("there are two labels for a node; keep one")
    if isinstance(confidence, Mapping):
        confidence = [confidence.get(name, 1.0) for name in names]
    sure = check_confidence(confidence, len(nodes), np.arange(len(nodes)))
    is_label = is_labelled(values, unlabelled)
    if not is_label.any():
        raise ValueError("there are no labels at all. Label at least one node.")
    order = np.argsort(nodes[is_label])
    return Observations(nodes, values, sure).at(np.flatnonzero(is_label)[order])


def _pairs(y: Any) -> tuple[list[Any], list[Any]]:
    if isinstance(y, Mapping):
        return list(y), list(y.values())
    if isinstance(y, tuple) and len(y) == 2 and np.ndim(y[0]) == 1 and np.ndim(y[1]) == 1:
        names, labels = (np.asarray(side).tolist() for side in y)
        if len(names) != len(labels):
            raise ValueError(f"there are {len(labels)} labels for {len(names)} ids")
        return names, labels
    try:
        pairs = [tuple(pair) for pair in y]
    except TypeError:
        raise ValueError(_HOW) from None
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(_HOW)
    return [name for name, _ in pairs], [label for _, label in pairs]
