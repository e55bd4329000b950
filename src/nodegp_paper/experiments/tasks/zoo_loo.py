"""Leave-one-out against the truth: what a fitted model says of itself, and what it is worth.

The model's own leave-one-out scores, which `nodegp fit` and `nodegp evaluate` print, beside those
on all unlabelled nodes: with so many labels of each class, and with as many drawn at random, in
which classes come as often as they do in the graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodegp.datasets import Dataset
from nodegp.evaluation import against, leave_one_out
from nodegp_paper.datasets import capped_split
from nodegp_paper.experiments.models import estimator, labels_at
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import plain
from nodegp_paper.experiments.task import Context, Selection, Task
from nodegp_paper.experiments.tasks.zoo import GRAPHS, OURS, graph_of

__all__ = ["DRAWS", "PER_CLASS", "TASK", "drawn", "run"]

NAME = "zoo, leave-one-out"
PER_CLASS = (5, 20)
DRAWS = ("balanced", "random")
N_DRAWS = 100


def specs(selection: Selection) -> list[Spec]:
    if OURS not in selection.models:
        return []
    return [
        Spec(NAME, graph, OURS, "", seed, {"per_class": per_class, "draw": draw})
        for graph in selection.datasets
        for per_class in (PER_CLASS[:1] if selection.quick else PER_CLASS)
        for draw in DRAWS
        for seed in selection.seeds_of(N_DRAWS, 2)
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = graph_of(spec.dataset, context.data_dir)
    train, rest = drawn(data, spec.settings["per_class"], spec.settings["draw"], spec.seed)
    model = estimator(OURS, spec.dataset, len(train), spec.seed)
    # A class that was not drawn exists all the same.
    model.fit(data.graph, labels_at(data, train), classes=range(data.n_classes))
    own, truth = leave_one_out(model), against(model, labels_at(data, rest), data.graph)
    return plain(
        {
            "loo_accuracy": own.accuracy,
            "loo_log_loss": own.log_loss,
            "accuracy": truth.accuracy,
            "log_loss": truth.log_loss,
            "n_labels": len(train),
        }
    )


def drawn(data: Dataset, per_class: int, draw: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes to label, and those to know the truth from."""
    split = capped_split(data, per_class, seed)
    if draw == "balanced":
        return split["train"], split["test"]
    free = np.sort(np.concatenate([split["train"], split["test"]]))
    train = np.random.default_rng(seed).choice(free, len(split["train"]), replace=False)
    return np.sort(train), np.setdiff1d(free, train)


TASK = Task(NAME, specs, run, lambda spec: 0.3, datasets=GRAPHS)
