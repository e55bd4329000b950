"""How good are the predictions? On labels that the model had not seen, one way or another.

scikit-learn's splitters cannot index a graph: to leave a node out of training is to hide its
label, not the node. So the helpers here mask labels and keep the graph whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone

from nodegp import metrics
from nodegp.labels import as_labels, encode, is_labelled


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions for nodes whose labels are known, and the scores that follow."""

    how: str
    classes: np.ndarray
    nodes: np.ndarray  # (n,) node numbers
    y: np.ndarray  # (n,) positions among the classes
    proba: np.ndarray  # (n, C)

    @property
    def accuracy(self) -> float:
        return metrics.accuracy(self.y, self.proba)

    @property
    def accuracy_error(self) -> float:
        """Standard error of the accuracy."""
        return float(np.sqrt(self.accuracy * (1 - self.accuracy) / len(self.y)))

    @property
    def log_loss(self) -> float:
        return metrics.log_loss(self.y, self.proba)

    @property
    def brier(self) -> float:
        return metrics.brier(self.y, self.proba)

    @property
    def calibration_error(self) -> float:
        return metrics.expected_calibration_error(self.y, self.proba)

    @property
    def confusion(self) -> np.ndarray:
        """(C, C) counts: true class by predicted class."""
        counts = np.zeros((len(self.classes),) * 2, dtype=np.int64)
        np.add.at(counts, (self.y, self.proba.argmax(axis=1)), 1)
        return counts

    @property
    def reliability(self) -> metrics.ReliabilityCurve:
        return metrics.reliability_curve(self.y, self.proba)

    def scores(self) -> dict[str, Any]:
        """The numbers, by name."""
        names = ("accuracy", "accuracy_error", "log_loss", "brier", "calibration_error")
        return {"how": self.how, "n": len(self.y)} | {name: getattr(self, name) for name in names}


def leave_one_out(model: Any) -> Evaluation:
    """Of a fitted GraphGPClassifier: what its posterior says of each label without that label.

    Costs nothing. Hyper-parameters and temperature have seen all labels, so with very few of
    them it is a little kind to the model.
    """
    y = np.searchsorted(model.classes_, model.labels_)
    return Evaluation("leave-one-out", model.classes_, model.labelled_, y, model.loo_proba_)


def against(model: Any, y: Any, graph: Any = None) -> Evaluation:
    """Of a fitted model, on the nodes that have a label in ``y``; others are left out.

    Labels that the model was fitted to are not left out: pass only those it has not seen.
    """
    y, labelled = _labelled(y, model.unlabelled)
    known = set(model.classes_.tolist())
    unknown = [v for v in dict.fromkeys(y[labelled].tolist()) if v not in known]
    if unknown:
        raise ValueError(
            f"labels {unknown[:5]} are not among the model's classes {model.classes_.tolist()}"
        )
    proba = model.predict_proba(graph, labelled)
    targets = encode(y[labelled], model.classes_)[1]
    return Evaluation("given labels", model.classes_, labelled, targets, proba)


def cross_validate(
    model: Any,
    graph: Any,
    y: Any,
    folds: int = 5,
    *,
    classes: Any = None,
    random_state: int | None = 0,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Fit a fresh copy of a model with each fold's labels hidden, and predict them.

    Parameters
    ----------
    model : GraphGPClassifier, a baseline, or anything with ``fit(graph, y)`` and
        ``predict_proba(graph, nodes)``
    graph : Graph
    y : one entry per node
    folds : int
        Every class is spread over the folds as evenly as can be. Draws are the same for every
        model that is given the same ``random_state``.
    classes : sequence, optional
        All classes there are, if some have no label yet.
    random_state : int or None
    progress : callable, optional
        Called with the number of folds done.
    """
    y, labelled = _labelled(y, getattr(model, "unlabelled", -1))
    classes, targets = encode(y[labelled], classes)
    proba = np.zeros((len(labelled), len(classes)))
    for done, (train, test) in enumerate(_folds(targets, folds, random_state), start=1):
        hidden = np.full(len(y), None, dtype=object)
        hidden[labelled[train]] = y[labelled[train]]
        fitted = clone(model)
        # A class whose only label is hidden exists all the same.
        known = {"classes": classes} if "classes" in signature(fitted.fit).parameters else {}
        fitted.fit(graph, hidden, **known)
        columns = np.searchsorted(classes, fitted.classes_)
        proba[np.ix_(test, columns)] = fitted.predict_proba(graph, labelled[test])
        if progress is not None:
            progress(done)
    return Evaluation(f"{folds} folds", classes, labelled, targets, proba)


def _labelled(y: Any, unlabelled: Any) -> tuple[np.ndarray, np.ndarray]:
    y = np.asarray(as_labels(y))
    labelled = np.flatnonzero(is_labelled(y, unlabelled))
    if not len(labelled):
        raise ValueError("y has no labels to evaluate on")
    return y, labelled


def _folds(
    targets: np.ndarray, folds: int, random_state: int | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positions to train on and to test on: labels are dealt out in turn, class by class."""
    if not 2 <= folds <= len(targets):
        raise ValueError(f"folds must lie in 2..{len(targets)}, the number of labels; got {folds}")
    shuffled = np.random.default_rng(random_state).permutation(len(targets))
    by_class = shuffled[np.argsort(targets[shuffled], kind="stable")]
    fold = np.empty(len(targets), dtype=int)
    fold[by_class] = np.arange(len(targets)) % folds
    for number in range(folds):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)
