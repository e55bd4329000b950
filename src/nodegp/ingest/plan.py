"""What a preparation will take, from the sizes of the tables and a look at them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.parquet

from nodegp.ingest.columns import Columns
from nodegp.ingest.sources import Source
from nodegp.io.format import open_bytes
from nodegp.io.formats import Parquet
from nodegp.io.tables import TableFile
from nodegp.io.words import amount, listed

__all__ = ["Plan", "size_in_words"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")

# About what 10 million nodes with 100 million edges took on two shared cores and a disk of 1 GB/s.
_SECONDS_OF_EDGE = 1.0e-6
_SECONDS_OF_NUMBER = 2.0e-8
_SECONDS_OF_TEXT_BYTE = 2.0e-8  # of a text file
_ROWS = 1 << 12  # of a text file, that show whether it has any
_START = 1 << 20  # bytes of it, that show how long they are
_UNZIPPED = 4  # times as large as a compressed file, about


@dataclass(frozen=True)
class Plan:
    """How large it will be, about."""

    n_nodes: int
    n_edges: int
    is_exact: bool  # the tables say how many rows they have
    n_columns: int
    column_bytes: int
    is_weighted: bool
    text_bytes: int  # of text files
    features: str  # in words
    left_out: dict[str, str]
    label: str | None = None  # the column of labels

    @classmethod
    def of(
        cls,
        nodes: Source,
        edges: Source,
        columns: Columns,
        weighted: bool,
        svd: int | None,
        label: str | None = None,
    ) -> Plan:
        counted = [_rows(file) for file in (*nodes.files, *edges.files)]
        n_nodes = sum(rows for rows, _ in counted[: len(nodes.files)])
        n_edges = sum(rows for rows, _ in counted[len(nodes.files) :])
        texts = [file.path for file in (*nodes.files, *edges.files) if file.is_text]
        words = []
        if columns.dense_names:
            count = amount(len(columns.dense_names), "dense column")
            words.append(f"{count} ({listed(list(columns.widths))})")
        if columns.wide_names:
            reduced = "sparse" if svd is None else f"reduced to {svd} columns"
            words.append(f"{listed(columns.wide_names)}, {reduced}")
        return cls(
            n_nodes=n_nodes,
            n_edges=n_edges,
            is_exact=all(is_exact for _, is_exact in counted),
            n_columns=len(columns.dense_names) + (svd or 0),
            column_bytes=4 if columns.is_single or not columns.dense_names else 8,
            is_weighted=weighted,
            text_bytes=sum(path.stat().st_size for path in texts),
            features="; ".join(words) or "none",
            left_out=columns.left_out,
            label=label,
        )

    @property
    def store_bytes(self) -> int:
        """Of the finished store."""
        index = 4 if self.n_nodes < 2**31 else 8
        edges = 2 * self.n_edges * (index + 8 * self.is_weighted)
        return edges + self.n_nodes * (self.n_columns * self.column_bytes + 32)

    @property
    def peak_bytes(self) -> int:
        """Of disk, with what is there only until it is finished."""
        runs = 2 * self.n_edges * (8 + 8 * self.is_weighted)
        return self.store_bytes + runs + 16 * self.n_nodes

    @property
    def seconds(self) -> float:
        numbers = self.n_nodes * self.n_columns * _SECONDS_OF_NUMBER
        edges = self.n_edges * _SECONDS_OF_EDGE * (2 if self.is_weighted else 1)
        return edges + numbers + self.text_bytes * _SECONDS_OF_TEXT_BYTE

    def facts(self) -> list[tuple[str, str]]:
        """For people to read."""
        about = "" if self.is_exact else "about "
        size, peak = map(size_in_words, (self.store_bytes, self.peak_bytes))
        facts = [
            ("nodes", f"{about}{self.n_nodes:,}"),
            ("edges", f"{about}{amount(self.n_edges, 'row')}{', with weights' * self.is_weighted}"),
            ("features", self.features),
            ("disk", f"{size} for the store, up to {peak} while it is made"),
            ("time", f"about {_time(self.seconds)} on two cores and a disk of 1 GB/s"),
        ]
        if self.label is not None:
            facts.insert(3, ("labels", f"those of column {self.label}"))
        if self.left_out:
            reasons = listed([f"{name} ({why})" for name, why in self.left_out.items()])
            facts.insert(3, ("left out", reasons))
        return facts


def size_in_words(n_bytes: float) -> str:
    """Such as 3.4 GB."""
    exponent = min(max(int(math.log10(max(n_bytes, 1))) // 3, 0), 4)
    return f"{n_bytes / 1000**exponent:.3g} {_UNITS[exponent]}"


def _time(seconds: float) -> str:
    if seconds < 90:
        return amount(round(max(seconds, 1)), "second")
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _rows(file: TableFile) -> tuple[int, bool]:
    """How many rows a file has, and whether that is known or a guess from its size."""
    if isinstance(file.format, Parquet):
        return pyarrow.parquet.read_metadata(file.path).num_rows, True
    if not Path(file.path).exists() or not file.is_text:
        return len(file.read(file.names[:1])), True
    table = next(islice(file.batches(file.names[:1], {}, _ROWS), 1), None)
    if table is None:
        return 0, True
    with open_bytes(file.path) as content:
        start = content.read(_START)
    n_lines = max(start.count(b"\n"), 1)
    if len(start) < _START:
        return max(n_lines - 1, len(table)), False
    size = file.path.stat().st_size * (_UNZIPPED if file.path.suffix == ".gz" else 1)
    return int(size / len(start) * n_lines), False
