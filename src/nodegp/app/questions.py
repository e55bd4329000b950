"""Questions to an expert, and the answers: labels under a user's own names of nodes and classes, in
tables or as pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nodegp.active.acquisition import Choice
from nodegp.app.frontend import OptionError, plain
from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.io.ids import TEXT, Index, as_names

__all__ = [
    "Labels",
    "Questions",
    "as_pairs",
    "asked_about",
    "changes",
    "labels_around",
    "positions",
    "require_classes",
]

# A table of ids and labels (a file, or a dataframe), or pairs of them.
Labels = str | Path | Mapping[Any, Any] | Iterable[tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Questions:
    """The nodes to ask about next, a row for each: id, an empty label, what the model says now
    (if there is one), the node's degree and the score that it was chosen by."""

    strategy: str
    score: str  # what the scores mean
    ask: list[dict[str, Any]]
    columns: tuple[str, ...]
    note: str  # why another strategy chose, if one did

    def to_dict(self) -> dict[str, Any]:
        return plain({"strategy": self.strategy, "score": self.score, "ask": self.ask})

    def table(self) -> pa.Table:
        """To be filled in."""
        if not self.ask:
            raise ValueError("there is no node left to ask about, so no table was written")
        return pa.Table.from_pylist(self.ask)


def positions(names: Iterable[Any], ids: np.ndarray) -> np.ndarray:
    """Where nodes stand in the graph, by the names that a user calls them by."""
    names = [str(name) for name in names]
    places = Index(as_names(ids)).find(pa.array(names, TEXT))
    if (places < 0).any():
        examples = ", ".join(map(str, ids[:3]))
        raise ValueError(
            f"there is no node {names[np.argmax(places < 0)]!r}; ids look like {examples}"
        )
    return places.astype(np.intp)


def as_pairs(
    labels: Mapping[Any, Any] | Iterable[tuple[Any, Any]], classes: list[Any]
) -> dict[str, Any]:
    """Names of nodes with their labels; a number may be written as text where classes are numbers,
    and who has no answer says None or nothing."""
    by_name = {str(value): value for value in classes}
    kinds = {type(value) for value in classes} or {int, str}
    answers: dict[str, Any] = {}
    for name, value in labels.items() if isinstance(labels, Mapping) else labels:
        if value is None or value == "":
            continue
        label = by_name.get(str(value), value)
        if type(label) not in kinds:
            raise ValueError(f"the label {value!r} of node {name!r} is of another kind than others")
        if answers.setdefault(str(name), label) != label:
            raise ValueError(f"there are two different labels for node {name!r}; keep one")
        kinds = {type(label)}
    return answers


def asked_about(
    graph: Graph,
    model: GraphGPClassifier | None,
    choice: Choice,
    labels: np.ndarray,
    ids: np.ndarray,
    names: tuple[str, str],
    shown: Mapping[str, np.ndarray],
) -> dict[str, list[Any]]:
    """The columns of a table to fill in: who is asked about, an empty label, what an expert needs
    to know, what the model says now, and why the node was chosen. ``names`` are those of the first
    two."""
    nodes = choice.nodes
    columns: dict[str, list[Any]] = {names[0]: ids[nodes].tolist(), names[1]: [""] * len(nodes)}
    columns |= {name: values[nodes].tolist() for name, values in shown.items()}
    columns["neighbours"] = [labels_around(graph, node, labels) for node in nodes]
    if model is not None and len(nodes):
        table = model.predict_frame(graph, nodes)
        columns["predicted"] = table["label"].to_pylist()
        columns["probability"] = table["probability"].to_pylist()
    degrees = graph.degrees[nodes].tolist()
    columns["degree"] = [int(d) if d == int(d) else d for d in degrees]
    columns["score"] = choice.scores.tolist()
    return columns


def labels_around(graph: Graph, node: int, labels: np.ndarray) -> str:
    """The labels of a node's neighbours, the commonest first, and how many have none."""
    start, stop = graph.adjacency.indptr[node : node + 2]
    around = labels[graph.adjacency.indices[start:stop]].tolist()
    counts = Counter(str(label) for label in around if label is not None)
    parts = [f"{label} {count:,}" for label, count in counts.most_common()]
    if without := around.count(None):
        parts.append(f"{without:,} without a label")
    return ", ".join(parts) or "no neighbours"


def changes(before: np.ndarray, values: np.ndarray) -> dict[str, int]:
    """How many nodes get a label, and how many get another."""
    is_new = np.array([label is None for label in before], dtype=bool)
    replaced = before[~is_new] != values[~is_new]
    return {"new_labels": int(is_new.sum()), "replaced_labels": int(replaced.sum())}


def require_classes(source: str, values: np.ndarray, classes: list[Any]) -> None:
    """A mistyped label would be a class for ever."""
    names = [str(name) for name in classes]
    for value in map(str, values.tolist()):
        if value not in names:
            near = get_close_matches(value, names, 1, 0.6)
            guess = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names[:8])}."
            raise OptionError(
                f"{source}: no node had the label {value!r} so far; {guess} Pass `new_classes` if "
                "it is a new one.",
                "new_classes",
            )
