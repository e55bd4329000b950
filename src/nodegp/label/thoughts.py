"""What a model thinks of a node, and which labels spoke for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodegp.app.explanation import explain
from nodegp.app.frontend import plain
from nodegp.label.learning import Knowledge
from nodegp.label.opening import Subject
from nodegp.label.question import Evidence

__all__ = ["guess", "thoughts"]

_ASKED_FOR, _SHOWN = 6, 8  # labels for a class, and for others; of both together


def guess(knowledge: Knowledge, node: int) -> list[dict[str, Any]]:
    """The classes of a node with their probabilities, the likeliest first."""
    assert knowledge.proba is not None
    row = knowledge.proba[node]
    order = (-row).argsort(kind="stable")
    return [{"name": knowledge.classes[c], "probability": float(row[c])} for c in order]


def thoughts(
    subject: Subject, evidence: Evidence, knowledge: Knowledge, node: int, said: str | None
) -> dict[str, Any]:
    """Probabilities of a node, and the labels that speak for the class that was said, or for the
    likeliest, and against it."""
    assert knowledge.model is not None
    labels = knowledge.labels or {}
    y = np.full(subject.graph.n_nodes, None, dtype=object)
    for labelled, name in labels.items():
        y[labelled] = name
    about = said if said in knowledge.classes else None
    told = explain(knowledge.model, subject.ids, y, {}, node, about, _ASKED_FOR)
    rows = [
        evidence.brief(subject.positions[str(row["id"])], labels) | {"share": float(row["share"])}
        for row in (*told["labels"], *told["against"])
        if str(row["id"]) != str(subject.ids[node])
    ]
    return plain(
        {
            "number": node,
            "class": str(told["class"]),
            "probabilities": guess(knowledge, node),
            "labels": sorted(rows, key=lambda row: -row["share"])[:_SHOWN],
        }
    )
