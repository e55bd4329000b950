"""Edges from a table of two columns of ids, and perhaps one of weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodegp.io.ids import TEXT, Index, examples, names_of, require_all
from nodegp.io.numeric import numbers
from nodegp.io.tables import Table, TableFile


@dataclass(frozen=True)
class Edges:
    """Edges between known nodes as they were written, and how many there were of odd ones."""

    matrix: sp.coo_array
    unknown: int = 0
    self_loops: int = 0
    zero_weights: int = 0

    @property
    def usable(self) -> int:
        return self.matrix.nnz - self.self_loops - self.zero_weights


def read_edges(
    path: str | Path,
    nodes: Index,
    columns: Sequence[str | int] | None,
    weight: str | int | None,
    ignore_unknown: bool,
) -> Edges:
    """Read a file of edges between these nodes.

    Parameters
    ----------
    path : file
        A text file may lack a header if its columns are not named: a first line that holds the
        id of a node is an edge.
    nodes : the nodes' ids
    columns : the two columns of ids, by name or position from 1; by default the first two
    weight : the column of weights, if any
    ignore_unknown : skip edges that name unknown ids, where otherwise they are an error
    """
    file = TableFile.open(path)
    if len(file.names) < 2:
        raise ValueError(f"{path} has one column, {file.names[0]!r}; edges need two, of ids")
    if columns is not None and len(columns) != 2:
        raise ValueError(f"edge_columns must be two columns, got {list(columns)}")
    file = _headed(file, columns or (1, 2), nodes)
    ends = [file.find(column, "edges") for column in columns or (1, 2)]
    if ends[0] == ends[1]:
        raise ValueError(f"edges of {path} need two different columns, got {ends[0]!r} twice")
    weighted = [] if weight is None else [file.find(weight, "weights")]
    table = file.read([*ends, *weighted], text=ends)
    i, j = (_positions(table, end, nodes) for end in ends)
    keep = (i >= 0) & (j >= 0)
    unknown = len(keep) - int(np.count_nonzero(keep))
    if unknown and not ignore_unknown:
        names = _unknown_names(table, ends, (i, j))
        row = int(np.argmin(keep)) + 1
        raise ValueError(
            f"{unknown} edges of {path} name nodes that are not in the nodes file: "
            f"{examples(names)} (first in row {row}). Add them, or pass --ignore-unknown "
            "(in Python ignore_unknown=True)."
        )
    weights = np.ones(len(keep)) if not weighted else _weights(table, weighted[0])
    if unknown:
        i, j, weights = i[keep], j[keep], weights[keep]
    loops = i == j
    return Edges(
        sp.coo_array((weights, (i, j)), shape=(len(nodes), len(nodes))),
        unknown,
        int(np.count_nonzero(loops)),
        int(np.count_nonzero((weights == 0) & ~loops)) if weighted else 0,
    )


def _headed(file: TableFile, columns: Sequence[str | int], nodes: Index) -> TableFile:
    """The file as it is, or without a header if its first line is an edge."""
    named = any(isinstance(c, str) and (c in file.names or not c.isdecimal()) for c in columns)
    if file.delimiter is None or named:
        return file
    places = [int(column) - 1 for column in columns]
    if not all(0 <= place < len(file.names) for place in places):
        return file
    first = pa.array([file.names[place].strip() for place in places], TEXT)
    return file.without_header() if (nodes.find(first) >= 0).any() else file


def _positions(table: Table, column: str, nodes: Index) -> np.ndarray:
    names = names_of(table, column, "ids")
    require_all(names, table.where(column), "id")
    return nodes.find(names)


def _unknown_names(table: Table, ends: list[str], found: tuple[np.ndarray, ...]) -> list[object]:
    """The first few names that no node has, in the order of the rows."""
    rows = np.flatnonzero((found[0] < 0) | (found[1] < 0))[:100].tolist()
    cells = [(end, row) for row in rows for end, at in zip(ends, found, strict=True) if at[row] < 0]
    return [table.column(end)[row].as_py() for end, row in cells]


def _weights(table: Table, column: str) -> np.ndarray:
    weights = numbers(table, column)
    bad = ~(weights >= 0)  # NaN, a gap, is neither
    if bad.any():
        row = int(np.argmax(bad))
        what = "no weight" if np.isnan(weights[row]) else f"a negative weight, {weights[row]:g},"
        raise ValueError(
            f"{table.where(column)} has {what} in row {row + 1}; weights are numbers >= 0"
        )
    return weights
