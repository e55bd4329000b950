"""Tables in memory, of pandas, polars or pyarrow, as if they were files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nodegp.io.format import Format, Names

__all__ = ["Frame", "arrow_table"]


@dataclass(frozen=True, eq=False)
class Frame(Format):
    """An Arrow table. Categories are what they stand for, and text is of a kind that all functions
    take."""

    table: pa.Table
    has_header_line: bool = False  # in the file that it was read from

    def columns(self, path: Path) -> tuple[tuple[str, ...], pa.Schema]:
        schema = self.table.schema
        fields = [pa.field(item.name, _plain_type(item.type)) for item in schema]
        return tuple(schema.names), pa.schema(fields, schema.metadata)

    def read(self, path: Path, columns: Names, text: Names, names: Names | None) -> pa.Table:
        return pa.table({name: _plain(self.table.column(name)) for name in columns})


def arrow_table(frame: Any, what: str) -> pa.Table:
    """A pandas, polars or pyarrow table as a pyarrow one; ``what`` it is, for errors."""
    if not isinstance(frame, Mapping | Sequence):  # which pyarrow would take for columns
        _check_dates(frame, what)
        try:
            return pa.table(frame)
        except TypeError:
            pass
        except pa.ArrowException as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
            raise ValueError(
                f"the {what} table cannot be read: {reason}. Give each column one type."
            ) from None
    raise TypeError(
        f"{what} must be a file's name or a pandas, polars or pyarrow table, got a "
        f"{type(frame).__name__}"
    )


def _check_dates(frame: Any, what: str) -> None:
    """Refuse a pandas column of numpy's dates and other things: pyarrow ends the process at one of
    dates and numpy's booleans."""
    if type(frame).__module__.partition(".")[0] != "pandas" or getattr(frame, "ndim", 0) != 2:
        return
    for place, (name, dtype) in enumerate(frame.dtypes.items()):
        kinds = set(map(type, frame.iloc[:, place])) if str(dtype) == "object" else set()
        dates = [kind for kind in kinds if issubclass(kind, np.datetime64 | np.timedelta64)]
        if dates and len(kinds) > 1:
            other = next(kind for kind in kinds if kind is not dates[0])
            raise ValueError(
                f"column {name!r} of the {what} table has a {dates[0].__name__} beside a "
                f"{other.__name__}. Give each column one type."
            )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.large_string() if str(kind) == "string_view" else kind


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = _plain_type(column.type)
    if pa.types.is_dictionary(column.type):
        chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks]
        return pa.chunked_array(chunks, kind)
    return column.cast(kind)
