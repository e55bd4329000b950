"""The folder that predictions of a stored graph go to: one Parquet file for each part.

A file takes its name when it is whole. A mark in the folder says what its files follow from, so
that a run that was killed goes on with those that are not there, and files of another model are
removed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nodegp.app.frontend import OptionError
from nodegp.files import clear_unfinished, write_atomically
from nodegp.store import StoredGraph

__all__ = ["MARK", "missing_parts", "part_file", "prediction_folder"]

MARK = ".nodegp-predictions.json"  # which readers of Parquet folders pass over
_PREFIX = "part-"


def part_file(folder: Path, part: int) -> Path:
    """Where the predictions of a part are."""
    return folder / f"{_PREFIX}{part:05d}.parquet"


def prediction_folder(folder: Path, force: bool) -> Path:
    """A folder that is new, empty, or has predictions of ours; with ``force`` also others' files,
    which stay."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; predictions of a stored graph are a folder")
    folder.mkdir(parents=True, exist_ok=True)
    clear_unfinished(folder)
    others = [path for path in folder.iterdir() if not _is_part(path) and path.name != MARK]
    if others and not force:
        raise OptionError(
            f"{folder} has other files, such as {others[0].name}; name another folder, or pass "
            "`force` to write beside them",
            "force",
        )
    return folder


def missing_parts(folder: Path, store: StoredGraph, mark: str) -> list[int]:
    """The parts whose predictions are still to be made. Those with another mark are removed."""
    if _mark_of(folder) != mark:
        # The old mark goes first: whatever is left of its files after a kill belongs to nobody.
        (folder / MARK).unlink(missing_ok=True)
        for path in folder.iterdir():
            if _is_part(path):
                path.unlink()
        write_atomically(folder / MARK, json.dumps({"follows from": mark}).encode())
    return [part for part in range(store.n_parts) if not _is_there(folder, store, part)]


def _mark_of(folder: Path) -> str | None:
    try:
        mark = json.loads((folder / MARK).read_bytes())["follows from"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return mark if isinstance(mark, str) else None


def _is_there(folder: Path, store: StoredGraph, part: int) -> bool:
    rows = store.rows_of(part)
    try:
        n_rows = pq.read_metadata(part_file(folder, part)).num_rows
    except (OSError, pa.ArrowInvalid):
        return False
    return bool(n_rows == rows.stop - rows.start)


def _is_part(path: Path) -> bool:
    return path.name.startswith(_PREFIX) and path.suffix == ".parquet"
