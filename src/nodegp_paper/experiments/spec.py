"""One run, described by everything that decides its result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

__all__ = ["Spec", "row_name"]


@dataclass(frozen=True)
class Spec:
    """One run of one experiment.

    Two runs with equal specs give the same numbers, so a finished one need not be run again;
    if anything here changes, it must.
    """

    task: str  # which function carries it out
    dataset: str
    model: str  # the row of a table: "GGP", "SOPT-GCN", ...
    engine: str = ""  # of a GGP: "paper" or "default"
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """A short name for this spec and no other."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        parts = [self.task, self.dataset, self.model, self.engine, f"seed {self.seed}"]
        return " ".join(part for part in parts if part)

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """Runs of one kind differ in seed and settings, and take about as long."""
        return self.task, self.dataset, self.model, self.engine

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Spec:
        return cls(**data)


def row_name(model: str, engine: str) -> str:
    """What a table or a legend calls a model, or one engine of it."""
    return f"{model}, {engine} engine" if engine else model
