"""Tables out, block by block: a million rows are never in memory at once."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nodegp.files import check_place, open_atomically
from nodegp.io.formats import FORMATS, Format, endings, format_of

__all__ = ["check_output", "write_tables"]

_BETWEEN = "|"  # the items of a list, in a text file


def check_output(path: str | Path) -> tuple[Format, bool]:
    """Refuse a name that :func:`write_tables` cannot write, before hours of work are lost; returns
    the format, and whether the file is to be compressed."""
    format_, is_zipped = format_of(Path(path))
    if format_ is None or not format_.can_write:
        raise ValueError(
            f"{path}: cannot tell the format from the name; use {endings(to_write=True)}"
        )
    check_place(Path(path))
    return format_, is_zipped


def write_tables(path: str | Path | None, tables: Iterable[pa.Table]) -> int:
    """Write tables with the same columns one after the other; returns the number of rows.

    The name says how: .csv, .tsv (both also with .gz) or .parquet. None is CSV on standard
    output. The file appears whole or not at all. Text files have the items of a list with ``|``
    between them.
    """
    if path is None:
        return _write(FORMATS[".csv"], sys.stdout.buffer, tables)
    format_, is_zipped = check_output(path)
    with ExitStack() as stack:
        file: Any = stack.enter_context(open_atomically(Path(path)))
        if is_zipped:
            file = stack.enter_context(gzip.GzipFile(fileobj=file, mode="wb", mtime=0))
        return _write(format_, file, tables)


def _write(format_: Format, file: Any, tables: Iterable[pa.Table]) -> int:
    writer, n_rows = None, 0
    try:
        for table in map(_flat, tables) if format_.is_text else tables:
            if writer is None:
                writer = format_.writer(file, table.schema)
            writer.write_table(table)
            n_rows += len(table)
    finally:
        if writer is not None:
            writer.close()
    return n_rows


def _flat(table: pa.Table) -> pa.Table:
    """The table with every list as one text."""
    for number, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            items = table.column(number).cast(pa.list_(pa.string()))
            if pc.any(pc.match_substring(pc.list_flatten(items), _BETWEEN)).as_py():
                raise ValueError(
                    f"column {field.name!r} has names with {_BETWEEN!r} in them, which stands "
                    "between the items of a list in a text file; write .parquet or use --json"
                )
            table = table.set_column(number, field.name, pc.binary_join(items, _BETWEEN))
    return table
