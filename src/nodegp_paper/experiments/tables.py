"""The tables: the paper's, with ours beside the printed numbers, and those beyond it.

A table is a dictionary of headings, each with the function that makes a cell of it from the runs of
a row. Where there are no runs to show, there is no table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from statistics import mean
from typing import Any

from nodegp.report import Table
from nodegp_paper.experiments import published
from nodegp_paper.experiments.cells import (
    Cell,
    count_cell,
    difference_cell,
    error_cell,
    mean_cell,
    number,
    seconds_cell,
    table_of,
)
from nodegp_paper.experiments.models import is_baseline, trains_on_validation, uses_validation
from nodegp_paper.experiments.results import (
    Entry,
    by_dataset,
    by_size,
    entries,
    node_scores,
    percent,
    root_mean_with_interval,
    spread,
    standard_error,
    tempered_name,
    with_error,
)
from nodegp_paper.experiments.scoring import COVERAGE
from nodegp_paper.experiments.store import Record, select
from nodegp_paper.experiments.tasks import active, data, few_labels, semi_supervised, splits, timing

__all__ = [
    "accuracy_table",
    "active_table",
    "alc_table",
    "calibration_table",
    "data_table",
    "few_labels_beyond_table",
    "few_labels_table",
    "public_table",
    "seconds_table",
    "sets_table",
    "splits_table",
    "zoo_active_table",
]

_DIFFERENCE = "difference to nodegp"
_PAIRED = (
    "Means with standard errors. Differences are paired: to nodegp on the same {what}, or to "
    "nodegp-X for the models named -X; {sign} zero, nodegp is better."
)
_ALC = (
    "Area under the learning curve (accuracy on the unlabelled nodes of the largest component "
    "against the number of labels{figure}): mean over trials that start at nodes 0, 1, 2 and so "
    "on, with its standard error. "
)
_TRIAL = "Seconds: a whole trial, scoring included."
WHY_EDGES_DIFFER = (
    "The paper counts links as the files list them. Some links are listed twice, once in each "
    "direction, and some papers cite themselves; an undirected graph without self-loops has each "
    "edge once. Otherwise the links are the same."
)


# --- the paper's ----------------------------------------------------------------------------------


def accuracy_table(records: list[Record]) -> Table | None:
    """Table 1."""
    printed = {row.name: row.printed for row in semi_supervised.rows()}
    uses = {row.name: _use_of_validation(row.model) for row in semi_supervised.rows()}

    def rows() -> Iterator[Entry]:
        for row in semi_supervised.rows():
            yield from by_dataset(records, semi_supervised.TASK.name, row.model, row.engine)

    def printed_value(entry: Entry) -> float | None:
        return printed[entry.name][published.DATASETS.index(entry.dataset)]

    def difference(entry: Entry) -> float | None:
        value = printed_value(entry)
        return None if value is None else mean(entry.values(percent)) - value

    columns = {
        "accuracy %": mean_cell(percent, ".1f"),
        "s.d.": lambda entry: number(spread(entry.values(percent)), ".1f"),
        "n": count_cell,
        "printed": lambda entry: number(printed_value(entry), ".1f"),
        "difference": lambda entry: number(difference(entry), "+.1f"),
        "log loss": mean_cell(itemgetter("log_loss")),
        "calibration error": mean_cell(itemgetter("calibration_error")),
        "validation labels": lambda entry: uses[entry.name],
        "seconds": seconds_cell,
    }
    notes = (
        "Public splits, 1,000 test nodes (standard error of an accuracy: about 1.2 points). "
        "Accuracy: mean and standard deviation over n restarts. Seconds: median over runs, on one "
        "core, loading and scoring included. The 500 validation labels: the networks use them for "
        "early stopping, ICA to choose its penalty, and GGP-X trains on them. The printed number "
        "for Planetoid is that of the better of its two variants on each data set.",
    )
    return table_of("table1", "Table 1: semi-supervised classification", columns, rows(), notes)


def data_table(records: list[Record]) -> Table | None:
    """Table 2."""
    rows = []
    for record in select(records, task=data.TASK.name):
        counts = record.metrics
        cells = [
            f"{ours:.3f} ({printed:.3f})" if isinstance(ours, float) else f"{ours:,} ({printed:,})"
            for ours, printed in zip(
                (counts[name] for name in data.COLUMNS),
                published.DATA[record.spec.dataset],
                strict=True,
            )
        ]
        ends = f"{counts['largest_component']:,}", str(counts["isolated"])
        rows.append((record.spec.dataset, *cells, *ends))
    headings = (name.replace("_", " ") for name in data.COLUMNS)
    columns = ("data", *headings, "largest component", "isolated nodes")
    notes = ("Printed numbers in brackets.", WHY_EDGES_DIFFER)
    return Table("table2", "Table 2: the data", columns, rows, notes) if rows else None


def alc_table(records: list[Record]) -> Table | None:
    """Table 3."""
    alc = itemgetter("alc_trapezoid")

    def rows() -> Iterator[Entry]:
        for learner in published.ALC:
            for engine in ("paper", "default") if learner.endswith("GGP") else ("",):
                yield from by_dataset(records, active.TASK.name, learner, engine)

    def printed(entry: Entry) -> tuple[float, float]:
        position = published.ACTIVE_DATASETS.index(entry.dataset)
        return published.ALC[entry.name.split(",")[0]][position]

    columns = {
        "ALC": mean_cell(alc),
        "s.e.": lambda entry: number(standard_error(entry.values(alc)), ".3f"),
        "n": count_cell,
        "printed": lambda entry: "{:.3f} ± {:.3f}".format(*printed(entry)),
        "difference": lambda entry: f"{mean(entry.values(alc)) - printed(entry)[0]:+.3f}",
        "mean accuracy": mean_cell(itemgetter("alc")),
        "log loss": mean_cell(itemgetter("log_loss")),
        "calibration error": mean_cell(itemgetter("calibration_error")),
        "seconds": seconds_cell,
    }
    notes = (
        "ALC: normalised area under the learning curves of Figure 2 (accuracy on all unlabelled "
        "nodes against 1 to 50 labels); mean over n trials with different first nodes, with its "
        "standard error. Mean accuracy: the mean of the 50 accuracies; in the area, the first and "
        "the last of them count half. Log loss and calibration error: after the last label. "
        "Seconds: one trial of all labels on one core.",
    )
    return table_of("table3", "Table 3: active learning", columns, rows(), notes, "learner")


def few_labels_table(records: list[Record]) -> Table | None:
    """Accuracy against labels per class."""
    sizes = by_size(select(records, task=few_labels.TASK.name))
    columns = {str(n): _error_cell_of_size(n) for n in sizes}
    rows = list(entries(records, few_labels.MODELS, task=few_labels.TASK.name))
    draws = _several({len(entry.runs) // len(sizes) for entry in rows}, "draw")
    notes = (
        "Accuracy in per cent on the public test nodes, by labels per class: mean and standard "
        f"error over {draws} of training nodes, none of them a test node. GGP: the cubic kernel of "
        "Table 1, default engine; GGP (linear): the centred linear kernel of Table 3. No method "
        "has validation labels.",
    )
    title = "Data efficiency: accuracy by labels per class"
    return table_of("few_labels", title, columns, rows, notes)


# --- beyond it ------------------------------------------------------------------------------------


def splits_table(records: list[Record]) -> Table | None:
    """Accuracy on random splits."""
    columns = {
        "accuracy %": error_cell(percent, ".1f"),
        _DIFFERENCE: difference_cell(percent, "+.1f"),
        "splits": count_cell,
        "labels": lambda entry: _labels(entry.name, entry.runs[0].spec.settings),
    }
    notes = (
        "Accuracy in per cent on 1,000 nodes of each split. "
        + _PAIRED.format(what="splits", sign="below"),
        "Splits are drawn outside the public test nodes.",
    )
    rows = (entry for entry in _beyond(records, splits.RANDOM.name) if entry.name in splits.MODELS)
    return table_of("beyond_splits", "Accuracy on random splits", columns, rows, notes)


def public_table(records: list[Record]) -> Table | None:
    """Accuracy on the public splits, node by node."""

    def difference(entry: Entry) -> str:
        if not entry.ours:
            return ""
        apart = 100 * node_scores(entry.runs) - 100 * node_scores(entry.ours)
        return with_error(apart.tolist(), "+.1f")

    columns = {
        "accuracy %": lambda entry: with_error((100 * node_scores(entry.runs)).tolist()),
        _DIFFERENCE: difference,
        "s.d. of restarts": lambda entry: number(spread(entry.values(percent)), ".1f"),
        "restarts": count_cell,
        "log loss": mean_cell(itemgetter("log_loss")),
        "calibration error": mean_cell(itemgetter("calibration_error")),
        "labels": lambda entry: _labels(entry.name, splits.SETTINGS),
    }
    notes = (
        "1,000 test nodes; standard errors are over these nodes, each node's score being its mean "
        "over the restarts. " + _PAIRED.format(what="nodes", sign="below"),
    )
    rows = (entry for entry in _beyond(records, splits.PUBLIC.name) if entry.name in splits.MODELS)
    return table_of("beyond_public", "Accuracy on the public splits", columns, rows, notes)


def few_labels_beyond_table(records: list[Record]) -> Table | None:
    """From one label per class to ten."""
    sizes = by_size(select(records, task=splits.FEW.name))
    rows = []
    for entry in _beyond(records, splits.FEW.name):
        parts = [entry.of_size(n) for n in sizes]
        cells = [
            (error_cell(percent, ".1f")(p), difference_cell(percent, "+.1f")(p)) for p in parts
        ]
        rows.append((entry.name, entry.dataset, *chain.from_iterable(cells)))
    headings = [text for n in sizes for text in (f"{n} per class", "difference")]
    draws = _several({len({run.spec.seed for run in runs}) for runs in sizes.values()}, "draw")
    notes = (
        f"Accuracy in per cent, {draws} of the training nodes. "
        + _PAIRED.format(what="draws", sign="below"),
        "No method has validation labels: GCN and APPNP run for 200 epochs (20 with --quick).",
    )
    columns = ("model", "data", *headings)
    return Table("beyond_few_labels", "Few labels", columns, rows, notes) if rows else None


def calibration_table(records: list[Record]) -> Table | None:
    """How far the probabilities can be trusted, on the random splits."""

    def debiased(entry: Entry) -> str:
        squares = entry.values(itemgetter("debiased_calibration_error"))
        return "{:.3f} ({:.3f} to {:.3f})".format(*root_mean_with_interval(squares))

    columns = {
        "log loss": error_cell(itemgetter("log_loss")),
        _DIFFERENCE: difference_cell(itemgetter("log_loss"), "+.3f"),
        "Brier score": error_cell(itemgetter("brier")),
        "calibration error": error_cell(itemgetter("calibration_error")),
        "debiased (95 % interval)": debiased,
    }
    notes = (
        "The splits of the table of accuracies. " + _PAIRED.format(what="splits", sign="above"),
        "Calibration error: mean gap between confidence and accuracy in 15 bins of equal width, "
        "biased upwards by chance. Debiased: root of the mean squared gap without that bias, over "
        "all splits, with an interval from resampling the splits. "
        f"'{tempered_name('GCN')}': scaled by a temperature fitted to the validation labels.",
    )
    rows = _beyond(records, splits.RANDOM.name)
    return table_of("beyond_calibration", "Calibration", columns, rows, notes)


def sets_table(records: list[Record]) -> Table | None:
    """Prediction sets, on the random splits."""
    columns = {
        "coverage %": error_cell(lambda metrics: 100.0 * metrics["coverage"], ".1f"),
        "classes in a set": error_cell(itemgetter("set_size"), ".2f"),
        _DIFFERENCE: difference_cell(itemgetter("set_size"), "+.2f"),
        "splits": count_cell,
    }
    notes = (
        f"Coverage and size of prediction sets with a target coverage of {COVERAGE:.0%}, from "
        "leave-one-out predictions, without validation labels. "
        + _PAIRED.format(what="splits", sign="above"),
    )
    models = [model for model in splits.MODELS if not is_baseline(model)]
    rows = entries(records, models, task=splits.RANDOM.name)
    return table_of("beyond_sets", f"Prediction sets of {COVERAGE:.0%}", columns, rows, notes)


def active_table(records: list[Record]) -> Table | None:
    """Active learning."""
    learners, datasets = active.LEARNERS, published.ACTIVE_DATASETS
    notes = (
        _ALC.format(figure=", as in Table 3")
        + "The paper has 0.733 on Cora and 0.678 on Citeseer for SOPT with its GGP. "
        + _TRIAL,
    )
    return _learning_table(records, active.BEYOND.name, "beyond_active", learners, datasets, notes)


def zoo_active_table(records: list[Record]) -> Table | None:
    """Active learning on other graphs."""
    learners, datasets = active.ZOO_LEARNERS, active.ZOO.datasets
    notes = (
        _ALC.format(figure="")
        + "margin is uncertainty sampling: the node whose two most probable classes are closest. "
        + _TRIAL,
    )
    return _learning_table(records, active.ZOO.name, "zoo_active", learners, datasets, notes)


def _learning_table(
    records: list[Record],
    task: str,
    name: str,
    learners: Sequence[str],
    datasets: Sequence[str],
    notes: tuple[str, ...],
) -> Table | None:
    first = learners[0]

    def alc(metrics: dict[str, Any]) -> float:
        return active.area(metrics["accuracy_curve"])

    columns = {
        "ALC": error_cell(alc),
        f"difference to {first}": difference_cell(alc, "+.3f"),
        "starts": count_cell,
        "last accuracy %": error_cell(percent, ".1f"),
        "last log loss": error_cell(itemgetter("log_loss")),
        "seconds": seconds_cell,
    }
    rows = entries(records, learners, lambda learner: first, datasets, task=task)
    return table_of(name, "Active learning", columns, rows, notes, "strategy: model")


def seconds_table(records: list[Record]) -> Table | None:
    """How long a fit takes."""
    columns = {
        "fit, s": mean_cell(itemgetter("fit"), ".2f"),
        "fit and predict, s": mean_cell(itemgetter("fit_predict"), ".2f"),
        "fit: GCN's time / its own": mean_cell(itemgetter("fit_times_faster"), ".2g"),
        "both: GCN's time / its own": mean_cell(itemgetter("fit_predict_times_faster"), ".2g"),
        "rounds": lambda entry: str(len(entry.runs[0].metrics["fit_rounds"])),
    }
    notes = (
        "Public splits, one thread, nothing else running; medians. Each round times the model and "
        "then a GCN, and the ratio is the median over rounds. The first fit of a process is not "
        "counted. Predictions are for all nodes; for the networks, LP and logistic regression they "
        "are part of the fit.",
    )
    rows = _beyond(records, timing.TASK.name)
    return table_of("beyond_seconds", "Seconds", columns, rows, notes)


# --- cells ----------------------------------------------------------------------------------------


def _error_cell_of_size(per_class: int) -> Cell:
    return lambda entry: with_error(entry.of_size(per_class).values(percent))


def _beyond(records: list[Record], task: str) -> Iterator[Entry]:
    return entries(records, list(splits.MODELS), task=task)


def _several(counts: set[int], what: str) -> str:
    numbers = " or ".join(map(str, sorted(counts)))
    return f"{numbers} {what}" if counts == {1} else f"{numbers} {what}s"


def _labels(model: str, settings: Mapping[str, Any]) -> str:
    """Which labels a model has, in a few words."""
    train, more = f"{settings['per_class']} per class", settings["val"]
    if trains_on_validation(model):
        return f"{train} and {more}"
    return f"{train}, {more} for early stopping" if uses_validation(model) else train


def _use_of_validation(model: str) -> str:
    if trains_on_validation(model):
        return "trained on"
    return "used" if uses_validation(model) else "not used"
