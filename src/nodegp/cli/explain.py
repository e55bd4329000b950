"""`nodegp explain`: why a node was predicted as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodegp.cli import options, show

if TYPE_CHECKING:
    import numpy as np


def command(
    model: options.ModelFile,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's id.")],
    for_class: Annotated[
        str | None,
        typer.Option("--class", help="Explain this class; the predicted one by default."),
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="How many of each to list.")] = 8,
    as_json: options.AsJson = False,
) -> None:
    """Show which labels and which neighbours made a prediction.

    Shares are signed. Those of all labels add up to the latent mean of the class, with what the
    node has in common with all labelled nodes alike; so do those of all neighbours. A label of
    another class speaks for this one where the node is unlike it.
    """
    from nodegp.cli.modelfile import ModelFile

    file = ModelFile.read(model)
    position = file.position(node)
    found = file.model.explain(position)
    proba = file.model.predict_proba(nodes=[position])[0]
    c = _class(file.model, for_class, proba)
    one_latent = len(found.latent_mean) == 1
    # One latent for two classes speaks for the second.
    sign, latent = ((1.0 if c == 1 else -1.0), 0) if one_latent else (1.0, c)
    labels = sign * found.from_labels[:, latent]
    neighbours = sign * found.from_neighbours[:, latent]
    y, predicted = file.y(), file.model.predict(nodes=found.neighbours)
    result = {
        "node": file.ids[position],
        "class": file.model.classes_[c],
        "probability": proba[c],
        "latent_mean": sign * found.latent_mean[latent],
        "labels": [
            {"id": file.ids[n], "label": y[n], "share": share}
            for n, share in _largest(found.labelled, labels, count)
        ],
        "other_labels": _others(labels, count),
        "labels_by_class": {
            str(name): labels[file.model.labels_ == name].sum() for name in file.model.classes_
        },
        "common": sign * (found.common + found.rest)[latent],
        "neighbours": [
            {"id": file.ids[n], "label": y[n], "share": share}
            for n, share in _largest(found.neighbours, neighbours, count)
        ],
        "other_neighbours": _others(neighbours, count),
    }
    if as_json:
        show.as_json(result)
        return
    guess = dict(zip(found.neighbours.tolist(), predicted, strict=True))
    facts = [
        ("node", str(result["node"])),
        ("class", f"{result['class']} (probability {result['probability']:.3f})"),
        ("latent mean", f"{result['latent_mean']:+.3f}"),
    ]
    show.facts(facts)
    rows = [[str(r["id"]), str(r["label"]), f"{r['share']:+.3f}"] for r in result["labels"]]
    others = len(labels) - len(rows)
    rows += [[f"{others:,} others", "", f"{result['other_labels']:+.3f}"]] if others else []
    rows.append(["all alike", "", f"{result['common']:+.3f}"])
    show.grid(["labelled node", "label", "share"], rows)
    totals = sorted(result["labels_by_class"].items(), key=lambda item: -item[1])
    show.grid(["labels of class", "share"], [[name, f"{share:+.3f}"] for name, share in totals])
    rows = []
    for n, share in _largest(found.neighbours, neighbours, count):
        name = f"{file.ids[n]} (itself)" if n == position else str(file.ids[n])
        rows.append([name, str(y[n] if y[n] is not None else ""), str(guess[n]), f"{share:+.3f}"])
    others = len(neighbours) - len(rows)
    rows += [[f"{others:,} others", "", "", f"{result['other_neighbours']:+.3f}"]] if others else []
    show.grid(["neighbour", "label", "predicted", "share"], rows)


def _class(model: Any, wanted: str | None, proba: np.ndarray) -> int:
    if wanted is None:
        return int(proba.argmax())
    names = [str(name) for name in model.classes_]
    if wanted not in names:
        raise ValueError(f"there is no class {wanted!r}; choose among {', '.join(names)}")
    return names.index(wanted)


def _largest(nodes: np.ndarray, shares: np.ndarray, count: int) -> list[tuple[int, float]]:
    order = abs(shares).argsort()[::-1][:count]
    return [(int(nodes[i]), float(shares[i])) for i in order]


def _others(shares: np.ndarray, count: int) -> float:
    """The sum of those that are not among the largest."""
    return float(shares[abs(shares).argsort()[::-1][count:]].sum())
