"""The loop: fit, choose a node, ask about it, fit again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from nodegp.active.acquisition import Acquisition, Situation
from nodegp.graph import Graph

Oracle = Callable[[int], Any]
_WHOLE = (int, np.integer)


@dataclass(frozen=True)
class Step:
    """One round: which nodes were asked about, what was answered, and the model after it."""

    asked: np.ndarray  # node numbers, in the order asked
    answers: list[Any]  # None where the oracle did not know
    labelled: np.ndarray  # (N,) bool, after this round
    model: Any  # fitted to all labels so far

    @property
    def n_labels(self) -> int:
        return int(self.labelled.sum())


class ActiveLearner:
    """Active learning with any model, acquisition function and oracle.

    Parameters
    ----------
    model : anything with ``fit(graph, y)`` and ``predict_proba(graph)``
        A fresh copy is fitted in each round; the one passed in is left alone.
    graph : Graph
    acquisition : Acquisition
    oracle : callable, or one label per node
        ``oracle(node)`` is the node's label, or None (NaN, -1) if the expert does not know:
        such a node is not asked about again.
    initial : node numbers or ids that are text, optional
        Asked about in the first round. Without any, the acquisition function chooses.
    candidates : node numbers, ids that are text, or a mask, optional
        Which nodes may be asked about; all by default. ``initial`` ones are asked about anyway.
    classes : sequence, optional
        All classes there are; handed to the model's ``fit``, which must then accept it.
    batch_size : int
        Nodes per round.
    random_state : int or Generator, optional
        For acquisition functions that draw.
    """

    def __init__(
        self,
        model: Any,
        graph: Graph,
        acquisition: Acquisition,
        oracle: Oracle | Sequence[Any] | np.ndarray,
        *,
        initial: Any = None,
        candidates: Any = None,
        classes: Sequence[Any] | None = None,
        batch_size: int = 1,
        random_state: int | np.random.Generator | None = None,
    ):
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.model, self.graph, self.acquisition = model, graph, acquisition
        self.oracle = oracle if callable(oracle) else _answers_from(oracle, graph.n_nodes)
        self.initial = None if initial is None else graph.numbers(initial)
        self.candidates = np.zeros(graph.n_nodes, dtype=bool)
        self.candidates[graph.numbers(candidates)] = True
        self.classes, self.batch_size = classes, batch_size
        self.rng = np.random.default_rng(random_state)
        self.answers: dict[int, Any] = {}  # by node, None where the oracle did not know

    @property
    def labelled(self) -> np.ndarray:
        """Which nodes have a label, shape (N,)."""
        mask = np.zeros(self.graph.n_nodes, dtype=bool)
        mask[[node for node, answer in self.answers.items() if answer is not None]] = True
        return mask

    def steps(self, n_labels: int | None = None) -> Iterator[Step]:
        """Rounds until there are ``n_labels`` labels or nobody is left to ask about.

        May be called again to go on. A round without any label so far asks on without a fit.
        """
        while (asked := self._next(n_labels)) is not None:
            answers = [self.oracle(int(node)) for node in asked]
            answers = [None if _is_missing(answer) else answer for answer in answers]
            self.answers |= dict(zip(asked.tolist(), answers, strict=True))
            if self.labelled.any():
                yield Step(asked, answers, self.labelled, self._fitted())

    def _next(self, n_labels: int | None) -> np.ndarray | None:
        """The nodes to ask about now, or None if that is all."""
        labelled = self.labelled
        wanted = self.batch_size
        if n_labels is not None:
            wanted = min(wanted, n_labels - int(labelled.sum()))
        candidates = self.candidates.copy()
        candidates[list(self.answers)] = False
        if wanted < 1 or not candidates.any():
            return None
        if not self.answers and self.initial is not None and len(self.initial):
            return self.initial
        situation = Situation(self.graph, labelled, candidates, self._last_model, self.rng, self.y)
        return self.acquisition.choose(situation, wanted)

    _last_model: Any = None

    def _fitted(self) -> Any:
        model = clone(self.model, safe=False)
        settings = {} if self.classes is None else {"classes": self.classes}
        self._last_model = model.fit(self.graph, self.y, **settings) or model
        return self._last_model

    @property
    def y(self) -> np.ndarray:
        """The labels so far, one entry per node: -1 for none among whole numbers, else None."""
        known = {node: answer for node, answer in self.answers.items() if answer is not None}
        whole = all(isinstance(answer, _WHOLE) for answer in known.values())
        y = np.full(self.graph.n_nodes, -1 if whole else None, dtype=np.int64 if whole else object)
        for node, answer in known.items():
            y[node] = answer
        return y


def _answers_from(labels: Sequence[Any] | np.ndarray, n_nodes: int) -> Oracle:
    if len(labels) != n_nodes:
        raise ValueError(f"the oracle has {len(labels)} labels for {n_nodes} nodes")
    return lambda node: labels[node]


def _is_missing(answer: Any) -> bool:
    """None, NaN and the whole number -1, as in a label vector."""
    return answer is None or answer != answer or (isinstance(answer, _WHOLE) and answer == -1)
