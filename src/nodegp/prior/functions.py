"""Priors of one function: its filter on the features, or on the function itself (the paper's)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.features import FeatureRows
from nodegp.filters import Filter, Spectral
from nodegp.kernels import Kernel, Tile
from nodegp.prior.base import Cross, Prior
from nodegp.prior.basis import basis_at
from nodegp.prior.cross import KernelCross, MixedCross, scales
from nodegp.prior.domain import Domain
from nodegp.prior.inputs import Inputs, WeightedRows, cut
from nodegp.prior.rows import BasisRows, FilteredRows
from nodegp.prior.tiles import cached_covariance, cached_variance, covariance, variance
from nodegp.rows import Rows, RowSource, inner_products

__all__ = ["FilteredFeatures", "FilteredFunction", "OneFunction"]

_BLOCK = 64  # of many nodes that are asked for with many others, at a time


@dataclass(frozen=True)
class OneFunction(Prior):
    """A kernel and a filter; see the two kinds below. ``relation`` names the kind of edges."""

    kernel: Kernel
    filter: Filter
    relation: str | None = None

    def where(self, domain: Domain) -> Domain:
        """The nodes with the edges, and in the precision, that this prior takes."""
        view = domain.relation(self.relation)
        # Distances are differences of lengths and inner products, and need their last digits.
        return view if self.kernel.linear_form() is not None else view.precise()

    def cached_cov(self, a: Inputs, b: Inputs) -> Callable[[Self], Tensor]:
        cache = cached_covariance(self.kernel, WeightedRows.of(a), WeightedRows.of(b))
        return lambda prior: cache(prior.kernel)

    def points(self, points: Tensor) -> WeightedRows:
        return WeightedRows(None, Rows(points))

    @abstractmethod
    def by_node(self, domain: Domain, node: int, others: Inputs) -> tuple[np.ndarray, Tensor]:
        """The nodes whose features h at a node is made of, and what each of them adds to its
        covariances with others, (nodes, others). A constant in the kernel is nobody's."""


@dataclass(frozen=True)
class FilteredFunction(OneFunction):
    """h = F f, f ~ GP(0, k): Cov(h, h) = F K F^T (Eq. 11-12), a sum over pairs of neighbours."""

    def free_parameters(self) -> dict[str, float]:
        # The filter is in the weights of the inputs, which are made once: it stays as it is.
        free = self.kernel.free_parameters()
        return {f"kernel.{name}": value for name, value in free.items()}

    def at(self, domain: Domain, nodes: np.ndarray) -> WeightedRows:
        domain = self.where(domain)
        rows = self.filter.weights(domain.graph, nodes)
        if rows is None:
            return WeightedRows(None, domain.rows.select(nodes))
        weights, touched = cut(rows)
        return WeightedRows(weights, domain.gathered(touched))

    def cov(self, a: Inputs, b: Inputs) -> Tensor:
        return covariance(self.kernel, WeightedRows.of(a), WeightedRows.of(b))

    def var(self, a: Inputs) -> Tensor:
        return variance(self.kernel, WeightedRows.of(a))

    def cross(self, a: Inputs, b: Inputs) -> Cross:
        sets, others = WeightedRows.of(a), WeightedRows.of(b)
        if sets.weights is None and others.weights is None:
            return KernelCross(self.kernel, sets.rows, others.in_memory())
        if sets.weights is None:
            return super().cross(a, b)
        return MixedCross(self.kernel, sets, others)

    def cached_var(self, a: Inputs) -> Callable[[Self], Tensor]:
        cache = cached_variance(self.kernel, WeightedRows.of(a))
        return lambda prior: cache(prior.kernel)

    def inducing_candidates(self, domain: Domain) -> RowSource:
        return domain.rows

    def by_node(self, domain: Domain, node: int, others: Inputs) -> tuple[np.ndarray, Tensor]:
        here = self.at(domain, np.array([node]))
        rows, weights = here.rows, torch.from_numpy(here.row_weights().toarray()[0])
        assert isinstance(rows, FeatureRows)
        nodes = np.arange(len(rows)) if rows.index is None else rows.index
        form, own = self.kernel.linear_form(), self.cov(WeightedRows(None, rows), others)
        return nodes, weights[:, None] * (own - (0.0 if form is None else form.constant))


@dataclass(frozen=True)
class FilteredFeatures(OneFunction):
    """h = f(F x), f ~ GP(0, k): the kernel k(F x, F x') of filtered features.

    ``sketch`` is the number of columns that estimate the lengths of filtered rows, if the kernel
    allows it (:mod:`nodegp.prior.lengths`); 0 for exact lengths.
    """

    filter: Spectral
    sketch: int = 0

    def with_exact_lengths(self) -> Self:
        return replace(self, sketch=0)

    def at(self, domain: Domain, nodes: np.ndarray) -> WeightedRows:
        rows = FilteredRows(self.where(domain), self.filter.polynomial(), nodes, self.sketch)
        return WeightedRows(None, rows)

    def prepare(self, domain: Domain) -> None:
        self.where(domain).prepare(self.filter.polynomial(), self.sketch)

    def to_learn(self, domain: Domain, nodes: np.ndarray) -> WeightedRows:
        where, polynomial = self.where(domain), self.filter.polynomial()
        if not self.filter.free_parameters():
            return WeightedRows(None, where.labelled_rows(polynomial, nodes, self.sketch))
        basis = torch.from_numpy(basis_at(where, polynomial, nodes))
        return WeightedRows(None, BasisRows(basis, self.sketch))

    def freeze(self, inputs: Inputs) -> WeightedRows:
        with torch.no_grad():
            return WeightedRows(None, self._in_memory(inputs))

    def cov(self, a: Inputs, b: Inputs) -> Tensor:
        if _is_long(a):
            return self._between_many(WeightedRows.of(a).rows, WeightedRows.of(b).rows)
        if _is_long(b):
            return self.cov(b, a).mT
        left = WeightedRows(None, self._in_memory(a))
        right = left if a is b else WeightedRows(None, self._in_memory(b))
        return covariance(self.kernel, left, right)

    def var(self, a: Inputs) -> Tensor:
        rows = WeightedRows.of(a).rows
        if isinstance(rows, BasisRows):
            rows = self._in_memory(a)
        lengths = rows.squared_norms()
        return self.kernel(Tile(lengths, lengths, lengths))

    def cross(self, a: Inputs, b: Inputs) -> Cross:
        return KernelCross(self.kernel, WeightedRows.of(a).rows, self._in_memory(b))

    def cached_cov(self, a: Inputs, b: Inputs) -> Callable[[Self], Tensor]:
        if isinstance(WeightedRows.of(a).rows, BasisRows):
            return lambda prior: prior.cov(a, b)  # rows that change leave nothing to keep
        return super().cached_cov(a, b)

    def cached_var(self, a: Inputs) -> Callable[[Self], Tensor]:
        if isinstance(WeightedRows.of(a).rows, BasisRows):
            return super().cached_var(a)
        lengths = WeightedRows.of(a).rows.squared_norms()
        return lambda prior: prior.kernel(Tile(lengths, lengths, lengths))

    def products(self, a: Inputs, n_others: int) -> int:
        rows = WeightedRows.of(a).rows
        return rows.products(n_others) if isinstance(rows, FilteredRows) else 0

    def inducing_candidates(self, domain: Domain) -> RowSource:
        n_rows = min(domain.n_nodes, max(budget.sample // max(domain.n_columns, 1), 1))
        nodes = np.linspace(0, domain.n_nodes - 1, n_rows).astype(np.intp)
        return self.at(domain, nodes).rows

    def by_node(self, domain: Domain, node: int, others: Inputs) -> tuple[np.ndarray, Tensor]:
        domain, form = self.where(domain), self.kernel.linear_form()
        place = np.array([node])
        here, right = self.at(domain, place), self._in_memory(others)
        if form is None:  # of mixed features, nobody can say whose they were
            return place, self.cov(here, others)
        weights, nodes = cut(self.filter.weights(domain.graph, place))
        inner = inner_products(domain.rows.take(nodes), right)
        inner *= scales(form, right.squared_norms()) * scales(form, here.rows.squared_norms())
        return nodes, inner * torch.from_numpy(weights.toarray()[0])[:, None]

    def _in_memory(self, inputs: Inputs) -> Rows:
        """The rows at the present hyper-parameters."""
        rows = WeightedRows.of(inputs).rows
        if isinstance(rows, BasisRows):
            return rows.weighted(self.filter.coefficients())
        return WeightedRows.of(inputs).in_memory()

    @torch.no_grad()
    def _between_many(self, left: RowSource, right: RowSource) -> Tensor:
        """Covariances of many nodes with many others, whose rows are made a few at a time."""
        assert isinstance(left, FilteredRows)
        lengths = left.squared_norms()[:, None]
        result = torch.empty(len(left), len(right), dtype=torch.float64)
        for block in blocks(len(right), 1, _BLOCK):
            index = np.arange(block.start, block.stop)
            rows = WeightedRows(None, right.take(index)).in_memory()
            inner = torch.from_numpy(left.domain.inner_at(left.polynomial, rows, left.nodes))
            tile = Tile(inner.double(), lengths, rows.squared_norms()[None, :])
            result[:, block] = self.kernel(tile)
        return result


def _is_long(inputs: Inputs) -> bool:
    rows = WeightedRows.of(inputs).rows
    return isinstance(rows, FilteredRows) and not rows.may_be_made
