"""Wide sparse features: words of texts, and lists of the numbers of features that a node has.

They are read once into blocks on disk. Then the columns that are kept are known, and either the
counts in them are the features, or these are reduced to a few dense columns:

    A = unit(sqrt(counts * idf)), rows of length one, (N, D)
    V = the first right singular vectors of A, (D, k)
    features = A V, scaled to rows of mean squared length one

V comes from a subspace iteration on A'A (Halko, Martinsson and Tropp 2011, algorithm 4.4): each
step is one pass over the blocks and takes memory for D times k + 10 numbers, whatever N is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nodegp.ingest.columns import Columns
from nodegp.ingest.node_ids import texts_of
from nodegp.io.tables import Table
from nodegp.store.arrays import write_array
from nodegp.store.assembling import cut_rows
from nodegp.store.building import Building
from nodegp.store.keys import text_keys
from nodegp.store.manifest import FeatureKind
from nodegp.store.statistics import ColumnStatistics

__all__ = ["WideFeatures", "singular_vectors"]

MOST_COLUMNS = 1 << 16  # that are kept of each source: the commonest
_HASHED = 1 << 20  # numbers that words are known by
_LARGEST = 1 << 26  # numbers of features that a list may have
_SHARED_BY = 2  # nodes that must have a word
_MORE, _STEPS = 10, 6  # columns beside those asked for, and passes of the subspace iteration
_BETWEEN = r"[^\p{L}\p{N}_]+"  # words, which have two letters or more

Tell = Callable[[str], object]


class WideFeatures:
    """The wide features of all nodes, and the dense ones beside them if those are reduced."""

    def __init__(self, building: Building, columns: Columns, svd: int | None):
        self._building, self._columns, self._svd = building, columns, svd
        self._folder = building.subfolder("wide")
        self._kept: list[np.ndarray] = []  # by source, the numbers of the columns that are kept
        self._idf: list[np.ndarray] = []
        self._vectors: np.ndarray | None = None
        self._factors = (1.0, 1.0)
        self._moments: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def n_columns(self) -> int:
        """Before they are reduced."""
        return sum(len(kept) for kept in self._kept)

    @property
    def kind(self) -> FeatureKind:
        if self._vectors is None:
            return FeatureKind("sparse", self.n_columns, "float32", None, False)
        reduced = (f"svd {n + 1}" for n in range(self._vectors.shape[1]))
        names = (*self._columns.dense_names, *reduced)
        return FeatureKind("dense", len(names), "float32", names, True)

    def fit(self, tell: Tell) -> None:
        """Read them, choose the columns that are kept and find what they are reduced by."""
        self._read(tell)
        self._choose()
        if self._svd is not None:
            self._reduce(tell)

    # --- reading --------------------------------------------------------------------------------

    def _read(self, tell: Tell) -> None:
        """Write counts by their numbers, a file for each block of rows."""
        building, columns = self._building, self._columns
        last = building.last("wide")
        if building.last("all wide"):
            return
        n_done, n_blocks = (last["stop"], last["block"] + 1) if last else (0, 0)
        for table in columns.batches(columns.wide_names, n_done):
            for source, name in enumerate(columns.wide_names):
                counts = _bag(table, name) if name in columns.bags else _words(table, name)
                for array in ("indptr", "indices", "data"):
                    values = getattr(counts, array)
                    write_array(self._path(n_blocks, source, array), values)
            n_done += len(table)
            building.record("wide", block=n_blocks, stop=n_done)
            n_blocks += 1
            tell(f"words of {n_done:,} nodes")
        building.record("all wide")

    def _path(self, block: int, source: int, array: str) -> Path:
        return self._folder / f"{block:05d}.{source}.{array}.npy"

    def _raw(self, source: int, first: int = 0) -> Iterator[sp.csr_array]:
        for block in range(first, len(self._building.entries("wide"))):
            arrays = (np.load(self._path(block, source, a)) for a in ("data", "indices", "indptr"))
            data, indices, indptr = arrays
            width = int(indices.max(initial=0)) + 1
            yield sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, width))

    # --- which columns --------------------------------------------------------------------------

    def _choose(self) -> None:
        n_nodes = self._building.entries("wide")[-1]["stop"]
        for source, name in enumerate(self._columns.wide_names):
            n_with = np.zeros(0, np.int64)  # nodes that have each number
            for counts in self._raw(source):
                here = np.bincount(counts.indices)
                if len(here) > len(n_with):
                    n_with = np.pad(n_with, (0, len(here) - len(n_with)))
                n_with[: len(here)] += here
            least = 1 if name in self._columns.bags else _SHARED_BY
            kept = np.flatnonzero(n_with >= least)
            if len(kept) > MOST_COLUMNS:
                commonest = np.argsort(-n_with[kept], kind="stable")[:MOST_COLUMNS]
                kept = np.sort(kept[commonest])
            if not len(kept):
                raise ValueError(
                    f"column {name!r} of {self._columns.source.path} has no word that two nodes "
                    "share, so it says nothing of them; leave it out"
                )
            self._kept.append(kept)
            self._idf.append(np.log((1.0 + n_nodes) / (1.0 + n_with[kept])) + 1.0)

    def _counts(self, first: int = 0) -> Iterator[list[sp.csr_array]]:
        """By block, the counts of each source in the columns that are kept."""
        sources = [self._raw(source, first) for source in range(len(self._kept))]
        for several in zip(*sources, strict=True):
            yield [_mapped(counts, kept) for counts, kept in zip(several, self._kept, strict=True)]

    def _prepared(self, several: list[sp.csr_array]) -> sp.csr_array:
        """A: the root of TF-IDF, each source with rows of length one, side by side."""
        parts = []
        for counts, idf in zip(several, self._idf, strict=True):
            entries = np.sqrt(counts.data.astype(np.float64) * idf[counts.indices])
            squares = sp.csr_array((entries**2, counts.indices, counts.indptr), counts.shape)
            lengths = np.sqrt(np.asarray(squares.sum(axis=1)).ravel() * len(several))
            entries /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(counts.indptr))
            parts.append(sp.csr_array((entries, counts.indices, counts.indptr), counts.shape))
        return sp.csr_array(sp.hstack(parts, format="csr"))

    # --- fewer columns --------------------------------------------------------------------------

    def _reduce(self, tell: Tell) -> None:
        path, width = self._folder / "vectors.npy", min(self._svd or 1, self.n_columns)
        found = self._building.last("vectors")
        if found is None:
            vectors = singular_vectors(
                lambda: map(self._prepared, self._counts()), self.n_columns, width, tell
            )
            write_array(path, vectors)
            squares, n_rows = 0.0, 0
            for several in self._counts():
                product = self._prepared(several) @ vectors
                squares, n_rows = squares + float((product**2).sum()), n_rows + len(product)
            self._building.record("vectors", square=squares / max(n_rows, 1))
            found = self._building.last("vectors") or {}
        self._vectors = np.load(path)
        scale = found["square"] ** -0.5 if found["square"] > 0 else 1.0
        n_dense = len(self._columns.dense_names)
        if not n_dense:
            self._factors = (1.0, scale)
            return
        self._moments = self._dense_moments()
        # The shares that several kinds of features get when they are read into memory.
        shares = np.sqrt([n_dense, self.n_columns]) / np.sqrt([n_dense, self.n_columns]).sum()
        self._factors = (float(np.sqrt(shares[0])), float(np.sqrt(shares[1])) * scale)

    def _dense_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and scale of the dense columns, which give their rows a mean squared length of one
        if none of them is constant."""
        columns = self._columns
        total: ColumnStatistics | None = None
        for table in columns.batches(list(columns.widths)):
            rows = ColumnStatistics.of(columns.dense(table))
            total = rows if total is None else total + rows
        if total is None:
            raise ValueError(f"{columns.source.path} has no rows")
        mean = total.sum / total.count
        deviation = np.sqrt(total.deviations / total.count)
        deviation[deviation < 1e-9 * np.abs(mean)] = 0.0
        with np.errstate(divide="ignore"):
            scale = np.where(deviation > 0, 1.0 / (deviation * np.sqrt(len(mean))), 0.0)
        return mean, scale

    # --- what becomes of them -------------------------------------------------------------------

    def blocks(self, first_row: int) -> Iterator[Any]:
        """The features of all rows from one on, a block at a time."""
        stops = [entry["stop"] for entry in self._building.entries("wide")]
        first = int(np.searchsorted(stops, first_row, side="right"))
        start = stops[first - 1] if first else 0
        dense = self._dense_rows(start, stops[first:])
        for several in self._counts(first):
            rows = self._features(several, dense)
            skipped = max(first_row - start, 0)
            start += rows.shape[0]
            yield rows[skipped:] if skipped else rows

    def _features(self, several: list[sp.csr_array], dense: Iterator[np.ndarray]) -> Any:
        if self._vectors is None:
            stacked = sp.csr_array(sp.hstack(several, format="csr"))
            stacked.sum_duplicates()
            return stacked.astype(np.float32)
        reduced = (self._prepared(several) @ self._vectors) * self._factors[1]
        if self._moments is None:
            return reduced.astype(np.float32)
        mean, scale = self._moments
        numbers = (next(dense) - mean) * scale * self._factors[0]
        return np.hstack([numbers, reduced]).astype(np.float32)

    def _dense_rows(self, start: int, stops: list[int]) -> Iterator[np.ndarray]:
        """The dense columns from a row on, in blocks that end where the wide ones do."""
        columns = self._columns
        tables = columns.batches(list(columns.widths), start)
        return cut_rows((columns.dense(table) for table in tables), [start, *stops], 0)


def singular_vectors(
    blocks: Callable[[], Iterator[sp.csr_array]],
    n_columns: int,
    n_vectors: int,
    tell: Tell = lambda line: None,
    seed: int = 0,
) -> np.ndarray:
    """The first right singular vectors of a matrix that comes in blocks of rows, (D, k)."""
    width = min(n_vectors + _MORE, n_columns)
    basis = np.random.default_rng(seed).standard_normal((n_columns, width))
    basis = np.linalg.qr(basis)[0]
    for step in range(_STEPS):
        product = np.zeros_like(basis)  # A'A basis
        for rows in blocks():
            product += rows.T @ (rows @ basis)
        basis = np.linalg.qr(product)[0]
        tell(f"singular vectors: pass {step + 1} of {_STEPS + 1}")
    gram = np.zeros((width, width))
    for rows in blocks():
        projected = rows @ basis
        gram += projected.T @ projected
    _, rotation = np.linalg.eigh(gram)
    vectors = basis @ rotation[:, ::-1][:, :n_vectors]
    largest = np.abs(vectors).argmax(axis=0)
    signs: np.ndarray = np.sign(vectors[largest, np.arange(n_vectors)])
    return vectors * np.where(signs == 0, 1.0, signs)


def _mapped(counts: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    """Only the columns that are kept, by their place among them."""
    place = np.searchsorted(kept, counts.indices)
    inside = np.minimum(place, len(kept) - 1)
    is_kept = kept[inside] == counts.indices
    ends = np.append(0, np.cumsum(is_kept))[counts.indptr]
    shape = (counts.shape[0], len(kept))
    return sp.csr_array((counts.data[is_kept], inside[is_kept], ends), shape=shape)


def _bag(table: Table, name: str) -> sp.csr_array:
    """How often each number is in the list of each row; nothing for a gap."""
    lists = table.column(name).cast(pa.large_list(pa.int64())).combine_chunks()
    rows, values = pc.list_parent_indices(lists), pc.list_flatten(lists)
    if values.null_count:
        raise ValueError(f"{table.where(name)} has a gap in a list")
    numbers = values.to_numpy()
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < _LARGEST):
        raise ValueError(
            f"{table.where(name)} has lists of different lengths, which are the numbers of "
            f"features, and {numbers.min()} to {numbers.max()} in them; these go from 0 to "
            f"{_LARGEST - 1:,}"
        )
    return _counted(rows.to_numpy(), numbers, len(table), _LARGEST)


def _words(table: Table, name: str) -> sp.csr_array:
    """How often each word is in the text of each row, words known by a hash."""
    text = pc.fill_null(table.column(name).cast(pa.large_string()), "")
    split = pc.split_pattern_regex(pc.utf8_lower(text), _BETWEEN).combine_chunks()
    rows, words = pc.list_parent_indices(split), pc.list_flatten(split)
    is_word = pc.greater_equal(pc.utf8_length(words), 2)
    rows, words = rows.filter(is_word), words.filter(is_word)
    numbers = (text_keys(texts_of([words])) % np.uint64(_HASHED)).astype(np.int64)
    return _counted(rows.to_numpy(), numbers, len(table), _HASHED)


def _counted(rows: np.ndarray, numbers: np.ndarray, n_rows: int, width: int) -> sp.csr_array:
    entries = (np.ones(len(rows), np.float32), (rows, numbers))
    matrix = sp.csr_array(sp.coo_array(entries, shape=(n_rows, width)))
    matrix.sum_duplicates()
    return matrix
