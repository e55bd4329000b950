"""What answers have changed, and whether it is worth asking on."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodegp.active import advice, strategies, suggest
from nodegp.app.frontend import Progress
from nodegp.estimators import GraphGPClassifier

__all__ = ["outlook"]

_LOOK_AHEAD = 5_000  # nodes of a graph for which looking ahead takes seconds


def outlook(
    model: GraphGPClassifier,
    labels: np.ndarray,
    earlier: np.ndarray,
    classes: np.ndarray,
    n_answers: int,
    progress: Progress,
) -> dict[str, Any]:
    """How much the predictions of unlabelled nodes changed, if there are any.

    ``earlier`` are the probabilities before so many answers, (nodes, classes); ``labels`` are those
    of the model now, None at nodes without.
    """
    graph = model.graph_
    rest = np.setdiff1d(np.arange(graph.n_nodes), model.labelled_)
    if not len(rest):
        return dict.fromkeys(("changed", "moved", "stop", "expected_gain", "advice"))
    before = np.zeros((len(rest), len(model.classes_)))
    before[:, np.searchsorted(model.classes_, classes)] = earlier[rest]
    gain = None
    if graph.n_nodes <= _LOOK_AHEAD and "eer" in strategies():
        with progress.stage("looking ahead"):
            choice = suggest(graph, 1, "eer", y=labels, unlabelled=None)
        gain = float(choice.scores[0]) if len(choice.scores) and not choice.note else None
    after = model.predict_proba(nodes=rest)
    result = advice([before, after], gain=gain, labels_per_round=n_answers)
    numbers = {name: getattr(result, name) for name in ("changed", "moved", "stop")}
    return numbers | {"expected_gain": result.gain, "advice": result.text}
