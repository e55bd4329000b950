"""Building the packages and running Python elsewhere, for the tests of what a user installs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]


def run_elsewhere(*command: str, cwd: Path, **environment: str) -> str:
    """Run a program outside the checkout; return what it printed, or fail with what it said."""
    # Without NODEGP_DATA: what comes with the package must be enough.
    done = subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_code(code: str, *args: str, options: tuple[str, ...] = (), **settings: Any) -> str:
    """What some code prints in a process of its own, where it has to end well. It can import the
    tests' helpers.

    ``options`` are Python's own; a working directory and the like are ``settings``."""
    usual = {"capture_output": True, "text": True, "timeout": 600}
    # What large arrays took is given back at once, or peaks of memory would differ from run to run.
    given_back = {"MALLOC_MMAP_THRESHOLD_": str(1 << 17)}
    usual["env"] = os.environ | given_back | {"PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run([sys.executable, *options, "-c", code, *args], **usual | settings)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def run_python(*args: str, cwd: Path, **environment: str) -> str:
    """The same with this interpreter."""
    return run_elsewhere(sys.executable, *args, cwd=cwd, **environment)


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "NODEGP_DATA"}


def build(out: Path, *kinds: str) -> list[Path]:
    """Build packages with the installed backend, so that no network is needed; by default the
    source package, and the wheel from that."""
    run_python("-m", "build", *kinds, "--no-isolation", "--outdir", str(out), str(ROOT), cwd=out)
    return sorted(out.iterdir())
