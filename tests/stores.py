"""Small stored graphs for tests: hubs larger than a part, parts without edges, lonely nodes."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from nodegp.graph import Graph
from nodegp.store import StoredGraph, store_graph


def awkward_graph(n_nodes=900, n_columns=11, seed=0, weighted=False, dtype=np.float32, ids=False):
    """A hub that is linked to half of all, a stretch of nodes without edges, classes that show."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, n_nodes)
    ends = rng.integers(0, n_nodes, (2, 4 * n_nodes))
    same = classes[ends[0]] == classes[ends[1]]
    ends = ends[:, same | (rng.random(ends.shape[1]) < 0.2)]
    hub = np.arange(0, n_nodes, 2)
    ends = np.concatenate([ends, np.stack([np.full(len(hub), 7), hub])], axis=1)
    lonely = (ends >= n_nodes // 2) & (ends < n_nodes // 2 + n_nodes // 5)
    ends = ends[:, ~lonely.any(axis=0)]
    weights = rng.random(ends.shape[1]) + 0.1 if weighted else np.ones(ends.shape[1])
    adjacency = sp.coo_array((weights, tuple(ends)), shape=(n_nodes, n_nodes))
    if not weighted:
        adjacency = sp.csr_array(adjacency)
        adjacency.data[:] = 1.0
    means = rng.standard_normal((3, n_columns))
    features = 0.7 * means[classes] + rng.standard_normal((n_nodes, n_columns)) + 5.0
    names = [f"node {n}" for n in range(n_nodes)] if ids else None
    return Graph(adjacency, features.astype(dtype), names), classes


def stored(graph: Graph, folder, part_entries=150, rows=40) -> StoredGraph:
    """In small parts: some without any edge, one with more than it should have."""
    with patch("nodegp.store.memory.largest_rows", lambda n_features: rows):
        return store_graph(graph, folder, part_entries)
