"""What tables are made of: a cell is made from the runs of a row, and a table from its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import mean, median

from nodegp.report import Table
from nodegp_paper.experiments.results import Entry, Score, with_error

__all__ = [
    "Cell",
    "count_cell",
    "difference_cell",
    "error_cell",
    "mean_cell",
    "number",
    "seconds_cell",
    "table_of",
]

Cell = Callable[[Entry], str]


def table_of(
    name: str,
    title: str,
    columns: Mapping[str, Cell],
    rows: Iterable[Entry],
    notes: tuple[str, ...],
    first: str = "model",
) -> Table | None:
    """A row to a model and data set, a column to each cell; None without rows."""
    lines = [
        (entry.name, entry.dataset, *(cell(entry) for cell in columns.values())) for entry in rows
    ]
    return Table(name, title, (first, "data", *columns), lines, notes) if lines else None


def mean_cell(score: Score, form: str = ".3f") -> Cell:
    return lambda entry: format(mean(entry.values(score)), form)


def error_cell(score: Score, form: str = ".3f") -> Cell:
    """The mean and its standard error."""
    return lambda entry: with_error(entry.values(score), form)


def difference_cell(score: Score, form: str) -> Cell:
    """The same of the differences to ours."""
    return lambda entry: with_error(entry.differences(score), form)


def count_cell(entry: Entry) -> str:
    return str(len(entry.runs))


def seconds_cell(entry: Entry) -> str:
    """The median of a run's."""
    return f"{median(run.seconds for run in entry.runs):.1f}"


def number(value: float | None, form: str) -> str:
    """Nothing of None."""
    return "" if value is None else format(value, form)
