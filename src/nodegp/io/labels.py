"""Class labels from a column of the nodes' table or from a file of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodegp.io.ids import TEXT, Index, as_names, ids_of, names_of, without_empty
from nodegp.io.tables import Column, Table, TableFile
from nodegp.io.unknown import check_unknown, refuse_first_row

__all__ = [
    "GAP",
    "classes_of",
    "file_labels",
    "label_name_in",
    "read_labels",
    "table_labels",
    "targets_of",
    "written_labels",
]

_Columns = tuple[Column | None, Column | None]  # of ids and of labels

GAP = int(np.iinfo(np.int64).min)  # no label, among labels that are whole numbers

_WHOLE = r"^-?(0|[1-9]\d{0,17})(\.0+)?$"


def read_labels(
    source: Any,
    ids: Sequence | np.ndarray | Index,
    id: Column | None = None,
    label: Column | None = None,
    *,
    usual: tuple[str | None, str | None] = (None, None),
    classes: Sequence | np.ndarray | None = None,
    ignore_unknown: bool = False,
    sep: str | None = None,
    encoding: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Read a table of labels; rows without a label are skipped.

    Parameters
    ----------
    source : file, or table in memory
    ids : the ids of the graph's nodes, in its order, or an index of them
    id : the column of ids, by name or position from 1; by default the first
    label : the column of labels; by default the one named "label", or the second of two
    usual : names of these two columns that take precedence over those defaults if the file has them
    classes : the known classes, if any
        If they are text, labels that look like numbers are read as text too.
    ignore_unknown : skip unknown ids, which are an error otherwise
    sep, encoding : field separator and encoding of a text file; by default detected

    Returns
    -------
    positions : (L,) numbers of the labelled nodes, in the order of the file
    values : (L,) their labels, int64 or str objects
    """
    index = ids if isinstance(ids, Index) else Index(as_names(ids))
    file = TableFile.open(source, "labels", sep, encoding)
    positions, labels, _ = _by_position(file, index, (id, label), usual, ignore_unknown)
    if classes is not None and len(classes):
        if isinstance(np.asarray(classes).tolist()[0], str):
            labels = labels.cast(TEXT)
        elif labels.type == TEXT:
            raise ValueError(
                f"{file.path} has labels that are text, such as {labels[0].as_py()!r}; the model's "
                "classes are numbers"
            )
    return positions, labels.to_numpy(zero_copy_only=False)


def file_labels(
    file: TableFile, index: Index, id: Column | None, label: Column | None, ignore_unknown: bool
) -> tuple[np.ndarray, int]:
    """Labels of all nodes by a table of their own, and how many were of unknown ids.

    ``id`` is the column of ids if the table has it.
    """
    columns, usual = (None, label), (id, None)
    positions, labels, n_unknown = _by_position(file, index, columns, usual, ignore_unknown)
    everywhere = np.full(len(index), None, dtype=object)
    everywhere[positions] = _as_objects(pa.chunked_array([labels]))
    return everywhere, n_unknown


def table_labels(table: Table, column: str) -> np.ndarray:
    """Labels of all nodes by a column of their table."""
    return _as_objects(_label_column(table, column))


def _by_position(
    file: TableFile, index: Index, columns: _Columns, usual: _Columns, ignore_unknown: bool
) -> tuple[np.ndarray, pa.Array, int]:
    """Positions, labels (int64 or text without gaps), and how many were of unknown ids."""
    path = file.path
    id_name = file.find_id(columns[0], usual[0])
    label_name = label_name_in(file, columns[1], usual[1])
    if id_name == label_name:
        raise ValueError(f"column {id_name!r} of {path} cannot be both id and label")
    is_default = columns[0] is None and id_name != usual[0]
    if is_default:
        refuse_first_row(file, id_name, index)
    table = file.read([id_name, label_name], text=[id_name, label_name])
    labels = _label_column(table, label_name)
    is_label = pc.is_valid(labels)
    names = ids_of(table, id_name, is_label).filter(is_label)
    labels = labels.filter(is_label).combine_chunks()
    positions = index.find(names).astype(np.intp)
    is_known = positions >= 0
    n_unknown = int(np.count_nonzero(~is_known))
    if n_unknown:
        what = f"labels of {path} are for ids that no node has"
        lost = names.filter(pa.array(~is_known))
        check_unknown(index, [lost], (n_unknown, len(labels)), what, "Remove them", ignore_unknown)
    positions, labels = positions[is_known], labels.filter(pa.array(is_known))
    # Each node's label once; two that differ are an error.
    _, first, group = np.unique(positions, return_index=True, return_inverse=True)
    row = pc.index(pc.not_equal(labels, labels.take(pa.array(first[group]))), True).as_py()
    if row >= 0:
        name = index.name_of(int(positions[row]))
        raise ValueError(f"{path} has two different labels for node {name!r}; keep one")
    first.sort()
    return positions[first], labels.take(pa.array(first)), n_unknown


def targets_of(labels: np.ndarray) -> tuple[np.ndarray, int | None]:
    """``y`` for a model's ``fit`` from labels with None for gaps, and the value that means a gap:
    whole numbers stay whole numbers."""
    is_label = np.array([label is not None for label in labels])
    if isinstance(labels[is_label][0], str):
        return labels, None
    return np.where(is_label, labels, GAP).astype(np.int64), GAP


def label_name_in(file: TableFile, label: Column | None, usual: Column | None = None) -> str:
    """The name of a file's column of labels; by default the usual one if the file has it."""
    if label is not None:
        return file.find(label, "labels")
    if usual in file.names:
        return str(usual)
    if {"label", "probability", "entropy"} <= set(file.names):
        raise ValueError(
            f"{file.path} looks like predictions of nodegp, which are no labels to learn or to "
            "score by; if they are to be, name the column: --label label (in Python label=)"
        )
    if "label" in file.names:
        return "label"
    if len(file.names) == 2:
        return file.names[1]
    raise ValueError(
        f"{file.path} has no column {usual or 'label'!r}, so say which of its columns holds the "
        "labels: --label (in Python label=)"
    )


def written_labels(table: Table, column: str) -> pa.ChunkedArray:
    """The labels of some rows as they are written, whole numbers or text, null where there is none.
    What they are in the end is a matter of all rows: see :func:`classes_of`."""
    labels = names_of(table, column, "labels")
    if labels.type == TEXT and not table.is_text:
        labels = without_empty(pc.utf8_trim_whitespace(labels))  # as in a text file
    return labels


def classes_of(written: pa.Array, file: TableFile, column: str) -> np.ndarray:
    """What each of the different labels that a column has been found to have is: int64 or text, as
    if the whole column were read at once."""
    labels = _label_column(Table(file, pa.table({column: written})), column)
    return labels.to_numpy()


def _label_column(table: Table, column: str) -> pa.ChunkedArray:
    """A column of labels as int64 or text, null where there is none."""
    labels, where = written_labels(table, column), table.where(column)
    if labels.null_count == len(labels):
        raise ValueError(
            f"{where} is empty: no node has a label. Fill some in; to read a table without labels, "
            "name no label column."
        )
    if labels.type == TEXT and _are_booleans(labels):
        labels = pc.utf8_capitalize(labels)  # however a program writes them
    elif labels.type == TEXT and table.is_text:
        # "2.0" is how many programs write the 2 of a column that has gaps.
        if pc.all(pc.match_substring_regex(labels, _WHOLE)).as_py():
            labels = pc.replace_substring_regex(labels, r"\.0+$", "").cast(pa.int64())
        elif _fractions(labels):
            raise ValueError(
                f"{where} holds fractions; labels are classes, not amounts, "
                "which nodegp.GraphGPRegressor predicts in Python"
            )
    if labels.type != TEXT and pc.min(labels).as_py() == GAP:
        raise ValueError(f"{where} has the label {GAP}, which stands for none here")
    return labels


def _are_booleans(labels: pa.ChunkedArray) -> bool:
    names = pc.unique(pc.utf8_lower(labels.drop_null())).to_pylist()
    return set(names) <= {"true", "false"}


def _fractions(labels: pa.ChunkedArray) -> bool:
    """Whether all labels are written as numbers and some are not whole."""
    try:
        values = labels.drop_null().cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return pc.any(pc.not_equal(values, pc.round(values))).as_py()


def _as_objects(labels: pa.ChunkedArray) -> np.ndarray:
    """Labels as an object array with None at gaps; equal ones are one object."""
    codes = pc.dictionary_encode(labels).unify_dictionaries().combine_chunks()
    classes = np.array([*codes.dictionary.to_pylist(), None], dtype=object)
    return classes[pc.fill_null(codes.indices, -1).to_numpy(zero_copy_only=False)]
