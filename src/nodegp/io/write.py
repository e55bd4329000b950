"""Tables out, block by block: a million rows are never in memory at once."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from nodegp.files import check_place, open_atomically

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_BETWEEN = "|"  # the items of a list, in a text file


def check_output(path: str | Path) -> None:
    """Refuse a name that :func:`write_tables` cannot write, before hours of work are lost."""
    path = Path(path)
    _kind(path)
    check_place(path)


def write_tables(path: str | Path | None, tables: Iterable[pa.Table]) -> int:
    """Write tables with the same columns one after the other; returns the number of rows.

    The name says how: .csv, .tsv (both also with .gz) or .parquet. None is CSV on standard
    output. The file appears whole or not at all. Text files have the items of a list with ``|``
    between them.
    """
    if path is None:
        return _write(sys.stdout.buffer, map(_flat, tables), _csv_writer(","))
    path = Path(path)
    check_output(path)
    kind, zipped = _kind(path)
    with ExitStack() as stack:
        file: Any = stack.enter_context(open_atomically(path))
        if zipped:
            file = stack.enter_context(gzip.GzipFile(fileobj=file, mode="wb", mtime=0))
        if kind == ".parquet":
            return _write(file, tables, pa.parquet.ParquetWriter)
        return _write(file, map(_flat, tables), _csv_writer(_DELIMITERS[kind]))


def _write(file: BinaryIO, tables: Iterable[pa.Table], writer_for: Callable[..., Any]) -> int:
    writer, n_rows = None, 0
    try:
        for table in tables:
            if writer is None:
                writer = writer_for(file, table.schema)
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


def _csv_writer(delimiter: str) -> Callable[..., Any]:
    options = pa.csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
    return lambda file, schema: pa.csv.CSVWriter(file, schema, write_options=options)


def _kind(path: Path) -> tuple[str, bool]:
    """The format that a name stands for, and whether it is to be compressed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = suffixes[-1:] == [".gz"]
    kind = suffixes[-2] if zipped and len(suffixes) > 1 else suffixes[-1] if suffixes else ""
    if kind in _DELIMITERS or (kind == ".parquet" and not zipped):
        return kind, zipped
    raise ValueError(
        f"{path}: cannot tell the format from the name; use .csv, .tsv (also with .gz) or .parquet"
    )
