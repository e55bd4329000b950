"""From a table to the features of a graph, and the same again for rows that come later.

Each source of features is preprocessed by its kind: numbers are standardised, counts of words
get TF-IDF, embeddings and other matrices get rows of length one, categories stay one-hot. Then
each is scaled alike, so that no source drowns another by its size or its number of columns, and
all are set side by side. Rows have a mean squared length of one, as the kernels expect; the
model takes them with ``features="raw"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.io.columns import Chosen
from nodegp.io.numeric import Numbers
from nodegp.io.readers import DenseFile, Inputs, Lists, Reader, SparseFile
from nodegp.io.textual import Categories, Words
from nodegp.preprocessing import UNIT, WORDS, Preprocessor, kind_for

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
        return self._scaled(_prepared(self.reader.read(inputs), self.preprocessor))

    def _scaled(self, matrix: Any) -> Any:
        if self.factor != 1.0:
            matrix *= self.factor
        return matrix


@dataclass(frozen=True)
class Findings:
    """What was noticed while an encoder was fitted, by column."""

    dropped: dict[str, str] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Encoder:
    """Fitted: turns rows of a table into features. Plain data, see :meth:`to_dict`."""

    parts: tuple[Part, ...]

    @classmethod
    def fit(
        cls, inputs: Inputs, chosen: Chosen, counts: str = "damped"
    ) -> tuple[Encoder, Any, Findings]:
        """The encoder, the features of the rows it is fitted on, and what was noticed.

        ``counts`` is the preprocessing of counts of words.
        """
        raw, findings = _read_all(inputs, chosen)
        parts: list[Part] = []
        matrices = []
        for reader in list(raw):
            kind = _kind(reader, raw[reader], counts)
            values = raw.pop(reader)  # let go as soon as it is used
            if kind in UNIT and isinstance(reader, Numbers):
                values = sp.csr_array(values)
            preprocessor = Preprocessor.fit(values, kind)
            matrix = _prepared(values, preprocessor)
            del values
            part = Part(reader, preprocessor, _factor(matrix, len(parts) + len(raw) + 1))
            matrices.append(part._scaled(matrix))
            parts.append(part)
        return cls(tuple(parts)), _side_by_side(matrices), findings

    def encode(self, inputs: Inputs) -> Any:
        """The features of these rows: csr, an array, or None if the model has no features."""
        features = _side_by_side([part.encode(inputs) for part in self.parts])
        if features is not None:
            _refuse_far(features, str(inputs.table.path))
        return features

    def columns(self) -> list[str]:
        """The columns of the table that are needed."""
        return [name for part in self.parts for name in part.reader.columns()]

    def text_columns(self) -> list[str]:
        return [name for part in self.parts for name in part.reader.text_columns()]

    def describe(self) -> list[str]:
        """The sources in words, one each."""
        return [f"{p.reader.describe()}, {p.preprocessor.kind}" for p in self.parts]

    def zero_means_nothing(self) -> bool:
        """Whether a row of zeros is one of which nothing is known, rather than the mean."""
        return all(part.preprocessor.centre is None for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data (for JSON) from which :meth:`from_dict` builds an equal encoder."""
        return {
            "parts": [
                {
                    "reader": part.reader.to_dict(),
                    "preprocessor": {
                        "kind": part.preprocessor.kind,
                        "scale": _plain(part.preprocessor.scale),
                        "unit_rows": part.preprocessor.unit_rows,
                        "centre": _plain(part.preprocessor.centre),
                        "n_features": part.preprocessor.n_features,
                    },
                    "factor": part.factor,
                }
                for part in self.parts
            ]
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Encoder:
        parts = []
        for part in data["parts"]:
            settings = dict(part["preprocessor"])
            for name in ("scale", "centre"):
                if settings[name] is not None:
                    settings[name] = np.array(settings[name], dtype=np.float64)
            reader = Reader.from_dict(part["reader"])
            parts.append(Part(reader, Preprocessor(**settings), float(part["factor"])))
        return cls(tuple(parts))


def _read_all(inputs: Inputs, chosen: Chosen) -> tuple[dict[Reader, Any], Findings]:
    """Every source with its raw matrix."""
    table, findings = inputs.table, Findings()
    raw: dict[Reader, Any] = {}
    if chosen.numbers:
        numbers, matrix, dropped, gaps = Numbers.fit(table, chosen.numbers)
        findings.dropped.update(dropped)
        findings.gaps.update(gaps)
        if numbers is not None:
            raw[numbers] = matrix
    readers: list[Reader] = []
    if chosen.categories:
        categories, dropped = Categories.fit(table, chosen.categories)
        findings.dropped.update(dropped)
        if categories is not None:
            readers.append(categories)
    readers += [Words.fit(table, name) for name in chosen.texts]
    readers += [Lists.fit(table, name) for name in chosen.lists]
    if inputs.npy is not None:
        readers.append(DenseFile(inputs.npy.shape[1]))
    if inputs.npz is not None:
        readers.append(SparseFile(inputs.npz.shape[1]))
    return raw | {reader: reader.read(inputs) for reader in readers}, findings


def _kind(reader: Reader, raw: Any, counts: str) -> str:
    """The preprocessing that suits a source."""
    others = "root" if counts == "damped" else "l2"  # weights of words
    if isinstance(reader, Numbers):
        wide = len(reader.names) >= _MANY_COLUMNS and not reader.with_gaps
        kind = kind_for(raw) if wide else "standardise"
        return {"damped": counts, "l2": others}.get(kind, kind)
    if isinstance(reader, Categories):
        return "raw"
    if isinstance(reader, Words):
        return counts
    if isinstance(reader, SparseFile) and raw.nnz and raw.data.min() >= 0:
        return counts if np.array_equal(raw.data, np.round(raw.data)) else others
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


def _side_by_side(matrices: list[Any]) -> Any:
    if len(matrices) < 2:
        return matrices[0] if matrices else None
    if any(sp.issparse(matrix) for matrix in matrices):
        return sp.csr_array(sp.hstack([sp.csr_array(m) for m in matrices], format="csr"))
    return np.hstack(matrices)


def _plain(array: np.ndarray | None) -> list[float] | None:
    return None if array is None else array.tolist()
