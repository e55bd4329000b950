"""A graph that is in memory, as a stored one."""

from __future__ import annotations

import shutil
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nodegp.graph import Graph
from nodegp.store.keys import Texts
from nodegp.store.lookup import write_index
from nodegp.store.manifest import MANIFEST
from nodegp.store.parts import (
    FOLDERS,
    PART_ENTRIES,
    EdgePartWriter,
    Records,
    feature_kind,
    finish_store,
    largest_rows,
    write_features,
    write_ids,
    write_statistics,
)
from nodegp.store.statistics import ColumnStatistics
from nodegp.store.stored import StoredGraph, open_store

__all__ = ["store_graph"]


def store_graph(
    graph: Graph, path: str | Path, part_entries: int = PART_ENTRIES, force: bool = False
) -> StoredGraph:
    """Write a graph to a folder, as :func:`nodegp.prepare` would write the tables it came from.

    Parameters
    ----------
    path : folder to make
    part_entries : entries of the adjacency in a part, at most, but for a node that has more
    force : put it in the place of a store that is there
    """
    folder = _new_folder(Path(path), force)
    files: Records = {}
    boundaries = [0]

    def on_part(start: int, stop: int, written: Records) -> None:
        files.update(written)
        boundaries.append(stop)

    adjacency = graph.adjacency
    has_weights = bool((adjacency.data != 1.0).any())
    rows = largest_rows(graph.n_features)
    writer = EdgePartWriter(folder, graph.n_nodes, has_weights, on_part, part_entries, rows)
    weights = adjacency.data if has_weights else None
    if graph.n_nodes:
        writer.add(np.diff(adjacency.indptr), adjacency.indices, weights)
    writer.finish()
    ids = None if graph.ids is None else _ids(graph.ids)
    statistics: list[ColumnStatistics] = []
    for part, (start, stop) in enumerate(pairwise(boundaries)):
        if graph.features is not None:
            features = graph.features[start:stop]
            files |= write_features(folder, part, features)
            statistics.append(ColumnStatistics.of(features))
        if ids is not None:
            part_ids = ids.rows(start, stop) if isinstance(ids, Texts) else ids[start:stop]
            files |= write_ids(folder, part, part_ids)
    kind: Any = None
    if graph.features is not None:
        kind = feature_kind(graph.features, is_prepared=graph.is_prepared)
        total = reduce(ColumnStatistics.__add__, statistics)
        files["columns.npz"] = write_statistics(folder / "columns.npz", total)
    index = None
    if ids is not None:
        index, records = write_index(folder, ids)
        files |= records
    finish_store(folder, boundaries, files, has_weights, kind, index, {"what": "a graph in memory"})
    return open_store(folder)


def _ids(ids: np.ndarray) -> np.ndarray | Texts:
    """The ids as a store has them: whole numbers of 64 bits, or text."""
    if ids.dtype.kind in "iu" and (not len(ids) or int(ids.max()) < 2**63):
        return ids.astype(np.int64)
    names = ids.tolist()
    if all(isinstance(name, str) for name in names):
        return Texts.of(names)
    raise ValueError(
        f"ids of a stored graph are whole numbers of 64 bits or text, got {ids.dtype} such as "
        f"{names[:1]}"
    )


def _new_folder(folder: Path, force: bool) -> Path:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; a store is a folder")
    if folder.exists() and any(folder.iterdir()):
        if not force or not (folder / MANIFEST).exists():
            raise FileExistsError(
                f"{folder} is there and not empty; name another folder"
                + (", or pass force=True" if (folder / MANIFEST).exists() else "")
            )
        (folder / MANIFEST).unlink()
        for name in (*FOLDERS, "work", "shown"):
            shutil.rmtree(folder / name, ignore_errors=True)
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    return folder
