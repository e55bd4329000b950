"""S2: shortest shortest path (Dasarathy, Nowak and Zhu 2015).

Between every two nodes with different labels there is an edge whose ends differ. S2 asks about
the middle of the shortest path between any two such nodes, which halves the path, until the edge
is found; found edges are taken out, and it goes on with the next shortest path. Where no such
path is left, it asks at random.

Paths are measured in links. The paper's graphs have no weights, and ours are similarities, for
which there is no one way to make lengths of them.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from nodegp.active.acquisition import Acquisition, Situation, best


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
        nodes, codes = situation.classes()
        return self._scores(_without_found_edges(situation, nodes, codes), nodes, codes)

    def picks(self, situation: Situation, n: int) -> list[tuple[int, float]]:
        nodes, codes = situation.classes()
        links = _without_found_edges(situation, nodes, codes)
        picked: list[tuple[int, float]] = []
        open_ = situation.candidates.copy()
        for _ in range(n):
            scores = self._scores(links, nodes, codes)
            links_on_path = -np.ceil(scores)
            if np.isfinite(scores[open_]).any():
                node = best(scores, open_)
                picked.append((node, links_on_path[node]))
                links = _without_node(links, node)
            else:
                node = int(situation.rng.choice(np.flatnonzero(open_)))
                picked.append((node, 0.0))
            open_[node] = False
        return picked

    @staticmethod
    def _scores(links: sp.csr_array, nodes: np.ndarray, codes: np.ndarray) -> np.ndarray:
        d1 = np.full(links.shape[0], np.inf)
        d2 = d1.copy()
        for code in np.unique(codes):
            d = dijkstra(links, indices=nodes[codes == code], unweighted=True, min_only=True)
            d2 = np.minimum(d2, np.maximum(d1, d))
            d1 = np.minimum(d1, d)
        scores = np.full(links.shape[0], -np.inf)
        on_path = np.isfinite(d2)
        d1, d2 = d1[on_path], d2[on_path]
        scores[on_path] = -(d1 + d2) - (d2 - d1) / (d1 + d2 + 1.0)
        scores[nodes] = -np.inf
        return scores


def _without_found_edges(
    situation: Situation, nodes: np.ndarray, codes: np.ndarray
) -> sp.csr_array:
    """The graph less the edges whose ends are known to differ."""
    links = sp.coo_array(situation.graph.adjacency)
    code = np.full(situation.graph.n_nodes, -1)
    code[nodes] = codes
    a, b = code[links.row], code[links.col]
    kept = (a < 0) | (b < 0) | (a == b)
    return sp.csr_array((links.data[kept], (links.row[kept], links.col[kept])), shape=links.shape)


def _without_node(links: sp.csr_array, node: int) -> sp.csr_array:
    edges = sp.coo_array(links)
    kept = (edges.row != node) & (edges.col != node)
    return sp.csr_array((edges.data[kept], (edges.row[kept], edges.col[kept])), shape=links.shape)
