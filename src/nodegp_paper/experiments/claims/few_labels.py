"""Fewer labels: the GGP against GCN and LP, from 1 to 20 labels per class.

Training nodes are drawn from outside the public test set; the test nodes only score. Nobody gets
validation labels here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodegp.datasets import load_dataset
from nodegp_paper.experiments.models import ggp, linear_ggp, scores
from nodegp_paper.experiments.runner import Context, plain
from nodegp_paper.experiments.spec import Spec

TASK = "few labels"
MODELS = ("GGP", "GGP (linear)", "GCN", "LP")
PER_CLASS = (1, 2, 3, 5, 10, 20)


def specs(
    datasets: tuple[str, ...], models: tuple[str, ...], seeds: int | None, quick: bool
) -> list[Spec]:
    return [
        Spec(TASK, dataset, model, "default" if "GGP" in model else "", seed, {"per_class": n})
        for dataset in datasets
        for model in MODELS
        if model.split()[0] in models
        for n in ((1, 5) if quick else PER_CLASS)
        for seed in range(seeds or (1 if quick else 10))
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = load_dataset(spec.dataset, context.data_dir)
    # The same nodes for every model, and a smaller draw is part of none: draws are independent.
    train = data.random_split(spec.settings["per_class"], spec.seed, n_test=0)["train"]
    y = np.full(data.graph.n_nodes, -1)
    y[train] = data.y[train]
    if spec.model == "GGP":
        model = ggp({}, spec.dataset, len(train), spec.seed, None)
    elif spec.model == "GGP (linear)":
        model = linear_ggp({}, spec.dataset, spec.seed)
    else:
        from nodegp_paper.baselines import REGISTRY

        model = REGISTRY[spec.model.lower()](random_state=spec.seed)
    test = data.splits["test"]
    return plain(scores(data.y[test], model.fit(data.graph, y).predict_proba(data.graph, test)))
