"""Columns of text that were meant as numbers: decimal commas, and the cell that spoilt a column."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from nodegp.io.words import short

__all__ = ["OddCell", "odd_cell", "with_decimal_points"]

_GAPS = pa.array(pa.csv.ConvertOptions().null_values)  # as they are known in columns of numbers
_WITH_COMMA = r"^\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*$"
_NUMBER = r"^\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*$"


class OddCell(NamedTuple):
    """The first cell of a column that is no number, where nearly all others are."""

    row: int  # from 1
    text: str
    n_cells: int  # of such

    def __str__(self) -> str:
        more = f" and {self.n_cells - 1:,} more" if self.n_cells > 1 else ""
        return f"{short(self.text)!r} in row {self.row}{more}"


def with_decimal_points(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The numbers of a column of text whose cells all are some, written with a decimal comma; None
    if they are not."""
    is_gap = _gaps(column)
    is_number = pc.match_substring_regex(column, _WITH_COMMA)
    if not pc.any(pc.match_substring(column, ",")).as_py() or not _all(pc.or_(is_gap, is_number)):
        return None
    points = pc.replace_substring(pc.utf8_trim_whitespace(column), ",", ".")
    return pc.if_else(is_gap, None, points).cast(pa.float64())


def odd_cell(column: pa.ChunkedArray) -> OddCell | None:
    """The first cell that is no number if it is the only one, or one in five at most."""
    text = column.cast(pa.large_string())
    is_number = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
    is_odd = pc.invert(pc.or_(is_number, _gaps(text)))
    n_numbers, n_odd = (pc.sum(mask).as_py() or 0 for mask in (is_number, is_odd))
    if not n_odd or n_numbers < (2 if n_odd == 1 else 4 * n_odd):
        return None
    row = pc.index(is_odd, True).as_py()
    return OddCell(row + 1, text[row].as_py(), n_odd)


def _gaps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    named = pc.is_in(pc.utf8_trim_whitespace(column), value_set=_GAPS.cast(column.type))
    return pc.or_(pc.is_null(column), named)


def _all(mask: pa.ChunkedArray) -> bool:
    return bool(pc.all(mask, min_count=0).as_py())
