"""Files that are read whole before anything is known of their columns: JSON and Excel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from nodegp.extras import to_install
from nodegp.io.format import Format, open_bytes
from nodegp.io.frames import Frame

__all__ = ["Whole", "excel", "json_lines", "json_table", "table_of"]


@dataclass(frozen=True)
class Whole(Format):
    """A file that becomes a table in memory."""

    load: Callable[[Path], pa.Table]
    has_header_line: bool = False
    may_be_zipped: bool = False
    can_write: bool = False

    def opened(self, path: Path, sep: str | None, encoding: str | None) -> Frame:
        return Frame(self.load(path), self.has_header_line)

    def columns(self, path: Path) -> tuple[tuple[str, ...], pa.Schema]:
        raise TypeError("open the file first")

    def read(self, *args: Any) -> pa.Table:
        raise TypeError("open the file first")


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Records as a table with every key that any of them has; empty text is a gap."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    values = [None if isinstance(value, str) and not value else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, perhaps
        return pa.array([None if value is None else _written(value) for value in values])


def _written(value: Any) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def json_table(path: Path) -> pa.Table:
    """A list of records, or a mapping from ids to lists of numbers or to records."""
    content = _parsed(path, _text(path))
    if isinstance(content, dict):
        if all(isinstance(value, dict) for value in content.values()):
            return table_of([{"id": id, **record} for id, record in content.items()])
        if all(isinstance(value, list) for value in content.values()):
            return table_of([{"id": id, "features": row} for id, row in content.items()])
    return _records(path, content)


def json_lines(path: Path) -> pa.Table:
    """A record on each line."""
    lines = _text(path).splitlines()
    return _records(path, [_parsed(path, line, n) for n, line in enumerate(lines) if line.strip()])


def _text(path: Path) -> str:
    with open_bytes(path) as file:
        return file.read().decode("utf-8-sig")


def _records(path: Path, content: Any) -> pa.Table:
    is_list = isinstance(content, list) and len(content) > 0
    if not is_list or not all(isinstance(row, dict) for row in content):
        raise ValueError(
            f'{path} holds no table: that is a list of records such as [{{"id": 1}}], or a '
            "mapping from ids to lists of numbers"
        )
    return table_of(content)


def _parsed(path: Path, text: str, lines_before: int = 0) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = lines_before + getattr(error, "lineno", 1)
        raise ValueError(f"{path} is not JSON, or is damaged: see line {line}") from None


def excel(path: Path) -> pa.Table:
    """The first sheet, its first row that is not empty taken for the header."""
    try:
        from python_calamine import CalamineError, load_workbook
    except ImportError as missing:
        raise ImportError(f"{path} needs python-calamine: {to_install('excel')}") from missing
    try:
        rows = load_workbook(path).get_sheet_by_index(0).to_python()
    except (CalamineError, OSError):
        raise ValueError(f"{path} is not an Excel file, or is damaged") from None
    rows = [row for row in rows if any(cell != "" for cell in row)]
    if not rows:
        raise ValueError(f"{path} has nothing in its first sheet; a table needs a header and rows")
    head, *rows = rows
    # A column without a name has its position for one, if it holds anything.
    used = [n for n, name in enumerate(head) if name != "" or any(row[n] != "" for row in rows)]
    columns = [_column([row[n] for row in rows]) for n in used]
    return pa.table(columns, [_written(head[n]).strip() or str(n + 1) for n in used])
