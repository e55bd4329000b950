"""Whether more labels are still worth asking for: advice, never a decision.

Predictions that have stopped changing from round to round are the sign that more labels of the
same kind will change little (stabilising predictions, Bloodgood and Vijay-Shanker 2009). It needs
no labels to test on; it cannot see an error that all rounds share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nodegp.graph import Graph

__all__ = ["CHANGED_BELOW", "MOVED_BELOW", "Advice", "advice"]

# Measured on Cora's largest component, in rounds of ten labels and three runs each: sopt falls
# below both at 260 labels and random choice at 220 to 280. Ten more labels then raise the accuracy
# by 0.1 to 0.15 points; between 50 and 150 labels they raised it by 0.5 (sopt) and 0.9 (random).
CHANGED_BELOW = 0.02
MOVED_BELOW = 0.02
_LABELS_PER_ROUND = 10


@dataclass(frozen=True)
class Advice:
    """How much the last rounds changed the predictions, and the expected gain of one more label."""

    rounds: int  # how many of the last rounds this is about
    changed: float  # share of nodes whose predicted class changed, mean over these rounds
    moved: float  # mean total variation between a node's probabilities before and after a round
    error: float  # share of wrong predictions that the last model itself expects
    gain: float | None  # share by which the next label is expected to lower the wrong ones
    stop: bool  # predictions have stopped changing

    @property
    def text(self) -> str:
        """The advice in words."""
        last = "the last round" if self.rounds == 1 else f"each of the last {self.rounds} rounds"
        outlook = "of this kind will change little" if self.stop else "still make a difference"
        gain = ""
        if self.gain is not None:
            lower = _percent(self.gain)
            gain = f"; one more label is expected to correct {lower} of all predictions"
        return (
            f"In {last}, {_percent(self.changed)} of the predictions changed and probabilities "
            f"moved by {_percent(self.moved)} on average: more labels {outlook}. The model expects "
            f"{_percent(self.error)} of its predictions to be wrong{gain}."
        )


def advice(
    history: Sequence[Any],
    graph: Graph | None = None,
    nodes: Any = None,
    *,
    gain: float | None = None,
    rounds: int = 3,
    labels_per_round: float | None = None,
    changed_below: float = CHANGED_BELOW,
    moved_below: float = MOVED_BELOW,
) -> Advice:
    """Compare the predictions after the last rounds.

    Parameters
    ----------
    history : at least two fitted models, or probability matrices (nodes, classes), in order
        One per round.
    graph : Graph
        What the models predict on.
    nodes : node numbers or mask, optional
        The nodes to compare; all by default. The unlabelled ones are most informative.
    gain : float, optional
        The expected decrease of the number of wrong nodes by one more label: the score of strategy
        eer (which is about label propagation, not about the model).
    rounds : int
        How many of the last rounds to average over, if there are that many.
    labels_per_round : float, optional
        Labels per round; by default counted on the models' ``labelled_``, or ten without it.
    changed_below, moved_below : float
        Predictions have stabilised when both ``changed`` and ``moved``, scaled to ten labels, are
        below these.
    """
    if len(history) < 2:
        raise ValueError(f"advice compares at least two rounds, got {len(history)}")
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    matrices = _aligned(history[-rounds - 1 :], graph, nodes)
    changes = list(pairwise(matrices))
    changed = np.mean([(a.argmax(axis=1) != b.argmax(axis=1)).mean() for a, b in changes])
    moved = np.mean([0.5 * np.abs(a - b).sum(axis=1).mean() for a, b in changes])
    if labels_per_round is None:
        labels_per_round = _labels_per_round(history[-rounds - 1 :])
    together = max(_LABELS_PER_ROUND / max(labels_per_round, 1.0), 1.0)
    return Advice(
        rounds=len(changes),
        changed=float(changed),
        moved=float(moved),
        error=float(1.0 - matrices[-1].max(axis=1).mean()),
        gain=None if gain is None else float(gain) / len(matrices[-1]),
        stop=bool(together * changed < changed_below and together * moved < moved_below),
    )


def _aligned(history: Sequence[Any], graph: Graph | None, nodes: Any) -> list[np.ndarray]:
    """Probability matrices of one shape; a class that an earlier model did not know has none."""
    if not hasattr(history[-1], "predict_proba"):
        matrices = [np.asarray(matrix, dtype=np.float64) for matrix in history]
        shapes = {matrix.shape for matrix in matrices}
        if len(shapes) > 1 or matrices[0].ndim != 2 or not matrices[0].size:
            raise ValueError(
                f"advice needs probability matrices of one shape (nodes, classes), got "
                f"{sorted(shapes)}"
            )
        return matrices
    if graph is None:
        raise ValueError("advice needs the graph that the models predict on: pass graph=")
    classes = np.unique(np.concatenate([model.classes_ for model in history]))
    matrices = []
    for model in history:
        proba = model.predict_proba(graph, nodes)
        matrix = np.zeros((len(proba), len(classes)))
        matrix[:, np.searchsorted(classes, model.classes_)] = proba
        matrices.append(matrix)
    if not matrices[-1].size:
        raise ValueError("advice needs at least one node to compare predictions on")
    return matrices


def _labels_per_round(history: Sequence[Any]) -> float:
    if not all(hasattr(model, "labelled_") for model in history):
        return _LABELS_PER_ROUND
    counts = [len(model.labelled_) for model in history]
    return (counts[-1] - counts[0]) / (len(counts) - 1)


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g}%"
