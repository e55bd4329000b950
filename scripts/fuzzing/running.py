"""The command line run in this process, as the shell would: arguments in, exit code and text out.

Standard output and error are caught as the system has them, so that nothing that a library in C
writes is missed.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIME_LIMIT = 60.0  # seconds


class TooLong(BaseException):
    """Not an Exception, so that no handler in between takes it for bad input."""


@dataclass(frozen=True)
class Outcome:
    """What came of a command."""

    code: int
    stdout: str
    stderr: str
    warnings: tuple[str, ...]
    error: BaseException | None  # one that `main` has let through
    seconds: float
    memory: int  # bytes that it took at most, beyond what the process had


def run(arguments: list[str], folder: Path) -> Outcome:
    """Run a command in a folder."""
    from nodegp.cli.app import main

    code, error = 0, None
    before = Path.cwd(), sys.argv
    _forget_peak()
    held = _memory("VmRSS")
    started = time.perf_counter()
    with _caught_streams() as streams, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)  # as Python does by itself
        os.chdir(folder)
        sys.argv = ["nodegp", *arguments]
        try:
            with _time_limit():
                main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            code, error = -1, problem
        finally:
            os.chdir(before[0])
            sys.argv = before[1]
    seconds = time.perf_counter() - started
    seen = tuple(f"{one.category.__name__}: {one.message}" for one in warned)
    return Outcome(code, *streams, seen, error, seconds, _memory("VmHWM") - held)


@contextlib.contextmanager
def _caught_streams() -> Iterator[list[str]]:
    """Standard output and error into files; their text is in the list afterwards."""
    texts: list[str] = []
    kept = sys.stdout, sys.stderr
    for stream in kept:
        stream.flush()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        saved = os.dup(1), os.dup(2)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout = _stream(1, "strict")
        sys.stderr = _stream(2, "backslashreplace")
        try:
            yield texts
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
                stream.close()
            sys.stdout, sys.stderr = kept
            for place, old in zip((1, 2), saved, strict=True):
                os.dup2(old, place)
                os.close(old)
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))


def _stream(place: int, errors: str) -> Any:
    return io.TextIOWrapper(open(place, "wb", closefd=False), "utf-8", errors, newline="")


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    if not hasattr(signal, "SIGALRM"):  # Windows
        yield
        return

    def stop(*_: object) -> None:
        raise TooLong(f"more than {TIME_LIMIT:.0f} seconds")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _forget_peak() -> None:
    """Begin a new measurement of the memory in use at most, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _memory(line_of: str) -> int:
    """Bytes, as Linux says; 0 elsewhere."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(line_of):
                return int(line.split()[1]) * 1024
    return 0
