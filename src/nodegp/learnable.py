"""Filters whose hyper-parameters are learnt together with the kernel's.

A spectral filter on the features is a weighted sum of fixed terms, ``F X = sum_j c_j B_j``, and its
hyper-parameters are in the weights alone. So the terms are made once, at the labelled nodes, and
filter and kernel change together: to the engines they look like a kernel on bags of another kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.features import Rows
from nodegp.filters import Bags, Spectral
from nodegp.kernels import Kernel


@dataclass(frozen=True)
class FilteredKernel(Component):
    """k(F x, F x'), with the hyper-parameters of both."""

    kernel: Kernel
    filter: Spectral

    def coefficients(self) -> list[Any] | None:
        return self.kernel.coefficients()


@dataclass(frozen=True, eq=False)
class BasisBags:
    """Nodes whose rows are yet to be weighted by a filter's coefficients."""

    basis: Tensor  # (terms, n, D)

    def __len__(self) -> int:
        return self.basis.shape[1]

    def take(self, index: np.ndarray) -> BasisBags:
        return BasisBags(self.basis[:, torch.from_numpy(index)])

    def in_memory(self) -> BasisBags:
        return self

    def by(self, filter: Spectral) -> Bags:
        """The nodes as a filter shows them, differentiable in its hyper-parameters."""
        return Bags(None, Rows(torch.tensordot(filter.coefficients(), self.basis, 1)))


def is_learnable(filter: Any) -> TypeGuard[Spectral]:
    """Whether a filter has hyper-parameters to learn, and in a form that allows it."""
    if not isinstance(filter, Spectral) or filter.on != "features":
        return False
    return bool(filter.free_parameters())


def resolved(kernel: Any, *bags: Any) -> tuple[Any, ...]:
    """A plain kernel and plain bags: what is yet to be filtered is."""
    if not isinstance(kernel, FilteredKernel):
        return kernel, *bags
    shown = (b.by(kernel.filter) if isinstance(b, BasisBags) else b for b in bags)
    return kernel.kernel, *shown
