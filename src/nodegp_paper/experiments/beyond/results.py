"""Records by model and split, and what one model has over another on the same splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodegp_paper.experiments.beyond.models import reference, tempered_name
from nodegp_paper.experiments.store import Record, select

Metrics = dict[str, Any]
Found = dict[int, Metrics]  # by seed
Score = Callable[[Metrics], float]

_RESAMPLES = 2000


def by_model(records: list[Record], models: Sequence[str], **wanted: Any) -> dict[str, Found]:
    """What was found of each model that has runs; its tempered form, if it has one, comes next."""
    found: dict[str, Found] = {}
    for model in models:
        runs = select(records, model=model, **wanted)
        if runs:
            found[model] = {run.spec.seed: run.metrics for run in runs}
        cooled = {r.spec.seed: r.metrics["tempered"] for r in runs if "tempered" in r.metrics}
        if cooled:
            found[tempered_name(model)] = cooled
    return found


def values(found: Found, score: Score) -> list[float]:
    return [score(metrics) for metrics in found.values()]


def differences(found: dict[str, Found], model: str, score: Score) -> list[float]:
    """The model's score less that of ours, split by split; nothing for our model itself."""
    ours = found.get(reference(model), {})
    if model == reference(model):
        return []
    both = [seed for seed in found[model] if seed in ours]
    return [score(found[model][seed]) - score(ours[seed]) for seed in both]


def node_scores(found: Found) -> np.ndarray:
    """How often each test node was right, over the restarts."""
    return np.mean([[float(c) for c in metrics["right"]] for metrics in found.values()], axis=0)


def root_mean_with_interval(squares: Sequence[float]) -> tuple[float, float, float]:
    """Root of the mean, nothing below zero, and its 95 % interval by resampling the splits."""
    given = np.asarray(squares, dtype=float)
    drawn = np.random.default_rng(0).integers(len(given), size=(_RESAMPLES, len(given)))
    low, high = np.quantile(given[drawn].mean(axis=1), [0.025, 0.975])
    middle, low, high = np.sqrt(np.maximum([given.mean(), low, high], 0.0)).tolist()
    return middle, low, high
