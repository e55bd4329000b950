"""What is labelled: a graph with what is shown of its nodes, classes, and perhaps a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from nodegp.app.frontend import OptionError
from nodegp.app.project import Project
from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.identity import fingerprint
from nodegp.io import Encoder
from nodegp.io.readers import Numbers
from nodegp.label.events import fold
from nodegp.label.journal import Event, JournalError

__all__ = ["Subject", "check_classes", "numbers_of", "subject_of"]

# Events that may change which classes there are.
_OF_CLASSES = {"class-added", "class-renamed", "class-merged", "undo", "redo"}


@dataclass(eq=False)
class Subject:
    """A graph to label; :func:`subject_of` makes one of a project."""

    graph: Graph
    ids: np.ndarray
    classes: list[str]  # by their names, in the order of their keys
    prototype: GraphGPClassifier  # to fit to the labels
    kind: type = str  # of classes in the model: int or str
    given: dict[int, str] = field(default_factory=dict)  # labels that are there already
    given_confidences: dict[int, float] = field(default_factory=dict)
    fitted: GraphGPClassifier | None = None  # to these labels
    shown: Mapping[str, np.ndarray] = field(default_factory=dict)
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)  # features that are numbers
    columns: tuple[str, str] = ("id", "label")  # what the user calls ids and labels
    project: Project | None = None

    @cached_property
    def positions(self) -> dict[str, int]:
        """The number of each node by its id."""
        return {str(name): number for number, name in enumerate(self.ids)}

    def binding(self) -> dict[str, Any]:
        """What a journal about this is known by again."""
        adjacency = self.graph.adjacency
        parts = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64)
        names = [str(name) for name in self.ids.tolist()]
        return {"format": 1, "graph": fingerprint(*parts, adjacency.data.astype(float), names)}

    def start(self) -> dict[str, Any]:
        """What a new journal keeps of how things were, so that it says the same when the model has
        learnt from it."""
        sure = self.given_confidences
        given = [[node, name, sure.get(node, 1.0)] for node, name in sorted(self.given.items())]
        return {"classes": self.classes, "kind": self.kind.__name__, "given": given}


def subject_of(
    project: Project, classes: Sequence[str] | None = None, show: Sequence[str] | None = None
) -> Subject:
    """What a project has to label. Without a model or labels, ``classes`` says what there is."""
    model = project.model
    labels = {
        int(node): str(label) for node, label in enumerate(project.labels) if label is not None
    }
    known = [str(name) for name in project.classes]
    names = list(dict.fromkeys([*(known if model is not None else ()), *(classes or ())]))
    names += [name for name in known if name not in names]
    if not names:
        raise OptionError(
            "say which classes there are, with commas: `classes`; more can be added later",
            "classes",
        )
    kinds = {type(value) for value in project.classes}
    kind = int if kinds == {int} and all(map(_is_whole, names)) else str
    fitted, confidences = None, {}
    if model is not None:
        if kinds in ({int}, {str}) and (kind is int) == (kinds == {int}):
            fitted = model
        sure = zip(model.labelled_.tolist(), model.label_confidence_.tolist(), strict=True)
        confidences = {node: value for node, value in sure if value < 1}
    prototype = project.options.classifier() if model is None else clone(model)
    columns = project.tables.get("id", "id"), project.tables.get("label", "label")
    return Subject(
        project.graph, project.ids, names, prototype, kind, labels, confidences, fitted,
        project.shown(show), numbers_of(project), columns, project,
    )  # fmt: skip


def numbers_of(project: Project, most: int = 12) -> dict[str, np.ndarray]:
    """The columns of numbers among the features, as their user wrote them: the encoder of tables
    knows the way back. NaN where there was none."""
    features = project.graph.features
    if "encoder" not in project.tables or features is None:
        return {}
    found: dict[str, np.ndarray] = {}
    start = 0
    for source in Encoder.from_dict(project.tables["encoder"]).sources:
        stop = start + source.reader.n_columns
        if isinstance(source.reader, Numbers) and source.kind == "standardise":
            names, gaps = source.reader.names, source.reader.with_gaps
            block = features[:, start:stop]
            block = np.asarray(block.toarray() if hasattr(block, "toarray") else block, float)
            scale, centre = np.asarray(source.scale), np.asarray(source.centre)
            with np.errstate(divide="ignore", invalid="ignore"):
                values = (block / source.factor + centre) / scale
            for place, name in enumerate(names[:most]):
                column = values[:, place]
                if name in gaps:
                    column[values[:, len(names) + gaps.index(name)] > 0.5] = np.nan
                found[name] = column
        start = stop
    return found


def check_classes(subject: Subject, events: Sequence[Event], path: Path) -> None:
    """Refuse a journal whose classes never were those that there are: at its beginning, or after
    one of its events, as those of a model are that was written then."""
    began, own = events[0].data["classes"], set(subject.classes)
    changes = [n for n, e in enumerate(events, 1) if e.kind in _OF_CLASSES]
    if own == set(began) or any(own == set(fold(began, {}, events[:n]).classes) for n in changes):
        return
    now = fold(began, {}, events).classes
    raise JournalError(
        f"{path} belongs to another model: its classes are {', '.join(map(repr, now))}, and not "
        f"{', '.join(map(repr, subject.classes))}; name another file with --journal, or all "
        "classes with --classes"
    )


def _is_whole(name: str) -> bool:
    try:
        return str(int(name)) == name
    except ValueError:
        return False
