"""What the tests of `nodegp reproduce` share: a small case, records, and the command itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from helpers import random_graph, smooth_classes
from nodegp.cli import main
from nodegp.datasets import Dataset
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import Record, Store
from nodegp_paper.experiments.task import Context

__all__ = [
    "CONTEXT",
    "NODES",
    "command",
    "record",
    "reproduce",
    "reproduce_here",
    "results",
    "small_dataset",
]

CONTEXT = Context(None, "")
NODES = {"train": np.arange(0, 18), "val": np.arange(18, 30), "test": np.arange(30, 60)}


def small_dataset(name: str, **splits: np.ndarray) -> Dataset:
    """Sixty nodes of three classes, under the name of a data set that is larger."""
    graph = random_graph(60, 6, 1)
    y = smooth_classes(graph).astype(np.int64)
    return Dataset(name, graph, y, splits, ("a", "b", "c"))


def record(spec: Spec, **metrics) -> Record:
    return Record(spec, metrics, 1.5, {"nodegp": "1"})


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nodegp", "reproduce", *arguments]


def reproduce(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`nodegp reproduce` in a process of its own, with some variables set."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, env=os.environ | environment
    )


def reproduce_here(monkeypatch, capsys, *arguments: str) -> tuple[object, str]:
    """The exit code and standard error of the command in this process: for what ends soon."""
    monkeypatch.setattr(sys, "argv", ["nodegp", "reproduce", *arguments])
    code: object = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    return code, capsys.readouterr().err


def results(folder: Path) -> dict[str, dict]:
    return {key: r.metrics for key, r in Store(folder).records().items()}
