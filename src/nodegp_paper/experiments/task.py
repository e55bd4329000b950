"""A kind of run: which runs of it there are, how one is carried out, how long that may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodegp_paper.experiments.published import DATASETS
from nodegp_paper.experiments.spec import Spec

__all__ = ["Context", "Selection", "Task"]


@dataclass(frozen=True)
class Context:
    """What a run may use besides its spec; nothing here changes its result."""

    data_dir: str | None
    checkpoint: str  # a file that this run alone may use, for a state to go on from


@dataclass(frozen=True)
class Selection:
    """Which runs a user wants to have."""

    datasets: tuple[str, ...]
    models: tuple[str, ...]
    engines: tuple[str, ...]
    seeds: int | None = None  # of every model; by default each has a number of its own
    quick: bool = False  # a small version, to try things out

    def seeds_of(self, full: int, quick: int) -> range:
        """The seeds of runs that by default have so many, in the full and in the quick version."""
        return range(self.seeds or (quick if self.quick else full))


@dataclass(frozen=True)
class Task:
    """A kind of run."""

    name: str  # in the key of every run: with another name, finished ones would be lost
    specs: Callable[[Selection], list[Spec]]
    run: Callable[[Spec, Context], dict[str, Any]]
    seconds: Callable[[Spec], float]  # on one core of an ordinary machine: a first guess
    alone: bool = False  # whether a run must not have another beside it
    datasets: tuple[str, ...] = DATASETS  # that it can run on
