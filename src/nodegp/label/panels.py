"""How a session is getting on: counts, how sure the model is, how right it was, whether to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import entr

from nodegp.active import Advice
from nodegp.active.stopping import CHANGED_BELOW, MOVED_BELOW
from nodegp.label.events import State
from nodegp.label.learning import Knowledge
from nodegp.metrics import wilson_interval

__all__ = ["estimated_accuracy", "learnt", "panels"]

_ROUND = 10  # answers that advice looks back on


def learnt(state: State, before: Knowledge, after: Knowledge) -> dict[str, Any]:
    """What a change of the labels did to the model, for the journal."""
    labels = state.labels
    numbers: dict[str, Any] = {"labels": len(labels)}
    if after.proba is None:
        return numbers
    rest = np.ones(len(after.proba), dtype=bool)
    rest[list(labels)] = False
    if before.proba is not None and before.classes == after.classes and rest.any():
        a, b = before.proba[rest], after.proba[rest]
        numbers["changed"] = int((a.argmax(axis=1) != b.argmax(axis=1)).sum())
        numbers["moved"] = round(float(0.5 * np.abs(a - b).sum(axis=1).mean()), 6)
    if rest.any():
        numbers["entropy"] = round(float(entr(after.proba[rest]).sum(axis=1).mean()), 6)
        numbers["error"] = round(float(1.0 - after.proba[rest].max(axis=1).mean()), 6)
        numbers["rest"] = int(rest.sum())
    if (right := _left_out(after)) is not None and len(right) > 1:
        numbers["leave_one_out"] = round(float(right.mean()), 6)
    return numbers


def _left_out(knowledge: Knowledge) -> np.ndarray | None:
    """Whether each label is predicted rightly without itself."""
    model = knowledge.model
    if model is None or len(model.classes_) < 2:
        return None
    right: np.ndarray = model.classes_[model.loo_proba_.argmax(axis=1)] == model.labels_
    return right


def estimated_accuracy(state: State) -> dict[str, Any] | None:
    """Of the nodes drawn at random, how many the model had right before it was told: what it may
    be expected to have right of all nodes, and the 95 % interval of that."""
    known = [
        mark.agreed
        for mark in state.marks.values()
        if mark.kind == "answer"
        and mark.event.data.get("why") == "random"
        and mark.agreed is not None
    ]
    if not known:
        return None
    right = sum(known)
    low, high = wilson_interval(right / len(known), len(known))
    count = {"right": right, "drawn": len(known)}
    return count | {"accuracy": right / len(known), "low": float(low), "high": float(high)}


def panels(
    state: State, knowledge: Knowledge, notes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """All numbers beside the question. ``notes`` are what :func:`learnt` gave, one by one, with the
    numbers of the events that they are about."""
    labels = state.labels
    counts = Counter(labels.values())
    predicted: Counter[str] = Counter()
    if (guesses := knowledge.predicted()) is not None:
        rest = np.ones(len(guesses), dtype=bool)
        rest[list(labels)] = False
        predicted = Counter(guesses[rest].tolist())
    rounds = [note for note in notes if "labels" in note]
    last = rounds[-1] if rounds else {}
    stand = {event.seq for event in state.events}  # what was undone is no advice
    right = _left_out(knowledge)
    kinds = Counter(mark.kind for mark in state.marks.values())
    return {
        "classes": [
            {"name": name, "labels": counts[name], "predicted": predicted[name]}
            for name in state.classes
        ],
        "labels": len(labels),
        "answers": kinds["answer"],
        "unknown": kinds["unknown"],
        "later": kinds["later"],
        "flagged": len(state.flags),
        "entropy": last.get("entropy"),
        "changed": last.get("changed"),
        "rest": last.get("rest"),
        "estimate": estimated_accuracy(state),
        "leave_one_out": None if right is None or len(right) < 2 else float(right.mean()),
        "curve": _curve(rounds, len(labels)),
        "advice": _advice([data for data in rounds if data["about"] in stand]),
    }


def _curve(rounds: Sequence[Any], n_labels: int) -> list[list[float | None]]:
    """Labels, leave-one-out accuracy and entropy left, a row for each number of labels up to now;
    what was undone is not in it."""
    rows = {
        data["labels"]: [data["labels"], data.get("leave_one_out"), data.get("entropy")]
        for data in rounds
        if data["labels"] <= n_labels
    }
    return [rows[number] for number in sorted(rows)]


def _advice(rounds: Sequence[Any]) -> dict[str, Any] | None:
    """Whether to stop and why: as :func:`nodegp.active.advice` has it, from what was noted."""
    noted = [data for data in rounds if data.get("changed") is not None and data.get("rest")]
    if not noted:
        return None
    noted = noted[-_ROUND:]
    changed = float(np.mean([data["changed"] / data["rest"] for data in noted]))
    moved = float(np.mean([data["moved"] for data in noted]))
    stop = (
        len(noted) == _ROUND and _ROUND * changed < CHANGED_BELOW and _ROUND * moved < MOVED_BELOW
    )
    result = Advice(len(noted), changed, moved, noted[-1]["error"], None, stop)
    return {"stop": stop, "text": result.text}
