"""One node's prediction taken apart, under the names that its user knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodegp.estimators import GraphGPClassifier

__all__ = ["explain"]


def explain(
    model: GraphGPClassifier,
    ids: np.ndarray,
    labels: np.ndarray,
    node: int,
    for_class: Any = None,
    n: int = 8,
) -> dict[str, Any]:
    """Why a node has the probability of a class, by default the likeliest, that it has.

    The class's latent mean, its score, is the sum of all labels' shares and what is common to
    them; it is also the sum of all neighbours' shares. ``ids`` and ``labels`` have an entry per
    node.

    Returns
    -------
    dict
        ``node``, ``class``, ``probability`` and ``latent_mean``; ``labels`` and ``neighbours``, the
        ``n`` largest shares of each kind, of which there are ``n_labels`` and ``n_neighbours``;
        ``other_labels`` and ``other_neighbours``, the sums of the rest; ``labels_by_class``;
        ``common``; ``by_neighbour``, False where the ``filter`` mixes neighbours before the model
        sees them; and ``rival``, the likeliest of the other classes: class, probability and score.
        A share has the ``id``, ``label`` and ``share`` of a node, for neighbours what is
        ``predicted``, and whether it is the node ``itself``.
    """
    parts = model.explain(node)
    proba = model.predict_proba(nodes=[node])[0]
    c = _class(model.classes_, for_class, proba)
    scores = parts.latent_mean
    one_latent = len(scores) == 1
    # One latent for two classes speaks for the second.
    sign, latent = ((1.0 if c == 1 else -1.0), 0) if one_latent else (1.0, c)
    by_label = sign * parts.from_labels[:, latent]
    guesses = dict(
        zip(parts.neighbours.tolist(), model.predict(nodes=parts.neighbours), strict=True)
    )

    def largest(kind: str, nodes: np.ndarray, shares: np.ndarray) -> dict[str, Any]:
        order = abs(shares).argsort()[::-1]
        rows = [
            {
                "id": ids[i],
                "label": labels[i],
                "share": shares[at],
                "predicted": guesses.get(int(i)),
                "itself": bool(i == node),
            }
            for at, i in zip(order[:n], nodes[order[:n]], strict=True)
        ]
        return {kind: rows, f"other_{kind}": shares[order[n:]].sum(), f"n_{kind}": len(shares)}

    rival = next((i for i in (-proba).argsort()[:2] if i != c), None)
    return {
        "node": ids[node],
        "class": model.classes_[c],
        "probability": proba[c],
        "latent_mean": sign * scores[latent],
        **largest("labels", parts.labelled, by_label),
        "labels_by_class": {
            str(name): by_label[model.labels_ == name].sum() for name in model.classes_
        },
        "common": sign * (parts.common + parts.rest)[latent],
        **largest("neighbours", parts.neighbours, sign * parts.from_neighbours[:, latent]),
        "by_neighbour": parts.neighbours.tolist() != [node],
        "filter": type(model.filter_).__name__,
        "rival": None
        if rival is None
        else {
            "class": model.classes_[rival],
            "probability": proba[rival],
            "score": None if one_latent else scores[rival],
        },
    }


def _class(classes: np.ndarray, name: Any, proba: np.ndarray) -> int:
    """The position of a class, by default the likeliest."""
    if name is None:
        return int(proba.argmax())
    names = [str(one) for one in classes]
    if str(name) not in names:
        raise ValueError(f"there is no class {name!r}; choose among {', '.join(names)}")
    return names.index(str(name))
