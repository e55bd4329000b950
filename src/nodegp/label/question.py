"""What an expert is shown of a node: texts, numbers with their place among all, and what is around.

Only what people said is in it: labels of other people's or one's own, never a prediction. What the
model thinks is asked for by another name (:meth:`nodegp.label.session.Session.thoughts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from nodegp.graph import Graph
from nodegp.label.neighbourhood import neighbours_of, rings, ways_to_labels

__all__ = ["Evidence"]

_MOST_LISTED = 40  # neighbours in the list
_MOST_NUMBERS = 12
_TITLES = ("title", "name", "subject", "headline", "label")


class Evidence:
    """Everything that can be shown of the nodes of a graph.

    Parameters
    ----------
    shown : by column, a text for each node; columns of numbers are told by their values
    numbers : by column, a number for each node, NaN where there is none
    """

    def __init__(
        self,
        graph: Graph,
        ids: np.ndarray,
        shown: Mapping[str, np.ndarray],
        numbers: Mapping[str, np.ndarray] | None = None,
    ):
        self.graph, self.ids = graph, ids
        self.texts: dict[str, np.ndarray] = {}
        self.numbers: dict[str, np.ndarray] = {}
        for name, values in shown.items():
            written = _as_numbers(values)
            if written is None:
                self.texts[name] = values
            else:
                self.numbers[name] = written
        self.numbers = {**(numbers or {}), **self.numbers}
        # A title first, and long texts last.
        names = sorted(self.texts, key=lambda n: (n.lower() not in _TITLES,))
        self.texts = {name: self.texts[name] for name in names}

    @cached_property
    def _sorted(self) -> dict[str, np.ndarray]:
        return {name: np.sort(v[np.isfinite(v)]) for name, v in self._measured.items()}

    @cached_property
    def _measured(self) -> dict[str, np.ndarray]:
        links = np.diff(self.graph.adjacency.indptr).astype(float)
        numbers = dict(list(self.numbers.items())[:_MOST_NUMBERS])
        return numbers | {"links" if "links" not in numbers else "links (graph)": links}

    def title(self, node: int) -> str:
        """What a node is called where there is room for one line."""
        for values in self.texts.values():
            if values[node]:
                return str(values[node])
        return str(self.ids[node])

    def brief(self, node: int, labels: Mapping[int, str]) -> dict[str, Any]:
        """A node in a line."""
        return {
            "number": int(node),
            "id": str(self.ids[node]),
            "title": _short(self.title(node)),
            "label": labels.get(int(node)),
        }

    def of(self, node: int, labels: Mapping[int, str]) -> dict[str, Any]:
        """All that is shown of a node, but for its own label."""
        around = neighbours_of(self.graph, node)
        ordered = sorted(around.tolist(), key=lambda n: (n not in labels, n))
        drawing = rings(self.graph, node, labels)
        drawing["nodes"] = [
            one | self.brief(one["node"], labels if one["node"] != node else {})
            for one in drawing["nodes"]
        ]
        return {
            "number": int(node),
            "id": str(self.ids[node]),
            "title": self.title(node),
            "texts": [
                {"name": name, "text": str(values[node])}
                for name, values in self.texts.items()
                if values[node]
            ],
            "numbers": [self._number(name, node) for name in self._measured],
            "neighbours": [self.brief(n, labels) for n in ordered[:_MOST_LISTED]],
            "n_neighbours": len(around),
            "n_labelled": sum(n in labels for n in around.tolist()),
            "ways": [
                {"label": way.label, "nodes": [self.brief(n, labels) for n in way.nodes]}
                for way in ways_to_labels(self.graph, node, labels)
            ],
            "drawing": drawing,
        }

    def _number(self, name: str, node: int) -> dict[str, Any]:
        """A number, and the share of all nodes that have less and no more than it."""
        value, everyone = float(self._measured[name][node]), self._sorted[name]
        if not np.isfinite(value) or not len(everyone):
            return {"name": name, "value": None}
        below, upto = (np.searchsorted(everyone, value, side=s) for s in ("left", "right"))
        place = {"below": int(below) / len(everyone), "upto": int(upto) / len(everyone)}
        ends = {"least": float(everyone[0]), "most": float(everyone[-1])}
        middle = float(np.median(everyone))
        return {"name": name, "value": value, "median": middle} | place | ends


def _as_numbers(values: np.ndarray) -> np.ndarray | None:
    """A column of text as numbers, if all that is written in it are numbers."""
    numbers = np.full(len(values), np.nan)
    written = 0
    for i, value in enumerate(values):
        if value in ("", None):
            continue
        try:
            numbers[i] = float(value)
        except ValueError:
            return None
        written += 1
    return numbers if written else None


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
