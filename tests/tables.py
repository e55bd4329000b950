"""A small graph as a user's tables, for tests of the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from helpers import random_graph, smooth_classes
from nodegp import Graph

NAMES = np.array(["ant", "bee", "cat"])


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
