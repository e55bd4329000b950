"""A model and others on the same labels: who predicts them how well, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nodegp.app.frontend import OptionError, Progress, plain
from nodegp.evaluation import Evaluation
from nodegp.graph import Graph
from nodegp.metrics import wilson_interval
from nodegp.plugins import baselines

__all__ = ["INTERVAL", "Comparison", "ScoreTable", "rivals"]

INTERVAL = "95 % interval"

# Columns of tables, and the scores that stand in them.
_SCORES = {
    "accuracy": "accuracy",
    "standard error": "accuracy_error",
    "log loss": "log_loss",
    "Brier score": "brier",
    "calibration error": "calibration_error",
}
_SETS = {
    "hold the true class": "set_coverage",
    "standard error": "set_coverage_error",
    "classes in a set": "set_size",
}
_ANSWERS = {
    "answered": "answered",
    "right among them": "answered_accuracy",
    "standard error": "answered_accuracy_error",
}


class ScoreTable(NamedTuple):
    """Numbers under headings; the first of every row is a name."""

    title: str
    columns: list[str]
    rows: list[list[Any]]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Evaluations on the same labels by name, this library's first."""

    evaluations: dict[str, Evaluation]
    coverage: float | None = None
    abstain_below: float | None = None

    @property
    def own(self) -> Evaluation:
        return next(iter(self.evaluations.values()))

    def to_dict(self) -> dict[str, Any]:
        return plain(
            {
                name: one.scores(self.abstain_below)
                | {"classes": one.classes, "confusion": one.confusion}
                | {"reliability": {k: v for k, v in vars(one.reliability).items() if k != "edges"}}
                for name, one in self.evaluations.items()
            }
        )

    def scores(self) -> ScoreTable:
        """Accuracy, log loss and so on."""
        how = self.own.how
        return self._table(f"{how[0].upper()}{how[1:]}, {len(self.own.y):,} labels", _SCORES)

    def doubt(self) -> list[ScoreTable]:
        """What was asked about prediction sets and about abstaining."""
        tables = []
        if self.coverage is not None:
            title = f"Prediction sets for a coverage of {self.coverage:g}"
            tables.append(self._table(title, _SETS))
        if self.abstain_below is not None:
            title = f"Answers with a probability of at least {self.abstain_below:g}"
            tables.append(self._table(title, _ANSWERS))
        return tables

    def confusion(self) -> ScoreTable:
        """Of this library: true classes by predicted ones."""
        names = [str(name) for name in self.own.classes]
        rows = [[name, *row] for name, row in zip(names, self.own.confusion.tolist(), strict=True)]
        return ScoreTable("Confusion", ["true \\ predicted", *names], rows)

    def reliability(self) -> ScoreTable:
        """Of this library: how often it is right when it is so sure."""
        curve = self.own.reliability
        rows = [
            [
                _range(curve.edges[i : i + 2]),
                curve.confidence[i],
                curve.accuracy[i],
                _range(curve.interval[i]),
                curve.count[i],
            ]
            for i in curve.count.nonzero()[0]
        ]
        return ScoreTable("Reliability", ["confidence", "mean", "right", INTERVAL, "nodes"], rows)

    def by_class(self) -> ScoreTable:
        """Of this library: how much of what it calls a class is one, and how much of a class it
        finds."""
        confusion = self.own.confusion
        right, counts = confusion.diagonal(), (confusion.sum(axis=0), confusion.sum(axis=1))
        rows = [
            [str(name), *(cell for count in counts for cell in _share(right[c], count[c]))]
            for c, name in enumerate(self.own.classes)
        ]
        heads = ["predicted", "precision", INTERVAL, "true", "recall", INTERVAL]
        return ScoreTable("Precision and recall", ["class", *heads], rows)

    def tables(self) -> list[ScoreTable]:
        """All of these."""
        return [
            *(self.scores(), *self.doubt(), self.by_class()),
            *(self.confusion(), self.reliability()),
        ]

    def _table(self, title: str, columns: dict[str, str]) -> ScoreTable:
        """Some scores of the methods that have them."""
        scores = {name: one.scores(self.abstain_below) for name, one in self.evaluations.items()}
        rows = [
            [name, *(numbers[score] for score in columns.values())]
            for name, numbers in scores.items()
            if numbers.keys() >= set(columns.values())
        ]
        return ScoreTable(title, ["method", *columns], rows)


def _share(part: int, count: int) -> list[Any]:
    """A number of nodes, the share of a part of them and its interval."""
    if not count:
        return [0, float("nan"), ""]
    return [count, part / count, _range(wilson_interval(part / count, count))]


def _range(ends: Any) -> str:
    return f"{ends[0]:.2f} to {ends[1]:.2f}"


def rivals(names: Sequence[str], seed: int, graph: Graph, progress: Progress) -> dict[str, Any]:
    """The methods to compare with, not yet fitted; without those that the graph is not enough for,
    which is said."""
    registry = baselines() if names else {}
    for name in names:
        if name not in registry:
            raise OptionError(
                f"`compare`: there is no {name!r}; choose among {', '.join(registry)}", "compare"
            )
    methods = {name: registry[name](random_state=seed, unlabelled=None) for name in names}
    for name in names:
        if not graph.n_features and getattr(methods[name], "needs_features", False):
            progress.note(f"{name} is left out: it needs features, and this graph has none")
            del methods[name]
    return methods
