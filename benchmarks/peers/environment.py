"""Gives each peer a virtual environment of its own, made from its pins, and runs its script there.

The environments live under ``build/peers/<name>/venv`` and are made again when the pins change.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "peers"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)


def python_for(name: str) -> Path:
    """The interpreter of the peer's environment, which is made first where it is missing or old."""
    pins = HERE / f"{name}.txt"
    if not pins.exists():
        known = sorted(path.stem for path in HERE.glob("*.txt"))
        raise ValueError(f"no peer is called {name!r}; there are {', '.join(known)}")
    venv, stamp = BUILD / name / "venv", BUILD / name / "stamp"
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = venv / scripts / ("python.exe" if os.name == "nt" else "python")
    wanted = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    stamp.unlink(missing_ok=True)
    shutil.rmtree(venv, ignore_errors=True)
    print(f"making the environment of the peer {name} ...", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    # The pins are a whole freeze, so nothing is left to resolve.
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(pins)]
    subprocess.run(install, check=True, stdout=sys.stderr)
    stamp.write_text(wanted)
    return python


def run_peer(name: str, script: str, args: Sequence[str] = (), threads: int = 2) -> dict:
    """Runs a script of this folder in the peer's environment; returns the JSON it prints last."""
    environment = os.environ | {variable: str(threads) for variable in THREAD_VARIABLES}
    environment.pop("PYTHONPATH", None)
    command = [str(python_for(name)), str(HERE / script), *map(str, args)]
    command += ["--threads", str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{script} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
