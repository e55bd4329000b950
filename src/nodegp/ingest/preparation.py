"""``nodegp.prepare``: tables of any size into a stored graph, in bounded memory.

In stages: the nodes' ids and an index of them; the edges, by the numbers of their nodes, in sorted
runs on disk; the edges of each part from all runs; the features and ids of each part. What is whole
is recorded, so that whoever is killed goes on where it was.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodegp.budget import bytes_of
from nodegp.ingest.columns import Columns, look
from nodegp.ingest.edges import EdgeReader
from nodegp.ingest.labels import LabelColumn, find_labels
from nodegp.ingest.node_ids import NodeIds
from nodegp.ingest.plan import Plan, size_in_words
from nodegp.ingest.sources import Source
from nodegp.ingest.wide import WideFeatures
from nodegp.io.tables import Column
from nodegp.io.words import amount, listed
from nodegp.store import StoredGraph, open_store
from nodegp.store.assembling import (
    cut_rows,
    write_column_statistics,
    write_edges,
    write_feature_parts,
)
from nodegp.store.building import Building
from nodegp.store.manifest import FeatureKind, LabelKind
from nodegp.store.parts import PART_ENTRIES, Records, finish_store, largest_rows
from nodegp.store.runs import MOST_NODES

__all__ = ["Preparation", "prepare"]

_PATIENCE = 2.0  # seconds between two lines of progress
_BYTES_OF_ENTRY = 128  # that sorting takes for each, with its weight and all copies
_LEAST_MEMORY = 64 << 20

Tell = Callable[[str], object]


def prepare(
    nodes: Any,
    edges: Any,
    path: str | Path,
    *,
    id: Column | None = None,
    label: Column | None = None,
    source: Column | None = None,
    target: Column | None = None,
    weight: Column | None = None,
    features: Sequence[Column] | None = None,
    exclude: Sequence[Column] | None = None,
    text: Sequence[Column] | None = None,
    svd: int | None = None,
    ignore_unknown: bool = False,
    memory: int | str = "1GiB",
    part_entries: int = PART_ENTRIES,
    sep: str | None = None,
    encoding: str | None = None,
    force: bool = False,
    progress: Tell | None = None,
) -> StoredGraph:
    """Turn tables of nodes and edges of any size into a stored graph.

    The graph is the same as that of the tables read into memory (:class:`nodegp.Graph`):
    undirected, with the largest weight given for an edge, without self-loops. If it was killed, the
    next call with the same tables and settings continues where it stopped.

    Parameters
    ----------
    nodes, edges : a file, a folder of files, a list of files, or a table in memory
        Parquet, CSV or any format in :func:`nodegp.io.formats.endings`. Files of a folder are read
        in alphabetical order; nodes keep the order of their rows.
    path : folder of the store
    id : column of the nodes' ids, whole numbers or text; by default the first
    label : column of class labels, empty where there is none: kept as pairs of node and label,
        which ``store.labels`` gives, and no feature
    source, target : columns of ids of the edges; by default the first two
    weight : column of weights of the edges
    features : feature columns; by default all columns of numbers, or of lists of equally many
        numbers, that do not look like ids. List them if there are columns that must not be used: a
        column of labels among the features would leak the answer. ``[]`` means none.
    exclude : columns not to use as features, such as other labels
    text : text columns, whose words become features
        Words are identified by a 20-bit hash; of those in at least two nodes, the 65,536 most
        frequent of each column are kept. Lists of whole numbers of varying length are indices of
        binary features. Both make the features sparse.
    svd : reduce such sparse features to this many dense columns, by a randomised singular value
        decomposition of their TF-IDF; features are then preprocessed
    ignore_unknown : leave out and count edges to unknown ids
    memory : about how much memory to use, such as "2GiB" or a number of bytes, in addition to 16
        bytes per node
    part_entries : entries of the adjacency in a part
    sep, encoding : of text files; by default detected for each
    force : replace an existing store
    progress : a function that gets lines of text about the progress
    """
    preparation = Preparation.of(
        nodes, edges, path, id=id, label=label, source=source, target=target, weight=weight,
        features=features, exclude=exclude, text=text, svd=svd, ignore_unknown=ignore_unknown,
        memory=memory, part_entries=part_entries, sep=sep, encoding=encoding,
    )  # fmt: skip
    return preparation.run(force, progress)


@dataclass(frozen=True, eq=False)
class Preparation:
    """Tables that were looked at, and what is to be made of them."""

    path: Path
    nodes: Source
    edges: Source
    id_names: list[str]  # of each file of nodes
    label_names: list[str] | None  # the same
    ends: tuple[Column, Column]
    weight: Column | None
    columns: Columns
    svd: int | None
    ignore_unknown: bool
    memory: int
    part_entries: int
    settings: dict[str, Any]

    @classmethod
    def of(cls, nodes: Any, edges: Any, path: str | Path, **options: Any) -> Preparation:
        """See :func:`prepare`."""
        options.setdefault("part_entries", PART_ENTRIES)
        sep, encoding = options.pop("sep"), options.pop("encoding")
        for name in ("features", "exclude", "text"):
            if isinstance(options[name], str | int):
                raise TypeError(f"{name} must be a list of columns, got {options[name]!r}")
        svd, part_entries = options["svd"], options["part_entries"]
        if svd is not None and svd < 1:
            raise ValueError(f"svd must be at least 1, got {svd}")
        if part_entries < 1:
            raise ValueError(f"part_entries must be at least 1, got {part_entries}")
        memory = bytes_of(options["memory"])
        if memory < _LEAST_MEMORY:
            raise ValueError(f"memory must be at least 64MiB, got {options['memory']}")
        node_tables = Source.open(nodes, "nodes", sep, encoding)
        edge_tables = Source.open(edges, "edges", sep, encoding)
        id_names = [file.find_id(options["id"]) for file in node_tables.files]
        label_names = find_labels(node_tables, options.setdefault("label", None), id_names)
        named = (options["features"], options["exclude"], options["text"])
        label = None if label_names is None else label_names[0]
        columns = look(node_tables, id_names[0], label, *named)
        ends = tuple(
            default if column is None else column
            for column, default in ((options["source"], 1), (options["target"], 2))
        )
        if svd is not None and not columns.wide_names:
            raise ValueError(
                "svd reduces wide sparse features, and there are none: columns of text named in "
                "--text (in Python text=[...]), or lists of the numbers of features"
            )
        if svd is None and columns.wide_names and columns.dense_names:
            raise ValueError(
                f"{listed(columns.wide_names)} would be wide sparse features beside dense ones; "
                "reduce them with --svd 128 (in Python svd=128), or leave one kind out"
            )
        settings = {**options, "tables": [node_tables.marks(), edge_tables.marks()]}
        settings["path"], settings["memory"] = None, None  # neither changes the result
        return cls(
            Path(path), columns.source, edge_tables, id_names, label_names, (ends[0], ends[1]),
            options["weight"], columns, svd, options["ignore_unknown"], memory, part_entries,
            settings,
        )  # fmt: skip

    def plan(self) -> Plan:
        """What it will take."""
        label = None if self.label_names is None else self.label_names[0]
        is_weighted = self.weight is not None
        return Plan.of(self.nodes, self.edges, self.columns, is_weighted, self.svd, label)

    def run(self, force: bool = False, progress: Tell | None = None) -> StoredGraph:
        """Make the store, or go on with it."""
        say = _Teller(progress)
        with Building(self.path, self.settings, force) as building:
            if building.is_resumed:
                say.now(f"going on with {self.path}, which was begun before")
            elif building.has_begun_anew:
                say.now(f"{self.path} was begun with other tables or settings: starting again")
            if (free := shutil.disk_usage(self.path).free) < self.plan().peak_bytes:
                say.now(
                    f"{self.path} may need {size_in_words(self.plan().peak_bytes)} of disk while "
                    f"it is made, and there are {size_in_words(free)}"
                )
            self._write(building, say)
        return open_store(self.path)

    def _write(self, building: Building, say: _Teller) -> None:
        entries = max(min(self.memory // _BYTES_OF_ENTRY, 1 << 25), 1 << 16)
        ids = NodeIds(building, self.nodes, self.id_names)
        ids.read(lambda n: say(f"ids of {amount(n, 'node')}"))
        if ids.n_nodes >= MOST_NODES:
            raise ValueError(f"{ids.n_nodes:,} nodes are more than a store can have (2**32)")
        ids.write_index(entries)
        say.now(amount(ids.n_nodes, "node"))
        labels, label_files = self._write_labels(building, ids.n_nodes, say)
        reader = EdgeReader(
            building, self.edges, ids, self.ends, self.weight, self.ignore_unknown, entries
        )
        runs, counts = reader.read(lambda n: say(f"{amount(n, 'edge')} read"))
        say.now(f"{amount(counts['rows'], 'row')} of edges read")
        wide = self._wide(building, say)
        n_columns = len(self.columns.dense_names) + (self.svd or 0)
        boundaries = write_edges(
            building, runs, ids.n_nodes, largest_rows(n_columns), self.part_entries, entries,
            tell=lambda n: say(f"edges of {n:,} of {ids.n_nodes:,} nodes are in place"),
        )  # fmt: skip
        building.discard("runs")
        kind = self._write_features(building, wide, boundaries, say)
        files = building.files()
        if kind is not None:
            files |= write_column_statistics(building, len(boundaries) - 1)
        files |= ids.write_parts(boundaries) | label_files
        said = self._said(counts)
        has_weights = self.weight is not None
        manifest = finish_store(
            building.folder, boundaries, files, has_weights, kind, ids.said, said, labels
        )
        building.finish()
        edges, parts = amount(manifest.n_edges, "edge"), amount(manifest.n_parts, "part")
        say.now(f"{edges} in {parts}")

    def _said(self, counts: dict[str, int]) -> dict[str, Any]:
        """What the manifest says of what came in; finish_store adds what is left of it."""
        names = ("rows", "used", "unknown", "self_loops", "zero_weights")
        return {
            "nodes": [str(file.path) for file in self.nodes.files],
            "edges": [str(file.path) for file in self.edges.files],
            "edge_rows": {name: counts.get(name, 0) for name in names},
            "left_out": self.columns.left_out,
            "id": self.id_names[0],
        }

    def _write_labels(
        self, building: Building, n_nodes: int, say: _Teller
    ) -> tuple[LabelKind | None, Records]:
        if self.label_names is None:
            return None, {}
        by_name = [self.settings[name] for name in ("id", "label")]
        by_name += [name for what in ("features", "text") for name in self.settings[what] or ()]
        is_named = self.nodes.files[0].has_names(by_name)
        column = LabelColumn(building, self.nodes, self.label_names, is_named)
        column.read(lambda n: say(f"labels of {amount(n, 'node')}"))
        kind, files = column.write(n_nodes)
        classes = amount(kind.n_classes, "class", "classes")
        say.now(f"{amount(kind.n_labels, 'label')} in {classes}")
        return kind, files

    def _wide(self, building: Building, say: _Teller) -> WideFeatures | None:
        if not self.columns.wide_names:
            return None
        wide = WideFeatures(building, self.columns, self.svd)
        wide.fit(say)
        return wide

    def _write_features(
        self, building: Building, wide: WideFeatures | None, boundaries: list[int], say: _Teller
    ) -> FeatureKind | None:
        columns = self.columns
        done = len(building.entries("features of a part"))
        first_row = boundaries[done]
        if wide is not None:
            kind, blocks = wide.kind, wide.blocks(first_row)
        elif columns.dense_names:
            names = columns.dense_names
            kind = FeatureKind("dense", len(names), str(columns.dtype().dtype), names, False)
            blocks = (
                columns.dense(table) for table in columns.batches(list(columns.widths), first_row)
            )
        else:
            return None
        parts = cut_rows(blocks, boundaries, done)
        n_nodes = boundaries[-1]
        write_feature_parts(
            building,
            parts,
            done,
            lambda n: say(f"features of {first_row + n:,} of {n_nodes:,} nodes are in place"),
        )
        return kind


class _Teller:
    """Lines of progress with the time, no more than one every few seconds."""

    def __init__(self, progress: Tell | None):
        self._progress = progress
        self._began = self._last = time.monotonic()

    def __call__(self, line: str) -> None:
        if time.monotonic() - self._last >= _PATIENCE:
            self.now(line)

    def now(self, line: str) -> None:
        self._last = time.monotonic()
        if self._progress is not None:
            seconds = self._last - self._began
            self._progress(line if seconds < 1 else f"{line} ({seconds:.0f} s so far)")
