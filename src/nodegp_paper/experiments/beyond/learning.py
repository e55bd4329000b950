"""Active learning from one label to fifty, as in Table 3 of the paper."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from nodegp import metrics
from nodegp.active import STRATEGIES, ActiveLearner
from nodegp.datasets import Dataset
from nodegp.estimators import GraphGPClassifier
from nodegp_paper.experiments.models import component_of, linear_ggp, scores
from nodegp_paper.experiments.published import ACTIVE_DATASETS
from nodegp_paper.experiments.runner import Context, plain
from nodegp_paper.experiments.spec import Spec

TASK = "active, beyond"
N_LABELS = 50
STARTS = 10
# Strategies of nodegp.active.STRATEGIES with the model that they choose for; the others are
# compared with the first.
PAIRS = (
    ("hybrid", "nodegp"),
    ("gp-eer", "nodegp"),
    ("sopt", "nodegp"),
    ("vopt", "nodegp"),
    ("margin", "nodegp"),
    ("random", "nodegp"),
    ("sopt", "GGP"),
)


def pair_name(strategy: str, model: str) -> str:
    return f"{strategy}: {model}"


LEARNERS = tuple(pair_name(*pair) for pair in PAIRS)


def specs(
    datasets: tuple[str, ...], models: tuple[str, ...], seeds: int | None, quick: bool
) -> list[Spec]:
    """Seed s starts at node s of the largest component."""
    return [
        Spec(
            TASK,
            dataset,
            pair_name(strategy, model),
            "",
            seed,
            {"labels": 4 if quick else N_LABELS},
        )
        for dataset in datasets
        if dataset in ACTIVE_DATASETS
        for strategy, model in PAIRS
        if model in models
        for seed in range(seeds or (2 if quick else STARTS))
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    """One trial: accuracy on all nodes still unlabelled, after each label."""
    data = _component(spec.dataset, context.data_dir)
    strategy, name = spec.model.split(": ")
    model = GraphGPClassifier(random_state=spec.seed)
    if name == "GGP":
        model = linear_ggp({}, spec.dataset, spec.seed)
    known = data.y >= 0  # some papers of Citeseer have no label to ask for or to compare with
    learner = ActiveLearner(
        model,
        data.graph,
        STRATEGIES[strategy](),
        data.y,
        initial=[spec.seed],
        candidates=known,
        classes=range(data.n_classes),
        random_state=spec.seed,
    )
    curve = []
    for step in learner.steps(spec.settings["labels"]):
        rest = np.flatnonzero(known & ~step.labelled)
        curve.append(scores(data.y[rest], step.model.predict_proba(data.graph, rest)))
    accuracies = [point["accuracy"] for point in curve]
    result: dict[str, Any] = plain(
        {
            "alc": area(accuracies),
            "accuracy": accuracies[-1],
            "log_loss": curve[-1]["log_loss"],
            "calibration_error": curve[-1]["calibration_error"],
            "accuracy_curve": accuracies,
        }
    )
    return result


def area(accuracies: list[float]) -> float:
    """ALC, as in Table 3."""
    return metrics.area_under_learning_curve(accuracies, "trapezoid")


@lru_cache(maxsize=2)
def _component(dataset: str, data_dir: str | None) -> Dataset:
    return component_of(dataset, data_dir)
