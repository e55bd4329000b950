"""Beyond the paper: random splits with twenty labels per class and with fewer, and public splits.

Every model sees the same nodes. Those of random splits are all from outside the public test set, so
that these may be used to choose; the public splits are there to report, and nothing is chosen by
them.
"""

from __future__ import annotations

from typing import Any

from nodegp_paper.datasets import random_split
from nodegp_paper.experiments.models import load, trains_on_validation
from nodegp_paper.experiments.scoring import assessed
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.task import Context, Selection, Task

__all__ = ["CUT", "FEW", "MODELS", "PUBLIC", "RANDOM", "SETTINGS", "fit_seconds", "run"]

# Restarts of each model on the public splits. Networks start at random, the rest hardly vary. All
# others are compared with the first.
MODELS = {
    "nodegp": 3,
    "GGP": 3,
    "GCN": 10,
    "APPNP": 10,
    "LP": 1,
    "Logistic": 1,
    "nodegp-X": 1,
    "GGP-X": 1,
}
SETTINGS = {"per_class": 20, "val": 500}
CUT = {"epochs": 20}  # of networks, in the quick version
SPLITS, SPLITS_MORE_LABELS = 100, 10  # hundreds of labels take seconds to minutes a fit
PER_CLASS = (1, 3, 5, 10)
DRAWS = 20
_SECONDS = {"cora": 5.0, "citeseer": 10.0, "pubmed": 5.0}  # with the validation labels
_APPNP_SECONDS = {"cora": 5.0, "citeseer": 8.0, "pubmed": 60.0}


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = load(spec.dataset, context.data_dir)
    nodes: Any = data.splits
    if spec.task != PUBLIC.name:
        sizes = spec.settings
        nodes = random_split(data, sizes["per_class"], spec.seed, n_val=sizes["val"])
    return assessed(spec.model, data, nodes, spec.seed, spec.settings.get("epochs"))


def fit_seconds(spec: Spec) -> float:
    """A first guess."""
    if trains_on_validation(spec.model):
        return _SECONDS[spec.dataset]
    return _APPNP_SECONDS[spec.dataset] if spec.model == "APPNP" else 0.5


def _models(selection: Selection) -> list[str]:
    return [model for model in MODELS if model in selection.models]


def random_specs(selection: Selection) -> list[Spec]:
    """Twenty labels per class, and five hundred validation labels for those who want them."""
    settings = {"per_class": 5, "val": 50} | CUT if selection.quick else SETTINGS
    return [
        Spec("random splits", dataset, model, "", seed, settings)
        for dataset in selection.datasets
        for model in _models(selection)
        for seed in selection.seeds_of(
            SPLITS_MORE_LABELS if trains_on_validation(model) else SPLITS, 2
        )
    ]


def few_specs(selection: Selection) -> list[Spec]:
    """A few labels per class, and no others: whoever has so few has none to spare."""
    cut = CUT if selection.quick else {}
    return [
        Spec("few labels, beyond", dataset, model, "", seed, {"per_class": n, "val": 0} | cut)
        for dataset in selection.datasets
        for model in _models(selection)
        if not trains_on_validation(model)
        for n in ((1, 3) if selection.quick else PER_CLASS)
        for seed in selection.seeds_of(DRAWS, 2)
    ]


def public_specs(selection: Selection) -> list[Spec]:
    return [
        Spec("public splits", dataset, model, "", seed, CUT if selection.quick else {})
        for dataset in selection.datasets
        for model in _models(selection)
        if not (selection.quick and trains_on_validation(model))
        for seed in range(
            1 if selection.quick or MODELS[model] == 1 else selection.seeds or MODELS[model]
        )
    ]


RANDOM = Task("random splits", random_specs, run, fit_seconds)
FEW = Task("few labels, beyond", few_specs, run, fit_seconds)
PUBLIC = Task("public splits", public_specs, run, fit_seconds)
