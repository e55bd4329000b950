"""Tables of text, a line to a row: what separates fields, the encoding and comments are looked for
in the file."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.csv

from nodegp.io.cells import with_decimal_points
from nodegp.io.format import Format, Names, open_bytes
from nodegp.io.words import listed, short

__all__ = ["Delimited"]

_BLOCK = 1 << 24  # bytes that pyarrow parses at a time; no line may be longer
_SMALL_BLOCK = 1 << 22  # the same where a file is read in batches: many are read ahead
_LINES = 1 << 16  # that are tidied at a time
_LOOKED_AT = 20  # lines that show what separates fields
_SEPARATORS = ("\t", ",", ";", "|")
_COMMENTS = ("#", "%")
_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


@dataclass(frozen=True)
class Delimited(Format):
    """Lines of fields.

    ``delimiter`` is the one to try first, until the file is opened. In lists that many programs
    write (``is_loose``) it may also be spaces, and comments may come first.
    """

    delimiter: str | None = None
    is_loose: bool = False
    encoding: str = "utf8"  # as pyarrow calls it, which then converts nothing
    n_skipped: int = 0  # lines before the table, of comments
    decimal: str = "."  # of numbers that are read in batches
    is_text: ClassVar[bool] = True
    may_be_zipped: ClassVar[bool] = True  # type: ignore[misc]
    has_header_line: ClassVar[bool] = True  # type: ignore[misc]

    @property
    def can_write(self) -> bool:  # type: ignore[override]
        return self.delimiter is not None

    def opened(self, path: Path, sep: str | None, encoding: str | None) -> Delimited:
        _refuse_binary(path)
        encoding = _encoding(path) if encoding is None else _known_encoding(encoding)
        lines: list[str] = []
        n_skipped = 0
        for number, line in enumerate(_lines(path, encoding), 1):
            if self.is_loose and not lines and line.lstrip().startswith(_COMMENTS):
                n_skipped = number
            elif line.strip():
                lines.append(line)
            if len(lines) == _LOOKED_AT:
                break
        if not lines:
            raise ValueError(f"{path} has only empty lines; a table needs a header and rows")
        separator = self._separator(lines) if sep is None else _known_separator(sep)
        return replace(self, delimiter=separator, encoding=encoding, n_skipped=n_skipped)

    def _separator(self, lines: list[str]) -> str:
        """What cuts all lines into as many fields, at least two; or else the first line."""
        first = () if self.delimiter is None else (self.delimiter,)
        candidates = list(dict.fromkeys((*first, *_SEPARATORS)))
        widths = {}
        for separator in [*candidates, " "] if self.is_loose else candidates:
            try:
                widths[separator] = [len(row) for row in _rows(lines, separator)]
            except csv.Error:  # a field that is too long for it, which may be
                widths[separator] = [lines[0].count(separator) + 1, 0]
            if widths[separator][0] > 1 and len(set(widths[separator])) == 1:
                return separator
        return next((one for one in candidates if widths[one][0] > 1), candidates[0])

    def columns(self, path: Path) -> tuple[tuple[str, ...], None]:
        lines = islice(_lines(path, self.encoding), self.n_skipped, None)
        return tuple(next(row for row in _rows(lines, str(self.delimiter)) if row)), None

    def read(self, path: Path, columns: Names, text: Names, names: Names | None) -> pa.Table:
        parse = pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        # Gaps are told from text by us: a class or an id may well be called "NA".
        convert = pa.csv.ConvertOptions(
            include_columns=columns,
            column_types={name: pa.string() for name in text},
            strings_can_be_null=False,
        )
        # Without threads it is slower, but fails with the number of the row.
        for threads in (True, False):
            read = pa.csv.ReadOptions(column_names=names, block_size=_BLOCK, use_threads=threads)
            source: Any = path
            if self.delimiter == " ":
                source = self._tidied(path)
            else:
                read.skip_rows, read.encoding = self.n_skipped, self.encoding
            try:
                table = pa.csv.read_csv(source, read, parse, convert)
                break
            except pa.ArrowInvalid as error:
                if not threads or "columns, got" not in str(error):
                    raise
        for name, kind in zip(table.column_names, table.schema.types, strict=True):
            if pa.types.is_binary(kind):
                raise ValueError(f"column {name!r} of {path} is not {self.encoding} text")
        return table if self.delimiter == "," else _with_decimal_points(path, table, set(text))

    def batches(
        self,
        path: Path,
        columns: Names,
        types: Mapping[str, pa.DataType],
        names: Names | None,
        n_rows: int,
    ) -> Iterator[pa.Table]:
        parse = pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        convert = pa.csv.ConvertOptions(
            include_columns=columns,
            column_types=types,
            strings_can_be_null=False,
            decimal_point=self.decimal,
        )
        read = pa.csv.ReadOptions(column_names=names, block_size=_SMALL_BLOCK, use_threads=False)
        source: Any = path
        if self.delimiter == " ":
            source = io.BufferedReader(_Stream(self._tidied_blocks(path)))
        else:
            read.skip_rows, read.encoding = self.n_skipped, self.encoding
        with pa.csv.open_csv(source, read, parse, convert) as reader:
            for batch in reader:
                for start in range(0, batch.num_rows, n_rows):
                    yield pa.Table.from_batches([batch.slice(start, n_rows)])

    def _tidied_blocks(self, path: Path) -> Iterator[bytes]:
        """As :meth:`_tidied`, some lines at a time."""
        lines = islice(_lines(path, self.encoding), self.n_skipped, None)
        while some := list(islice(lines, _LINES)):
            tidied = (" ".join(line.split()) for line in some)
            yield "".join(line + "\n" for line in tidied if line).encode()

    def _tidied(self, path: Path) -> Any:
        """The file without comments, and with one space where there were several."""
        text = "".join(islice(_lines(path, self.encoding), self.n_skipped, None))
        text = re.sub(r"(?m)^ +| +$", "", re.sub(r"[ \t\r]+", " ", text))
        return pa.BufferReader(text.encode())

    def writer(self, file: BinaryIO, schema: pa.Schema) -> Any:
        options = pa.csv.WriteOptions(delimiter=self.delimiter, quoting_style="needed")
        return pa.csv.CSVWriter(file, schema, write_options=options)


class _Stream(io.RawIOBase):
    """Blocks of bytes as a file to read from."""

    def __init__(self, blocks: Iterator[bytes]):
        self._blocks, self._rest = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _with_decimal_points(path: Path, table: pa.Table, as_written: set[str]) -> pa.Table:
    """The table with numbers where all cells of a column have decimal commas; a line says so."""
    found = []
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) and field.name not in as_written:
            numbers = with_decimal_points(table.column(place))
            if numbers is not None:
                table = table.set_column(place, field.name, numbers)
                found.append(repr(short(field.name)))
    if found:
        warnings.warn(f"{path}: commas in {listed(found)} are read as decimal points", stacklevel=2)
    return table


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """Line by line as they are, without a mark of the byte order."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        for number, line in enumerate(text):
            yield line if number else line.removeprefix("\ufeff")


def _rows(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    is_space = separator == " "
    lines = (" ".join(line.split()) for line in lines) if is_space else lines
    return csv.reader(lines, delimiter=separator)


def _refuse_binary(path: Path) -> None:
    with open_bytes(path) as file:
        start = file.read(1 << 16)
    if start.startswith(b"PAR1"):
        raise ValueError(f"{path} is a Parquet file; give it a name that ends in .parquet")
    if start.startswith(b"\x1f\x8b"):
        raise ValueError(f"{path} is compressed with gzip; give it a name that ends in .gz")
    if start.startswith(b"PK\3\4"):
        raise ValueError(f"{path} is an archive; if it is of Excel, its name must end in .xlsx")
    if b"\0" in start and not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path} is not a text file")


def _encoding(path: Path) -> str:
    """UTF-8 if the file is that, UTF-16 if it says so, and else what Windows wrote."""
    with open_bytes(path) as file:
        start = file.read(2)
        if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
            return "utf8"
        except UnicodeDecodeError:
            file.seek(0)
            is_latin = any(set(block) & {0x81, 0x8D, 0x8F, 0x90, 0x9D} for block in _blocks(file))
    encoding = "latin-1" if is_latin else "cp1252"
    name = "Latin-1" if is_latin else "Windows-1252"
    warnings.warn(
        f"{path} is not UTF-8 text; it is read as {name}. If letters look wrong, say what it is: "
        "--encoding (in Python encoding=)",
        stacklevel=2,
    )
    return encoding


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _known_encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name.replace("utf-8", "utf8")
    except LookupError:
        raise ValueError(f"there is no encoding {name!r}; try utf-8, utf-16 or cp1252") from None


def _known_separator(sep: str) -> str:
    separator = _NAMES.get(sep.lower(), sep)
    if len(separator) != 1:
        raise ValueError(f"sep must be one character, or tab or space, got {sep!r}")
    return separator
