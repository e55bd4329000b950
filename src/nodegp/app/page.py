"""An evaluation as one self-contained page: what was scored, how well it did, where it failed."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

from nodegp import __version__
from nodegp.app.evaluation import Comparison, ScoreTable
from nodegp.app.project import Project
from nodegp.app.questions import labels_around
from nodegp.io.words import short
from nodegp.metrics import wilson_interval
from nodegp.report import Figure, Table, page, panels

__all__ = ["evaluation_page"]

_N_MISTAKES = 10
_HOW = {
    "leave-one-out": "leave-one-out: every label was predicted from the others, and had no "
    "influence on the weights of the views and the temperature that were used for it",
    "held-out nodes": "nodes whose labels were not used in the fit",
}
_ON_SCORES = (
    "The standard error is that of the accuracy. Log loss (in nats), Brier score (from 0 to 2) and "
    "calibration error (over 15 bins of equal width) are better the smaller they are."
)
_ON_INTERVALS = (
    "Wilson's 95 % intervals for the share of correct predictions; they are wide where there are "
    "few nodes."
)


def evaluation_page(comparison: Comparison, project: Project, name: str) -> str:
    """HTML of how good a project's model is; ``name`` is what its user calls it."""
    own = comparison.own
    low, high = wilson_interval(own.accuracy, len(own.y))
    lead = (
        f"{name} predicts {own.accuracy:.1%} of {len(own.y):,} unseen labels correctly "
        f"(95 % interval: {low:.1%} to {high:.1%})."
    )
    parts: list[Table | Figure] = [
        _facts(comparison, project, name),
        _table("scores", comparison.scores(), _ON_SCORES, title="Scores"),
        *(_table(f"doubt-{number}", one) for number, one in enumerate(comparison.doubt())),
        _reliability(comparison),
        _table("bins", comparison.reliability(), _ON_INTERVALS, title="Reliability in numbers"),
        _table(
            "by-class",
            comparison.by_class(),
            "Precision: share of the nodes predicted as the class that belong to it. Recall: share "
            "of the nodes of the class that are predicted as such.",
        ),
        _table("confusion", comparison.confusion(), "Rows: true classes; columns: predicted ones."),
        _mistakes(comparison, project),
    ]
    return page("How good are the predictions?", lead, parts)


def _table(name: str, source: ScoreTable, *notes: str, title: str = "") -> Table:
    rows = [tuple(map(_cell, row)) for row in source.rows]
    return Table(name, title or source.title, tuple(source.columns), rows, notes, n_words=1)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if np.isfinite(value) else "–"
    return str(value) if isinstance(value, str) else f"{value:,}"


def _facts(comparison: Comparison, project: Project, name: str) -> Table:
    """What the page is about."""
    info, how = project.info(), comparison.own.how
    counts = ", ".join(f"{label} {count:,}" for label, count in info["label_counts"].items())
    temperature = f"temperature {info['temperature']:.2f}, from leave-one-out predictions"
    refits = f"cross-validation with {how} of the labels"
    rows = {
        "model file": name,
        "graph": ", ".join(f"{info[kind]:,} {kind}" for kind in ("nodes", "edges", "features")),
        "features from": "; ".join(project.sources),
        "fitted to": f"{info['labels']:,} labels in {len(info['classes'])} classes: {counts}",
        "model": f"{info['recipe']} (filter {info['filter']}, kernel {info['kernel']}, likelihood "
        f"{info['likelihood']})",
        "calibration": "none" if info["temperature"] == 1 else temperature,
        "scored on": f"{len(comparison.own.y):,} labels; {_HOW.get(how, refits)}",
        "compared with": ", ".join(list(comparison.evaluations)[1:]),
        "evaluated": f"{date.today().isoformat()}, with nodegp {__version__}",
    }
    return Table("about", "What was evaluated", ("", ""), [row for row in rows.items() if row[1]])


def _mistakes(comparison: Comparison, project: Project) -> Table:
    """The most confident mistakes."""
    own, title = comparison.own, "The most confident mistakes"
    predicted, confidence = own.proba.argmax(axis=1), own.proba.max(axis=1)
    wrong = np.flatnonzero(predicted != own.y)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][:_N_MISTAKES]
    labels, shown = project.labels, project.shown()
    rows = []
    for i in worst:
        node, true = own.nodes[i], own.y[i]
        rows.append(
            (
                str(project.ids[node]),
                *(short(values[node]) for values in shown.values()),
                *(str(own.classes[c]) for c in (true, predicted[i])),
                labels_around(project.graph, node, labels),
                *(f"{p:.3f}" for p in (confidence[i], own.proba[i, true])),
            )
        )
    columns = ("node", *shown, "true", "predicted", "labels of its neighbours")
    note = f"{len(wrong):,} of {len(own.y):,} predictions are wrong"
    if len(wrong) > len(worst):
        note += f"; these are the {len(worst)} with the highest confidence"
    probabilities = ("probability", "of the true class")
    return Table("mistakes", title, (*columns, *probabilities), rows, (f"{note}.",), len(columns))


def _reliability(comparison: Comparison) -> Figure:
    drawing, (ax,) = panels(1)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    for method, one in comparison.evaluations.items():
        curve = one.reliability
        full = curve.count > 0
        x, y = curve.confidence[full], curve.accuracy[full]
        # Those of several methods would lie upon each other.
        lengths = abs(curve.interval[full].T - y) if one is comparison.own else None
        ax.errorbar(x, y, lengths, marker="o", markersize=3, linewidth=1, label=method)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(-0.02, 1.02))
    if len(comparison.evaluations) > 1:
        ax.legend(frameon=False, loc="lower right")
    caption = (
        "Accuracy of the most probable class against its probability (confidence), with 95 % "
        "intervals for nodegp. Above the diagonal a model is underconfident, below overconfident."
    )
    return Figure("reliability", "Reliability", caption, drawing)
