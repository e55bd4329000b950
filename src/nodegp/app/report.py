"""An evaluation as one self-contained page."""

from __future__ import annotations

from nodegp.app.evaluation import Comparison
from nodegp.report import Figure, Table, page, panels

__all__ = ["evaluation_page"]


def evaluation_page(comparison: Comparison, name: str) -> str:
    """HTML with scores, doubts, reliability and confusion; ``name`` is what was evaluated."""
    own, confusion = comparison.own, comparison.confusion()
    scores = Table(
        "scores",
        "Scores",
        ("method", "", "accuracy %", "s.e.", "log loss", "Brier score", "calibration error"),
        [
            (method, "", f"{100 * accuracy:.1f}", f"{100 * error:.1f}", *map("{:.3f}".format, rest))
            for method, accuracy, error, *rest in comparison.scores().rows
        ],
        (
            "Log loss in nats, Brier score from 0 to 2, calibration error over 15 bins of equal "
            "width: the smaller the better. s.e.: standard error of the accuracy.",
        ),
    )
    doubt = [
        Table(
            f"doubt-{number}",
            table.title,
            (table.columns[0], "", *table.columns[1:]),
            [(method, "", *map("{:.3f}".format, values)) for method, *values in table.rows],
        )
        for number, table in enumerate(comparison.doubt())
    ]
    errors = Table(
        "confusion",
        "Confusion",
        ("true class", "", *confusion.columns[1:]),
        [(true, "", *map(str, counts)) for true, *counts in confusion.rows],
        ("Rows: true classes; columns: predicted ones.",),
    )
    lead = f"{name}: {own.how}, {len(own.y):,} labels in {len(own.classes)} classes."
    figure = _reliability(comparison)
    return page("How good are the predictions?", lead, [scores, *doubt, figure, errors])


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
