"""What chooses the next node: a score for each, the highest of which is asked about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from nodegp.graph import Graph
from nodegp.labels import encode

# Scores this close, relative to the largest, are equal but for rounding.
_TIE = 1e-9


@dataclass(frozen=True)
class Situation:
    """What is known when the next question is to be chosen."""

    graph: Graph
    labelled: np.ndarray  # (N,) bool
    candidates: np.ndarray  # (N,) bool: may be asked about
    model: Any  # fitted to the labels so far; None before the first label
    rng: np.random.Generator
    y: np.ndarray | None = None  # (N,) the labels so far; read only where labelled

    def classes(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the labelled nodes, and the class of each as a position."""
        nodes = np.flatnonzero(self.labelled)
        if not len(nodes):
            return nodes, nodes
        if self.y is None:
            raise ValueError("this strategy reads the labels themselves: give Situation a y")
        return nodes, encode(self.y[nodes], None)[1]


@dataclass(frozen=True)
class Choice:
    """What was chosen, best first, and why."""

    nodes: np.ndarray  # (n,) node numbers
    scores: np.ndarray  # (n,) of each, at the moment it was chosen
    strategy: str  # who chose: not the one that was asked if that one lacked something
    score_means: str
    note: str = ""  # what was done in place of what was asked for, and why


class Acquisition(ABC):
    """A way to choose nodes to ask about.

    Where a strategy lacks something that it needs, such as a fitted model, :class:`SOPT` chooses
    in its place, and the :class:`Choice` says so.
    """

    name: ClassVar[str] = ""
    score_means: ClassVar[str] = "how much the node is worth asking about"
    # Whether a batch takes neighbours of a chosen node only when no others are left.
    keeps_apart: ClassVar[bool] = False

    @abstractmethod
    def scores(self, situation: Situation) -> np.ndarray:
        """How much each node is worth asking about, shape (N,); only their order matters."""

    def choose(self, situation: Situation, n: int = 1) -> np.ndarray:
        """The ``n`` candidates to ask about, best first; fewer if there are fewer.

        Equal scores go to the lower node number, so that an answer can be repeated.
        """
        return self.explain_choice(situation, n).nodes

    def explain_choice(self, situation: Situation, n: int = 1) -> Choice:
        """The nodes that :meth:`choose` gives, each with the number that it was chosen by."""
        n = min(n, int(situation.candidates.sum()))
        if n > 0 and (lacking := self.lacks(situation)):
            from nodegp.active.sopt import SOPT  # a subclass of this one

            self._in_place = self._in_place or SOPT()
            choice = self._in_place.explain_choice(situation, n)
            return replace(choice, note=f"{self.name} needs {lacking}, so {choice.strategy} chose")
        picked = self.picks(situation, n) if n > 0 else []
        return Choice(
            np.array([node for node, _ in picked], dtype=np.int64),
            np.array([score for _, score in picked], dtype=np.float64),
            self.name or type(self).__name__,
            self.score_means,
        )

    _in_place: Acquisition | None = None

    def lacks(self, situation: Situation) -> str:
        """What the strategy needs and does not have; empty if it can choose."""
        return ""

    def picks(self, situation: Situation, n: int) -> list[tuple[int, float]]:
        """``n`` candidates and their scores, of which there are at least as many."""
        picked: list[tuple[int, float]] = []
        open_, apart = situation.candidates.copy(), situation.candidates.copy()
        scores = self.scores(situation)
        for _ in range(n):
            node = best(scores, apart if apart.any() else open_)
            picked.append((node, scores[node]))
            open_[node] = apart[node] = False
            if self.keeps_apart:
                apart[_neighbours(situation.graph, node)] = False
        return picked


def best(scores: np.ndarray, candidates: np.ndarray) -> int:
    """The candidate with the highest score; of equal ones the first."""
    among = np.where(candidates, scores, -np.inf)
    top = among.max()
    if top == -np.inf:  # nothing to tell them apart
        return int(np.argmax(candidates))
    return int(np.argmax(among >= top - _TIE * abs(top)))


def _neighbours(graph: Graph, node: int) -> np.ndarray:
    start, stop = graph.adjacency.indptr[node : node + 2]
    return graph.adjacency.indices[start:stop]


class Random(Acquisition):
    """Any candidate with equal chance: the paper's RAND."""

    name = "random"
    score_means = "a random number; every node has the same chance"

    def scores(self, situation: Situation) -> np.ndarray:
        return situation.rng.random(situation.graph.n_nodes)


class Degree(Acquisition):
    """The node with the largest degree, weights counted; a batch avoids neighbours."""

    name = "degree"
    score_means = "sum of the weights of the node's edges"
    keeps_apart = True

    def scores(self, situation: Situation) -> np.ndarray:
        return situation.graph.degrees
