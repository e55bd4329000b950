"""The prior of h as engines see it: one kernel on one kind of bags, whatever filters there are.

Two things make a prior more than a kernel on fixed rows. A spectral filter on the features is a
weighted sum of fixed terms, ``F X = sum_j c_j B_j``, and only the weights depend on its
hyper-parameters: the terms are made once, at the labelled nodes, and filter and kernel are learnt
together. And h may be a sum of independent functions, each with a filter and kernel of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
from torch import Tensor

from nodegp.component import Component
from nodegp.features import LazyRows, Rows
from nodegp.filters import Bags, Filter, SeveralBags, Spectral
from nodegp.filters.hops import Hops, Summed
from nodegp.graph import Graph
from nodegp.kernels import Kernel, Scaled


@dataclass(frozen=True)
class FilteredKernel(Component):
    """k(F x, F x'), with the hyper-parameters of both."""

    kernel: Kernel
    filter: Spectral

    def coefficients(self) -> list[Any] | None:
        return self.kernel.coefficients()


@dataclass(frozen=True)
class SummedKernel(Component):
    """One kernel for each of several functions that are summed."""

    kernels: tuple[Any, ...]


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


class Prior(NamedTuple):
    """A kernel and the nodes it is to be asked about, plain or not."""

    kernel: Any
    bags: Any


def prior_at(
    filter: Filter, kernel: Any, graph: Graph, features: LazyRows, nodes: np.ndarray
) -> Prior:
    """What engines work with to fit h at these nodes."""
    if isinstance(filter, Summed):
        own = kernel.kernels if isinstance(kernel, SummedKernel) else None  # of an earlier fit
        terms = filter.terms(graph)
        parts = [
            prior_at(f, _weighted(kernel) if own is None else own[j], g, features, nodes)
            for j, (_, f, g) in enumerate(terms)
        ]
        return Prior(
            SummedKernel(tuple(part.kernel for part in parts)),
            SeveralBags(tuple(part.bags for part in parts)),
        )
    if is_learnable(filter):
        return Prior(
            FilteredKernel(kernel, filter), BasisBags(filter.basis(graph, features, nodes))
        )
    return Prior(kernel, filter.bags(graph, features, nodes))


def settled(prior: Any, filter: Any, bags: Any) -> tuple[Any, Any, Any]:
    """Kernel, filter and bags with what was learnt in its place and nothing left to be filtered."""
    if isinstance(prior, FilteredKernel):
        kernel, bags = resolved(prior, bags)
        return kernel, prior.filter, bags
    if not isinstance(prior, SummedKernel):
        return prior, filter, bags
    filters = filter.filters if isinstance(filter, Hops) else [None] * len(prior.kernels)
    parts = [
        settled(kernel, own, part)
        for kernel, own, part in zip(prior.kernels, filters, bags.parts, strict=True)
    ]
    kernels, learnt, shown = zip(*parts, strict=True)
    if isinstance(filter, Hops):
        filter = Hops(tuple(learnt))
    return SummedKernel(tuple(kernels)), filter, SeveralBags(tuple(shown))


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


def _weighted(kernel: Kernel) -> Kernel:
    """A kernel whose scale can be learnt: that of each function must find its place."""
    return kernel if "variance" in kernel.free_parameters() else Scaled(kernel)
