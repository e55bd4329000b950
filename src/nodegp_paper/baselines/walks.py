"""Random walks on a weighted graph: the sentences that skip-gram methods learn from.

All walkers take each step together, so a step is a few numpy operations whatever their number.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nodegp.graph import Graph

__all__ = ["Steps", "walk", "walks_from_all"]

# Second-order proposals that a walker may refuse before its step is drawn from all neighbours at
# once. With p and q between 1/4 and 4 at least one proposal in sixteen is accepted.
_ROUNDS = 100


def walk(
    graph: Graph,
    starts: np.ndarray,
    length: int,
    rng: np.random.Generator,
    p: float = 1.0,
    q: float = 1.0,
) -> np.ndarray:
    """One walk of ``length`` nodes from each start, shape (starts, length).

    A step goes to a neighbour with a chance in proportion to the edge's weight; from a node
    without neighbours it goes nowhere. With p or q other than one, walks are of second order
    (:meth:`Steps.second_order`), but for their first step, which has no past.
    """
    steps = Steps(graph)
    nodes = np.empty((length, len(starts)), dtype=np.int32)
    nodes[0] = starts
    for t in range(1, length):
        if t == 1 or p == q == 1:
            nodes[t] = steps.first_order(nodes[t - 1], rng)
        else:
            nodes[t] = steps.second_order(nodes[t - 1], nodes[t - 2], p, q, rng)
    return nodes.T


def walks_from_all(
    graph: Graph,
    per_node: int,
    length: int,
    rng: np.random.Generator,
    p: float = 1.0,
    q: float = 1.0,
) -> np.ndarray:
    """Walks from every node that has neighbours, once from each in a random order, then again."""
    connected = np.flatnonzero(np.diff(graph.adjacency.indptr))
    starts = np.concatenate([rng.permutation(connected) for _ in range(per_node)])
    return walk(graph, starts, length, rng, p, q)


class Steps:
    """Single steps of many walkers on one graph."""

    def __init__(self, graph: Graph):
        adjacency = graph.adjacency  # symmetric, its columns sorted, without loops or zeros
        self.n_nodes = graph.n_nodes
        self.neighbours, self.weights = adjacency.indices, adjacency.data
        self.first = adjacency.indptr.astype(np.int64)
        self.n_neighbours = np.diff(self.first)

    def first_order(self, at: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Where walkers at these nodes go next."""
        to = at.copy()
        moving = np.flatnonzero(self.n_neighbours[at])
        at = at[moving]
        drawn = rng.random(len(at))
        if self._all_weights_equal:
            edge = self.first[at] + (drawn * self.n_neighbours[at]).astype(np.int64)
        else:
            edge = np.searchsorted(self._running_share, self._rank[at] + drawn, side="right")
        # Rounding may lead one edge past the node's own.
        to[moving] = self.neighbours[np.clip(edge, self.first[at], self.first[at + 1] - 1)]
        return to

    def second_order(
        self, at: np.ndarray, before: np.ndarray, p: float, q: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Where walkers go next that came from the nodes ``before`` (node2vec, Section 3.2).

        The weight of an edge counts times :meth:`bias`. Steps of first order are proposed, and
        accepted with a chance in proportion to their bias; so no table of edges by edges is
        needed, and a hub costs no more than any node.
        """
        largest = max(1.0 / p, 1.0, 1.0 / q)
        to = np.empty_like(at)
        waiting = np.arange(len(at))
        for _ in range(_ROUNDS):
            proposed = self.first_order(at[waiting], rng)
            bias = self.bias(before[waiting], proposed, p, q)
            accepted = rng.random(len(waiting)) * largest < bias
            accepted |= self.n_neighbours[at[waiting]] <= 1  # there is no other way
            to[waiting[accepted]] = proposed[accepted]
            waiting = waiting[~accepted]
            if not len(waiting):
                return to
        to[waiting] = self._from_all_neighbours(at[waiting], before[waiting], p, q, rng)
        return to

    def bias(self, before: np.ndarray, to: np.ndarray, p: float, q: float) -> np.ndarray:
        """Alpha_pq: 1/p for going back, 1 for a neighbour of the node before, 1/q for the rest."""
        near = self.are_joined(before, to)
        return np.where(to == before, 1.0 / p, np.where(near, 1.0, 1.0 / q))

    def are_joined(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Whether there is an edge between the two nodes, pair by pair."""
        if not len(self._edges):
            return np.zeros(len(left), dtype=bool)
        pairs = left * np.int64(self.n_nodes) + right
        place = np.searchsorted(self._edges, pairs)
        return self._edges[np.minimum(place, len(self._edges) - 1)] == pairs

    def _from_all_neighbours(
        self, at: np.ndarray, before: np.ndarray, p: float, q: float, rng: np.random.Generator
    ) -> np.ndarray:
        """The same step without luck: from the weights of all neighbours of all walkers."""
        sizes = self.n_neighbours[at]
        start = np.cumsum(sizes) - sizes
        edge = np.arange(sizes.sum()) + np.repeat(self.first[at] - start, sizes)
        bias = self.bias(np.repeat(before, sizes), self.neighbours[edge], p, q)
        share = _shares(_shares(self.weights[edge], sizes) * bias, sizes)
        drawn = np.arange(len(at)) + rng.random(len(at))
        chosen = np.searchsorted(np.cumsum(share), drawn, side="right")
        return self.neighbours[edge[np.clip(chosen, start, start + sizes - 1)]]

    @cached_property
    def _all_weights_equal(self) -> bool:
        return not len(self.weights) or bool(self.weights.min() == self.weights.max())

    @cached_property
    def _rank(self) -> np.ndarray:
        """How many nodes with neighbours come before each node."""
        has_any = self.n_neighbours > 0
        return np.cumsum(has_any) - has_any

    @cached_property
    def _running_share(self) -> np.ndarray:
        """Sums over the edges of their share among their node's: each node adds one."""
        return np.cumsum(_shares(self.weights, self.n_neighbours[self.n_neighbours > 0]))

    @cached_property
    def _edges(self) -> np.ndarray:
        """Each edge as one number, in ascending order."""
        node = np.repeat(np.arange(self.n_nodes, dtype=np.int64), self.n_neighbours)
        return node * self.n_nodes + self.neighbours


def _shares(weights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Weights in consecutive groups, none empty, scaled to sum to one in each group."""
    start = np.cumsum(sizes) - sizes
    # Divided by the largest first, lest the sum of huge weights overflows.
    weights = weights / np.repeat(np.maximum.reduceat(weights, start), sizes)
    return weights / np.repeat(np.add.reduceat(weights, start), sizes)
