"""Graphs from lists of edges, by node number or by the caller's ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nodegp.graph import Graph

__all__ = ["as_names", "from_edges", "graph_of"]


def from_edges(edges: Any, weights: Any, ids: Any, features: Any, n_nodes: int | None) -> Graph:
    """See :meth:`nodegp.Graph.from_edges`."""
    ends = _ends(edges)
    if len(ends[0]) != len(ends[1]):
        raise ValueError(
            f"edges have {len(ends[0])} sources and {len(ends[1])} targets; give one of each "
            "per edge"
        )
    if ids is not None:
        ids = as_names(ids)
        if n_nodes not in (None, len(ids)):
            raise ValueError(f"n_nodes is {n_nodes}, but there are {len(ids)} ids; leave it out")
        ends = _known_positions(ids, ends)
        n_nodes = len(ids)
    elif n_nodes is None and features is not None:
        n_nodes = np.shape(features)[0]
    return graph_of(ends, weights, n_nodes, features, ids)


def graph_of(
    ends: Sequence[np.ndarray], weights: Any, n_nodes: int | None, features: Any, ids: Any
) -> Graph:
    """The graph with an edge from each source to its target, the two ends, both node numbers."""
    sources, targets = ends
    numbers = np.concatenate(ends)
    if numbers.dtype.kind not in "iu":
        raise ValueError(
            f"without ids, edges are pairs of node numbers, got {_sample(numbers)}; pass ids= if "
            "these are the names of nodes"
        )
    top = int(numbers.max(initial=-1))
    n_nodes = top + 1 if n_nodes is None else n_nodes
    if numbers.size and (numbers.min() < 0 or top >= n_nodes):
        raise ValueError(
            f"edges name the nodes {numbers.min()} to {top}, but the graph has {n_nodes} nodes, "
            f"numbered from 0"
        )
    weights = np.ones(len(sources)) if weights is None else np.asarray(weights)
    if weights.shape != (len(sources),):
        raise ValueError(
            f"weights have shape {weights.shape} for {len(sources)} edges; give one per edge"
        )
    if weights.dtype.kind not in "iufb":
        raise TypeError(f"weights must be numbers, got {_sample(weights)}")
    return Graph(sp.coo_array((weights, (sources, targets)), (n_nodes, n_nodes)), features, ids)


def as_names(values: Any) -> np.ndarray:
    """Names of nodes as an array that leaves each as it is.

    numpy by itself would make [1, "a"] two strings, and a list of tuples a matrix.
    """
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.dtype != object:
            return array
        values = array.tolist()
    values = list(values)
    for kind in (int, np.integer), (str,):
        if all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            return np.array(values, dtype=None if values else np.int64)
    return np.fromiter(values, dtype=object, count=len(values))


def _known_positions(ids: np.ndarray, ends: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The positions of each end's names among the ids; an error lists those that have none."""
    positions = [_positions_among(ids, names) for names in ends]
    pairs = zip(ends, positions, strict=True)
    unknown = [name for names, p in pairs for name in names.take(np.flatnonzero(p < 0)).tolist()]
    unknown = list(dict.fromkeys(unknown))
    if unknown:
        raise ValueError(
            f"edges name {len(unknown)} ids that no node has, first: {unknown[:5]}. Add "
            "those nodes, or leave those edges out."
        )
    return positions


def _positions_among(ids: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Where each name stands among the ids, -1 for those that do not."""
    if ids.dtype.kind != names.dtype.kind or ids.dtype.kind not in "iU":
        where = {name: n for n, name in enumerate(ids.tolist())}  # by Python's own equality
        return np.array([where.get(name, -1) for name in names.tolist()], dtype=np.int64)
    kind = pa.int64() if ids.dtype.kind == "i" else pa.large_string()
    places = pc.index_in(pa.array(names, kind), value_set=pa.array(ids, kind))
    return np.asarray(places.fill_null(-1)).astype(np.int64)


def _ends(edges: Any) -> list[np.ndarray]:
    """Sources and targets: two columns of pairs, or as given in a tuple of two."""
    if isinstance(edges, tuple):
        if len(edges) != 2:
            raise ValueError(
                f"a tuple of edges is (sources, targets), got {len(edges)} entries; give pairs "
                "as a list or an array of shape (edges, 2)"
            )
        return [as_names(names) for names in edges]
    if hasattr(edges, "__array__"):
        columns = np.asarray(edges)
        if columns.ndim != 2 or columns.shape[1] != 2:
            raise ValueError(
                f"edges must have shape (edges, 2), got {columns.shape}; give two rows or columns "
                "as a tuple (sources, targets)"
            )
        return [as_names(names) for names in columns.T]
    try:
        pairs = [(source, target) for source, target in edges]
    except (TypeError, ValueError):
        raise ValueError("edges must be pairs (source, target); weights go into weights=") from None
    return [as_names([pair[end] for pair in pairs]) for end in (0, 1)]


def _sample(values: np.ndarray) -> str:
    return f"{values.dtype} such as {values[:1].tolist()}"
