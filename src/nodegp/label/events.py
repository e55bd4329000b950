"""What the events of a journal mean: the state of a session as a fold over them.

An expert's events can be undone, the last first and without limit, and done again until something
new is done. A state is made from the events that stand, in their order; nothing else is in it, so
that a session that starts again stands where it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nodegp.label.journal import Event

__all__ = ["UNDOABLE", "Mark", "State", "fold", "standing"]

# What an expert does. Other events are notes of the program's own, which nothing takes back.
UNDOABLE = frozenset(
    {
        *("answer", "unknown", "later", "flag", "note", "request"),
        *("class-added", "class-renamed", "class-merged"),
    }
)


@dataclass(frozen=True)
class Mark:
    """What an expert said of a node last."""

    node: int
    kind: str  # answer, unknown or later
    label: str | None  # for an answer: the name of the class, as it is called now
    confidence: float
    event: Event  # what it was said with
    order: int  # which question it was, counted from 0

    @property
    def agreed(self) -> bool | None:
        """Whether it was what the model thought, said without knowing that; None if it was no
        answer then."""
        data = self.event.data
        if "agreed" in data or data.get("predicted") is None or self.label is None:
            return data.get("agreed")
        return data["predicted"] == data["label"]  # journals of earlier versions


@dataclass
class State:
    """All that an expert has said so far.

    Nodes are numbers, and classes are names, as people call them.
    """

    classes: list[str]
    given: dict[int, str]  # labels that were there before
    given_confidences: dict[int, float] = field(default_factory=dict)  # of these, if less than one
    marks: dict[int, Mark] = field(default_factory=dict)
    flags: set[int] = field(default_factory=set)
    notes: dict[int, str] = field(default_factory=dict)
    requests: list[int] = field(default_factory=list)  # to ask about next, the first first
    n_questions: int = 0  # that were answered, left or put off
    events: list[Event] = field(default_factory=list)  # that stand
    undone: list[Event] = field(default_factory=list)  # the next to be done again is the last

    # These are asked for once all events are in.

    @cached_property
    def labels(self) -> dict[int, str]:
        """The label of each node that has one."""
        labels = dict(self.given)
        for node, mark in self.marks.items():
            labels.pop(node, None)
            if mark.label is not None:
                labels[node] = mark.label
            elif mark.kind == "later" and node in self.given:
                labels[node] = self.given[node]
        return labels

    @cached_property
    def confidences(self) -> dict[int, float]:
        """How sure the expert was, where that is less than certain."""
        sure = {n: c for n, c in self.given_confidences.items() if n not in self.marks}
        for node, mark in self.marks.items():
            if mark.label is not None and mark.confidence < 1:
                sure[node] = mark.confidence
            elif mark.kind == "later" and node in self.given_confidences:
                sure[node] = self.given_confidences[node]
        return sure

    @cached_property
    def history(self) -> list[int]:
        """The nodes that something was said of, in the order of the questions."""
        return sorted(self.marks, key=lambda node: self.marks[node].order)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What a model learns from: equal where there is nothing new to learn."""
        return (
            tuple(self.classes),
            tuple(sorted(self.labels.items())),
            tuple(sorted(self.confidences.items())),
        )

    def apply(self, event: Event) -> None:
        """Take in one event that an expert caused."""
        getattr(self, "_" + event.kind.replace("-", "_"))(event.data, event)

    # --- one method for each kind of event ------------------------------------------------------

    def _answer(self, data: Mapping[str, Any], event: Event) -> None:
        self._mark(data, event, data["label"], float(data.get("confidence", 1.0)))

    def _unknown(self, data: Mapping[str, Any], event: Event) -> None:
        self._mark(data, event, None, 1.0)

    _later = _unknown

    def _mark(
        self, data: Mapping[str, Any], event: Event, label: str | None, confidence: float
    ) -> None:
        node = int(data["number"])
        before = self.marks.get(node)
        is_correction = before is not None and before.kind != "later"
        order = before.order if before is not None and is_correction else self.n_questions
        self.marks[node] = Mark(node, event.kind, label, confidence, event, order)
        self.n_questions += not is_correction
        if node in self.requests:
            self.requests.remove(node)

    def _flag(self, data: Mapping[str, Any], event: Event) -> None:
        change = self.flags.add if data.get("on", True) else self.flags.discard
        change(int(data["number"]))

    def _note(self, data: Mapping[str, Any], event: Event) -> None:
        if data["text"]:
            self.notes[int(data["number"])] = data["text"]
        else:
            self.notes.pop(int(data["number"]), None)

    def _request(self, data: Mapping[str, Any], event: Event) -> None:
        node = int(data["number"])
        self.requests = [node, *(other for other in self.requests if other != node)]

    def _class_added(self, data: Mapping[str, Any], event: Event) -> None:
        self.classes.append(data["name"])

    def _class_renamed(self, data: Mapping[str, Any], event: Event) -> None:
        place = self.classes.index(data["name"])
        self.classes[place] = data["to"]
        self._call(data["name"], data["to"])

    def _class_merged(self, data: Mapping[str, Any], event: Event) -> None:
        self.classes.remove(data["name"])
        self._call(data["name"], data["to"])

    def _call(self, before: str, now: str) -> None:
        """Labels of one class become those of another."""
        self.given = {n: now if name == before else name for n, name in self.given.items()}
        for node, mark in self.marks.items():
            if mark.label == before:
                self.marks[node] = Mark(**{**vars(mark), "label": now})


def standing(events: Iterable[Event]) -> tuple[list[Event], list[Event]]:
    """The events of an expert that stand, and those that were undone and may be done again."""
    done: list[Event] = []
    undone: list[Event] = []
    for event in events:
        if event.kind == "undo":
            if done:
                undone.append(done.pop())
        elif event.kind == "redo":
            if undone:
                done.append(undone.pop())
        elif event.kind in UNDOABLE:
            done.append(event)
            undone.clear()
    return done, undone


def fold(
    classes: Iterable[str],
    given: Mapping[int, str],
    events: Iterable[Event],
    given_confidences: Mapping[int, float] | None = None,
) -> State:
    """The state after these events, from the classes and labels that were there before."""
    done, undone = standing(events)
    sure = dict(given_confidences or {})
    state = State(list(classes), dict(given), sure, events=done, undone=undone)
    for event in done:
        state.apply(event)
    return state
