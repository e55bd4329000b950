"""Table 2: the data."""

from __future__ import annotations

from typing import Any

from nodegp.datasets import load_dataset
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.task import Context, Selection, Task

__all__ = ["COLUMNS", "TASK"]

NAME = "data"
COLUMNS = ("nodes", "edges", "classes", "features", "label_rate")


def specs(selection: Selection) -> list[Spec]:
    return [Spec(NAME, dataset, "data") for dataset in selection.datasets]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    """Count."""
    data = load_dataset(spec.dataset, context.data_dir)
    return {
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "classes": data.n_classes,
        "features": data.graph.n_features,
        "label_rate": len(data.splits["train"]) / data.graph.n_nodes,
        "isolated": int((data.graph.degrees == 0).sum()),
        "largest_component": len(data.graph.largest_component()),
    }


TASK = Task(NAME, specs, run, lambda spec: 1.0)
