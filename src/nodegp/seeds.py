"""Sources of randomness from what users pass as ``random_state``."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["generator"]


def generator(random_state: Any) -> np.random.Generator:
    """From an int, a Generator (returned as it is), a RandomState or None."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if isinstance(random_state, int) and random_state < 0:
        raise ValueError(f"a seed must not be negative, got {random_state}")
    return np.random.default_rng(random_state)
