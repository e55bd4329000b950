"""What results have in common: they are values, and plain data for JSON."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

__all__ = ["Result", "plain"]


class Result:
    """A frozen dataclass that turns into JSON; a name that Python reserves ends in _ here."""

    # Fields that are there to be shown, and no part of the plain data.
    aside: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        assert is_dataclass(self)
        names = [field.name for field in fields(self) if field.name not in self.aside]
        return plain({name.rstrip("_"): getattr(self, name) for name in names})


def plain(value: Any) -> Any:
    """Plain data, numpy's included; what is not a number becomes None."""
    if isinstance(value, Result):
        return value.to_dict()
    if hasattr(value, "tolist"):  # an array or number of numpy's
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
