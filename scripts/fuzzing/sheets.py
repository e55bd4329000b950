"""A small table in memory, damaged as a table, and written in any of the formats that are read."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FORMATS = ("csv", "tsv", "csv.gz", "tsv.gz", "txt", "parquet")

ODD_TEXTS = (
    "", " ", "NA", "null", "None", "nan", "true", "0", "-0", "007", "1.0", "1e3", "1e400", "-inf",
    "NaN", "inf", "-1", "-5.5", "9" * 40, "9" * 4000, str(2**63), str(2**64), str(-(2**63)), "abc",
    "a,b", "a\tb", "a\nb", "a\rb", 'say "so"', '"', "'", "ünïcödé 漢字 🙂", "e\u0301", "\u200b",
    "\ufeff", "[bold]x[/]", "%s", "{}", "=1+1", "\\", "x" * 100_000, "a\0b", "2020-01-01", "0x10",
)  # fmt: skip


@dataclass
class Sheet:
    """Columns of equal length; names may repeat, which a damaged table may do."""

    names: list[str]
    columns: list[Any]  # lists, or an Arrow array for a type that lists cannot tell

    def copy(self) -> Sheet:
        return Sheet(list(self.names), [list(column) for column in self.columns])

    def rows(self) -> list[list[Any]]:
        return [list(row) for row in zip(*self.columns, strict=True)]

    def keep_rows(self, rows: Sequence[int]) -> None:
        self.columns = [[column[row] for row in rows] for column in self.columns]

    def written(self, kind: str) -> bytes:
        if kind == "parquet":
            return self._parquet()
        text = io.StringIO(newline="")
        delimiter = "\t" if "tsv" in kind or "txt" in kind else ","
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        writer.writerows([self.names, *self.rows()])
        content = text.getvalue().encode("utf-8", "surrogatepass")
        return gzip.compress(content, mtime=0) if kind.endswith("gz") else content

    def _parquet(self) -> bytes:
        sink = pa.BufferOutputStream()
        arrays = [_array(column) for column in self.columns]
        pq.write_table(pa.Table.from_arrays(arrays, self.names), sink)
        return sink.getvalue().to_pybytes()


def _array(values: Any) -> pa.Array:
    """As Arrow would have it; a column of mixed values becomes text."""
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array([None if value == "" else value for value in values])
    except (pa.ArrowException, OverflowError):
        return pa.array([str(value) for value in values])


# --- damages --------------------------------------------------------------------------------------
# Each changes a sheet in place. Those that need a row or a column do nothing where there is none.


def shuffle_columns(sheet: Sheet, rng: random.Random) -> None:
    order = rng.sample(range(len(sheet.names)), len(sheet.names))
    sheet.names = [sheet.names[i] for i in order]
    sheet.columns = [sheet.columns[i] for i in order]


def drop_column(sheet: Sheet, rng: random.Random) -> None:
    at = rng.randrange(len(sheet.names))
    if len(sheet.names) > 1:
        del sheet.names[at], sheet.columns[at]


def rename_column(sheet: Sheet, rng: random.Random) -> None:
    at = rng.randrange(len(sheet.names))
    old = sheet.names[at]
    new = [old.upper(), f" {old} ", "", rng.choice(sheet.names), rng.choice(ODD_TEXTS)]
    sheet.names[at] = rng.choice(new)


def repeat_column(sheet: Sheet, rng: random.Random) -> None:
    at = rng.randrange(len(sheet.names))
    sheet.names.append(sheet.names[at])
    sheet.columns.append(list(sheet.columns[at]))


def odd_cell(sheet: Sheet, rng: random.Random) -> None:
    column = rng.choice(sheet.columns)
    if column:
        column[rng.randrange(len(column))] = rng.choice(ODD_TEXTS)


def odd_column(sheet: Sheet, rng: random.Random) -> None:
    at = rng.randrange(len(sheet.columns))
    few = [rng.choice(ODD_TEXTS) for _ in range(rng.randint(1, 3))]
    sheet.columns[at] = [rng.choice(few) for _ in sheet.columns[at]]


def odd_number(sheet: Sheet, rng: random.Random) -> None:
    """A number that is one, but not a usable one."""
    numeric = [c for c in sheet.columns if any(isinstance(v, float) for v in c)]
    if numeric:
        column = rng.choice(numeric)
        odd = [float("nan"), float("inf"), -float("inf"), 1e308, -1e200, 1e-320, -3.0, 0.0]
        column[rng.randrange(len(column))] = rng.choice(odd)


def large_numbers(sheet: Sheet, rng: random.Random) -> None:
    """A whole column on another scale, so that sums or squares of it may overflow."""
    for column in sheet.columns:
        if any(isinstance(value, float) for value in column) and rng.random() < 0.5:
            scale = 10.0 ** rng.choice([-320, -160, -30, 30, 100, 149, 160, 300])
            column[:] = [v * scale if isinstance(v, float) else v for v in column]


def one_value(sheet: Sheet, rng: random.Random) -> None:
    """Constant: a single class, the same id everywhere, or a column without a label."""
    at = rng.randrange(len(sheet.columns))
    if sheet.columns[at]:
        value = rng.choice(["", sheet.columns[at][0], "", 1])
        sheet.columns[at] = [value] * len(sheet.columns[at])


def many_values(sheet: Sheet, rng: random.Random) -> None:
    at = rng.randrange(len(sheet.columns))
    sheet.columns[at] = [f"v{row}" for row in range(len(sheet.columns[at]))]


def swap_columns(sheet: Sheet, rng: random.Random) -> None:
    """The contents of two columns, under each other's names."""
    i, j = rng.randrange(len(sheet.columns)), rng.randrange(len(sheet.columns))
    sheet.columns[i], sheet.columns[j] = sheet.columns[j], sheet.columns[i]


def repeat_rows(sheet: Sheet, rng: random.Random) -> None:
    n = len(sheet.columns[0])
    if n:
        sheet.keep_rows([*range(n), *rng.choices(range(n), k=rng.choice([1, 3, 300]))])


def few_rows(sheet: Sheet, rng: random.Random) -> None:
    n = len(sheet.columns[0])
    sheet.keep_rows(sorted(rng.sample(range(n), min(n, rng.choice([0, 1, 2, 5])))))


def shuffle_rows(sheet: Sheet, rng: random.Random) -> None:
    n = len(sheet.columns[0])
    sheet.keep_rows(rng.sample(range(n), n))


def many_columns(sheet: Sheet, rng: random.Random) -> None:
    n = rng.choice([10, 1000])
    sheet.names += [f"extra{i}" for i in range(n)]
    sheet.columns += [[rng.random() for _ in sheet.columns[0]] for _ in range(n)]


def spaces(sheet: Sheet, rng: random.Random) -> None:
    at = rng.randrange(len(sheet.columns))
    sheet.columns[at] = [f" {value} " for value in sheet.columns[at]]


SHEET_DAMAGES: tuple[Callable[[Sheet, random.Random], None], ...] = (
    shuffle_columns, drop_column, rename_column, repeat_column, odd_cell, odd_cell, odd_column,
    odd_number, large_numbers, one_value, many_values, swap_columns, repeat_rows, few_rows,
    shuffle_rows, many_columns, spaces,
)  # fmt: skip


def other_type(sheet: Sheet, rng: random.Random) -> None:
    """Values of a type that only Parquet has."""
    at = rng.randrange(len(sheet.columns))
    n = len(sheet.columns[at])
    sheet.columns[at] = rng.choice(_TYPED)(rng, n)


def _texts(rng: random.Random, n: int) -> list[str]:
    return [rng.choice("abc") for _ in range(n)]


def _floats(rng: random.Random, n: int) -> list[float]:
    return [rng.random() for _ in range(n)]


_TYPED: tuple[Callable[[random.Random, int], Any], ...] = (
    lambda rng, n: [date(2020, 1, 1) + timedelta(i) for i in range(n)],
    lambda rng, n: [datetime(2020, 1, 1, 0, 0, i % 60) for i in range(n)],
    lambda rng, n: [time(i % 24) for i in range(n)],
    lambda rng, n: [timedelta(i) for i in range(n)],
    lambda rng, n: [Decimal(i) / 4 for i in range(n)],
    lambda rng, n: [Decimal(i) for i in range(n)],
    lambda rng, n: [Decimal(10) ** 60 + i for i in range(n)],
    lambda rng, n: [rng.random() < 0.5 for _ in range(n)],
    lambda rng, n: [None] * n,
    lambda rng, n: [rng.choice([None, i]) for i in range(n)],
    lambda rng, n: [float(i) for i in range(n)],
    lambda rng, n: [rng.choice([float("nan"), 1.0, 2.0]) for _ in range(n)],
    lambda rng, n: [f"{i}".encode() for i in range(n)],
    lambda rng, n: [bytes([200, i % 256]) for i in range(n)],
    lambda rng, n: [{"a": i, "b": str(i)} for i in range(n)],
    lambda rng, n: [_floats(rng, 3) for _ in range(n)],
    lambda rng, n: [_floats(rng, rng.randint(0, 3)) for _ in range(n)],
    lambda rng, n: [rng.choice([None, _floats(rng, 2)]) for _ in range(n)],
    lambda rng, n: [[None, 1.0] for _ in range(n)],
    lambda rng, n: [[float("nan"), 1e200] for _ in range(n)],
    lambda rng, n: [[rng.randint(0, 9), 1] for _ in range(n)],
    lambda rng, n: [[[1.0], [2.0]] for _ in range(n)],
    lambda rng, n: [_texts(rng, 2) for _ in range(n)],
    lambda rng, n: pa.array(_texts(rng, n)).dictionary_encode(),
    lambda rng, n: pa.array([i % 4 for i in range(n)]).dictionary_encode(),
    lambda rng, n: pa.array([None, *_texts(rng, n)][:n], pa.string()).dictionary_encode(),
    lambda rng, n: pa.array(_texts(rng, n), pa.large_string()),
    lambda rng, n: pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
    lambda rng, n: pa.array([i % 100 for i in range(n)], pa.int8()),
    lambda rng, n: pa.array(_floats(rng, n), pa.float32()),
    lambda rng, n: pa.array([_floats(rng, 2) for _ in range(n)], pa.list_(pa.float32(), 2)),
    lambda rng, n: pa.array([[i, 1] for i in range(n)], pa.large_list(pa.int64())),
    lambda rng, n: pa.array([[("k", i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
)
