"""Dataframes in, predictions as dataframes out, both by way of Arrow tables.

pandas, polars and pyarrow all speak Arrow, so one path serves them and only pyarrow is imported.
Only numbers become features here: no encoding of text or categories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import entr

from nodegp.graph import Graph
from nodegp.interchange.edges import graph_of, known_positions

__all__ = ["FRAMES", "as_frame", "from_dataframes", "prediction_table"]


def from_dataframes(
    nodes: Any, edges: Any, id: str, ends: tuple[str, str], weight: str | None, features: Any
) -> Graph:
    """See :meth:`nodegp.Graph.from_dataframes`."""
    nodes, edges = _arrow_table(nodes, "nodes"), _arrow_table(edges, "edges")
    names, end_names = _names(nodes, id, "nodes"), []
    for end in ends:
        values = _names(edges, end, "edges")
        if values.type != names.type and len(values):  # then they could never be equal
            raise ValueError(
                f"column {end!r} of the edges holds {values.type}, but the ids in {id!r} are "
                f"{names.type}; convert one of them so that both are text or both whole numbers"
            )
        end_names.append(values.cast(names.type))
    weights = None if weight is None else _numbers(edges, weight, "edges")
    if features is None:
        index = (nodes.schema.pandas_metadata or {}).get("index_columns", [])
        features = [name for name in nodes.column_names if name != id and name not in index]
    matrix = np.column_stack([_numbers(nodes, f, "nodes") for f in features]) if features else None
    ids = np.array(names.to_pylist()) if names.type == pa.large_string() else np.asarray(names)
    return graph_of(known_positions(names, end_names), weights, len(ids), matrix, ids)


def prediction_table(
    ids: Any,
    classes: Any,
    proba: np.ndarray,
    extra: Mapping[str, Any] | None = None,
    *,
    sets: np.ndarray | None = None,
    abstain_below: float | None = None,
) -> Any:
    """Class probabilities as a pyarrow table with a row per node.

    Parameters
    ----------
    ids : one per row
        Strings and numbers stay as they are; other names are written as strings.
    classes : one per column of ``proba``
    proba : (nodes, classes)
    extra : name -> one value per row, optional
        More columns, after the others.
    sets : mask of shape (nodes, classes), optional
        Prediction sets, for a column ``set`` of lists.
    abstain_below : float, optional
        The label is null where the likeliest class has less than this probability.

    Returns
    -------
    pyarrow.Table
        Columns id, label (the likeliest class), probability (its own), ``set`` (if given; the
        likeliest first), ``p(<class>)`` for each class, and entropy in nats.
    """
    ids, classes, proba = np.asarray(ids), np.asarray(classes), np.asarray(proba)
    if ids.dtype == object and not all(isinstance(name, str) for name in ids.tolist()):
        ids = np.array([str(name) for name in ids.tolist()], dtype=str)
    if abstain_below is not None and not 0 <= abstain_below <= 1:
        raise ValueError(f"abstain_below is a probability, got {abstain_below!r}")
    top = proba.max(axis=1)
    open_ = None if abstain_below is None else top < abstain_below
    columns = {
        "id": ids,
        "label": pa.array(classes[proba.argmax(axis=1)], mask=open_),
        "probability": top,
        **({} if sets is None else {"set": _class_lists(classes, proba, sets)}),
        **{f"p({name})": proba[:, c] for c, name in enumerate(classes.tolist())},
        "entropy": entr(proba).sum(axis=1),
    }
    for name, values in (extra or {}).items():
        if name in columns:
            raise ValueError(f"there is a column {name!r} already; give the extra one another name")
        columns[name] = values
    return pa.table(columns)


def _class_lists(classes: np.ndarray, proba: np.ndarray, sets: np.ndarray) -> Any:
    """The classes of each set, likeliest first, as an Arrow array of lists."""
    order = np.argsort(-proba, axis=1, kind="stable")
    chosen = order[np.take_along_axis(sets, order, axis=1)]
    ends = np.cumsum(sets.sum(axis=1), dtype=np.int32)
    return pa.ListArray.from_arrays(np.append(np.int32(0), ends), pa.array(classes[chosen]))


def as_frame(table: Any, kind: str) -> Any:
    """An Arrow table as a dataframe of the library that ``kind`` names, one of ``FRAMES``."""
    if kind not in FRAMES:
        *most, last = map(repr, FRAMES)
        raise ValueError(f"kind must be {', '.join(most)} or {last}, got {kind!r}")
    try:
        return FRAMES[kind](table)
    except ImportError as missing:
        raise ImportError(f"this needs {kind}: pip install {kind}") from missing


FRAMES: dict[str, Callable[[Any], Any]] = {  # by library, how it takes an Arrow table over
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": lambda table: import_module("polars").from_arrow(table),
}


def _arrow_table(frame: Any, what: str) -> Any:
    """A pandas, polars or pyarrow table as a pyarrow one."""
    if not isinstance(frame, Mapping | Sequence):  # which pyarrow would take for columns
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
        f"{what} must be a pandas, polars or pyarrow table, got a {type(frame).__name__}"
    )


def _column(table: Any, name: str, what: str) -> Any:
    """One column in one piece, categories as what they stand for."""
    count = table.column_names.count(name)
    if count != 1:
        names = ", ".join(map(repr, table.column_names[:20]))
        raise ValueError(
            f"the {what} table has {'several columns' if count else 'no column'} named {name!r}; "
            f"its columns are {names}"
        )
    values = table.column(name)
    if pa.types.is_dictionary(values.type):
        kinds = [_long_text(chunk.dictionary).take(chunk.indices) for chunk in values.chunks]
        values = pa.chunked_array(kinds or [[]], None if kinds else pa.large_string())
    return _long_text(values).combine_chunks()


def _numbers(table: Any, name: str, which: str) -> np.ndarray:
    """A column of numbers, shape (rows,); of lists of numbers, all as long, (rows, length)."""
    values, what = _column(table, name, which), f"column {name!r} of the {which}"
    shape: tuple[int, ...] = (len(values),)
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if len(values) and any(is_a(values.type) for is_a in lists):
        lengths = np.asarray(pc.list_value_length(values).fill_null(-1))
        width = max(lengths[0], 0)
        row = np.argmax(lengths != width)
        if lengths[row] != width:
            raise ValueError(
                f"{what} must hold lists of one length; row {row} (from 0) differs from the first"
            )
        values, shape = pc.list_flatten(values), (len(values), width)
    if not len(values):  # then its type may be anything
        return np.zeros(shape)
    kind = values.type
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal)
    if not any(is_a(kind) for is_a in kinds):
        raise ValueError(
            f"{what} holds {kind}, not numbers. Name the columns to use in features=[...], or "
            "turn this one into numbers first."
        )
    if not pa.types.is_floating(kind):
        values = values.cast(pa.float64(), safe=False)
    array = values.to_numpy(zero_copy_only=False)
    is_bad = ~np.isfinite(array)
    if is_bad.any():
        raise ValueError(
            f"{what} has {is_bad.sum()} values that are missing, NaN or infinite, first in row "
            f"{int(is_bad.argmax())} (from 0); fill them or remove those rows"
        )
    return array.reshape(shape)


def _names(table: Any, name: str, which: str) -> Any:
    """A column of ids: whole numbers as int64, or text."""
    values, what = _column(table, name, which), f"column {name!r} of the {which}"
    if values.null_count:
        row = int(np.argmax(np.asarray(values.is_null())))
        raise ValueError(f"{what} has no value in row {row} (from 0); every row needs an id")
    if values.type == pa.large_string() or not len(values):
        return values
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        try:  # pandas makes whole numbers floats as soon as one is missing somewhere
            return values.cast(pa.int64())
        except pa.ArrowInvalid:
            pass
    raise ValueError(
        f"{what} holds {values.type}, but ids are text or whole numbers (below 2^63); convert them"
    )


def _long_text(values: Any) -> Any:
    """Text as the one of Arrow's three kinds that is never too long and that all functions take."""
    is_other = str(values.type) in ("string", "string_view")
    return values.cast(pa.large_string()) if is_other else values
