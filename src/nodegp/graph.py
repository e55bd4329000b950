"""The graph a model is fitted on: who is linked to whom, and what is known of each node.

A :class:`Graph` is undirected, has no self-loops and holds one non-negative weight per
edge. It checks what comes in once, so that nothing after it has to; it holds no labels
and no maths of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components


class Graph:
    """An undirected graph with optional node features and node ids.

    Parameters
    ----------
    adjacency : scipy sparse matrix or array, or square 2-d numpy array
        Entry (i, j) is the weight of the edge between i and j; zero means no edge.
        One rule for what the model cannot use: **the weight of the edge {i, j} is the
        largest entry given for it**, in either direction and over duplicates; self-loops
        are dropped, because the model adds the node itself to its neighbourhood.
    features : scipy sparse matrix or 2-d array of numbers, optional
        Row n describes node n, raw: preprocessing is the model's. Sparse stays sparse.
    ids : sequence, optional
        The caller's names of the nodes, all different.

    The arrays passed in are never changed. Features that need no conversion are kept
    by reference, so do not change them afterwards.
    """

    def __init__(self, adjacency: Any, features: Any = None, ids: Sequence | None = None):
        self.adjacency: sp.csr_array = _undirected(adjacency)
        self.features = None if features is None else _checked_features(features, self.n_nodes)
        self.ids = None if ids is None else _checked_ids(ids, self.n_nodes)

    @property
    def n_nodes(self) -> int:
        return self.adjacency.shape[0]

    @property
    def n_edges(self) -> int:
        """Undirected edges, each counted once."""
        return self.adjacency.nnz // 2

    @property
    def n_features(self) -> int:
        return 0 if self.features is None else self.features.shape[1]

    @property
    def degrees(self) -> np.ndarray:
        """Weighted degree of each node, shape (N,)."""
        return np.asarray(self.adjacency.sum(axis=1)).ravel()

    def positions(self, ids: Sequence) -> np.ndarray:
        """Row numbers of the nodes with these ids."""
        if self.ids is None:
            raise ValueError("this graph has no ids; pass ids= to Graph to use them")
        where = {name: n for n, name in enumerate(self.ids.tolist())}
        missing = [name for name in ids if name not in where]
        if missing:
            raise ValueError(f"{len(missing)} ids are not in the graph, first: {missing[:5]}")
        return np.array([where[name] for name in ids], dtype=np.intp)

    def subgraph(self, nodes: Any) -> Graph:
        """The graph of these nodes (numbers or mask) and the edges between them, in this order."""
        nodes = check_nodes(nodes, self.n_nodes)
        return Graph(
            self.adjacency[nodes][:, nodes],
            None if self.features is None else self.features[nodes],
            None if self.ids is None else self.ids[nodes],
        )

    def largest_component(self) -> np.ndarray:
        """Numbers of the nodes in the largest connected component; of equal ones, the first."""
        _, component = connected_components(self.adjacency, directed=False)
        return np.flatnonzero(component == np.bincount(component).argmax())

    def __repr__(self) -> str:
        features = "no features" if self.features is None else f"{self.n_features} features"
        return f"Graph({self.n_nodes} nodes, {self.n_edges} edges, {features})"


def check_nodes(nodes: Any, n_nodes: int) -> np.ndarray:
    """Node numbers or a boolean mask, as an index array; None means every node."""
    if nodes is None:
        return np.arange(n_nodes)
    nodes = np.atleast_1d(np.asarray(nodes))
    if nodes.dtype == bool:
        if nodes.shape != (n_nodes,):
            raise ValueError(f"a node mask needs shape ({n_nodes},), got {nodes.shape}")
        return np.flatnonzero(nodes)
    if nodes.size == 0:
        return np.zeros(0, dtype=np.intp)
    if nodes.ndim != 1 or not np.issubdtype(nodes.dtype, np.integer):
        raise ValueError(
            f"nodes must be a 1-d array of node numbers or a mask, got {nodes.dtype} "
            f"of shape {nodes.shape}"
        )
    if nodes.min() < 0 or nodes.max() >= n_nodes:
        raise ValueError(
            f"node numbers must lie in 0..{n_nodes - 1}, got {nodes.min()}..{nodes.max()}"
        )
    return nodes.astype(np.intp)


def _undirected(adjacency: Any) -> sp.csr_array:
    """The symmetric, loop-free, non-negative csr matrix of the graph; input untouched."""
    if sp.issparse(adjacency):
        matrix = sp.coo_array(adjacency)
        if matrix.ndim != 2:
            raise ValueError(f"adjacency must be a square matrix, got shape {matrix.shape}")
    else:
        dense = np.asarray(adjacency)
        if dense.ndim != 2:
            raise ValueError(f"adjacency must be a square matrix, got shape {dense.shape}")
        if not np.issubdtype(dense.dtype, np.number) and dense.dtype != bool:
            raise TypeError(f"adjacency must hold numbers, got dtype {dense.dtype}")
        matrix = sp.coo_array(dense)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"adjacency must be square, got shape {matrix.shape}: every edge joins two nodes "
            "of the graph"
        )
    if np.iscomplexobj(matrix.data):
        raise TypeError("adjacency must hold real numbers")
    weights = matrix.data.astype(np.float64)
    if not np.isfinite(weights).all():
        raise ValueError("adjacency has NaN or infinite weights; remove those edges")
    if weights.size and weights.min() < 0:
        raise ValueError(
            f"adjacency has negative weights (smallest {weights.min():g}); "
            "the model averages over neighbours and needs weights >= 0"
        )
    keep = (matrix.row != matrix.col) & (weights > 0)
    low = np.minimum(matrix.row, matrix.col)[keep].astype(np.int64)
    high = np.maximum(matrix.row, matrix.col)[keep].astype(np.int64)
    n_nodes = matrix.shape[0]
    pair = low * n_nodes + high
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    weights = np.maximum.reduceat(weights[keep][order], first) if pair.size else np.zeros(0)
    low, high = np.divmod(pair[first], max(n_nodes, 1))
    upper = sp.csr_array((weights, (low, high)), shape=(n_nodes, n_nodes))
    symmetric = sp.csr_array(upper + upper.T)
    symmetric.sort_indices()
    return symmetric


def _checked_features(features: Any, n_nodes: int) -> Any:
    """Features as csr or a float array with one row per node; input untouched."""
    if sp.issparse(features):
        matrix = sp.csr_array(features)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        values = matrix.data
    else:
        matrix = np.asarray(features)
        values = matrix
    if matrix.ndim != 2:
        raise ValueError(f"features must be a matrix with one row per node, got {matrix.shape}")
    if matrix.shape[0] != n_nodes:
        raise ValueError(f"features have {matrix.shape[0]} rows but the graph has {n_nodes} nodes")
    if values.dtype == object or values.dtype.kind in "USMmcV":
        raise TypeError(f"features must be real numbers, got dtype {values.dtype}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("features have NaN or infinite values; fill or remove them first")
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        matrix = matrix.astype(np.float64)
    return matrix


def _checked_ids(ids: Sequence, n_nodes: int) -> np.ndarray:
    names = np.array(ids)
    if names.shape != (n_nodes,):
        raise ValueError(f"ids must name each of the {n_nodes} nodes once, got shape {names.shape}")
    values, counts = np.unique(names, return_counts=True)
    if values.size != n_nodes:
        raise ValueError(f"ids must all be different; repeated: {values[counts > 1][:5].tolist()}")
    return names
