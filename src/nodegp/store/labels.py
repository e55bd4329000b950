"""Labels that a stored graph was prepared with: some of its nodes, and the class of each.

They are no part of the graph: two stores that differ in labels alone have one fingerprint, and a
model of the one goes with the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from nodegp.store.arrays import (
    REPAIR,
    StoreError,
    index_dtype,
    read_array,
    write_array,
    write_blocks,
)
from nodegp.store.keys import Texts
from nodegp.store.manifest import LabelKind, label_files
from nodegp.store.parts import Records

__all__ = ["CODE", "read_stored_labels", "write_stored_labels"]

CODE = np.int32  # the place of a label among the classes

Blocks = Callable[[], Iterable[np.ndarray]]


def write_stored_labels(
    folder: Path,
    kind: LabelKind,
    n_nodes: int,
    classes: np.ndarray | list[str],
    nodes: Blocks,
    codes: Blocks,
) -> Records:
    """Write the labelled nodes, in order, the place of each one's label among the classes, and
    these, sorted. What may be long comes in blocks."""
    names, shape = label_files(kind.kind), (kind.n_labels,)
    files = {
        names[0]: write_blocks(folder / names[0], index_dtype(n_nodes), shape, nodes()),
        names[1]: write_blocks(folder / names[1], CODE, shape, codes()),
    }
    if isinstance(classes, np.ndarray):
        arrays = [classes.astype(np.int64)]
    else:
        texts = Texts.of(classes)
        arrays = [texts.offsets, texts.content]
    for name, array in zip(names[2:], arrays, strict=True):
        files[name] = write_array(folder / name, array)
    return files


def read_stored_labels(
    folder: Path, kind: LabelKind, n_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the labelled nodes, in order, and their labels: int64, or text as objects."""
    paths = [folder / name for name in label_files(kind.kind)]
    nodes = read_array(paths[0], index_dtype(n_nodes), (kind.n_labels,))
    codes = read_array(paths[1], CODE, (kind.n_labels,))
    if kind.kind == "integer":
        classes = read_array(paths[2], np.int64, (kind.n_classes,))
    else:
        offsets = read_array(paths[2], np.int64, (kind.n_classes + 1,))
        content = read_array(paths[3], np.uint8, (int(offsets[-1]),))
        classes = np.array(Texts(offsets, content).tolist(), dtype=object)
    for path, places, end in ((paths[0], nodes, n_nodes), (paths[1], codes, kind.n_classes)):
        if len(places) and not (places.min() >= 0 and places.max() < end):
            raise StoreError(f"{path} is damaged; {REPAIR}")
    return nodes.astype(np.intp), classes[codes]
