"""Writing a stored graph: rows of edges are cut into parts as they come, the rest follows them.

The cut is the same however the rows come: a part has as many rows as keep it below so many entries,
and at least one. So the same graph gives the same files, to the byte, whichever way it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.files import open_atomically
from nodegp.store.arrays import (
    FileRecord,
    hash_of_ends,
    hash_of_file,
    index_dtype,
    read_array,
    write_array,
    writing,
)
from nodegp.store.keys import Texts
from nodegp.store.manifest import (
    FeatureKind,
    LabelKind,
    Manifest,
    edge_files,
    feature_files,
    id_files,
)
from nodegp.store.statistics import ColumnStatistics

__all__ = [
    "FOLDERS",
    "PART_ENTRIES",
    "EdgePartWriter",
    "Records",
    "feature_kind",
    "finish_store",
    "largest_rows",
    "write_features",
    "write_ids",
    "write_statistics",
]

FOLDERS = ("edges", "features", "ids", "labels")
PART_ENTRIES = 1 << 21  # entries of a part: at 12 bytes each, what several threads can hold
_PART_NUMBERS = 1 << 24  # dense numbers of a part's features, at most
Records = dict[str, FileRecord]
_Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def largest_rows(n_columns: int) -> int:
    """The most rows of a part, so that its features are not too large."""
    return max(_PART_NUMBERS // max(n_columns, 64), 1)


@dataclass(eq=False)
class EdgePartWriter:
    """Cuts rows of neighbours into parts and writes each when it is full.

    ``on_part`` is told of each, with its first row, the one after its last, and its files.
    """

    folder: Path
    n_nodes: int
    has_weights: bool
    on_part: Callable[[int, int, Records], None]
    part_entries: int = PART_ENTRIES
    part_rows: int = 1 << 18
    n_parts: int = 0  # that are written
    n_rows: int = 0  # in them

    def __post_init__(self) -> None:
        self._waiting: list[_Rows] = []

    def add(self, lengths: np.ndarray, neighbours: np.ndarray, weights: np.ndarray | None) -> None:
        """The next rows: how many neighbours each has, all of them, sorted, and their weights."""
        self._waiting.append((lengths, neighbours, weights))
        n_rows = sum(len(rows[0]) for rows in self._waiting)
        n_entries = sum(len(rows[1]) for rows in self._waiting)
        if n_rows > self.part_rows or n_entries > self.part_entries:
            self._cut(is_last=False)

    def finish(self) -> None:
        self._cut(is_last=True)

    def _cut(self, is_last: bool) -> None:
        """Write all parts that are known to be full, or all that there is."""
        if not self._waiting:
            return
        lengths, neighbours = (
            np.concatenate([rows[n] for rows in self._waiting]) for n in range(2)
        )
        weights = None
        if self.has_weights:
            weights = np.concatenate([_weights(rows) for rows in self._waiting])
        ends = np.append(0, np.cumsum(lengths, dtype=np.int64))
        first = 0
        while first < len(lengths):
            below = int(np.searchsorted(ends, ends[first] + self.part_entries, side="right")) - 1
            stop = max(min(below, first + self.part_rows), first + 1)
            if stop >= len(lengths) and not is_last:
                break  # the next row may still belong to it
            entries = slice(ends[first], ends[stop])
            self._write(
                ends[first : stop + 1] - ends[first],
                neighbours[entries],
                None if weights is None else weights[entries],
            )
            first = stop
        rest = slice(ends[first], None)
        # Copies, so that what was written is let go.
        rest_weights = None if weights is None else weights[rest].copy()
        self._waiting = [(lengths[first:].copy(), neighbours[rest].copy(), rest_weights)]

    def _write(self, ends: np.ndarray, neighbours: np.ndarray, weights: np.ndarray | None) -> None:
        names = edge_files(self.n_parts, weighted=weights is not None)
        arrays = [ends, neighbours.astype(index_dtype(self.n_nodes), copy=False)]
        if weights is not None:
            arrays.append(weights.astype(np.float64, copy=False))
        files = {
            name: write_array(self.folder / name, array)
            for name, array in zip(names, arrays, strict=True)
        }
        start = self.n_rows
        self.n_rows += len(ends) - 1
        self.n_parts += 1
        self.on_part(start, self.n_rows, files)


def _weights(rows: _Rows) -> np.ndarray:
    return np.ones(len(rows[1])) if rows[2] is None else rows[2]


def feature_kind(
    rows: Any, names: tuple[str, ...] | None = None, is_prepared: bool = False
) -> FeatureKind:
    """What the manifest says of features like these."""
    kind = "sparse" if sp.issparse(rows) else "dense"
    return FeatureKind(kind, rows.shape[1], str(rows.dtype), names, is_prepared)


def write_features(folder: Path, part: int, rows: Any) -> Records:
    """Write the features of a part's nodes: an array, or a csr matrix in canonical form."""
    if not sp.issparse(rows):
        (name,) = feature_files(part, "dense")
        return {name: write_array(folder / name, rows)}
    dtypes = (np.int64, index_dtype(rows.shape[1]), rows.dtype)
    arrays = zip((rows.indptr, rows.indices, rows.data), dtypes, strict=True)
    return {
        name: write_array(folder / name, array.astype(dtype, copy=False))
        for name, (array, dtype) in zip(feature_files(part, "sparse"), arrays, strict=True)
    }


def write_ids(folder: Path, part: int, ids: np.ndarray | Texts) -> Records:
    if isinstance(ids, Texts):
        names = id_files(part, "text")
        arrays = [ids.offsets, ids.content]
    else:
        names, arrays = id_files(part, "integer"), [ids.astype(np.int64, copy=False)]
    return {
        name: write_array(folder / name, array) for name, array in zip(names, arrays, strict=True)
    }


def write_statistics(path: Path, statistics: ColumnStatistics) -> FileRecord:
    with writing(path), open_atomically(path) as file:
        np.savez(file, **statistics.__dict__)
    return FileRecord(path.stat().st_size, hash_of_file(path), hash_of_ends(path))


def finish_store(
    folder: Path,
    boundaries: Iterable[int],
    files: Records,
    has_weights: bool,
    features: FeatureKind | None,
    ids: dict[str, Any] | None,
    source: dict[str, Any],
    labels: LabelKind | None = None,
) -> Manifest:
    """Write the degrees and, last of all, the manifest of a folder that has everything else."""
    starts = tuple(int(row) for row in boundaries)
    n_nodes, n_entries = starts[-1], 0
    degrees = np.zeros(n_nodes)
    weighted = False
    for part, (start, stop) in enumerate(pairwise(starts)):
        names = [folder / name for name in edge_files(part, has_weights)]
        ends = read_array(names[0], np.int64, (stop - start + 1,))
        n_entries += int(ends[-1])
        if not has_weights:
            degrees[start:stop] = np.diff(ends)
            continue
        weights = read_array(names[2], np.float64, (int(ends[-1]),))
        weighted = weighted or bool((weights != 1.0).any())
        has_any = np.flatnonzero(np.diff(ends))
        if len(has_any):
            degrees[start + has_any] = np.add.reduceat(weights, ends[:-1][has_any])
    if has_weights and not weighted:
        for part in range(len(starts) - 1):
            name = edge_files(part, weighted=True)[-1]
            (folder / name).unlink(missing_ok=True)
            files.pop(name, None)
    files["degrees.npy"] = write_array(folder / "degrees.npy", degrees)
    kept = {name: files[name] for name in sorted(files)}
    manifest = Manifest(
        n_nodes, n_entries // 2, n_entries, starts, weighted, features, ids, source, kept,
        labels=labels,
    )  # fmt: skip
    manifest = manifest.sealed()
    manifest.write(folder)
    return manifest
