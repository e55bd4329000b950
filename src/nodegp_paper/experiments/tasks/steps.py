"""No early stopping is needed: test accuracy does not fall as the optimiser goes on.

The paper's engine is run in stretches, each going on from the last one's checkpoint; after each
the model is scored on the public test nodes. The scores choose nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from nodegp.datasets import load_dataset
from nodegp_paper.experiments.models import fitted
from nodegp_paper.experiments.scoring import curves_of, scores
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import plain
from nodegp_paper.experiments.task import Context, Selection, Task
from nodegp_paper.experiments.tasks import semi_supervised

__all__ = ["TASK"]

NAME = "steps"


def specs(selection: Selection) -> list[Spec]:
    if "paper" not in selection.engines or "GGP" not in selection.models:
        return []
    # Twice the paper's number of steps: where over-fitting would have to show.
    full = asdict(semi_supervised.RECIPE) | {"steps": 20_000}
    recipe = asdict(semi_supervised.QUICK) if selection.quick else full
    settings = {"recipe": recipe, "stretch": 50 if selection.quick else 400}
    return [
        Spec(NAME, dataset, "GGP", "paper", seed, settings)
        for dataset in selection.datasets
        for seed in selection.seeds_of(2, 1)
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = load_dataset(spec.dataset, context.data_dir)
    test = data.splits["test"]
    recipe, stretch = spec.settings["recipe"], spec.settings["stretch"]
    ends = list(range(stretch, recipe["steps"] + 1, stretch))
    elbos, points = [], []
    for end in ends:
        model = fitted(
            spec.model,
            data,
            data.splits,
            spec.seed,
            recipe=recipe | {"steps": end},
            checkpoint=context.checkpoint,
        )
        elbos.append(model.elbo_)
        points.append(scores(data.y[test], model.predict_proba(data.graph, test)))
    Path(context.checkpoint).unlink(missing_ok=True)
    return plain({"steps": ends, "elbo_curve": elbos} | curves_of(points))


TASK = Task(NAME, specs, run, lambda spec: 200.0)
