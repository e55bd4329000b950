"""Fewer labels: the GGP against GCN and LP, from 1 to 20 labels per class.

Training nodes are drawn from outside the public test set; the test nodes only score. Nobody gets
validation labels here.
"""

from __future__ import annotations

from typing import Any

from nodegp.datasets import load_dataset
from nodegp_paper.datasets import random_split
from nodegp_paper.experiments.models import LINEAR_GGP, fitted
from nodegp_paper.experiments.scoring import scores
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import plain
from nodegp_paper.experiments.task import Context, Selection, Task

__all__ = ["MODELS", "TASK"]

NAME = "few labels"
MODELS = ("GGP", LINEAR_GGP, "GCN", "LP")
PER_CLASS = (1, 2, 3, 5, 10, 20)


def specs(selection: Selection) -> list[Spec]:
    if "default" not in selection.engines:
        return []
    return [
        Spec(NAME, dataset, model, "default" if "GGP" in model else "", seed, {"per_class": n})
        for dataset in selection.datasets
        for model in MODELS
        if model.split()[0] in selection.models
        for n in ((1, 5) if selection.quick else PER_CLASS)
        for seed in selection.seeds_of(10, 1)
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = load_dataset(spec.dataset, context.data_dir)
    # The same nodes for every model, and a smaller draw is part of none: draws are independent.
    train = random_split(data, spec.settings["per_class"], spec.seed, n_test=0)["train"]
    model = fitted(spec.model, data, {"train": train}, spec.seed)
    test = data.splits["test"]
    return plain(scores(data.y[test], model.predict_proba(data.graph, test)))


TASK = Task(NAME, specs, run, lambda spec: 1.0)
