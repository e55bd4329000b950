"""A filter as a linear map of whatever the nodes of one graph have, their hidden values too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nodegp.features import LazyRows, Rows
from nodegp.filters import Filter, Spectral
from nodegp.filters.hops import Summed
from nodegp.filters.propagation import Terms
from nodegp.filters.rows import LARGEST
from nodegp.graph import Graph
from nodegp.linalg import sparse_matmul


class Spread:
    """A filter F on a graph, applied to what goes into a layer.

    Its hyper-parameters stay as they are, and whether it was meant for features or function makes
    no difference here.
    """

    def __init__(self, filter: Filter, graph: Graph):
        if isinstance(filter, Summed):
            raise ValueError(
                f"{type(filter).__name__} sums several functions, and a layer of a stack has one "
                "filter; give one of its filters"
            )
        self._graph, self._nodes = graph, np.arange(graph.n_nodes)
        self._weights = None
        if isinstance(filter, Spectral):
            filter = replace(filter, on="features")
        else:  # the rows of a spectral one would reach nearly everywhere
            self._weights = filter.weights(graph, self._nodes)
        self._filter = filter

    def features(self, rows: LazyRows) -> Tensor:
        """All nodes' filtered features, dense."""
        n_columns = rows.raw.shape[1]
        if self._graph.n_nodes * n_columns > LARGEST:
            raise ValueError(
                f"the features of {self._graph.n_nodes} nodes are too many to hold as a dense "
                f"matrix ({n_columns} columns); bring them to fewer columns first, for instance "
                "with TruncatedSVD of scikit-learn"
            )
        bags = self._filter.bags(self._graph, rows, self._nodes).in_memory()
        assert isinstance(bags.rows, Rows)
        shown = bags.rows if bags.weights is None else bags.rows.combined(bags.weights)
        if not shown.is_sparse:
            return torch.as_tensor(shown.values)
        dense = shown.values.toarray()
        return torch.from_numpy(dense if shown.centre is None else dense - shown.centre)

    def __call__(self, values: Tensor) -> Tensor:
        """F @ values for values (N, W), differentiable."""
        if not isinstance(self._filter, Spectral):
            return values if self._weights is None else sparse_matmul(self._weights, values)
        terms = Terms(self._filter.order, self._filter.self_loops)
        if self._filter.hub_discount > 0:
            values = values * torch.from_numpy(self._filter._terms.discounts(self._graph))[:, None]
        # An averaged filter has one more, for a node's own values, before these.
        coefficients = self._filter.coefficients().tolist()[-len(terms) :]
        spectral = _Symmetric.apply(values, self._graph, terms, coefficients)
        if not self._filter.averaged:
            return spectral
        passed = torch.from_numpy(1.0 / (1.0 + self._graph.degrees))[:, None]
        return (1.0 - passed) * values + passed * spectral  # Eq. 15


class _Symmetric(torch.autograd.Function):
    """A polynomial of the normalised Laplacian times columns; it is its own transpose."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, graph: Graph, terms: Terms, coefficients: Sequence[float]
    ) -> Tensor:
        ctx.operator = graph, terms, coefficients
        columns = np.ascontiguousarray(values.detach().numpy())
        return torch.from_numpy(terms.sum_of_columns(graph, coefficients, columns))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return _Symmetric.apply(gradients[0], *ctx.operator), None, None, None
