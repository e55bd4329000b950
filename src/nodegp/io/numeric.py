"""Columns of numbers as features, and numbers in general."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from nodegp.io.arrays import in_range
from nodegp.io.readers import Inputs, Reader
from nodegp.io.tables import Table, amount
from nodegp.io.textual import is_text


@dataclass(frozen=True)
class Numbers(Reader):
    """Numeric and boolean columns. A gap is filled with the column's mean; a column that had
    gaps when fitted gets another beside it that says where (1 at a gap)."""

    names: tuple[str, ...]
    means: tuple[float, ...]
    with_gaps: tuple[str, ...]

    @classmethod
    def fit(
        cls, table: Table, names: list[str]
    ) -> tuple[Self | None, np.ndarray, dict[str, str], dict[str, int]]:
        """The reader, its matrix, the columns that say nothing and why, and gaps by column.

        The matrix comes with it because a million rows are not to be read twice.
        """
        columns: dict[str, np.ndarray] = {}
        dropped, gaps, means = {}, {}, []
        for name in names:
            values = numbers(table, name)
            missing = int(np.isnan(values).sum()) if np.isnan(values.min()) else 0
            low, high = (np.nanmin(values), np.nanmax(values)) if missing < len(values) else (0, 0)
            if missing == len(values):
                dropped[name] = "empty"
            elif high - low <= 1e-9 * max(abs(high), abs(low)) and not missing:
                dropped[name] = "constant"
            else:
                columns[name] = values
                means.append(float(np.nanmean(values) if missing else values.mean()))
                if missing:
                    gaps[name] = missing
        if not columns:
            return None, np.zeros((len(table), 0)), dropped, gaps
        reader = cls(tuple(columns), tuple(means), tuple(gaps))
        return reader, reader._filled(columns, len(table)), dropped, gaps

    def read(self, inputs: Inputs) -> np.ndarray:
        table = inputs.table
        return self._filled({name: numbers(table, name) for name in self.names}, len(table))

    def _filled(self, columns: dict[str, np.ndarray], n_rows: int) -> np.ndarray:
        matrix = np.empty((n_rows, len(self.names) + len(self.with_gaps)))
        marks = {name: len(self.names) + n for n, name in enumerate(self.with_gaps)}
        for n, (name, mean) in enumerate(zip(self.names, self.means, strict=True)):
            matrix[:, n] = columns[name]
            if name in marks or np.isnan(columns[name].min()):
                gap = np.isnan(columns[name])
                matrix[gap, n] = mean
                if name in marks:
                    matrix[:, marks[name]] = gap
        return matrix

    def columns(self) -> list[str]:
        return list(self.names)

    def describe(self) -> str:
        return amount(len(self.names), "numeric column")


def is_number(kind: pa.DataType) -> bool:
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def numbers(table: Table, name: str) -> np.ndarray:
    """A column as float64, NaN at gaps."""
    column = table.column(name)
    if not is_number(column.type) and not pa.types.is_null(column.type):
        raise ValueError(f"{table.where(name)} holds {_kind(column)}, not numbers{_odd(column)}")
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    values = values.astype(np.float64, copy=False)  # a column of gaps alone comes as objects
    # The extremes tell most columns apart without another pass; a gap hides them.
    if len(values) and not in_range(np.array([values.max(), values.min()])).all():
        bad = ~in_range(values) & ~np.isnan(values)
        if bad.any():
            row = int(np.argmax(bad)) + 1
            raise ValueError(
                f"{table.where(name)} has an infinite or far too large number in row {row}"
            )
    return values


def _odd(column: pa.ChunkedArray) -> str:
    """The first text that is no number, if that can be told."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return ""
    for row, value in enumerate(column.to_pylist(), 1):
        try:
            float(value or 0)
        except ValueError:
            return f": {value[:40]!r} in row {row}"
    return ""


def _kind(column: pa.ChunkedArray) -> str:
    return "text" if is_text(column.type) else str(column.type)
