"""The tables of the zoo: graphs by methods, and what a user who takes the default blindly risks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from statistics import mean, median
from typing import Any

from nodegp.report import Table
from nodegp_paper.experiments.cells import (
    number,
)
from nodegp_paper.experiments.results import (
    Entry,
    Score,
    percent,
    with_error,
)
from nodegp_paper.experiments.scoring import COVERAGE
from nodegp_paper.experiments.store import Record, select
from nodegp_paper.experiments.tasks import zoo, zoo_loo
from nodegp_paper.experiments.zoo_results import LOSS, Case, Regret, Zoo, covers

__all__ = [
    "BY_SIZE",
    "accuracy_table",
    "calibration_table",
    "data_table",
    "leave_one_out_table",
    "log_loss_table",
    "seconds_table",
    "sets_table",
    "summary_table",
]

_PLANETOID = "On cora, citeseer and pubmed the splits leave out the public test nodes."
_WHY_EMPTY = (
    "Polblogs has no features: logistic regression and features alone cannot run there, and the "
    "networks get one column per node (X = I)."
)


# --- the graphs -----------------------------------------------------------------------------------


def data_table(records: list[Record]) -> Table | None:
    """What the graphs are like."""
    found = {record.spec.dataset: record.metrics for record in select(records, task=zoo.DATA.name)}
    rows = []
    for graph in filter(found.get, zoo.GRAPHS):
        facts = found[graph]
        names = ("nodes", "edges", "features", "classes")
        ends = ("smallest_class", "isolated", "largest_component")
        rows.append(
            (
                graph,
                *(f"{facts[name]:,}" for name in names),
                str(facts["classes"] - facts["classes_kept"] or ""),
                *(f"{facts[name]:,}" for name in ends),
                f"{facts['within_class']:.2f}",
            )
        )
    columns = (
        *("graph", "nodes", "edges", "columns", "classes", "dropped", "smallest class"),
        *("isolated nodes", "largest component", "edges within a class"),
    )
    notes = (
        "Dropped: classes of fewer than six nodes; their nodes stay in the graph, but are neither "
        "labelled nor scored. Smallest class: among the others. The last column is the edge "
        "homophily, the share of edges whose ends have the same class.",
    )
    return Table("zoo_data", "The graphs", columns, rows, notes, 1) if rows else None


# --- graphs by methods ----------------------------------------------------------------------------


def accuracy_table(records: list[Record], per_class: int) -> Table | None:
    """Accuracy, ranks and regret, with so many labels per class."""
    found = Zoo.of(records).of_size(per_class)

    def cell(method: str, case: Case) -> str:
        return with_error(found.values(method, case, percent))

    def regret(case: Case) -> str:
        return _regret_text(found.regret(zoo.OURS, case))

    worst = {method: found.worst_regret(method) for method in found.rivals}
    feet = [
        ("mean rank", lambda method: number(found.mean_rank(method), ".2f"), _has_rank),
        ("largest regret", lambda method: _regret_points(worst[method]), _has_rank),
        ("where", lambda method: _regret_place(worst[method]), _has_rank),
    ]
    notes = (
        "Accuracy in per cent on all nodes with a known class outside the training set: mean over "
        "splits with its standard error. " + _PLANETOID,
        "Regret: how many points a method is below the best one with the same labels, on the "
        "splits that both have, with the standard error of the paired difference; the last column "
        f"is the regret of {zoo.OURS}. Methods named +val also have up to 500 validation labels, "
        "and therefore no rank and no regret.",
        _WHY_EMPTY,
    )
    title = f"Accuracy with {per_class} labels per class"
    return _by_method(
        found, f"zoo_accuracy_{per_class}", title, cell, percent, ".1f", notes, feet,
        (f"regret of {zoo.OURS}", regret),
    )  # fmt: skip


def log_loss_table(records: list[Record], per_class: int) -> Table | None:
    """Log loss against uniform guessing, with so many labels per class."""
    found = Zoo.of(records).of_size(per_class)

    def cell(method: str, case: Case) -> str:
        return with_error(found.values(method, case, LOSS), ".3f")

    def uniform(case: Case) -> str:
        return f"{found.uniform_loss(case):.3f}"

    def above(method: str) -> str:
        excess = [e for case in found.cases if (e := found.above_uniform(method, case)) is not None]
        return f"{sum(e > 0.02 for e in excess)} of {len(excess)}"

    feet = [
        ("lowest on", lambda method: str(found.lowest_losses()[method]), _has_rank),
        ("above uniform", above, lambda method: True),
    ]
    notes = (
        "Mean over splits with its standard error. Uniform: the log loss of uniform guessing, the "
        "logarithm of the number of classes. Lowest on: the number of graphs on which a method has "
        "the lowest log loss of all with the same labels. Above uniform: the number on which it is "
        "worse than uniform by more than 0.02.",
        _WHY_EMPTY,
    )
    title = f"Log loss with {per_class} labels per class"
    return _by_method(
        found, f"zoo_log_loss_{per_class}", title, cell, LOSS, ".3f", notes, feet,
        ("uniform", uniform),
    )  # fmt: skip


def calibration_table(records: list[Record], per_class: int) -> Table | None:
    """Debiased calibration error, with so many labels per class."""
    found = Zoo.of(records).of_size(per_class)

    def cell(method: str, case: Case) -> str:
        error = found.calibration(method, case)
        return number(error, ".3f")

    def at_most(limit: float) -> Callable[[str], str]:
        def count(method: str) -> str:
            errors = [found.calibration(method, case) for case in found.cases]
            known = [error for error in errors if error is not None]
            return f"{sum(error <= limit for error in known)} of {len(known)}"

        return count

    feet = [
        (f"at most {limit:.2f}", at_most(limit), lambda method: True)
        for limit in (0.06, 0.10, 0.12)
    ]
    notes = (
        "Debiased calibration error: root of the mean squared gap between confidence and accuracy "
        "in 15 bins over all splits, without the bias that chance adds.",
        _WHY_EMPTY,
    )
    name, title = f"zoo_calibration_{per_class}", f"Calibration with {per_class} labels per class"
    return _by_method(found, name, title, cell, None, ".3f", notes, feet)


BY_SIZE = (accuracy_table, log_loss_table, calibration_table)


def seconds_table(records: list[Record]) -> Table | None:
    """How long a fit and all predictions take."""
    found = Zoo.of(records)
    rows = []
    for graph in found.graphs:
        cells = []
        for method in found.methods:
            times = [
                value
                for size in found.sizes
                for value in found.values(method, (graph, size), itemgetter("fit_predict"))
            ]
            cells.append(f"{median(times):.2f}" if times else zoo.cannot_run(method, graph))
        rows.append((graph, *cells))
    notes = (
        "Seconds of a fit and the predictions for all nodes, one thread, median over all runs of a "
        "method on a graph. What a model prepares once per graph, without labels, is part of the "
        "first run only. Other processes may have been running: this is no benchmark.",
    )
    columns = ("graph", *found.methods)
    return Table("zoo_seconds", "Seconds", columns, rows, notes, 1) if rows else None


# --- over all of them -----------------------------------------------------------------------------


def summary_table(records: list[Record]) -> Table | None:
    """A row to a method: what it is worth over all graphs and numbers of labels."""
    found = Zoo.of(records)
    complete = found.complete()
    lowest = found.lowest_losses()
    rows = []
    for method in found.methods:
        rival = method in found.rivals
        worst = found.worst_regret(method) if rival else None
        excess = {
            case: e for case in found.cases if (e := found.above_uniform(method, case)) is not None
        }
        place = max(excess, key=lambda case: excess[case])
        errors = [e for case in complete if (e := found.calibration(method, case)) is not None]
        rows.append(
            (
                method,
                number(found.mean(method, complete, percent), ".1f"),
                number(found.mean_rank(method), ".2f") if rival else "",
                _regret_points(worst),
                _regret_place(worst),
                str(sum(r.counts for r in found.regrets(method))) if rival else "",
                number(found.mean(method, complete, LOSS), ".3f"),
                str(lowest[method]) if rival else "",
                f"{excess[place]:+.3f}",
                f"{place[0]}, {place[1]}",
                number(mean(errors) if errors else None, ".3f"),
            )
        )
    columns = (
        *("method", "accuracy %", "mean rank", "largest regret", "where", "regrets that count"),
        *("log loss", "lowest", "worst loss less uniform", "on", "calibration error"),
    )
    cases = f"{len(found.cases)} cases (a case is a graph with a number of labels per class)"
    notes = (
        f"Over {cases}; means of accuracy, log loss and calibration error are over the "
        f"{len(complete)} cases in which every method has runs.",
        "A regret counts if it is above 1.5 points and above two standard errors of the paired "
        "difference. Lowest: the number of cases in which a method has the lowest log loss of all "
        "with the same labels. Methods named +val also have up to 500 validation labels.",
    )
    return Table("zoo_summary", "All graphs", columns, rows, notes, 1) if rows else None


def sets_table(records: list[Record]) -> Table | None:
    """Prediction sets of the default model."""
    found = Zoo.of(records)

    def coverage(metrics: dict[str, Any]) -> float:
        covered: float = 100 * metrics["coverage"]
        return covered

    rows: list[tuple[str, ...]] = []
    for graph in found.graphs:
        if not any((zoo.OURS, graph, size) in found.runs for size in found.sizes):
            continue
        cells = []
        for size in found.sizes:
            covered = found.values(zoo.OURS, (graph, size), coverage)
            sizes = found.values(zoo.OURS, (graph, size), itemgetter("set_size"))
            cells += [with_error(covered), with_error(sizes, ".2f")]
        rows.append((graph, *cells))
    if not rows:
        return None
    cells = []
    for size in found.sizes:
        by_graph = [found.values(zoo.OURS, (graph, size), coverage) for graph in found.graphs]
        known = [values for values in by_graph if values]
        cells += [f"{sum(map(covers, known))} of {len(known)}", ""]
    rows.append(("as promised on", *cells))
    headings = [text for n in found.sizes for text in (f"{n}: coverage %", f"{n}: classes")]
    notes = (
        f"Coverage and size of the prediction sets of {zoo.OURS} with a target coverage of "
        f"{COVERAGE:.0%}, by labels per class. As promised: a mean of 87 to 94 %, or 90 % within "
        "two standard errors.",
    )
    title = f"Prediction sets of {COVERAGE:.0%}"
    return Table("zoo_sets", title, ("graph", *headings), rows, notes, 1)


# --- leave-one-out --------------------------------------------------------------------------------


def leave_one_out_table(records: list[Record]) -> Table | None:
    """What a model says of itself less what it is worth."""
    runs = select(records, task=zoo_loo.TASK.name)
    rows: list[tuple[str, ...]] = []
    feet: list[tuple[str, ...]] = []
    sizes = sorted({run.spec.settings["per_class"] for run in runs})
    for draw in zoo_loo.DRAWS:
        for size in sizes:
            settings = {"per_class": size, "draw": draw}
            kind = f"{size} per class" if draw == "balanced" else f"as many as {size}, at random"
            honest = []
            for graph in zoo.GRAPHS:
                own = [r for r in runs if (r.spec.dataset, r.spec.settings) == (graph, settings)]
                if own:
                    cells, is_honest = _own_and_true(Entry(zoo.OURS, graph, own))
                    rows.append((graph, kind, *cells))
                    honest.append(is_honest)
            if honest:
                blank = ("",) * 6
                feet.append((f"honest on {sum(honest)} of {len(honest)}", kind, *blank, ""))
    columns = (
        *("graph", "labels", "accuracy %: leave-one-out", "truth", "difference"),
        *("log loss: leave-one-out", "its truth", "its difference", "draws"),
    )
    notes = (
        "The leave-one-out scores that the default model reports, and the true scores on all "
        "unlabelled nodes; differences are the former minus the latter, mean over draws with its "
        "standard error. Honest: within 5 points and 0.1 nats. At most half of a class is "
        "labelled; at random: the same total number of labels, drawn from all nodes.",
    )
    title = "Leave-one-out against the truth"
    return Table("zoo_leave_one_out", title, columns, [*rows, *feet], notes) if rows else None


def _own_and_true(entry: Entry) -> tuple[list[str], bool]:
    cells, honest = [], True
    for name, scale, form, limit in (("accuracy", 100, ".1f", 5.0), ("log_loss", 1, ".3f", 0.1)):
        own = [scale * value for value in entry.values(itemgetter(f"loo_{name}"))]
        true = [scale * value for value in entry.values(itemgetter(name))]
        apart = [a - b for a, b in zip(own, true, strict=True)]
        means = [format(mean(own), form), format(mean(true), form)]
        cells += [*means, with_error(apart, f"+{form}")]
        honest &= abs(mean(apart)) <= limit
    return [*cells, str(len(entry.runs))], honest


# --- parts ----------------------------------------------------------------------------------------

Foot = tuple[str, Callable[[str], str], Callable[[str], bool]]  # its name, a cell, who has one


def _has_rank(method: str) -> bool:
    return not zoo.METHODS[method].has_validation


def _by_method(
    found: Zoo,
    name: str,
    title: str,
    cell: Callable[[str, Case], str],
    score: Score | None,
    form: str,
    notes: tuple[str, ...],
    feet: Sequence[Foot],
    more: tuple[str, Callable[[Case], str]] | None = None,
) -> Table | None:
    """Graphs by methods, of one number of labels per class; one column more, and means below."""
    if not found.cases:
        return None
    last = () if more is None else (more[0],)
    rows = []
    for case in found.cases:
        cells = [cell(m, case) or zoo.cannot_run(m, case[0]) for m in found.methods]
        rows.append((case[0], *cells, *(() if more is None else (more[1](case),))))
    complete = found.complete()
    blank = ("",) * len(last)
    if score is not None and complete:
        means = [number(found.mean(m, complete, score), form) for m in found.methods]
        rows.append((f"mean of {len(complete)}", *means, *blank))
    for label, foot, has_one in feet:
        rows.append((label, *(foot(m) if has_one(m) else "" for m in found.methods), *blank))
    if score is not None:
        notes = (*notes, "Means are over the graphs on which all methods ran.")
    return Table(name, title, ("graph", *found.methods, *last), rows, notes, 1)


def _regret_points(regret: Regret | None) -> str:
    if regret is None:
        return ""
    return f"{regret.points:.1f}" + ("" if regret.error is None else f" ± {regret.error:.1f}")


def _regret_place(regret: Regret | None) -> str:
    return "" if regret is None else f"{regret.case[0]}, {regret.case[1]}: {regret.best}"


def _regret_text(regret: Regret | None) -> str:
    if regret is None or regret.best == zoo.OURS:
        return "" if regret is None else "0"
    return f"{_regret_points(regret)} ({regret.best})"
