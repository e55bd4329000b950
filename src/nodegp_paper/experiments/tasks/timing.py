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
from nodegp_paper.experiments.models import fitted, load, trains_on_validation
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.task import Context, Selection, Task
from nodegp_paper.experiments.tasks.splits import CUT, MODELS, fit_seconds

__all__ = ["TASK", "run"]

NAME = "seconds"
ROUNDS = 5
YARDSTICK = "GCN"


def specs(selection: Selection) -> list[Spec]:
    """One run to a model; the seeds asked for are the rounds in it."""
    cut = CUT if selection.quick else {}
    settings = {"rounds": len(selection.seeds_of(ROUNDS, 1))} | cut
    return [
        Spec(NAME, dataset, model, "", 0, settings)
        for dataset in selection.datasets
        for model in MODELS
        if model in selection.models
        if not (selection.quick and trains_on_validation(model))
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    """Fit to the public split, in turns with the GCN, so that both see the same of the machine."""
    data = load(spec.dataset, context.data_dir)
    epochs = spec.settings.get("epochs")
    for model in (YARDSTICK, spec.model):  # not counted: it loads libraries and fills caches
        _seconds(model, data, 0, epochs)
    ours, theirs = [], []
    for number in range(spec.settings["rounds"]):
        theirs.append(_seconds(YARDSTICK, data, number, epochs))
        ours.append(_seconds(spec.model, data, number, epochs))
    measured: dict[str, Any] = {}
    for position, name in enumerate(("fit", "fit_predict")):
        mine, other = ([times[position] for times in runs] for runs in (ours, theirs))
        measured[name] = median(mine)
        measured[f"{name}_rounds"] = mine
        measured[f"{name}_gcn"] = median(other)
        measured[f"{name}_times_faster"] = median(b / a for a, b in zip(mine, other, strict=True))
    return measured


def _seconds(model: str, data: Dataset, seed: int, epochs: int | None) -> tuple[float, float]:
    """Of a fit, and of a fit and predictions for all nodes."""
    # A graph of its own: what a model keeps for a graph that it has seen would be a head start.
    data = replace(data, graph=Graph(data.graph.adjacency, data.graph.features))
    started = time.perf_counter()
    fit = fitted(model, data, data.splits, seed, epochs)
    after_fit = time.perf_counter()
    fit.predict_proba(data.graph)
    return after_fit - started, time.perf_counter() - started


TASK = Task(
    NAME,
    specs,
    run,
    lambda spec: (1 + spec.settings["rounds"]) * (fit_seconds(spec) + 0.5),
    alone=True,
)
