"""What a session knows of a graph after its answers, and which node it asks about next.

Everything here is a function of the state: the same answers give the same model and the same next
question, whenever the session was started. (Where a model is updated rather than fitted anew, it
ends at the same place up to rounding, with the recipe of the last fit.)
"""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from sklearn.base import clone

from nodegp.active import strategies, suggest
from nodegp.app.frontend import OptionError
from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.io.labels import targets_of
from nodegp.label.events import State

__all__ = ["Chosen", "Knowledge", "Learner"]

# Each of the first labels may change which recipe is best, so the model is fitted anew with each of
# so many, on graphs of so many nodes: it takes no longer than a glance. Else it is updated, and
# fitted anew when labels have doubled.
FIRST_LABELS = 50
FIT_ANEW = 5_000
# Labels by node, and how sure they are where that is less than certain.
Labelled = tuple[dict[int, str], dict[int, float]]
_COMES_BACK = 10  # questions after which one that was put off is asked again


@dataclass(frozen=True, eq=False)
class Knowledge:
    """A model and what it says of every node."""

    classes: list[str]  # names, in the order of the columns of ``proba``
    proba: np.ndarray | None = None  # (N, C); None before the first label
    model: GraphGPClassifier | None = None
    labels: dict[int, str] | None = None  # that it was fitted to
    confidences: dict[int, float] | None = None
    fitted_with: int = 0  # labels that the recipe was chosen by
    seconds: float = 0.0  # for the fit and its predictions

    def probability(self, node: int, name: str) -> float | None:
        """What the model gives a class of a node; None if it does not know."""
        if self.proba is None or name not in self.classes:
            return None
        return float(self.proba[node, self.classes.index(name)])

    def predicted(self) -> np.ndarray | None:
        """The likeliest class of each node, as names."""
        if self.proba is None:
            return None
        return np.array(self.classes, dtype=object)[self.proba.argmax(axis=1)]


@dataclass(frozen=True)
class Chosen:
    """A node to ask about, and why it is this one."""

    node: int
    why: str  # strategy, random, request, later
    strategy: str  # the name of the one that chose, if one did
    blind: bool  # no suggestion is shown with it, even where they are wished
    seconds: float = field(default=0.0, compare=False)


class _Remembering:
    """A model that has said what it thinks of every node of its graph, and need not work it out
    again for a strategy."""

    def __init__(self, model: GraphGPClassifier, proba: np.ndarray):
        self._model, self._proba = model, proba

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def predict_proba(self, X: Any = None, nodes: Any = None) -> np.ndarray:
        if nodes is None and (X is None or X is self._model.graph_):
            return self._proba
        return self._model.predict_proba(X, nodes)


class Learner:
    """Fits models to states, and chooses questions by them.

    Parameters
    ----------
    graph : Graph
    prototype : the classifier to fit, which stays as it is
    fitted : the same, fitted to the labels that were there before, if there were any
    kind : int or str, what classes are called by in the model
    """

    def __init__(
        self,
        graph: Graph,
        prototype: GraphGPClassifier,
        fitted: GraphGPClassifier | None = None,
        kind: type = str,
        strategy: str = "hybrid",
        random_share: float = 0.1,
        seed: int = 0,
    ):
        if strategy not in strategies():
            names = ", ".join(strategies())
            raise OptionError(f"`strategy` must be one of {names}, got {strategy!r}", "strategy")
        self.graph, self.prototype, self.kind = graph, prototype, kind
        self.strategy, self.random_share, self.seed = strategy, random_share, seed
        self._fitted = fitted
        self._memory: dict[str, Any] = {}

    def prepare(self, state: State) -> None:
        """Do what needs no label before the first is there: nobody waits for it then. That is what
        a fit needs, and what the strategy plans with, which a model of any label tells."""
        self.prototype.prepare(self.graph, 1.0 / len(state.classes))
        if not strategies()[self.strategy].needs_model:
            return
        model = self._model(state, {0: next(iter(state.classes))}, {}, None)[0]
        suggest(self.graph, 1, self.strategy, model=model, memory=self._memory)

    def anticipate(self, knowledge: Knowledge, node: int) -> None:
        """Do what learning from a label of this node takes whatever the label is."""
        if knowledge.model is not None:
            knowledge.model.model_.anticipate(node)

    def value(self, name: str) -> Any:
        """What a class is called in the model."""
        return self.kind(name)

    def learn(self, state: State, before: Knowledge | None = None) -> Knowledge:
        """What is known after the answers of a state; ``before`` is what was known until then."""
        labels, confidences, started = state.labels, state.confidences, time.perf_counter()
        if not labels:
            return Knowledge(list(state.classes), labels={}, confidences={})
        model, fitted_with = self._model(state, labels, confidences, before)
        proba = model.predict_proba()
        names = [str(value) for value in model.classes_.tolist()]
        seconds = time.perf_counter() - started
        return Knowledge(names, proba, model, labels, confidences, fitted_with, seconds)

    def _model(
        self,
        state: State,
        labels: dict[int, str],
        confidences: dict[int, float],
        before: Knowledge | None,
    ) -> tuple[GraphGPClassifier, int]:
        """A model of these labels, and how many of them its recipe was chosen by: the first ones,
        so that a session that starts again finds the same."""
        size = self._fit_size(len(labels), len(state.given))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "every label is")  # as is usual at the start
            if (
                size < len(labels)
                and before is not None
                and before.model is not None
                and before.fitted_with == size
                and sorted(before.classes) == sorted(state.classes)
            ):
                known = before.labels or {}, before.confidences or {}
                return self._updated(before.model, known, (labels, confidences)), size
            first = dict(islice(labels.items(), size))
            sure = {node: share for node, share in confidences.items() if node in first}
            model = self._as_given(state, first, sure) or self._anew(state, first, sure)
            return self._updated(model, (first, sure), (labels, confidences)), size

    def _fit_size(self, n_labels: int, n_given: int) -> int:
        """How many of so many labels the recipe is chosen by."""
        is_small = self.graph.n_nodes <= FIT_ANEW
        if is_small and n_labels <= FIRST_LABELS:
            return n_labels
        size = max(n_given, FIRST_LABELS if is_small else 1)
        while 2 * size <= n_labels:
            size *= 2
        return min(size, n_labels)

    def _as_given(
        self, state: State, labels: dict[int, str], confidences: dict[int, float]
    ) -> GraphGPClassifier | None:
        """The model that was there before, if these are its labels."""
        model = self._fitted
        if model is None:
            return None
        nodes = model.labelled_.tolist()
        known = dict(zip(nodes, map(str, model.labels_.tolist()), strict=True))
        sure = dict(zip(nodes, model.label_confidence_.tolist(), strict=True))
        sure = {node: share for node, share in sure.items() if share < 1}
        names = sorted(map(str, model.classes_.tolist()))
        is_same = (known, sure, names) == (labels, confidences, sorted(state.classes))
        return model if is_same else None

    def _anew(
        self, state: State, labels: dict[int, str], confidences: dict[int, float]
    ) -> GraphGPClassifier:
        y = np.full(self.graph.n_nodes, None, dtype=object)
        for node, name in labels.items():
            y[node] = self.value(name)
        targets, unlabelled = targets_of(y)
        sure = None
        if confidences:
            sure = np.ones(self.graph.n_nodes)
            sure[list(confidences)] = list(confidences.values())
        model = clone(self.prototype).set_params(unlabelled=unlabelled)
        classes = sorted(map(self.value, state.classes))
        return model.fit(self.graph, targets, label_confidence=sure, classes=classes)

    def _updated(
        self, model: GraphGPClassifier, before: Labelled, now: Labelled
    ) -> GraphGPClassifier:
        """A model of some labels with those that have changed since."""
        (was, was_sure), (labels, sure) = before, now
        changed = sorted(
            node
            for node in labels.keys() | was.keys()
            if labels.get(node) != was.get(node) or sure.get(node, 1.0) != was_sure.get(node, 1.0)
        )
        if not changed:
            return model
        model = copy.copy(model)  # what it was fitted to is never changed, but replaced
        values = [self.value(labels[n]) if n in labels else model.unlabelled for n in changed]
        kind = object if self.kind is str else None
        shares = [sure.get(node, 1.0) for node in changed]
        return model.update(np.array(changed), np.array(values, kind), label_confidence=shares)

    # --- the next question ----------------------------------------------------------------------

    def choose(self, state: State, knowledge: Knowledge, skip: int | None = None) -> Chosen | None:
        """The node to ask about next; None if nobody is left. ``skip`` is not asked about unless
        it is the only one."""
        started = time.perf_counter()
        rng = np.random.default_rng([self.seed, state.n_questions])
        is_random, blind = rng.random() < self.random_share, bool(rng.random() < 0.1)
        if (asked := self._asked_for(state)) is not None:
            return Chosen(*asked, "", blind)
        open_ = np.ones(self.graph.n_nodes, dtype=bool)
        labels = state.labels
        open_[list(labels)] = False
        open_[list(state.marks)] = False
        if skip is not None and open_.sum() > 1:
            open_[skip] = False
        candidates = np.flatnonzero(open_)
        if not len(candidates):
            put_off = [m.node for m in state.marks.values() if m.kind == "later"]
            return Chosen(put_off[0], "later", "", blind) if put_off else None
        if is_random:
            return Chosen(int(rng.choice(candidates)), "random", "", True)
        model: Any = knowledge.model
        if model is not None and knowledge.proba is not None:
            model = _Remembering(model, knowledge.proba)
        y = np.full(self.graph.n_nodes, None, dtype=object)
        for node, name in labels.items():
            y[node] = self.value(name)
        choice = suggest(
            *(self.graph, 1, self.strategy),
            y=y if labels else None,
            model=model,
            candidates=candidates,
            unlabelled=None,
            random_state=rng,
            memory=self._memory,
        )
        seconds = time.perf_counter() - started
        return Chosen(int(choice.nodes[0]), "strategy", choice.strategy, blind, seconds)

    def _asked_for(self, state: State) -> tuple[int, str] | None:
        """A node whose turn it is, whatever a strategy says."""
        if state.requests:
            return state.requests[0], "request"
        for node in state.history:
            mark = state.marks[node]
            if mark.kind == "later" and state.n_questions - mark.order > _COMES_BACK:
                return node, "later"
        return None
