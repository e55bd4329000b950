"""Values against what is declared of them: the types of fields, and shapes against each other.

What we make ourselves is right; what is read from a file need not be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

__all__ = ["LARGEST", "MismatchError", "check_shapes", "check_types", "require"]

LARGEST = 1e150  # the square of anything larger is infinite


class MismatchError(ValueError):
    """Values that do not go with each other, or with what is declared of them."""


def require(is_right: Any, what: str) -> None:
    """Raise, with what is wrong, unless all is right."""
    if not is_right:
        raise MismatchError(what)


def check_shapes(owner: Any, sizes: Mapping[str, int] | None = None, **shapes: str) -> None:
    """Raise unless fields have shapes that go together: ``mean="L M"`` is a matrix of L rows, and L
    is the same wherever it stands, ``sizes`` included. A field that is None has none."""
    sizes = dict(sizes or {})
    for name, letters in shapes.items():
        value = getattr(owner, name)
        if value is None:
            continue
        shape = tuple(value.shape) if hasattr(value, "shape") else (len(value),)
        expected = letters.split()
        goes = len(shape) == len(expected) and all(
            sizes.setdefault(letter, size) == size
            for letter, size in zip(expected, shape, strict=True)
        )
        if not goes:
            known = ", ".join(f"{letter}={sizes[letter]}" for letter in expected if letter in sizes)
            raise MismatchError(
                f"{type(owner).__name__}: {name} has shape {shape}, not ({', '.join(expected)}) "
                f"with {known}"
            )


def check_types(kind: Any, values: Mapping[str, Any]) -> None:
    """Raise unless values for a class's constructor are of the types that it declares, numbers
    finite."""
    hints = _hints(kind)
    for name, value in values.items():
        if not _is_a(value, hints.get(name, Any)):
            raise MismatchError(f"{kind.__name__}: {name} is {_short(value)}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind if hasattr(kind, "__match_args__") else kind.__init__)
    except NameError:  # of a class that was defined inside a function
        return {}


def _is_a(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_is_a(value, one) for one in inner)
    if origin is dict:
        return isinstance(value, dict) and all(_is_a(v, inner[1]) for v in value.values())
    if origin in (tuple, Sequence):
        return isinstance(value, tuple) and all(_is_a(v, inner[0]) for v in value)
    if hint is bool:
        return isinstance(value, int) and value in (0, 1)
    if hint is float:
        return isinstance(value, int | float) and math.isfinite(value) and abs(value) <= LARGEST
    return isinstance(value, hint)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"
