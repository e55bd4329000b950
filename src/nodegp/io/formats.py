"""The formats of tables by the endings of files' names.

To add one, write a :class:`Format` and list it in ``FORMATS`` under the ending of its files' names:
tables are then read and written in it wherever a file is named, and messages list it. Whatever
pyarrow has to say about a bad file is put into our words here and nowhere else.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from nodegp.io.delimited import Delimited
from nodegp.io.format import Format, Names
from nodegp.io.records import Whole, excel, json_lines, json_table
from nodegp.io.words import short

__all__ = ["FORMATS", "Delimited", "Format", "Parquet", "endings", "format_of", "reading"]


_BUFFER = 1 << 16  # bytes of a column that are read at a time where a file is read in batches


class Parquet(Format):
    """Parquet, which knows the types of its columns."""

    def columns(self, path: Path) -> tuple[tuple[str, ...], pa.Schema]:
        schema = pa.parquet.read_schema(path)
        return tuple(schema.names), schema

    def read(self, path: Path, columns: Names, text: Names, names: Names | None) -> pa.Table:
        table = pa.parquet.ParquetFile(path).read(columns=columns)
        table.validate(full=True)  # that text is UTF-8, which reading does not look at
        return table

    def batches(
        self,
        path: Path,
        columns: Names,
        types: Mapping[str, pa.DataType],
        names: Names | None,
        n_rows: int,
    ) -> Iterator[pa.Table]:
        # Page by page: a file may have all its rows in one group, which is read ahead otherwise.
        with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
            for batch in file.iter_batches(n_rows, columns=list(columns), use_threads=False):
                batch.validate(full=True)
                yield pa.Table.from_batches([batch])

    def writer(self, file: BinaryIO, schema: pa.Schema) -> Any:
        return pa.parquet.ParquetWriter(file, schema)


FORMATS: dict[str, Format] = {
    ".csv": Delimited(","),
    ".tsv": Delimited("\t"),
    **dict.fromkeys((".txt", ".dat", ".edges", ".edgelist"), Delimited(is_loose=True)),
    ".parquet": Parquet(),
    ".pq": Parquet(),
    ".json": Whole(json_table, may_be_zipped=True),
    **dict.fromkeys((".jsonl", ".ndjson"), Whole(json_lines, may_be_zipped=True)),
    ".xlsx": Whole(excel, has_header_line=True),
}


def format_of(path: Path) -> tuple[Format | None, bool]:
    """The format that a file's name stands for, if any, and whether the file is compressed."""
    is_zipped = path.suffix.lower() == ".gz"
    ending = (path.with_suffix("") if is_zipped else path).suffix.lower()
    format_ = FORMATS.get(ending)
    return (None if is_zipped and format_ and not format_.may_be_zipped else format_), is_zipped


def endings(to_write: bool = False) -> str:
    """The endings of names of files that can be read, or written, in words."""
    usable = {ending: f for ending, f in FORMATS.items() if f.can_write or not to_write}
    zipped = [ending for ending, format_ in usable.items() if format_.may_be_zipped]
    others = [ending for ending in usable if ending not in zipped]
    return ", ".join([f"{', '.join(zipped)} (these also with .gz)", *others])


@contextmanager
def reading(path: Path, names: Sequence[str] = ()) -> Iterator[None]:
    """Turn the errors of parsers and decoders into one sentence with the file's name."""
    try:
        yield
    except UnicodeError:
        raise ValueError(f"{path} is not text in its encoding; save it as UTF-8") from None
    except (pa.ArrowException, OSError, EOFError, csv.Error, zlib.error) as error:
        raise ValueError(_in_our_words(path, names, " ".join(str(error).split()))) from None


def _in_our_words(path: Path, names: Sequence[str], message: str) -> str:
    if ragged := re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", message):
        row, expected, fields = ragged.groups()
        place = f"line {row} of {path}" if row else f"a line of {path}"
        return f"{place} has {fields} fields where the first line has {expected}"
    if conversion := re.search(r"column #(\d+).*?conversion error(.*)", message):
        number, what = int(conversion.group(1)), conversion.group(2)
        place = f"column {short(names[number])!r} of {path}" if number < len(names) else f"{path}"
        if "UTF8" in what:
            return f"{place} is not UTF-8 text; save it as UTF-8"
        return f"{place} cannot be read: {short(what)}"
    if isinstance(format_of(path)[0], Parquet) and "implemented" not in message:
        return f"{path} is not a Parquet file, or is damaged"
    for sign, meaning in (
        ("straddl", "has a line that is too long; perhaps a quote is opened there and not closed"),
        ("universal-newline", "has line ends that are not understood; save it with newlines"),
        ("gzip|zlib|end-of-stream|CRC|decompress", "is not a gzip file, or is damaged"),
        ("Empty CSV", "is empty; a table needs a header and rows"),
    ):
        if re.search(sign, message):
            return f"{path} {meaning}"
    return f"{path} cannot be read: {short(message)}"
