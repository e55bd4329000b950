"""The figures: Figure 2, reliability diagrams, the paper's claims, and those beyond it.

Each has one panel to a data set. Where there are no runs to show, there is no figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from nodegp.report import Figure, panels
from nodegp_paper.experiments import published
from nodegp_paper.experiments.models import LINEAR_GGP
from nodegp_paper.experiments.results import (
    Entry,
    by_dataset,
    by_size,
    entries,
    percent,
    pooled_reliability,
    standard_errors,
    tempered_name,
)
from nodegp_paper.experiments.store import Record, select
from nodegp_paper.experiments.tasks import active, few_labels, hubs, semi_supervised, splits, steps

__all__ = [
    "few_labels_beyond_curves",
    "few_labels_curves",
    "hub_influence",
    "learning_curves",
    "learning_curves_beyond",
    "optimiser_steps",
    "paired_differences",
    "reliability_beyond_diagrams",
    "reliability_diagrams",
]

# Colours that people with any colour vision can tell apart (Okabe and Ito).
_BLUE, _SKY, _RED, _GREEN = "#0072B2", "#56B4E9", "#D55E00", "#009E73"
_PAPER = {"GGP": _BLUE, "GGP-X": _SKY, LINEAR_GGP: _SKY, "GCN": _RED, "LP": _GREEN}
_BEYOND = {
    "nodegp": _BLUE,
    "GGP": _SKY,
    "GCN": _RED,
    "APPNP": "#E69F00",
    "LP": _GREEN,
    "Logistic": "#888888",
}
_STYLES = ("-", (0, (1, 3)), "--", "-.", ":", (0, (6, 2, 1, 2, 1, 2)))
_DRAWS = "Means over random draws of training nodes; error bars: standard errors of the mean."
_DIAGRAM = (
    "Accuracy of the predicted class against its probability; all {what} pooled, 15 bins of equal "
    "width, bins with fewer than 10 predictions left out. Above the diagonal a model is "
    "underconfident, below it overconfident. "
)


# --- active learning ------------------------------------------------------------------------------


def learning_curves(records: list[Record]) -> Figure | None:
    """Figure 2."""
    drawing, plots = _panels(records, active.TASK.name)
    counts: set[int] = set()
    for ax, _, runs in plots:
        for learner in published.ALC:
            acquisition, model = learner.split("-")
            for engine in ("paper", "default") if model == "GGP" else ("",):
                for entry in by_dataset(runs, active.TASK.name, learner, engine):
                    labels, curves = _accuracy_curves(entry.runs)
                    counts.add(len(curves))
                    ax.errorbar(
                        labels,
                        curves.mean(0),
                        yerr=standard_errors(curves),
                        label=entry.name,
                        linestyle="-" if acquisition == "SOPT" else "--",
                        color=_PAPER["GGP-X" if engine == "default" else model],
                        linewidth=1.4,
                        elinewidth=0.6,
                    )
        ax.set(xlabel="labels", ylabel="accuracy, unlabelled nodes")
    trials_each = " or ".join(map(str, sorted(counts)))
    caption = (
        f"Accuracy on all nodes still unlabelled, mean over {trials_each} trials, which differ in "
        "their first node. Error bars: standard errors of the mean. Solid: SOPT; dashed: RAND."
    )
    return _figure("figure2", "Figure 2: learning curves", caption, drawing)


def learning_curves_beyond(records: list[Record]) -> Figure | None:
    """Active learning with more strategies."""
    drawing, plots = _panels(records, active.BEYOND.name)
    strategies = list(dict.fromkeys(strategy for strategy, _ in active.PAIRS))
    for ax, _, runs in plots:
        for strategy, model in active.PAIRS:
            name = active.pair_name(strategy, model)
            trials = select(runs, model=name)
            if not trials:
                continue
            labels, curves = _accuracy_curves(trials)
            middle, error = curves.mean(axis=0), standard_errors(curves)
            style = _STYLES[strategies.index(strategy) % len(_STYLES)]
            colour = _BEYOND[model]
            ax.plot(labels, middle, color=colour, linestyle=style, linewidth=1.4, label=name)
            ax.fill_between(labels, middle - error, middle + error, color=colour, alpha=0.15, lw=0)
        ax.set(xlabel="labels", ylabel="accuracy, unlabelled nodes")
    caption = (
        "Accuracy on all nodes still unlabelled, mean over trials with different first nodes; "
        "bands: standard errors of the mean."
    )
    return _figure("beyond_learning", "Learning curves", caption, drawing)


def _accuracy_curves(trials: list[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of labels, and the accuracy of each trial at each."""
    curves = np.array([trial.metrics["accuracy_curve"] for trial in trials])
    return np.arange(1, curves.shape[1] + 1), curves


# --- reliability ----------------------------------------------------------------------------------


def reliability_diagrams(records: list[Record]) -> Figure | None:
    """Confidence against accuracy, of the models of Table 1."""
    drawing, plots = _panels(records, semi_supervised.TASK.name)
    for ax, _, runs in plots:
        _diagonal(ax)
        for row in semi_supervised.rows():
            if row.model not in _PAPER:  # all of them would be unreadable
                continue
            marker, style = ("s", "--") if row.engine == "default" else ("o", "-")
            for entry in by_dataset(runs, semi_supervised.TASK.name, row.model, row.engine):
                _reliability(ax, entry, _PAPER[row.model], marker, style)
    caption = _DIAGRAM.format(what="restarts") + "The paper's model (no calibration)."
    return _figure("reliability", "Reliability diagrams", caption, drawing)


def reliability_beyond_diagrams(records: list[Record]) -> Figure | None:
    """Confidence against accuracy, on the random splits."""
    drawing, plots = _panels(records, splits.RANDOM.name)
    for ax, _, runs in plots:
        _diagonal(ax)
        for entry in entries(runs, ("nodegp", "GGP", "GCN", "APPNP")):
            style = "-" if entry.name in _BEYOND else "--"
            colour = _BEYOND[entry.name.removesuffix(tempered_name(""))]
            _reliability(ax, entry, colour, "o", style)
    caption = (
        _DIAGRAM.format(what="splits")
        + "Dashed: with a temperature fitted to the validation labels."
    )
    return _figure("beyond_reliability", "Reliability diagrams", caption, drawing)


def _diagonal(ax: Any) -> None:
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))


def _reliability(ax: Any, entry: Entry, colour: str, marker: str, style: str) -> None:
    confidence, accuracy = pooled_reliability(entry.runs)
    ax.plot(
        confidence,
        accuracy,
        marker=marker,
        markersize=3,
        linestyle=style,
        color=colour,
        label=entry.name,
    )


# --- few labels -----------------------------------------------------------------------------------


def few_labels_curves(records: list[Record]) -> Figure | None:
    """Claim: few labels."""
    drawing, plots = _panels(records, few_labels.TASK.name)
    for panel in plots:
        _few(panel, {model: _PAPER[model] for model in few_labels.MODELS}, "test accuracy", base=2)
    return _figure("claim_few_labels", "Data efficiency", _DRAWS, drawing)


def few_labels_beyond_curves(records: list[Record]) -> Figure | None:
    """Accuracy against labels per class."""
    drawing, plots = _panels(records, splits.FEW.name)
    for panel in plots:
        _few(panel, _BEYOND, "accuracy", base=10)
    return _figure("beyond_few_labels_curves", "Few labels: curves", _DRAWS, drawing)


def _few(panel: _Panel, colours: Mapping[str, str], ylabel: str, base: int) -> None:
    """Accuracy against labels per class, a curve to a model."""
    ax, _, runs = panel
    for model, colour in colours.items():
        points = {
            n: np.array([run.metrics["accuracy"] for run in draws])
            for n, draws in by_size(select(runs, model=model)).items()
        }
        if points:
            ax.errorbar(
                list(points),
                [accuracies.mean() for accuracies in points.values()],
                yerr=[float(standard_errors(accuracies)) for accuracies in points.values()],
                marker="o",
                markersize=3,
                color=colour,
                linestyle="--" if "linear" in model else "-",
                label=model,
            )
    sizes = list(by_size(runs))
    ax.set(xlabel="labels per class", ylabel=ylabel)
    ax.set_xscale("log", base=base)
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()


# --- others ---------------------------------------------------------------------------------------


def optimiser_steps(records: list[Record]) -> Figure | None:
    """Claim: no early stopping."""
    drawing, plots = _panels(records, steps.TASK.name)
    if not plots:
        return None
    for ax, _, runs in plots:
        twin = ax.twinx()
        for run in runs:
            ax.plot(run.metrics["steps"], run.metrics["elbo_curve"], color="0.6", linewidth=1)
            twin.plot(run.metrics["steps"], run.metrics["accuracy_curve"], color=_PAPER["GGP"])
        ax.set(xlabel="steps of Adam", ylabel="ELBO (grey)")
        twin.set_ylabel("test accuracy (blue)", color=_PAPER["GGP"])
        twin.spines["top"].set_visible(False)
    curves = [run.metrics["accuracy_curve"] for *_, runs in plots for run in runs]
    last = [curve[-1] - max(curve) for curve in curves]
    n_steps = max(run.metrics["steps"][-1] for *_, runs in plots for run in runs)
    caption = (
        f"The paper's engine, run for {n_steps:,} steps; each line is one restart. Early stopping "
        "at the best test accuracy, which is unknown in practice, would have gained "
        f"{-100 * float(np.mean(last)):.1f} points on average (at most {-100 * min(last):.1f}) "
        "over running to the end."
    )
    return Figure("claim_steps", "No early stopping is needed", caption, drawing)


def hub_influence(records: list[Record]) -> Figure | None:
    """Claim: hubs."""
    drawing, plots = _panels(records, hubs.TASK.name)
    correlations = []
    for ax, dataset, runs in plots:
        degree, lost, moved = (
            np.concatenate([run.metrics[name] for run in runs])
            for name in ("degree", "accuracy_lost", "probability_moved")
        )
        correlation = np.mean([run.metrics["rank_correlation"] for run in runs])
        correlations.append(f"{dataset} {correlation:.2f}")
        ax.scatter(degree, 100 * lost, s=14, color=_RED, label="accuracy lost, points")
        ax.scatter(degree, 100 * moved, s=14, marker="x", color=_BLUE, label="probability moved, %")
        ax.axhline(0, color="0.7", linewidth=0.8)
        ax.set(xlabel="degree of the mislabelled node", xscale="log")
    caption = (
        "One more node is labelled, once correctly and once wrongly. Shown is what the wrong label "
        "costs on the public test nodes, against the degree of its node: accuracy lost, and "
        "probability moved (mean total variation distance between the two predictions). "
        "Rank correlation of degree and probability moved: " + ", ".join(correlations) + "."
    )
    return _figure("claim_hubs", "The influence of hubs", caption, drawing)


def paired_differences(records: list[Record]) -> Figure | None:
    """Accuracy of every other model minus ours, split by split."""
    drawing, plots = _panels(records, splits.RANDOM.name)
    for ax, _, runs in plots:
        apart = {
            entry.name: np.array(entry.differences(percent))
            for entry in entries(runs, list(splits.MODELS))
            if entry.name in splits.MODELS and entry.differences(percent)
        }
        for place, (model, points) in enumerate(apart.items()):
            colour = _BEYOND[model.removesuffix("-X")]
            beside = place + np.linspace(-0.25, 0.25, len(points))
            ax.scatter(points, beside, s=10, color=colour, alpha=0.5, linewidths=0)
            error = 2 * float(standard_errors(points))
            ax.errorbar(points.mean(), place, xerr=error, fmt="o", color="black", markersize=4)
        ax.axvline(0, color="0.5", linewidth=0.8)
        ax.set_yticks(range(len(apart)), list(apart))
        ax.invert_yaxis()
        ax.set_xlabel("accuracy minus nodegp's, points")
    if not any(ax.collections for ax, *_ in plots):
        return None
    caption = (
        "Each small dot is one random split: the accuracy of the model minus that of nodegp "
        "(for models named -X: of nodegp-X) on the same nodes. Black: mean and two standard errors."
    )
    return Figure("beyond_differences", "Against nodegp, split by split", caption, drawing)


# --- panels ---------------------------------------------------------------------------------------


class _Panel(NamedTuple):
    ax: Any
    dataset: str
    runs: list[Record]


def _panels(records: Iterable[Record], task: str) -> tuple[Any, list[_Panel]]:
    """A drawing with one panel for each data set that has runs of this task."""
    runs = {name: select(records, task=task, dataset=name) for name in published.DATASETS}
    runs = {name: own for name, own in runs.items() if own}
    drawing, axes = panels(len(runs))
    for ax, name in zip(axes, runs, strict=True):
        ax.set_title(name.capitalize())
    return drawing, [_Panel(ax, *pair) for ax, pair in zip(axes, runs.items(), strict=True)]


def _figure(name: str, title: str, caption: str, drawing: Any) -> Figure | None:
    """With one legend for all panels, beside none of the curves; nothing of no panels."""
    if not drawing.axes:
        return None
    handles, labels = drawing.axes[0].get_legend_handles_labels()
    columns = 2 * len(drawing.axes)
    drawing.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )
    return Figure(name, title, caption, drawing)
