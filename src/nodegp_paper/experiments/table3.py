"""Table 3 and Figure 2: active learning from one label to fifty."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from nodegp import metrics
from nodegp.active import SOPT, Acquisition, ActiveLearner, Random
from nodegp.datasets import Dataset
from nodegp_paper.experiments.models import PaperRecipe, component_of, linear_ggp, scores
from nodegp_paper.experiments.runner import Context, plain
from nodegp_paper.experiments.spec import Spec

TASK = "active"
MODELS = ("GGP", "GCN", "LP")
N_LABELS = 50
STARTS = 10
RECIPE = PaperRecipe(steps=300, learning_rate=5e-3, check_every=100)


def specs(
    datasets: tuple[str, ...], models: tuple[str, ...], engines: tuple[str, ...],
    seeds: int | None, quick: bool,
) -> list[Spec]:  # fmt: skip
    """The runs of Table 3; seed s starts at node s."""
    rows = [(model, engine) for model in MODELS if model in models
            for engine in (("paper", "default") if model == "GGP" else ("",))
            if not engine or engine in engines]  # fmt: skip
    chosen = []
    for model, engine in rows:
        settings: dict[str, Any] = {"labels": 6 if quick else N_LABELS}
        if engine == "paper":
            recipe = asdict(RECIPE)
            settings["recipe"] = recipe | {"steps": 50, "check_every": 50} if quick else recipe
        for acquisition in ("SOPT", "RAND"):
            chosen += [
                Spec(TASK, dataset, f"{acquisition}-{model}", engine, seed, settings)
                for dataset in datasets
                if dataset in ("cora", "citeseer")
                for seed in range(seeds or (2 if quick else STARTS))
            ]
    return chosen


def run(spec: Spec, context: Context) -> dict[str, Any]:
    """One trial: accuracy and the rest on all unlabelled nodes, after each label."""
    data, memory = _shared(spec.dataset, context.data_dir)
    acquisition, name = spec.model.split("-")
    if name == "GGP":
        model = linear_ggp(spec.settings, spec.dataset, spec.seed)
    else:
        from nodegp_paper.baselines import REGISTRY

        model = REGISTRY[name.lower()](random_state=spec.seed)
    known = data.y >= 0  # some papers of Citeseer have no label to ask for or to compare with
    chooser: Acquisition = SOPT() if acquisition == "SOPT" else Random()
    learner = ActiveLearner(
        model,
        data.graph,
        chooser,
        data.y,
        initial=[spec.seed],
        candidates=known,
        classes=range(data.n_classes),
        random_state=spec.seed,
        memory=memory,
    )
    asked, curve = [], []
    for step in learner.steps(spec.settings["labels"]):
        rest = np.flatnonzero(known & ~step.labelled)
        curve.append(scores(data.y[rest], step.model.predict_proba(data.graph, rest)))
        asked += step.nodes.tolist()
    accuracies = [point["accuracy"] for point in curve]
    found: dict[str, Any] = {
        "alc": metrics.area_under_learning_curve(accuracies),
        "alc_trapezoid": metrics.area_under_learning_curve(accuracies, "trapezoid"),
        "asked": asked,
    }
    for name in ("accuracy", "log_loss", "calibration_error"):
        found[name] = curve[-1][name]
        found[f"{name}_curve"] = [point[name] for point in curve]
    return plain(found)


@lru_cache(maxsize=2)
def _shared(dataset: str, data_dir: str | None) -> tuple[Dataset, dict[str, Any]]:
    """The component and a memory that keeps its inverse: they are the same in every trial."""
    return component_of(dataset, data_dir), {}
