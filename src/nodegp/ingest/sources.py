"""Several files of one table, such as a folder of Parquet, read some rows at a time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from nodegp.io.formats import endings, format_of
from nodegp.io.tables import Table, TableFile
from nodegp.io.words import amount, listed

__all__ = ["Batch", "Source"]


class Batch(NamedTuple):
    """Some rows, and where they are: the number of the file and of the batch in it."""

    file: int
    number: int
    table: Table

    @property
    def place(self) -> list[int]:
        return [self.file, self.number]


@dataclass(frozen=True)
class Source:
    """The files of a table, in the order of their names; all have the same columns."""

    files: tuple[TableFile, ...]
    what: str  # nodes or edges
    ignored: tuple[str, ...] = ()  # files in the folder that are no tables

    @classmethod
    def open(
        cls, source: Any, what: str, sep: str | None = None, encoding: str | None = None
    ) -> Source:
        """A file, a folder of files, a list of files, or a table in memory."""
        paths, ignored = [source], []
        if isinstance(source, list | tuple):
            paths = list(source)
        elif isinstance(source, str | Path) and Path(source).is_dir():
            found = [path for path in sorted(Path(source).rglob("*")) if _is_data(path, source)]
            paths = [path for path in found if format_of(path)[0] is not None]
            ignored = [str(path) for path in found if path not in paths]
            if not paths:
                raise ValueError(f"{source} has no file of a table ({endings()})")
        if not paths:
            raise ValueError(f"no files of {what} were given")
        files = [TableFile.open(path, what, sep, encoding) for path in paths]
        return cls(tuple(files), what, tuple(ignored))

    def require_same_columns(self, names: Sequence[str] | None = None) -> None:
        """Raise unless all files have the columns of the first, or at least these."""
        first = self.files[0]
        for file in self.files[1:]:
            wanted = first.names if names is None else names
            missing = [repr(name) for name in wanted if name not in file.names]
            if missing:
                raise ValueError(
                    f"{file.path} has no column {listed(missing)}, which {first.path} has; all "
                    f"files of {self.what} need the same columns"
                )

    @property
    def path(self) -> str:
        first = str(self.files[0].path)
        more = len(self.files) - 1
        return f"{first} and {amount(more, 'more file')}" if more else first

    def marks(self) -> list[Any]:
        """What the files can be known by again: their names, sizes and times."""
        if not all(isinstance(file.path, Path) and file.path.exists() for file in self.files):
            return [secrets.token_hex(8)]  # a table in memory is not known again
        stats = [(str(file.path.absolute()), file.path.stat()) for file in self.files]
        return [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats]

    @property
    def n_bytes(self) -> int:
        """Of all files."""
        paths = [file.path for file in self.files]
        return sum(path.stat().st_size for path in paths if path.exists())

    def with_files(self, change: Callable[[TableFile], TableFile]) -> Source:
        return replace(self, files=tuple(change(file) for file in self.files))

    def batches(
        self,
        columns: Callable[[TableFile], list[str]],
        types: Mapping[str, pa.DataType],
        n_rows: int,
        after: Sequence[int] = (-1, -1),
    ) -> Iterator[Batch]:
        """Some columns of all files one after the other, after a batch that was the last."""
        for number, file in enumerate(self.files):
            if number < after[0]:
                continue
            found = file.batches(columns(file), types, n_rows)
            for count, table in enumerate(found):
                if (number, count) > tuple(after):
                    yield Batch(number, count, table)


def _is_data(path: Path, folder: Any) -> bool:
    """Whether a file is no mark of a program's, such as _SUCCESS."""
    inside = path.relative_to(folder).parts
    return path.is_file() and not any(part.startswith((".", "_")) for part in inside)
