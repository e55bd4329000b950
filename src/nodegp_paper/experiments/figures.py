"""Figure 2, reliability diagrams and the figures of the claims."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nodegp.report import Figure
from nodegp_paper.experiments import published, table1, table3
from nodegp_paper.experiments.claims import few_labels, hubs, steps
from nodegp_paper.experiments.drawing import legend, panels_of, pooled, standard_error
from nodegp_paper.experiments.spec import row_name
from nodegp_paper.experiments.store import Record, select

# Colours that people with any colour vision can tell apart (Okabe and Ito).
_COLOURS = {
    "GGP": "#0072B2",
    "GGP-X": "#56B4E9",
    "GGP (linear)": "#56B4E9",
    "GCN": "#D55E00",
    "LP": "#009E73",
}


def all_figures(records: list[Record]) -> Iterator[Figure]:
    """Every figure that these records have something for, one at a time."""
    for draw in (learning_curves, reliability_diagrams, optimiser_steps, hub_influence, few):
        figure = draw(records)
        if figure is not None:
            yield figure


def learning_curves(records: list[Record]) -> Figure | None:
    """Figure 2."""
    figure, panels = panels_of(select(records, task=table3.TASK), published.ACTIVE_DATASETS)
    if not panels:
        return None
    counts: set[int] = set()
    for ax, _, runs in panels:
        for row in published.ALC:
            acquisition, model = row.split("-")
            for engine in ("paper", "default") if model == "GGP" else ("",):
                trials = select(runs, model=row, engine=engine)
                if not trials:
                    continue
                curves = np.array([t.metrics["accuracy_curve"] for t in trials])
                counts.add(len(trials))
                labels = np.arange(1, curves.shape[1] + 1)
                style = "-" if acquisition == "SOPT" else "--"
                faint = engine == "default"
                ax.errorbar(
                    labels,
                    curves.mean(0),
                    yerr=standard_error(curves),
                    label=row_name(row, engine),
                    linestyle=style,
                    color=_COLOURS["GGP-X" if faint else model],
                    linewidth=1.4,
                    elinewidth=0.6,
                )
        ax.set(xlabel="labels", ylabel="accuracy, unlabelled nodes")
    legend(figure)
    trials_each = " or ".join(map(str, sorted(counts)))
    caption = (
        f"Accuracy on all nodes still unlabelled, mean over {trials_each} trials, which differ in "
        "their first node. Error bars: standard errors of the mean. Solid: SOPT; dashed: RAND."
    )
    return Figure("figure2", "Figure 2: learning curves", caption, figure)


def reliability_diagrams(records: list[Record]) -> Figure | None:
    """Confidence against accuracy, of the models of Table 1."""
    figure, panels = panels_of(select(records, task=table1.TASK), published.DATASETS)
    if not panels:
        return None
    for ax, _, runs in panels:
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        for row in table1.ROWS:
            model, engine = row.model, row.engine
            some = select(runs, model=model, engine=engine)
            if not some or model not in _COLOURS:  # all of them would be a tangle
                continue
            confidence, accuracy = pooled(run.metrics for run in some)
            ax.plot(
                confidence,
                accuracy,
                marker="s" if engine == "default" else "o",
                linestyle="--" if engine == "default" else "-",
                markersize=3,
                color=_COLOURS[model],
                label=row.name,
            )
        ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1))
        ax.set_ylim(0, 1)
    legend(figure)
    caption = (
        "How often the likeliest class is right, against the probability given to it; all restarts "
        "pooled, 15 bins of equal width, bins with fewer than 10 predictions left out. Above the "
        "diagonal a model is too modest, below it too sure. The paper's model (no calibration)."
    )
    return Figure("reliability", "Reliability diagrams", caption, figure)


def optimiser_steps(records: list[Record]) -> Figure | None:
    """Claim: no early stopping."""
    figure, panels = panels_of(select(records, task=steps.TASK), published.DATASETS)
    if not panels:
        return None
    for ax, _, runs in panels:
        twin = ax.twinx()
        for run in runs:
            ax.plot(run.metrics["steps"], run.metrics["elbo_curve"], color="0.6", linewidth=1)
            twin.plot(run.metrics["steps"], run.metrics["accuracy_curve"], color=_COLOURS["GGP"])
        ax.set(xlabel="steps of Adam", ylabel="ELBO (grey)")
        twin.set_ylabel("test accuracy (blue)", color=_COLOURS["GGP"])
        twin.spines["top"].set_visible(False)
    curves = [run.metrics["accuracy_curve"] for *_, runs in panels for run in runs]
    last = [curve[-1] - max(curve) for curve in curves]
    caption = (
        "The paper's engine, run on. Each line is one restart. Stopping at the best test accuracy, "
        f"which nobody could know, would have gained {-100 * float(np.mean(last)):.1f} points on "
        f"average over going on to the end (at most {-100 * min(last):.1f})."
    )
    return Figure("claim_steps", "No early stopping is needed", caption, figure)


def hub_influence(records: list[Record]) -> Figure | None:
    """Claim: hubs."""
    figure, panels = panels_of(select(records, task=hubs.TASK), published.DATASETS)
    if not panels:
        return None
    correlations = []
    for ax, dataset, runs in panels:
        degree = np.concatenate([r.metrics["degree"] for r in runs])
        lost = 100 * np.concatenate([r.metrics["accuracy_lost"] for r in runs])
        moved = 100 * np.concatenate([r.metrics["probability_moved"] for r in runs])
        correlations += [f"{dataset} {np.mean([r.metrics['rank_correlation'] for r in runs]):.2f}"]
        ax.scatter(degree, lost, s=14, color=_COLOURS["GCN"], label="accuracy lost, points")
        ax.scatter(
            degree, moved, s=14, marker="x", color=_COLOURS["GGP"], label="probability moved, %"
        )
        ax.axhline(0, color="0.7", linewidth=0.8)
        ax.set(xlabel="degree of the mislabelled node", xscale="log")
    legend(figure)
    caption = (
        "One label more, true or wrong: what the wrong one costs on the public test nodes, in "
        "accuracy and in the mean share of probability that moves, against the degree of its node. "
        "Rank correlation of degree and probability moved: " + ", ".join(correlations) + "."
    )
    return Figure("claim_hubs", "The influence of hubs", caption, figure)


def few(records: list[Record]) -> Figure | None:
    """Claim: few labels."""
    figure, panels = panels_of(select(records, task=few_labels.TASK), published.DATASETS)
    if not panels:
        return None
    for ax, _, runs in panels:
        for model in few_labels.MODELS:
            some = select(runs, model=model)
            sizes = sorted({r.spec.settings["per_class"] for r in some})
            if not sizes:
                continue
            values = [
                np.array([r.metrics["accuracy"] for r in some if r.spec.settings["per_class"] == n])
                for n in sizes
            ]
            ax.errorbar(
                sizes,
                [v.mean() for v in values],
                yerr=[float(standard_error(v)) for v in values],
                marker="o",
                markersize=3,
                color=_COLOURS[model],
                linestyle="--" if "linear" in model else "-",
                label=model,
            )
        ax.set(xlabel="labels per class", ylabel="test accuracy")
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
    legend(figure)
    caption = "Means over random draws of training nodes; error bars: standard errors of the mean."
    return Figure("claim_few_labels", "Data efficiency", caption, figure)
