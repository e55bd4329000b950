"""What chooses the next node: a score for each, the highest of which is asked about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodegp.graph import Graph

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


class Acquisition(ABC):
    """A way to choose nodes to ask about."""

    @abstractmethod
    def scores(self, situation: Situation) -> np.ndarray:
        """How much each node is worth asking about, shape (N,); only their order matters."""

    def choose(self, situation: Situation, n: int = 1) -> np.ndarray:
        """The ``n`` candidates to ask about, best first; fewer if there are fewer.

        Equal scores go to the lower node number, so that an answer can be repeated.
        """
        chosen: list[int] = []
        open_ = situation.candidates.copy()
        scores = self.scores(situation)
        for _ in range(min(n, int(open_.sum()))):
            chosen.append(best(scores, open_))
            open_[chosen[-1]] = False
        return np.array(chosen, dtype=np.int64)


def best(scores: np.ndarray, candidates: np.ndarray) -> int:
    """The candidate with the highest score; of equal ones the first."""
    among = np.where(candidates, scores, -np.inf)
    top = among.max()
    return int(np.argmax(among >= top - _TIE * abs(top)))


class Random(Acquisition):
    """Any candidate with equal chance: the paper's RAND."""

    def scores(self, situation: Situation) -> np.ndarray:
        return situation.rng.random(situation.graph.n_nodes)
