"""What chooses the next node: a score for each, the highest of which is asked about.

A strategy is a frozen value, its settings. What it may use again for the next question is in
:attr:`Situation.memory`, which belongs to whoever asks: so learners can share a strategy, and one
that was pickled goes on where it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from nodegp.graph import Graph
from nodegp.plugins import load_components

__all__ = ["STRATEGIES", "Acquisition", "Choice", "Situation", "best", "strategies"]

# Strategies by name. A class is listed by being defined (see Acquisition): those of other packages
# are there once `strategies` was called.
STRATEGIES: dict[str, type[Acquisition]] = {}

# Scores this close, relative to the largest, are equal but for rounding.
_TIE = 1e-9


@dataclass(frozen=True)
class Situation:
    """What a strategy knows when it chooses the next node."""

    graph: Graph
    labelled: np.ndarray  # (N,) bool
    candidates: np.ndarray  # (N,) bool: may be asked about
    model: Any  # fitted to the labels so far; None before the first label
    rng: np.random.Generator
    y: np.ndarray | None = None  # (N,) the labels so far; read only where labelled
    # What strategies keep from one question to the next, each under a name of its own. With an
    # empty one the answers are the same, and take longer.
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """The chosen nodes, best first, with their scores."""

    nodes: np.ndarray  # (n,) node numbers
    scores: np.ndarray  # (n,) of each, at the moment it was chosen
    strategy: str  # who chose: not the one that was asked if that one lacked something
    score_means: str
    note: str = ""  # what was done in place of what was asked for, and why


@dataclass(frozen=True)
class Acquisition(ABC):
    """A strategy of active learning: a frozen dataclass, whose fields are its settings.

    A subclass with a ``name`` is registered in ``STRATEGIES``, where :func:`nodegp.active.suggest`
    and ``nodegp query`` find it. If something that a strategy needs is missing, such as a fitted
    model, :class:`SOPT` is used instead, and the :class:`Choice` has a note.
    """

    name: ClassVar[str] = ""
    score_means: ClassVar[str] = "how much the node is worth asking about"
    needs_model: ClassVar[bool] = False
    # Whether a batch takes neighbours of a chosen node only when no others are left.
    keeps_apart: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not (name := vars(cls).get("name", "")):
            return
        other = STRATEGIES.get(name, cls)
        if (other.__module__, other.__name__) != (cls.__module__, cls.__name__):
            raise ValueError(
                f"there is a strategy {name!r} already, {other.__module__}.{other.__name__}; give "
                f"{cls.__name__} another name"
            )
        STRATEGIES[name] = cls

    @abstractmethod
    def scores(self, situation: Situation) -> np.ndarray:
        """Scores of all nodes, shape (N,): higher is better, and only the order matters."""

    def lacks(self, situation: Situation) -> str:
        """What the strategy needs and is missing; empty if it can choose."""
        return "a fitted model" if self.needs_model and situation.model is None else ""

    def rounds(self, situation: Situation) -> Generator[np.ndarray, int, None]:
        """The scores for each choice of a batch; what was chosen is sent in before the next."""
        scores = self.scores(situation)
        while True:
            yield scores

    def picks(self, situation: Situation, n: int) -> list[tuple[int, float]]:
        """``n`` candidates and their scores, of which there are at least as many."""
        picked: list[tuple[int, float]] = []
        open_, apart = situation.candidates.copy(), situation.candidates.copy()
        rounds = self.rounds(situation)
        scores = next(rounds)
        while True:
            node = best(scores, apart if apart.any() else open_)
            picked.append((node, float(scores[node])))
            if len(picked) == n:
                return picked
            open_[node] = apart[node] = False
            if self.keeps_apart:
                apart[situation.graph.adjacency[[node]].indices] = False
            scores = rounds.send(node)

    def choose(self, situation: Situation, n: int = 1) -> np.ndarray:
        """The ``n`` candidates to ask about, best first; fewer if there are fewer.

        Ties go to the lower node number, so that choices are reproducible.
        """
        return self.explain_choice(situation, n).nodes

    def explain_choice(self, situation: Situation, n: int = 1) -> Choice:
        """The nodes of :meth:`choose` with their scores."""
        n = min(n, int(situation.candidates.sum()))
        if n > 0 and (lacking := self.lacks(situation)):
            choice = STRATEGIES["sopt"]().explain_choice(situation, n)
            return replace(choice, note=f"{self.name} needs {lacking}, so {choice.strategy} chose")
        picked = self.picks(situation, n) if n > 0 else []
        return Choice(
            np.array([node for node, _ in picked], dtype=np.int64),
            np.array([score for _, score in picked], dtype=np.float64),
            self.name or type(self).__name__,
            self.score_means,
        )


def strategies() -> dict[str, type[Acquisition]]:
    """Every strategy by its name, those of other packages (:mod:`nodegp.plugins`) too."""
    load_components()
    return STRATEGIES


def best(scores: np.ndarray, candidates: np.ndarray) -> int:
    """The candidate with the highest score; of equal ones the first."""
    among = np.where(candidates, scores, -np.inf)
    top = among.max()
    if top == -np.inf:  # nothing to tell them apart
        return int(np.argmax(candidates))
    return int(np.argmax(among >= top - _TIE * abs(top)))
