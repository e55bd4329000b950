"""Asking: the whole loop (fit, choose a node, ask about it, fit again), or a single question.

Here is what a strategy is given, and what it remembers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import getitem
from typing import Any

import numpy as np
from sklearn.base import clone

from nodegp.active.acquisition import STRATEGIES, Acquisition, Choice, Situation, strategies
from nodegp.graph import Graph
from nodegp.labels import as_labels, is_labelled
from nodegp.seeds import generator

__all__ = ["ActiveLearner", "Oracle", "Step", "suggest"]

Oracle = Callable[[int], Any]
_WHOLE = (int, np.integer)


@dataclass(frozen=True)
class Step:
    """One round: which nodes were asked about, what was answered, and the model after it."""

    nodes: np.ndarray  # node numbers, in the order of the questions
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
        A copy is fitted in each round; the model itself is not changed.
    graph : Graph
    acquisition : Acquisition, or the name of one, such as "hybrid"
    oracle : callable, or one label per node
        ``oracle(node)`` is the node's label, or None (NaN, -1) if the expert does not know:
        such a node is not asked about again.
    initial : node numbers or ids that are text, optional
        The nodes of the first round; by default the acquisition function chooses them.
    candidates : node numbers, ids that are text, or a mask, optional
        Which nodes may be asked about, in addition to ``initial``; all by default.
    classes : sequence, optional
        All classes; passed to the model's ``fit``, which must then accept it.
    batch_size : int
        Nodes per round.
    random_state : int or Generator, optional
        For acquisition functions with random choices.
    memory : dict, optional
        Cache of the acquisition functions, as in :func:`suggest`; it may be shared by learners on
        the same graph.

    Notes
    -----
    A learner holds everything that its next question depends on: it can be pickled and continued.

    Examples
    --------
    >>> import nodegp
    >>> from nodegp.active import SOPT
    >>> path = Graph.from_edges([[n, n + 1] for n in range(9)])
    >>> side = ["left"] * 5 + ["right"] * 5
    >>> model = nodegp.GraphGPClassifier()
    >>> learner = ActiveLearner(model, path, SOPT(), oracle=side, classes=["left", "right"])
    >>> [step.n_labels for step in learner.steps(n_labels=3)]
    [1, 2, 3]
    """

    def __init__(
        self,
        model: Any,
        graph: Graph,
        acquisition: Acquisition | str,
        oracle: Oracle | Sequence[Any] | np.ndarray,
        *,
        initial: Any = None,
        candidates: Any = None,
        classes: Sequence[Any] | None = None,
        batch_size: int = 1,
        random_state: int | np.random.Generator | None = None,
        memory: dict[str, Any] | None = None,
    ):
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.model, self.graph, self.acquisition = model, graph, _strategy(acquisition)
        self.oracle = oracle if callable(oracle) else _answers_from(oracle, graph.n_nodes)
        self.initial = None if initial is None else graph.numbers(initial)
        self.candidates = _mask(graph, candidates)
        self.classes, self.batch_size = classes, batch_size
        self.rng = np.random.default_rng(random_state)
        self.memory: dict[str, Any] = {} if memory is None else memory
        self.answers: dict[int, Any] = {}  # by node, None where the oracle did not know
        self.last_model: Any = None  # fitted to the answers so far

    @property
    def labelled(self) -> np.ndarray:
        """Which nodes have a label, shape (N,)."""
        return _mask(self.graph, list(self._labels()))

    def steps(self, n_labels: int | None = None) -> Iterator[Step]:
        """Rounds until there are ``n_labels`` labels or no candidates are left.

        Call it again to continue. As long as there is no label, rounds have no fitted model.
        """
        while (nodes := self._next(n_labels)) is not None:
            answers = [self.oracle(int(node)) for node in nodes]
            answers = [None if _is_missing(answer) else answer for answer in answers]
            self.answers |= dict(zip(nodes.tolist(), answers, strict=True))
            if self.labelled.any():
                model = clone(self.model, safe=False)
                settings = {} if self.classes is None else {"classes": self.classes}
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "every label is")  # as is usual at the start
                    self.last_model = model.fit(self.graph, self.y, **settings) or model
                yield Step(nodes, answers, self.labelled, self.last_model)

    def _next(self, n_labels: int | None) -> np.ndarray | None:
        """The nodes to ask about now, or None if that is all."""
        labelled, count = self.labelled, self.batch_size
        if n_labels is not None:
            count = min(count, n_labels - int(labelled.sum()))
        candidates = self.candidates.copy()
        candidates[list(self.answers)] = False
        if count < 1 or not candidates.any():
            return None
        if not self.answers and self.initial is not None and len(self.initial):
            return self.initial
        situation = Situation(
            self.graph, labelled, candidates, self.last_model, self.rng, self.y, self.memory
        )
        return self.acquisition.choose(situation, count)

    @property
    def y(self) -> np.ndarray:
        """The labels so far, one entry per node: -1 for none among whole numbers, else None."""
        labels = self._labels()
        whole = all(isinstance(label, _WHOLE) for label in labels.values())
        y = np.full(self.graph.n_nodes, -1 if whole else None, dtype=np.int64 if whole else object)
        for node, label in labels.items():
            y[node] = label
        return y

    def _labels(self) -> dict[int, Any]:
        return {node: answer for node, answer in self.answers.items() if answer is not None}


def _strategy(given: str | Acquisition) -> Acquisition:
    if isinstance(given, Acquisition):
        return given
    if given not in STRATEGIES and given not in strategies():
        raise ValueError(f"strategy must be one of {list(STRATEGIES)}, got {given!r}")
    return STRATEGIES[given]()


def suggest(
    graph: Graph,
    n: int = 1,
    strategy: str | Acquisition = "sopt",
    *,
    y: Any = None,
    model: Any = None,
    candidates: Any = None,
    unlabelled: Any = -1,
    random_state: Any = None,
    memory: dict[str, Any] | None = None,
) -> Choice:
    """The ``n`` nodes to ask about next, with their scores.

    Parameters
    ----------
    graph : Graph
    n : int
        How many; fewer if there are not enough candidates.
    strategy : a name in ``strategies()``, or an Acquisition
        hybrid, gp-vopt, gp-eer, entropy, margin and bald need ``model``, s2 and eer need ``y``;
        if it is missing, sopt is used, and the choice has a ``note``.
    y : one entry per node, optional
        The labels so far; ``unlabelled``, None or NaN for nodes without a label.
    model : fitted model, optional
    candidates : node numbers, ids that are text, or a mask, optional
        Which nodes may be asked about; by default all. Labelled nodes are never chosen.
    unlabelled : default -1
    random_state : int, Generator or RandomState, optional
    memory : dict, optional
        A cache: pass the same dict, empty at first, for all questions about a graph. It makes the
        next choice faster and does not change it.
    """
    strategy = _strategy(strategy)
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    labelled = np.zeros(graph.n_nodes, dtype=bool)
    if y is not None:
        y = np.asarray(as_labels(y))
        if y.shape != (graph.n_nodes,):
            raise ValueError(f"y has shape {y.shape} for {graph.n_nodes} nodes; give one per node")
        labelled = is_labelled(y, unlabelled)
    open_ = _mask(graph, candidates) & ~labelled
    memory = {} if memory is None else memory
    situation = Situation(graph, labelled, open_, model, generator(random_state), y, memory)
    return strategy.explain_choice(situation, n)


def _mask(graph: Graph, nodes: Any) -> np.ndarray:
    mask = np.zeros(graph.n_nodes, dtype=bool)
    mask[graph.numbers(nodes)] = True
    return mask


def _answers_from(labels: Sequence[Any] | np.ndarray, n_nodes: int) -> Oracle:
    if len(labels) != n_nodes:
        raise ValueError(f"the oracle has {len(labels)} labels for {n_nodes} nodes")
    return partial(getitem, labels)  # which can be pickled


def _is_missing(answer: Any) -> bool:
    """None, NaN and the whole number -1, as in a label vector."""
    return answer is None or answer != answer or (isinstance(answer, _WHOLE) and answer == -1)
