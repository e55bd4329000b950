"""S2: shortest shortest path (Dasarathy, Nowak and Zhu 2015).

Between every two nodes with different labels there is an edge whose ends differ. S2 asks about
the middle of the shortest path between any two such nodes, which halves the path, until the edge
is found; found edges are taken out, and it goes on with the next shortest path. Where no such
path is left, it asks at random.

Paths are measured in links. The paper's graphs have no weights, and ours are similarities, for
which there is no one way to make lengths of them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from nodegp.active.acquisition import Acquisition, Situation
from nodegp_paper.strategies.known import known_classes

__all__ = ["S2"]


@dataclass(frozen=True)
class S2(Acquisition):
    """Halve the shortest path between nodes with different labels.

    For each node, d1 is the distance to the nearest label and d2 to the nearest one that
    differs from it. The nodes with the smallest d1 + d2 are those on the shortest shortest
    paths; of them, the middle has the smallest difference of d1 and d2.

    A batch is chosen as if nobody could pass through a node once it is chosen, so that its nodes
    halve different paths.
    """

    name = "s2"
    score_means = (
        "links on the shortest path between different labels through the node; "
        "0: at random, because no such path is left"
    )

    def lacks(self, situation: Situation) -> str:
        return "" if situation.labelled.any() else "a label"

    def scores(self, situation: Situation) -> np.ndarray:
        """Minus the links on the path through the node, less a fraction for being off its middle;
        minus infinity where there is no path."""
        return _scores(_uncut(situation), *known_classes(situation))

    def rounds(self, situation: Situation) -> Generator[np.ndarray, int, None]:
        links, open_ = _uncut(situation), situation.candidates.copy()
        while True:
            scores = _scores(links, *known_classes(situation))
            if not np.isfinite(scores[open_]).any():
                scores[situation.rng.choice(np.flatnonzero(open_))] = 0.0
            node = yield scores
            open_[node] = False
            links = _only(links, (links.row != node) & (links.col != node))

    def picks(self, situation: Situation, n: int) -> list[tuple[int, float]]:
        return [(node, float(abs(np.ceil(score)))) for node, score in super().picks(situation, n)]


def _scores(links: sp.coo_array, nodes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    matrix = sp.csr_array(links)
    d1 = np.full(matrix.shape[0], np.inf)
    d2 = d1.copy()
    for code in np.unique(codes):
        d = dijkstra(matrix, indices=nodes[codes == code], unweighted=True, min_only=True)
        d2 = np.minimum(d2, np.maximum(d1, d))
        d1 = np.minimum(d1, d)
    scores = np.full(len(d1), -np.inf)
    on_path = np.isfinite(d2)
    d1, d2 = d1[on_path], d2[on_path]
    scores[on_path] = -(d1 + d2) - (d2 - d1) / (d1 + d2 + 1.0)
    scores[nodes] = -np.inf
    return scores


def _uncut(situation: Situation) -> sp.coo_array:
    """The graph less the edges whose ends are known to differ."""
    nodes, codes = known_classes(situation)
    links = sp.coo_array(situation.graph.adjacency)
    code = np.full(situation.graph.n_nodes, -1)
    code[nodes] = codes
    a, b = code[links.row], code[links.col]
    return _only(links, (a < 0) | (b < 0) | (a == b))


def _only(links: sp.coo_array, keep: np.ndarray) -> sp.coo_array:
    return sp.coo_array((links.data[keep], (links.row[keep], links.col[keep])), shape=links.shape)
