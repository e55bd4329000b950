"""Sums of independent functions: h = sum_j h_j, each with a prior of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

    def prepare(self, domain: Domain) -> None:
        for part in self.parts:
            part.prepare(domain)

    def to_learn(self, domain: Domain, nodes: np.ndarray) -> SumInputs:
        return SumInputs(tuple(part.to_learn(domain, nodes) for part in self.parts))

    def freeze(self, inputs: Inputs) -> SumInputs:
        return SumInputs(tuple(part.freeze(*own) for part, own in self._by_part(inputs)))

    def cov(self, a: Inputs, b: Inputs) -> Tensor:
        return _sum([part.cov(*own) for part, own in self._by_part(a, b)])

    def var(self, a: Inputs) -> Tensor:
        return _sum(self.variances(a))

    def variances(self, a: Inputs) -> list[Tensor]:
        """What each part adds to the variances."""
        return [part.var(*own) for part, own in self._by_part(a)]

    def cross(self, a: Inputs, b: Inputs) -> Cross:
        return SumCross(tuple(part.cross(*own) for part, own in self._by_part(a, b)))

    def cached_cov(self, a: Inputs, b: Inputs) -> Callable[[Self], Tensor]:
        return _summed([part.cached_cov(*own) for part, own in self._by_part(a, b)])

    def cached_var(self, a: Inputs) -> Callable[[Self], Tensor]:
        return _summed([part.cached_var(*own) for part, own in self._by_part(a)])

    def products(self, a: Inputs, n_others: int) -> int:
        return sum(part.products(own[0], n_others) for part, own in self._by_part(a))

    def _by_part(self, *inputs: Inputs) -> Iterator[tuple[Prior, tuple[Inputs, ...]]]:
        """Each part, with what the inputs are to it."""
        own = zip(*(SumInputs.of(each).parts for each in inputs), strict=True)
        return zip(self.parts, own, strict=True)


def _summed(caches: list[Callable[[Prior], Tensor]]) -> Callable[[SumPrior], Tensor]:
    return lambda prior: _sum([cache(p) for cache, p in zip(caches, prior.parts, strict=True)])


def _sum(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).sum(0)
