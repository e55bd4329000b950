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

from nodegp.app.frontend import Progress
from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.io.tables import amount
from nodegp.io.write import write_tables
from nodegp.propagation import watched

__all__ = ["BLOCK_ROWS", "Predictions"]

BLOCK_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for nodes of a graph. Nothing is computed until they are read or written.

    What was predicted is then counted: ``predictions``; ``abstained``, the labels left open, and
    ``mean_set_size``, each only where it was asked for.
    """

    model: GraphGPClassifier
    graph: Graph
    nodes: np.ndarray | None  # numbers; all if None
    coverage: float | None
    abstain_below: float | None
    id_name: str  # of the column of ids
    beside: dict[str, np.ndarray]  # what is set after it, by column, with an entry per node
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
            start = 0
            for table in chain([first], tables):
                rows = slice(start, start := start + len(table))
                nodes = rows if self.nodes is None else self.nodes[rows]
                table = self._with_own_columns(table, nodes)
                if counts is not None:
                    counts[:2] += len(table), table["label"].null_count
                if counts is not None and self.coverage is not None:
                    counts[2] += pc.sum(pc.list_value_length(table["set"])).as_py() or 0
                self.progress.advance()
                yield table

    def _with_own_columns(self, table: pa.Table, nodes: slice | np.ndarray) -> pa.Table:
        """The table with the user's name of the ids, and what is to be set beside them."""
        own = {self.id_name: table.column(0)}
        own |= {name: pa.array(values[nodes]) for name, values in self.beside.items()}
        others = dict(zip(table.column_names[1:], table.columns[1:], strict=True))
        names = [f"{name} (given)" if name in others else name for name in own]
        return pa.table([*own.values(), *others.values()], [*names, *others])

    def read(self) -> tuple[pa.Table, dict[str, Any]]:
        """All in one table, and the counts."""
        counts = np.zeros(3, dtype=int)
        table = pa.concat_tables(self.blocks(counts))
        return table, self._by_name(counts)

    def write(self, path: str | Path | None) -> dict[str, Any]:
        """Write them as :func:`nodegp.io.write.write_tables` does, and count them."""
        counts = np.zeros(3, dtype=int)
        write_tables(path, self.blocks(counts))
        return self._by_name(counts)

    def _by_name(self, counts: np.ndarray) -> dict[str, Any]:
        rows, abstained, in_sets = counts.tolist()
        named: dict[str, Any] = {"predictions": rows}
        if self.abstain_below is not None:
            named["abstained"] = abstained
        if self.coverage is not None:
            named["mean_set_size"] = in_sets / max(rows, 1)
        return named

    def remarks(self, counts: dict[str, Any]) -> list[str]:
        """The counts in words, but for that of all predictions."""
        remarks, n_classes = [], len(self.model.classes_)
        if self.abstain_below is not None:
            remarks.append(
                f"{counts['abstained']:,} of {amount(counts['predictions'], 'node')} left open, "
                f"where no class reaches a probability of {self.abstain_below:g}"
            )
        if self.coverage is not None:
            size = counts["mean_set_size"]
            few = f", which is all: too few labels for a coverage of {self.coverage:g}"
            every = 1 < n_classes == size
            remarks.append(f"sets hold {size:.2f} classes on average" + (few if every else ""))
        return remarks
