"""What lies around a node: rings of neighbours to be drawn, and the way to nodes with a label.

Places are worked out here and not in a browser, so that the same node looks the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from nodegp.graph import Graph

__all__ = ["MOST_DRAWN", "Way", "neighbours_of", "rings", "ways_to_labels"]

MOST_DRAWN = 150  # nodes in a drawing
_MOST_EDGES = 600
_MOST_RINGS = 3
_FAR = 40  # nodes of the third ring: it is there to see where the others belong


@dataclass(frozen=True)
class Way:
    """The shortest way from a node to the nearest one of a class."""

    label: str
    nodes: list[int]  # from the first to the labelled one, both included


def neighbours_of(graph: Graph, node: int) -> np.ndarray:
    """The numbers of the nodes that an edge joins to this one, in order and without itself."""
    around = np.unique(_linked(graph, node))
    return around[around != node]


def _linked(graph: Graph, node: int) -> np.ndarray:
    """The other ends of a node's edges as they are stored, itself among them if it has a loop."""
    start, stop = graph.adjacency.indptr[node : node + 2]
    stored: np.ndarray = graph.adjacency.indices[start:stop]
    return stored


def rings(graph: Graph, node: int, labels: Mapping[int, str]) -> dict[str, Any]:
    """At most 150 nodes around a node, with places in rings by their distance from it, and edges.

    Where there is no room for all, those with a label come first, then those with most links.
    """
    kept: dict[int, tuple[int, int]] = {node: (0, node)}  # ring, and who it was reached from
    order, ring = [node], [node]
    omitted = 0
    for distance in range(1, _MOST_RINGS + 1):
        found: dict[int, int] = {}
        for parent in ring:
            for other in _linked(graph, parent).tolist():
                if other not in kept:
                    found.setdefault(other, parent)
        room = min(MOST_DRAWN - len(kept), _FAR if distance == _MOST_RINGS else MOST_DRAWN)
        chosen = sorted(found, key=lambda n: (n not in labels, -graph.degrees[n], n))[:room]
        if distance == 1:
            omitted = len(found) - len(chosen)
        rank = {parent: place for place, parent in enumerate(ring)}
        ring = sorted(chosen, key=lambda n: (rank[found[n]], n))
        kept |= {n: (distance, found[n]) for n in ring}
        order += ring
        if not ring or len(kept) > MOST_DRAWN // 2:
            break
    places = _places(order, kept)
    return {
        "nodes": [{"node": n, "ring": kept[n][0], "x": x, "y": y} for n, (x, y) in places.items()],
        "edges": _edges(graph, order),
        "omitted": omitted,
    }


def _places(
    order: list[int], kept: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[float, float]]:
    """Rings of equal spacing; a node stands near who it was reached from, as far as there is
    room."""
    n_rings = max(distance for distance, _ in kept.values())
    angles, places = {order[0]: 0.0}, {order[0]: (0.0, 0.0)}
    for distance in range(1, n_rings + 1):
        ring = [n for n in order if kept[n][0] == distance]
        wished = np.arange(len(ring)) * 2 * np.pi / max(len(ring), 1)
        if distance > 1:
            # Evenly, turned so that on the whole they are near their parents.
            towards = np.array([angles[kept[n][1]] for n in ring])
            turn = np.angle(np.exp(1j * (towards - wished)).sum())
            wished = wished + turn
        for n, angle in zip(ring, wished.tolist(), strict=True):
            angles[n] = angle
            radius = distance / n_rings
            places[n] = round(radius * math.cos(angle), 4), round(radius * math.sin(angle), 4)
    return places


def _edges(graph: Graph, order: list[int]) -> list[list[int]]:
    """Pairs of places in ``order`` that an edge joins, those near the middle first."""
    block = graph.adjacency[order][:, order].tocoo()
    ends = np.stack([block.row, block.col], axis=1)[block.row != block.col]
    pairs: list[list[int]] = np.unique(np.sort(ends, axis=1), axis=0)[:_MOST_EDGES].tolist()
    return pairs


def ways_to_labels(graph: Graph, node: int, labels: Mapping[int, str]) -> list[Way]:
    """For each class the nearest node that has it, and the way there; classes that cannot be
    reached have none. The nearest class comes first."""
    others = {n: name for n, name in labels.items() if n != node}
    if not others:
        return []
    # Every edge is there both ways round, so none has to be looked for against its direction.
    order, parents = breadth_first_order(graph.adjacency, node, directed=True)
    ways: dict[str, Way] = {}
    is_labelled = np.zeros(graph.n_nodes, dtype=bool)
    is_labelled[list(others)] = True
    for end in order[is_labelled[order]].tolist():
        name = others[end]
        if name in ways:
            continue
        way = [end]
        while way[-1] != node:
            way.append(int(parents[way[-1]]))
        ways[name] = Way(name, way[::-1])
    return list(ways.values())
