"""From a user's files to a graph with labels."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from nodegp.features import FeatureRows
from nodegp.graph import Graph
from nodegp.io.cells import OddCell, odd_cell
from nodegp.io.columns import (
    CATEGORY,
    EXCLUDED,
    FEATURE,
    INDEX,
    NUMBER,
    TEXT,
    feature_columns,
    named_columns,
)
from nodegp.io.edges import read_edges
from nodegp.io.encoder import Encoder, raw_features
from nodegp.io.frames import Frame
from nodegp.io.identifiers import identifier
from nodegp.io.ids import Index, ids_of
from nodegp.io.keyed import with_features
from nodegp.io.labels import file_labels, label_name_in, table_labels, targets_of
from nodegp.io.networks import read_network
from nodegp.io.summary import Summary, no_features_of, summarise
from nodegp.io.tables import Column, Table, TableFile, is_text, written_values
from nodegp.neighbours import table_graph
from nodegp.preprocessing import Preprocessor

__all__ = ["Loaded", "TableSource", "graph_of_tables", "node_index", "raw_rows", "read_tables"]

_SHOWN, _SHOWN_BYTES = 3, 1 << 26  # columns that are kept for people unasked, each so large


@dataclass(frozen=True)
class TableSource:
    """Tables that describe a graph: files, or tables of pandas, polars or pyarrow. Columns are
    given by name, or by position counted from 1.

    Parameters
    ----------
    nodes : table with a row per node, in any of the formats of ``nodegp.io.formats``
    edges : table with a row per edge, optional
    id : column of the nodes' ids; by default the first
    label : column of class labels, in ``labels`` if that is given, else in ``nodes``
        Empty cells are unlabelled nodes.
    edge_columns : the two columns of ids in ``edges``; by default the first two
        A text file of edges whose columns are not named needs no header.
    weight : column of weights in ``edges``
    labels : table of ids and labels, if they are not in ``nodes``
    features : feature columns; by default all columns of numbers or lists of numbers that do not
        look like ids (:mod:`nodegp.io.identifiers`)
        Text columns listed here are treated as categories.
    exclude : columns not to use as features
    show : columns to display for a node; by default text columns, at most three
    text : text columns, whose words become features
    counts : weighting of words and other counts: "sqrt-tfidf" or "tfidf"
    categorical : columns of categories, even if they look like numbers
    features_npy, features_npz : a dense matrix of ``numpy.save``, a sparse one of
        ``scipy.sparse.save_npz``; rows in the order of the nodes
    features_table : table of additional features; its id column is named as in ``nodes``, or is the
        first
    graph : GraphML, GEXF or GML file instead of ``nodes`` and ``edges``
        Node and edge attributes become the columns of nodes and edges; the default weight is the
        edge attribute "weight", if it exists.
    knn : without edges, link each node to this many nearest neighbours by features
    ignore_unknown : leave out edges and labels of unknown ids
    sep, encoding : field separator and encoding of text files; by default detected for each
    """

    nodes: Any = None
    edges: Any = None
    id: Column | None = None
    label: Column | None = None
    edge_columns: Sequence[Column] | None = None
    weight: Column | None = None
    labels: Any = None
    features: Sequence[Column] | None = None
    text: Sequence[Column] | None = None
    categorical: Sequence[Column] | None = None
    exclude: Sequence[Column] | None = None
    show: Sequence[Column] | None = None
    features_npy: str | Path | None = None
    features_npz: str | Path | None = None
    features_table: Any = None
    graph: str | Path | None = None
    knn: int | None = None
    ignore_unknown: bool = False
    counts: str = "sqrt-tfidf"
    sep: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if (self.nodes is None) == (self.graph is None):
            raise ValueError("give nodes, or a graph that has them, and not both")
        for name in ("edge_columns", "features", "text", "categorical", "exclude", "show"):
            if isinstance(getattr(self, name), str | int):
                raise TypeError(f"{name} must be a list of columns, got {getattr(self, name)!r}")
        if (self.edges is None and self.graph is None) == (self.knn is None):
            both = "" if self.knn is None else ", but not both"
            raise ValueError(f"give edges, or knn to build them from the features{both}")
        if self.graph is not None and self.edges is not None:
            raise ValueError("give edges or a graph, which has edges of its own, and not both")
        if self.knn is not None and self.knn < 1:
            raise ValueError(f"knn must be at least 1, got {self.knn}")

    def open(self, what: str) -> TableFile:
        """One of the tables, by the name of its parameter."""
        title = what.removesuffix("_table")
        return TableFile.open(getattr(self, what), title, self.sep, self.encoding)

    def unpacked(self) -> TableSource:
        """The same with tables of nodes and edges in the place of a graph."""
        if self.graph is None:
            return self
        nodes, edges = read_network(self.graph)
        weight = "weight" if self.weight is None and "weight" in edges.column_names else self.weight
        ends = edges.column_names[:2]
        return replace(self, graph=None, nodes=nodes, edges=edges, edge_columns=ends, weight=weight)


@dataclass(frozen=True, eq=False)
class Loaded:
    """What was read. ``labels`` has one entry per node, None where there is no label, and is
    None itself if no labels were asked for."""

    graph: Graph
    labels: np.ndarray | None
    encoder: Encoder
    findings: dict[str, Any]  # what can no longer be seen in the graph
    shown: dict[str, np.ndarray]  # by column, what people are shown of each node
    id_name: str  # the column of ids
    label_name: str | None  # that of labels, if any

    @cached_property
    def summary(self) -> Summary:
        """A summary of what was read, computed on first access."""
        classes = None
        if self.labels is not None:
            counts = Counter(self.labels.tolist())
            classes = {name: counts[name] for name in sorted(counts.keys() - {None})}
        return summarise(self.graph, self.encoder, self.findings | {"classes": classes})

    def targets(self) -> tuple[np.ndarray, Any]:
        """``y`` for a model's ``fit``, and the value of its parameter ``unlabelled``.

        Whole numbers stay whole numbers, and none of them, such as -1, means a missing label.
        """
        if self.labels is None:
            raise ValueError("no labels were read; name their column")
        return targets_of(self.labels)


def read_tables(source: TableSource) -> Loaded:
    """Read tables into a graph whose features are prepared for a model."""
    source = source.unpacked()
    table, columns, shown, omitted, id_name, label_name = _read_nodes(source)
    nodes = node_index(table, id_name)
    labels, unknown_labels = None, 0
    if source.labels is not None:
        labels, unknown_labels = file_labels(
            source.open("labels"), nodes, source.id, source.label, source.ignore_unknown
        )
    elif label_name is not None:
        labels = table_labels(table, label_name)
    table = table.with_matrices(npy=source.features_npy, npz=source.features_npz)
    encoder, features, findings = Encoder.fit(table, columns, source.counts)
    texts = {name: written_values(table.column(name)) for name in shown}
    path = table.path
    del table  # a million rows are not kept twice
    counts: dict[str, int] = {}
    if source.edges is not None:
        adjacency, counts = _edges(source, nodes)
    elif features is None or source.knn is None:
        raise ValueError(f"{path} gives no features to find nearest neighbours by")
    else:
        adjacency = table_graph(features, raw_rows(features), source.knn).adjacency
    graph = Graph(adjacency, features, _ids(nodes), is_prepared=True)
    if counts:
        usable = adjacency.nnz - counts["self_loops"] - counts["zero_weights"]
        counts["repeated_edges"] = usable - graph.n_edges
    counts["unknown_labels"] = unknown_labels
    return Loaded(graph, labels, encoder, findings | omitted | counts, texts, id_name, label_name)


def graph_of_tables(source: TableSource) -> Graph:
    """See :meth:`nodegp.Graph.from_dataframes`: a graph alone, its features prepared only where
    some are not numbers."""
    table, columns, _, omitted, id_name, _ = _read_nodes(source)
    for name, what in omitted["left_out"].items():
        if what != INDEX:
            cell = omitted["odd_cells"].get(name)
            first = "" if cell is None else f" ({cell})"
            raise ValueError(
                f"{table.where(name)} holds {what}, not numbers{first}. Name the columns to use in "
                "features=[...], text=[...] and categorical=[...]."
            )
    if omitted["identifiers"]:
        warnings.warn(no_features_of(omitted["identifiers"]), stacklevel=3)
    nodes = node_index(table, id_name)
    is_prepared = not {CATEGORY, TEXT}.isdisjoint(columns.values())
    features = Encoder.fit(table, columns)[1] if is_prepared else raw_features(table, columns)
    return Graph(_edges(source, nodes)[0], features, _ids(nodes), is_prepared)


def _edges(source: TableSource, nodes: Index) -> tuple[sp.coo_array, dict[str, int]]:
    return read_edges(
        source.open("edges"), nodes, source.edge_columns, source.weight, source.ignore_unknown
    )


def _ids(nodes: Index) -> np.ndarray:
    ids: np.ndarray = nodes.names.to_numpy(zero_copy_only=False)
    return ids


class _Nodes(NamedTuple):
    """The nodes' table, its features with their kinds, the columns that people are shown, what was
    left out and why, and the names of the columns of ids and labels."""

    table: Table
    columns: dict[str, str]
    shown: list[str]
    findings: dict[str, dict[str, str]]
    id_name: str
    label_name: str | None


def _read_nodes(source: TableSource) -> _Nodes:
    file = source.open("nodes")
    id_name = file.find_id(source.id)
    if source.features_table is not None:
        file = with_features(file, source.open("features_table"), id_name)
    other_uses, names, label_name = {id_name: "the id"}, [id_name], None
    if source.labels is not None:
        # Labels are elsewhere, but a column of that name here would give them away.
        label_name = label_name_in(source.open("labels"), source.label)
    elif source.label is not None:
        label_name = file.find(source.label, "labels")
        if label_name == id_name:
            raise ValueError(f"column {id_name!r} of {file.path} cannot be both id and label")
        names.append(label_name)
    if label_name is not None:
        other_uses[label_name] = "the label"
    columns_by_use = {
        FEATURE: source.features,
        CATEGORY: source.categorical,
        TEXT: source.text,
        EXCLUDED: source.exclude,
    }
    uses = named_columns(file, other_uses, columns_by_use)
    choose = source.features is None
    named = [file.find(column, "columns to show") for column in source.show or ()]
    if file.schema is not None:
        columns, left_out = feature_columns(file.schema, str(file.path), uses, choose)
        is_read = source.show is None or isinstance(file.format, Frame)
        texts = _texts(file.schema, other_uses) if is_read else []
        table = file.read([*names, *columns, *named, *texts])
    else:
        as_written = [name for name, use in uses.items() if use != FEATURE]
        features = [name for name in uses if name not in other_uses]
        needed = None if choose or source.show is None else [*names, *features, *named]
        table = file.read(needed, text=as_written)
        columns, left_out = feature_columns(table.data.schema, str(file.path), uses, choose)
    lists = (source.features, source.text, source.categorical)
    by_name = [source.id, *(column for items in lists for column in items or ())]
    if len(names) > 1:
        by_name.append(source.label)
    if file.format.has_header_line and not file.has_names(by_name):
        _refuse_row_as_header(table, id_name, None if len(names) == 1 else label_name)
    chosen = [name for name, kind in columns.items() if kind == NUMBER and name not in uses]
    identifiers = {name: why for name in chosen if (why := identifier(table, name))}
    columns = {name: kind for name, kind in columns.items() if name not in identifiers}
    findings = {"left_out": left_out, "identifiers": identifiers}
    spoilt = _spoilt(table, [*left_out, *columns], uses)
    findings |= {"odd_cells": {name: str(cell) for name, cell in spoilt.items()}}
    if source.show is None:
        first = [name for name, kind in columns.items() if kind == TEXT]
        readable = dict.fromkeys([*first, *_texts(table.data.schema, other_uses)])
        named = [name for name in readable if table.column(name).nbytes <= _SHOWN_BYTES][:_SHOWN]
    return _Nodes(table, columns, named, findings, id_name, label_name)


def _spoilt(table: Table, names: Sequence[str], uses: Mapping[str, str]) -> dict[str, OddCell]:
    """Columns of text, of which nobody said that they are some, with nearly all numbers."""
    found: dict[str, OddCell] = {}
    for name in names:
        is_meant = uses.get(name, FEATURE) != FEATURE
        if not is_meant and name in table.data.column_names and is_text(table.column(name).type):
            cell = odd_cell(table.column(name))
            if cell is not None:
                found[name] = cell
    return found


def _texts(schema: pa.Schema, other_uses: Mapping[str, str]) -> list[str]:
    """The columns of text, which people can read."""
    return [f.name for f in schema if is_text(f.type) and f.name not in other_uses]


def _refuse_row_as_header(table: Table, id_name: str, label_name: str | None) -> None:
    """Raise if the first line of a file, by which no column was named, looks like a row: the
    node in it would be lost in silence. (It is not taken for a row, since later rows are known to
    belong to the same columns by their names.)"""
    file, reasons = table.file, []
    cells = [name.strip() for name in file.names]
    if label_name is not None and label_name.strip() in map(str, table_labels(table, label_name)):
        reasons.append(f"has the label {label_name.strip()!r}")
    is_counted = cells in ([str(n + first) for n in range(len(cells))] for first in (0, 1))
    may_be_id = id_name.strip().isdecimal() and not is_counted
    if may_be_id and pa.types.is_integer(ids_of(table, id_name).type):
        reasons.append(f"has the id {id_name.strip()}")
    if reasons:
        raise ValueError(file.no_header(" and ".join(reasons)))


def node_index(table: Table, id_name: str) -> Index:
    """The nodes' ids, all there and all different."""
    if not len(table):
        raise ValueError(f"{table.path} has a header but no rows; a graph needs nodes")
    index = Index(ids_of(table, id_name), (table.file, id_name))
    index.require_different(table.where(id_name))
    return index


def raw_rows(features: Any) -> FeatureRows:
    """Features that are ready for a model, as rows to be compared."""
    return FeatureRows.of(Preprocessor.fit(features, "raw"), features, features.shape[0])
