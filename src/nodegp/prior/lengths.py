"""Lengths of filtered rows |F x|, where a kernel needs no more of them than a scale.

The exact length takes every column of the features over the graph. A kernel that divides by it,
like the cosine, is valid with any positive number in its place, so a prior may *define* its
lengths by an estimate: ``|F x R|^2`` with a matrix R of s columns of random signs over sqrt(s), one
row for each column of the features. Nodes in another order, in blocks, or new ones get the same
lengths. The estimate's standard error is at most sqrt(1 / 2s) of a length, 6 % for 128 columns:
nodes are scaled by a few per cent up or down, all classes alike.

The prior variance of a node is then |F x|^2 over the square of its scale, which is one but for that
error. Beside some rows whose inner products with it are known exactly, the labelled nodes', only
what these do not explain of it has to be estimated (:func:`norm_ratios`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.linalg import cholesky, inverse_roots, ridge_inverse
from nodegp.rows import InnerProducts, Rows, inner_products

__all__ = ["norm_ratios", "random_signs", "signs_as", "sketch_width"]

WIDTH = 128  # columns of R
# Up to so many entries of the features exact lengths cost a second at most, once for each filter.
_FEW_ENTRIES = 1 << 24
_SEED = 20181203
_FIRST, _STEP = np.uint64(0x2545F491), np.uint64(0x9E3779B1)
_RIDGE = 1e-4  # of rows of length one: B need not be the best, and should not be wild


def sketch_width(n_nodes: int, n_columns: int) -> int:
    """How many columns estimate the lengths on a graph of this size; 0 for exact lengths."""
    is_small = n_columns <= 2 * WIDTH or n_nodes * n_columns <= _FEW_ENTRIES
    return 0 if is_small else WIDTH


@lru_cache(maxsize=4)
def random_signs(n_columns: int, width: int) -> np.ndarray:
    """R, (D, s) float32: the first rows are the same for any number of columns.

    Walsh functions, a random choice of them, with each row's sign turned at random: columns that
    are orthogonal, so that the estimate gets exact as s comes near D, where independent signs
    would not. Column j is (-1)^bits(i & c_j); numbers c_j in steps of an odd one differ in their
    lowest bits, however few of them matter.
    """
    turned = np.random.default_rng(_SEED).bytes(-(-n_columns // 8))
    rows = np.arange(n_columns, dtype=np.uint32)[:, None]
    bits = rows & (_FIRST + _STEP * np.arange(width, dtype=np.uint64)).astype(np.uint32)
    for shift in (16, 8, 4, 2, 1):
        bits ^= bits >> np.uint32(shift)
    odd = (bits & 1) ^ np.unpackbits(np.frombuffer(turned, np.uint8))[:n_columns, None]
    signs = (1.0 - 2.0 * odd).astype(np.float32) / np.float32(np.sqrt(width))
    signs.flags.writeable = False  # shared by all who ask
    return signs


@lru_cache(maxsize=2)
def signs_as(kind: torch.dtype, n_columns: int, width: int) -> Tensor:
    """R for torch, in some precision."""
    return torch.tensor(random_signs(n_columns, width), dtype=kind)


@torch.no_grad()
def norm_ratios(
    inner: InnerProducts,
    sketches: Callable[[slice], Tensor],
    squared_lengths: Tensor,
    others: Rows,
) -> Tensor:
    """|x|^2 over the squared length that a sketch defines, for each of many rows x, (n,).

    For any coefficients B, ``|x|^2 = |x - B Z|^2 + 2 B Z x - |B Z|^2`` with the rows Z of
    ``others``: all but the first is known from inner products, and the sketch estimates that, with
    an error in proportion to what is left of x. B is the regression on Z; a row of Z itself has
    nothing left, and its length is exact. A posterior variance is at least what is left of a node
    by the labels, so its relative error is at most that of the sketch, and mostly far less.
    """
    assert others.sketch is not None
    scales, right = inverse_roots(squared_lengths), inverse_roots(others.squared_norms())
    G = inner_products(others, others) * right * right[:, None]  # (M, M)
    inverse = ridge_inverse(G, _RIDGE)
    # With B = g (G + ridge)^-1 the known part is g (inverse + ridge inverse^2) g^T, a square.
    root, _ = cholesky(inverse + _RIDGE * inverse @ inverse, "regression on the labelled nodes")
    both = torch.cat([inverse @ (others.sketch * right[:, None]), root], 1)  # (M, s + M)
    ratios = torch.empty(len(squared_lengths), dtype=torch.float64)
    for block in blocks(len(ratios), len(G), budget.cached):
        g = inner(block)
        kind = g.dtype
        scale = scales[block].to(kind)[:, None]
        product = (g * right.to(kind)).mul_(scale) @ both.to(kind)
        width = others.sketch.shape[1]
        product[:, :width] -= sketches(block).to(kind) * scale
        ratios[block] = product.square_().sum(1).double()
    return ratios
