"""Labels from a column of the nodes' tables, kept with the stored graph as pairs of node and class.

Whether a label is a number or text is a matter of all rows. So they are kept as they are written,
each by its place among the different ones, until all have been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodegp.ingest.sources import Source
from nodegp.io.ids import TEXT
from nodegp.io.labels import classes_of, written_labels
from nodegp.io.tables import Column, Table
from nodegp.io.words import amount
from nodegp.store.arrays import write_array
from nodegp.store.building import Building
from nodegp.store.labels import CODE, write_stored_labels
from nodegp.store.manifest import LabelKind
from nodegp.store.parts import Records

__all__ = ["LabelColumn", "find_labels"]

MOST_CLASSES = 1 << 16  # different labels: more are amounts, or names
_ROWS = 1 << 20  # that are read before what was found in them is written
_STAGE, _END = "labels", "all labels"

Tell = Callable[[int], object]


def find_labels(source: Source, label: Column | None, id_names: list[str]) -> list[str] | None:
    """The column of labels in each file."""
    if label is None:
        return None
    names = [file.find(label, "labels") for file in source.files]
    for file, name, id_name in zip(source.files, names, id_names, strict=True):
        if name == id_name:
            raise ValueError(f"column {name!r} of {file.path} cannot be both id and label")
    return names


class LabelColumn:
    """The column of labels, read from where that stopped if it did."""

    def __init__(self, building: Building, source: Source, names: list[str], is_named: bool):
        self._building, self._source = building, source
        self._is_named = is_named  # some column is given by its name, so there is a header
        self._names = {file.path: name for file, name in zip(source.files, names, strict=True)}
        self._folder = building.subfolder(_STAGE)
        self._written: dict[str, int] = {}  # the different labels, each with its place

    def read(self, tell: Tell) -> None:
        """Read all rows; what is known of some of them goes to files."""
        building, last = self._building, self._building.last(_STAGE)
        for entry in building.entries(_STAGE):
            self._add(entry["new"])
        if building.last(_END):
            return
        types = dict.fromkeys(self._names.values(), pa.string())
        n_rows = 0 if last is None else last["n_rows"]
        after = (-1, -1) if last is None else last["place"]
        found: list[tuple[np.ndarray, np.ndarray]] = []
        n_known, n_done, are_numbers, place = len(self._written), n_rows, True, None
        batches = self._source.batches(lambda file: [self._names[file.path]], types, _ROWS, after)
        for batch in batches:
            nodes, codes, is_number = self._labels_of(batch.table, n_rows)
            n_rows, place = n_rows + len(batch.table), batch.place
            found.append((nodes, codes))
            are_numbers = are_numbers and is_number
            if n_rows - n_done >= _ROWS:
                self._write(found, n_known, are_numbers, n_rows, place)
                found, n_known, n_done, are_numbers = [], len(self._written), n_rows, True
                tell(n_rows)
        if place is not None and found:
            self._write(found, n_known, are_numbers, n_rows, place)
        building.record(_END)

    def _labels_of(self, table: Table, start: int) -> tuple[np.ndarray, np.ndarray, bool]:
        """Which of some rows have labels, by number, the places of these, and whether they are
        whole numbers."""
        labels = written_labels(table, self._names[table.file.path])
        is_number = labels.type != TEXT or labels.null_count == len(labels)
        text = labels.cast(TEXT)
        coded = pc.dictionary_encode(text).unify_dictionaries().combine_chunks()
        is_label = pc.is_valid(text).to_numpy(zero_copy_only=False)
        places = self._add(coded.dictionary.to_pylist(), table)
        codes = places[coded.indices.drop_null().to_numpy()]
        return start + np.flatnonzero(is_label), codes, is_number

    def _add(self, labels: list[str], table: Table | None = None) -> np.ndarray:
        """The places of these labels, new ones last."""
        places = [self._written.setdefault(label, len(self._written)) for label in labels]
        if len(self._written) > MOST_CLASSES and table is not None:
            name = self._names[table.file.path]
            raise ValueError(
                f"{table.where(name)} has more than {amount(MOST_CLASSES, 'different label')}: "
                "labels are classes, not amounts or names; name another column, or leave it out "
                "with --exclude (in Python exclude=[...])"
            )
        return np.array(places, CODE)

    def _write(
        self, found: list[Any], n_known: int, are_numbers: bool, n_rows: int, place: list[int]
    ) -> None:
        chunk = len(self._building.entries(_STAGE))
        nodes, codes = (np.concatenate([pair[side] for pair in found]) for side in range(2))
        write_array(self._path(chunk, "nodes"), nodes.astype(np.int64))
        write_array(self._path(chunk, "codes"), codes.astype(CODE))
        self._building.record(
            _STAGE,
            n_rows=n_rows,
            place=place,
            n_labels=len(nodes),
            is_number=are_numbers,
            new=list(self._written)[n_known:],
        )

    def _path(self, chunk: int, array: str) -> Path:
        return self._folder / f"{chunk:05d}.{array}.npy"

    def _chunks(self, array: str) -> Iterator[np.ndarray]:
        for chunk in range(len(self._building.entries(_STAGE))):
            yield np.load(self._path(chunk, array))

    def write(self, n_nodes: int) -> tuple[LabelKind, Records]:
        """Write them as the store has them; what the manifest says of them, and their files."""
        entries = self._building.entries(_STAGE)
        written = pa.array(list(self._written), TEXT)
        if all(entry["is_number"] for entry in entries) and len(written):
            written = written.cast(pa.int64())
        # Of several files, one that is no text: there a number is known for one.
        file = next((one for one in self._source.files if not one.is_text), self._source.files[0])
        column = self._names[file.path]
        known = classes_of(written, replace(file, path=Path(self._source.path)), column)
        self._refuse_row_as_header(set(map(str, known.tolist())))
        names = sorted(set(known.tolist()))
        place = {name: code for code, name in enumerate(names)}
        final = np.array([place[name] for name in known.tolist()], CODE)
        is_text = isinstance(names[0], str)
        n_labels = sum(entry["n_labels"] for entry in entries)
        kind = LabelKind(column, "text" if is_text else "integer", n_labels, len(names))
        files = write_stored_labels(
            self._building.folder,
            kind,
            n_nodes,
            names if is_text else np.array(names, np.int64),
            lambda: self._chunks("nodes"),
            lambda: (final[codes] for codes in self._chunks("codes")),
        )
        return kind, files

    def _refuse_row_as_header(self, labels: set[str]) -> None:
        """Raise if the first line of a file, by which no column was named, has one of the labels:
        the node in it would be lost in silence."""
        for file in () if self._is_named else self._source.files:
            name = self._names[file.path].strip()
            if file.format.has_header_line and name in labels:
                raise ValueError(file.no_header(f"has the label {name!r}"))
