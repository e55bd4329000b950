"""The graph Gaussian process as a GPyTorch kernel, for models that are written in GPyTorch.

:class:`GraphKernel` takes node numbers and gives the covariance of h = F f, with f a Gaussian
process on the nodes' features under any GPyTorch kernel. It is the prior of our own estimators
and nothing more: likelihood, inference and prediction are GPyTorch's. Needs the extra ``interop``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nodegp.budget import blocks, budget
from nodegp.component import as_component
from nodegp.extras import to_install
from nodegp.filters import AdditiveFilter, Filter, NeighbourMean
from nodegp.graph import Graph, check_nodes
from nodegp.kernels import Linear
from nodegp.preprocessing import Preprocessing
from nodegp.prior import Domain, WeightedRows, make_prior

try:
    import gpytorch
except ImportError as error:
    raise ImportError(
        f"nodegp_paper.gpytorch needs gpytorch: {to_install('interop')}", name=error.name
    ) from error

__all__ = ["GraphKernel"]


class GraphKernel(gpytorch.kernels.Kernel):
    """Covariance between the nodes of a graph: ``F k(X, X) F^T``, Eq. 12.

    Parameters
    ----------
    graph : Graph
    base_kernel : gpytorch.kernels.Kernel
        On the features. Its hyper-parameters are the only ones; their precision and device are
        those of the answer.
    filter : "mean" (the paper's neighbourhood mean), "identity", or a Filter
    preprocessing : str
        Of the features, as in GraphGPClassifier.
    active_dims : tuple of int, optional
        Which column of the inputs holds the node numbers, where there are others.

    Notes
    -----
    Inputs are node numbers, shape (n,) or (..., n, 1). Pass them as floats: GPyTorch's ``ZeroMean``
    and ``VariationalStrategy`` take a precision from their inputs. Integers work with the rest.
    Inducing points are nodes too and cannot be learnt: ``learn_inducing_locations=False``.

    Only the rows of features that the asked nodes touch are used; those are made dense.
    """

    def __init__(
        self,
        graph: Graph,
        base_kernel: gpytorch.kernels.Kernel,
        filter: Filter | str = "mean",
        preprocessing: str = "auto",
        active_dims: tuple[int, ...] | None = None,
    ):
        super().__init__(active_dims=active_dims)
        if not isinstance(graph, Graph):
            raise TypeError(f"graph must be a nodegp.Graph, got a {type(graph).__name__}")
        if not isinstance(base_kernel, gpytorch.kernels.Kernel):
            kind = f"{type(base_kernel).__module__}.{type(base_kernel).__name__}"
            raise TypeError(f"base_kernel must be a GPyTorch kernel, got a {kind}")
        self.base_kernel = base_kernel
        self.graph = graph
        self.filter = as_component(filter or NeighbourMean(), Filter, "filter")
        if isinstance(self.filter, AdditiveFilter):
            raise TypeError(f"a GraphKernel takes the filter of one function, not {self.filter!r}")
        wish = Preprocessing(preprocessing, center=False, weights="l2")
        preprocessor = wish.fit(graph.features, graph.n_nodes, graph.is_prepared)
        self._domain = Domain(graph, preprocessor)
        # What h is made of at a node; the kernel on that is GPyTorch's, not the prior's own.
        self._prior = make_prior(self.filter, Linear(), self._domain)

    def __call__(self, x1: Tensor, x2: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        # GPyTorch evaluates later, at a place that tells nobody which input was wrong, and an
        # error there leaves a kernel without its active_dims: so look at the inputs now.
        for x in (x1, x2):
            if x is not None:
                column = x if self.active_dims is None else x.index_select(-1, self.active_dims)
                _node_numbers(column if x.ndim > 1 else x[:, None], self.graph.n_nodes)
        return super().__call__(x1, x2, *args, **kwargs)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """The covariance matrix, or with ``diag`` only that of each pair ``x1[i], x2[i]``."""
        if diag:
            x1, x2 = torch.broadcast_tensors(x1, x2)
        left = self._side(x1)
        right = left if torch.equal(x1, x2) else self._side(x2)
        return (self._pairwise if diag else self._crosswise)(left, right, params)

    def _side(self, x: Tensor) -> _Side:
        nodes = _node_numbers(x, self.graph.n_nodes)
        sets = WeightedRows.of(self._prior.at(self._domain, nodes))
        like = next(self.base_kernel.parameters(), torch.zeros((), device=x.device))
        rows = torch.from_numpy(sets.in_memory().dense()).to(like)
        return _Side(x.shape[:-1], sets.row_weights(), rows)

    def _crosswise(self, left: _Side, right: _Side, params: dict[str, Any]) -> Tensor:
        """W_left k W_right^T, in blocks of left rows whose part of k fits in memory."""

        def one_block(rows: Tensor) -> Tensor:
            return right.mix(self.base_kernel(rows, right.rows, **params).to_dense().mT).mT

        width = max(len(right.rows), 1) * self.base_kernel.batch_shape.numel()
        rows = [(block,) for block in left.rows.split(max(budget.fit // width, 1))]
        return left.mix(torch.cat(_each(one_block, rows), dim=-2))

    def _pairwise(self, left: _Side, right: _Side, params: dict[str, Any]) -> Tensor:
        """Covariance of the i-th node on the left with the i-th on the right."""
        batch = self.base_kernel.batch_shape
        sizes = np.stack([np.diff(side.weights.indptr) for side in (left, right)], axis=1)
        kinds, kind = np.unique(sizes, axis=0, return_inverse=True)
        members, values = [np.zeros(0, np.int64)], [left.rows.new_zeros(0, *batch)]
        for which, (a, b) in enumerate(kinds.tolist()):
            same = np.flatnonzero(kind.ravel() == which)  # bags of one size stack without padding
            width = max(a * b * batch.numel(), (a + b) * left.rows.shape[1], 1)
            for block in blocks(len(same), width, budget.fit):
                members.append(same[block])
                values.append(self._stacked(left, right, same[block], params))
        flat = torch.cat(values)[np.argsort(np.concatenate(members))]  # (nodes, *batch)
        # Batches of nodes and of base kernels broadcast: of all their pairs take those that meet.
        *outer, n = left.shape
        shape = torch.broadcast_shapes(outer, batch)
        n_outer = int(np.prod(outer))
        nodes = torch.arange(n_outer).view(outer).expand(shape)
        kernels = torch.arange(batch.numel()).view(batch).expand(shape)
        return flat.view(n_outer, n, batch.numel())[nodes, :, kernels]

    def _stacked(
        self, left: _Side, right: _Side, bags: np.ndarray, params: dict[str, Any]
    ) -> Tensor:
        """The covariances of some pairs of bags, all of one size on each side."""
        batch = self.base_kernel.batch_shape
        (x, w), (y, v) = left.stack(bags), right.stack(bags)
        # The base kernel's batch comes after ours, so that each bag meets every kernel.
        x, y = (rows.view(len(rows), *[1] * len(batch), *rows.shape[1:]) for rows in (x, y))

        def share(rows: Tensor, weights: Tensor) -> Tensor:
            k = self.base_kernel(rows, y, **params).to_dense()
            return torch.einsum("ri,r...ij,rj->r...", weights, k, v)

        # One hub alone may have more pairs than fit in memory.
        step = max(budget.fit // max(y.shape[-2] * batch.numel(), 1), 1)
        parts = zip(x.split(step, dim=-2), w.split(step, dim=-1), strict=True)
        return torch.stack(_each(share, list(parts))).sum(0)


@dataclass(frozen=True)
class _Side:
    """One side of a covariance: bags of feature rows, ``h_r = sum_t weights[r, t] f(rows[t])``."""

    shape: torch.Size  # (..., n): the nodes as they were asked for
    weights: sp.csr_array  # (R, T), R nodes in all
    rows: Tensor  # (T, D)

    def mix(self, values: Tensor) -> Tensor:
        """``weights @ values``, (..., T, M) to (..., n, M)."""
        if len(self.shape) > 1:
            dense = torch.from_numpy(self.weights.toarray()).to(values)
            return dense.view(*self.shape, -1) @ values
        entries = self.weights.tocoo()
        indices, data = torch.from_numpy(np.stack(entries.coords)), torch.from_numpy(entries.data)
        weights = torch.sparse_coo_tensor(indices, data, entries.shape, check_invariants=False)
        first = values.movedim(-2, 0)
        mixed = torch.sparse.mm(weights.to(values), first.flatten(1))
        return mixed.view(len(mixed), *first.shape[1:]).movedim(0, -2)

    def stack(self, members: np.ndarray) -> tuple[Tensor, Tensor]:
        """The rows (R, S, D) and weights (R, S) of bags that all have S rows."""
        start, stop = self.weights.indptr[members], self.weights.indptr[members + 1]
        entry = start[:, None] + np.arange(stop[0] - start[0])
        rows = self.rows[torch.from_numpy(self.weights.indices[entry]).long()]
        return rows, torch.from_numpy(self.weights.data[entry]).to(rows)


def _each(function: Callable[..., Tensor], blocks: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """The function of each block. Gradients would keep every one of many: they are made again."""
    if len(blocks) > 1 and torch.is_grad_enabled():
        return [checkpoint(function, *block, use_reentrant=False) for block in blocks]
    return [function(*block) for block in blocks]


def _node_numbers(x: Tensor, n_nodes: int) -> np.ndarray:
    """The node numbers in inputs (..., n, 1), in one row."""
    if x.shape[-1] != 1:
        raise ValueError(
            f"a GraphKernel takes one column of node numbers, got {x.shape[-1]} columns; "
            "say which of them it is with active_dims=(0,)"
        )
    if x.dtype == torch.bool:
        raise ValueError("a GraphKernel takes node numbers, not a mask: use mask.nonzero()")
    numbers = x.detach().flatten().cpu()
    whole = numbers.long()
    if (wrong := whole != numbers).any():
        raise ValueError(f"node numbers must be whole, got {numbers[wrong][0].item()}")
    nodes = check_nodes(whole.numpy(), n_nodes)
    if numbers.is_floating_point() and nodes.max(initial=0) >= 2.0 / torch.finfo(numbers.dtype).eps:
        raise ValueError(
            f"{numbers.dtype} cannot tell node {nodes.max()} from the next; pass node numbers as "
            "float64 or integers"
        )
    return nodes
