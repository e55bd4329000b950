"""Random splits: twenty labels per class, and fewer. The same nodes for every model.

All nodes are from outside the public test set, so that these splits may be used to choose.
"""

from __future__ import annotations

from typing import Any

from nodegp_paper.experiments.beyond.models import QUICK, ROWS, assessed, load
from nodegp_paper.experiments.runner import Context
from nodegp_paper.experiments.spec import Spec

TASK = "random splits"
SPLITS, SPLITS_MORE_LABELS = 100, 10  # hundreds of labels take seconds to minutes a fit
SETTINGS = {"per_class": 20, "val": 500}

FEW_TASK = "few labels, beyond"
FEW = (1, 3, 5, 10)
DRAWS = 20


def specs(
    datasets: tuple[str, ...], models: tuple[str, ...], seeds: int | None, quick: bool
) -> list[Spec]:
    """Twenty labels per class, and five hundred validation labels for those who want them."""
    settings = {"per_class": 5, "val": 50} | QUICK if quick else SETTINGS
    return [
        Spec(TASK, dataset, name, "", seed, settings)
        for dataset in datasets
        for name in models
        for seed in range(seeds or _count(name, quick))
    ]


def few_specs(
    datasets: tuple[str, ...], models: tuple[str, ...], seeds: int | None, quick: bool
) -> list[Spec]:
    """A few labels per class, and no others: whoever has so few has none to spare."""
    cut = QUICK if quick else {}
    return [
        Spec(FEW_TASK, dataset, name, "", seed, {"per_class": per_class, "val": 0} | cut)
        for dataset in datasets
        for name in models
        if not ROWS[name].more_labels
        for per_class in ((1, 3) if quick else FEW)
        for seed in range(seeds or (2 if quick else DRAWS))
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = load(spec.dataset, context.data_dir)
    nodes = data.random_split(spec.settings["per_class"], spec.seed, n_val=spec.settings["val"])
    epochs = spec.settings.get("epochs")
    return assessed(ROWS[spec.model], data, nodes, spec.seed, epochs)


def _count(name: str, quick: bool) -> int:
    if quick:
        return 2
    return SPLITS_MORE_LABELS if ROWS[name].more_labels else SPLITS
