"""Labels as users give them: under their names of nodes and classes, in tables or as pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from nodegp.app.errors import OptionError
from nodegp.io.tables import TableFile

__all__ = ["Labels", "NodeNames", "as_pairs", "changes", "own_column", "require_classes"]

# A table of ids and labels, or pairs of them.
Labels = str | Path | Mapping[Any, Any] | Iterable[tuple[Any, Any]]


class NodeNames:
    """The numbers of nodes by the names that a user calls them by."""

    def __init__(self, ids: np.ndarray):
        self._numbers = {str(name): number for number, name in enumerate(ids.tolist())}

    def positions(self, names: Iterable[Any]) -> np.ndarray:
        """Where these nodes stand in the graph."""
        numbers = []
        for name in map(str, names):
            if name not in self._numbers:
                examples = ", ".join(list(self._numbers)[:3])
                raise ValueError(f"there is no node {name!r}; ids look like {examples}")
            numbers.append(self._numbers[name])
        return np.array(numbers, dtype=np.intp)


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


def own_column(path: str | Path, name: str) -> str | None:
    """The name of a column in earlier tables, if this one has it too."""
    return name if name in TableFile.open(path).names else None


def changes(before: np.ndarray, values: np.ndarray) -> tuple[int, int]:
    """How many nodes get a label, and how many get another."""
    is_new = np.array([label is None for label in before], dtype=bool)
    return int(is_new.sum()), int((before[~is_new] != values[~is_new]).sum())


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
