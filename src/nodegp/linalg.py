"""Cholesky factorisation with jitter, and products with sparse matrices that torch can
differentiate. This is the only home of jitter: whatever is added to a diagonal for the sake of
numbers is added here. A noise that belongs to a model is the caller's, and handed over.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

__all__ = [
    "JITTERS",
    "NotPositiveDefiniteError",
    "QuadraticForms",
    "by_threads",
    "check_finite",
    "cholesky",
    "column_spans",
    "index_type",
    "inverse_roots",
    "not_positive_definite",
    "one_column_product",
    "one_numpy_thread",
    "ridge_inverse",
    "solve_least_squares",
    "sparse_matmul",
    "sparse_product",
    "threads_for",
    "torch_sparse",
    "weighted_gram",
]

# Relative to the mean of the diagonal. The first is always added, so that the factor is a
# smooth function of the hyper-parameters; the rest are tried in turn when it is not enough.
JITTERS = {
    torch.float64: (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4),
    torch.float32: (1e-5, 1e-4, 1e-3),
}


# Of the trace, where a system of equations may be singular and any of its solutions will do.
_LEAST_SQUARES_JITTER = 1e-10
_ONE_THREAD = 256
_NODES = 8  # that values are carried between in about the time of one more row of a matrix
_ROWS = 2048  # of a long matrix that are multiplied at a time: they stay in the cache
_WORTH_A_THREAD = 112  # rows from which on a factorisation takes longer than starting a thread
# On some processors with AVX-512, MKL sums the rows of a sparse matrix in another order where it is
# multiplied with few columns whose number is a multiple of this.
_UNLIKE, _MOST_UNLIKE = 4, 32
_spare: ContextVar[int] = ContextVar("spare", default=1)  # threads of torch that are not in use


class NotPositiveDefiniteError(ValueError):
    """A covariance matrix that no reasonable jitter makes positive definite."""


def cholesky(matrix: Tensor, what: str = "covariance matrix") -> tuple[Tensor, float]:
    """Lower Cholesky factor of ``matrix`` plus jitter, and the jitter that was added."""
    diagonal = check_finite(matrix, what).detach().diagonal()
    scale = float(diagonal.mean()) if len(diagonal) else 1.0
    for relative in JITTERS[matrix.dtype]:
        jitter = relative * (scale if scale > 0 else 1.0)
        factor, failed = torch.linalg.cholesky_ex(_plus_diagonal(matrix, jitter))
        if not failed:
            return factor, jitter
    raise not_positive_definite(matrix, what, f"even with jitter {jitter:.1e}")


def solve_least_squares(gram: Tensor, right: Tensor) -> Tensor:
    """The solution of normal equations whose matrix may be singular, or zero."""
    jitter = _LEAST_SQUARES_JITTER * gram.trace() + 1e-300
    return torch.linalg.solve(_plus_diagonal(gram, jitter), right)


def ridge_inverse(matrix: Tensor, ridge: float | Tensor) -> Tensor:
    """``(matrix + ridge I)^-1`` of one covariance or several, with the ridge that a regression is
    meant to have."""
    if matrix.ndim > 2:  # one at a time: torch's factorisation of several goes wrong on two threads
        (inverses,) = by_threads(
            lambda some: (torch.stack([ridge_inverse(each, ridge) for each in some]),), matrix
        )
        return inverses
    ridged = _plus_diagonal(matrix, ridge)
    factor, failed = torch.linalg.cholesky_ex(ridged)
    # Rounding may leave a covariance with a small ridge without a factor; it has an inverse then.
    return torch.linalg.inv(ridged) if failed else torch.cholesky_inverse(factor)


def by_threads(
    function: Callable[[Tensor], tuple[Tensor, ...]], matrices: Tensor
) -> tuple[Tensor, ...]:
    """A function of several square matrices, (B, n, n), that takes each for itself: on as many
    threads as torch had before :func:`threads_for` left it one, if there is enough to do. Each
    matrix has one thread, so that numbers are the same to the bit."""
    n_threads = min(_spare.get(), len(matrices))
    if n_threads < 2 or matrices.shape[-1] < _WORTH_A_THREAD or torch.is_grad_enabled():
        return function(matrices)

    def without_gradients(some: Tensor) -> tuple[Tensor, ...]:
        torch.set_num_threads(1)  # or torch would keep more threads for each of these
        with torch.no_grad():  # which is a thread's own
            return function(some)

    first, *others = matrices.tensor_split(n_threads)
    waiting = [_pool(n_threads - 1).submit(without_gradients, some) for some in others]
    parts = [function(first), *(each.result() for each in waiting)]
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, "factorising")


if hasattr(os, "register_at_fork"):  # a forked process has none of these threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _plus_diagonal(matrix: Tensor, value: float | Tensor) -> Tensor:
    return matrix + value * torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def check_finite(matrix: Tensor, what: str = "covariance of the labelled nodes") -> Tensor:
    """The matrix itself, or an error that says why it cannot be used."""
    if not torch.isfinite(matrix.detach()).all():
        raise NotPositiveDefiniteError(
            f"the {what} has NaN or infinite entries: the kernel overflowed. Scale the features "
            "(preprocessing='l2' or 'standardise') or lower the kernel's variance or degree."
        )
    return matrix


def not_positive_definite(matrix: Tensor, what: str, tried: str) -> NotPositiveDefiniteError:
    """The error for a matrix that does not factorise, with the cause."""
    matrix = matrix.detach().double()
    smallest = float(torch.linalg.eigvalsh(matrix)[0])
    return NotPositiveDefiniteError(
        f"the {what} ({len(matrix)} x {len(matrix)}) does not factorise {tried} "
        f"(smallest eigenvalue {smallest:.2e}, mean diagonal {matrix.diagonal().mean():.2e}). "
        "Its kernel is not positive definite at these hyper-parameters, or its entries span too "
        "many orders of magnitude: use dtype='float64', scale the features, or fix the "
        "hyper-parameters to smaller values."
    )


def inverse_roots(squares: Tensor) -> Tensor:
    """1 / sqrt, and zero for what is zero, where it has no gradient either; numbers that are hardly
    distinguishable from zero count as such, or the product of two roots would be infinite."""
    smallest = torch.finfo(squares.dtype).tiny
    return torch.where(squares >= smallest, squares, torch.inf).rsqrt()


@contextmanager
def threads_for(size: int, n_nodes: int = 0) -> Iterator[None]:
    """One torch thread for the block if matrices of this size are all it factorises, and so many
    nodes all that it says something of; and one of numpy's in any case.

    Small factorisations gain nothing from a second thread, and on a machine that is busy with
    something else they lose a factor of five or more to threads waiting for one another.
    """
    threads = torch.get_num_threads()
    with one_numpy_thread():
        if max(size, n_nodes // _NODES) > _ONE_THREAD or threads == 1:
            yield
            return
        torch.set_num_threads(1)  # or torch would keep more threads for each of these
        token = _spare.set(threads)
        try:
            yield
        finally:
            _spare.reset(token)
            torch.set_num_threads(threads)


@contextmanager
def one_numpy_thread() -> Iterator[None]:
    """One thread for numpy's products, in a block or, as a decorator, in a function.

    Threads of its library go on looking for work for a while after each product, on the processors
    that torch wants then: a few milliseconds at every change from one to the other.
    """
    with _numpy_threads().limit(limits=1, user_api="blas"):
        yield


@cache
def _numpy_threads() -> ThreadpoolController:
    return ThreadpoolController().select(internal_api="openblas")


def sparse_matmul(matrix: sp.csr_array, dense: Tensor) -> Tensor:
    """``matrix @ dense`` for a constant scipy matrix, differentiable in ``dense``."""
    return _SparseMatmul.apply(dense, matrix)


class QuadraticForms:
    """``w^T S_l w`` for symmetric matrices S (L, M, M) and many rows w: products with their upper
    triangles alone, little more than half of the operations."""

    def __init__(self, symmetric: Tensor):
        self._n_forms = len(symmetric)
        # Twice what is above the diagonal stands for both halves; all forms side by side.
        upper = (2.0 * symmetric).triu(1)
        upper.diagonal(dim1=1, dim2=2).copy_(symmetric.diagonal(dim1=1, dim2=2))
        self._parts = [
            (a, b, upper[:, :b, a:b].transpose(0, 1).flatten(1))
            for a, b in column_spans(symmetric.shape[1])
        ]

    def __call__(self, rows: Tensor) -> Tensor:
        """(n, M) -> (n, L)."""
        total = rows.new_zeros(len(rows), self._n_forms)
        for a, b, upper in self._parts:
            product = (rows[:, :b] @ upper).view(len(rows), self._n_forms, b - a)
            total += product.mul_(rows[:, None, a:b]).sum(2)
        return total


def weighted_gram(rows: Tensor, weights: Tensor) -> Tensor:
    """``rows^T diag(weights) rows``, of which half is worked out: it is symmetric."""
    n_columns = rows.shape[1]
    result = rows.new_zeros(n_columns, n_columns)
    for some, own in zip(rows.split(_ROWS), weights.split(_ROWS), strict=True):
        weighted = some * own[:, None]
        for a, b in column_spans(n_columns):
            result[a:b, :b].addmm_(weighted[:, a:b].mT, some[:, :b])
    return result.tril() + result.tril(-1).mT


def column_spans(n: int) -> list[tuple[int, int]]:
    """A triangle's columns in up to eight parts: with more, products are too small to be fast."""
    step = max(-(-n // 8), 48)
    return [(a, min(a + step, n)) for a in range(0, n, step)]


class _SparseMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: sp.csr_array) -> Tensor:
        ctx.matrix = matrix
        return _product(matrix, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _product(sp.csr_array(ctx.matrix.T), grads[0]), None


def _product(matrix: sp.csr_array, dense: Tensor) -> Tensor:
    values = np.ascontiguousarray(dense.detach().cpu().numpy())
    product = matrix.astype(values.dtype, copy=False) @ values
    return torch.from_numpy(np.ascontiguousarray(product)).to(dense.device)


with warnings.catch_warnings():
    # Said once in each process, by the first such matrix: that they are in beta.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([]), torch.tensor([]), (1, 1))


def sparse_product(
    matrix: Tensor, columns: Tensor, times: float = 1.0, subtract: Tensor | None = None
) -> Tensor:
    """``times * matrix @ columns - subtract`` for a sparse matrix of torch's. The memory of
    ``subtract`` may be reused for the result. A column's result does not depend on which others
    there are."""
    if columns.dtype == torch.float32 and columns.shape[1]:
        product = _sum_of_rows(matrix, columns, times)
        return product if subtract is None else torch.sub(product, subtract, out=subtract)
    n_columns = columns.shape[1]
    if n_columns % _UNLIKE == 0 and n_columns < _MOST_UNLIKE:
        beside = None if subtract is None else pad(subtract, (0, 1))
        wider = sparse_product(matrix, pad(columns, (0, 1)), times, beside)
        return wider[:, :n_columns].contiguous()
    if subtract is not None:
        return subtract.addmm_(matrix, columns, beta=-1.0, alpha=times)
    result = columns.new_empty(matrix.shape[0], n_columns)
    return torch.addmm(result, matrix, columns, beta=0.0, alpha=times, out=result)


def _sum_of_rows(matrix: Tensor, columns: Tensor, times: float) -> Tensor:
    """``times * matrix @ columns`` as what it is, weighted sums of rows: what torch has for lookups
    in tables of embeddings takes half the time of its product with a sparse matrix."""
    weights = matrix.values()
    return embedding_bag(
        matrix.col_indices(),
        columns,
        matrix.crow_indices(),
        mode="sum",
        per_sample_weights=weights if times == 1.0 else weights * times,
        include_last_offset=True,
    )


def one_column_product(
    matrix: sp.csr_array, column: Tensor, times: float, subtract: Tensor | None
) -> Tensor:
    """``times * matrix @ column - subtract`` of one column, (N, 1): too little for two threads to
    meet over."""
    product = torch.from_numpy(matrix @ column.numpy()[:, 0])[:, None]
    product *= times
    return product if subtract is None else product.sub_(subtract)


def index_type(matrix: sp.csr_array) -> torch.dtype:
    """The smaller whole numbers are faster, as long as they can count the entries."""
    return torch.int32 if matrix.nnz < 2**31 else torch.int64


def torch_sparse(matrix: sp.csr_array, dtype: torch.dtype) -> Tensor:
    """A sparse matrix for torch, whose products with dense columns use all threads and are several
    times as fast as scipy's."""
    # Copies, not views: with numpy's alignment in memory, which varies, the last digits of MKL's
    # products vary.
    return torch.sparse_csr_tensor(
        torch.tensor(matrix.indptr, dtype=index_type(matrix)),
        torch.tensor(matrix.indices, dtype=index_type(matrix)),
        torch.tensor(matrix.data, dtype=dtype),
        matrix.shape,
        check_invariants=False,
    )
