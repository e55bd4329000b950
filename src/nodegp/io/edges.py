"""Edges from a table of two columns of ids, and perhaps one of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodegp.io.ids import TEXT, Index, ids_of
from nodegp.io.readers import numbers
from nodegp.io.tables import Column, Table, TableFile
from nodegp.io.unknown import check_unknown

__all__ = ["FindsNames", "check_edge_columns", "headed", "read_edges", "weights_of"]


def read_edges(
    file: TableFile,
    nodes: Index,
    columns: Sequence[Column] | None,
    weight: Column | None,
    ignore_unknown: bool,
) -> tuple[sp.coo_array, dict[str, int]]:
    """Read a table of edges between these nodes.

    Parameters
    ----------
    file : table of edges
        A text file may lack a header if its columns are not named: a first line that holds the
        id of a node is an edge.
    nodes : the nodes' ids
    columns : the two columns of ids, by name or position from 1; by default the first two
    weight : the column of weights, if any
    ignore_unknown : skip edges that name unknown ids, where otherwise they are an error

    Returns
    -------
    matrix : the edges between known nodes, as they were written
    counts : how many odd ones there were: "unknown_edges", "self_loops", "zero_weights"
    """
    path = file.path
    columns = columns or (1, 2)
    if len(columns) != 2:
        raise ValueError(f"edge_columns must be two columns, got {list(columns)}")
    file, ends = check_edge_columns(file, columns, nodes)
    weighted = [] if weight is None else [file.find(weight, "weights")]
    table = file.read([*ends, *weighted], text=ends)
    end_ids = [ids_of(table, end) for end in ends]
    i, j = map(nodes.find, end_ids)
    is_known = (i >= 0) & (j >= 0)
    unknown = len(is_known) - int(np.count_nonzero(is_known))
    if unknown:
        lost = [ids.filter(pa.array(at < 0)) for ids, at in zip(end_ids, (i, j), strict=True)]
        first = int(np.argmin(is_known)) + 1
        what = f"edges of {path} (first in row {first}) name ids that no node has"
        check_unknown(nodes, lost, (unknown, len(is_known)), what, "Add them", ignore_unknown)
    weights = np.ones(len(is_known)) if not weighted else weights_of(table, weighted[0])
    if unknown:
        i, j, weights = i[is_known], j[is_known], weights[is_known]
    is_loop = i == j
    counts = {
        "unknown_edges": unknown,
        "self_loops": int(np.count_nonzero(is_loop)),
        "zero_weights": int(np.count_nonzero((weights == 0) & ~is_loop)),
    }
    return sp.coo_array((weights, (i, j)), shape=(len(nodes), len(nodes))), counts


class FindsNames(Protocol):
    """What says which nodes have some names."""

    def find(self, names: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Positions of these names, -1 for those that are not there."""


def check_edge_columns(
    file: TableFile, columns: Sequence[Column], nodes: FindsNames
) -> tuple[TableFile, list[str]]:
    """A table of edges, without a header if its first line is an edge, and its columns of ids."""
    if len(file.names) < 2:
        raise ValueError(f"{file.path} has one column, {file.names[0]!r}; edges need two, of ids")
    file = headed(file, columns, nodes)
    ends = [file.find(column, "edges") for column in columns]
    if ends[0] == ends[1]:
        raise ValueError(f"edges of {file.path} need two different columns, got {ends[0]!r} twice")
    return file, ends


def headed(file: TableFile, columns: Sequence[Column], nodes: FindsNames) -> TableFile:
    """The file as it is, or without a header if its first line is an edge."""
    if not file.format.has_header_line or file.has_names(columns):
        return file
    places = [int(column) - 1 for column in columns]
    if not all(0 <= place < len(file.names) for place in places):
        return file
    first = pa.array([file.names[place].strip() for place in places], TEXT)
    if (nodes.find(first) < 0).all():
        return file
    if not file.is_text:
        raise ValueError(file.no_header("is an edge"))
    return file.without_header()


def weights_of(table: Table, column: str) -> np.ndarray:
    """The weights of edges, none of them missing or negative."""
    weights, hint = numbers(table, column), "; weights are numbers >= 0"
    table.refuse(column, np.isnan(weights), "has no weight", hint)
    first = weights[weights < 0][:1]
    table.refuse(column, weights < 0, f"has a negative weight, {first.sum():g},", hint)
    return weights
