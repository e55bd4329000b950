"""Errors that name options, which every front end calls by names of its own."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["OptionError", "check_share"]


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
