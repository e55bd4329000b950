"""The ids of a stored graph as an index of names: they are looked up on disk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nodegp.io.ids import TEXT, Index, as_names
from nodegp.store import StoredGraph
from nodegp.store.keys import Texts

__all__ = ["StoreIndex"]

_SHOWN = 1000  # ids that a hint about spelling goes by


class StoreIndex(Index):
    """Where the nodes of a stored graph stand, by id, or by number where they have none."""

    def __init__(self, store: StoredGraph):
        self.origin = None
        self._store = store
        self.names = as_names(self._ids(np.arange(min(_SHOWN, store.n_nodes))))

    def __len__(self) -> int:
        return self._store.n_nodes

    def name_of(self, place: int) -> Any:
        return self._ids(np.array([place]))[0]

    def find(self, names: pa.Array | pa.ChunkedArray) -> np.ndarray:
        ids = self._store.manifest.ids
        if ids is not None and ids["kind"] == "text":
            return self._store.find(Texts.of(names.cast(TEXT).to_pylist()))
        numbers, is_number = _numbers(names)
        if ids is not None:
            places = self._store.find(numbers)
        else:
            is_inside = (numbers >= 0) & (numbers < len(self))
            places = np.where(is_inside, numbers, -1)
        return np.where(is_number, places, -1)

    def _ids(self, nodes: np.ndarray) -> np.ndarray:
        return self._store.ids_at(nodes) if self._store.has_ids else nodes


def _numbers(names: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Names as whole numbers, and which of them are written as one."""
    if names.type == pa.int64():
        values = names.to_numpy(zero_copy_only=False)
        return values, np.ones(len(values), dtype=bool)
    found = [_whole(text) for text in names.cast(TEXT).to_pylist()]
    numbers = np.array([0 if value is None else value for value in found], np.int64)
    return numbers, np.array([value is not None for value in found], dtype=bool)


def _whole(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if str(value) == text and -(2**63) <= value < 2**63 else None
