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

__all__ = ["NODEGP", "Fork", "Forks"]

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

def begin(arguments, *files):  # for what it prints, and its errors
    for number, path in enumerate((os.devnull, *files)):
        opened = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    work(*arguments)

print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    child = copy(begin, *json.loads(line))
    print(child, flush=True)
    print(ended(child), flush=True)
os._exit(0)  # no need to tidy up
"""


# `nodegp` as in a process of its own, in a folder and with an environment.
NODEGP = """
import contextlib, os, sys
import nodegp.app.demo, nodegp.label.export, nodegp.label.opening, nodegp_paper.data
from nodegp.cli import main

with contextlib.suppress(ImportError):  # the page needs an extra
    import nodegp.web.serving

def work(folder, environment, *arguments):
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["nodegp", *arguments]
    main()
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

    def _begin(self, arguments: tuple[object, ...], *files: Path) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([arguments, *map(str, files)]) + "\n")
        return int(self.told())

    def start(self, *arguments: object) -> Fork:
        """A copy that does ``work(*arguments)``; the next can start when this one has ended."""
        with tempfile.TemporaryDirectory() as place:
            out = Path(place, "out")
            os.mkfifo(out)
            return Fork(self, self._begin(arguments, out), out.open())

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """A copy that has done ``work(*arguments)``, or was killed at it."""
        with tempfile.TemporaryDirectory() as place:
            out, err = Path(place, "out"), Path(place, "err")
            out.touch()
            err.touch()
            self._begin(arguments, out, err)
            code = int(self.told())
            said = out.read_text(), err.read_text()
        return subprocess.CompletedProcess(arguments, code, *said)

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
