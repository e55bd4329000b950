"""Scoring as users of scikit-learn expect it of any estimator, ours and the baselines' alike."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from nodegp.graph import Graph
from nodegp.interchange import as_graph, node_labels
from nodegp.labels import as_labels, is_labelled

__all__ = ["check_scored", "labelled_accuracy", "scored"]


def labelled_accuracy(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """A classifier's accuracy over the nodes that have a label in ``y``."""
    X, y = scored(model, X, y)
    y = column_or_1d(as_labels(y), dtype=None)
    labelled = np.flatnonzero(is_labelled(y, model.unlabelled))
    check_scored(labelled, y, X)
    fitted = set(model.classes_.tolist())
    unknown = [v for v in dict.fromkeys(y[labelled].tolist()) if v not in fitted]
    if unknown:
        warnings.warn(
            f"classes {unknown[:5]} were not among the labels fitted on; "
            "their nodes count as wrong",
            stacklevel=3,
        )
    weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
    return float(np.average(model.predict(X, labelled) == y[labelled], weights=weight))


def scored(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """What to score on: objects of other libraries as a Graph and its labels.

    Labels that X holds itself are those for training, so without any y there are none.
    """
    if y is None:
        raise ValueError("y is None; give the labels to score against")
    return as_graph(X), node_labels(X, y)


def check_scored(labelled: np.ndarray, y: np.ndarray, X: Any) -> None:
    n_nodes = X.n_nodes if isinstance(X, Graph) else None if X is None else np.shape(X)[0]
    if n_nodes is not None and len(y) != n_nodes:
        raise ValueError(f"y has {len(y)} entries for {n_nodes} nodes")
    if not len(labelled):
        raise ValueError("y has no labels to score against")
