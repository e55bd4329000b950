"""Anderson acceleration of a fixed-point iteration: the next point is the mixture of the last few
whose steps, if steps were linear in the point, would cancel.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nodegp.linalg import solve_least_squares
from nodegp.posterior import Sites

__all__ = ["Anderson"]


class Anderson:
    """The next sites, from the present ones and where a whole step would lead."""

    def __init__(self, floor: Tensor, memory: int = 6):
        self._floor = floor
        self._memory = memory
        self._points: list[Tensor] = []
        self._steps: list[Tensor] = []

    def forget(self) -> None:
        """Drop all but the newest point."""
        self._points, self._steps = self._points[-1:], self._steps[-1:]

    def __call__(self, sites: Sites, target: Sites, rate: float) -> Sites:
        # lambda1 and lambda2 have different units: compare each relative to its step's size.
        point = torch.stack(list(sites))  # (2, L, O)
        step = torch.stack(list(target)) - point
        units = step.flatten(1).norm(dim=1).clamp_min(1e-300)[:, None, None]
        self._points = [*self._points[-self._memory :], point]
        self._steps = [*self._steps[-self._memory :], step]
        moved = plain = point + rate * step
        if len(self._points) > 1:
            d_points = torch.stack(self._points).diff(dim=0)
            d_steps = torch.stack(self._steps).diff(dim=0)
            scaled = (d_steps / units).flatten(1)  # (memory, 2 L O)
            unit_step = (step / units).flatten()
            weights = solve_least_squares(scaled @ scaled.mT, scaled @ unit_step)
            moved = moved - torch.tensordot(weights, d_points + rate * d_steps, 1)
            if not moved.isfinite().all():  # all precisions at their floor: no step, no unit
                moved = plain
        return Sites(moved[0], moved[1].maximum(self._floor))
