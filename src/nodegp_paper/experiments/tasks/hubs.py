"""The outsize influence of hubs: one wrong label costs more, the more links its node has.

To the public training labels one more node is added, once with its true label and once with a
wrong one; what that does to the predictions for the public test nodes is set against its degree.
Nodes are taken from all degrees, none of them a test node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from nodegp import metrics
from nodegp.datasets import Dataset, load_dataset
from nodegp_paper.experiments.models import estimator
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import plain
from nodegp_paper.experiments.task import Context, Selection, Task

__all__ = ["TASK"]

NAME = "hubs"


def specs(selection: Selection) -> list[Spec]:
    if "default" not in selection.engines or "GGP" not in selection.models:
        return []
    settings = {"targets": 6 if selection.quick else 60}
    return [
        Spec(NAME, dataset, "GGP", "default", seed, settings)
        for dataset in selection.datasets
        for seed in selection.seeds_of(1, 1)
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = load_dataset(spec.dataset, context.data_dir)
    rng = np.random.default_rng(spec.seed)
    test = data.splits["test"]
    targets = _targets(data, spec.settings["targets"], rng)
    lost, moved = [], []
    for node in targets:
        wrong = int(rng.choice([c for c in range(data.n_classes) if c != data.y[node]]))
        right, flipped = (_predict(data, node, label, spec) for label in (data.y[node], wrong))
        lost.append(metrics.accuracy(data.y[test], right) - metrics.accuracy(data.y[test], flipped))
        moved.append(0.5 * np.abs(right - flipped).sum(axis=1).mean())
    degree = data.graph.degrees[targets]
    return plain(
        {
            "degree": degree,
            "accuracy_lost": lost,
            "probability_moved": moved,
            "rank_correlation": float(spearmanr(degree, moved).statistic),
        }
    )


def _targets(data: Dataset, count: int, rng: np.random.Generator) -> np.ndarray:
    """Unlabelled nodes outside the test set, evenly over the logarithm of the degree, and the
    largest hub for certain."""
    free = data.y >= 0
    free[data.splits["test"]] = False
    free[data.splits["train"]] = False
    nodes = np.flatnonzero(free & (data.graph.degrees > 0))
    nodes = nodes[np.argsort(data.graph.degrees[nodes] + rng.random(len(nodes)))]
    spaced = np.geomspace(1, data.graph.degrees[nodes[-1]], count)
    degree = data.graph.degrees[nodes]
    chosen: list[int] = []
    for value in spaced[::-1]:  # hubs first: there are few to choose from
        distance = np.abs(np.log(degree) - np.log(value))
        distance[chosen] = np.inf
        chosen.append(int(np.argmin(distance)))
    return nodes[chosen]


def _predict(data: Dataset, node: int, label: int, spec: Spec) -> np.ndarray:
    y = data.labels("train")
    y[node] = label
    model = estimator(spec.model, spec.dataset, int((y >= 0).sum()), spec.seed)
    return model.fit(data.graph, y).predict_proba(data.graph, data.splits["test"])


TASK = Task(NAME, specs, run, lambda spec: 30.0)
