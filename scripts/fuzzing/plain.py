"""Tables read in the plainest way, to hold against what the command line made of them."""

from __future__ import annotations

import csv
import gzip
import io
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    names, *rows = _text_rows(path)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _text_rows(path: Path) -> list[list[str]]:
    csv.field_size_limit(1 << 28)
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    text = content.decode("utf-8-sig", "replace")  # columns that are not read may be anything
    tabs = ".tsv" in path.name or (".txt" in path.name and "\t" in text.lstrip().splitlines()[0])
    delimiter = "\t" if tabs else ","
    first = text.lstrip().splitlines()[0]
    if delimiter not in first:  # another one is found out by whatever is in the first line
        delimiter = next((other for other in "\t,;|" if other in first), delimiter)
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]


def column_of(
    path: Path, column: str, known: set[str] | None = None, default: int | None = None
) -> list[str]:
    """A column as text, stripped. A first line of two known ids is an edge, not a header."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        name = file.schema_arrow.names[_place(file.schema_arrow.names, column, default)]
        return [_text(value) for value in file.read([name]).column(0).to_pylist()]
    rows = _text_rows(path)
    names = rows.pop(0)
    place = _place(names, column, default)
    if known is not None and {name.strip() for name in names[:2]} <= known and column.isdecimal():
        rows.insert(0, names)
    return [row[place].strip() for row in rows]


def _place(names: list[str], column: str, default: int | None) -> int:
    for same in (lambda name: name == column, lambda name: name.strip() == column):
        places = [i for i, name in enumerate(names) if same(name)]
        if places:
            return places[0]
    return int(column) - 1 if default is None else default


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    whole = not isinstance(value, str | bytes) and value == int(value)
    return str(int(value)) if whole else str(value).strip()
