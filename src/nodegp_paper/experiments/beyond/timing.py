"""Seconds of a fit, beside those of a GCN in the same process at the same time.

These runs are to have the machine for themselves: whoever carries them out, one at a time.
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import Any

from nodegp.datasets import Dataset
from nodegp.graph import Graph
from nodegp_paper.experiments.beyond.models import QUICK, ROWS, Row, fitted, load
from nodegp_paper.experiments.runner import Context
from nodegp_paper.experiments.spec import Spec

TASK = "seconds"
ROUNDS = 5
YARDSTICK = "GCN"


def specs(
    datasets: tuple[str, ...], models: tuple[str, ...], seeds: int | None, quick: bool
) -> list[Spec]:
    """One run to a model; ``seeds`` are the rounds in it."""
    rounds = seeds or (1 if quick else ROUNDS)
    return [
        Spec(TASK, dataset, name, "", 0, {"rounds": rounds} | (QUICK if quick else {}))
        for dataset in datasets
        for name in models
        if not (quick and ROWS[name].more_labels)
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    """Fit to the public split, in turns with the GCN, so that both see the same of the machine."""
    data = load(spec.dataset, context.data_dir)
    row, yardstick = ROWS[spec.model], ROWS[YARDSTICK]
    epochs = spec.settings.get("epochs")
    for first in (yardstick, row):  # not counted: it loads libraries and fills caches
        _seconds(first, data, 0, epochs)
    ours, theirs = [], []
    for number in range(spec.settings["rounds"]):
        theirs.append(_seconds(yardstick, data, number, epochs))
        ours.append(_seconds(row, data, number, epochs))
    found: dict[str, Any] = {}
    for position, name in enumerate(("fit", "fit_predict")):
        mine, other = ([times[position] for times in runs] for runs in (ours, theirs))
        found[name] = median(mine)
        found[f"{name}_rounds"] = mine
        found[f"{name}_gcn"] = median(other)
        found[f"{name}_times_faster"] = median(b / a for a, b in zip(mine, other, strict=True))
    return found


def _seconds(row: Row, data: Dataset, seed: int, epochs: int | None) -> tuple[float, float]:
    """Of a fit, and of a fit and predictions for all nodes."""
    # A graph of its own: what a model keeps for a graph that it has seen would be a head start.
    data = replace(data, graph=Graph(data.graph.adjacency, data.graph.features))
    started = time.perf_counter()
    model = fitted(row, data, data.splits, seed, epochs)
    after_fit = time.perf_counter()
    model.predict_proba(data.graph)
    return after_fit - started, time.perf_counter() - started
