"""Edges from tables: the ends are looked up, and the edges written in sorted runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nodegp.ingest.node_ids import NodeIds
from nodegp.ingest.sources import Batch, Source
from nodegp.io.edges import check_edge_columns, weights_of
from nodegp.io.ids import TEXT, examples, ids_of
from nodegp.io.tables import Column, TableFile
from nodegp.store.assembling import add_edges
from nodegp.store.building import Building
from nodegp.store.runs import SortedRuns

__all__ = ["EdgeReader"]

_ROWS = 1 << 19  # edges that are looked up at a time
_LISTED = 5


@dataclass(eq=False)
class EdgeReader:
    """Reads the tables of edges, from where that stopped if it did.

    ``run_entries`` are sorted at a time. Edges with unknown ids are counted to the end, so that an
    error can say how many there are.
    """

    building: Building
    source: Source
    nodes: NodeIds
    columns: Sequence[Column]
    weight: Column | None
    ignore_unknown: bool
    run_entries: int

    def __post_init__(self) -> None:
        self._ends: dict[Any, list[str]] = {}
        self._weights: dict[Any, str] = {}

    def read(self, tell: Callable[[int], object]) -> tuple[SortedRuns, dict[str, int]]:
        """The runs, and how many rows there were and of which kinds."""
        building = self.building
        folder, last = building.subfolder("runs"), building.last("run")
        n_runs = 0 if last is None else last["run"] + 1
        runs = SortedRuns(folder, self.weight is not None, is_largest=True, n_runs=n_runs)
        counts = Counter({"rows": 0} if last is None else last["counts"])
        if not building.last("all runs"):
            source = self.source.with_files(self._checked)
            types: dict[str, Any] = dict.fromkeys(
                (name for ends in self._ends.values() for name in ends), pa.string()
            )
            types |= dict.fromkeys(self._weights.values(), pa.float64())
            place: list[int] = [-1, -1] if last is None else last["place"]
            unknown: list[str] = []  # a few of them
            for batch in source.batches(self._needed, types, _ROWS, place):
                self._add(batch, runs, counts, unknown)
                place = batch.place
                if runs.n_waiting >= self.run_entries and not self._is_refused(counts):
                    self._flush(runs, counts, place)
                    tell(counts["rows"])
            self._refuse_unknown(counts, unknown)
            self._flush(runs, counts, place)
            building.record("all runs")
        return runs, dict(counts)

    def _flush(self, runs: SortedRuns, counts: Counter[str], place: list[int]) -> None:
        runs.flush()
        self.building.record("run", run=runs.n_runs - 1, place=place, counts=counts)

    def _checked(self, file: TableFile) -> TableFile:
        """The file, whose columns are found and kept."""
        file, ends = check_edge_columns(file, self.columns, self.nodes)
        self._ends[file.path] = ends
        if self.weight is not None:
            self._weights[file.path] = file.find(self.weight, "weights")
        return file

    def _needed(self, file: TableFile) -> list[str]:
        return [*self._ends[file.path], *self._weight_of(file)]

    def _weight_of(self, file: TableFile) -> list[str]:
        return [] if self.weight is None else [self._weights[file.path]]

    def _add(
        self, batch: Batch, runs: SortedRuns, counts: Counter[str], unknown: list[str]
    ) -> None:
        table = batch.table
        ids = [ids_of(table, end) for end in self._ends[table.file.path]]
        sources, targets = (self.nodes.find(names) for names in ids)
        weights = None
        for name in self._weight_of(table.file):
            weights = weights_of(table, name)
        is_known = (sources >= 0) & (targets >= 0)
        is_loop = sources == targets
        is_used = is_known & ~is_loop
        if weights is not None:
            counts["zero_weights"] += int(np.count_nonzero(is_used & (weights == 0)))
            is_used &= weights > 0
        counts["rows"] += len(table)
        counts["self_loops"] += int(np.count_nonzero(is_loop & is_known))
        lost = len(table) - int(np.count_nonzero(is_known))
        counts["used"] += int(np.count_nonzero(is_used))
        if lost:
            if not counts["unknown"]:
                counts["first_unknown_row"] = table.first_row + int(np.argmin(is_known)) + 1
                counts["first_unknown_file"] = batch.file
            counts["unknown"] += lost
            if len(unknown) < _LISTED:
                for names, nodes in zip(ids, (sources, targets), strict=True):
                    missing = names.filter(pa.array(nodes < 0)).slice(0, _LISTED)
                    unknown += missing.cast(TEXT).to_pylist()
        if self._is_refused(counts):
            return  # only counted from here on
        if not is_used.all():
            sources, targets = sources[is_used], targets[is_used]
            weights = None if weights is None else weights[is_used]
        add_edges(runs, sources, targets, weights)

    def _is_refused(self, counts: Counter[str]) -> bool:
        return bool(counts["unknown"]) and not self.ignore_unknown

    def _refuse_unknown(self, counts: Counter[str], unknown: list[str]) -> None:
        """Raise if edges that name unknown ids must not be left out."""
        lost, n_rows = counts["unknown"], counts["rows"]
        if not lost or (self.ignore_unknown and 2 * lost <= n_rows):
            return
        remedy = "Add them, or pass --ignore-unknown (in Python ignore_unknown=True)"
        if self.ignore_unknown:
            remedy = "That is more than half, which is not ignored: keep only those of your nodes"
        file = self.source.files[counts["first_unknown_file"]].path
        raise ValueError(
            f"{lost:,} of {n_rows:,} edges (first in row {counts['first_unknown_row']} of {file}) "
            f"name ids that no node has: {examples(unknown)}. {remedy}. The nodes' ids look like "
            f"{self.nodes.examples()}."
        )
