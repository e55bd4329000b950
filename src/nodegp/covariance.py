"""Prior covariances of h and of inducing points: where filter, features and kernel meet.

Everything is a covariance between weighted bags of feature rows (Eq. 11-12 and 16):
``Cov(a, b) = W_a k(X_a, X_b) W_b^T``. The functions work in tiles of bounded size, so that
neither a hub nor a large graph needs its square in memory. The classes serve a fit, which
asks for the same covariances at many hyper-parameters: they keep whatever makes the next
evaluation cheap and still fits in memory. All are float64 and differentiable in the
kernel's hyper-parameters and in inducing points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nodegp.features import (
    Rows,
    inner_products,
    inner_products_ragged,
    inner_products_stacked,
    ragged_pairs,
)
from nodegp.filters import Bags, KnownBags, LowRankBags, SeveralBags
from nodegp.filters.lowrank import low_rank_features
from nodegp.kernels import Linear, Tile
from nodegp.linalg import sparse_matmul
from nodegp.prior import FilteredKernel, SummedKernel, resolved

TILE = 1 << 20  # entries of one Gram tile, and of the rows behind it: 8 MiB
KEPT = 1 << 22  # entries of a tile that may be kept for its gradient: 32 MiB
CACHE = 1 << 24  # entries that a fit keeps between hyper-parameter steps: 128 MiB

Elementwise = Callable[[Tile], list[Tensor]]


def covariance(kernel: Any, a: Any, b: Any) -> Tensor:
    """Cov(a, b), shape (len(a), len(b)): Eq. 12 between nodes, Eq. 16 with inducing points."""
    if isinstance(kernel, SummedKernel):
        parts = zip(kernel.kernels, a.parts, b.parts, strict=True)
        return torch.stack([covariance(*part) for part in parts]).sum(0)
    kernel, a, b = plain(kernel, a, b)
    coefficients = kernel.coefficients()
    if coefficients is None or len(coefficients) > 2:
        return _filtered(lambda tile: [kernel(tile)], a, b)[0]
    constant, slope = [*coefficients, 0.0][:2]
    product = slope * _power_one(a, b)
    if isinstance(constant, Tensor) or constant != 0:
        product = product + constant * _power_zero(a, b)
    return product


def variance(kernel: Any, a: Any) -> Tensor:
    """Var of each bag, shape (len(a),): the diagonal of Eq. 12 without the rest."""
    if isinstance(kernel, SummedKernel):
        return torch.stack(variances(kernel, a)).sum(0)
    kernel, a = plain(kernel, a)
    coefficients = kernel.coefficients()
    if coefficients is not None and len(coefficients) <= 2:
        return _combine(coefficients, _low_powers_within(a))
    return _within(lambda tile: [kernel(tile)], _bag_tiles(a), len(a))[0]


def variances(kernel: Any, a: Any) -> list[Tensor]:
    """What each of several functions adds to the variances."""
    return [variance(k, part) for k, part in zip(kernel.kernels, a.parts, strict=True)]


def plain(kernel: Any, *bags: Any, ask: Any = None) -> tuple[Any, ...]:
    """A kernel and bags of rows that give the same covariances as these: what is yet to be
    filtered is, and low-rank forms become a linear kernel on their features.

    ``ask`` gives the covariances that those are made of, by default from scratch; with it, they
    may be kept for the next time.
    """
    if isinstance(kernel, SummedKernel):
        pairs = [
            plain(own, *parts, ask=ask)
            for own, *parts in zip(kernel.kernels, *(b.parts for b in bags), strict=True)
        ]
        kernels, *shown = zip(*pairs, strict=True)
        return SummedKernel(kernels), *(SeveralBags(parts) for parts in shown)
    kernel, *shown = resolved(kernel, *bags)
    covariances = partial(ask or covariance, kernel)
    features = low_rank_features(covariances, tuple(shown), again=ask is not None)
    return (kernel, *shown) if features is None else (_LINEAR, *features)


_LINEAR = Linear(1.0)


@torch.no_grad()
def standing(kernel: Any, bags: Any) -> Any:
    """Bags that need no graph any more, now that the kernel is settled."""
    if isinstance(bags, SeveralBags):
        parts = zip(kernel.kernels, bags.parts, strict=True)
        return SeveralBags(tuple(standing(*part) for part in parts))
    if not isinstance(bags, LowRankBags):
        return bags
    return KnownBags(plain(kernel, bags)[1].rows.values)


class _Kept:
    """Covariances between bags that stay: those that low-rank forms are made of."""

    def __init__(self) -> None:
        self._caches: dict[tuple[int, int], CovarianceCache] = {}

    @classmethod
    def needed(cls, *bags: Any) -> _Kept | None:
        return cls() if any(isinstance(b, LowRankBags) for b in bags) else None

    def __call__(self, kernel: Any, a: Any, b: Any) -> Tensor:
        key = id(a), id(b)
        if key not in self._caches:
            self._caches[key] = CovarianceCache(kernel, a, b)
        return self._caches[key](kernel)


class CovarianceCache:
    """Cov(a, b) for fixed bags, asked for again and again with other hyper-parameters.

    A polynomial kernel's covariance is ``sum_k a_k S_k`` with ``S_k = W_a G^(ok) W_b^T``, the
    element-wise powers of the Gram matrix: computed once, after which a hyper-parameter step
    costs a few sums. For others the Gram matrix is kept while it is small.
    """

    @torch.no_grad()
    def __init__(self, kernel: Any, a: Any, b: Any):
        self._a, self._b = a.in_memory(), b.in_memory()
        self._powers: list[Tensor] | None = None
        self._tile: Tile | None = None
        self._low_rank = _Kept.needed(a, b)
        self._parts: list[CovarianceCache] | None = None
        if isinstance(kernel, SummedKernel):
            parts = zip(kernel.kernels, self._a.parts, self._b.parts, strict=True)
            self._parts = [CovarianceCache(*part) for part in parts]
            return
        if self._low_rank is not None:
            return
        if isinstance(kernel, FilteredKernel):
            return  # rows that change with the hyper-parameters leave nothing to keep
        coefficients = kernel.coefficients()
        if coefficients is not None:
            self._powers = [_power_zero(self._a, self._b), _power_one(self._a, self._b)]
            degree = len(coefficients) - 1
            if degree >= 2:
                self._powers += _filtered(lambda t: _higher_powers(t, degree), self._a, self._b)
        elif len(a.rows) * len(b.rows) <= CACHE:
            self._tile = _tile(_rows(self._b), _rows(self._a))

    def __call__(self, kernel: Any) -> Tensor:
        if self._parts is not None:
            pairs = zip(self._parts, kernel.kernels, strict=True)
            return torch.stack([cache(own) for cache, own in pairs]).sum(0)
        if self._low_rank is not None:
            return covariance(*plain(kernel, self._a, self._b, ask=self._low_rank))
        if self._powers is not None:
            return _combine(kernel.coefficients(), self._powers)
        if self._tile is not None:
            values = _mix(self._b.weights, kernel(self._tile))
            return _mix(self._a.weights, values.mT)
        return covariance(kernel, self._a, self._b)


class VarianceCache:
    """Var of each of some fixed bags, for many hyper-parameters; see CovarianceCache."""

    @torch.no_grad()
    def __init__(self, kernel: Any, a: Any):
        self._a = a.in_memory()
        self._powers: list[Tensor] | None = None
        self._tiles: list[_BagTile] | None = None
        self._low_rank = _Kept.needed(a)
        if isinstance(kernel, FilteredKernel | SummedKernel) or self._low_rank is not None:
            return
        coefficients = kernel.coefficients()
        if coefficients is not None:
            self._powers = _low_powers_within(self._a)
            degree = len(coefficients) - 1
            if degree >= 2:
                self._powers += _within(
                    lambda t: _higher_powers(t, degree), _bag_tiles(self._a), len(a)
                )
        else:
            sizes = np.diff(self._a.row_weights().indptr).astype(np.int64)
            if (sizes**2).sum() <= CACHE:
                self._tiles = [build() for build in _bag_tiles(self._a)]

    def __call__(self, kernel: Any) -> Tensor:
        if self._low_rank is not None:
            return variance(*plain(kernel, self._a, ask=self._low_rank))
        if isinstance(kernel, FilteredKernel | SummedKernel):
            return variance(kernel, self._a)
        if self._powers is not None:
            return _combine(kernel.coefficients(), self._powers)
        tiles = _bag_tiles(self._a)
        if self._tiles is not None:
            tiles = (partial(_same, tile) for tile in self._tiles)
        return _within(lambda tile: [kernel(tile)], tiles, len(self._a))[0]


def _same(tile: _BagTile) -> _BagTile:
    return tile


# --- between two sets of bags ---------------------------------------------------------------


def _filtered(functions: Elementwise, a: Bags, b: Bags) -> list[Tensor]:
    """W_a phi(G) W_b^T for each element-wise function phi of the Gram matrix G."""
    right = _rows(b)
    right_norms = right.squared_norms()[:, None]
    # Rows that are yet to be made count too; those in memory are there anyway.
    width = 1 if isinstance(a.rows, Rows) else a.rows.width
    step = max(TILE // max(len(right), width, 1), 1)
    if right.is_sparse:
        # Sparse products make their other side dense, which should not be larger than a tile.
        step = min(step, max(TILE // right.values.shape[1], 256))
    if torch.is_grad_enabled() and len(a.rows) * max(len(right), width) <= KEPT:
        step = max(len(a.rows), 1)  # cheaper to keep for the way back than to make again
    blocks = [
        np.arange(start, min(start + step, len(a.rows))) for start in range(0, len(a.rows), step)
    ]

    def one_block(left: Rows) -> tuple[Tensor, ...]:
        # (T_b, block): the long side in rows is what the sparse product wants.
        inner = inner_products(right, left)
        tile = Tile(inner, right_norms, left.squared_norms()[None, :])
        return tuple(_mix(b.weights, value).mT for value in functions(tile))

    if not blocks:
        empty = torch.zeros(len(a), len(b), dtype=torch.float64)
        return [empty for _ in functions(Tile(empty, empty, empty))]
    if len(blocks) == 1:
        values = list(one_block(_rows(a)))
    elif torch.is_grad_enabled():
        # Gradients through many blocks would keep every tile alive: recompute them instead.
        parts = [checkpoint(one_block, a.rows.take(block), use_reentrant=False) for block in blocks]
        values = [torch.cat(column) for column in zip(*parts, strict=True)]
    else:
        values = []
        for block in blocks:
            part = one_block(a.rows.take(block))
            if not values:
                values = [p.new_empty(len(a.rows), p.shape[1]) for p in part]
            for whole, some in zip(values, part, strict=True):
                whole[block[0] : block[-1] + 1] = some
    return [_mix(a.weights, value) for value in values]


def _tile(left: Rows, right: Rows) -> Tile:
    return Tile(
        inner_products(left, right),
        left.squared_norms()[:, None],
        right.squared_norms()[None, :],
    )


def _rows(bags: Bags) -> Rows:
    return (
        bags.rows.take(np.arange(len(bags.rows))) if not isinstance(bags.rows, Rows) else bags.rows
    )


def _mix(weights: sp.csr_array | None, values: Tensor) -> Tensor:
    return values if weights is None else sparse_matmul(weights, values)


def _power_zero(a: Bags, b: Bags) -> Tensor:
    totals = [np.asarray(bags.row_weights().sum(axis=1)).ravel() for bags in (a, b)]
    return torch.from_numpy(np.outer(*totals))


def _power_one(a: Bags, b: Bags) -> Tensor:
    """W_a G W_b^T: the filter passes through a linear kernel, so average first."""
    return _filtered(lambda tile: [tile.inner], _averaged(a), _averaged(b))[0]


def _averaged(bags: Bags) -> Bags:
    """Bags of one row each, with the same answers from a linear kernel."""
    return bags if bags.weights is None else Bags(None, _rows(bags).combined(bags.weights))


def _higher_powers(tile: Tile, degree: int) -> list[Tensor]:
    powers = [tile.inner * tile.inner]
    while len(powers) < degree - 1:
        powers.append(powers[-1] * tile.inner)
    return powers


def _combine(coefficients: list[Any] | None, powers: list[Tensor]) -> Tensor:
    assert coefficients is not None
    total = torch.zeros_like(powers[0])
    for a, power in zip(coefficients, powers, strict=False):
        if isinstance(a, Tensor) or a != 0:
            total = total + a * power
    return total


# --- within each bag ------------------------------------------------------------------------


@dataclass(frozen=True)
class _BagTile:
    """Some pairs of rows within bags: kernel values times ``weight``, summed over all axes but
    the first, are shares of the variances of ``bags``."""

    bags: Tensor  # (B,) which bag each leading entry belongs to
    tile: Tile  # (B, ...)
    weight: Tensor  # (B, ...)


# Tiles are handed on unbuilt: who needs gradients builds them again instead of keeping them.
_Builder = Callable[[], _BagTile]


def _bag_tiles(bags: Bags) -> Iterator[_Builder]:
    """Every pair of rows within each bag, in tiles of bounded size."""
    if bags.weights is None:
        step = max(TILE // max(bags.rows.width, 1), 1)
        for start in range(0, len(bags), step):
            yield partial(_single_tile, bags, np.arange(start, min(start + step, len(bags))))
        return
    weights = bags.weights
    sizes = np.diff(weights.indptr).astype(np.int64)
    side = int(np.sqrt(TILE))
    small = np.flatnonzero((sizes > 0) & (sizes <= side))
    if bags.rows.is_sparse:
        load = np.cumsum(np.maximum(sizes[small] ** 2, sizes[small] * bags.rows.width)) // TILE
        for members in np.split(small, np.flatnonzero(np.diff(load)) + 1):
            if len(members):
                yield partial(_ragged_tile, bags, weights, members)
    else:
        # Padded to a few common sizes, so that they can be stacked.
        padded = _common_sizes(sizes[small])
        for size in np.unique(padded):
            members = small[padded == size]
            step = max(TILE // int(size * max(size, bags.rows.width)), 1)
            for start in range(0, len(members), step):
                some = members[start : start + step]
                yield partial(_stacked_tile, bags, weights, some, int(size))
    for bag in np.flatnonzero(sizes > side):
        yield from _large_bag_tiles(bags, weights, int(bag), side)


def _single_tile(bags: Bags, members: np.ndarray) -> _BagTile:
    """Bags of one row each: its product with itself is its squared norm."""
    norms = bags.rows.take(members).squared_norms()
    return _BagTile(torch.from_numpy(members), Tile(norms, norms, norms), torch.ones_like(norms))


def _ragged_tile(bags: Bags, weights: sp.csr_array, members: np.ndarray) -> _BagTile:
    """All pairs of some bags of sparse rows, in one flat tile."""
    some = weights[members]
    sizes = np.diff(some.indptr).astype(np.int64)
    rows = bags.rows.take(some.indices)
    left, right = ragged_pairs(sizes)
    norms = rows.squared_norms()
    tile = Tile(inner_products_ragged(rows, sizes), norms[left], norms[right])
    owner = torch.from_numpy(np.repeat(members, sizes**2))
    return _BagTile(owner, tile, torch.from_numpy(some.data[left] * some.data[right]))


def _common_sizes(sizes: np.ndarray) -> np.ndarray:
    """Each size rounded up to 1, 2, 3, 4, 6, 8, 12, 16, ...: at most a third is padding."""
    steps = np.unique([1, *(b for k in range(40) for b in (2 << k, 3 << k))])
    return steps[np.searchsorted(steps, sizes)]


def _stacked_tile(bags: Bags, weights: sp.csr_array, members: np.ndarray, size: int) -> _BagTile:
    """Bags of dense rows of nearly one size, stacked."""
    starts, stops = weights.indptr[members], weights.indptr[members + 1]
    offset = np.arange(size)
    inside = offset < (stops - starts)[:, None]
    # Padding repeats the bag's first row with weight zero.
    entry = np.where(inside, starts[:, None] + offset, starts[:, None])
    value = torch.from_numpy(np.where(inside, weights.data[entry], 0.0))
    used, position = np.unique(weights.indices[entry], return_inverse=True)
    rows = bags.rows.take(used)
    position = position.reshape(entry.shape)
    norms = rows.squared_norms()[torch.from_numpy(position)]
    inner = inner_products_stacked(rows, position)
    tile = Tile(inner, norms[:, :, None], norms[:, None, :])
    return _BagTile(torch.from_numpy(members), tile, value[:, :, None] * value[:, None, :])


def _large_bag_tiles(bags: Bags, weights: sp.csr_array, bag: int, side: int) -> Iterator[_Builder]:
    """The lower half of a bag's square in tiles."""
    entries = np.arange(weights.indptr[bag], weights.indptr[bag + 1])
    blocks = [entries[start : start + side] for start in range(0, len(entries), side)]
    for i, block in enumerate(blocks):
        for other in blocks[: i + 1]:
            yield partial(_square_tile, bags, weights, bag, block, other)


def _square_tile(
    bags: Bags, weights: sp.csr_array, bag: int, block: np.ndarray, other: np.ndarray
) -> _BagTile:
    """Pairs of some rows of one bag with others of it; off the diagonal they count twice."""
    tile = _tile(bags.rows.take(weights.indices[block]), bags.rows.take(weights.indices[other]))
    times = 1.0 if block is other else 2.0
    weight = torch.from_numpy(times * np.outer(weights.data[block], weights.data[other]))
    stacked = Tile(tile.inner[None], tile.left[None], tile.right[None])
    return _BagTile(torch.tensor([bag]), stacked, weight[None])


def _within(functions: Elementwise, tiles: Iterator[_Builder], n_bags: int) -> list[Tensor]:
    """w^T phi(G) w within each bag, for each element-wise function phi."""

    def one_tile(build: _Builder) -> tuple[Tensor, ...]:
        part = build()
        shares = (value * part.weight for value in functions(part.tile))
        return part.bags, *(share.reshape(len(part.bags), -1).sum(1) for share in shares)

    empty = torch.zeros(0, dtype=torch.float64)
    n_functions = len(functions(Tile(empty, empty, empty)))
    totals = [torch.zeros(n_bags, dtype=torch.float64) for _ in range(n_functions)]
    for build in tiles:
        if torch.is_grad_enabled():
            bags, *shares = checkpoint(one_tile, build, use_reentrant=False)
            totals = [t.index_add(0, bags, s) for t, s in zip(totals, shares, strict=True)]
        else:
            bags, *shares = one_tile(build)
            for total, share in zip(totals, shares, strict=True):
                total.index_add_(0, bags, share)
    return totals


def _low_powers_within(bags: Bags) -> list[Tensor]:
    totals = np.asarray(bags.row_weights().sum(axis=1)).ravel()
    squares = []
    step = max(TILE // max(bags.rows.width, 64), 1)
    for start in range(0, len(bags), step):
        part = bags.take(np.arange(start, min(start + step, len(bags))))
        squares.append(_rows(_averaged(part)).squared_norms())
    return [
        torch.from_numpy(totals**2),
        torch.cat(squares) if squares else torch.zeros(0, dtype=torch.float64),
    ]
