"""Quasi-Newton ascent (L-BFGS) for a function that is known only to some precision.

The profiled ELBO comes out of an inner iteration, so its last digits are noise. Library
optimisers spend most of their evaluations there, searching lines that the noise has bent. This
one stops as soon as the gain it can expect is too small for anyone to care about.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]

_FIRST_STEP = 0.7  # of the largest coordinate: hyper-parameters are logs, so a factor of two
_LARGEST_STEP = 2.0


def ascend(
    objective: Objective, start: np.ndarray, max_iter: int, gain: float, memory: int = 10
) -> tuple[int, bool]:
    """Climb from ``start``; returns the iterations taken and whether it settled.

    ``gain`` is the least improvement worth an evaluation. The caller keeps the best point,
    which it has seen.
    """
    x = np.array(start, dtype=np.float64)
    value, gradient = objective(x)
    steps: list[np.ndarray] = []
    changes: list[np.ndarray] = []
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
            return iteration, True
        rate = 1.0
        while True:
            proposal = x + rate * direction
            new_value, new_gradient = objective(proposal)
            if new_value >= value + 1e-4 * rate * slope:
                break
            # The parabola through value, slope and new value says where to try next.
            shortfall = value + rate * slope - new_value
            wanted = 0.5 * rate * slope / max(shortfall, 1e-300) if np.isfinite(shortfall) else 0.1
            rate *= min(max(wanted, 0.1), 0.5)
            if rate * slope < gain:
                return iteration, True
        step, change = proposal - x, gradient - new_gradient
        if step @ change > 1e-10 * (step @ step):
            steps, changes = [*steps[1 - memory :], step], [*changes[1 - memory :], change]
        x, value, gradient = proposal, new_value, new_gradient
    return max_iter, False


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
