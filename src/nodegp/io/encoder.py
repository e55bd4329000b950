"""From a table to the features of a graph, and the same again for rows that come later.

Each source of features is preprocessed by its kind: numbers are standardised, counts of words
get TF-IDF, embeddings and other matrices get rows of length one, categories stay one-hot. Then
each is scaled to a share that goes with the square root of its number of columns, so that neither
one column drowns a text nor the reverse, and all are set side by side. Rows have a mean squared
length of one, as the kernels expect; the model takes them as they are (the graph says that they
are prepared).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import scipy.sparse as sp

from nodegp.budget import blocks, budget
from nodegp.component import Component, from_dict
from nodegp.io.arrays import bad_row
from nodegp.io.columns import CATEGORY, LIST, NUMBER, TEXT
from nodegp.io.readers import (
    Categories,
    Findings,
    Lists,
    MatrixFile,
    Numbers,
    Reader,
    Words,
    list_reader,
    numbers,
)
from nodegp.io.tables import Table
from nodegp.neighbours import stack
from nodegp.preprocessing import UNIT, WORDS, Preprocessor, kind_for

__all__ = ["Encoder", "raw_features"]

# So many numeric columns may be words written out; fewer are measurements, even if mostly zero.
_MANY_COLUMNS = 100
_FARTHEST = 1e15  # from the mean of what was fitted on, in about a standard deviation


@dataclass(frozen=True, eq=False)
class FeatureSource(Component):
    """One source of features: how it is read, preprocessed and weighed."""

    reader: Reader
    kind: str  # of preprocessing
    scale: Sequence[float] | np.ndarray | None
    centre: Sequence[float] | np.ndarray | None
    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._preprocessor()  # raises where parts do not go together

    def _preprocessor(self) -> Preprocessor:
        parts = (self.scale, self.centre)
        scale, centre = (None if part is None else np.asarray(part, float) for part in parts)
        return Preprocessor(self.kind, scale, self.kind in UNIT, centre, self.reader.n_columns)

    def encode(self, table: Table) -> Any:
        matrix = _prepared(self.reader.read(table), self._preprocessor())
        matrix *= self.factor
        return matrix


@dataclass(frozen=True, eq=False)
class Encoder(Component):
    """Fitted: turns rows of a table into features. Plain data, see :meth:`to_dict`."""

    sources: tuple[FeatureSource, ...]

    @classmethod
    def fit(
        cls, table: Table, columns: Mapping[str, str], counts: str = "sqrt-tfidf"
    ) -> tuple[Encoder, Any, Findings]:
        """The encoder, the features of the rows it is fitted on, and what was noticed.

        ``columns`` are those of features with their kinds, ``counts`` is the preprocessing of
        counts of words.
        """
        findings: Findings = {"dropped_columns": {}, "missing_values": {}}
        readers = _fit_readers(table, columns, findings)
        fitted, matrices = [], []
        for reader in readers:
            values = reader.read(table)
            kind = _kind(reader, values, counts)
            if kind in UNIT and isinstance(reader, Numbers):
                values = sp.csr_array(values)
            preprocessor = Preprocessor.fit(values, kind)
            matrix = _prepared(values, preprocessor)
            del values  # let go as soon as it is used
            matrices.append(matrix)
            fitted.append((reader, kind, preprocessor.scale, preprocessor.centre))
        sources, total = [], sum(np.sqrt(matrix.shape[1]) for matrix in matrices)
        for parts, matrix in zip(fitted, matrices, strict=True):
            factor = _factor(matrix, np.sqrt(matrix.shape[1]) / total)
            matrix *= factor
            sources.append(FeatureSource(*parts, factor))
        return cls(tuple(sources)), stack(matrices, axis=1), findings

    @property
    def n_columns(self) -> int:
        return sum(source.reader.n_columns for source in self.sources)

    def encode(self, table: Table) -> Any:
        """The features of these rows: csr, an array, or None if the model has no features."""
        features = stack([source.encode(table) for source in self.sources], axis=1)
        # A kernel of numbers that are too large is infinite, and predictions are then NaN.
        row = None if features is None else bad_row(features, _FARTHEST)
        if row is not None:
            raise ValueError(
                f"{table.path} has a number in row {row} that is {_FARTHEST:.0e} times as "
                "large as those that the model was fitted to"
            )
        return features

    def columns(self, as_written: bool = False) -> list[str]:
        """The columns of the table that are needed, or those of them that a text file must not
        have parsed."""
        readers = [source.reader for source in self.sources]
        readers = [reader for reader in readers if reader.as_written or not as_written]
        return [name for reader in readers for name in reader.names]

    def describe(self) -> list[str]:
        """The sources in words, one each."""
        return [f"{source.reader.describe()}, {source.kind}" for source in self.sources]

    def zero_means_nothing(self) -> bool:
        """Whether a row of zeros is one of which nothing is known, rather than the mean."""
        return all(source.centre is None for source in self.sources)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Encoder:
        """The encoder that :meth:`to_dict` described."""
        encoder = from_dict(data)
        if not isinstance(encoder, cls):
            raise TypeError(f"a {type(encoder).__name__} is no encoder")
        return encoder


def raw_features(table: Table, columns: Mapping[str, str]) -> np.ndarray | None:
    """Columns of numbers and of lists of them side by side as they are; a gap is an error."""
    parts = []
    for name, kind in columns.items():
        values = numbers(table, name) if kind == NUMBER else Lists.fit(table, name).read(table)
        is_gap = np.isnan(values) if kind == NUMBER else pc.is_null(table.column(name))
        table.refuse(name, is_gap, "has no value", "; fill it, or remove the row")
        parts.append(values)
    return np.column_stack(parts) if parts else None


def _fit_readers(table: Table, columns: Mapping[str, str], findings: Findings) -> list[Reader]:
    """A reader for every source of features."""

    def named(kind: str) -> list[str]:
        return [name for name, other in columns.items() if other == kind]

    readers = [
        Numbers.fit(table, named(NUMBER), findings),
        Categories.fit(table, named(CATEGORY), findings),
        *(Words.fit(table, name) for name in named(TEXT)),
        *(list_reader(table, name) for name in named(LIST)),
        *(MatrixFile((), ending, m.shape[1]) for ending, m in table.matrices.items()),
    ]
    return [reader for reader in readers if reader is not None]


def _kind(reader: Reader, raw: Any, counts: str) -> str:
    """The preprocessing that suits a source."""
    weights = "sqrt" if counts == "sqrt-tfidf" else "l2"  # of words that are not counts
    if isinstance(reader, Numbers):
        wide = len(reader.names) >= _MANY_COLUMNS and not reader.with_gaps
        kind = kind_for(raw) if wide else "standardise"
        return {"sqrt-tfidf": counts, "l2": weights}.get(kind, kind)
    if isinstance(reader, Categories):
        return "raw"
    if isinstance(reader, Words):
        return counts
    if sp.issparse(raw) and raw.nnz and raw.data.min() >= 0:
        return counts if np.array_equal(raw.data, np.round(raw.data)) else weights
    return "l2"


def _prepared(raw: Any, preprocessor: Preprocessor) -> Any:
    """All rows preprocessed: csr, or an array in the precision of the raw one."""
    if preprocessor.kind in WORDS:
        raw = sp.csr_array(raw)  # counts in many columns are mostly zero
    everyone = np.arange(raw.shape[0])
    if sp.issparse(raw):
        return preprocessor.transform(raw, everyone).values
    coarse = raw.dtype.kind == "f" and raw.dtype.itemsize < 8
    prepared = np.empty(raw.shape, np.float32 if coarse else np.float64)
    for rows in blocks(len(raw), raw.shape[1], budget.block):
        prepared[rows] = preprocessor.transform(raw, everyone[rows]).values.numpy()
    return prepared


def _factor(matrix: Any, share: float) -> float:
    """What gives the rows of one source of several this share of a mean squared length of one."""
    values = matrix.data if sp.issparse(matrix) else matrix.ravel()
    square = float(np.dot(values, values)) / max(matrix.shape[0], 1)
    factor = np.sqrt(share / square) if square > 0 else 1.0
    return 1.0 if abs(factor - 1.0) < 1e-6 else float(factor)
