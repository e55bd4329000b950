"""Which columns of the nodes' tables are features, from a look at the first rows of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodegp.ingest.sources import Source
from nodegp.io.cells import odd_cell, with_decimal_points
from nodegp.io.columns import (
    CATEGORY,
    EXCLUDED,
    FEATURE,
    LIST,
    NUMBER,
    TEXT,
    feature_columns,
    named_columns,
)
from nodegp.io.delimited import Delimited
from nodegp.io.identifiers import identifier
from nodegp.io.readers import Lists, numbers
from nodegp.io.tables import Column, Table, is_list, is_text

__all__ = ["Columns", "look"]

_LOOKED_AT = 1 << 14  # rows
_LABEL = "the label"
_SINGLE = (pa.float16(), pa.float32(), pa.bool_(), pa.int8(), pa.int16(), pa.uint8(), pa.uint16())


@dataclass(frozen=True)
class Columns:
    """The columns that are features, by what they hold."""

    source: Source
    widths: dict[str, int] = field(default_factory=dict)  # of lists of as many numbers; 0: a number
    bags: tuple[str, ...] = ()  # lists of the numbers of features that a node has
    texts: tuple[str, ...] = ()
    types: dict[str, pa.DataType] = field(default_factory=dict)  # of columns of text files
    is_single: bool = False  # all dense numbers are of single precision
    left_out: dict[str, str] = field(default_factory=dict)  # columns, and why

    @property
    def dense_names(self) -> tuple[str, ...]:
        """A name for each dense column."""
        names: list[str] = []
        for name, width in self.widths.items():
            names += [f"{name}[{n}]" for n in range(width)] if width else [name]
        return tuple(names)

    @property
    def wide_names(self) -> tuple[str, ...]:
        return (*self.bags, *self.texts)

    @property
    def dtype(self) -> type[np.floating]:
        return np.float32 if self.is_single else np.float64

    def dense(self, table: Table) -> np.ndarray:
        """The dense features of some rows, side by side as they are; a gap is an error."""
        matrix = np.empty((len(table), len(self.dense_names)), self.dtype)
        place, remedy = 0, "; fill it, or remove the row"
        for name, width in self.widths.items():
            if width:
                table.refuse(name, pc.is_null(table.column(name)), "has no value", remedy)
                matrix[:, place : place + width] = Lists((name,), width).read(table)
            else:
                values = numbers(table, name)
                table.refuse(name, np.isnan(values), "has no value", remedy)
                matrix[:, place] = values
            place += width or 1
        return matrix

    def batches(self, names: Sequence[str], first_row: int = 0) -> Iterator[Table]:
        """Rows of the nodes' tables from one on, with these columns."""
        width = max(len(self.dense_names), 64)
        n_rows = max((1 << 22) // width, 1 << 8)
        seen = 0
        for batch in self.source.batches(lambda file: list(names), self.types, n_rows):
            table = batch.table
            skipped = min(max(first_row - seen, 0), len(table))
            seen += len(table)
            if skipped < len(table):
                start = table.first_row + skipped
                yield Table(table.file, table.data.slice(skipped), first_row=start)


def look(
    source: Source,
    id_name: str,
    label_name: str | None,
    features: Sequence[Column] | None,
    exclude: Sequence[Column] | None,
    text: Sequence[Column] | None,
) -> Columns:
    """Choose the features: the columns that were named, or all that hold numbers or lists of them
    but for those that name their rows."""
    file = source.files[0]
    named = {FEATURE: features, CATEGORY: None, TEXT: text, EXCLUDED: exclude}
    other_uses = {id_name: "the id"} | ({} if label_name is None else {label_name: _LABEL})
    uses = named_columns(file, other_uses, named)
    no_features = [name for name, use in uses.items() if use in (EXCLUDED, _LABEL)]
    wanted = [name for name in file.names if name not in no_features]
    if features is not None:
        wanted = [name for name in uses if name not in no_features]
    as_text = {name: pa.string() for name, use in uses.items() if use in (TEXT, "the id")}
    table = next(islice(file.batches(wanted, as_text, _LOOKED_AT), 1), None)
    if table is None:
        raise ValueError(f"{source.path} has no rows; a graph needs nodes")
    table, decimal = _decimal(table, set(as_text))
    kinds, left_out = feature_columns(table.data.schema, str(file.path), uses, features is None)
    if decimal is not None:
        source = source.with_files(decimal)
    left_out |= {
        name: why
        for name, kind in kinds.items()
        if kind == NUMBER and name not in uses and (why := identifier(table, name))
    }
    kinds = {name: kind for name, kind in kinds.items() if name not in left_out}
    for name in left_out:
        # A column of numbers that one cell has spoilt looks like text.
        if is_text(table.column(name).type) and (cell := odd_cell(table.column(name))):
            left_out[name] += f", as {cell} is no number"
    for name, kind in kinds.items():
        if kind == CATEGORY:
            cell = odd_cell(table.column(name))
            first = "" if cell is None else f" ({cell})"
            raise ValueError(
                f"{table.where(name)} holds text{first}, and a prepared graph has no categories; "
                "name it in --text (in Python text=[...]) for its words, or turn it into numbers"
            )
    source.require_same_columns([id_name, *kinds])
    return _by_kind(source, table, kinds, left_out)


def _by_kind(
    source: Source, table: Table, kinds: dict[str, str], left_out: dict[str, str]
) -> Columns:
    bags = tuple(name for name, kind in kinds.items() if kind == LIST and _is_bag(table, name))
    widths = {
        name: 0 if kind == NUMBER else Lists.fit(table, name).width
        for name, kind in kinds.items()
        if kind in (NUMBER, LIST) and name not in bags
    }
    plain = [name for name, width in widths.items() if not width]
    types = {name: pa.string() for name, kind in kinds.items() if kind == TEXT}
    if source.files[0].is_text:
        is_bool = {name: pa.types.is_boolean(table.column(name).type) for name in plain}
        types |= {name: pa.bool_() if is_bool[name] else pa.float64() for name in plain}
    stored = [table.column(name).type for name in plain]
    stored += [table.column(name).type.value_type for name, width in widths.items() if width]
    is_single = not source.files[0].is_text and all(kind in _SINGLE for kind in stored)
    texts = tuple(name for name, kind in kinds.items() if kind == TEXT)
    for name in texts:
        if not is_text(table.column(name).type):
            raise ValueError(f"{table.where(name)} holds {table.column(name).type}, not text")
    return Columns(source, widths, bags, texts, types, is_single, left_out)


def _is_bag(table: Table, name: str) -> bool:
    column: Any = table.column(name)
    lengths = pc.unique(pc.list_value_length(column).drop_null())
    return is_list(column.type) and pa.types.is_integer(column.type.value_type) and len(lengths) > 1


def _decimal(table: Table, as_written: set[str]) -> tuple[Table, Any]:
    """The table with numbers where they are written with a decimal comma, and how to read on."""
    form = table.file.format
    if not isinstance(form, Delimited) or form.delimiter == ",":
        return table, None
    data, is_found = table.data, False
    for place, one in enumerate(data.schema):
        if pa.types.is_string(one.type) and one.name not in as_written:
            values = with_decimal_points(data.column(place))
            if values is not None:
                data, is_found = data.set_column(place, one.name, values), True
    if not is_found:
        return table, None

    def change(file: Any) -> Any:
        return replace(file, format=replace(file.format, decimal=","))

    return Table(table.file, data), change
