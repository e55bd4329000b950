"""A small graph as a user's tables, for tests of the command line."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers import random_graph, smooth_classes
from nodegp import Graph
from nodegp.cli.app import app

NAMES = np.array(["ant", "bee", "cat"])
FIT = "fit --nodes nodes.csv --edges edges.csv --id node --label kind -o model.nodegp"


def run(line: str, code: int = 0, columns: int = 120) -> Any:
    """Run a command in this process; bad input is an exception here, a line in `main`."""
    done = CliRunner().invoke(app, shlex.split(line), env={"COLUMNS": str(columns)})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def run_json(line: str) -> Any:
    return json.loads(run(f"{line} --json").stdout)


def rows_of(name: str) -> list[dict[str, str]]:
    with open(name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, rows: list[list]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def write_tables(folder: Path, n_nodes: int = 40, n_labels: int = 20) -> tuple[Graph, np.ndarray]:
    """nodes.csv, edges.csv and truth.csv; returns the graph and everyone's class."""
    graph = random_graph(n_nodes, seed=1)
    truth = NAMES[smooth_classes(graph)]
    ids = [f"n{i:03d}" for i in range(n_nodes)]
    head = ["node", "kind", "a", "b", "c"]
    rows = [
        [ids[i], truth[i] if i < n_labels else "", *map(repr, map(float, graph.features[i]))]
        for i in range(n_nodes)
    ]
    write_csv(folder / "nodes.csv", [head, *rows])
    pairs = graph.adjacency.tocoo()
    edges = [[ids[i], ids[j]] for i, j in zip(pairs.row, pairs.col, strict=True) if i < j]
    write_csv(folder / "edges.csv", [["from", "to"], *edges])
    write_csv(folder / "truth.csv", [["node", "kind"], *map(list, zip(ids, truth, strict=True))])
    return graph, truth


def fitted_folder(place: Path, options: str = "", *then: str) -> Path:
    """A folder with the tables and the model of :data:`FIT`, and what came of other commands."""
    write_tables(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for line in (f"{FIT} {options}", *then):
            run(line)
    return place
