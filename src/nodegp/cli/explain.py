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

    Every class has a score, and the highest wins. The score is taken apart twice, and both parts
    add up to it: + speaks for the class, - against it.

    By label: how much more the node is like each labelled node than like labelled nodes on
    average. A label of the class itself is + where the node is like it; a label of another class
    is + where the node is unlike it. What is the same for all labelled nodes is a line of its own.

    By neighbour: what each adds to the mean over the neighbourhood. A filter of features, such as
    PageRank, mixes neighbours before the model looks at them; then there is no such part.
    """
    from nodegp.cli.modelfile import ModelFile
    from nodegp.io.tables import amount

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
    name, total = str(result["class"]), ["sum", "", _signed(result["latent_mean"])]
    show.facts(_facts(result, file.model.classes_, proba, found.latent_mean))
    rows = [[str(r["id"]), str(r["label"]), _signed(r["share"])] for r in result["labels"]]
    if len(labels) > len(rows):
        others = amount(len(labels) - len(rows), "other label")
        rows.append([others, "", _signed(result["other_labels"])])
    rows.append(["in common with all of them", "", _signed(result["common"])])
    title = f"The score by label: + speaks for {name}, - against it"
    show.grid(["labelled node", "label", "share"], [*rows, total], title)
    totals = sorted(result["labels_by_class"].items(), key=lambda item: -item[1])
    title = f"The same by class: a label of another class is + where {result['node']} is unlike it"
    show.grid(["labels", "share"], [[c, _signed(share)] for c, share in totals], title)
    if found.neighbours.tolist() == [position]:
        filter_name = type(file.model.filter_).__name__
        print(f"No neighbour has a share of its own here (the filter is {filter_name}).")
        return
    rows = []
    for n, share in _largest(found.neighbours, neighbours, count):
        itself = f"{file.ids[n]} (itself)" if n == position else str(file.ids[n])
        known = "" if y[n] is None else str(y[n])
        rows.append([itself, known, str(guess[n]), _signed(share)])
    if len(neighbours) > len(rows):
        others = amount(len(neighbours) - len(rows), "other")
        rows.append([others, "", "", _signed(result["other_neighbours"])])
    total.insert(1, "")
    title = f"The score by neighbour: + speaks for {name}, - against it"
    show.grid(["neighbour", "label", "predicted", "share"], [*rows, total], title)


def _facts(
    result: dict[str, Any], classes: np.ndarray, proba: np.ndarray, scores: np.ndarray
) -> list[tuple[str, str]]:
    """The node, the class that is explained, and its likeliest rival."""
    rows = [
        ("node", str(result["node"])),
        ("class", f"{result['class']}, probability {result['probability']:.3f}"),
        ("score", _signed(result["latent_mean"])),
    ]
    for c in (-proba).argsort().tolist():
        if classes[c] != result["class"]:
            score = f", score {_signed(scores[c])}" if len(scores) > 1 else ""
            return [*rows, ("rival", f"{classes[c]}, probability {proba[c]:.3f}{score}")]
    return rows


def _signed(share: float) -> str:
    return f"{share:+.3f}"


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
