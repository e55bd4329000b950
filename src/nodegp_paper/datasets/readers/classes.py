"""Labels as files hold them, and as a Dataset does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["class_positions"]


def class_positions(labels: Sequence[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Position of each label's class among the sorted class names, -1 for None, NaN and ""."""
    present = [value for value in labels if not _is_missing(value)]
    position = {value: n for n, value in enumerate(sorted(set(present)))}
    y = [-1 if _is_missing(value) else position[value] for value in labels]
    return np.array(y, dtype=np.int64), tuple(str(value) for value in position)


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or value != value
