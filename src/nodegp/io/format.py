"""What a format of tables has to be able to do."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, Protocol

import pyarrow as pa

__all__ = ["Format", "Names", "open_bytes"]

Names = Sequence[str]


class Format(Protocol):
    """One kind of file that holds a table."""

    is_text: ClassVar[bool] = False
    """Whether a number is known only by how it is written."""
    may_be_zipped: bool = False
    """Whether such files may be compressed with gzip, their names ending in .gz then."""
    has_header_line: bool = False
    """Whether the names of columns are a line of the file, which may be a row if there are none."""
    can_write: bool = True

    def opened(self, path: Path, sep: str | None, encoding: str | None) -> Format:
        """The format with what has to be looked for in this file, if anything; a user may force
        what separates the fields of text, and its encoding."""
        return self

    def columns(self, path: Path) -> tuple[tuple[str, ...], pa.Schema | None]:
        """The names of the columns, and their types if those are known before reading."""

    def read(self, path: Path, columns: Names, text: Names, names: Names | None) -> pa.Table:
        """These columns; those in ``text`` as they are written, if the file is text.

        ``names`` are those of all columns of a text file that has no header.
        """

    def batches(
        self,
        path: Path,
        columns: Names,
        types: Mapping[str, pa.DataType],
        names: Names | None,
        n_rows: int,
    ) -> Iterator[pa.Table]:
        """The same as :meth:`read` some rows at a time, for what does not fit in memory: about
        ``n_rows``, or what the file has in a block.

        ``types`` are those that columns of a text file must have; others get what their first rows
        look like.
        """
        text = [name for name, kind in types.items() if pa.types.is_string(kind)]
        yield self.read(path, columns, text, names)

    def writer(self, file: BinaryIO, schema: pa.Schema) -> Any:
        """What has ``write_table(table)`` and ``close()``."""
        raise TypeError(f"{type(self).__name__} tables are read only")


def open_bytes(path: Path) -> IO[bytes]:
    """What a file holds, behind its compression if its name says that there is one."""
    is_zipped = path.suffix.lower() == ".gz"
    return gzip.open(path) if is_zipped else path.open("rb")  # type: ignore[return-value]
