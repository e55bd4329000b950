"""A store that is being written: who may write, and what is done already.

What is done stands in a journal, a line for each file or step that is whole; whoever is killed goes
on from there. A journal is only good for the settings and the tables that it was begun with.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Self

from nodegp.files import FOLDER_LOCK, clear_unfinished, lock_folder, write_atomically
from nodegp.identity import fingerprint
from nodegp.store.arrays import FileRecord, writing
from nodegp.store.manifest import MANIFEST
from nodegp.store.parts import FOLDERS, Records

__all__ = ["Building"]

_BUILDING, _JOURNAL = "building", "journal.jsonl"


class Building:
    """The folder of a store in the making; to be used in a ``with`` statement.

    Parameters
    ----------
    folder : of the store
    settings : plain data; work that was begun with other settings is thrown away
    force : begin anew where there is a store
    """

    def __init__(self, folder: Path, settings: dict[str, Any], force: bool = False):
        self.folder = folder
        self.work = folder / _BUILDING
        self.has_begun_anew = False  # what was there had other settings
        self._known_by = fingerprint(settings)
        self._force = force
        self._handle: int | None = None
        self._entries: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        _check_folder(self.folder, self._force)
        with writing(self.folder / FOLDER_LOCK):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._handle = lock_folder(self.folder)
        try:
            _check_folder(self.folder, self._force)  # it may have been finished meanwhile
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _begin(self) -> None:
        (self.folder / MANIFEST).unlink(missing_ok=True)
        self._entries = self._read_journal()
        if not self._entries or self._entries[0].get("settings") != self._known_by:
            self.has_begun_anew = bool(self._entries)
            self._entries = []
            for name in (_BUILDING, *FOLDERS, "work", "shown"):
                if (self.folder / name).exists():
                    shutil.rmtree(self.folder / name)
        with writing(self.work / _JOURNAL):
            for folder in (self.work, *(self.folder / name for name in FOLDERS)):
                folder.mkdir(exist_ok=True)
                clear_unfinished(folder)
            # Written anew: the last line of one who was killed may be half a line.
            lines = "".join(json.dumps(entry) + "\n" for entry in self._entries)
            write_atomically(self.work / _JOURNAL, lines.encode())
        if not self._entries:
            self.record("begin", settings=self._known_by)

    def _read_journal(self) -> list[dict[str, Any]]:
        path = self.work / _JOURNAL
        entries: list[dict[str, Any]] = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                entries.append(json.loads(line))
            except ValueError:
                break
        return entries

    @property
    def is_resumed(self) -> bool:
        return len(self._entries) > 1

    def entries(self, stage: str) -> list[dict[str, Any]]:
        """What was recorded of a stage, in order."""
        return [entry for entry in self._entries if entry["stage"] == stage]

    def last(self, stage: str) -> dict[str, Any] | None:
        return next((entry for entry in reversed(self._entries) if entry["stage"] == stage), None)

    def record(self, stage: str, files: Records | None = None, **data: Any) -> None:
        """Note that something is whole; it is on the disk when this returns."""
        entry = {"stage": stage, **data}
        if files is not None:
            entry["files"] = {name: record.to_dict() for name, record in files.items()}
        with writing(self.work / _JOURNAL), (self.work / _JOURNAL).open("a") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._entries.append(entry)

    def files(self) -> Records:
        """All files of the store that were recorded."""
        found: Records = {}
        for entry in self._entries:
            for name, record in entry.get("files", {}).items():
                found[name] = FileRecord(**record)
        return found

    def subfolder(self, name: str) -> Path:
        """A place for what is needed only until the store is finished."""
        folder = self.work / name
        folder.mkdir(exist_ok=True)
        clear_unfinished(folder)
        return folder

    def discard(self, name: str) -> None:
        shutil.rmtree(self.work / name, ignore_errors=True)

    def finish(self) -> None:
        """The store has its manifest: what was only needed to make it goes."""
        shutil.rmtree(self.work, ignore_errors=True)


def _check_folder(folder: Path, force: bool) -> None:
    """Refuse a place that has something else, or a store already."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; a store is a folder")
    if not folder.absolute().parent.is_dir():
        raise FileNotFoundError(f"no folder {str(folder.parent)!r} to make {folder.name!r} in")
    if (folder / MANIFEST).exists():
        if not force:
            raise FileExistsError(
                f"{folder} is a stored graph already; name another folder, or replace it with "
                "--force (in Python force=True)"
            )
        return
    is_ours = (folder / _BUILDING).exists() or not folder.exists()
    if not is_ours and any(path.name != FOLDER_LOCK for path in folder.iterdir()):
        raise FileExistsError(f"{folder} is there and not empty; name another folder")
