"""Names as users write them: node ids and class labels, kept as they are and matched.

A name is a whole number or text. In a text file a column holds whole numbers only if writing
them again gives the same text: "007" stays text, and so does a number of forty digits. Spaces
around a name are no part of it. Where one file has numbers and another text, they are compared
as text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodegp.io.tables import Table, TableFile, is_text
from nodegp.io.words import listed, short

__all__ = ["TEXT", "Index", "as_names", "examples", "ids_of", "names_of", "without_empty"]

TEXT = pa.large_string()
_LISTED = 5  # names in an error


def ids_of(table: Table, column: str, is_needed: pa.ChunkedArray | None = None) -> pa.ChunkedArray:
    """A column of ids, none of which is missing (in the rows where one is needed)."""
    names = names_of(table, column, "ids")
    if names.null_count:
        is_bad = pc.is_null(names) if is_needed is None else pc.and_(pc.is_null(names), is_needed)
        table.refuse(column, is_bad, "has no id", f" ({pc.sum(is_bad).as_py()} rows in all)")
    return names


def names_of(table: Table, column: str, what: str) -> pa.ChunkedArray:
    """A column of names as int64 or text, null where it is empty."""
    values, where = table.column(column), table.where(column)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if is_text(kind):
        text = values.cast(TEXT)
        if not table.is_text:
            return without_empty(text)
        # A quote that is never closed swallows the rest of a file without another sign.
        hint = "; is a quote not closed there?"
        trimmed = pc.utf8_trim_whitespace(text)
        table.refuse(column, pc.match_substring(trimmed, "\n"), "has a line break", hint)
        return _numbers_if_written_so(without_empty(trimmed))
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return values.cast(pa.string()).cast(TEXT)  # as a text file would have it
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
    elif not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        raise ValueError(f"{where} holds {kind}; {what} are whole numbers or text")
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        if pa.types.is_integer(kind):
            return values.cast(TEXT)  # beyond 64 bits with a sign
        raise ValueError(f"{where} holds fractions; {what} are whole numbers or text") from None


def _numbers_if_written_so(text: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        numbers = text.cast(pa.int64())
    except pa.ArrowInvalid:
        return text
    same = pc.all(pc.equal(numbers.cast(TEXT), text)).as_py()
    return numbers if same else text  # None: every one is empty


def without_empty(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text with null in place of what is empty."""
    is_empty = pc.equal(text, "")
    if not pc.any(is_empty).as_py():
        return text  # and not a copy
    return pc.if_else(is_empty, pa.scalar(None, TEXT), text)


def as_names(ids: Any) -> pa.Array:
    """The ids of a graph as whole numbers or text."""
    names = np.asarray(ids)
    if names.dtype.kind in "iu":
        return pa.array(names).cast(pa.int64())
    return pa.array([str(name) for name in names.tolist()], TEXT)


class Index:
    """Where each name stands in a list of different names."""

    def __init__(
        self, names: pa.Array | pa.ChunkedArray, origin: tuple[TableFile, str] | None = None
    ):
        self.origin = origin  # the table and the column that the names are from, if they are
        chunked = isinstance(names, pa.ChunkedArray)
        self.names: pa.Array = names.combine_chunks() if chunked else names
        self._table, self._low = _lookup_table(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def name_of(self, place: int) -> Any:
        """The name that stands at a place."""
        return self.names[place].as_py()

    def find(self, names: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Positions of these names, -1 for those that are not there."""
        if names.type != self.names.type:
            # Numbers have one way to be written, so text is what both can be compared as.
            return Index(self.names.cast(TEXT)).find(names.cast(TEXT))
        if self._table is None:
            places = pc.index_in(names, value_set=self.names)
            return pc.fill_null(places, -1).to_numpy(zero_copy_only=False)
        # Read as unsigned, what lies below is very large and gets the last place, of what is not
        # there; an overflow wraps to the same.
        offset = (names.to_numpy(zero_copy_only=False) - self._low).view(np.uint64)
        np.minimum(offset, len(self._table) - 1, out=offset)
        return self._table[offset.view(np.int64)]

    def require_different(self, where: str) -> None:
        """Raise if a name stands there twice."""
        again = np.flatnonzero(self.find(self.names) != np.arange(len(self)))
        if len(again):
            rows = again[:_LISTED].tolist()
            repeated = [f"{_quoted(self.names[row].as_py())} in row {row + 1}" for row in rows]
            raise ValueError(
                f"{where} has {len(again)} ids that were there before: {', '.join(repeated)}. "
                "Each node needs an id of its own."
            )


def _lookup_table(names: pa.Array) -> tuple[np.ndarray | None, int]:
    """For whole numbers close together, the position of each (and -1 at the end, of any other);
    much faster than hashing."""
    if names.type != pa.int64() or not len(names):
        return None, 0
    low, high = (int(value) for value in pc.min_max(names).as_py().values())
    if high - low >= 8 * len(names) + 1024:
        return None, 0
    table = np.full(high - low + 2, -1, np.int32)
    # Backwards, so that of two equal names the first is kept.
    table[names.to_numpy()[::-1] - low] = np.arange(len(names) - 1, -1, -1, dtype=np.int32)
    return table, low


def examples(names: Any) -> str:
    """A few different names, for an error."""
    return listed([_quoted(name) for name in dict.fromkeys(names)], _LISTED)


def _quoted(name: Any) -> str:
    return repr(short(name) if isinstance(name, str) else name)
