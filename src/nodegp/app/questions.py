"""Questions to an expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nodegp.app.frontend import plain

__all__ = ["Questions"]


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
