"""The journal of a labelling session: events that are only ever added, each sealed to the last.

One SQLite file. Every event has the hash of the one before it in its own, so that a line that was
changed, lost or put in between is found when the journal is opened; triggers refuse to change or
delete one. What an event means is not known here: taking something back is an event too
(:mod:`nodegp.label.events`).
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from nodegp.files import lock

__all__ = ["Event", "Journal", "JournalError"]

_APPLICATION = 0x6E67706C  # "ngpl", which SQLite keeps in the head of the file
_FIRST = "0" * 64  # the hash before the first event
_SCHEMA = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time TEXT NOT NULL, annotator TEXT NOT NULL,
    kind TEXT NOT NULL, data TEXT NOT NULL, hash TEXT NOT NULL
) STRICT;
CREATE TRIGGER events_stay BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events of a journal are never changed'); END;
CREATE TRIGGER events_remain BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events of a journal are never deleted'); END;
"""


class JournalError(ValueError):
    """A journal that cannot be used, or an event that could not be kept."""


@dataclass(frozen=True)
class Event:
    """Something that happened, by whom and when."""

    seq: int  # from 1
    id: str  # chosen by whoever caused it: the same id is the same event
    time: str  # ISO 8601, UTC
    annotator: str
    kind: str
    data: Mapping[str, Any]
    hash: str = ""

    def sealed(self, previous: str) -> str:
        """The hash of this event after the one with the hash ``previous``."""
        parts = [self.seq, self.id, self.time, self.annotator, self.kind, _written(self.data)]
        return sha256((previous + json.dumps(parts, ensure_ascii=False)).encode()).hexdigest()


class Journal:
    """Events in a file, one writer at a time; a second one finds it open for reading only.

    Parameters
    ----------
    path : the file; it is made if it is not there
    binding : what the journal is about, as plain data
        Kept in the first event. A journal of something else is refused.
    annotator : who causes the events that are added
    start : what else the first event of a new journal is to keep
    """

    def __init__(
        self,
        path: str | Path,
        binding: Mapping[str, Any],
        annotator: str = "expert",
        start: Mapping[str, Any] | None = None,
    ):
        self.path, self.annotator = Path(path), annotator
        self._lock = _Lock(self.path)
        self.is_read_only = not self._lock.is_held
        try:
            self._connection = self._connect()
            self.events = self._replayed()
            self._by_id = {event.id: event for event in self.events}
            if not self.events:
                self._begin({**binding, **(start or {})})
            self._check(binding)
        except sqlite3.Error as error:
            self.close()
            raise JournalError(f"{self.path} cannot be read as a journal: {error}") from error
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        if self.path.is_dir() or not self.path.absolute().parent.is_dir():
            raise JournalError(f"{self.path}: there is no place for a journal; name a file")
        is_new = not self.path.exists() or not self.path.stat().st_size
        if self.is_read_only and is_new:
            raise JournalError(f"{self.path} is being made by another process; try again")
        mode = "ro" if self.is_read_only else "rwc"
        place = f"{self.path.absolute().as_uri()}?mode={mode}"
        # Used by one thread at a time, which need not be the one that made it.
        connection = sqlite3.connect(
            place, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
        )
        self._connection = connection
        if not self.is_read_only:
            connection.execute("PRAGMA journal_mode=DELETE")
            connection.execute("PRAGMA synchronous=EXTRA")
        if is_new:
            connection.executescript(
                f"BEGIN; PRAGMA application_id={_APPLICATION}; {_SCHEMA} COMMIT;"
            )
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise JournalError(f"{self.path} is no journal of labels; name another file")
        return connection

    def _replayed(self) -> list[Event]:
        """All events, each found to be what was written."""
        rows = self._connection.execute(
            "SELECT seq, id, time, annotator, kind, data, hash FROM events ORDER BY seq"
        )
        events: list[Event] = []
        previous = _FIRST
        for number, (seq, id, time, annotator, kind, data, seal) in enumerate(rows, 1):
            try:
                event = Event(seq, id, time, annotator, kind, json.loads(data), seal)
                is_whole = seq == number and event.sealed(previous) == seal
            except ValueError:
                is_whole = False
            if not is_whole:
                raise JournalError(
                    f"{self.path} is damaged at event {number}: it is not what was written there; "
                    "take a copy from before, or name another file with --journal"
                )
            events.append(event)
            previous = seal
        return events

    def _begin(self, data: Mapping[str, Any]) -> None:
        if self.is_read_only:
            raise JournalError(f"{self.path} is being made by another process; try again")
        self.append(os.urandom(8).hex(), "begun", data)

    def _check(self, binding: Mapping[str, Any]) -> None:
        begun = self.events[0]
        for what, value in binding.items():
            if begun.kind != "begun" or begun.data.get(what) != value:
                raise JournalError(
                    f"{self.path} belongs to another model: its {what} differs from this one's; "
                    "name another file with --journal"
                )

    @property
    def name(self) -> str:
        """What it is known by to a page, which may have answers for another."""
        return self.events[0].hash[:16]

    @property
    def last_hash(self) -> str:
        return self.events[-1].hash if self.events else _FIRST

    def find(self, id: str) -> Event | None:
        """The event with this id, if it is there."""
        return self._by_id.get(id)

    def append(self, id: str, kind: str, data: Mapping[str, Any]) -> Event:
        """Add an event, which is on the disk when this returns; or the one that has the id."""
        return self.add([(id, kind, data)])[0]

    def add(self, entries: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[Event]:
        """Add events, all of them or none, by their ids, kinds and data."""
        events: list[Event] = []
        new: list[Event] = []
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        for id, kind, data in entries:
            if (event := self.find(id)) is None:
                previous = new[-1].hash if new else self.last_hash
                kept = json.loads(_written(data))
                seq = len(self.events) + len(new) + 1
                event = Event(seq, id, now, self.annotator, kind, kept)
                event = replace(event, hash=event.sealed(previous))
                new.append(event)
            events.append(event)
        if new:
            self._write(new)
        return events

    def _write(self, events: Sequence[Event]) -> None:
        if self.is_read_only:
            raise JournalError(
                f"{self.path} is open in another process, so that nothing can be added here"
            )
        rows = [
            (e.seq, e.id, e.time, e.annotator, e.kind, _written(e.data), e.hash) for e in events
        ]
        try:
            with self._connection:  # rolls back where something goes wrong
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", rows
                )
        except sqlite3.Error as error:
            raise JournalError(f"{self.path} could not be written: {error}") from error
        self.events += events
        self._by_id |= {event.id: event for event in events}

    def follow(self) -> list[Event]:
        """What another process has added meanwhile."""
        known = len(self.events)
        self.events = self._replayed()
        self._by_id = {event.id: event for event in self.events}
        return self.events[known:]

    def close(self) -> None:
        """Let go of the file; it may be done twice."""
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _written(data: Mapping[str, Any]) -> str:
    """Plain data in one way only, so that it can be sealed."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


class _Lock:
    """Who may write: a lock of the operating system's, which ends with the process that has it."""

    def __init__(self, path: Path):
        self._path = path.with_name(path.name + ".lock")
        self._handle: int | None = None
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if path.exists():  # such as on a disk that may only be read
                return
            raise JournalError(f"{path} cannot be made: {error.strerror}") from error
        try:
            lock(handle)
        except OSError:
            os.close(handle)
            return
        self._handle = handle

    @property
    def is_held(self) -> bool:
        return self._handle is not None

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
