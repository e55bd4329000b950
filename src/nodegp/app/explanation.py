"""One node's prediction taken apart, under the names that its user knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nodegp.app.results import Result
from nodegp.estimators import GraphGPClassifier

__all__ = ["NodeExplanation", "Share", "explain"]


@dataclass(frozen=True)
class Share(Result):
    """What one labelled node, or one neighbour, adds to a node's score."""

    id: Any
    label: Any
    share: float
    predicted: Any  # of neighbours only
    itself: bool  # the node that is explained
    aside = ("predicted", "itself")


@dataclass(frozen=True, eq=False)
class NodeExplanation(Result):
    """Why a node has the probability of a class that it has.

    The score (the class's latent mean) is the sum of all labels' shares and what is common to
    them; it is also the sum of all neighbours' shares.
    """

    node: Any
    class_: Any
    probability: float
    latent_mean: float
    labels: list[Share]  # the largest
    other_labels: float  # the sum of the rest
    labels_by_class: dict[str, float]
    common: float
    neighbours: list[Share]
    other_neighbours: float
    n_labels: int
    n_neighbours: int
    by_neighbour: bool  # False where the filter mixes them before the model sees them
    filter: str
    rival: dict[str, Any] | None  # likeliest of the others: class, probability and score
    aside = ("n_labels", "n_neighbours", "by_neighbour", "filter", "rival")


def explain(
    model: GraphGPClassifier,
    ids: np.ndarray,
    labels: np.ndarray,
    node: int,
    for_class: Any = None,
    n: int = 8,
) -> NodeExplanation:
    """Explain the probability of a class, by default the likeliest, with the ``n`` largest shares
    of each kind. ``ids`` and ``labels`` have an entry per node."""
    parts = model.explain(node)
    proba = model.predict_proba(nodes=[node])[0]
    c = _class(model.classes_, for_class, proba)
    scores = parts.latent_mean
    one_latent = len(scores) == 1
    # One latent for two classes speaks for the second.
    sign, latent = ((1.0 if c == 1 else -1.0), 0) if one_latent else (1.0, c)
    by_label = sign * parts.from_labels[:, latent]
    by_neighbour = sign * parts.from_neighbours[:, latent]
    guesses = dict(
        zip(parts.neighbours.tolist(), model.predict(nodes=parts.neighbours), strict=True)
    )

    def largest(nodes: np.ndarray, shares: np.ndarray) -> tuple[list[Share], float]:
        order = abs(shares).argsort()[::-1]
        rows = [
            Share(ids[i], labels[i], float(share), guesses.get(int(i)), bool(i == node))
            for i, share in zip(nodes[order[:n]], shares[order[:n]], strict=True)
        ]
        return rows, float(shares[order[n:]].sum())

    label_rows, other_labels = largest(parts.labelled, by_label)
    neighbour_rows, other_neighbours = largest(parts.neighbours, by_neighbour)
    rival = None
    for i in (-proba).argsort()[:2]:
        if i != c and rival is None:
            score = None if one_latent else scores[i]
            rival = {"class": model.classes_[i], "probability": proba[i], "score": score}
    return NodeExplanation(
        node=ids[node],
        class_=model.classes_[c],
        probability=proba[c],
        latent_mean=sign * scores[latent],
        labels=label_rows,
        other_labels=other_labels,
        labels_by_class={
            str(name): by_label[model.labels_ == name].sum() for name in model.classes_
        },
        common=sign * (parts.common + parts.rest)[latent],
        neighbours=neighbour_rows,
        other_neighbours=other_neighbours,
        n_labels=len(by_label),
        n_neighbours=len(by_neighbour),
        by_neighbour=parts.neighbours.tolist() != [node],
        filter=type(model.filter_).__name__,
        rival=rival,
    )


def _class(classes: np.ndarray, name: Any, proba: np.ndarray) -> int:
    """The position of a class, by default the likeliest."""
    if name is None:
        return int(proba.argmax())
    names = [str(one) for one in classes]
    if str(name) not in names:
        raise ValueError(f"there is no class {name!r}; choose among {', '.join(names)}")
    return names.index(str(name))
