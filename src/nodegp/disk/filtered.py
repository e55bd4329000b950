"""Filtered features of a stored graph: made once for a filter, then read by part.

They are in a folder of the store's work that is named by what they follow from: graph,
preprocessing and filter. Columns are carried in blocks, as many at a time as memory allows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
import torch

from nodegp.disk.graph import StoreAddress
from nodegp.disk.hops import ColumnJob, Recursion, run_job
from nodegp.disk.operator import StoredOperator
from nodegp.disk.work import is_whole, map_array, read_tensors, work_folder
from nodegp.disk.workers import SHARE_OF_COLUMNS, Workers, workers
from nodegp.files import write_atomically
from nodegp.identity import fingerprint
from nodegp.preprocessing import Preprocessor
from nodegp.store import StoredGraph
from nodegp.store.arrays import writing

__all__ = ["FilteredMatrix", "block_width"]

_WIDEST = 64  # columns at a time: with more a product is no faster
_NARROWEST = 16  # with fewer, edges and rows that are read are hardly made use of
_PLAN = "columns.json"
_FEW = 256  # rows up to which the rest of a part is not read


def block_width(store: StoredGraph, n_columns: int, itemsize: int, chosen: Workers) -> int:
    """How many columns to carry at a time; each process has a block of its own."""
    room = SHARE_OF_COLUMNS * chosen.memory / chosen.n_places - 16 * store.n_nodes
    width = int(room // (itemsize * max(store.n_nodes, 1)))
    if width < 1:
        needed = chosen.n_places * store.n_nodes * (itemsize + 16) / SHARE_OF_COLUMNS
        processes = f"{chosen.n_places} process{'es' * (chosen.n_places != 1)}"
        raise ValueError(
            f"one column of {store.n_nodes:,} nodes takes {needed / 2**30:.2f} GiB of memory over "
            f"{processes}, and {chosen.memory / 2**30:.2f} are allowed; give more with --memory "
            "(in Python nodegp.disk.using(memory=...)), or fewer processes"
        )
    # Even blocks, and one for each process before any has two, if they are not too narrow for that.
    apart = max(min(chosen.n_places, n_columns // _NARROWEST), 1)
    fewest = max(-(-n_columns // min(width, _WIDEST)), apart)
    even = -(-n_columns // fewest)
    return min(-(-even // 8) * 8, width, n_columns) if even > 8 else even


class FilteredMatrix:
    """F X of a stored graph, (N, D), as a matrix whose rows are read when they are asked for."""

    ndim = 2

    def __init__(
        self,
        store: StoredGraph,
        preprocessor: Preprocessor,
        recursion: Recursion,
        dtype: torch.dtype,
    ):
        self._store, self._preprocessor = store, preprocessor
        self._recursion, self._dtype = recursion, dtype
        self.dtype = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
        self.shape = (store.n_nodes, preprocessor.n_features)
        numbers = [list(recursion.terms), recursion.self_loops, recursion.discount, recursion.own]
        key = fingerprint(store.fingerprint, preprocessor.fingerprint, numbers, str(dtype))
        self._folder = store.path / "work" / f"filtered-{key[:24]}"
        self._blocks: list[tuple[int, int]] | None = None
        self._kept = local()

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def itemsize(self) -> int:
        """Of a number on disk."""
        return self._dtype.itemsize

    @property
    def is_made(self) -> bool:
        """Whether all of it is there, every file of its size."""
        blocks = self._planned()
        return blocks is not None and all(
            is_whole(self._job(block).level(0, part))
            for block in blocks
            for part in range(self._store.n_parts)
        )

    def make(self, operator: StoredOperator, progress: Callable[[int, int], None]) -> None:
        """Work out what is missing. ``progress`` is told how many hops, of blocks of columns, of
        how many are done."""
        if self._blocks is not None:
            return
        if self.is_made:
            self._blocks = self._planned()
            return
        chosen = workers()
        work_folder(self._store.path, self._folder.name)
        with _locked(self._folder):
            width = block_width(self._store, self.shape[1], self._dtype.itemsize, chosen)
            blocks = self._planned()
            if blocks is not None and not self.is_made and blocks[0][1] - blocks[0][0] > width:
                shutil.rmtree(self._folder)  # begun with more memory than there is now
                work_folder(self._store.path, self._folder.name)
                blocks = None
            if blocks is None:
                edges = range(0, self.shape[1], width)
                blocks = [(start, min(start + width, self.shape[1])) for start in edges]
                with writing(self._folder / _PLAN):
                    write_atomically(self._folder / _PLAN, json.dumps(blocks).encode())
            done, total = [0], len(blocks) * max(self._recursion.order, 1)

            def hop() -> None:
                done[0] += 1
                progress(done[0], total)

            def one(block: tuple[int, int], place: int | None) -> None:
                job = self._job(block)
                self._remove_damaged(job)
                n_read, n_hops = run_job(job, chosen, place, hop)
                operator.count(n_read, n_hops * (block[1] - block[0]))

            if not self.is_made:
                chosen.run_apart(one, blocks)
        self._blocks = blocks

    def _remove_damaged(self, job: ColumnJob) -> None:
        """Answers that are cut short, or another's, are made again."""
        for part in range(self._store.n_parts):
            path = job.level(0, part)
            if path.exists() and not is_whole(path):
                path.unlink()

    def __getitem__(self, nodes: Any) -> np.ndarray:
        """Rows of some nodes, or of a range."""
        if isinstance(nodes, slice):
            start, stop, _ = nodes.indices(len(self))
            nodes = np.arange(start, max(stop, start))
        nodes = np.asarray(nodes)
        result = np.empty((len(nodes), self.shape[1]), self.dtype)
        owners = self._store.part_of(nodes)
        for part in np.unique(owners).tolist():
            places = np.flatnonzero(owners == part)
            rows = nodes[places] - self._store.boundaries[part]
            if len(places) == len(nodes) and (np.diff(rows) == 1).all() and len(rows) > _FEW:
                return self.part(part)[rows[0] : rows[-1] + 1]
            result[places] = self._some(part, rows)
        return result

    def part(self, part: int) -> np.ndarray:
        """All rows of a part, whose files are compared with their checksums. Each
        thread keeps the last."""
        kept = self._last
        if kept is None or kept[0] != part:
            rows = self._store.rows_of(part)
            values = np.empty((rows.stop - rows.start, self.shape[1]), self.dtype)
            for block in self._blocks or ():
                (columns,) = read_tensors(self._job(block).level(0, part), verify=True)
                values[:, block[0] : block[1]] = columns.numpy()
            kept = part, values
            self._kept.part = kept
        return kept[1]

    @property
    def _last(self) -> tuple[int, np.ndarray] | None:
        return getattr(self._kept, "part", None)

    def _some(self, part: int, rows: np.ndarray) -> np.ndarray:
        if len(rows) > _FEW or (self._last is not None and self._last[0] == part):
            return self.part(part)[rows]
        blocks = self._blocks or ()
        return np.concatenate(
            [np.array(map_array(self._job(b).level(0, part))[rows]) for b in blocks], axis=1
        )

    def _planned(self) -> list[tuple[int, int]] | None:
        """The blocks of columns that were begun, if any were."""
        try:
            blocks = json.loads((self._folder / _PLAN).read_bytes())
            ends = [(int(start), int(stop)) for start, stop in blocks]
        except (OSError, ValueError, TypeError):
            return None
        is_right = [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])]
        return ends if is_right and ends[-1][1] == self.shape[1] else None

    def _job(self, block: tuple[int, int]) -> ColumnJob:
        folder = (self._folder / f"b{block[0]:05d}").absolute()
        parts = StoreAddress.of(self._store), self._preprocessor, self._recursion, folder
        return ColumnJob(*parts, block[0], block[1], self._dtype)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time; another waits."""
    with (folder.parent / f".{folder.name}.lock").open("wb") as file:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
        with suppress(OSError):
            os.fsync(file.fileno())
