"""The formats of tables, each with its reader and its writer side by side.

To add one, write a :class:`Format` and list it in ``FORMATS`` under the ending of its files' names:
tables are then read and written in it wherever a file is named, and messages list it. Whatever
pyarrow has to say about a bad file is put into our words here and nowhere else.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from nodegp.io.words import short

__all__ = ["FORMATS", "Delimited", "Format", "Parquet", "endings", "format_of", "reading"]

Names = Sequence[str]

_BLOCK = 1 << 24  # bytes that pyarrow parses at a time; no line may be longer


class Format(Protocol):
    """One kind of file that holds a table."""

    is_text: ClassVar[bool] = False
    """Whether a number is known only by how it is written; such files may be compressed."""
    can_write: bool = True

    def columns(self, path: Path) -> tuple[tuple[str, ...], pa.Schema | None]:
        """The names of the columns, and their types if those are known before reading."""

    def read(self, path: Path, columns: Names, text: Names, names: Names | None) -> pa.Table:
        """These columns; those in ``text`` as they are written, if the file is text.

        ``names`` are those of all columns of a text file that has no header.
        """

    def writer(self, file: BinaryIO, schema: pa.Schema) -> Any:
        """What has ``write_table(table)`` and ``close()``."""
        raise TypeError(f"{type(self).__name__} tables are read only")


@dataclass(frozen=True)
class Delimited(Format):
    """Lines of fields; without a delimiter, tabs or commas, whichever the first line has."""

    delimiter: str | None = None
    is_text: ClassVar[bool] = True

    @property
    def can_write(self) -> bool:  # type: ignore[override]
        return self.delimiter is not None

    def columns(self, path: Path) -> tuple[tuple[str, ...], None]:
        _refuse_binary(path)
        names = _first_row(path, self._delimiter(path))
        for other in ";\t|," if len(names) == 1 else "":
            if other in names[0]:
                raise ValueError(
                    f"{path} has one column, {short(names[0])!r}: its fields seem to be "
                    f"separated by {other!r}. Save it with commas (.csv) or tabs (.tsv)."
                )
        return names, None

    def read(self, path: Path, columns: Names, text: Names, names: Names | None) -> pa.Table:
        parse = pa.csv.ParseOptions(delimiter=self._delimiter(path), newlines_in_values=True)
        # Gaps are told from text by us: a class or an id may well be called "NA".
        convert = pa.csv.ConvertOptions(
            include_columns=columns,
            column_types={name: pa.string() for name in text},
            strings_can_be_null=False,
        )
        # Without threads it is slower, but fails with the number of the row.
        for threads in (True, False):
            read = pa.csv.ReadOptions(column_names=names, block_size=_BLOCK, use_threads=threads)
            try:
                table = pa.csv.read_csv(path, read, parse, convert)
                break
            except pa.ArrowInvalid as error:
                if not threads or "columns, got" not in str(error):
                    raise
        for name, kind in zip(table.column_names, table.schema.types, strict=True):
            if pa.types.is_binary(kind):
                raise ValueError(f"column {name!r} of {path} is not UTF-8 text")
        return table

    def writer(self, file: BinaryIO, schema: pa.Schema) -> Any:
        options = pa.csv.WriteOptions(delimiter=self.delimiter, quoting_style="needed")
        return pa.csv.CSVWriter(file, schema, write_options=options)

    def _delimiter(self, path: Path) -> str:
        if self.delimiter is not None:
            return self.delimiter
        (line,) = _first_row(path, "\0")
        for delimiter in ("\t", ","):
            if delimiter in line:
                return delimiter
        raise ValueError(f"{path} has neither tabs nor commas in its first line, {short(line)!r}")


class Parquet(Format):
    """Parquet, which knows the types of its columns."""

    def columns(self, path: Path) -> tuple[tuple[str, ...], pa.Schema]:
        schema = pa.parquet.read_schema(path)
        return tuple(schema.names), schema

    def read(self, path: Path, columns: Names, text: Names, names: Names | None) -> pa.Table:
        table = pa.parquet.ParquetFile(path).read(columns=columns)
        table.validate(full=True)  # that text is UTF-8, which reading does not look at
        return table

    def writer(self, file: BinaryIO, schema: pa.Schema) -> Any:
        return pa.parquet.ParquetWriter(file, schema)


FORMATS: dict[str, Format] = {
    ".csv": Delimited(","),
    ".tsv": Delimited("\t"),
    ".txt": Delimited(),
    ".parquet": Parquet(),
    ".pq": Parquet(),
}


def format_of(path: Path) -> tuple[Format | None, bool]:
    """The format that a file's name stands for, if any, and whether the file is compressed."""
    is_zipped = path.suffix.lower() == ".gz"
    ending = (path.with_suffix("") if is_zipped else path).suffix.lower()
    format_ = FORMATS.get(ending)
    return (None if is_zipped and format_ and not format_.is_text else format_), is_zipped


def endings(to_write: bool = False) -> str:
    """The endings of names of files that can be read, or written, in words."""
    usable = {ending: f for ending, f in FORMATS.items() if f.can_write or not to_write}
    text = ", ".join(ending for ending, format_ in usable.items() if format_.is_text)
    return ", ".join([f"{text} (these also with .gz)", *(e for e in usable if e not in text)])


@contextmanager
def reading(path: Path, names: Sequence[str] = ()) -> Iterator[None]:
    """Turn the errors of parsers and decoders into one sentence with the file's name."""
    try:
        yield
    except UnicodeError:
        raise ValueError(f"{path} is not UTF-8 text; save it as UTF-8") from None
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


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if format_of(path)[1] else path.open("rb")  # type: ignore[return-value]


def _refuse_binary(path: Path) -> None:
    with _opened(path) as file:
        start = file.read(1 << 16)
    if start.startswith(b"PAR1"):
        raise ValueError(f"{path} is a Parquet file; give it a name that ends in .parquet")
    if start.startswith(b"\x1f\x8b"):
        raise ValueError(f"{path} is compressed with gzip; give it a name that ends in .gz")
    if b"\0" in start:
        raise ValueError(f"{path} is not a text file; tables are {endings()}")


def _first_row(path: Path, delimiter: str) -> tuple[str, ...]:
    with _opened(path) as file:
        lines = (line.decode("utf-8-sig" if n == 0 else "utf-8") for n, line in enumerate(file))
        for row in csv.reader(lines, delimiter=delimiter):
            if row:
                return tuple(row)
    raise ValueError(f"{path} has only empty lines; a table needs a header and rows")
