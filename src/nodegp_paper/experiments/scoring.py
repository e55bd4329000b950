"""What is measured of a model: accuracy, and how far its probabilities can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from nodegp import metrics
from nodegp.datasets import Dataset
from nodegp.model.calibration import tempered
from nodegp_paper.experiments.models import Nodes, fitted, is_baseline, uses_validation
from nodegp_paper.experiments.store import plain
from nodegp_paper.metrics import debiased_calibration_error

__all__ = ["COVERAGE", "assessed", "curves_of", "fitted_temperature", "reliability", "scores"]

COVERAGE = 0.9
_CURVES = ("accuracy", "log_loss", "calibration_error")


def scores(y: np.ndarray, proba: np.ndarray) -> dict[str, Any]:
    """Accuracy, and how good the probabilities are."""
    return {
        "accuracy": metrics.accuracy(y, proba),
        "log_loss": metrics.log_loss(y, proba),
        "brier": metrics.brier(y, proba),
        "calibration_error": metrics.expected_calibration_error(y, proba),
        "n_test": len(y),
    }


def curves_of(points: list[dict[str, Any]]) -> dict[str, Any]:
    """What :func:`scores` said one time after another: as curves, and at the end."""
    curves = {f"{name}_curve": [point[name] for point in points] for name in _CURVES}
    return curves | {name: points[-1][name] for name in _CURVES}


def reliability(y: np.ndarray, proba: np.ndarray) -> dict[str, Any]:
    """The points of a reliability diagram."""
    curve = metrics.reliability_curve(y, proba)
    return plain({"confidence": curve.confidence, "accuracy": curve.accuracy, "count": curve.count})


def assessed(
    name: str, data: Dataset, nodes: Nodes, seed: int, epochs: int | None = None
) -> dict[str, Any]:
    """Fit a model, and score it on the test nodes."""
    model = fitted(name, data, nodes, seed, epochs)
    test = nodes["test"]
    y, proba = data.y[test], model.predict_proba(data.graph, test)
    measured = _all_scores(y, proba)
    if uses_validation(name) and "val" in nodes:
        # What the same labels could do for a network's probabilities as well.
        held_out = model.predict_proba(data.graph, nodes["val"])
        measured["temperature"] = fitted_temperature(held_out, data.y[nodes["val"]])
        measured["tempered"] = _all_scores(y, tempered(proba, measured["temperature"]))
    if not is_baseline(name):
        sets = model.predict_set(data.graph, test, coverage=COVERAGE)
        measured["coverage"] = float(sets[np.arange(len(y)), y].mean())
        measured["set_size"] = float(sets.sum(axis=1).mean())
    measured["right"] = "".join("01"[int(hit)] for hit in proba.argmax(axis=1) == y)
    return plain(measured)


def fitted_temperature(proba: np.ndarray, y: np.ndarray) -> float:
    """The temperature with the least log loss on validation labels: Guo et al. (2017)."""

    def loss(log_temperature: float) -> float:
        return metrics.log_loss(y, tempered(proba, float(np.exp(log_temperature))))

    best = minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded")
    return float(np.exp(best.x))


def _all_scores(y: np.ndarray, proba: np.ndarray) -> dict[str, Any]:
    return scores(y, proba) | {
        "debiased_calibration_error": debiased_calibration_error(y, proba),
        "reliability": reliability(y, proba),
    }
