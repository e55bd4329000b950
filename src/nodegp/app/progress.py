"""How a front end learns what is going on while it waits for a result."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

__all__ = ["SILENT", "Progress"]


class Progress(Protocol):
    """What a front end implements to show progress. Stages follow each other and do not nest."""

    def stage(self, text: str, total: int | None = None) -> AbstractContextManager[object]:
        """A piece of work, in so many steps if that is known."""

    def advance(self, count: int = 1) -> None:
        """So many steps of the present stage are done."""

    def note(self, text: str) -> None:
        """A remark that a user should see."""


class _Silent:
    """Progress for nobody."""

    def stage(self, text: str, total: int | None = None) -> AbstractContextManager[object]:
        return nullcontext()

    def advance(self, count: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass


SILENT: Progress = _Silent()
