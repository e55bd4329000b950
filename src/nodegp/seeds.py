"""Sources of randomness from what users pass as ``random_state``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["generator", "torch_generator"]


def generator(random_state: Any) -> np.random.Generator:
    """From an int, a Generator (returned as it is), a RandomState or None."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if isinstance(random_state, int) and random_state < 0:
        raise ValueError(f"a seed must not be negative, got {random_state}")
    return np.random.default_rng(random_state)


def torch_generator(rng: np.random.Generator) -> torch.Generator:
    """Torch's counterpart, seeded by the next draw of ``rng``."""
    return torch.Generator().manual_seed(int(rng.integers(2**63)))
