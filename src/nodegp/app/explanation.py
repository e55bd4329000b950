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
    shown: dict[str, np.ndarray],
    node: int,
    for_class: Any = None,
    n: int = 8,
) -> dict[str, Any]:
    """Why a node has the probability of a class, by default the likeliest, that it has.

    The class's latent mean, its score, is the sum of all labels' shares and what is common to
    them; it is also the sum of all neighbours' shares and what holds anywhere. ``ids``, ``labels``
    and what is ``shown`` have an entry per node.

    Returns
    -------
    dict
        ``node``, ``shown``, ``class``, ``probability`` and ``latent_mean``; ``labels``, the ``n``
        of the class that speak most for it, of ``n_labels`` in all, ``other_labels``, the sum of
        all the others' shares, and ``common``; ``against``, the ``n`` labels of other classes that
        speak most for theirs, each with its share in the score of its own class; ``neighbours``,
        the ``n`` largest shares, of ``n_neighbours``, ``other_neighbours`` and ``anywhere``;
        ``by_neighbour``, False where the ``filter`` mixes neighbours before the model sees them;
        ``linked``, up to ``n`` nodes that an edge leads to; and ``rival``, the likeliest of the
        other classes: class, probability and score. Rows have the ``id``, ``label``, ``shown`` and
        ``share`` of a node; neighbours also what is ``predicted``, and whether it is the node
        ``itself``.
    """
    parts = model.explain(node)
    proba = model.predict_proba(nodes=[node])[0]
    c = _class(model.classes_, for_class, proba)
    scores, one_latent = parts.latent_mean, len(parts.latent_mean) == 1
    # One latent for two classes speaks for the second.
    sign, latent = ((1.0 if c == 1 else -1.0), 0) if one_latent else (1.0, c)
    by_label, targets = sign * parts.from_labels[:, latent], model.model_.targets
    if one_latent:
        for_own = parts.from_labels[:, 0] * np.where(targets == 1, 1.0, -1.0)
    else:
        for_own = parts.from_labels[np.arange(len(targets)), targets]
    from_neighbours = sign * parts.from_neighbours[:, latent]

    def rows(nodes: np.ndarray, shares: np.ndarray, order: np.ndarray) -> list[dict[str, Any]]:
        chosen = nodes[order[:n]]
        guesses = model.predict(nodes=chosen)
        return [
            {
                "id": ids[i],
                "label": labels[i],
                "shown": {name: values[i] for name, values in shown.items()},
                "share": shares[at],
                "predicted": guess,
                "itself": bool(i == node),
            }
            for at, i, guess in zip(order[:n], chosen, guesses, strict=True)
        ]

    own, other = (_largest(for_own, mask) for mask in (targets == c, targets != c))
    near = abs(from_neighbours).argsort()[::-1]
    edges = model.graph_.adjacency[[node]]
    rival = next((i for i in (-proba).argsort()[:2] if i != c), None)
    return {
        "node": ids[node],
        "shown": {name: values[node] for name, values in shown.items()},
        "class": model.classes_[c],
        "probability": proba[c],
        "latent_mean": sign * scores[latent],
        "labels": rows(parts.labelled, by_label, own),
        "n_labels": len(by_label),
        "other_labels": by_label.sum() - by_label[own[:n]].sum(),
        "common": sign * (parts.common + parts.rest)[latent],
        "against": rows(parts.labelled, for_own, other),
        "neighbours": rows(parts.neighbours, from_neighbours, near),
        "n_neighbours": len(near),
        "other_neighbours": from_neighbours[near[n:]].sum(),
        "anywhere": sign * parts.anywhere[latent],
        "by_neighbour": parts.neighbours.tolist() != [node],
        "filter": type(model.filter_).__name__,
        "linked": rows(edges.indices, edges.data, edges.data.argsort()[::-1]),
        "rival": None
        if rival is None
        else {
            "class": model.classes_[rival],
            "probability": proba[rival],
            "score": None if one_latent else scores[rival],
        },
    }


def _largest(shares: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Places of what speaks for something, the most first; what does not is left out."""
    places = np.flatnonzero(mask & (shares > 0))
    return places[shares[places].argsort()[::-1]]


def _class(classes: np.ndarray, name: Any, proba: np.ndarray) -> int:
    """The position of a class, by default the likeliest."""
    if name is None:
        return int(proba.argmax())
    names = [str(one) for one in classes]
    if str(name) not in names:
        raise ValueError(f"there is no class {name!r}; choose among {', '.join(names)}")
    return names.index(str(name))
