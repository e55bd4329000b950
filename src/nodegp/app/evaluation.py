"""A model and others on the same labels: who predicts them how well, as data and as one
self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nodegp.app.frontend import OptionError, plain
from nodegp.evaluation import Evaluation
from nodegp.plugins import baselines
from nodegp.report import Figure, Table, page, panels

__all__ = ["Comparison", "ScoreTable", "evaluation_page", "rivals"]

# Columns of tables, and the scores that stand in them.
_SCORES = {
    "accuracy": "accuracy",
    "± s.e.": "accuracy_error",
    "log loss": "log_loss",
    "Brier": "brier",
    "calibration error": "calibration_error",
}
_SETS = {
    "hold the true class": "set_coverage",
    "± s.e.": "set_coverage_error",
    "classes in a set": "set_size",
}
_ANSWERS = {
    "answered": "answered",
    "right among them": "answered_accuracy",
    "± s.e.": "answered_accuracy_error",
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
            [f"{curve.edges[i]:.2f} to {curve.edges[i + 1]:.2f}", mean, curve.accuracy[i], count]
            for i, (mean, count) in enumerate(zip(curve.confidence, curve.count, strict=True))
            if count
        ]
        return ScoreTable("Reliability", ["confidence", "mean", "right", "nodes"], rows)

    def tables(self) -> list[ScoreTable]:
        """All of these."""
        return [self.scores(), *self.doubt(), self.confusion(), self.reliability()]

    def _table(self, title: str, columns: dict[str, str]) -> ScoreTable:
        """Some scores of the methods that have them."""
        scores = {name: one.scores(self.abstain_below) for name, one in self.evaluations.items()}
        rows = [
            [name, *(numbers[score] for score in columns.values())]
            for name, numbers in scores.items()
            if numbers.keys() >= set(columns.values())
        ]
        return ScoreTable(title, ["method", *columns], rows)


def rivals(names: Sequence[str], seed: int) -> dict[str, Any]:
    """The methods to compare with, not yet fitted."""
    registry = baselines() if names else {}
    for name in names:
        if name not in registry:
            raise OptionError(
                f"`compare`: there is no {name!r}; choose among {', '.join(registry)}", "compare"
            )
    return {name: registry[name](random_state=seed, unlabelled=None) for name in names}


def evaluation_page(comparison: Comparison, name: str) -> str:
    """HTML with scores, doubts, reliability and confusion; ``name`` is what was evaluated."""

    def table(name: str, source: ScoreTable, *notes: str) -> Table:
        # The second column is for words, as in the laboratory's reports.
        rows = [(head, "", *map(_cell, values)) for head, *values in source.rows]
        return Table(name, source.title, (source.columns[0], "", *source.columns[1:]), rows, notes)

    columns = ["method", "accuracy %", "s.e.", "log loss", "Brier score", "calibration error"]
    rows = [
        [method, f"{100 * accuracy:.1f}", f"{100 * error:.1f}", *rest]
        for method, accuracy, error, *rest in comparison.scores().rows
    ]
    how_to_read = (
        "Log loss in nats, Brier score from 0 to 2, calibration error over 15 bins of equal width: "
        "the smaller the better. s.e.: standard error of the accuracy."
    )
    parts: list[Table | Figure] = [
        table("scores", ScoreTable("Scores", columns, rows), how_to_read),
        *(table(f"doubt-{number}", one) for number, one in enumerate(comparison.doubt())),
        _reliability(comparison),
        table("confusion", comparison.confusion(), "Rows: true classes; columns: predicted ones."),
    ]
    own = comparison.own
    lead = f"{name}: {own.how}, {len(own.y):,} labels in {len(own.classes)} classes."
    return page("How good are the predictions?", lead, parts)


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _reliability(comparison: Comparison) -> Figure:
    drawing, (ax,) = panels(1)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    for method, one in comparison.evaluations.items():
        curve = one.reliability
        full = curve.count > 0
        ax.plot(
            curve.confidence[full], curve.accuracy[full], marker="o", markersize=3, label=method
        )
    ax.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    if len(comparison.evaluations) > 1:
        ax.legend(frameon=False)
    caption = (
        "How often the likeliest class is right, against the probability given to it. Above the "
        "diagonal a model is too modest, below it too sure."
    )
    return Figure("reliability", "Reliability", caption, drawing)
