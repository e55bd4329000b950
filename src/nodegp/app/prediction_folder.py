"""The folder that predictions of a stored graph go to: one Parquet file for each part.

A file takes its name when it is whole. A mark in the folder says what its files follow from, so
that a run that was killed goes on with those that are not there, and files of another model are
removed. One process at a time writes to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nodegp.app.frontend import OptionError
from nodegp.files import FOLDER_LOCK, clear_unfinished, lock_folder, write_atomically
from nodegp.store import StoredGraph
from nodegp.store.arrays import writing

__all__ = ["MARK", "PartFolder", "missing_parts", "prediction_folder"]

MARK = ".nodegp-predictions.json"  # which readers of Parquet folders pass over
_PREFIX = "part-"


@dataclass(frozen=True)
class PartFolder:
    """The folder as those who predict parts know it."""

    path: Path

    @property
    def shared_file(self) -> Path:
        """What they must see of it, wherever they are."""
        return self.path / MARK

    def file(self, part: int) -> Path:
        """Where the predictions of a part are."""
        return self.path / f"{_PREFIX}{part:05d}.parquet"


@contextmanager
def prediction_folder(folder: Path, force: bool) -> Iterator[Path]:
    """A folder that is new, empty, or has predictions of ours; with ``force`` also others' files,
    which stay. Nobody else writes to it meanwhile."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; predictions of a stored graph are a folder")
    others = [path for path in folder.iterdir() if not _is_ours(path)] if folder.exists() else []
    if others and not force:
        raise OptionError(
            f"{folder} has other files, such as {others[0].name}; name another folder, or pass "
            "`force` to write beside them",
            "force",
        )
    with writing(folder / FOLDER_LOCK):
        folder.mkdir(parents=True, exist_ok=True)
        handle = lock_folder(folder)
    try:
        clear_unfinished(folder)
        yield folder
    finally:
        os.close(handle)


def missing_parts(folder: Path, store: StoredGraph, mark: str) -> list[int]:
    """The parts whose predictions are still to be made. Those with another mark are removed."""
    if _mark_of(folder) != mark:
        # The old mark goes first: whatever is left of its files after a kill belongs to nobody.
        (folder / MARK).unlink(missing_ok=True)
        for path in folder.iterdir():
            if _is_part(path):
                path.unlink()
        with writing(folder / MARK):
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
        n_rows = pq.read_metadata(PartFolder(folder).file(part)).num_rows
    except (OSError, pa.ArrowInvalid):
        return False
    return bool(n_rows == rows.stop - rows.start)


def _is_ours(path: Path) -> bool:
    """Predictions, what belongs to them, and what a run that was killed has left of either."""
    is_begun = path.name.startswith((f".{_PREFIX}", f".{MARK}."))
    return _is_part(path) or is_begun or path.name in (MARK, FOLDER_LOCK)


def _is_part(path: Path) -> bool:
    return path.name.startswith(_PREFIX) and path.suffix == ".parquet"
