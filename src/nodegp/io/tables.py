"""One table in a file: its format by its name, its columns by name or position.

CSV, TSV (either also with gzip) and Parquet. Whatever pyarrow has to say about a bad file is
put into our words here and nowhere else.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

FORMATS = ".csv, .tsv, .txt, .csv.gz, .tsv.gz, .txt.gz and .parquet"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_BLOCK = 1 << 24  # bytes that pyarrow parses at a time; no line may be longer
_MOST_COLUMNS = 100_000  # pyarrow takes 9 kB for each, whatever it holds
_SHOWN = 10  # columns listed in an error
_COMPARED = 1_000  # columns looked at for one that may have been meant


@dataclass(frozen=True)
class Table:
    """Columns that were read, and the file that they came from."""

    path: Path
    data: pa.Table
    written: bool  # as text (CSV), where a number is only known by how it is written

    def __len__(self) -> int:
        return self.data.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        return self.data.column(name)

    def where(self, name: str) -> str:
        return f"column {name!r} of {self.path}"


@dataclass(frozen=True)
class TableFile:
    """A table that is not read yet, but whose columns are known.

    ``delimiter`` is None for Parquet and ``schema`` for text, whose types are known only when
    it is read. A file without a header has its columns' positions for
    names.
    """

    path: Path
    names: tuple[str, ...]
    delimiter: str | None
    schema: pa.Schema | None = None
    header: bool = True

    @classmethod
    def open(cls, path: str | Path) -> TableFile:
        """Look at a file's first line, or at its schema."""
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give a file ({FORMATS})")
        if path.stat().st_size == 0:
            raise ValueError(f"{path} is empty; a table needs a header and rows")
        kind = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
        if path.suffix.lower() in (".parquet", ".pq"):
            with reading(path):
                schema = pa.parquet.read_schema(path)
            _refuse_wide(path, len(schema.names))
            return cls(path, tuple(schema.names), None, schema)
        if kind not in (*_DELIMITERS, ".txt"):
            raise ValueError(f"{path} is of no kind that can be read as a table ({FORMATS})")
        with reading(path):
            _refuse_binary(path)
            delimiter = _DELIMITERS.get(kind) or _sniffed(path)
            names = _first_row(path, delimiter)
        _refuse_wide(path, len(names))
        if len(names) == 1:
            for other in ";\t|,":
                if other in names[0]:
                    raise ValueError(
                        f"{path} has one column, {short(names[0])!r}: its fields seem to be "
                        f"separated by {other!r}. Save it with commas (.csv) or tabs (.tsv)."
                    )
        return cls(path, names, delimiter)

    def without_header(self) -> TableFile:
        """The same file, its first line taken for a row."""
        names = tuple(str(n) for n in range(1, len(self.names) + 1))
        return replace(self, names=names, header=False)

    def find(self, column: str | int, what: str) -> str:
        """The name of a column given by name, or by position counted from 1."""
        named = [name for name in self.names if name == column]
        if not named:
            named = [name for name in self.names if name.strip() == column]
        if len(named) > 1:
            raise ValueError(f"{self.path} has {len(named)} columns named {column!r}; rename them")
        if named:
            return named[0]
        if isinstance(column, int) or (column.isascii() and column.isdecimal()):
            if 1 <= int(column) <= len(self.names):
                return self.names[int(column) - 1]
            raise ValueError(
                f"{self.path} has no column {column} for {what}: positions count from 1 and it "
                f"has {len(self.names)} columns"
            )
        near = get_close_matches(column, self.names[:_COMPARED], 1, 0.6)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"{self.path} has no column {column!r} for {what}; it has {self._listed()}.{guess}"
        )

    def _listed(self) -> str:
        shown = ", ".join(repr(short(name)) for name in self.names[:_SHOWN])
        more = len(self.names) - _SHOWN
        return shown + (f" and {more} more" if more > 0 else "")

    def read(self, columns: Sequence[str] | None = None, text: Sequence[str] = ()) -> Table:
        """Read these columns (all by default).

        Those named in ``text`` come as text if the file is text, just as they are written.
        """
        wanted = list(self.names if columns is None else dict.fromkeys(columns))
        counts = Counter(self.names)
        repeated = [name for name in wanted if counts[name] > 1]
        if repeated:
            raise ValueError(
                f"{self.path} has more than one column named {short(repeated[0])!r}; rename them"
            )
        with reading(self.path, self.names):
            if self.delimiter is None:
                data = pa.parquet.ParquetFile(self.path).read(columns=wanted)
                data.validate(full=True)  # that text is UTF-8, which reading does not look at
            else:
                data = self._parsed(wanted, text)
        for name, kind in zip(data.column_names, data.schema.types, strict=True):
            if self.delimiter is not None and pa.types.is_binary(kind):
                raise ValueError(f"column {name!r} of {self.path} is not UTF-8 text")
        return Table(self.path, data, self.delimiter is not None)

    def _parsed(self, columns: list[str], text: Sequence[str]) -> pa.Table:
        parse = pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        # Gaps are told from text by us: a class or an id may well be called "NA".
        convert = pa.csv.ConvertOptions(
            include_columns=columns,
            column_types={name: pa.string() for name in text},
            strings_can_be_null=False,
        )

        def parsed(threads: bool) -> pa.Table:
            read = pa.csv.ReadOptions(
                column_names=None if self.header else list(self.names),
                block_size=_BLOCK,
                use_threads=threads,
            )
            return pa.csv.read_csv(self.path, read, parse, convert)

        try:
            return parsed(True)
        except pa.ArrowInvalid as error:
            if "columns, got" not in str(error):
                raise
        return parsed(False)  # slower, but it fails with the number of the row


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
    ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", message)
    if ragged:
        row, expected, found = ragged.groups()
        place = f"line {row} of {path}" if row else f"a line of {path}"
        return f"{place} has {found} fields where the first line has {expected}"
    if "straddl" in message:
        return f"a line of {path} is too long; perhaps a quote is opened there and never closed"
    conversion = re.search(r"column #(\d+).*?conversion error(.*)", message)
    if conversion:
        number, what = int(conversion.group(1)), conversion.group(2)
        place = f"column {short(names[number])!r} of {path}" if number < len(names) else f"{path}"
        if "UTF8" in what:
            return f"{place} is not UTF-8 text; save it as UTF-8"
        return f"{place} cannot be read: {short(what)}"
    if "universal-newline" in message:
        return f"{path} has line ends that are not understood; save it with newlines"
    if path.suffix.lower() in (".parquet", ".pq") and "implemented" not in message:
        return f"{path} is not a Parquet file, or is damaged"
    if any(word in message for word in ("gzip", "zlib", "end-of-stream", "CRC", "decompress")):
        return f"{path} is not a gzip file, or is damaged"
    if "Empty CSV" in message:
        return f"{path} is empty; a table needs a header and rows"
    return f"{path} cannot be read: {short(message)}"


def short(text: Any) -> str:
    """Text from a file as it may stand in an error: printable, and not a page of it."""
    plain = "".join(c if c.isprintable() else "?" for c in str(text).strip())
    return plain if len(plain) <= 60 else plain[:57] + "..."


def amount(count: int, one: str, many: str | None = None) -> str:
    """A number of things in words: "1 column", "2 columns"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _opened(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path)  # type: ignore[return-value]
    return path.open("rb")


def _refuse_binary(path: Path) -> None:
    with _opened(path) as file:
        start = file.read(1 << 16)
    if start.startswith(b"PAR1"):
        raise ValueError(f"{path} is a Parquet file; give it a name that ends in .parquet")
    if start.startswith(b"\x1f\x8b"):
        raise ValueError(f"{path} is compressed with gzip; give it a name that ends in .gz")
    if b"\0" in start:
        raise ValueError(f"{path} is not a text file; tables are {FORMATS}")


def _refuse_wide(path: Path, n_columns: int) -> None:
    if n_columns > _MOST_COLUMNS:
        raise ValueError(
            f"{path} has {n_columns:,} columns, more than the {_MOST_COLUMNS:,} that can be read; "
            "give a wide matrix as .npy or .npz"
        )


def _first_row(path: Path, delimiter: str) -> tuple[str, ...]:
    with _opened(path) as file:
        lines = (line.decode("utf-8-sig" if n == 0 else "utf-8") for n, line in enumerate(file))
        for row in csv.reader(lines, delimiter=delimiter):
            if row:
                return tuple(row)
    raise ValueError(f"{path} has only empty lines; a table needs a header and rows")


def _sniffed(path: Path) -> str:
    """What separates the fields of a .txt file: tabs or commas."""
    (line,) = _first_row(path, "\0")
    for delimiter in ("\t", ","):
        if delimiter in line:
            return delimiter
    raise ValueError(f"{path} has neither tabs nor commas in its first line, {short(line)!r}")
