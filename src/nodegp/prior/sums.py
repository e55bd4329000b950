"""Sums of independent functions: h = sum_j h_j, each with a prior of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from nodegp.prior.base import Cross, Prior
from nodegp.prior.cross import SumCross
from nodegp.prior.domain import Domain
from nodegp.prior.inputs import Inputs, SumInputs

__all__ = ["SumPrior"]


@dataclass(frozen=True)
class SumPrior(Prior):
    """Priors that are summed: their covariances are."""

    parts: tuple[Prior, ...]

    def with_exact_lengths(self) -> Self:
        return replace(self, parts=tuple(part.with_exact_lengths() for part in self.parts))

    def at(self, domain: Domain, nodes: np.ndarray) -> SumInputs:
        return SumInputs(tuple(part.at(domain, nodes) for part in self.parts))

    def to_learn(self, domain: Domain, nodes: np.ndarray) -> SumInputs:
        return SumInputs(tuple(part.to_learn(domain, nodes) for part in self.parts))

    def freeze(self, inputs: Inputs) -> SumInputs:
        own = zip(self.parts, SumInputs.of(inputs).parts, strict=True)
        return SumInputs(tuple(part.freeze(own_inputs) for part, own_inputs in own))

    def cov(self, a: Inputs, b: Inputs) -> Tensor:
        return _sum([part.cov(*own) for part, own in self._by_part(a, b)])

    def var(self, a: Inputs) -> Tensor:
        return _sum(self.variances(a))

    def variances(self, a: Inputs) -> list[Tensor]:
        """What each part adds to the variances."""
        own = SumInputs.of(a).parts
        return [part.var(own_inputs) for part, own_inputs in zip(self.parts, own, strict=True)]

    def cross(self, a: Inputs, b: Inputs) -> Cross:
        return SumCross(tuple(part.cross(*own) for part, own in self._by_part(a, b)))

    def cached_cov(self, a: Inputs, b: Inputs) -> Callable[[Self], Tensor]:
        caches = [part.cached_cov(*own) for part, own in self._by_part(a, b)]
        return lambda prior: _sum(
            [cache(part) for cache, part in zip(caches, prior.parts, strict=True)]
        )

    def cached_var(self, a: Inputs) -> Callable[[Self], Tensor]:
        own = SumInputs.of(a).parts
        caches = [
            part.cached_var(own_inputs) for part, own_inputs in zip(self.parts, own, strict=True)
        ]
        return lambda prior: _sum(
            [cache(part) for cache, part in zip(caches, prior.parts, strict=True)]
        )

    def products(self, a: Inputs, n_others: int) -> int:
        own = SumInputs.of(a).parts
        return sum(part.products(x, n_others) for part, x in zip(self.parts, own, strict=True))

    def _by_part(self, a: Inputs, b: Inputs) -> list[tuple[Prior, tuple[Inputs, Inputs]]]:
        left, right = SumInputs.of(a).parts, SumInputs.of(b).parts
        # One object for both sides where they are one, which parts make use of.
        pairs = ((x, x if a is b else y) for x, y in zip(left, right, strict=True))
        return list(zip(self.parts, pairs, strict=True))


def _sum(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).sum(0)
