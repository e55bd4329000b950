"""Records as the rows of tables and the curves of figures: by model, data set and seed.

A difference between two models is one between runs of the same seed, and so on the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any

import numpy as np

from nodegp_paper.experiments.models import reference
from nodegp_paper.experiments.published import DATASETS
from nodegp_paper.experiments.spec import row_name
from nodegp_paper.experiments.store import Record, select

__all__ = [
    "Entry",
    "Score",
    "by_dataset",
    "by_size",
    "entries",
    "node_scores",
    "percent",
    "pooled_reliability",
    "root_mean_with_interval",
    "spread",
    "standard_error",
    "standard_errors",
    "tempered_name",
    "with_error",
]

Metrics = dict[str, Any]
Score = Callable[[Metrics], float]

_RESAMPLES = 2000


@dataclass(frozen=True)
class Entry:
    """The runs of one model, or of one engine of it, on one data set."""

    name: str
    dataset: str
    runs: list[Record]
    ours: Sequence[Record] = ()  # runs of the model that it is compared with

    def values(self, score: Score) -> list[float]:
        return [score(run.metrics) for run in self.runs]

    def differences(self, score: Score) -> list[float]:
        """This model's score less that of ours, seed by seed."""
        ours = {run.spec.seed: score(run.metrics) for run in self.ours}
        both = [run for run in self.runs if run.spec.seed in ours]
        return [score(run.metrics) - ours[run.spec.seed] for run in both]

    def of_size(self, per_class: int) -> Entry:
        """The part of it with this many labels per class."""
        runs, ours = (by_size(runs).get(per_class, []) for runs in (self.runs, self.ours))
        return replace(self, runs=runs, ours=ours)


def entries(
    records: list[Record],
    models: Sequence[str],
    compared_with: Callable[[str], str] = reference,
    datasets: Sequence[str] = DATASETS,
    **values: Any,
) -> Iterator[Entry]:
    """What there is of each model on each data set. A model whose probabilities were scaled by a
    temperature too is followed by that; our own has nothing to be compared with."""
    for dataset in datasets:
        runs = {model: select(records, model=model, dataset=dataset, **values) for model in models}
        for model in filter(runs.get, models):
            ours = compared_with(model)
            baseline = runs.get(ours, []) if model != ours else []
            yield Entry(model, dataset, runs[model], baseline)
            cooled = [
                replace(run, metrics=run.metrics["tempered"])
                for run in runs[model]
                if "tempered" in run.metrics
            ]
            if cooled:
                yield Entry(tempered_name(model), dataset, cooled, runs.get(ours, []))


def by_dataset(records: list[Record], task: str, model: str, engine: str) -> Iterator[Entry]:
    """What there is of one engine of a model on each data set."""
    for dataset in DATASETS:
        runs = select(records, task=task, dataset=dataset, model=model, engine=engine)
        if runs:
            yield Entry(row_name(model, engine), dataset, runs)


def by_size(runs: Sequence[Record]) -> dict[int, list[Record]]:
    """Runs by their labels per class."""
    sizes = sorted({run.spec.settings["per_class"] for run in runs})
    return {n: [run for run in runs if run.spec.settings["per_class"] == n] for n in sizes}


def tempered_name(model: str) -> str:
    return f"{model}, temperature"


def percent(metrics: Metrics) -> float:
    """Accuracy in per cent."""
    accuracy: float = 100 * metrics["accuracy"]
    return accuracy


# --- statistics -----------------------------------------------------------------------------------


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation; None of a single value."""
    return stdev(values) if len(values) > 1 else None


def standard_error(values: Sequence[float]) -> float | None:
    deviation = spread(values)
    return None if deviation is None else deviation / len(values) ** 0.5


def standard_errors(values: np.ndarray) -> np.ndarray:
    """Of each column's mean, for error bars: nothing of a single value."""
    n = len(values)
    return values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(values.shape[1:])


def with_error(values: Sequence[float], form: str = ".1f") -> str:
    """Mean and standard error in a cell; nothing of nothing."""
    if not values:
        return ""
    error = standard_error(values)
    text = format(mean(values), form)
    return text if error is None else f"{text} ± {format(error, form.lstrip('+'))}"


def node_scores(runs: Sequence[Record]) -> np.ndarray:
    """How often each test node was right, over the restarts."""
    return np.mean([[float(c) for c in run.metrics["right"]] for run in runs], axis=0)


def root_mean_with_interval(squares: Sequence[float]) -> tuple[float, float, float]:
    """Root of the mean, nothing below zero, and its 95 % interval by resampling the splits."""
    values = np.asarray(squares, dtype=float)
    drawn = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    middle, low, high = np.sqrt(np.maximum([values.mean(), low, high], 0.0)).tolist()
    return middle, low, high


def pooled_reliability(runs: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Confidence and accuracy of several runs together, bin by bin."""
    curves = [run.metrics["reliability"] for run in runs]
    count = np.array([curve["count"] for curve in curves], dtype=float)
    total = count.sum(axis=0)
    full = total >= 10
    means = []
    for name in ("confidence", "accuracy"):
        values = np.array([curve[name] for curve in curves], dtype=float)
        means.append(np.nansum(values * count, axis=0)[full] / total[full])
    return means[0], means[1]
