"""The tables of the experiments beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from statistics import mean, median
from typing import Any

from nodegp.report import Table
from nodegp_paper.experiments.beyond import learning, public, splits, timing
from nodegp_paper.experiments.beyond.models import COVERAGE, MODELS, ROWS, reference, tempered_name
from nodegp_paper.experiments.beyond.results import (
    Found,
    by_model,
    differences,
    node_scores,
    root_mean_with_interval,
    values,
)
from nodegp_paper.experiments.published import DATASETS
from nodegp_paper.experiments.store import Record, select
from nodegp_paper.experiments.tables import spread, with_error

_DIFFERENCE = "difference to nodegp"
_PAIRED = (
    "Means and their standard errors. Differences are to nodegp on the same {what}, of the models "
    "named -X to nodegp-X; {sign} zero, nodegp is better."
)


def accuracy_table(records: list[Record]) -> Table | None:
    """Random splits."""
    rows = []
    for dataset in DATASETS:
        found = by_model(records, MODELS, task=splits.TASK, dataset=dataset)
        for model in filter(found.get, MODELS):
            rows.append(
                (
                    model,
                    dataset,
                    with_error(values(found[model], _accuracy)),
                    with_error(differences(found, model, _accuracy), "+.1f"),
                    str(len(found[model])),
                    _labels(model, _settings(records, splits.TASK)),
                )
            )
    notes = (
        "Accuracy in per cent on 1,000 nodes of each split. "
        + _PAIRED.format(what="splits", sign="below"),
        "Splits are drawn outside the public test nodes.",
    )
    columns = ("model", "data", "accuracy %", _DIFFERENCE, "splits", "labels")
    return _table("beyond_splits", "Accuracy on random splits", columns, rows, notes)


def public_table(records: list[Record]) -> Table | None:
    """Public splits."""
    rows = []
    for dataset in DATASETS:
        found = by_model(records, MODELS, task=public.TASK, dataset=dataset)
        ours = {name: 100 * node_scores(runs) for name, runs in found.items() if name in ROWS}
        for model, right in ours.items():
            apart = right - ours[reference(model)] if reference(model) in ours else []
            deviation = spread(values(found[model], _accuracy))
            rows.append(
                (
                    model,
                    dataset,
                    with_error(list(right)),
                    with_error(list(apart), "+.1f") if model != reference(model) else "",
                    "" if deviation is None else f"{deviation:.1f}",
                    str(len(found[model])),
                    f"{mean(values(found[model], itemgetter('log_loss'))):.3f}",
                    f"{mean(values(found[model], itemgetter('calibration_error'))):.3f}",
                    _labels(model, {"per_class": 20, "val": 500}),
                )
            )
    columns = (
        "model",
        "data",
        "accuracy %",
        _DIFFERENCE,
        "s.d. of restarts",
        "restarts",
        "log loss",
        "calibration error",
        "labels",
    )
    notes = (
        "1,000 test nodes; standard errors are over these nodes, each node's score being its mean "
        "over the restarts. " + _PAIRED.format(what="nodes", sign="below"),
    )
    return _table("beyond_public", "Accuracy on the public splits", columns, rows, notes)


def few_labels_table(records: list[Record]) -> Table | None:
    """From one label per class to ten."""
    runs = select(records, task=splits.FEW_TASK)
    sizes = sorted({run.spec.settings["per_class"] for run in runs})
    by_size = {n: [r for r in runs if r.spec.settings["per_class"] == n] for n in sizes}
    rows = []
    for dataset in DATASETS:
        found = {n: by_model(some, MODELS, dataset=dataset) for n, some in by_size.items()}
        for model in MODELS:
            cells: list[str] = []
            for models in found.values():
                apart = differences(models, model, _accuracy) if model in models else []
                cells.append(with_error(values(models.get(model, {}), _accuracy)))
                cells.append(with_error(apart, "+.1f"))
            if any(cells):
                rows.append((model, dataset, *cells))
    headings = [text for n in sizes for text in (f"{n} per class", "difference")]
    counts = {len({run.spec.seed for run in some}) for some in by_size.values()}
    notes = (
        f"Accuracy in per cent, {_several(counts, 'draw')} of the training nodes. "
        + _PAIRED.format(what="draws", sign="below"),
        "No validation labels for anyone: GCN and APPNP run all of 200 epochs (20 with --quick).",
    )
    columns = ("model", "data", *headings)
    return _table("beyond_few_labels", "Few labels", columns, rows, notes)


def calibration_table(records: list[Record]) -> Table | None:
    """How far the probabilities can be trusted, on the random splits."""
    rows = []
    for dataset in DATASETS:
        found = by_model(records, MODELS, task=splits.TASK, dataset=dataset)
        for model, runs in found.items():
            squares = values(runs, itemgetter("debiased_calibration_error"))
            middle, low, high = root_mean_with_interval(squares)
            rows.append(
                (
                    model,
                    dataset,
                    _cell(runs, "log_loss"),
                    with_error(differences(found, model, itemgetter("log_loss")), "+.3f"),
                    _cell(runs, "brier"),
                    _cell(runs, "calibration_error"),
                    f"{middle:.3f} ({low:.3f} to {high:.3f})",
                )
            )
    columns = (
        "model",
        "data",
        "log loss",
        _DIFFERENCE,
        "Brier score",
        "calibration error",
        "debiased (95 % interval)",
    )
    notes = (
        "The splits of the table of accuracies. " + _PAIRED.format(what="splits", sign="above"),
        "Calibration error: mean gap of confidence and accuracy in 15 bins of equal width, which "
        "chance makes larger than it is. Debiased: root of the mean squared gap without that part, "
        "over all splits, and its interval by resampling splits. "
        f"'{tempered_name('GCN')}': scaled by a temperature fitted to the validation labels.",
    )
    return _table("beyond_calibration", "Calibration", columns, rows, notes)


def sets_table(records: list[Record]) -> Table | None:
    """Prediction sets, on the random splits."""
    rows = []
    for dataset in DATASETS:
        found = by_model(records, MODELS, task=splits.TASK, dataset=dataset)
        for model in (name for name in found if name in ROWS and not ROWS[name].baseline):
            size = itemgetter("set_size")
            rows.append(
                (
                    model,
                    dataset,
                    _cell(found[model], "coverage", ".1f", 100.0),
                    _cell(found[model], "set_size", ".2f"),
                    with_error(differences(found, model, size), "+.2f"),
                    str(len(found[model])),
                )
            )
    columns = ("model", "data", "coverage %", "classes in a set", _DIFFERENCE, "splits")
    notes = (
        f"How many of the sets that should hold the true class {COVERAGE:.0%} of the time do hold "
        "it, and how many classes they have; from leave-one-out predictions, without validation "
        "labels. " + _PAIRED.format(what="splits", sign="above"),
    )
    return _table("beyond_sets", f"Prediction sets of {COVERAGE:.0%}", columns, rows, notes)


def active_table(records: list[Record]) -> Table | None:
    """Active learning."""
    rows = []
    for dataset in DATASETS:
        found = by_model(records, learning.LEARNERS, task=learning.TASK, dataset=dataset)
        first = found.get(learning.LEARNERS[0], {})
        for learner, trials in found.items():
            both = [seed for seed in trials if seed in first and trials is not first]
            apart = [_area(trials[seed]) - _area(first[seed]) for seed in both]
            runs = select(records, task=learning.TASK, dataset=dataset, model=learner)
            rows.append(
                (
                    learner,
                    dataset,
                    with_error([_area(trial) for trial in trials.values()], ".3f"),
                    with_error(apart, "+.3f"),
                    str(len(trials)),
                    _cell(trials, "accuracy", ".1f", 100.0),
                    _cell(trials, "log_loss"),
                    f"{median(run.seconds for run in runs):.1f}",
                )
            )
    columns = (
        "strategy: model",
        "data",
        "ALC",
        f"difference to {learning.LEARNERS[0]}",
        "starts",
        "last accuracy %",
        "last log loss",
        "seconds",
    )
    notes = (
        "Area under the learning curve, accuracy on all unlabelled nodes of the largest component "
        "against labels, as in Table 3; mean over trials that start at nodes 0, 1, 2 and so on, "
        "with its standard error. The paper has 0.733 on Cora and 0.678 "
        "on Citeseer for SOPT with its GGP. Seconds: a whole trial, scoring included.",
    )
    return _table("beyond_active", "Active learning", columns, rows, notes)


def seconds_table(records: list[Record]) -> Table | None:
    """How long a fit takes."""
    rows = []
    for dataset in DATASETS:
        found = by_model(records, MODELS, task=timing.TASK, dataset=dataset)
        for model, (metrics,) in ((name, runs.values()) for name, runs in found.items()):
            rows.append(
                (
                    model,
                    dataset,
                    f"{metrics['fit']:.2f}",
                    f"{metrics['fit_predict']:.2f}",
                    f"{metrics['fit_times_faster']:.2g}",
                    f"{metrics['fit_predict_times_faster']:.2g}",
                    str(len(metrics["fit_rounds"])),
                )
            )
    columns = (
        "model",
        "data",
        "fit, s",
        "fit and predict, s",
        "fit: GCN's time / its own",
        "both: GCN's time / its own",
        "rounds",
    )
    notes = (
        "Public splits, one thread, nothing else running; medians. Each round times the model and "
        "a GCN one after the other, and the ratio is the median of the rounds' own. The first fit "
        "of a process is not counted. Predictions are for all nodes; the networks, LP and logistic "
        "regression make them within the fit.",
    )
    return _table("beyond_seconds", "Seconds", columns, rows, notes)


def all_tables(records: list[Record]) -> list[Table]:
    makers = (
        accuracy_table,
        public_table,
        few_labels_table,
        calibration_table,
        sets_table,
        active_table,
        seconds_table,
    )
    return [table for table in (make(records) for make in makers) if table is not None]


def _accuracy(metrics: dict[str, Any]) -> float:
    accuracy: float = 100 * metrics["accuracy"]
    return accuracy


def _area(metrics: dict[str, Any]) -> float:
    return learning.area(metrics["accuracy_curve"])


def _cell(found: Found, name: str, form: str = ".3f", factor: float = 1.0) -> str:
    return with_error([factor * metrics[name] for metrics in found.values()], form)


def _settings(records: list[Record], task: str) -> dict[str, Any]:
    return next(record.spec.settings for record in records if record.spec.task == task)


def _labels(model: str, settings: dict[str, Any]) -> str:
    """Which labels a model has, in a few words."""
    train, more = f"{settings['per_class']} per class", settings["val"]
    if ROWS[model].more_labels:
        return f"{train} and {more}"
    return f"{train}, {more} to stop by" if ROWS[model].uses_validation else train


def _several(counts: set[int], what: str) -> str:
    numbers = " or ".join(map(str, sorted(counts)))
    return f"{numbers} {what}" if counts == {1} else f"{numbers} {what}s"


def _table(
    name: str,
    title: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    notes: tuple[str, ...],
) -> Table | None:
    return Table(name, title, columns, rows, notes) if rows else None
