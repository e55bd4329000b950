"""The graph and its features as sparse torch matrices, for methods that multiply with them over
and over. torch's own gradient of such a product is slow, so the transpose is kept at hand.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.graph import Graph

__all__ = ["Field", "SparseMatrix", "normalised_adjacency", "row_normalised"]

with warnings.catch_warnings():
    # Said once in each process, by the first such matrix: that they are in beta.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([]), torch.tensor([]), (1, 1))


class SparseMatrix:
    """A sparse matrix whose places are fixed and whose values may be replaced, by dropout say."""

    def __init__(self, matrix: sp.csr_array, dtype: torch.dtype = torch.float32):
        self.shape = matrix.shape
        self.values = torch.tensor(matrix.data, dtype=dtype)
        self._places = _places(matrix)

    def product(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """``matrix @ dense``, with these values in place of its own."""
        return _csr(self._places, self.values if values is None else values, self.shape) @ dense

    def transposed_product(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """``matrix.T @ dense``, with these values in place of its own."""
        places, order = self._transposed
        values = (self.values if values is None else values).index_select(0, order)
        return _csr(places, values, self.shape[::-1]) @ dense

    def times(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """The product, for torch to differentiate in ``dense`` and, where given, in ``values``."""
        return _Times.apply(self, dense, self.values if values is None else values)

    @cached_property
    def rows(self) -> Tensor:
        """The row of each stored value."""
        starts, _ = self._places
        return torch.repeat_interleave(torch.arange(self.shape[0]), starts.diff())

    @property
    def columns(self) -> Tensor:
        """The column of each stored value."""
        return self._places[1]

    @cached_property
    def _transposed(self) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """The places of the transpose, and where each of its values is among the matrix's."""
        rows, columns = (places.numpy() for places in self._places)
        numbered = sp.csr_array((np.arange(len(columns)), columns, rows), shape=self.shape)
        transpose = sp.csr_array(numbered.T)
        return _places(transpose), torch.tensor(transpose.data, dtype=torch.int32)


class _Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor, values: Tensor) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(dense, values)
        return matrix.product(dense, values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        (grad,), matrix = grads, ctx.matrix
        dense, values = ctx.saved_tensors
        of_dense = of_values = None
        if ctx.needs_input_grad[1]:
            of_dense = matrix.transposed_product(grad, values)
        if ctx.needs_input_grad[2]:
            ends = grad.index_select(0, matrix.rows), dense.index_select(0, matrix.columns)
            of_values = torch.linalg.vecdot(*ends)
        return None, of_dense, of_values


@dataclass(frozen=True)
class Field:
    """What the outputs at some nodes depend on: two hops around them, and nothing else.

    A few labels see a small part of the graph, so an epoch costs a fraction of a pass over it.
    """

    outer: SparseMatrix  # rows of the adjacency at the nodes, columns at their neighbourhood
    inner: SparseMatrix  # rows of the adjacency at that neighbourhood, columns at the next one
    features: SparseMatrix  # rows of X at the latter
    nodes: np.ndarray
    near: np.ndarray  # their neighbourhood, the nodes of the hidden layer
    far: np.ndarray  # the next one

    @classmethod
    def of(
        cls,
        adjacency: sp.csr_array,
        features: sp.csr_array,
        nodes: np.ndarray,
        dtype: torch.dtype = torch.float32,
    ) -> Field:
        outer = adjacency[nodes]
        near = np.unique(outer.indices)
        inner = adjacency[near]
        far = np.unique(inner.indices)
        return cls(
            SparseMatrix(outer[:, near], dtype),
            SparseMatrix(inner[:, far], dtype),
            SparseMatrix(features[far], dtype),
            nodes,
            near,
            far,
        )

    @classmethod
    def of_all(cls, adjacency: sp.csr_array, features: sp.csr_array) -> Field:
        whole = SparseMatrix(adjacency)
        everything = np.arange(adjacency.shape[0])
        return cls(whole, whole, SparseMatrix(features), everything, everything, everything)


def normalised_adjacency(graph: Graph) -> sp.csr_array:
    """D^-1/2 (A + I) D^-1/2, with D the degrees of A + I."""
    scale = sp.diags_array(1.0 / np.sqrt(graph.degrees + 1.0))
    return sp.csr_array(scale @ (graph.adjacency + sp.eye_array(graph.n_nodes)) @ scale)


def row_normalised(features: Any) -> sp.csr_array:
    """Features whose absolute values sum to one in each row; a row of zeros stays zero."""
    features = sp.csr_array(features)
    total = abs(features).sum(axis=1)
    return sp.csr_array(sp.diags_array(1.0 / np.where(total > 0, total, 1.0)) @ features)


def _places(matrix: sp.csr_array) -> tuple[Tensor, Tensor]:
    # Copies, not views: with numpy's alignment in memory, which varies, MKL's last digits vary.
    rows, columns = matrix.indptr, matrix.indices
    return torch.tensor(rows, dtype=torch.int32), torch.tensor(columns, dtype=torch.int32)


def _csr(places: tuple[Tensor, Tensor], values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(*places, values, shape, check_invariants=False)
