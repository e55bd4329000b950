"""Finished runs: one JSON line each, in a file that only ever grows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodegp.files import clear_unfinished
from nodegp_paper.experiments.spec import Spec

__all__ = ["Record", "Store", "Writer", "plain", "select"]


@dataclass(frozen=True)
class Record:
    """A finished run."""

    spec: Spec
    metrics: dict[str, Any]
    seconds: float
    versions: dict[str, str]

    def to_line(self) -> str:
        fields = {
            "key": self.spec.key,
            "spec": self.spec.to_dict(),
            "metrics": self.metrics,
            "seconds": self.seconds,
            "versions": self.versions,
        }
        return json.dumps(fields, allow_nan=False) + "\n"


class Store:
    """The file of finished runs of one output folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = folder / "runs.jsonl"

    def records(self) -> dict[str, Record]:
        """All finished runs by key. A last line that was cut short was never finished."""
        if not self.path.exists():
            return {}
        records = {}
        *whole, rest = self.path.read_bytes().split(b"\n")
        del rest
        for number, line in enumerate(whole, 1):
            if not line:
                continue  # where a cut line was ended, see below
            try:
                data = json.loads(line)
                spec = Spec.from_dict(data["spec"])
                record = Record(spec, data["metrics"], data["seconds"], data["versions"])
            except (ValueError, KeyError, TypeError) as error:
                if _cut_short(line):
                    continue
                raise ValueError(
                    f"line {number} of {str(self.path)!r} is not a run ({error}); "
                    "remove the line, or choose another output folder"
                ) from None
            records[spec.key] = record
        return records

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Where to add finished runs; one process at a time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with _only_one(self.folder / ".lock"), self.path.open("ab") as file:
            for place in (self.folder, self.folder / "checkpoints"):
                clear_unfinished(place)  # of a process that was killed
            if file.tell() and self._last_byte() != b"\n":
                file.write(b"\n")  # ends a line that was cut short
            yield Writer(file)

    def _last_byte(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1)


class Writer:
    """Adds runs to an open file, each safely on disk before the next."""

    def __init__(self, file: Any):
        self._file = file

    def add(self, record: Record) -> None:
        self._file.write(record.to_line().encode())
        self._file.flush()
        os.fsync(self._file.fileno())


def _cut_short(line: bytes) -> bool:
    """Whether a line is the beginning of a record and nothing else."""
    return line.startswith(b'{"key": ') or b'{"key": '.startswith(line)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows; there the user must see to it
        yield
        return
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                raise OSError  # another's, who has just removed ours
        except OSError:
            raise ValueError(
                f"another process is writing to {str(path.parent)!r}; wait for it, or choose "
                "another output folder"
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is ours


def select(records: Iterable[Record], **values: Any) -> list[Record]:
    """The records whose specs have these values, in the order of seeds."""
    chosen = [r for r in records if all(getattr(r.spec, k) == v for k, v in values.items())]
    return sorted(chosen, key=lambda r: r.spec.seed)


def plain(value: Any) -> Any:
    """Arrays and numpy numbers as JSON has them; NaN, which it has not, as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and value != value:
        return None
    return value
