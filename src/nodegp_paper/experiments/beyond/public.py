"""The public splits, to report: nothing is chosen by them."""

from __future__ import annotations

from typing import Any

from nodegp_paper.experiments.beyond.models import QUICK, ROWS, assessed, load
from nodegp_paper.experiments.runner import Context
from nodegp_paper.experiments.spec import Spec

TASK = "public splits"


def specs(
    datasets: tuple[str, ...], models: tuple[str, ...], seeds: int | None, quick: bool
) -> list[Spec]:
    return [
        Spec(TASK, dataset, name, "", seed, QUICK if quick else {})
        for dataset in datasets
        for name in models
        if not (quick and ROWS[name].more_labels)
        for seed in range(_restarts(name, seeds, quick))
    ]


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data = load(spec.dataset, context.data_dir)
    return assessed(ROWS[spec.model], data, data.splits, spec.seed, spec.settings.get("epochs"))


def _restarts(name: str, seeds: int | None, quick: bool) -> int:
    restarts = ROWS[name].restarts
    if restarts == 1 or quick:
        return 1
    return seeds or restarts
