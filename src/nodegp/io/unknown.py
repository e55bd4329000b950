"""Ids that no node has: when they are an error, and what may have been meant by them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodegp.io.ids import TEXT, Index, examples, names_of
from nodegp.io.tables import TableFile, is_text

__all__ = ["check_unknown", "other_spelling", "refuse_first_row"]

_COMPARED = 1_000  # columns of the nodes' table in which the ids are looked for
_SPELLINGS = {  # that programs change without being asked
    "'.0' at the end": lambda text: pc.replace_substring_regex(text, r"\.0+$", ""),
    "zeros in front": lambda text: pc.replace_substring_regex(text, r"^0+(.)", r"\1"),
    "spaces around them": pc.utf8_trim_whitespace,
    "upper and lower case": pc.utf8_lower,
}


def check_unknown(
    nodes: Index,
    ids: Sequence[pa.ChunkedArray],
    rows: tuple[int, int],
    what: str,
    remedy: str,
    ignore: bool,
) -> None:
    """Raise if rows that name unknown ids must not be left out.

    Parameters
    ----------
    nodes : the nodes' ids
    ids : those that none of them has
    rows : how many rows name one, and how many there are
    what : the rows and what is wrong, for the error: "edges of e.csv name ids that no node has"
    remedy : what to do about them
    ignore : leave them out, unless that is most of them: then it is a mistake
    """
    chunks = [chunk for part in ids for chunk in part.cast(TEXT).chunks]
    unknown = pc.unique(pa.chunked_array(chunks, TEXT))
    n_lost, n_rows = rows
    if nodes.origin is not None:
        refuse_first_row(*nodes.origin, Index(unknown))
    if ignore and 2 * n_lost <= n_rows:
        return
    if ignore:
        remedy = "That is more than half, which is not ignored: keep only those of your nodes"
    else:
        remedy += ", or pass --ignore-unknown (in Python ignore_unknown=True)"
    hint = _other_column(nodes, unknown) or other_spelling(nodes, unknown)
    hint = f"{remedy}. {hint}".rstrip() if ignore or not hint else hint
    listed = examples(unknown.to_pylist())
    raise ValueError(f"{n_lost:,} of {n_rows:,} {what}: {listed}. {hint}")


def refuse_first_row(file: TableFile, id_name: str, ids: Index) -> None:
    """Raise if what heads a column of ids is one of these ids: then it is a row."""
    name = id_name.strip()
    if file.format.has_header_line and ids.find(pa.array([name], TEXT))[0] >= 0:
        raise ValueError(file.no_header(f"is for node {name!r}"))


def _other_column(nodes: Index, unknown: pa.Array) -> str:
    """The column of the nodes' table that has most of these ids, as a hint."""
    if nodes.origin is None:
        return ""
    file, id_name = nodes.origin
    columns = [name for name in file.names[:_COMPARED] if name != id_name]
    if file.schema is not None:
        columns = [name for name in columns if _may_be_ids(file.schema.field(name).type)]
    columns = [name for name in columns if file.names.count(name) == 1]
    table, counts = file.read(columns, text=columns), {}
    for column in columns:
        with suppress(ValueError):  # no column of ids
            values = names_of(table, column, "ids").cast(TEXT).drop_null()
            counts[column] = int(np.count_nonzero(Index(values).find(unknown) >= 0))
    best = max(counts, key=lambda name: counts[name], default="")
    if not best or 2 * counts[best] < len(unknown):
        return ""
    return (
        f"{counts[best]:,} of these {len(unknown):,} ids are values of column {best!r} of "
        f"{file.path}: use --id {best} (in Python id={best!r})?"
    )


def _may_be_ids(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def other_spelling(nodes: Index, unknown: pa.Array) -> str:
    """How most of these ids are written otherwise by the nodes, as a hint; or nothing."""
    names = nodes.names.cast(TEXT)
    for what, plain in _SPELLINGS.items():
        places = pc.index_in(plain(unknown), value_set=plain(names))
        count = len(places) - places.null_count
        if count and 2 * count >= len(unknown):
            row = pc.index(pc.is_valid(places), True).as_py()
            pair = (unknown[row].as_py(), names[places[row].as_py()].as_py())
            return (
                f"{count:,} of these {len(unknown):,} ids differ from nodes' only in {what}, as "
                f"{pair[0]!r} from {pair[1]!r}: write them alike in both tables."
            )
    return ""
