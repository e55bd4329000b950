"""One table in a file: its columns by name or position, read when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as _types

from nodegp.io.arrays import read_matrix
from nodegp.io.formats import Format, endings, format_of, reading
from nodegp.io.frames import Frame, arrow_table
from nodegp.io.words import amount, listed, short

__all__ = [
    "Column",
    "Table",
    "TableFile",
    "amount",
    "is_list",
    "is_number",
    "is_text",
    "written_values",
]

Column = str | int  # by name, or by position from 1

_NUMBERS = (_types.is_integer, _types.is_floating, _types.is_decimal, _types.is_boolean)
_LISTS = (_types.is_list, _types.is_large_list, _types.is_fixed_size_list)
_MOST_COLUMNS = 100_000  # pyarrow takes 9 kB for each, whatever it holds
_COMPARED = 1_000  # columns looked at for one that may have been meant
_MISSPELT = 0.8  # how like a name another is that was meant to be it


@dataclass(frozen=True)
class Table:
    """Columns that were read, the file that they came from, and matrices with a row for each of
    theirs by the endings of their own files' names."""

    file: TableFile
    data: pa.Table
    matrices: Mapping[str, Any] = field(default_factory=dict)
    first_row: int = 0  # of the file, if only some were read

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def is_text(self) -> bool:
        """Whether a number is only known by how it is written."""
        return self.file.is_text

    def __len__(self) -> int:
        return self.data.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        return self.data.column(name)

    def with_matrices(self, **paths: str | Path | None) -> Table:
        """The same with the matrices in these files."""
        files = {ending: path for ending, path in paths.items() if path is not None}
        matrices = {ending: read_matrix(path, ending, len(self)) for ending, path in files.items()}
        return replace(self, matrices=matrices)

    def where(self, name: str) -> str:
        return f"column {name!r} of {self.path}"

    def refuse(self, name: str, is_bad: Any, what: str, hint: str = "") -> None:
        """Raise if any row of a column is bad (a mask of Arrow's or numpy's), and say which."""
        row = pc.index(pa.array(is_bad) if isinstance(is_bad, np.ndarray) else is_bad, True).as_py()
        if row >= 0:
            raise ValueError(f"{self.where(name)} {what} in row {self.first_row + row + 1}{hint}")


@dataclass(frozen=True)
class TableFile:
    """A table that is not read yet, but whose columns are known.

    ``schema`` is None for text, whose types are known only when it is read. A file without a
    header has its columns' positions for names.
    """

    path: Path  # or what a table in memory is called
    format: Format
    names: tuple[str, ...]
    schema: pa.Schema | None = None
    header: bool = True

    @classmethod
    def open(
        cls, source: Any, what: str, sep: str | None = None, encoding: str | None = None
    ) -> TableFile:
        """Look at a file's first line, or at its schema, or at those of a table of ``what`` in
        memory."""
        if not isinstance(source, str | Path):
            frame, name = Frame(arrow_table(source, what)), Path(f"the {what} table")
            return cls(name, frame, *frame.columns(name))
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give a file ({endings()})")
        if path.stat().st_size == 0:
            raise ValueError(f"{path} is empty; a table needs a header and rows")
        format_, _ = format_of(path)
        if path.suffix.lower() == ".xls":
            raise ValueError(f"{path} is of an Excel before 2007; save it as .xlsx, or as .csv")
        if format_ is None:
            raise ValueError(f"{path} is of no kind that can be read as a table ({endings()})")
        with reading(path):
            format_ = format_.opened(path, sep, encoding)
            names, schema = format_.columns(path)
        if len(names) > _MOST_COLUMNS:
            raise ValueError(
                f"{path} has {len(names):,} columns, more than the {_MOST_COLUMNS:,} that can be "
                "read; give a wide matrix as .npy or .npz"
            )
        return cls(path, format_, names, schema)

    @property
    def is_text(self) -> bool:
        return self.format.is_text

    def without_header(self) -> TableFile:
        """The same file, its first line taken for a row."""
        names = tuple(str(n) for n in range(1, len(self.names) + 1))
        return replace(self, names=names, header=False)

    def has_names(self, columns: Iterable[Column | None]) -> bool:
        """Whether any of these columns is given by its name, not by position."""
        texts = [column for column in columns if isinstance(column, str)]
        return any(text in self.names or not text.isdecimal() for text in texts)

    def no_header(self, why: str) -> str:
        """What to say of a file whose first line is a row."""
        return (
            f"{self.path} has no header: its first line {why}. Add a line with the names of the "
            "columns, such as id,label"
        )

    def find(self, column: Column, what: str) -> str:
        """The name of a column given by name, or by position counted from 1."""
        same = [name for name in self.names if name == column]
        same = same or [name for name in self.names if name.strip() == column]
        if len(same) > 1:
            raise ValueError(f"{self.path} has {len(same)} columns named {column!r}; rename them")
        if same:
            return same[0]
        if isinstance(column, int) or (column.isascii() and column.isdecimal()):
            if 1 <= int(column) <= len(self.names):
                return self.names[int(column) - 1]
            raise ValueError(
                f"{self.path} has no column {column} for {what}: positions count from 1 and it "
                f"has {len(self.names)} columns"
            )
        near = get_close_matches(column, self.names[:_COMPARED], 1, 0.6)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        names = listed([repr(short(name)) for name in self.names])
        raise ValueError(f"{self.path} has no column {column!r} for {what}; it has {names}.{guess}")

    def find_id(self, id: Column | None, usual: Column | None = None) -> str:
        """The column of ids; by default the usual one if the file has it, and else the first,
        unless that is the usual one misspelt."""
        if id is None and usual in self.names:
            id = usual
        if id is not None:
            return self.find(id, "ids")
        name = self.find(1, "ids")
        if usual is not None and get_close_matches(name, [str(usual)], 1, _MISSPELT):
            raise ValueError(
                f"{self.path} has a column {name!r}, and none of the name {usual!r} that ids have: "
                "rename it, or say that it is the column of ids"
            )
        return name

    def read(self, columns: Sequence[str] | None = None, text: Sequence[str] = ()) -> Table:
        """Read these columns (all by default).

        Those named in ``text`` come as text if the file is text, just as they are written.
        """
        names = self._different(self.names if columns is None else columns)
        with reading(self.path, self.names):
            data = self.format.read(self.path, names, text, None if self.header else self.names)
        return Table(self, data)

    def batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], n_rows: int
    ) -> Iterator[Table]:
        """Read these columns about so many rows at a time.

        Of a text file, columns get the ``types`` that are given here; see
        :meth:`nodegp.io.format.Format.batches`.
        """
        names, header = self._different(columns), None if self.header else self.names
        types = {name: kind for name, kind in types.items() if name in names}
        first_row = 0
        with reading(self.path, self.names):
            found = self.format.batches(self.path, names, types, header, n_rows)
        while True:
            with reading(self.path, self.names):
                data = next(found, None)
            if data is None:
                return
            yield Table(self, data, first_row=first_row)
            first_row += data.num_rows

    def _different(self, columns: Iterable[str]) -> list[str]:
        """These columns, each once; raises if the file has two of a name."""
        names, counts = list(dict.fromkeys(columns)), Counter(self.names)
        for name in names:
            if counts[name] > 1:
                raise ValueError(
                    f"{self.path} has more than one column named {short(name)!r}; rename them, or "
                    "add a line with the names of the columns if it has none"
                )
        return names


def written_values(column: pa.ChunkedArray) -> np.ndarray:
    """A column as people read it, (rows,) of text, empty at gaps."""
    try:
        text = column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.array(["" if v is None else str(v) for v in column.to_pylist()], dtype=object)
    return pc.fill_null(text, "").to_numpy(zero_copy_only=False)


def is_number(kind: pa.DataType) -> bool:
    return any(is_a(kind) for is_a in _NUMBERS)


def is_list(kind: pa.DataType) -> bool:
    """Whether it holds lists of numbers."""
    if not any(is_a(kind) for is_a in _LISTS):
        return False
    return _types.is_floating(kind.value_type) or _types.is_integer(kind.value_type)


def is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if _types.is_dictionary(kind) else kind
    return _types.is_string(kind) or _types.is_large_string(kind)
