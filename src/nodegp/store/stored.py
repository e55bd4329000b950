"""A graph in a folder, in parts: what a :class:`~nodegp.Graph` is where it does not fit in memory.

A part has some rows: all edges of these nodes, their features and their ids. What is read of it is
in memory and belongs to the caller; nothing is kept but the degrees, eight bytes a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.graph import check_nodes
from nodegp.store.arrays import REPAIR, StoreError, index_dtype, read_array
from nodegp.store.keys import Texts
from nodegp.store.labels import read_stored_labels
from nodegp.store.lookup import IdIndex
from nodegp.store.manifest import Manifest, edge_files, feature_files, id_files

__all__ = ["StoredGraph", "open_store"]


class StoredGraph:
    """An undirected graph on disk, as :func:`nodegp.prepare` wrote it; see :func:`open_store`.

    It can be sent to other processes that see the same folder: only the path and the manifest go.

    Attributes
    ----------
    boundaries : (n_parts + 1,) int64
        Part p has the rows from ``boundaries[p]`` up to ``boundaries[p + 1]``.
    fingerprint : a hash of nodes, edges and features in their order and parts
    """

    def __init__(self, path: str | Path, manifest: Manifest):
        self.path = Path(path)
        self.manifest = manifest
        self.n_nodes = manifest.n_nodes
        self.n_edges = manifest.n_edges
        self.n_entries = manifest.n_entries
        self.n_parts = manifest.n_parts
        self.boundaries = np.array(manifest.boundaries, np.int64)
        self.is_weighted = manifest.weighted
        self.fingerprint = manifest.fingerprint

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "manifest": self.manifest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def n_features(self) -> int:
        return 0 if self.manifest.features is None else self.manifest.features.n_columns

    @property
    def has_features(self) -> bool:
        return self.manifest.features is not None

    @property
    def has_sparse_features(self) -> bool:
        return self.has_features and self._features.kind == "sparse"

    @property
    def is_prepared(self) -> bool:
        """The features are ready for a model, as in :class:`~nodegp.Graph`."""
        return self.has_features and self._features.is_prepared

    @property
    def has_ids(self) -> bool:
        return self.manifest.ids is not None

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self._features.names if self.has_features else None

    @property
    def feature_dtype(self) -> np.dtype:
        return np.dtype(self._features.dtype)

    @cached_property
    def degrees(self) -> np.ndarray:
        """Weighted degree of each node, shape (N,)."""
        return read_array(self.path / "degrees.npy", np.float64, (self.n_nodes,))

    @cached_property
    def column_statistics(self) -> dict[str, np.ndarray]:
        """Statistics of each feature column, in float64: "count" of rows, "sum", "squares" (sum of
        squares), "min", "max" and "nnz" (number of non-zero entries)."""
        path = self.path / "columns.npz"
        if not self.has_features:
            raise ValueError(f"{self.path} has no features")
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays.items())
        except (OSError, ValueError, EOFError) as error:
            raise StoreError(f"{path} cannot be read ({error}); {REPAIR}") from None

    def rows_of(self, part: int) -> slice:
        """The nodes of a part."""
        return slice(int(self.boundaries[part]), int(self.boundaries[part + 1]))

    def part_of(self, nodes: Any) -> np.ndarray:
        """The part that each of some node numbers is in."""
        return np.searchsorted(self.boundaries, np.asarray(nodes), side="right") - 1

    def edges(self, part: int) -> sp.csr_array:
        """The adjacency of a part's nodes, (rows, N), without loops."""
        n_rows = self._n_rows(part)
        files = [self.path / name for name in edge_files(part, self.is_weighted)]
        indptr = read_array(files[0], np.int64, (n_rows + 1,))
        indices = read_array(files[1], index_dtype(self.n_nodes), (int(indptr[-1]),))
        if self.is_weighted:
            weights = read_array(files[2], np.float64, indices.shape)
        else:
            weights = np.ones(len(indices))
        return _csr(weights, indices, indptr, self.n_nodes)

    def features_of(self, part: int) -> Any:
        """The features of a part's nodes, (rows, D): an array, csr, or None if there are none."""
        if not self.has_features:
            return None
        n_rows, files = self._n_rows(part), self._feature_files(part)
        if not self.has_sparse_features:
            return read_array(files[0], self.feature_dtype, (n_rows, self.n_features))
        indptr = read_array(files[0], np.int64, (n_rows + 1,))
        indices = read_array(files[1], index_dtype(self.n_features), (int(indptr[-1]),))
        data = read_array(files[2], self.feature_dtype, indices.shape)
        return _csr(data, indices, indptr, self.n_features)

    def features_at(self, nodes: Any) -> Any:
        """The features of some nodes (as in :meth:`numbers`), in their order."""
        if not self.has_features:
            return None
        nodes = self.numbers(nodes)
        order = np.argsort(nodes, kind="stable")
        back = np.argsort(order, kind="stable")
        parts = self.part_of(nodes[order])
        found = [
            self._feature_rows(part, nodes[order][parts == part] - self.boundaries[part])
            for part in np.unique(parts).tolist()
        ]
        if self.has_sparse_features:
            empty = sp.csr_array((0, self.n_features), dtype=self.feature_dtype)
            return sp.csr_array(sp.vstack([*found, empty], format="csr"))[back]
        empty = np.zeros((0, self.n_features), self.feature_dtype)
        return np.concatenate([*found, empty])[back]

    def _feature_rows(self, part: int, rows: np.ndarray) -> Any:
        """Some rows of a part, the rest of which is not read."""
        arrays = [np.load(path, mmap_mode="r") for path in self._feature_files(part)]
        if not self.has_sparse_features:
            return np.array(arrays[0][rows])
        starts, stops = np.array(arrays[0][rows]), np.array(arrays[0][rows + 1])
        indptr = np.append(0, np.cumsum(stops - starts))
        places = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], stops - starts)
        return _csr(arrays[2][places], arrays[1][places], indptr, self.n_features)

    def ids_of(self, part: int) -> np.ndarray:
        """The ids of a part's nodes: int64, or text as objects."""
        ids = self._ids_of(part)
        return np.array(ids.tolist(), dtype=object) if isinstance(ids, Texts) else ids

    def _ids_of(self, part: int, is_mapped: bool = False) -> np.ndarray | Texts:
        if self.manifest.ids is None:
            raise ValueError("this graph has no ids; name their column when it is prepared")
        files = [self.path / name for name in id_files(part, self.manifest.ids["kind"])]
        n_rows = self._n_rows(part)
        if is_mapped:
            arrays = [np.load(path, mmap_mode="r") for path in files]
        elif len(files) == 1:
            arrays = [read_array(files[0], np.int64, (n_rows,))]
        else:
            offsets = read_array(files[0], np.int64, (n_rows + 1,))
            arrays = [offsets, read_array(files[1], np.uint8, (int(offsets[-1]),))]
        return arrays[0] if len(arrays) == 1 else Texts(*arrays)

    def ids_at(self, nodes: Any) -> np.ndarray:
        """The ids of some nodes, of which only these are read."""
        nodes = check_nodes(nodes, self.n_nodes)
        is_integer = self.manifest.ids is not None and self.manifest.ids["kind"] == "integer"
        result = np.empty(len(nodes), np.int64 if is_integer else object)
        parts = self.part_of(nodes)
        for part in np.unique(parts).tolist():
            ids, places = self._ids_of(part, is_mapped=True), np.flatnonzero(parts == part)
            rows = nodes[places] - self.boundaries[part]
            is_text = isinstance(ids, Texts)
            result[places] = [ids[row] for row in rows.tolist()] if is_text else ids[rows]
        return result

    def find(self, ids: np.ndarray | Texts) -> np.ndarray:
        """The nodes with these ids, which must be of the store's kind; -1 where there is none."""
        if isinstance(ids, Texts):
            return self._index.find_texts(ids, self._have_texts)
        return self._index.find_integers(ids)

    def _have_texts(self, nodes: np.ndarray, texts: Texts, rows: np.ndarray) -> np.ndarray:
        names = np.array([texts[row] for row in rows.tolist()], dtype=object)
        is_same: np.ndarray = self.ids_at(nodes) == names
        return is_same

    @cached_property
    def _index(self) -> IdIndex:
        if self.manifest.ids is None:
            raise ValueError("this graph has no ids; name their column when it is prepared")
        return IdIndex.open(self.path, self.manifest.ids)

    @property
    def label_name(self) -> str | None:
        """The column whose labels it was prepared with, if it was."""
        return None if self.manifest.labels is None else self.manifest.labels.column

    @property
    def labels(self) -> tuple[np.ndarray, np.ndarray]:
        """The labels that it was prepared with, as ``fit`` takes them: ids, or numbers where nodes
        have none, and the label of each."""
        nodes, labels = self.labelled()
        return self.ids_at(nodes) if self.has_ids else nodes, labels

    def labelled(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the nodes whose labels it was prepared with, in order, and these."""
        if self.manifest.labels is None:
            raise ValueError(
                f"{self.path} was prepared without labels; name their column when it is prepared: "
                "label= (on the command line --label)"
            )
        return read_stored_labels(self.path, self.manifest.labels, self.n_nodes)

    def positions(self, ids: Sequence) -> np.ndarray:
        """Numbers of the nodes with these ids."""
        names = list(ids)
        if self.manifest.ids is None:
            raise ValueError("this graph has no ids; name their column when it is prepared")
        kind = str if self.manifest.ids["kind"] == "text" else int
        values = [_plain(name) for name in names]
        fits = np.array([isinstance(v, kind) and _is_small(v) for v in values], dtype=bool)
        known = [value for value, one in zip(values, fits, strict=True) if one]
        result = np.full(len(names), -1, np.intp)
        if known:
            result[fits] = self.find(Texts.of(known) if kind is str else np.array(known, np.int64))
        missing = [name for name, place in zip(names, result, strict=True) if place < 0]
        if missing:
            first = self.ids_at(np.arange(min(3, self.n_nodes))).tolist()
            raise ValueError(
                f"{len(missing)} ids are not in the graph, first: {missing[:5]}; its ids look "
                f"like {', '.join(map(repr, first))}"
            )
        return result

    def numbers(self, nodes: Any) -> np.ndarray:
        """The numbers of these nodes, given as :meth:`nodegp.Graph.numbers` takes them."""
        names = np.atleast_1d(np.asarray(nodes))
        may_be_text = names.ndim == 1 and names.size > 0 and names.dtype.kind in "OUT"
        if may_be_text and all(isinstance(name, str) for name in names.tolist()):
            return self.positions(names.tolist())
        return check_nodes(nodes, self.n_nodes)

    def __repr__(self) -> str:
        counts = {"node": self.n_nodes, "edge": self.n_edges, "feature": self.n_features}
        counts["part"] = self.n_parts
        said = [f"{count or 'no'} {what}{'s' * (count != 1)}" for what, count in counts.items()]
        return f"StoredGraph({str(self.path)!r}: {', '.join(said)})"

    @property
    def _features(self) -> Any:
        if self.manifest.features is None:
            raise ValueError(f"{self.path} has no features")
        return self.manifest.features

    def _feature_files(self, part: int) -> list[Path]:
        return [self.path / name for name in feature_files(part, self._features.kind)]

    def _n_rows(self, part: int) -> int:
        return int(self.boundaries[part + 1] - self.boundaries[part])


def open_store(path: str | Path, verify: bool = False) -> StoredGraph:
    """Open a graph that :func:`nodegp.prepare` wrote.

    Every file is checked: that it exists, has its size, and begins and ends as it should.

    Parameters
    ----------
    path : the folder
    verify : also compare the hash of each file, which takes as long as reading all of it
    """
    folder = Path(path)
    manifest = Manifest.read(folder)
    manifest.check(folder, verify)
    return StoredGraph(folder, manifest)


def _csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, width: int) -> sp.csr_array:
    matrix = sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, width))
    matrix.has_canonical_format = True  # sorted and without duplicates, as it was written
    return matrix


def _plain(name: Any) -> Any:
    """An id as Python has it; numbers that are equal are the same id."""
    value = name.item() if isinstance(name, np.generic) else name
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, bool) else value


def _is_small(value: str | int) -> bool:
    return isinstance(value, str) or -(2**63) <= value < 2**63
