"""A filter as a linear map of whatever the nodes of one graph have, their hidden values too."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nodegp.filters import AdditiveFilter, Filter, Spectral
from nodegp.graph import Graph
from nodegp.linalg import sparse_matmul
from nodegp.operators import GraphOperator, operator_of
from nodegp.prior import Domain
from nodegp.propagation import FilterPolynomial, propagate

__all__ = ["Spread"]

_LARGEST = 1 << 28  # entries of the features as a dense matrix: 2 GiB


class Spread:
    """A filter F on a graph, applied to what goes into a layer.

    Its hyper-parameters stay as they are, and whether it was meant for features or function makes
    no difference here.
    """

    def __init__(self, filter: Filter, graph: Graph):
        if isinstance(filter, AdditiveFilter):
            raise ValueError(
                f"{type(filter).__name__} sums several functions, and a layer of a stack has one "
                "filter; give one of its filters"
            )
        self._graph = graph
        self._weights = None
        self._polynomial: FilterPolynomial | None = None
        if isinstance(filter, Spectral):
            self._polynomial = filter.polynomial()
            self._operator = operator_of(graph, filter.self_loops)
        else:  # the rows of a spectral one would reach nearly everywhere
            self._weights = filter.weights(graph, np.arange(graph.n_nodes))

    def features(self, domain: Domain) -> Tensor:
        """All nodes' filtered features, dense."""
        if domain.n_nodes * domain.n_columns > _LARGEST:
            raise ValueError(
                f"the features of {domain.n_nodes} nodes are too many to hold as a dense "
                f"matrix ({domain.n_columns} columns); bring them to fewer columns first, for "
                "instance with TruncatedSVD of scikit-learn"
            )
        rows = domain.rows.materialise()
        if self._polynomial is not None:
            columns = rows.dense().astype(domain.rows.precision, copy=False)
            filtered = propagate(self._operator, self._polynomial, columns)
            return torch.from_numpy(filtered).double()
        return torch.from_numpy(
            (rows if self._weights is None else rows.combined(self._weights)).dense()
        )

    def __call__(self, values: Tensor) -> Tensor:
        """F @ values for values (N, W), differentiable."""
        if self._polynomial is None:
            return values if self._weights is None else sparse_matmul(self._weights, values)
        polynomial = self._polynomial
        if polynomial.hub_discount > 0:
            discounts = polynomial.discounts(self._operator)
            values = values * torch.from_numpy(discounts)[:, None]
        # An averaged filter has one more, for a node's own values, before these.
        spectral = FilterPolynomial(
            polynomial.coefficients[polynomial.averaged :], polynomial.self_loops
        )
        carried = _Symmetric.apply(values, self._operator, spectral)
        if not polynomial.averaged:
            return carried
        passed = torch.from_numpy(1.0 / (1.0 + self._graph.degrees))[:, None]
        return (1.0 - passed) * values + passed * carried  # Eq. 15


class _Symmetric(torch.autograd.Function):
    """A polynomial of the normalised Laplacian times columns; it is its own transpose."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, operator: GraphOperator, polynomial: FilterPolynomial
    ) -> Tensor:
        ctx.operator = operator, polynomial
        columns = np.ascontiguousarray(values.detach().numpy())
        return torch.from_numpy(propagate(operator, polynomial, columns))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _Symmetric.apply(gradients[0], *ctx.operator), None, None
