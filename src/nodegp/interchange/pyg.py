"""PyTorch Geometric's Data in and out: tensors for edges, features, labels and masks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.extras import to_install
from nodegp.graph import Graph
from nodegp.interchange.edges import as_names, graph_of

__all__ = ["from_pyg", "labels", "node_mask", "node_targets", "to_pyg"]


def from_pyg(data: Any) -> Graph:
    """See :meth:`nodegp.Graph.from_pyg`."""
    if hasattr(data, "edge_types"):
        raise TypeError(
            "a HeteroData has nodes of several kinds; make it one graph with "
            "data.to_homogeneous() first"
        )
    if not hasattr(data, "edge_index") or not hasattr(data, "num_nodes"):
        raise TypeError(
            f"from_pyg takes a torch_geometric Data object, got a {type(data).__name__}; of a "
            "data set, pass dataset[0]"
        )
    features = _matrix(getattr(data, "x", None))
    if features is not None and features.ndim == 1:
        features = features[:, None]
    ids = getattr(data, "ids", None)
    ids = None if ids is None else as_names(ids)
    index = _matrix(data.edge_index)
    if index is not None:
        return graph_of(index, _weights(data), data.num_nodes, features, ids)
    # Undirected, so that the transpose will do.
    adjacency = next((a for a in map(data.get, ("adj_t", "adj")) if a is not None), None)
    if adjacency is None:
        raise ValueError("the Data object has neither edge_index nor adj_t; a graph needs one")
    return Graph(_matrix(adjacency), features, ids)


def to_pyg(graph: Graph, y: Any, splits: Mapping[str, Any] | None) -> Any:
    """See :meth:`nodegp.Graph.to_pyg`."""
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as missing:
        hint = to_install("baselines")
        raise ImportError(f"this needs PyTorch Geometric: {hint}") from missing
    edges = graph.adjacency.tocoo()
    index = np.stack([edges.row, edges.col]).astype(np.int64)
    data = Data(edge_index=torch.from_numpy(index), num_nodes=graph.n_nodes)
    if (edges.data != 1).any():
        # Single precision, which PyTorch's layers want, where it loses nothing.
        single = edges.data.astype(np.float32)
        data.edge_weight = torch.from_numpy(single if (single == edges.data).all() else edges.data)
    if graph.features is not None:
        data.x = _tensor(graph.features)
    if graph.ids is not None:
        data.ids = graph.ids.tolist()
    if y is not None:
        values = np.array(y)
        if values.shape != (graph.n_nodes,) or values.dtype.kind not in "iufb":
            raise ValueError(
                f"y must be one number per node ({graph.n_nodes} nodes), got {values.dtype} of "
                f"shape {values.shape}; write class names as numbers first, -1 where there is no "
                "label"
            )
        data.y = torch.from_numpy(values)
    for name, nodes in (splits or {}).items():
        mask = torch.zeros(graph.n_nodes, dtype=torch.bool)
        mask[torch.from_numpy(graph.numbers(nodes))] = True
        data[f"{name}_mask"] = mask
    return data


def labels(data: Any, y: Any = None) -> list | None:
    """``data.y`` in node order, None outside ``train_mask`` (if there is one); None if there is
    a y beside it."""
    if y is not None:
        return None
    targets, mask = node_targets(data).astype(object), node_mask(data, "train")
    if mask is not None:
        targets[~mask] = None
    return targets.tolist()


def node_targets(data: Any) -> np.ndarray:
    """``data.y`` with one entry per node."""
    y = _matrix(getattr(data, "y", None))
    if y is None:
        raise ValueError("the Data object has no y; set data.y, or pass the labels as y")
    y = y.ravel() if y.shape == (data.num_nodes, 1) else y
    if y.shape != (data.num_nodes,):
        raise ValueError(
            f"data.y has shape {y.shape} for {data.num_nodes} nodes; one label per node is needed"
        )
    return y


def node_mask(data: Any, name: str, split: int | None = None) -> np.ndarray | None:
    """``data.<name>_mask``, if there is one; of several in columns, the one asked for."""
    mask = _matrix(getattr(data, f"{name}_mask", None))
    if mask is None:
        return None
    if mask.ndim == 2 and split is not None and split < mask.shape[1]:
        mask = mask[:, split]
    if mask.shape != (data.num_nodes,) or mask.dtype != bool:
        raise ValueError(
            f"data.{name}_mask has shape {mask.shape} and type {mask.dtype}; it must be one bool "
            f"per node. Of several splits, choose one: data.{name}_mask[:, 0]"
        )
    return mask


def _weights(data: Any) -> np.ndarray | None:
    """One weight per edge; edge attributes of several columns are no weights."""
    weights = _matrix(getattr(data, "edge_weight", None))
    if weights is None:
        weights = _matrix(getattr(data, "edge_attr", None))
        if weights is None or (weights.ndim == 2 and weights.shape[1] != 1):
            return None
    return weights.reshape(len(weights))


def _matrix(value: Any) -> Any:
    """A tensor as a numpy array, a sparse one (torch's or torch_sparse's) as a scipy one."""
    if value is None or isinstance(value, np.ndarray) or sp.issparse(value):
        return value
    import torch

    if hasattr(value, "to_torch_sparse_coo_tensor"):
        value = value.to_torch_sparse_coo_tensor()
    value = torch.as_tensor(value).detach().cpu()
    if value.dtype == torch.bfloat16:  # which numpy does not have
        value = value.float()
    if value.layout == torch.strided:
        return value.numpy()
    value = value.to_sparse_coo().coalesce()
    rows, columns = value.indices().numpy()
    return sp.csr_array((value.values().numpy(), (rows, columns)), shape=tuple(value.shape))


def _tensor(features: Any) -> Any:
    import torch

    if not sp.issparse(features):
        return torch.from_numpy(np.array(features))  # a copy: it is the caller's to change
    starts, columns = features.indptr.astype(np.int64), features.indices.astype(np.int64)
    a, b, c = (torch.tensor(part) for part in (starts, columns, features.data))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(a, b, c, size=features.shape, check_invariants=True)
