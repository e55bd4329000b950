"""Questions to an expert, and what the answers did to a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nodegp.active import Advice
from nodegp.app.model import ModelInfo
from nodegp.app.results import Result, plain

__all__ = ["Answers", "Questions", "Update"]


@dataclass(frozen=True, eq=False)
class Questions(Result):
    """The nodes to ask about next, a row for each: id, an empty label, what the model says now
    (if there is one), the node's degree and the score that it was chosen by."""

    strategy: str
    score: str  # what the scores mean
    ask: list[dict[str, Any]]
    columns: tuple[str, ...]
    note: str  # why another strategy chose, if one did
    aside = ("columns", "note")

    def table(self) -> pa.Table:
        """To be filled in."""
        if not self.ask:
            raise ValueError("there is no node left to ask about, so no table was written")
        return pa.Table.from_pylist(self.ask)


@dataclass(frozen=True)
class Answers(Result):
    """Answers that wait for the next update or fit."""

    new_labels: int
    replaced_labels: int
    waiting: int  # with those given before


@dataclass(frozen=True, eq=False)
class Update(Result):
    """What new labels did to a model, and whether it is worth to go on asking."""

    new_labels: int
    replaced_labels: int
    advice: Advice | None  # None if every node has a label
    model: ModelInfo

    def to_dict(self) -> dict[str, Any]:
        names = {"changed": "changed", "moved": "moved", "stop": "stop", "expected_gain": "gain"}
        return plain(
            {"new_labels": self.new_labels, "replaced_labels": self.replaced_labels}
            | {key: getattr(self.advice, name, None) for key, name in names.items()}
            | {"model": self.model}
        )
