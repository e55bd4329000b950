"""A stored graph where a model asks for a :class:`~nodegp.Graph`: rows of it are read when they are
asked for, and nothing of the size of its edges or features is ever in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import local
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from nodegp.disk.workers import workers
from nodegp.graph import Graph
from nodegp.store import StoredGraph, StoreError, open_store

__all__ = ["GraphOnDisk", "StoreAddress", "StoredMatrix", "StoredRows", "on_disk"]

_ENTRY = 16  # bytes of an entry of a matrix in memory, at most
_made: WeakKeyDictionary[StoredGraph, GraphOnDisk] = WeakKeyDictionary()


def on_disk(graph: Any) -> Any:
    """A stored graph as a Graph, the same object each time; anything else as it is."""
    if not isinstance(graph, StoredGraph):
        return graph
    if graph not in _made:
        _made[graph] = GraphOnDisk(graph)
    return _made[graph]


@dataclass(frozen=True)
class StoreAddress:
    """Where a stored graph is, and which it is: all that has to go to another process."""

    store_path: Path
    fingerprint: str

    @classmethod
    def of(cls, store: StoredGraph) -> StoreAddress:
        return cls(store.path.absolute(), store.fingerprint)

    def open(self) -> StoredGraph:
        """The stored graph; each process opens it once."""
        return _opened(self)


@lru_cache(maxsize=4)
def _opened(address: StoreAddress) -> StoredGraph:
    store = open_store(address.store_path)
    if store.fingerprint != address.fingerprint:
        raise StoreError(f"{address.store_path} is another graph than it was when work began")
    return store


class GraphOnDisk(Graph):
    """A stored graph whose edges, features and ids are read on demand."""

    takes_all_pairs = False

    def __init__(self, store: StoredGraph):
        self.store = store
        self.is_prepared = store.is_prepared
        self.links_alike = False
        self.relations = None
        self.n_fitted_nodes = None
        self._views = {}
        self.adjacency = StoredRows(store)
        self.features = None
        if store.has_features:
            self.features = _sparse(store) if store.has_sparse_features else StoredMatrix(store)
        self.ids = StoredIds(store) if store.has_ids else None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, tuple[StoredGraph]]:
        return on_disk, (self.store,)

    @property
    def is_dense(self) -> bool:
        """Whether there are features, and dense ones."""
        return self.store.has_features and not self.store.has_sparse_features

    @property
    def n_edges(self) -> int:
        return self.store.n_edges

    @property
    def n_features(self) -> int:
        return self.store.n_features

    @property
    def degrees(self) -> np.ndarray:
        return self.store.degrees

    def positions(self, ids: Any) -> np.ndarray:
        return self.store.positions(ids)

    def begins_like(self, other: Graph) -> bool:
        return isinstance(other, GraphOnDisk) and (
            self.store.fingerprint == other.store.fingerprint
        )

    def marks(self, n_nodes: int) -> dict[str, str]:
        return {"store": self.store.fingerprint}

    def __repr__(self) -> str:
        return repr(self.store)


class StoredRows:
    """The adjacency matrix on disk: some rows of it, and how many entries there are."""

    def __init__(self, store: StoredGraph):
        self._store = store
        self.shape = (store.n_nodes, store.n_nodes)
        self.nnz = store.n_entries

    def __getitem__(self, nodes: Any) -> sp.csr_array:
        index = np.asarray(nodes)
        parts = self._store.part_of(index)
        found, order = [sp.csr_array((0, self.shape[1]))], [np.zeros(0, np.intp)]
        n_bytes, allowed = 0, workers().memory
        for part in np.unique(parts).tolist():
            places = np.flatnonzero(parts == part)
            start = self._store.boundaries[part]
            found.append(self._store.edges(part)[index[places] - start])
            order.append(places)
            n_bytes += _ENTRY * found[-1].nnz
            if n_bytes > allowed:
                raise ValueError(
                    f"the edges of {len(index):,} nodes take more than {n_bytes / 2**30:.2f} GiB, "
                    f"and {allowed / 2**30:.2f} are allowed; filter the features instead "
                    "(filter='auto'), ask about fewer nodes at a time, or allow more with --memory "
                    "(in Python nodegp.disk.using(memory=...))"
                )
        return sp.csr_array(sp.vstack(found, format="csr"))[np.argsort(np.concatenate(order))]


class StoredMatrix:
    """Dense features on disk as a matrix of which some rows are taken. The part that was read last
    is kept, for each thread: whoever goes over all rows reads each part once."""

    ndim = 2

    def __init__(self, store: StoredGraph):
        self._store = store
        self.shape = (store.n_nodes, store.n_features)
        self.dtype = store.feature_dtype
        self._kept = local()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self._range(start, max(stop, start), columns)
        index = np.asarray(rows)
        is_range = len(index) > 1 and (np.diff(index) == 1).all()
        if is_range:
            return self._range(int(index[0]), int(index[-1]) + 1, columns)
        return np.ascontiguousarray(self._store.features_at(index)[:, columns])

    def _range(self, start: int, stop: int, columns: slice) -> np.ndarray:
        if start == stop:
            return np.zeros((0, self.shape[1]), self.dtype)[:, columns]
        first, last = self._store.part_of([start, stop - 1]).tolist()
        result: np.ndarray | None = None
        for part in range(first, last + 1):
            rows, values = self._store.rows_of(part), self._part(part)
            low, high = max(start, rows.start), min(stop, rows.stop)
            piece = values[low - rows.start : high - rows.start, columns]
            if high - low == stop - start:
                return piece
            # Into their place at once: views of some columns would keep all of them in memory.
            if result is None:
                result = np.empty((stop - start, piece.shape[1]), self.dtype)
            result[low - start : high - start] = piece
        assert result is not None
        return result

    def _part(self, part: int) -> np.ndarray:
        kept: tuple[int, np.ndarray] | None = getattr(self._kept, "part", None)
        if kept is None or kept[0] != part:
            kept = part, self._store.features_of(part)
            self._kept.part = kept
        return kept[1]


class StoredIds:
    """Ids on disk, of which some are taken."""

    def __init__(self, store: StoredGraph):
        self._store = store

    def __len__(self) -> int:
        return self._store.n_nodes

    def __getitem__(self, nodes: Any) -> np.ndarray:
        if isinstance(nodes, slice):
            nodes = np.arange(*nodes.indices(len(self)))
        index = np.atleast_1d(np.asarray(nodes))
        if len(index) > 1 and (np.diff(index) == 1).all():
            parts = self._store.part_of([index[0], index[-1]]).tolist()
            if parts[0] == parts[1]:
                start = int(index[0] - self._store.boundaries[parts[0]])
                return self._store.ids_of(parts[0])[start : start + len(index)]
        found = self._store.ids_at(index)
        return found if np.ndim(nodes) else found[0]


def _sparse(store: StoredGraph) -> sp.csr_array:
    """Sparse features are in memory: labels are carried over the edges instead of columns."""
    parts = [store.features_of(part) for part in range(store.n_parts)]
    return sp.csr_array(sp.vstack(parts, format="csr"))
