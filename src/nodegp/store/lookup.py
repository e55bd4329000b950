"""Where the nodes with some ids are: an index on disk, of which only what is asked for is read.

Whole numbers that lie close together have a table, the number of the node at each; all other ids
have their keys (:mod:`nodegp.store.keys`) in order, and the nodes in the order of their keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nodegp.store.arrays import FileRecord, index_dtype, write_array, write_blocks
from nodegp.store.keys import Texts, integer_keys, text_keys

__all__ = ["IdIndex", "fits_table", "write_index", "write_range"]

IsSame = Callable[[np.ndarray, Texts, np.ndarray], np.ndarray]
_SPREAD = 2  # a table may have so many places for each node


def fits_table(low: int, high: int, n_nodes: int) -> bool:
    """Whether whole numbers between two lie close enough together for a table."""
    return high - low < _SPREAD * n_nodes + 1024


@dataclass(frozen=True, eq=False)
class IdIndex:
    """Looks ids up. The arrays may be memory-mapped."""

    low: int | None = None  # the id that the table begins with; None if keys are sorted
    table: np.ndarray | None = None
    keys: np.ndarray | None = None
    nodes: np.ndarray | None = None

    @classmethod
    def open(cls, folder: Path, ids: dict[str, Any]) -> IdIndex:
        """The index of a store; ``ids`` is what its manifest says of it."""

        def mapped(name: str) -> np.ndarray:
            # Memory-mapped: a look-up touches a page or two of an array of all nodes.
            array: np.ndarray = np.load(folder / "ids" / name, mmap_mode="r")
            return array

        if ids["index"] == "table":
            return cls(low=ids["low"], table=mapped("table.npy"))
        return cls(keys=mapped("keys.npy"), nodes=mapped("nodes.npy"))

    def find_integers(self, numbers: np.ndarray) -> np.ndarray:
        """The nodes with these whole numbers for ids, -1 where there is none, (n,) int64."""
        if self.table is not None and self.low is not None:
            # Read as unsigned, what lies below the first is very large; an overflow wraps to it.
            offset = (numbers.astype(np.int64, copy=False) - np.int64(self.low)).view(np.uint64)
            is_there = offset < np.uint64(len(self.table))
            places = self.table[np.where(is_there, offset, 0).view(np.int64)].astype(np.int64)
            return np.where(is_there, places, -1)
        return self._first(integer_keys(numbers))[0]

    def find_texts(self, texts: Texts, is_same: IsSame) -> np.ndarray:
        """The nodes with these texts for ids, -1 where there is none, (n,) int64.

        ``is_same`` says which of some nodes have the texts of some rows, one each: two texts may
        share a key.
        """
        keys = text_keys(texts)
        nodes, place = self._first(keys)
        doubtful = np.flatnonzero(nodes >= 0)
        while len(doubtful) and self.keys is not None and self.nodes is not None:
            doubtful = doubtful[~is_same(nodes[doubtful], texts, doubtful)]
            # Another with the same key comes right after.
            place[doubtful] += 1
            inside = np.minimum(place[doubtful], len(self.keys) - 1)
            has_more = (place[doubtful] < len(self.keys)) & (self.keys[inside] == keys[doubtful])
            nodes[doubtful] = np.where(has_more, self.nodes[inside], -1)
            doubtful = doubtful[has_more]
        return nodes

    def _first(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first node with each key, or -1, and its place among the sorted keys."""
        if self.keys is None or self.nodes is None or not len(self.keys):
            return np.full(len(keys), -1), np.zeros(len(keys), np.int64)
        # Keys in order are looked up an order of magnitude faster, and read the file once.
        order = np.argsort(keys)
        place = np.empty(len(keys), np.int64)
        place[order] = np.searchsorted(self.keys, keys[order])
        inside = np.minimum(place, len(self.keys) - 1)
        is_there = self.keys[inside] == keys
        return np.where(is_there, self.nodes[inside].astype(np.int64), -1), place


def write_range(folder: Path, n_nodes: int) -> tuple[dict[str, Any], dict[str, FileRecord]]:
    """The index of ids that are the numbers of the nodes, which are never all in memory."""
    dtype, step = index_dtype(n_nodes), 1 << 22
    blocks = (np.arange(n, min(n + step, n_nodes), dtype=dtype) for n in range(0, n_nodes, step))
    record = write_blocks(folder / "ids/table.npy", dtype, (n_nodes,), blocks)
    return {"kind": "integer", "index": "table", "low": 0}, {"ids/table.npy": record}


def write_index(
    folder: Path, ids: np.ndarray | Texts
) -> tuple[dict[str, Any], dict[str, FileRecord]]:
    """Write the index of ids that are in memory; returns what the manifest says of them, and the
    records of its files."""
    n_nodes = len(ids)
    files: dict[str, FileRecord] = {}
    dtype = index_dtype(n_nodes)
    if isinstance(ids, np.ndarray):
        low, high = (int(ids.min()), int(ids.max())) if n_nodes else (0, 0)
        if fits_table(low, high, n_nodes):
            table = np.full(high - low + 1, -1, dtype)
            table[ids - low] = np.arange(n_nodes, dtype=dtype)
            files["ids/table.npy"] = write_array(folder / "ids/table.npy", table)
            return {"kind": "integer", "index": "table", "low": low}, files
    keys = integer_keys(ids) if isinstance(ids, np.ndarray) else text_keys(ids)
    order = np.argsort(keys, kind="stable")
    files["ids/keys.npy"] = write_array(folder / "ids/keys.npy", keys[order])
    files["ids/nodes.npy"] = write_array(folder / "ids/nodes.npy", order.astype(dtype))
    kind = "integer" if isinstance(ids, np.ndarray) else "text"
    return {"kind": kind, "index": "sorted"}, files
