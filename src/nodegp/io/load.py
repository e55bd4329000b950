"""From a user's files to a graph with labels, and from later files to more nodes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodegp.features import FeatureRows
from nodegp.graph import Graph
from nodegp.io.arrays import read_npy, read_npz
from nodegp.io.columns import Chosen, Wanted
from nodegp.io.edges import Edges, read_edges
from nodegp.io.encoder import Encoder
from nodegp.io.ids import Index, as_array, names_of, require_all
from nodegp.io.labels import GAP, as_objects, label_column, label_name_in, labels_by_position
from nodegp.io.readers import Inputs
from nodegp.io.summary import Noted, Summary, summarise
from nodegp.io.tables import Table, TableFile
from nodegp.neighbours import table_graph
from nodegp.preprocessing import Preprocessor

Column = str | int


@dataclass(frozen=True)
class TableSource:
    """Files that describe a graph. Any column is given by name, or by position from 1.

    Parameters
    ----------
    nodes : file with a row per node (.csv, .tsv, .txt, these with .gz, or .parquet)
    edges : file with a row per edge, optional
    id : column of the nodes' ids; by default the first
    label : column of class labels, in ``labels`` if that is given and else in ``nodes``
        An empty label means that there is none.
    edge_columns : the two columns of ids in ``edges``; by default the first two
        A text file of edges whose columns are not named needs no header.
    weight : column of weights in ``edges``
    labels : file of ids and labels, if they are not in ``nodes``
    features : columns that are features; by default all that hold numbers or lists of them
        Columns of text that are named here are categories.
    text : columns of text, of which the words are features
    counts : how words and other counts are weighted: "damped" or "tfidf"
    categorical : columns of categories, whatever they hold
    features_npy, features_npz : a dense matrix of ``numpy.save``, a sparse one of
        ``scipy.sparse.save_npz``; rows in the order of the nodes file
    knn : without edges, link each node to so many nearest others by its features
    ignore_unknown : leave out edges and labels of ids that are not in the nodes file
    """

    nodes: str | Path
    edges: str | Path | None = None
    id: Column | None = None
    label: Column | None = None
    edge_columns: Sequence[Column] | None = None
    weight: Column | None = None
    labels: str | Path | None = None
    features: Sequence[Column] | None = None
    text: Sequence[Column] | None = None
    categorical: Sequence[Column] | None = None
    features_npy: str | Path | None = None
    features_npz: str | Path | None = None
    knn: int | None = None
    ignore_unknown: bool = False
    counts: str = "damped"

    def __post_init__(self) -> None:
        for name in ("edge_columns", "features", "text", "categorical"):
            if isinstance(getattr(self, name), str | int):
                raise TypeError(f"{name} must be a list of columns, got {getattr(self, name)!r}")
        if self.edges is not None and self.knn is not None:
            raise ValueError("give edges, or knn to build them from the features, but not both")
        if self.edges is None and self.knn is None:
            raise ValueError("give edges, or knn to build them from the features")
        if self.knn is not None and self.knn < 1:
            raise ValueError(f"knn must be at least 1, got {self.knn}")


@dataclass(frozen=True, eq=False)
class Loaded:
    """What was read. ``labels`` has one entry per node, None where there is no label, and is
    None itself if no labels were asked for."""

    graph: Graph
    labels: np.ndarray | None
    encoder: Encoder
    noted: Noted

    @cached_property
    def summary(self) -> Summary:
        """What came in. It takes a walk over the graph, so it is made when asked for."""
        return summarise(self.graph, self.encoder, self.noted)

    def targets(self) -> tuple[np.ndarray, Any]:
        """``y`` for a model's ``fit``, and the value of its parameter ``unlabelled``.

        Whole numbers stay whole numbers, and none of them, such as -1, is taken for a gap.
        """
        if self.labels is None:
            raise ValueError("no labels were read; name their column")
        given = np.array([label is not None for label in self.labels])
        if isinstance(self.labels[given][0], str):
            return self.labels, None
        y = np.full(len(self.labels), GAP)
        y[given] = self.labels[given].astype(np.int64)
        return y, GAP


def read_tables(source: TableSource) -> Loaded:
    """Read files into a graph whose features are ready for a model with ``features="raw"``."""
    table, chosen, id_name, label_name = _read_nodes(source)
    nodes = node_index(table, id_name)
    labels, classes, unknown_labels = _read_labels(source, table, label_name, nodes)
    inputs = inputs_of(table, source.features_npy, source.features_npz)
    encoder, features, findings = Encoder.fit(inputs, chosen, source.counts)
    del table, inputs  # a million rows are not kept twice
    ids = as_array(nodes.names)
    if source.edges is None:
        edges = Edges(sp.coo_array((len(ids), len(ids))))
        graph = _nearest(features, ids, source)
        repeated = 0
    else:
        edges = read_edges(
            source.edges, nodes, source.edge_columns, source.weight, source.ignore_unknown
        )
        graph = Graph(edges.matrix, features, ids)
        repeated = edges.usable - graph.n_edges
    noted = Noted(
        classes=classes,
        repeated_edges=repeated,
        self_loops=edges.self_loops,
        zero_weights=edges.zero_weights,
        unknown_edges=edges.unknown,
        unknown_labels=unknown_labels,
        dropped_columns=findings.dropped,
        missing_values=findings.gaps,
        left_out=chosen.left_out,
    )
    return Loaded(graph, labels, encoder, noted)


# --- reading ----------------------------------------------------------------------------------


def _read_nodes(source: TableSource) -> tuple[Table, Chosen, str, str | None]:
    """The nodes' table, its features by kind, and the names of its id and label columns."""
    file = TableFile.open(source.nodes)
    id_name = file.find(1 if source.id is None else source.id, "ids")
    taken, label_name = {id_name: "the id"}, None
    if source.labels is not None:
        # Labels are elsewhere, but a column of that name here would give them away.
        taken[label_name_in(TableFile.open(source.labels), source.label)] = "the label"
    elif source.label is not None:
        label_name = file.find(source.label, "labels")
        if label_name == id_name:
            raise ValueError(f"column {id_name!r} of {file.path} cannot be both id and label")
        taken[label_name] = "the label"
    text, categorical = source.text or (), source.categorical or ()
    wanted = Wanted.of(file, source.features, categorical, text, taken)
    as_written = [*taken, *wanted.categories, *wanted.texts]
    needed = [id_name] if label_name is None else [id_name, label_name]
    if file.schema is not None:
        chosen = wanted.choose(file.schema, str(file.path), taken)
        table = file.read([*needed, *chosen.columns()])
    else:
        named = [*(wanted.features or []), *wanted.categories, *wanted.texts]
        columns = None if wanted.features is None else [*needed, *named]
        table = file.read(columns, text=as_written)
        chosen = wanted.choose(table.data.schema, str(file.path), taken)
    if not len(table):
        raise ValueError(f"{file.path} has a header but no rows; a graph needs nodes")
    return table, chosen, id_name, label_name


def node_index(table: Table, id_name: str) -> Index:
    """The nodes' ids, all there and all different."""
    if not len(table):
        raise ValueError(f"{table.path} has a header but no rows")
    names = names_of(table, id_name, "ids")
    require_all(names, table.where(id_name), "id")
    index = Index(names)
    index.require_different(table.where(id_name))
    return index


def inputs_of(table: Table, npy: str | Path | None, npz: str | Path | None) -> Inputs:
    return Inputs(
        table,
        None if npy is None else read_npy(npy, len(table)),
        None if npz is None else read_npz(npz, len(table)),
    )


def _read_labels(
    source: TableSource, table: Table, label_name: str | None, nodes: Index
) -> tuple[np.ndarray | None, dict[Any, int] | None, int]:
    """Labels of all nodes, class counts, and how many labels were of unknown ids."""
    if label_name is not None:
        return *as_objects(label_column(table, label_name)), 0
    if source.labels is None:
        return None, None, 0
    id_here = source.id if isinstance(source.id, str) else None
    if id_here is not None and id_here not in TableFile.open(source.labels).names:
        id_here = None
    positions, labels, unknown = labels_by_position(
        source.labels, nodes, id_here, source.label, source.ignore_unknown
    )
    if not len(positions):
        raise ValueError(
            f"{source.labels} has labels only for ids that are not in the nodes file, so no node "
            "has a label"
        )
    values, classes = as_objects(pa.chunked_array([labels]))
    everywhere = np.full(len(nodes), None, dtype=object)
    everywhere[positions] = values
    return everywhere, classes, unknown


# --- graphs -----------------------------------------------------------------------------------


def raw_rows(features: Any) -> FeatureRows:
    return FeatureRows.of(Preprocessor.fit(features, "raw"), features, features.shape[0])


def _nearest(features: Any, ids: np.ndarray, source: TableSource) -> Graph:
    if features is None:
        raise ValueError(f"{source.nodes} gives no features to find nearest neighbours by")
    assert source.knn is not None
    return Graph(table_graph(features, raw_rows(features), source.knn).adjacency, features, ids)
