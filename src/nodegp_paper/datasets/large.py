"""Graphs of any size drawn at random and written as stored graphs, in bounded memory.

Nodes have a rank, of which everything else follows: its class is the rank modulo the number of
classes, and edge ends fall on rank r in proportion to ``r ** (1 / tail - 1)``, so that a few are
hubs and degrees have a power law with exponent ``tail / (tail - 1) + 1``. Numbers of nodes are
ranks scattered by a map that is one to one, so that hubs and classes lie anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from nodegp.store import StoredGraph, open_store
from nodegp.store.assembling import (
    add_edges,
    write_column_statistics,
    write_edges,
    write_feature_parts,
)
from nodegp.store.building import Building
from nodegp.store.lookup import write_range
from nodegp.store.manifest import FeatureKind
from nodegp.store.parts import PART_ENTRIES, finish_store, largest_rows, write_ids
from nodegp.store.runs import MOST_NODES, SortedRuns

__all__ = ["LargeGraph"]

_DRAWN = 1 << 20  # edges at a time
_IN_RUN = 1 << 23  # edges in a run


@dataclass(frozen=True)
class LargeGraph:
    """What to draw.

    Parameters
    ----------
    n_nodes, n_drawn : nodes, and edges before those are dropped that are there twice
    n_features : dense columns in single precision, Gaussian around a mean of each class
    homophily : the share of edges that join nodes of one class, beside those that do by chance
    feature_noise : standard deviation of each column, where class means have length about 1
    tail : how uneven degrees are; 1 is even
    """

    n_nodes: int
    n_drawn: int
    n_features: int = 64
    n_classes: int = 5
    homophily: float = 0.6
    feature_noise: float = 1.0
    tail: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        for is_wrong, why in (
            (not 2 <= self.n_classes <= self.n_nodes, "n_classes lies between 2 and n_nodes"),
            (self.n_nodes >= MOST_NODES // 2, f"n_nodes is below {MOST_NODES // 2:,}"),
            (self.n_drawn < 0 or self.n_features < 0, "n_drawn and n_features are not negative"),
            (not 0 <= self.homophily <= 1, "homophily is a share, from 0 to 1"),
            (self.tail < 1, "tail is at least 1"),
        ):
            if is_wrong:
                raise ValueError(f"{why}, got {self}")

    def classes(self, nodes: np.ndarray) -> np.ndarray:
        """The classes of these nodes, by their numbers."""
        factor, shift = self._map
        back = pow(factor, -1, self.n_nodes)
        ranks = (nodes.astype(np.int64) - shift) % self.n_nodes * back % self.n_nodes
        return ranks % self.n_classes

    @property
    def _map(self) -> tuple[int, int]:
        """Rank r is node ``(factor * r + shift) % n_nodes``."""
        factor = round(0.618 * self.n_nodes) | 1
        while math.gcd(factor, self.n_nodes) != 1:
            factor += 2
        return factor, self.n_nodes // 3

    def edges(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """One block of edges as they are drawn, the same each time."""
        count = min(_DRAWN, self.n_drawn - block * _DRAWN)
        rng = np.random.default_rng([self.seed, 1, block])
        ranks = (rng.random((2, count)) ** self.tail * self.n_nodes).astype(np.int64)
        is_alike = rng.random(count) < self.homophily
        moved = ranks[1] - ranks[1] % self.n_classes + ranks[0] % self.n_classes
        is_alike &= moved < self.n_nodes
        ranks[1] = np.where(is_alike, moved, ranks[1])
        factor, shift = self._map
        source, target = (factor * ranks + shift) % self.n_nodes
        is_edge = source != target
        return source[is_edge], target[is_edge]

    def features(self, start: int, stop: int) -> np.ndarray:
        """The features of some nodes, which depend on where the range begins."""
        means = np.random.default_rng([self.seed, 2]).standard_normal(
            (self.n_classes, self.n_features), np.float32
        )
        means /= np.float32(math.sqrt(max(self.n_features, 1)))
        rng = np.random.default_rng([self.seed, 3, start])
        rows = rng.standard_normal((stop - start, self.n_features), np.float32)
        rows *= np.float32(self.feature_noise)
        rows += means[self.classes(np.arange(start, stop))]
        return rows

    def write(
        self,
        path: str | Path,
        part_entries: int = PART_ENTRIES,
        tell: Callable[[str], object] = lambda line: None,
        force: bool = False,
    ) -> StoredGraph:
        """Draw it into a folder; whoever was killed goes on. The ids are the nodes' numbers."""
        settings = asdict(self) | {"part_entries": part_entries}
        with Building(Path(path), settings, force) as building:
            runs = self._write_runs(building, tell)
            rows = largest_rows(self.n_features)
            boundaries = write_edges(
                building, runs, self.n_nodes, rows, part_entries,
                tell=lambda n: tell(f"edges of {n:,} of {self.n_nodes:,} nodes are in place"),
            )  # fmt: skip
            building.discard("runs")
            kind = None
            done = len(building.entries("features of a part"))
            if self.n_features:
                kind = FeatureKind("dense", self.n_features, "float32", None, False)
                parts = self._feature_parts(boundaries, done)
                write_feature_parts(building, parts, done)
            files = building.files()
            for part, (start, stop) in enumerate(pairwise(boundaries)):
                files |= write_ids(building.folder, part, np.arange(start, stop))
            if self.n_features:
                files |= write_column_statistics(building, len(boundaries) - 1)
            ids, index = write_range(building.folder, self.n_nodes)
            source = {"what": "drawn at random", **settings}
            finish_store(building.folder, boundaries, files | index, False, kind, ids, source)
            building.finish()
        return open_store(path)

    def _write_runs(self, building: Building, tell: Callable[[str], object]) -> SortedRuns:
        folder, entries = building.subfolder("runs"), building.entries("run")
        runs = SortedRuns(folder, carries=False, is_largest=True, n_runs=len(entries))
        if building.last("all edges"):
            return runs  # which are no longer needed
        n_blocks = -(-self.n_drawn // _DRAWN)
        for block in range(entries[-1]["block"] + 1 if entries else 0, n_blocks):
            add_edges(runs, *self.edges(block), None)
            if runs.n_waiting >= 2 * _IN_RUN or block == n_blocks - 1:
                runs.flush()
                building.record("run", block=block)
                tell(f"{min((block + 1) * _DRAWN, self.n_drawn):,} of {self.n_drawn:,} edges drawn")
        return runs

    def _feature_parts(self, boundaries: list[int], first: int) -> Iterator[np.ndarray]:
        for start, stop in pairwise(boundaries[first:]):
            yield self.features(start, stop)
