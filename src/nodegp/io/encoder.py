"""From a table to the features of a graph, and the same again for rows that come later.

Each source of features is preprocessed by its kind: numbers are standardised, counts of words
get TF-IDF, embeddings and other matrices get rows of length one, categories stay one-hot. Then
each is scaled alike, so that no source drowns another by its size or its number of columns, and
all are set side by side. Rows have a mean squared length of one, as the kernels expect; the
model takes them with ``features="raw"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.io import readers
from nodegp.io.columns import FeatureColumns
from nodegp.io.readers import Findings, Inputs, Numbers, Reader
from nodegp.neighbours import stack
from nodegp.preprocessing import UNIT, WORDS, Preprocessor, kind_for

__all__ = ["Encoder"]

# So many numeric columns may be words written out; fewer are measurements, even if mostly zero.
_MANY_COLUMNS = 100
_FARTHEST = 1e15  # from the mean of what was fitted on, in about a standard deviation
_BLOCK = 1 << 22  # entries of a dense matrix preprocessed at a time


@dataclass(frozen=True)
class Part:
    """One source of features: how it is read, preprocessed and weighed."""

    reader: Reader
    preprocessor: Preprocessor
    factor: float

    def encode(self, inputs: Inputs) -> Any:
        return _scaled(_prepared(self.reader.read(inputs), self.preprocessor), self.factor)

    def to_dict(self) -> dict[str, Any]:
        settings = {f.name: getattr(self.preprocessor, f.name) for f in fields(Preprocessor)}
        for name, value in settings.items():
            settings[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return {"reader": self.reader.to_dict(), "preprocessor": settings, "factor": self.factor}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Part:
        settings = dict(data["preprocessor"])
        for name, value in settings.items():
            settings[name] = np.array(value, np.float64) if isinstance(value, list) else value
        reader = Reader.from_dict(data["reader"])
        return cls(reader, Preprocessor(**settings), float(data["factor"]))


@dataclass(frozen=True)
class Encoder:
    """Fitted: turns rows of a table into features. Plain data, see :meth:`to_dict`."""

    parts: tuple[Part, ...]

    @classmethod
    def fit(
        cls, inputs: Inputs, columns: FeatureColumns, counts: str = "sqrt-tfidf"
    ) -> tuple[Encoder, Any, Findings]:
        """The encoder, the features of the rows it is fitted on, and what was noticed.

        ``counts`` is the preprocessing of counts of words.
        """
        findings = Findings()
        raw = _read_all(inputs, columns, findings)
        parts, matrices, n_parts = [], [], len(raw)
        for reader in list(raw):
            values = raw.pop(reader)  # let go as soon as it is used
            kind = _kind(reader, values, counts)
            if kind in UNIT and isinstance(reader, Numbers):
                values = sp.csr_array(values)
            preprocessor = Preprocessor.fit(values, kind)
            matrix = _prepared(values, preprocessor)
            del values
            factor = _factor(matrix, n_parts)
            matrices.append(_scaled(matrix, factor))
            parts.append(Part(reader, preprocessor, factor))
        return cls(tuple(parts)), stack(matrices, axis=1), findings

    def encode(self, inputs: Inputs) -> Any:
        """The features of these rows: csr, an array, or None if the model has no features."""
        features = stack([part.encode(inputs) for part in self.parts], axis=1)
        if features is not None:
            _refuse_far(features, str(inputs.table.path))
        return features

    def columns(self) -> list[str]:
        """The columns of the table that are needed."""
        return [name for part in self.parts for name in part.reader.columns()]

    def text_columns(self) -> list[str]:
        """Those that a text file must not have parsed."""
        parts = [part for part in self.parts if part.reader.as_written]
        return [name for part in parts for name in part.reader.columns()]

    def describe(self) -> list[str]:
        """The sources in words, one each."""
        return [f"{p.reader.describe()}, {p.preprocessor.kind}" for p in self.parts]

    def zero_means_nothing(self) -> bool:
        """Whether a row of zeros is one of which nothing is known, rather than the mean."""
        return all(part.preprocessor.centre is None for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data (for JSON) from which :meth:`from_dict` builds an equal encoder."""
        return {"parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Encoder:
        return cls(tuple(Part.from_dict(part) for part in data["parts"]))


def _read_all(inputs: Inputs, columns: FeatureColumns, findings: Findings) -> dict[Reader, Any]:
    """Every source with its raw matrix."""
    table = inputs.table
    numbers = Numbers.fit(table, columns.numbers, findings)
    sources: list[Reader | None] = [
        readers.Categories.fit(table, columns.categories, findings),
        *(readers.Words.fit(table, name) for name in columns.texts),
        *(readers.Lists.fit(table, name) for name in columns.lists),
        None if inputs.npy is None else readers.DenseFile(inputs.npy.shape[1]),
        None if inputs.npz is None else readers.SparseFile(inputs.npz.shape[1]),
    ]
    raw: dict[Reader, Any] = {} if numbers is None else dict([numbers])
    return raw | {reader: reader.read(inputs) for reader in sources if reader is not None}


def _kind(reader: Reader, raw: Any, counts: str) -> str:
    """The preprocessing that suits a source."""
    weights = "sqrt" if counts == "sqrt-tfidf" else "l2"  # of words that are not counts
    if isinstance(reader, Numbers):
        wide = len(reader.names) >= _MANY_COLUMNS and not reader.with_gaps
        kind = kind_for(raw) if wide else "standardise"
        return {"sqrt-tfidf": counts, "l2": weights}.get(kind, kind)
    if isinstance(reader, readers.Categories):
        return "raw"
    if isinstance(reader, readers.Words):
        return counts
    if isinstance(reader, readers.SparseFile) and raw.nnz and raw.data.min() >= 0:
        return counts if np.array_equal(raw.data, np.round(raw.data)) else weights
    return "l2"


def _prepared(raw: Any, preprocessor: Preprocessor) -> Any:
    """All rows preprocessed: csr, or an array in the precision of the raw one."""
    if preprocessor.kind in WORDS:
        raw = sp.csr_array(raw)  # counts in many columns are mostly zero
    n_rows = raw.shape[0]
    if sp.issparse(raw):
        return preprocessor.transform(raw, np.arange(n_rows)).values
    coarse = raw.dtype.kind == "f" and raw.dtype.itemsize < 8
    prepared = np.empty(raw.shape, np.float32 if coarse else np.float64)
    step = max(_BLOCK // max(raw.shape[1], 1), 1)
    for start in range(0, n_rows, step):
        block = np.arange(start, min(start + step, n_rows))
        prepared[start : start + step] = preprocessor.transform(raw, block).values.numpy()
    return prepared


def _scaled(matrix: Any, factor: float) -> Any:
    if factor != 1.0:
        matrix *= factor
    return matrix


def _factor(matrix: Any, n_parts: int) -> float:
    """What gives the rows of one source of several a mean squared length of 1 / n_parts."""
    values = matrix.data if sp.issparse(matrix) else matrix.ravel()
    square = float(np.dot(values, values)) / max(matrix.shape[0], 1)
    factor = 1.0 / np.sqrt(square * n_parts) if square > 0 else 1.0
    return 1.0 if abs(factor - 1.0) < 1e-6 else float(factor)


def _refuse_far(features: Any, path: str) -> None:
    """A kernel of numbers that are too large is infinite, and predictions are then NaN."""
    values = features.data if sp.issparse(features) else features
    if not values.size or max(values.max(), -values.min()) <= _FARTHEST:
        return
    at = int(np.argmax(abs(values)))
    if sp.issparse(features):
        row = int(np.searchsorted(features.indptr, at, "right"))
    else:
        row = at // features.shape[1] + 1
    raise ValueError(
        f"{path} has a number in row {row} that is {_FARTHEST:.0e} times as large as those that "
        "the model was fitted to"
    )
