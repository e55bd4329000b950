"""What a graph is made of, checked as it comes in: adjacency, features and ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.declared import LARGEST

__all__ = ["checked_features", "checked_ids", "undirected"]


def _matrix(values: Any, what: str) -> Any:
    """A sparse matrix or an array of floating numbers that all can be squared."""
    if np.ma.is_masked(values):
        raise ValueError(f"{what} has masked values; fill or remove them first")
    try:
        matrix = values if sp.issparse(values) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of several lengths, a tensor
        raise ValueError(f"{what} cannot be read as a matrix: {error}") from None
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold real numbers, got dtype {matrix.dtype}")
    if matrix.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):  # what is too large is infinite, and refused
            matrix = matrix.astype(np.float64)
    return matrix


def _check_range(values: np.ndarray, what: str) -> None:
    if values.size and not (float(values.max()) <= LARGEST and float(values.min()) >= -LARGEST):
        raise ValueError(
            f"{what} NaN or infinite values, or beyond {LARGEST:g}; fill or remove them first"
        )


def undirected(adjacency: Any) -> sp.csr_array:
    """The symmetric, loop-free, non-negative csr matrix of the graph; input untouched."""
    adjacency = _matrix(adjacency, "adjacency")
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(
            f"adjacency must be a square matrix, got shape {adjacency.shape}: every edge joins two "
            "nodes of the graph"
        )
    matrix = sp.coo_array(adjacency)
    weights = matrix.data.astype(np.float64, copy=False)
    _check_range(weights, "adjacency has")
    if weights.size and weights.min() < 0:
        raise ValueError(
            f"adjacency has negative weights (smallest {weights.min():g}); "
            "the model averages over neighbours and needs weights >= 0"
        )
    row, col = matrix.row, matrix.col
    keep = (row != col) & (weights > 0)
    if not keep.all():
        row, col, weights = row[keep], col[keep], weights[keep]
    upper = sp.coo_array((weights, (np.minimum(row, col), np.maximum(row, col))), matrix.shape)
    upper.has_canonical_format = True  # or scipy would add duplicates up
    upper = _largest_of_duplicates(upper.tocsr())
    return sp.csr_array(upper + upper.T.tocsr())


def _largest_of_duplicates(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix in canonical form, each entry the largest of those given for it."""
    matrix.has_canonical_format = matrix.has_sorted_indices = False  # nobody has looked yet
    matrix.sort_indices()
    first = np.ones(matrix.nnz, dtype=bool)
    np.not_equal(matrix.indices[1:], matrix.indices[:-1], out=first[1:])
    first[matrix.indptr[:-1][np.diff(matrix.indptr) > 0]] = True  # a row's first entry is new
    if not first.all():
        data = np.maximum.reduceat(matrix.data, np.flatnonzero(first))
        indptr = np.append(0, np.cumsum(first, dtype=matrix.indptr.dtype))[matrix.indptr]
        matrix = sp.csr_array((data, matrix.indices[first], indptr), shape=matrix.shape)
    matrix.has_canonical_format = True
    return matrix


def checked_features(features: Any, n_nodes: int) -> Any:
    """Features as csr or a float array with one row per node; input untouched."""
    matrix = _matrix(features, "features")
    if sp.issparse(matrix):
        matrix = sp.csr_array(matrix)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    if matrix.ndim != 2:
        raise ValueError(f"features must be a matrix with one row per node, got {matrix.shape}")
    if matrix.shape[0] != n_nodes:
        raise ValueError(f"features have {matrix.shape[0]} rows but the graph has {n_nodes} nodes")
    _check_range(matrix.data if sp.issparse(matrix) else matrix, "features have")
    return matrix


def checked_ids(ids: Sequence | np.ndarray, n_nodes: int) -> np.ndarray:
    try:
        names = np.array(ids)
    except (TypeError, ValueError):  # of several lengths
        raise ValueError("ids must be one for each node, text or numbers") from None
    if names.shape != (n_nodes,):
        raise ValueError(f"ids must name each of the {n_nodes} nodes once, got shape {names.shape}")
    is_float = names.dtype.kind == "f"
    if names.dtype.kind not in "biufUO" or (
        is_float and (names.dtype.itemsize > 8 or not np.isfinite(names).all())
    ):
        raise ValueError(f"ids must be text or numbers, got {names.dtype} such as {names[:1]}")
    if names.dtype == object:  # of several types, perhaps, which cannot be sorted
        repeated = [name for name, count in Counter(names.tolist()).items() if count > 1]
    else:
        values, counts = np.unique(names, return_counts=True)
        repeated = values[counts > 1].tolist()
    if repeated:
        raise ValueError(f"ids must all be different; repeated: {repeated[:5]}")
    return names
