"""Predictions as dataframes, by way of Arrow tables, which pandas, polars and pyarrow all speak.

Dataframes in are read as files of tables are, by :mod:`nodegp.io`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import entr

__all__ = ["FRAMES", "as_frame", "prediction_table"]


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
