"""Sorting more keys than memory holds: runs on disk, each sorted, and then ranges over all of them.

Keys have 64 bits; each may carry a number. An edge is the key ``row << 32 | column``, so that a
graph may have up to 2**32 nodes. Whichever keys a run or a range has, the result is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nodegp.store.arrays import index_dtype, write_array

__all__ = ["MOST_NODES", "SortedRuns", "edge_keys", "rows_of_keys", "sorted_keys"]

MOST_NODES = 2**32
_STRIDE = 1 << 10  # every so many keys of a run one is looked at to find ranges of a size
_SHIFT = np.uint64(32)
_LOW = np.uint64(2**32 - 1)

_Keys = tuple[np.ndarray, np.ndarray | None]


def edge_keys(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The entries (row, column) of a matrix as keys in the order of its rows."""
    return (rows.astype(np.uint64) << _SHIFT) | columns.astype(np.uint64)


def rows_of_keys(
    keys: np.ndarray, start: int, stop: int, n_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """How many of some sorted keys each of these rows has, all of whose keys they are; and the
    columns of all of them."""
    ends = np.searchsorted(keys, np.arange(start, stop, dtype=np.uint64) << _SHIFT)
    return np.diff(ends, append=len(keys)), (keys & _LOW).astype(index_dtype(n_nodes))


def sorted_keys(keys: np.ndarray, carried: np.ndarray | None, is_largest: bool) -> _Keys:
    """Keys in order, and what they carry. With ``is_largest`` each is there once, and carries the
    largest of what it was given with. Sorts in place where nothing is carried."""
    if carried is None:
        keys.sort()
    else:
        order = np.argsort(keys, kind="stable")
        keys, carried = keys[order], carried[order]
        del order
    if not is_largest or not len(keys):
        return keys, carried
    is_first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    if is_first.all():
        return keys, carried
    if carried is not None:
        carried = np.maximum.reduceat(carried, np.flatnonzero(is_first))
    return keys[is_first], carried


class SortedRuns:
    """Runs of sorted keys in a folder, with what each carries if anything."""

    def __init__(self, folder: Path, carries: bool, is_largest: bool = False, n_runs: int = 0):
        self.folder, self.carries, self.is_largest = folder, carries, is_largest
        self.n_runs = n_runs  # that are there already
        self._keys: list[np.ndarray] = []
        self._carried: list[np.ndarray] = []

    @property
    def n_waiting(self) -> int:
        return sum(map(len, self._keys))

    def add(self, keys: np.ndarray, carried: np.ndarray | None = None) -> None:
        self._keys.append(keys)
        if carried is not None:
            self._carried.append(carried)

    def flush(self) -> None:
        """Write what is waiting as a run."""
        if not self._keys:
            return
        keys = _joined(self._keys)
        carried = _joined(self._carried) if self.carries else None
        self._keys, self._carried = [], []
        keys, carried = sorted_keys(keys, carried, self.is_largest)
        path = self._path(self.n_runs)
        if carried is not None:
            write_array(path.with_suffix(".carried.npy"), carried)
        write_array(path, keys)
        self.n_runs += 1

    def _path(self, run: int) -> Path:
        return self.folder / f"{run:05d}.npy"

    def ranges(self, n_keys: int, start_row: int = 0) -> Iterator[tuple[int, int, _Keys]]:
        """The keys from a row on (their upper half), in ranges of rows with about so many keys.

        Yields the first row, the one after the last, and all the keys between them, sorted. The
        last row is 2**32.
        """
        runs = [self._open(run) for run in range(self.n_runs)]
        stops = self._stops(runs, n_keys, start_row)
        low = np.uint64(start_row) << _SHIFT
        places = [int(np.searchsorted(keys, low)) for keys, _ in runs]
        for row in stops:
            pieces, payloads = [np.zeros(0, np.uint64)], [np.zeros(0)]
            for number, (keys, carried) in enumerate(runs):
                place = len(keys)
                if row < MOST_NODES:
                    place = int(np.searchsorted(keys, np.uint64(row) << _SHIFT))
                pieces.append(keys[places[number] : place])
                if carried is not None:
                    payloads.append(carried[places[number] : place])
                places[number] = place
            payload = np.concatenate(payloads[1:] or payloads) if self.carries else None
            keys = np.concatenate(pieces)
            yield start_row, row, sorted_keys(keys, payload, self.is_largest)
            start_row = row

    def _open(self, run: int) -> _Keys:
        path = self._path(run)
        keys = np.load(path, mmap_mode="r")
        if not self.carries:
            return keys, None
        return keys, np.load(path.with_suffix(".carried.npy"), mmap_mode="r")

    def _stops(self, runs: list[_Keys], n_keys: int, start_row: int) -> list[int]:
        """The rows at which ranges end, from every so many keys of each run."""
        samples = [np.array(keys[_STRIDE // 2 :: _STRIDE]) >> _SHIFT for keys, _ in runs]
        rows = np.sort(np.concatenate([np.zeros(0, np.uint64), *samples])).astype(np.int64)
        rows = rows[rows >= start_row]
        step = max(n_keys // _STRIDE, 1)
        stops = np.unique(rows[step - 1 :: step] + 1)
        return [*stops[stops < MOST_NODES].tolist(), MOST_NODES]


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
