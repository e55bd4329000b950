"""Quasi-Newton ascent (L-BFGS) for a function that is known only to some precision.

The profiled ELBO comes out of an inner iteration, so its last digits are noise. Library
optimisers spend most of their evaluations there, searching lines that the noise has bent. This
one stops as soon as the gain it can expect is too small for anyone to care about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["ascend"]

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

_FIRST_STEP = 0.7  # of the largest coordinate: hyper-parameters are logs, so a factor of two
_LARGEST_STEP = 2.0
_MEMORY = 10


class Climb(NamedTuple):
    """How an ascent went, and what it learnt of the curvature."""

    n_iter: int
    settled: bool
    curvature: np.ndarray  # (2, pairs, n): steps, and how the gradient fell along each


def ascend(
    objective: Objective,
    start: np.ndarray,
    max_iter: int,
    gain: float,
    curvature: np.ndarray | None = None,
) -> Climb:
    """Climb from ``start``.

    ``gain`` is the least improvement worth an evaluation; ``curvature`` is what an earlier ascent
    of nearly the same function learnt. The caller keeps the best point, which it has seen.
    """
    x = np.array(start, dtype=np.float64)
    value, gradient = objective(x)
    steps, changes = ([], []) if curvature is None else map(list, curvature)
    for iteration in range(1, max_iter + 1):
        direction = _direction(gradient, steps, changes)
        if gradient @ direction <= 0:  # a bent memory: start afresh
            steps, changes = [], []
            direction = _direction(gradient, steps, changes)
        largest = np.abs(direction).max(initial=0.0)
        if largest > _LARGEST_STEP:
            direction = direction * (_LARGEST_STEP / largest)
        slope = float(gradient @ direction)
        # To second order a quasi-Newton step gains half of what its slope promises.
        if 0.5 * slope < gain:
            return Climb(iteration, True, _pairs(steps, changes, x))
        rate = 1.0
        while True:
            proposal = x + rate * direction
            new_value, new_gradient = objective(proposal)
            if new_value >= value + 1e-4 * rate * slope:
                break
            # The parabola through value, slope and new value says where to try next.
            shortfall = value + rate * slope - new_value
            target = 0.5 * rate * slope / max(shortfall, 1e-300) if np.isfinite(shortfall) else 0.1
            rate *= min(max(target, 0.1), 0.5)
            if rate * slope < gain:
                return Climb(iteration, True, _pairs(steps, changes, x))
        if new_value - value < 2 * gain:
            # Too near the noise to learn a curvature from, or to go on.
            return Climb(iteration, True, _pairs(steps, changes, x))
        step, change = proposal - x, gradient - new_gradient
        if step @ change > 1e-10 * (step @ step):
            steps, changes = [*steps[1 - _MEMORY :], step], [*changes[1 - _MEMORY :], change]
        x, value, gradient = proposal, new_value, new_gradient
    return Climb(max_iter, False, _pairs(steps, changes, x))


def _pairs(steps: list[np.ndarray], changes: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    return np.array([steps, changes]).reshape(2, len(steps), len(x))


def _direction(
    gradient: np.ndarray, steps: list[np.ndarray], changes: list[np.ndarray]
) -> np.ndarray:
    """The L-BFGS two-loop recursion; without any memory, a short step along the gradient."""
    if not steps:
        return gradient * (_FIRST_STEP / max(np.abs(gradient).max(initial=0.0), 1e-300))
    direction = gradient.copy()
    weights = []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        weight = (step @ direction) / (step @ change)
        direction -= weight * change
        weights.append(weight)
    direction *= (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for step, change, weight in zip(steps, changes, reversed(weights), strict=True):
        direction += (weight - (change @ direction) / (step @ change)) * step
    return direction
