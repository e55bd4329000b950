"""Active learning from one label to fifty: Table 3 and Figure 2, and more strategies beyond them.

Every trial is on the largest component of a data set, and seed s starts at node s of it.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from nodegp.active import SOPT, Acquisition, ActiveLearner, Random, strategies
from nodegp.datasets import Dataset
from nodegp_paper.experiments.models import LINEAR_GGP, PaperRecipe, component_of, estimator
from nodegp_paper.experiments.published import ACTIVE_DATASETS
from nodegp_paper.experiments.scoring import curves_of, scores
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import plain
from nodegp_paper.experiments.task import Context, Selection, Task
from nodegp_paper.experiments.tasks.zoo import GRAPHS, OURS
from nodegp_paper.metrics import area_under_learning_curve

__all__ = [
    "BEYOND",
    "LEARNERS",
    "N_LABELS",
    "PAIRS",
    "TASK",
    "ZOO",
    "ZOO_GRAPHS",
    "ZOO_LEARNERS",
    "area",
    "pair_name",
    "run",
]

N_LABELS = 50
STARTS = 10
RECIPE = PaperRecipe(steps=300, learning_rate=5e-3, check_every=100)


# --- the paper's ----------------------------------------------------------------------------------

NAME = "active"
MODELS = ("GGP", "GCN", "LP")


def specs(selection: Selection) -> list[Spec]:
    """The runs of Table 3."""
    runs = []
    for model in (model for model in MODELS if model in selection.models):
        for engine in selection.engines if model == "GGP" else ("",):
            settings: dict[str, Any] = {"labels": 6 if selection.quick else N_LABELS}
            if engine == "paper":
                cut = {"steps": 50, "check_every": 50} if selection.quick else {}
                settings["recipe"] = asdict(RECIPE) | cut
            runs += [
                Spec(NAME, dataset, f"{acquisition}-{model}", engine, seed, settings)
                for acquisition in ("SOPT", "RAND")
                for dataset in selection.datasets
                if dataset in ACTIVE_DATASETS
                for seed in selection.seeds_of(STARTS, 2)
            ]
    return runs


def run(spec: Spec, context: Context) -> dict[str, Any]:
    """One trial: accuracy and the rest on all unlabelled nodes, after each label."""
    data, memory = _shared(spec.dataset, context.data_dir)
    acquisition, name = spec.model.split("-")
    chooser: Acquisition = SOPT() if acquisition == "SOPT" else Random()
    queried, points = _trial(spec, data, name, chooser, memory)
    curves = curves_of(points)
    areas = {
        "alc": area_under_learning_curve(curves["accuracy_curve"]),
        "alc_trapezoid": area(curves["accuracy_curve"]),
    }
    return plain({**areas, "asked": queried, **curves})


def _seconds(spec: Spec) -> float:
    full = {"paper": 60.0, "default": 6.0}.get(spec.engine, 1.0)
    if spec.model.endswith("GCN"):
        full = 25.0
    return full * spec.settings["labels"] / N_LABELS


TASK = Task(NAME, specs, run, _seconds)


# --- beyond it ------------------------------------------------------------------------------------

BEYOND_NAME = "active, beyond"
# Strategies by name with the model that they choose for; the others are
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


def beyond_specs(selection: Selection) -> list[Spec]:
    settings = {"labels": 4 if selection.quick else N_LABELS}
    return [
        Spec(BEYOND_NAME, dataset, pair_name(strategy, model), "", seed, settings)
        for dataset in selection.datasets
        if dataset in ACTIVE_DATASETS
        for strategy, model in PAIRS
        if model in selection.models
        for seed in selection.seeds_of(STARTS, 2)
    ]


def run_beyond(spec: Spec, context: Context) -> dict[str, Any]:
    """One trial: accuracy on all nodes still unlabelled, after each label."""
    data, _ = _shared(spec.dataset, context.data_dir)
    strategy, name = spec.model.split(": ")
    _, points = _trial(spec, data, name, strategies()[strategy]())
    curves = curves_of(points)
    names = ("accuracy", "log_loss", "calibration_error", "accuracy_curve")
    return plain({"alc": area(curves["accuracy_curve"])} | {name: curves[name] for name in names})


BEYOND = Task(
    BEYOND_NAME,
    beyond_specs,
    run_beyond,
    lambda spec: 20.0 * spec.settings["labels"] / N_LABELS,
)


# --- on other graphs ------------------------------------------------------------------------------

ZOO_NAME = "zoo, active"
# One without features, two whose neighbours mostly differ (one of them small), two of papers with
# many isolated nodes or small components.
ZOO_GRAPHS = ("acm", "chameleon", "citeseer-full", "polblogs", "wisconsin")
# The others are compared with the first; the last is uncertainty sampling.
ZOO_LEARNERS = tuple(pair_name(name, OURS) for name in ("hybrid", "sopt", "random", "margin"))


def zoo_specs(selection: Selection) -> list[Spec]:
    settings = {"labels": 4 if selection.quick else N_LABELS}
    return [
        Spec(ZOO_NAME, graph, learner, "", seed, settings)
        for graph in selection.datasets
        if graph in ZOO_GRAPHS or selection.quick  # which is to see that all works, on any graph
        if OURS in selection.models
        for learner in ZOO_LEARNERS
        for seed in selection.seeds_of(STARTS, 2)
    ]


ZOO = Task(
    ZOO_NAME,
    zoo_specs,
    run_beyond,
    lambda spec: 10.0 * spec.settings["labels"] / N_LABELS,
    datasets=GRAPHS,
)


# --- all of them ----------------------------------------------------------------------------------


def area(accuracies: list[float]) -> float:
    """ALC, as in Table 3."""
    return area_under_learning_curve(accuracies, "trapezoid")


def _trial(
    spec: Spec,
    data: Dataset,
    name: str,
    acquisition: Acquisition,
    memory: dict[str, Any] | None = None,
) -> tuple[list[int], list[dict[str, Any]]]:
    """The nodes asked about, and the scores on all nodes still unlabelled after each label."""
    model_name = LINEAR_GGP if name == "GGP" else name
    recipe = spec.settings.get("recipe")
    has_label = data.y >= 0  # some papers of Citeseer have none to ask for or to compare with
    learner = ActiveLearner(
        estimator(model_name, spec.dataset, spec.settings["labels"], spec.seed, recipe),
        data.graph,
        acquisition,
        data.y,
        initial=[spec.seed],
        candidates=has_label,
        classes=range(data.n_classes),
        random_state=spec.seed,
        memory=memory,
    )
    queried, points = [], []
    for step in learner.steps(spec.settings["labels"]):
        rest = np.flatnonzero(has_label & ~step.labelled)
        points.append(scores(data.y[rest], step.model.predict_proba(data.graph, rest)))
        queried += step.nodes.tolist()
    return queried, points


@lru_cache(maxsize=2)
def _shared(dataset: str, data_dir: str | None) -> tuple[Dataset, dict[str, Any]]:
    """The component and a memory that keeps its inverse: they are the same in every trial."""
    return component_of(dataset, data_dir), {}
