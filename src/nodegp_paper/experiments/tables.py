"""The paper's tables, ours beside the printed numbers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median, stdev
from typing import Any

from nodegp.report import Table
from nodegp_paper.experiments import published, table1, table2, table3
from nodegp_paper.experiments.claims import few_labels
from nodegp_paper.experiments.spec import row_name
from nodegp_paper.experiments.store import Record, select


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation; None of a single value."""
    return stdev(values) if len(values) > 1 else None


def standard_error(values: Sequence[float]) -> float | None:
    deviation = spread(values)
    return None if deviation is None else deviation / len(values) ** 0.5


def accuracy_table(records: list[Record]) -> Table | None:
    """Table 1."""
    rows = []
    for row in table1.ROWS:
        for position, dataset in enumerate(published.DATASETS):
            runs = select(
                records, task=table1.TASK, dataset=dataset, model=row.model, engine=row.engine
            )
            if not runs:
                continue
            accuracies = [100 * r.metrics["accuracy"] for r in runs]
            printed = published.ACCURACY[row.printed][position] if row.printed else None
            rows.append(
                (
                    row.name,
                    dataset,
                    f"{mean(accuracies):.1f}",
                    _number(spread(accuracies), ".1f"),
                    str(len(runs)),
                    _number(printed, ".1f"),
                    "" if printed is None else f"{mean(accuracies) - printed:+.1f}",
                    f"{_mean(runs, 'log_loss'):.3f}",
                    f"{_mean(runs, 'calibration_error'):.3f}",
                    table1.validation(row.model),
                    f"{median(r.seconds for r in runs):.1f}",
                )
            )
    if not rows:
        return None
    columns = (
        "model",
        "data",
        "accuracy %",
        "s.d.",
        "n",
        "printed",
        "difference",
        "log loss",
        "calibration error",
        "validation labels",
        "seconds",
    )
    notes = (
        "Public splits, 1,000 test nodes (standard error of an accuracy: about 1.2 points). n "
        "restarts, their mean and standard deviation; seconds are the median of one run on one "
        "core, loading and scoring included. The 500 validation labels: the networks that use them "
        "stop early by them, ICA sets its penalty, GGP-X trains on them. The printed Planetoid is "
        "the better of its two variants on each data set.",
    )
    return Table("table1", "Table 1: semi-supervised classification", columns, rows, notes)


def data_table(records: list[Record]) -> Table | None:
    """Table 2."""
    rows = []
    for record in select(records, task=table2.TASK):
        printed = published.DATA[record.spec.dataset]
        ours = [record.metrics[name] for name in table2.COLUMNS]
        cells = [
            f"{a:.3f} ({b:.3f})" if isinstance(a, float) else f"{a:,} ({b:,})"
            for a, b in zip(ours, printed, strict=True)
        ]
        found = record.metrics
        rows.append(
            (record.spec.dataset, *cells, f"{found['largest_component']:,}", str(found["isolated"]))
        )
    if not rows:
        return None
    columns = (
        "data",
        "nodes",
        "edges",
        "classes",
        "features",
        "label rate",
        "largest component",
        "isolated nodes",
    )
    notes = ("Printed numbers in brackets.", table2.WHY_EDGES_DIFFER)
    return Table("table2", "Table 2: the data", columns, rows, notes)


def alc_table(records: list[Record]) -> Table | None:
    """Table 3."""
    rows = []
    for row, printed in published.ALC.items():
        for engine in ("paper", "default") if row.endswith("GGP") else ("",):
            for position, dataset in enumerate(published.ACTIVE_DATASETS):
                runs = select(records, task=table3.TASK, dataset=dataset, model=row, engine=engine)
                if not runs:
                    continue
                alc = [r.metrics["alc_trapezoid"] for r in runs]
                value, error = printed[position]
                rows.append(
                    (
                        row_name(row, engine),
                        dataset,
                        f"{mean(alc):.3f}",
                        _number(standard_error(alc), ".3f"),
                        str(len(runs)),
                        f"{value:.3f} ± {error:.3f}",
                        f"{mean(alc) - value:+.3f}",
                        f"{_mean(runs, 'alc'):.3f}",
                        f"{_mean(runs, 'log_loss'):.3f}",
                        f"{_mean(runs, 'calibration_error'):.3f}",
                        f"{median(r.seconds for r in runs):.1f}",
                    )
                )
    if not rows:
        return None
    columns = (
        "learner",
        "data",
        "ALC",
        "s.e.",
        "n",
        "printed",
        "difference",
        "mean accuracy",
        "log loss",
        "calibration error",
        "seconds",
    )
    notes = (
        "Area under the curves of Figure 2, accuracy on all unlabelled nodes against 1 to 50 "
        "labels, as a share of the largest that there can be; its mean over n trials with "
        "different first nodes, and the standard error of that. Mean accuracy: of the 50 "
        "accuracies, of which the area counts the first and the last half. Log loss and "
        "calibration error after the last "
        "label. Seconds: one trial of all labels on one core.",
    )
    return Table("table3", "Table 3: active learning", columns, rows, notes)


def few_labels_table(records: list[Record]) -> Table | None:
    """Accuracy against labels per class."""
    runs = select(records, task=few_labels.TASK)
    sizes = sorted({r.spec.settings["per_class"] for r in runs})
    rows = []
    for dataset in published.DATASETS:
        for model in few_labels.MODELS:
            cells = []
            for size in sizes:
                values = [
                    100 * r.metrics["accuracy"]
                    for r in select(runs, dataset=dataset, model=model)
                    if r.spec.settings["per_class"] == size
                ]
                cells.append(with_error(values))
            if any(cells):
                rows.append((model, dataset, *cells))
    if not rows:
        return None
    counts = sorted({len(select(runs, dataset=d, model=m)) // len(sizes) for m, d, *_ in rows})
    draws = " or ".join(map(str, counts)) + (" draw" if counts == [1] else " draws")
    notes = (
        "Accuracy in per cent on the public test nodes and its standard error over "
        f"{draws} of training nodes from outside them. GGP: the cubic kernel of Table 1, "
        "default engine; GGP (linear): the centred linear kernel of Table 3. No validation labels "
        "for anyone.",
    )
    return Table(
        "few_labels",
        "Data efficiency: accuracy by labels per class",
        ("model", "data", *(str(size) for size in sizes)),
        rows,
        notes,
    )


def all_tables(records: list[Record]) -> list[Table]:
    makers = (accuracy_table, data_table, alc_table, few_labels_table)
    return [table for table in (make(records) for make in makers) if table is not None]


def with_error(values: Sequence[float], form: str = ".1f") -> str:
    """Mean and standard error in a cell; nothing of nothing."""
    if not values:
        return ""
    error = standard_error(values)
    text = format(mean(values), form)
    return text if error is None else f"{text} ± {format(error, form.lstrip('+'))}"


def _mean(runs: list[Record], name: str) -> float:
    return mean(r.metrics[name] for r in runs)


def _number(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)
