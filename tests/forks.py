"""Processes that may be killed, without the seconds that imports take.

One process imports what they need and defines ``work``; for each call it forks a copy of itself,
which works and ends, or is killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

__all__ = ["Fork", "Forks"]

_COPIES = """
import json, os, sys, traceback

def copy(function, *arguments):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        function(*arguments)
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    finally:  # without a way back into what called
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def begin(arguments, out):
    for number, path, way in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY)):
        opened = os.open(path, way)
        os.dup2(opened, number)
        os.close(opened)
    work(*arguments)

print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    child = copy(begin, *json.loads(line))
    print(child, flush=True)
    print(ended(child), flush=True)
"""


class Forks:
    """A process that has run ``code``, which defines ``work``, and copies itself on demand.

    The code has the arguments in ``sys.argv[1:]``, and may start no thread before it is copied; a
    copy may make others: ``ended(copy(function, *arguments))`` is the exit code of one.
    """

    def __init__(self, code: str, *arguments: object):
        self._process = subprocess.Popen(
            [sys.executable, "-c", code + _COPIES, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self.told() == "ready"

    def told(self) -> str:
        """The next line of the process: of its copies, the number at the start and the exit code
        at the end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, *arguments: object) -> Fork:
        """A copy that does ``work(*arguments)``; the next can start when this one has ended."""
        assert self._process.stdin is not None
        with tempfile.TemporaryDirectory() as place:
            out = Path(place, "out")
            os.mkfifo(out)
            self._process.stdin.write(json.dumps([arguments, str(out)]) + "\n")
            return Fork(self, int(self.told()), out.open())

    def run(self, *arguments: object) -> tuple[int, str]:
        """The exit code of a copy, negative if a signal ended it, and what it printed."""
        copy = self.start(*arguments)
        with copy.stdout:
            said = copy.stdout.read()
        return copy.wait(), said

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=60)


class Fork:
    """A copy at work, with those methods of :class:`subprocess.Popen` that are asked for."""

    def __init__(self, forks: Forks, pid: int, stdout: IO[str]):
        self._forks, self.pid, self.stdout = forks, pid, stdout
        self._code: int | None = None

    def send_signal(self, how: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, how)

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            self._code = int(self._forks.told())
        return self._code
