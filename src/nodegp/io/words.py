"""How counts, lists and a user's own text are put into messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["amount", "listed", "short"]


def amount(count: int, one: str, many: str | None = None) -> str:
    """A number of things in words: "1 column", "2 columns"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(items: Sequence[str], most: int = 10) -> str:
    """The first few of a list, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def short(text: Any) -> str:
    """Text from a file as it may stand in an error: printable, and not a page of it."""
    plain = "".join(c if c.isprintable() else "?" for c in str(text).strip())
    return plain if len(plain) <= 60 else plain[:57] + "..."
