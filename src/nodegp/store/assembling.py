"""From sorted runs of edges to the parts of a store, and features that follow them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.store.building import Building
from nodegp.store.parts import (
    PART_ENTRIES,
    EdgePartWriter,
    Records,
    write_features,
    write_statistics,
)
from nodegp.store.runs import SortedRuns, edge_keys, rows_of_keys
from nodegp.store.statistics import ColumnStatistics

__all__ = ["add_edges", "cut_rows", "write_column_statistics", "write_edges", "write_feature_parts"]

_ROWS = 1 << 20  # rows that are looked at at a time, where most have no edges

Tell = Callable[[int], object]


def add_edges(
    runs: SortedRuns, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray | None
) -> None:
    """Add edges in both directions."""
    runs.add(edge_keys(sources, targets), weights)
    runs.add(edge_keys(targets, sources), weights)


def write_edges(
    building: Building,
    runs: SortedRuns,
    n_nodes: int,
    part_rows: int,
    part_entries: int = PART_ENTRIES,
    range_entries: int = 2 * PART_ENTRIES,
    tell: Tell = lambda n_rows: None,
) -> list[int]:
    """Write the edges of all runs as parts, from where this stopped if it did; returns the rows at
    which parts begin. ``tell`` is told how many rows are done."""
    boundaries = [0, *(entry["stop"] for entry in building.entries("edges of a part"))]

    if building.last("all edges"):
        return boundaries

    def on_part(start: int, stop: int, files: Records) -> None:
        building.record("edges of a part", files, stop=stop)
        boundaries.append(stop)
        tell(stop)

    writer = EdgePartWriter(
        building.folder, n_nodes, runs.carries, on_part, part_entries, part_rows,
        n_parts=len(boundaries) - 1, n_rows=boundaries[-1],
    )  # fmt: skip
    for first, end, (keys, weights) in runs.ranges(range_entries, boundaries[-1]):
        end = min(end, n_nodes)
        for start in range(first, end, _ROWS):
            stop = min(start + _ROWS, end)
            low, high = np.searchsorted(keys, np.array([start, stop], np.uint64) << np.uint64(32))
            lengths, columns = rows_of_keys(keys[low:high], start, stop, n_nodes)
            writer.add(lengths, columns, None if weights is None else weights[low:high])
    writer.finish()
    building.record("all edges")  # before the runs go
    return boundaries


def cut_rows(blocks: Iterable[Any], boundaries: list[int], part: int) -> Iterator[Any]:
    """Rows that come in blocks, from the first row of a part on, as one matrix for each part."""
    waiting: list[Any] = []
    n_waiting = 0
    for block in blocks:
        waiting.append(block)
        n_waiting += block.shape[0]
        while part + 1 < len(boundaries):
            n_rows = boundaries[part + 1] - boundaries[part]
            if n_waiting < n_rows:
                break
            is_sparse = sp.issparse(waiting[0])
            joined = waiting[0]
            if len(waiting) > 1:
                joined = sp.vstack(waiting, "csr") if is_sparse else np.concatenate(waiting)
            yield joined[:n_rows]
            rest = joined[n_rows:]
            waiting, n_waiting = [rest if is_sparse else rest.copy()], n_waiting - n_rows
            part += 1


def write_feature_parts(
    building: Building, parts: Iterable[Any], first_part: int, tell: Tell = lambda n_rows: None
) -> None:
    """Write the features of these parts and the statistics of their columns."""
    folder = building.subfolder("statistics")
    n_rows = 0
    for part, rows in enumerate(parts, first_part):
        files = write_features(building.folder, part, rows)
        write_statistics(folder / f"{part:05d}.npz", ColumnStatistics.of(rows))
        building.record("features of a part", files, part=part)
        n_rows += rows.shape[0]
        tell(n_rows)


def write_column_statistics(building: Building, n_parts: int) -> Records:
    """Sum the statistics of all parts up, in their order."""
    folder = building.subfolder("statistics")
    parts = (ColumnStatistics.read(folder / f"{part:05d}.npz") for part in range(n_parts))
    total = reduce(ColumnStatistics.__add__, parts)
    return {"columns.npz": write_statistics(building.folder / "columns.npz", total)}
