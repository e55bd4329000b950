"""The figures of the experiments beyond the paper."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nodegp.report import Figure
from nodegp_paper.experiments.beyond import learning, splits
from nodegp_paper.experiments.beyond.models import MODELS, tempered_name
from nodegp_paper.experiments.beyond.results import by_model, differences
from nodegp_paper.experiments.drawing import legend, panels_of, pooled, standard_error
from nodegp_paper.experiments.published import DATASETS
from nodegp_paper.experiments.store import Record, select

# Colours that people with any colour vision can tell apart (Okabe and Ito).
_COLOURS = {
    "nodegp": "#0072B2",
    "GGP": "#56B4E9",
    "GCN": "#D55E00",
    "APPNP": "#E69F00",
    "LP": "#009E73",
    "Logistic": "#888888",
}
_STYLES = ("-", (0, (1, 3)), "--", "-.", ":", (0, (6, 2, 1, 2, 1, 2)))


def all_figures(records: list[Record]) -> Iterator[Figure]:
    """Every figure that these records have something for, one at a time."""
    for draw in (paired_differences, few_labels, reliability_diagrams, learning_curves):
        figure = draw(records)
        if figure is not None:
            yield figure


def paired_differences(records: list[Record]) -> Figure | None:
    """What every other model has over ours, split by split."""
    figure, panels = panels_of(select(records, task=splits.TASK), DATASETS)
    others: list[str] = []
    for ax, _, runs in panels:
        found = by_model(runs, MODELS)
        shown = {
            model: 100 * np.array(differences(found, model, lambda metrics: metrics["accuracy"]))
            for model in MODELS
            if model in found
        }
        shown = {model: apart for model, apart in shown.items() if len(apart)}
        others += shown
        for place, (model, apart) in enumerate(shown.items()):
            colour = _COLOURS[model.removesuffix("-X")]
            spread = place + np.linspace(-0.25, 0.25, len(apart))
            ax.scatter(apart, spread, s=10, color=colour, alpha=0.5, linewidths=0)
            error = 2 * float(standard_error(apart))
            ax.errorbar(apart.mean(), place, xerr=error, fmt="o", color="black", markersize=4)
        ax.axvline(0, color="0.5", linewidth=0.8)
        ax.set_yticks(range(len(shown)), list(shown))
        ax.invert_yaxis()
        ax.set_xlabel("accuracy less nodegp's, points")
    if not others:
        return None
    caption = (
        "Each small dot is one random split: the accuracy of the model less that of nodegp (of "
        "the models named -X: of nodegp-X) on the same nodes. Black: mean and two standard errors."
    )
    return Figure("beyond_differences", "Against nodegp, split by split", caption, figure)


def few_labels(records: list[Record]) -> Figure | None:
    """Accuracy against labels per class."""
    figure, panels = panels_of(select(records, task=splits.FEW_TASK), DATASETS)
    if not panels:
        return None
    for ax, _, runs in panels:
        sizes = sorted({run.spec.settings["per_class"] for run in runs})
        for model in MODELS:
            some = select(runs, model=model)
            points = {
                n: np.array([r.metrics["accuracy"] for r in some if _per_class(r) == n])
                for n in sizes
            }
            points = {n: accuracies for n, accuracies in points.items() if len(accuracies)}
            if points:
                ax.errorbar(
                    list(points),
                    [accuracies.mean() for accuracies in points.values()],
                    yerr=[float(standard_error(accuracies)) for accuracies in points.values()],
                    marker="o",
                    markersize=3,
                    color=_COLOURS[model],
                    label=model,
                )
        ax.set(xlabel="labels per class", ylabel="accuracy")
        ax.set_xscale("log")
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
    legend(figure)
    caption = "Means over random draws of training nodes; error bars: standard errors of the mean."
    return Figure("beyond_few_labels_curves", "Few labels: curves", caption, figure)


def reliability_diagrams(records: list[Record]) -> Figure | None:
    """Confidence against accuracy, on the random splits."""
    figure, panels = panels_of(select(records, task=splits.TASK), DATASETS)
    if not panels:
        return None
    for ax, _, runs in panels:
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        for model, found in by_model(runs, ("nodegp", "GGP", "GCN", "APPNP")).items():
            confidence, accuracy = pooled(found.values())
            own = model in _COLOURS
            ax.plot(
                confidence,
                accuracy,
                marker="o",
                markersize=3,
                linestyle="-" if own else "--",
                color=_COLOURS[model.removesuffix(tempered_name(""))],
                label=model,
            )
        ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    legend(figure)
    caption = (
        "How often the likeliest class is right, against the probability given to it; all splits "
        "pooled, 15 bins of equal width, bins with fewer than 10 predictions left out. Above the "
        "diagonal a model is too modest, below it too sure. Dashed: with a temperature fitted to "
        "the validation labels."
    )
    return Figure("beyond_reliability", "Reliability diagrams", caption, figure)


def learning_curves(records: list[Record]) -> Figure | None:
    """Active learning."""
    figure, panels = panels_of(select(records, task=learning.TASK), DATASETS)
    if not panels:
        return None
    strategies = list(dict.fromkeys(strategy for strategy, _ in learning.PAIRS))
    for ax, _, runs in panels:
        for strategy, model in learning.PAIRS:
            trials = select(runs, model=learning.pair_name(strategy, model))
            if not trials:
                continue
            curves = np.array([trial.metrics["accuracy_curve"] for trial in trials])
            labels, middle = np.arange(1, curves.shape[1] + 1), curves.mean(axis=0)
            error = standard_error(curves)
            ax.plot(
                labels,
                middle,
                color=_COLOURS[model],
                linestyle=_STYLES[strategies.index(strategy) % len(_STYLES)],
                linewidth=1.4,
                label=learning.pair_name(strategy, model),
            )
            ax.fill_between(
                labels, middle - error, middle + error, color=_COLOURS[model], alpha=0.15, lw=0
            )
        ax.set(xlabel="labels", ylabel="accuracy, unlabelled nodes")
    legend(figure)
    caption = (
        "Accuracy on all nodes still unlabelled, mean over trials with different first nodes; "
        "bands: standard errors of the mean."
    )
    return Figure("beyond_learning", "Learning curves", caption, figure)


def _per_class(record: Record) -> int:
    per_class: int = record.spec.settings["per_class"]
    return per_class
