"""From later files to more nodes of a graph that is known already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodegp.graph import Graph
from nodegp.io.edges import read_edges
from nodegp.io.encoder import Encoder
from nodegp.io.ids import TEXT, Index, as_array, from_array
from nodegp.io.load import Column, inputs_of, node_index, raw_rows
from nodegp.io.tables import TableFile
from nodegp.neighbours import joined_graph


def join_tables(
    known: Graph,
    encoder: Encoder,
    nodes: str | Path,
    edges: str | Path | None = None,
    *,
    id: Column | None = None,
    edge_columns: Sequence[Column] | None = None,
    weight: Column | None = None,
    features_npy: str | Path | None = None,
    features_npz: str | Path | None = None,
    knn: int | None = None,
    ignore_unknown: bool = False,
) -> tuple[Graph, np.ndarray]:
    """Join new nodes to a known graph.

    The files are as for :class:`TableSource`. Edges may link new nodes to each other and to
    known ones, and known ones to each other; they add to the known edges. A row for a node that
    is known already replaces its features. With ``knn`` new nodes are linked to so many nearest
    known ones; with neither edges nor ``knn`` they stand alone.

    Returns
    -------
    graph : the known nodes in their order, followed by the new ones
    asked : the positions in it of the rows of the nodes file, in their order
    """
    if known.ids is None:
        raise ValueError("the known graph has no ids, so nothing can be joined to it")
    file = TableFile.open(nodes)
    id_name = file.find(1 if id is None else id, "ids")
    missing = [name for name in encoder.columns() if name not in file.names]
    if missing:
        raise ValueError(
            f"{nodes} has no column {missing[0]!r}; the model needs the columns it was fitted with"
        )
    table = file.read([id_name, *encoder.columns()], text=[id_name, *encoder.text_columns()])
    rows = node_index(table, id_name)
    features = encoder.encode(inputs_of(table, features_npy, features_npz))
    everyone, asked = _numbered(Index(from_array(known.ids)), rows)
    n_new = len(everyone) - known.n_nodes
    features = _with_rows(known.features, features, asked, n_new)
    if edges is not None:
        added = read_edges(edges, everyone, edge_columns, weight, ignore_unknown).matrix
    elif knn is not None and n_new:
        if features is None:
            raise ValueError("the model has no features, so new nodes need edges")
        new = features[known.n_nodes :]
        joined = joined_graph(known, raw_rows(known.features), new, raw_rows(new), knn)
        added = joined.adjacency.tocoo()
    else:
        added = sp.coo_array((len(everyone), len(everyone)))
    return Graph(_together(known, added), features, as_array(everyone.names)), asked


def _numbered(known: Index, rows: Index) -> tuple[Index, np.ndarray]:
    """Known names followed by new ones, and where the rows stand among them."""
    asked = known.find(rows.names).astype(np.intp)
    new = np.flatnonzero(asked < 0)
    asked[new] = len(known) + np.arange(len(new))
    parts = [known.names, rows.names.take(pa.array(new))]
    if parts[0].type != parts[1].type:
        parts = [part.cast(TEXT) for part in parts]
    return Index(pa.concat_arrays(parts)), asked


def _with_rows(known: Any, rows: Any, asked: np.ndarray, n_new: int) -> Any:
    """The known features followed by new rows, with rows of known nodes in their place."""
    if (known is None) != (rows is None) or (rows is not None and known.shape[1] != rows.shape[1]):
        raise ValueError("the known graph's features were not made by this encoder")
    if known is None:
        return None
    n_known = known.shape[0]
    take = np.arange(n_known + n_new)
    take[asked] = n_known + np.arange(len(asked))
    if sp.issparse(known) or sp.issparse(rows):
        stacked: Any = sp.vstack([sp.csr_array(known), sp.csr_array(rows)], format="csr")
    else:
        stacked = np.vstack([known, rows])
    return stacked if n_new == len(asked) else stacked[take]


def _together(known: Graph, added: sp.coo_array) -> sp.coo_array:
    """All edges one after the other; the graph takes the larger weight of any given twice."""
    old = known.adjacency.tocoo()
    parts = zip((old.data, old.row, old.col), (added.data, added.row, added.col), strict=True)
    data, row, col = (np.concatenate(part) for part in parts)
    return sp.coo_array((data, (row, col)), shape=added.shape)
