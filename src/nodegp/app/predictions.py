"""Predictions that are made and passed on a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodegp.app.progress import Progress
from nodegp.app.results import Result
from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.io.tables import amount
from nodegp.io.write import write_tables
from nodegp.propagation import watched

__all__ = ["BLOCK_ROWS", "PredictionCounts", "Predictions"]

BLOCK_ROWS = 50_000


@dataclass(frozen=True)
class PredictionCounts(Result):
    """How many predictions there were; if asked for, how many labels were left open and how large
    the sets are; and both in words."""

    predictions: int
    abstained: int | None
    mean_set_size: float | None
    remarks: tuple[str, ...]
    aside = ("remarks",)

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_dict().items() if value is not None}


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for nodes of a graph. Nothing is computed until they are read or written."""

    model: GraphGPClassifier
    graph: Graph
    nodes: np.ndarray | None  # numbers; all if None
    coverage: float | None
    abstain_below: float | None
    progress: Progress

    def __len__(self) -> int:
        return self.graph.n_nodes if self.nodes is None else len(self.nodes)

    def blocks(self, counts: np.ndarray | None = None) -> Iterator[pa.Table]:
        """Tables of :meth:`GraphGPClassifier.predict_frame`, one after the other. To ``counts``
        they add their rows, rows without a label, and classes in sets."""
        doubt = {"coverage": self.coverage, "abstain_below": self.abstain_below}
        tables = self.model.predict_frames(self.graph, self.nodes, BLOCK_ROWS, **doubt)
        with self.progress.stage("predicting", -(-len(self) // BLOCK_ROWS)):
            with watched(self.progress.note):  # what takes long is done with the first
                first = next(tables)
            for table in chain([first], tables):
                if counts is not None:
                    counts[:2] += len(table), table["label"].null_count
                if counts is not None and self.coverage is not None:
                    counts[2] += pc.sum(pc.list_value_length(table["set"])).as_py() or 0
                self.progress.advance()
                yield table

    def read(self) -> tuple[pa.Table, PredictionCounts]:
        """All in one table."""
        counts = np.zeros(3, dtype=int)
        table = pa.concat_tables(self.blocks(counts))
        return table, self._counted(counts)

    def write(self, path: str | Path | None) -> PredictionCounts:
        """Write them as :func:`nodegp.io.write.write_tables` does."""
        counts = np.zeros(3, dtype=int)
        write_tables(path, self.blocks(counts))
        return self._counted(counts)

    def _counted(self, counts: np.ndarray) -> PredictionCounts:
        rows, abstained, in_sets = counts.tolist()
        n_classes, size, remarks = len(self.model.classes_), in_sets / max(rows, 1), []
        if self.abstain_below is not None:
            remarks.append(
                f"{abstained:,} of {amount(rows, 'node')} left open, where no class reaches a "
                f"probability of {self.abstain_below:g}"
            )
        if self.coverage is not None:
            every = n_classes > 1 and in_sets == n_classes * rows
            few = f", which is all: too few labels for a coverage of {self.coverage:g}"
            remarks.append(f"sets hold {size:.2f} classes on average" + (few if every else ""))
        return PredictionCounts(
            predictions=rows,
            abstained=None if self.abstain_below is None else abstained,
            mean_set_size=None if self.coverage is None else size,
            remarks=tuple(remarks),
        )
