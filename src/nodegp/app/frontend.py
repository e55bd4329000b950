"""What the application and any front end say to each other: errors that name options, progress, and
results as plain data.

Nothing heavy is imported here, so that a front end starts at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

__all__ = [
    "SILENT",
    "STRATEGY_NAMES",
    "OptionError",
    "Progress",
    "check_share",
    "plain",
    "refuse_without",
]

# What nodegp.active.strategies() lists, which takes torch to load.
STRATEGY_NAMES = (
    *("sopt", "vopt", "hybrid", "gp-vopt", "gp-eer", "s2"),
    *("random", "degree", "entropy", "margin", "bald", "eer"),
)


class OptionError(ValueError):
    """Options that cannot be used as they are. The message has their names in backquotes."""

    def __init__(self, message: str, *options: str):
        super().__init__(message)
        self.options = options

    def worded(self, name: Callable[[str], str]) -> str:
        """The message with every option under the name that users know."""
        text = str(self)
        for option in self.options:
            text = text.replace(f"`{option}`", name(option))
        return text


def check_share(**shares: float | None) -> None:
    """Refuse shares that are none; a percentage is the likely slip."""
    for option, value in shares.items():
        if value is not None and not 0 < value < 1:
            guess = f"; for {value:g} % write {value / 100:g}" if 10 <= value < 100 else ""
            raise OptionError(f"`{option}` must lie between 0 and 1, got {value:g}{guess}", option)


def refuse_without(needed: str, remedy: str, options: Mapping[str, Any]) -> None:
    """Refuse options that are given and say nothing, because another is not."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise OptionError(f"`{option}` without `{needed}`: {remedy}", option, needed)


class Progress(Protocol):
    """What a front end implements to show progress. Stages follow each other and do not nest."""

    def stage(self, text: str, total: int | None = None) -> AbstractContextManager[object]:
        """A piece of work, in so many steps if that is known."""

    def advance(self, count: int = 1) -> None:
        """So many steps of the present stage are done."""
        return

    def note(self, text: str) -> None:
        """A remark that a user should see."""
        return


class _Silent(Progress):
    """Progress for nobody."""

    def stage(self, text: str, total: int | None = None) -> AbstractContextManager[object]:
        return nullcontext()


SILENT: Progress = _Silent()


def plain(value: Any) -> Any:
    """A result as plain data for JSON, numpy's included; what is not a number becomes None."""
    # Most of all there is first, and what takes a look at attributes last.
    if value is None or type(value) in (str, int, bool):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "tolist"):  # an array or number of numpy's
        return plain(value.tolist())
    return value
