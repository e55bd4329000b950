"""Table 2: the data."""

from __future__ import annotations

from typing import Any

from nodegp.datasets import load_dataset
from nodegp_paper.experiments.runner import Context
from nodegp_paper.experiments.spec import Spec

TASK = "data"
COLUMNS = ("nodes", "edges", "classes", "features", "label_rate")
WHY_EDGES_DIFFER = (
    "The paper counts links as they are listed. Some papers are listed as citing each other twice, "
    "once in each direction, and some as citing themselves; an undirected graph without self-loops "
    "has each edge once. The rest are the same links."
)


def specs(datasets: tuple[str, ...]) -> list[Spec]:
    return [Spec(TASK, dataset, "data") for dataset in datasets]


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
