"""Who is compared, with which labels, and what is measured of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from nodegp import metrics
from nodegp.datasets import Dataset, load_dataset
from nodegp.estimators import GraphGPClassifier
from nodegp.model.calibration import tempered
from nodegp_paper.experiments.models import ggp, reliability, scores
from nodegp_paper.experiments.runner import plain

COVERAGE = 0.9
QUICK = {"epochs": 20}  # of networks, to try things out
Nodes = Mapping[str, np.ndarray]  # "train", "test" and perhaps "val"


@dataclass(frozen=True)
class Row:
    """A model of the tables."""

    name: str
    baseline: str = ""  # name in nodegp_paper.baselines.REGISTRY; of a Gaussian process, none
    more_labels: bool = False  # whether it trains on the validation labels too
    restarts: int = 1  # on the public split

    @property
    def uses_validation(self) -> bool:
        """Whether validation labels, where there are any, decide when its training stops."""
        return bool(self.baseline) and _registry()[self.baseline].uses_validation


# The first is what all others are compared with. Networks start at random, the rest hardly vary.
ROWS = {
    row.name: row
    for row in (
        Row("nodegp", restarts=3),
        Row("GGP", restarts=3),
        Row("GCN", "gcn", restarts=10),
        Row("APPNP", "appnp", restarts=10),
        Row("LP", "lp"),
        Row("Logistic", "logistic"),
        Row("nodegp-X", more_labels=True),
        Row("GGP-X", more_labels=True),
    )
}
MODELS = tuple(ROWS)


def reference(model: str) -> str:
    """The model of ours that has the same labels to train on."""
    return "nodegp-X" if model.endswith("-X") else "nodegp"


def tempered_name(model: str) -> str:
    return f"{model}, temperature"


@lru_cache(maxsize=3)
def load(dataset: str, data_dir: str | None) -> Dataset:
    """A data set, read once in each process."""
    return load_dataset(dataset, data_dir)


def fitted(row: Row, data: Dataset, nodes: Nodes, seed: int, epochs: int | None = None) -> Any:
    """The model, fitted to the labels that are its own to use; a network in so many epochs."""
    train = nodes["train"]
    if row.more_labels:
        train = np.concatenate([train, nodes["val"]])
    y = _labels_at(data, train)
    if row.baseline:
        settings = {}
        if row.uses_validation and "val" in nodes:
            settings["y_val"] = _labels_at(data, nodes["val"])
        model = _registry()[row.baseline](random_state=seed)
        if epochs is not None and row.uses_validation:
            limits = {"epochs", "fixed_epochs"} & set(model.get_params())
            model.set_params(**dict.fromkeys(limits, epochs))
        return model.fit(data.graph, y, **settings)
    if row.name.startswith("GGP"):
        return ggp({}, data.name, len(train), seed, None).fit(data.graph, y)
    return GraphGPClassifier(random_state=seed).fit(data.graph, y)


def assessed(
    row: Row, data: Dataset, nodes: Nodes, seed: int, epochs: int | None = None
) -> dict[str, Any]:
    """Fit, and score on the test nodes."""
    model = fitted(row, data, nodes, seed, epochs)
    test = nodes["test"]
    y, proba = data.y[test], model.predict_proba(data.graph, test)
    found = _scores(y, proba)
    if row.uses_validation and "val" in nodes:
        # What the same labels could do for a network's probabilities as well.
        held_out = model.predict_proba(data.graph, nodes["val"])
        found["temperature"] = fitted_temperature(held_out, data.y[nodes["val"]])
        found["tempered"] = _scores(y, tempered(proba, found["temperature"]))
    if not row.baseline:
        sets = model.predict_set(data.graph, test, coverage=COVERAGE)
        found["coverage"] = float(sets[np.arange(len(y)), y].mean())
        found["set_size"] = float(sets.sum(axis=1).mean())
    found["right"] = "".join("01"[int(hit)] for hit in proba.argmax(axis=1) == y)
    result: dict[str, Any] = plain(found)
    return result


def fitted_temperature(proba: np.ndarray, y: np.ndarray) -> float:
    """The temperature with the least log loss on validation labels: Guo et al. (2017)."""

    def loss(log_temperature: float) -> float:
        return metrics.log_loss(y, tempered(proba, float(np.exp(log_temperature))))

    found = minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded")
    return float(np.exp(found.x))


def _scores(y: np.ndarray, proba: np.ndarray) -> dict[str, Any]:
    return scores(y, proba) | {
        "debiased_calibration_error": metrics.debiased_calibration_error(y, proba),
        "reliability": reliability(y, proba),
    }


def _labels_at(data: Dataset, nodes: np.ndarray) -> np.ndarray:
    y = np.full(data.graph.n_nodes, -1)
    y[nodes] = data.y[nodes]
    return y


def _registry() -> Any:
    from nodegp_paper.baselines import REGISTRY

    return REGISTRY
