"""From later files to more nodes of a graph that is known already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodegp.graph import Graph, all_edges
from nodegp.io.edges import read_edges
from nodegp.io.encoder import Encoder
from nodegp.io.ids import TEXT, Index, as_names
from nodegp.io.keyed import with_features
from nodegp.io.load import node_index, raw_rows
from nodegp.io.tables import Column, TableFile
from nodegp.neighbours import joined_graph, stack

__all__ = ["join_tables"]


def join_tables(
    graph: Graph,
    encoder: Encoder,
    nodes: Any,
    edges: Any = None,
    *,
    id: Column | None = None,
    usual_id: Column | None = None,
    edge_columns: Sequence[Column] | None = None,
    weight: Column | None = None,
    features_npy: str | Path | None = None,
    features_npz: str | Path | None = None,
    features_table: Any = None,
    knn: int | None = None,
    ignore_unknown: bool = False,
    sep: str | None = None,
    encoding: str | None = None,
) -> tuple[Graph, np.ndarray]:
    """Join new nodes to a known graph.

    The tables are as for :class:`TableSource`. Edges may link new nodes to each other and to
    known ones, and known ones to each other; they add to the known edges. A row for a node that
    is known already replaces its features. Without ``id``, the ids are in the column ``usual_id``
    if the file has it, else in the first. With ``knn`` each new node is linked to this many nearest
    known nodes; with neither edges nor ``knn`` new nodes are isolated.

    Returns
    -------
    graph : the known nodes in their order, followed by the new ones
    positions : position in the graph of each row of the nodes file
    """
    if graph.ids is None:
        raise ValueError("the known graph has no ids, so nothing can be joined to it")
    file = TableFile.open(nodes, "nodes", sep, encoding)
    id_name = file.find_id(id, usual_id)
    if features_table is not None:
        other = TableFile.open(features_table, "features", sep, encoding)
        file = with_features(file, other, id_name)
    missing = [name for name in encoder.columns() if name not in file.names]
    if missing:
        raise ValueError(
            f"{file.path} has no column {missing[0]!r}; the model needs the columns that it was "
            "fitted with (those of a --features-table in such a table again)"
        )
    table = file.read(
        [id_name, *encoder.columns()], text=[id_name, *encoder.columns(as_written=True)]
    )
    rows = node_index(table, id_name)
    features = encoder.encode(table.with_matrices(npy=features_npy, npz=features_npz))
    everyone, positions = _numbered(Index(as_names(graph.ids)), rows)
    n_new = len(everyone) - graph.n_nodes
    features = _with_rows(graph.features, features, positions, n_new)
    if edges is not None:
        edge_file = TableFile.open(edges, "edges", sep, encoding)
        new_edges, _ = read_edges(edge_file, everyone, edge_columns, weight, ignore_unknown)
        adjacency = all_edges([graph.adjacency, new_edges])
    elif knn is not None and n_new:
        if features is None:
            raise ValueError("the model has no features, so new nodes need edges")
        new = features[graph.n_nodes :]
        joined = joined_graph(graph, raw_rows(graph.features), new, raw_rows(new), knn)
        adjacency = joined.adjacency
    else:
        adjacency = sp.block_diag([graph.adjacency, sp.csr_array((n_new, n_new))])
    ids = everyone.names.to_numpy(zero_copy_only=False)
    return Graph(adjacency, features, ids, is_prepared=True), positions


def _numbered(nodes: Index, rows: Index) -> tuple[Index, np.ndarray]:
    """Known names followed by new ones, and where the rows stand among them."""
    positions = nodes.find(rows.names).astype(np.intp)
    new = np.flatnonzero(positions < 0)
    positions[new] = len(nodes) + np.arange(len(new))
    parts = [nodes.names, rows.names.take(pa.array(new))]
    if parts[0].type != parts[1].type:
        parts = [part.cast(TEXT) for part in parts]
    return Index(pa.concat_arrays(parts), rows.origin), positions


def _with_rows(features: Any, rows: Any, positions: np.ndarray, n_new: int) -> Any:
    """The known features followed by new rows, with rows of known nodes in their place."""
    widths = [None if matrix is None else matrix.shape[1] for matrix in (features, rows)]
    if widths[0] != widths[1]:
        raise ValueError("the known graph's features were not made by this encoder")
    if features is None:
        return None
    n_known, stacked = features.shape[0], stack([features, rows])
    if n_new == len(positions):
        return stacked
    order = np.arange(n_known + n_new)
    order[positions] = n_known + np.arange(len(positions))
    return stacked[order]
