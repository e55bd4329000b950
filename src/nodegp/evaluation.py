"""Scores of predictions on labels that the model has not seen.

scikit-learn's splitters would cut nodes out of the graph. The functions here hide the labels of
held-out nodes and keep the graph whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import confusion_matrix

from nodegp import metrics
from nodegp.labels import as_labels, encode, is_labelled
from nodegp.model.calibration import in_sets, set_threshold

__all__ = ["Evaluation", "against", "cross_validate", "leave_one_out"]

# Every label's set comes from other labels: up to so many each is left out by itself, and more of
# them in so many parts, to save time.
_PARTS = 100


def _by_metric(metric: Callable[..., Any]) -> property:
    return property(
        lambda self: metric(self.y, self.proba, weights=self.weights), doc=metric.__doc__
    )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions for nodes whose labels are known, and their scores.

    Examples
    --------
    >>> import nodegp
    >>> data = nodegp.load_dataset("cora")
    >>> model = nodegp.GraphGPClassifier().fit(data.graph, data.labels("train"))
    >>> found = leave_one_out(model)
    >>> len(found.nodes), 0.7 < found.accuracy < 1
    (140, True)
    """

    how: str
    classes: np.ndarray
    nodes: np.ndarray  # (n,) node numbers
    y: np.ndarray  # (n,) positions among the classes
    proba: np.ndarray  # (n, C)
    sets: np.ndarray | None = None  # (n, C) which classes are in each prediction set
    # (n,) how many nodes each stands for, one on average; None for all alike
    weights: np.ndarray | None = None

    accuracy = _by_metric(metrics.accuracy)
    log_loss = _by_metric(metrics.log_loss)
    brier = _by_metric(metrics.brier)
    calibration_error = _by_metric(metrics.expected_calibration_error)

    @property
    def reliability(self) -> metrics.ReliabilityCurve:
        """Accuracy against confidence, in bins; all nodes have the same weight."""
        return metrics.reliability_curve(self.y, self.proba)

    @property
    def accuracy_error(self) -> float:
        """Standard error of the accuracy."""
        return _standard_error(self.accuracy, self._count)

    @property
    def _count(self) -> float:
        """How many nodes that count alike would say as much."""
        if self.weights is None:
            return float(len(self.y))
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    @property
    def gain(self) -> float:
        """By how much the log loss is below that of guessing by class frequencies, in nats."""
        return float(np.average(self._gains, weights=self.weights))

    @property
    def gain_error(self) -> float:
        """Standard error of that."""
        spread = np.average((self._gains - self.gain) ** 2, weights=self.weights)
        return float(np.sqrt(spread / max(self._count - 1.0, 1.0)))

    @property
    def _gains(self) -> np.ndarray:
        shares = np.bincount(self.y, self.weights, len(self.classes)) + 1.0
        guess = (shares / shares.sum())[self.y]
        of_truth = np.clip(self.proba[np.arange(len(self.y)), self.y], metrics.LOG_LOSS_EPS, 1.0)
        return np.log(of_truth) - np.log(guess)

    @property
    def confusion(self) -> np.ndarray:
        """(C, C) counts: true class by predicted class."""
        classes = range(len(self.classes))
        return confusion_matrix(self.y, self.proba.argmax(axis=1), labels=classes)

    @property
    def set_coverage(self) -> float:
        """Share of the prediction sets that contain the true class; NaN without sets."""
        if self.sets is None:
            return float("nan")
        return float(np.average(self.sets[np.arange(len(self.y)), self.y], weights=self.weights))

    @property
    def set_coverage_error(self) -> float:
        """Standard error of that share."""
        return _standard_error(self.set_coverage, self._count)

    @property
    def set_size(self) -> float:
        """Mean number of classes in a prediction set."""
        return float("nan") if self.sets is None else float(self.sets.sum(axis=1).mean())

    def answered(self, abstain_below: float) -> Evaluation | None:
        """The evaluation restricted to nodes whose most probable class reaches this probability."""
        sure = self.proba.max(axis=1) >= abstain_below
        if not sure.any():
            return None
        nodes, y, proba = self.nodes[sure], self.y[sure], self.proba[sure]
        sets = None if self.sets is None else self.sets[sure]
        weights = None if self.weights is None else self.weights[sure]
        return replace(self, nodes=nodes, y=y, proba=proba, sets=sets, weights=weights)

    def scores(self, abstain_below: float | None = None) -> dict[str, Any]:
        """The numbers, by name; with ``abstain_below`` also those of :meth:`answered`."""
        names = ["accuracy", "accuracy_error", "log_loss", "brier", "calibration_error"]
        names += ["gain", "gain_error"]
        if self.sets is not None:
            names += ["set_coverage", "set_coverage_error", "set_size"]
        scores = {"how": self.how, "n": len(self.y)} | {k: getattr(self, k) for k in names}
        if abstain_below is not None:
            part = self.answered(abstain_below)
            scores["answered"] = 0.0 if part is None else len(part.y) / len(self.y)
            for name in ("accuracy", "accuracy_error"):
                scores[f"answered_{name}"] = float("nan") if part is None else getattr(part, name)
        return scores


def leave_one_out(model: Any, coverage: float | None = None) -> Evaluation:
    """Leave-one-out evaluation of a fitted GraphGPClassifier, without a new fit.

    Each label is predicted by the posterior without it and without one label of each other class,
    so that its own class does not become the rarest. Labels are weighted by the number of nodes
    they represent. The weights of the views and the temperature are those without the label's
    influence. With ``coverage`` there are also prediction sets, each from the scores of the other
    labels.
    """
    y, proba = np.searchsorted(model.classes_, model.labels_), model.loo_proba_
    weights = model.sampling_weights_
    sets = None if coverage is None else _cross_sets(proba, y, coverage, weights)
    return Evaluation("leave-one-out", model.classes_, model.labelled_, y, proba, sets, weights)


def against(model: Any, y: Any, graph: Any = None, *, coverage: float | None = None) -> Evaluation:
    """Evaluate a fitted model on the nodes that have a label in ``y``.

    Training labels are not excluded: pass only labels that the model has not seen. With
    ``coverage`` there are also prediction sets, if the model has ``predict_set``.
    """
    y, labelled = _labelled(y, model.unlabelled)
    classes = set(model.classes_.tolist())
    if unknown := [v for v in dict.fromkeys(y[labelled].tolist()) if v not in classes]:
        raise ValueError(
            f"the label {unknown[0]!r} is not among the model's classes "
            f"({', '.join(map(str, model.classes_.tolist()[:10]))}): correct it, or leave it out"
        )
    targets = encode(y[labelled], model.classes_)[1]
    proba = model.predict_proba(graph, labelled)
    sets = None
    if coverage is not None and hasattr(model, "predict_set"):
        sets = model.predict_set(graph, labelled, coverage)
    return Evaluation("held-out nodes", model.classes_, labelled, targets, proba, sets)


def cross_validate(
    model: Any,
    graph: Any,
    y: Any,
    folds: int = 5,
    *,
    classes: Any = None,
    random_state: int | None = 0,
    coverage: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Cross-validation: fit a copy of the model with each fold's labels hidden, and predict them.

    Parameters
    ----------
    model : GraphGPClassifier, a baseline, or anything with ``fit(graph, y)`` and
        ``predict_proba(graph, nodes)``
    graph : Graph
    y : one entry per node
    folds : int
        Folds are stratified by class, and the same for every model with the same
        ``random_state``.
    classes : sequence, optional
        All classes, if some have no label yet.
    random_state : int or None
    coverage : float, optional
        Also prediction sets, if the model has ``predict_set``.
    progress : callable, optional
        Called with the number of folds done.
    """
    y, labelled = _labelled(y, getattr(model, "unlabelled", -1))
    classes, targets = encode(y[labelled], classes)
    proba = np.zeros((len(labelled), len(classes)))
    with_sets = coverage is not None and hasattr(model, "predict_set")
    sets = np.zeros(proba.shape, dtype=bool) if with_sets else None
    for done, (train, test) in enumerate(_folds(targets, folds, random_state), start=1):
        hidden = np.full(len(y), None, dtype=object)
        hidden[labelled[train]] = y[labelled[train]]
        fitted = clone(model)
        # A class whose only label is hidden exists all the same.
        names = {"classes": classes} if "classes" in signature(fitted.fit).parameters else {}
        fitted.fit(graph, hidden, **names)
        where = np.ix_(test, np.searchsorted(classes, fitted.classes_))
        proba[where] = fitted.predict_proba(graph, labelled[test])
        if sets is not None:
            sets[where] = fitted.predict_set(graph, labelled[test], coverage)
        if progress is not None:
            progress(done)
    return Evaluation(f"{folds} folds", classes, labelled, targets, proba, sets)


def _cross_sets(
    proba: np.ndarray, y: np.ndarray, coverage: float, weights: np.ndarray
) -> np.ndarray:
    """Prediction sets of labels by thresholds that these labels had no part in."""
    sets = np.zeros(proba.shape, dtype=bool)
    parts = np.arange(len(y)) % _PARTS
    for part in range(min(_PARTS, len(y))):
        here, rest = parts == part, parts != part
        threshold = set_threshold(proba[rest], y[rest], coverage, weights[rest])
        sets[here] = in_sets(proba[here], threshold)
    return sets


def _standard_error(share: float, count: float) -> float:
    return float(np.sqrt(share * (1 - share) / count))


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
