"""Covariances between weighted sets of feature rows, in tiles of bounded size.

``Cov(a, b) = W_a k(X_a, X_b) W_b^T`` (Eq. 11-12 and 16), so that neither a hub nor a large graph
needs its square in memory. All are differentiable in the kernel's hyper-parameters and in inducing
points. A polynomial kernel's covariance is ``sum_k a_k S_k`` with ``S_k = W_a G^(ok) W_b^T``, the
element-wise powers of the Gram matrix: those are what a fit keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nodegp.budget import blocks, budget
from nodegp.kernels import Kernel, Tile
from nodegp.linalg import sparse_matmul
from nodegp.prior.inputs import WeightedRows
from nodegp.rows import (
    Rows,
    inner_products,
    inner_products_ragged,
    inner_products_stacked,
    ragged_pairs,
)

__all__ = ["cached_covariance", "cached_variance", "covariance", "variance"]

Elementwise = Callable[[Tile], list[Tensor]]


def covariance(kernel: Kernel, a: WeightedRows, b: WeightedRows) -> Tensor:
    """Cov(a, b), shape (len(a), len(b)): Eq. 12 between nodes, Eq. 16 with inducing points."""
    coefficients = kernel.coefficients()
    if coefficients is None or len(coefficients) > 2:
        return _filtered(lambda tile: [kernel(tile)], a, b)[0]
    constant, slope = [*coefficients, 0.0][:2]
    product = slope * _power_one(a, b)
    if isinstance(constant, Tensor) or constant != 0:
        product = product + constant * _power_zero(a, b)
    return product


def variance(kernel: Kernel, a: WeightedRows) -> Tensor:
    """Var of each set, shape (len(a),): the diagonal of Eq. 12 without the rest."""
    coefficients = kernel.coefficients()
    if coefficients is not None and len(coefficients) <= 2:
        return _combine(coefficients, _low_powers_within(a))
    return _within(lambda tile: [kernel(tile)], _set_tiles(a), len(a))[0]


@torch.no_grad()
def cached_covariance(
    kernel: Kernel, a: WeightedRows, b: WeightedRows
) -> Callable[[Kernel], Tensor]:
    """Cov(a, b) for fixed sets, asked for again and again with other hyper-parameters.

    A polynomial kernel takes a few sums each time. For others the Gram matrix is kept while it is
    small.
    """
    # One object if they are one: the gradient of X X^T then takes half the time.
    left = a.materialise()
    right = left if b is a else b.materialise()
    coefficients = kernel.coefficients()
    if coefficients is not None:
        powers = [_power_zero(left, right), _power_one(left, right)]
        degree = len(coefficients) - 1
        if degree >= 2:
            powers += _filtered(lambda t: _higher_powers(t, degree), left, right)
        return lambda kernel: _combine(kernel.coefficients(), powers)
    if len(a.rows) * len(b.rows) > budget.fit:
        return lambda kernel: covariance(kernel, left, right)
    tile = _tile(right.in_memory(), left.in_memory())
    return lambda kernel: _mix(left.weights, _mix(right.weights, kernel(tile)).mT)


@torch.no_grad()
def cached_variance(kernel: Kernel, a: WeightedRows) -> Callable[[Kernel], Tensor]:
    """Var of each of some fixed sets, for many hyper-parameters; see :func:`cached_covariance`."""
    sets = a.materialise()
    coefficients = kernel.coefficients()
    if coefficients is not None:
        powers = _low_powers_within(sets)
        degree = len(coefficients) - 1
        if degree >= 2:
            powers += _within(lambda t: _higher_powers(t, degree), _set_tiles(sets), len(sets))
        return lambda kernel: _combine(kernel.coefficients(), powers)
    sizes = np.diff(sets.row_weights().indptr).astype(np.int64)
    if (sizes**2).sum() > budget.fit:
        return lambda kernel: variance(kernel, sets)
    tiles = [partial(_same, build()) for build in _set_tiles(sets)]
    return lambda kernel: _within(lambda tile: [kernel(tile)], tiles, len(sizes))[0]


def _same(tile: _SetTile) -> _SetTile:
    return tile


# --- between two lists of sets --------------------------------------------------------------


def _filtered(functions: Elementwise, a: WeightedRows, b: WeightedRows) -> list[Tensor]:
    """W_a phi(G) W_b^T for each element-wise function phi of the Gram matrix G."""
    right = b.in_memory()
    right_norms = right.squared_norms()[:, None]
    # Rows that are yet to be made count too; those in memory are there anyway.
    width = 1 if isinstance(a.rows, Rows) else a.rows.width
    step = max(budget.tile // max(len(right), width, 1), 1)
    if right.is_sparse:
        # Sparse products make their other side dense, which should not be larger than a tile.
        step = min(step, max(budget.tile // right.values.shape[1], 256))
    if torch.is_grad_enabled() and len(a.rows) * max(len(right), width) <= budget.block:
        step = max(len(a.rows), 1)  # cheaper to keep for the way back than to make again
    ranges = list(blocks(len(a.rows), 1, step))
    lefts = (_taken(a, np.arange(block.start, block.stop)) for block in ranges)

    def one_block(left: Rows) -> tuple[Tensor, ...]:
        # (T_b, block): the long side in rows is what the sparse product wants.
        inner = inner_products(right, left)
        tile = Tile(inner, right_norms, left.squared_norms()[None, :])
        return tuple(_mix(b.weights, value).mT for value in functions(tile))

    if not ranges:
        empty = torch.zeros(len(a), len(b), dtype=torch.float64)
        return [empty for _ in functions(Tile(empty, empty, empty))]
    if len(ranges) == 1:
        values = list(one_block(a.in_memory()))
    elif torch.is_grad_enabled():
        # Gradients through many blocks would keep every tile alive: recompute them instead.
        parts = [checkpoint(one_block, left, use_reentrant=False) for left in lefts]
        values = [torch.cat(column) for column in zip(*parts, strict=True)]
    else:
        values = []
        for block, left in zip(ranges, lefts, strict=True):
            part = one_block(left)
            if not values:
                values = [p.new_empty(len(a.rows), p.shape[1]) for p in part]
            for whole, own in zip(values, part, strict=True):
                whole[block] = own
    return [_mix(a.weights, value) for value in values]


def _taken(sets: WeightedRows, index: np.ndarray) -> Rows:
    """Some of the rows, in memory."""
    return WeightedRows(None, sets.rows.take(index)).in_memory()


def _tile(left: Rows, right: Rows) -> Tile:
    return Tile(
        inner_products(left, right),
        left.squared_norms()[:, None],
        right.squared_norms()[None, :],
    )


def _mix(weights: sp.csr_array | None, values: Tensor) -> Tensor:
    return values if weights is None else sparse_matmul(weights, values)


def _power_zero(a: WeightedRows, b: WeightedRows) -> Tensor:
    totals = [np.asarray(sets.row_weights().sum(axis=1)).ravel() for sets in (a, b)]
    return torch.from_numpy(np.outer(*totals))


def _power_one(a: WeightedRows, b: WeightedRows) -> Tensor:
    """W_a G W_b^T: the filter passes through a linear kernel, so average first."""
    return _filtered(lambda tile: [tile.inner], _averaged(a), _averaged(b))[0]


def _averaged(sets: WeightedRows) -> WeightedRows:
    """Sets of one row each, with the same answers from a linear kernel."""
    if sets.weights is None:
        return sets
    return WeightedRows(None, sets.in_memory().combined(sets.weights))


def _higher_powers(tile: Tile, degree: int) -> list[Tensor]:
    powers = [tile.inner * tile.inner]
    while len(powers) < degree - 1:
        powers.append(powers[-1] * tile.inner)
    return powers


def _combine(coefficients: Sequence[Tensor | float] | None, powers: list[Tensor]) -> Tensor:
    assert coefficients is not None
    total = torch.zeros_like(powers[0])
    for a, power in zip(coefficients, powers, strict=False):
        if isinstance(a, Tensor) or a != 0:
            total = total + a * power
    return total


# --- within each set ------------------------------------------------------------------------


@dataclass(frozen=True)
class _SetTile:
    """Some pairs of rows within sets: kernel values times ``weight``, summed over all axes but
    the first, are shares of the variances of ``sets``."""

    sets: Tensor  # (B,) which set each leading entry belongs to
    tile: Tile  # (B, ...)
    weight: Tensor  # (B, ...)


# Tiles are handed on unbuilt: who needs gradients builds them again instead of keeping them.
_Builder = Callable[[], _SetTile]


def _set_tiles(sets: WeightedRows) -> Iterator[_Builder]:
    """Every pair of rows within each set, in tiles of bounded size."""
    if sets.weights is None:
        for block in blocks(len(sets), sets.rows.width, budget.tile):
            yield partial(_single_tile, sets, np.arange(block.start, block.stop))
        return
    weights = sets.weights
    sizes = np.diff(weights.indptr).astype(np.int64)
    side = int(np.sqrt(budget.tile))
    small = np.flatnonzero((sizes > 0) & (sizes <= side))
    if sets.rows.is_sparse:
        load = (
            np.cumsum(np.maximum(sizes[small] ** 2, sizes[small] * sets.rows.width)) // budget.tile
        )
        for members in np.split(small, np.flatnonzero(np.diff(load)) + 1):
            if len(members):
                yield partial(_ragged_tile, sets, weights, members)
    else:
        # Padded to a few common sizes, so that they can be stacked.
        padded = _common_sizes(sizes[small])
        for size in np.unique(padded):
            members = small[padded == size]
            for block in blocks(len(members), int(size * max(size, sets.rows.width)), budget.tile):
                yield partial(_stacked_tile, sets, weights, members[block], int(size))
    for which in np.flatnonzero(sizes > side):
        yield from _large_set_tiles(sets, weights, int(which), side)


def _single_tile(sets: WeightedRows, members: np.ndarray) -> _SetTile:
    """Sets of one row each: its product with itself is its squared norm."""
    norms = _taken(sets, members).squared_norms()
    return _SetTile(torch.from_numpy(members), Tile(norms, norms, norms), torch.ones_like(norms))


def _ragged_tile(sets: WeightedRows, weights: sp.csr_array, members: np.ndarray) -> _SetTile:
    """All pairs of some sets of sparse rows, in one flat tile."""
    part = weights[members]
    sizes = np.diff(part.indptr).astype(np.int64)
    rows = _taken(sets, part.indices)
    left, right = ragged_pairs(sizes)
    norms = rows.squared_norms()
    tile = Tile(inner_products_ragged(rows, sizes), norms[left], norms[right])
    owner = torch.from_numpy(np.repeat(members, sizes**2))
    return _SetTile(owner, tile, torch.from_numpy(part.data[left] * part.data[right]))


def _common_sizes(sizes: np.ndarray) -> np.ndarray:
    """Each size rounded up to 1, 2, 3, 4, 6, 8, 12, 16, ...: at most a third is padding."""
    steps = np.unique([1, *(b for k in range(40) for b in (2 << k, 3 << k))])
    return steps[np.searchsorted(steps, sizes)]


def _stacked_tile(
    sets: WeightedRows, weights: sp.csr_array, members: np.ndarray, size: int
) -> _SetTile:
    """Sets of dense rows of nearly one size, stacked."""
    starts, stops = weights.indptr[members], weights.indptr[members + 1]
    offset = np.arange(size)
    inside = offset < (stops - starts)[:, None]
    # Padding repeats the set's first row with weight zero.
    entry = np.where(inside, starts[:, None] + offset, starts[:, None])
    value = torch.from_numpy(np.where(inside, weights.data[entry], 0.0))
    used, position = np.unique(weights.indices[entry], return_inverse=True)
    rows = _taken(sets, used)
    position = position.reshape(entry.shape)
    norms = rows.squared_norms()[torch.from_numpy(position)]
    inner = inner_products_stacked(rows, position)
    tile = Tile(inner, norms[:, :, None], norms[:, None, :])
    return _SetTile(torch.from_numpy(members), tile, value[:, :, None] * value[:, None, :])


def _large_set_tiles(
    sets: WeightedRows, weights: sp.csr_array, which: int, side: int
) -> Iterator[_Builder]:
    """The lower half of a set's square in tiles."""
    entries = np.arange(weights.indptr[which], weights.indptr[which + 1])
    parts = [entries[block] for block in blocks(len(entries), 1, side)]
    for i, part in enumerate(parts):
        for other in parts[: i + 1]:
            yield partial(_square_tile, sets, weights, which, part, other)


def _square_tile(
    sets: WeightedRows, weights: sp.csr_array, which: int, block: np.ndarray, other: np.ndarray
) -> _SetTile:
    """Pairs of some rows of one set with others of it; off the diagonal they count twice."""
    tile = _tile(_taken(sets, weights.indices[block]), _taken(sets, weights.indices[other]))
    times = 1.0 if block is other else 2.0
    weight = torch.from_numpy(times * np.outer(weights.data[block], weights.data[other]))
    stacked = Tile(tile.inner[None], tile.left[None], tile.right[None])
    return _SetTile(torch.tensor([which]), stacked, weight[None])


def _within(functions: Elementwise, tiles: Iterable[_Builder], n_sets: int) -> list[Tensor]:
    """w^T phi(G) w within each set, for each element-wise function phi."""

    def one_tile(build: _Builder) -> tuple[Tensor, ...]:
        part = build()
        shares = (value * part.weight for value in functions(part.tile))
        return part.sets, *(share.reshape(len(part.sets), -1).sum(1) for share in shares)

    empty = torch.zeros(0, dtype=torch.float64)
    n_functions = len(functions(Tile(empty, empty, empty)))
    totals = [torch.zeros(n_sets, dtype=torch.float64) for _ in range(n_functions)]
    for build in tiles:
        if torch.is_grad_enabled():
            sets, *shares = checkpoint(one_tile, build, use_reentrant=False)
            totals = [t.index_add(0, sets, s) for t, s in zip(totals, shares, strict=True)]
        else:
            sets, *shares = one_tile(build)
            for total, share in zip(totals, shares, strict=True):
                total.index_add_(0, sets, share)
    return totals


def _low_powers_within(sets: WeightedRows) -> list[Tensor]:
    totals = np.asarray(sets.row_weights().sum(axis=1)).ravel()
    squares = []
    for block in blocks(len(sets), max(sets.rows.width, 64), budget.tile):
        part = sets.take(np.arange(block.start, block.stop))
        squares.append(_averaged(part).in_memory().squared_norms())
    return [torch.from_numpy(totals**2), torch.cat(squares or [torch.zeros(0).double()])]
