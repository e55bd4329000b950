"""No early stopping is needed: test accuracy does not fall as the optimiser goes on.

The paper's engine is run in stretches, each going on from the last one's checkpoint; after each
the model is scored on the public test nodes. The scores choose nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from nodegp.datasets import load_dataset
from nodegp_paper.experiments import table1
from nodegp_paper.experiments.models import ggp, scores
from nodegp_paper.experiments.runner import Context, plain
from nodegp_paper.experiments.spec import Spec

TASK = "steps"


def specs(datasets: tuple[str, ...], seeds: int | None, quick: bool) -> list[Spec]:
    # Twice the paper's number of steps: where over-fitting would have to show.
    recipe = asdict(table1.QUICK) if quick else asdict(table1.RECIPE) | {"steps": 20_000}
    settings = {"recipe": recipe, "stretch": 50 if quick else 400}
    return [
        Spec(TASK, dataset, "GGP", "paper", seed, settings)
        for dataset in datasets
        for seed in range(seeds or (1 if quick else 2))
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = load_dataset(spec.dataset, context.data_dir)
    y, test = data.labels("train"), data.splits["test"]
    recipe, stretch = spec.settings["recipe"], spec.settings["stretch"]
    n_labels = int((y >= 0).sum())
    steps, elbos, points = [], [], []
    for end in range(stretch, recipe["steps"] + 1, stretch):
        settings = {"recipe": recipe | {"steps": end}}
        model = ggp(settings, spec.dataset, n_labels, spec.seed, context.checkpoint)
        model.fit(data.graph, y)
        steps.append(end)
        elbos.append(model.elbo_)
        points.append(scores(data.y[test], model.predict_proba(data.graph, test)))
    Path(context.checkpoint).unlink(missing_ok=True)
    found: dict[str, Any] = {"steps": steps, "elbo_curve": elbos}
    for name in ("accuracy", "log_loss", "calibration_error"):
        found[name] = points[-1][name]
        found[f"{name}_curve"] = [point[name] for point in points]
    return plain(found)
