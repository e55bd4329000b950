"""Preprocessing of node features: what is wished, as data, and what was fitted.

A :class:`Preprocessor` is fitted once and applied to any rows, also of new nodes. All it
does is row by row: scale the columns, scale each row to length one, subtract a centre. So
nothing is ever transformed but the rows that are needed, and a sparse matrix stays sparse:
its centre is carried beside it and enters in the inner products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch

from nodegp.budget import blocks, budget
from nodegp.component import Component
from nodegp.declared import check_shapes, require
from nodegp.graph import Graph
from nodegp.identity import fingerprint
from nodegp.rows import Rows, row_squares, width_of

__all__ = ["KINDS", "UNIT", "WORDS", "Preprocessing", "Preprocessor", "kind_for"]

KINDS = ("auto", "sqrt-tfidf", "tfidf", "sqrt", "l2", "standardise", "raw")
WORDS = ("sqrt-tfidf", "tfidf")  # kinds for counts of words
UNIT = (*WORDS, "sqrt", "l2")  # kinds that bring rows to length one
_ROOTS = ("sqrt-tfidf", "sqrt")
_FEW = 1000  # entries


@dataclass(frozen=True)
class Preprocessing(Component):
    """How features are preprocessed.

    Parameters
    ----------
    kind : "auto", "sqrt-tfidf", "tfidf", "sqrt", "l2", "standardise" or "raw"
        "auto" uses ``counts`` for sparse counts and ``weights`` for other sparse non-negative
        features, and standardises the rest; features of a graph that is prepared are used as they
        are.
    center : bool
        Also subtract the mean row; sparse features stay sparse.
    counts, weights : the kinds that "auto" uses

    Examples
    --------
    >>> import numpy as np
    >>> Preprocessing().fit(np.array([[1.0, 20.0], [3.0, 60.0]])).kind
    'standardise'
    """

    kind: str = "auto"
    center: bool = True
    counts: str = "sqrt-tfidf"
    weights: str = "sqrt"

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind in (self.kind, self.counts, self.weights):
            check_kind(kind)

    def fit(self, raw: Any, n_nodes: int = 0, is_prepared: bool = False) -> Preprocessor:
        """Learn it from raw features (csr, array, or None for ``n_nodes`` nodes), or from some that
        another has prepared."""
        kind = self.kind
        if kind == "auto" and raw is not None:
            kind = "raw" if is_prepared else kind_for(raw, self.counts, self.weights)
        return Preprocessor.fit(raw, kind, self.center, n_nodes)

    def fit_graph(self, graph: Graph) -> Preprocessor:
        """Learn it from the features of a graph, with which it is kept."""
        known = _fitted.setdefault(graph, {})
        if self not in known:
            known[self] = self.fit(graph.features, graph.n_nodes, graph.is_prepared)
        return known[self]


# Graphs do not change, and several fits on one have the same preprocessing.
_fitted: WeakKeyDictionary[Graph, dict[Preprocessing, Preprocessor]] = WeakKeyDictionary()


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"preprocessing must be one of {list(KINDS)}, got {kind!r}")


@dataclass(frozen=True, eq=False)
class Preprocessor:
    """Fitted preprocessing: ``x -> unit(x * scale) - centre``, with the square root of x first for
    "sqrt-tfidf" (the root of TF-IDF) and "sqrt".

    ``kind`` is what was asked for or, for "auto", what was found right: it is "one-hot" for
    a graph without features, whose nodes are told apart by their position alone.
    """

    kind: str
    scale: np.ndarray | None = None
    unit_rows: bool = False
    centre: np.ndarray | None = None
    n_features: int = 0

    def __post_init__(self) -> None:
        require(self.kind in (*KINDS, "one-hot"), f"no preprocessing is {self.kind!r}")
        check_shapes(self, {"D": self.n_features}, scale="D", centre="D")

    @classmethod
    def fit(
        cls, raw: Any, kind: str = "auto", center: bool = False, n_nodes: int = 0
    ) -> Preprocessor:
        """Learn the preprocessing of raw features (csr, array, or None for ``n_nodes`` nodes)."""
        check_kind(kind)
        if raw is None:
            return cls("one-hot", n_features=n_nodes)
        if kind == "auto":
            kind = kind_for(raw)
        n_features = raw.shape[1]
        scale, centre = None, None
        if kind in WORDS:
            scale = _idf(raw) if kind == "tfidf" else np.sqrt(_idf(raw))
        elif kind == "standardise":
            mean, deviation = _moments(raw)
            # A column that never varies says nothing. Variance 1/D, not 1, gives rows a
            # squared norm near one, as TF-IDF rows have, so that one kernel suits both.
            with np.errstate(divide="ignore"):
                scale = np.where(deviation > 0, 1.0 / (deviation * np.sqrt(n_features)), 0.0)
            centre = mean * scale
        fitted = cls(kind, scale, kind in UNIT, centre, n_features)
        if center and kind != "standardise":
            return cls(kind, scale, fitted.unit_rows, fitted._mean(raw), n_features)
        return fitted

    def transform(self, raw: Any, index: np.ndarray) -> Rows:
        """The preprocessed rows with these numbers."""
        if sp.issparse(raw):
            values = raw[index].astype(np.float64, copy=False)
            values.data = self.entries(values.data)
            if self.scale is not None:
                values.data *= self.scale[values.indices]
            if self.unit_rows:
                norms = np.sqrt(row_squares(values))
                values.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(values.indptr))
            return Rows(values, self.centre)
        dense = self.entries(raw[index].astype(np.float64))
        if self.scale is not None:
            dense *= self.scale
        if self.unit_rows:
            norms = np.linalg.norm(dense, axis=1, keepdims=True)
            dense /= np.where(norms > 0, norms, 1.0)
        if self.centre is not None:
            dense -= self.centre
        return Rows(torch.from_numpy(dense))

    def entries(self, values: np.ndarray) -> np.ndarray:
        """Stored values before they are scaled: their square roots, for some kinds."""
        if self.kind not in _ROOTS:
            return values
        if values.size and values.min() < 0:
            raise ValueError(
                f"preprocessing={self.kind!r} takes square roots, and there are negative values; "
                "use 'l2' or 'standardise'"
            )
        return np.sqrt(values)

    @cached_property
    def fingerprint(self) -> str:
        """What equal preprocessing can be known by."""
        return fingerprint(self.kind, self.unit_rows, self.n_features, self.scale, self.centre)

    def lengths(self, raw: Any) -> np.ndarray:
        """What each row is divided by, after its columns were scaled."""
        if not self.unit_rows:
            return np.ones(raw.shape[0])
        weights = np.ones(raw.shape[1]) if self.scale is None else self.scale**2
        squares = [np.zeros(0)]
        for rows in blocks(raw.shape[0], width_of(raw), budget.block):
            if not sp.issparse(raw):
                squares.append(self.entries(raw[rows].astype(np.float64)) ** 2 @ weights)
                continue
            first, last = raw.indptr[rows.start], raw.indptr[rows.stop]
            entries = raw.data[first:last].astype(np.float64, copy=False)
            parts = (entries if self.kind in _ROOTS else entries**2, raw.indices[first:last])
            offsets = raw.indptr[rows.start : rows.stop + 1] - first
            squared = sp.csr_array((*parts, offsets), shape=(len(offsets) - 1, raw.shape[1]))
            squares.append(squared @ weights)
        lengths = np.sqrt(np.concatenate(squares))
        return np.where(lengths > 0, lengths, 1.0)

    def is_nonzero(self, raw: sp.csr_array) -> np.ndarray:
        """Which rows are not zero after their columns were scaled, (n,)."""
        entries = raw.data if self.scale is None else raw.data * self.scale[raw.indices]
        stored = sp.csr_array((entries != 0, raw.indices, raw.indptr), shape=raw.shape)
        first: np.ndarray = stored @ np.ones(raw.shape[1]) > 0
        return first

    def _mean(self, raw: Any) -> np.ndarray:
        """Of all rows, before they are centred."""
        n_rows = raw.shape[0]
        if sp.issparse(raw):
            # In double precision: in single a mean over millions of rows is off by per cents.
            entries = self.entries(raw.data.astype(np.float64))
            if self.unit_rows:
                entries /= np.repeat(self.lengths(raw), np.diff(raw.indptr))
            total = np.bincount(raw.indices, entries, raw.shape[1]) / n_rows
            return total if self.scale is None else total * self.scale
        total = np.zeros(raw.shape[1])
        for rows in blocks(n_rows, width_of(raw), budget.block):
            total += self.transform(raw, np.arange(rows.start, rows.stop)).values.sum(0).numpy()
        return total / n_rows


def kind_for(raw: Any, counts: str = "sqrt-tfidf", weights: str = "l2") -> str:
    """What suits sparse counts, unit rows for other sparse non-negative ones, else standardise."""
    values = raw.data if sp.issparse(raw) else raw
    many = 0.25 * raw.shape[0] * raw.shape[1]
    if values.size > many and np.count_nonzero(values) > many:
        return "standardise"
    if values.size and values.min() < 0:
        return "standardise"
    first, rest = values[:_FEW], values[_FEW:]  # a few tell most weights from counts
    whole = all(np.array_equal(part, np.round(part)) for part in (first, rest))
    return counts if whole else weights


def _idf(raw: Any) -> np.ndarray:
    """Smoothed inverse document frequencies, ln((1 + N) / (1 + df)) + 1."""
    if sp.issparse(raw):
        counted = np.bincount(raw.indices[raw.data != 0], minlength=raw.shape[1])
    else:
        counted = np.count_nonzero(raw, axis=0)
    return np.log((1.0 + raw.shape[0]) / (1.0 + counted)) + 1.0


def _moments(raw: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, without a dense or doubled copy."""
    n = raw.shape[0]
    if sp.issparse(raw):
        values, width = raw.data.astype(np.float64), raw.shape[1]
        mean = np.bincount(raw.indices, values, width) / n
        # In two passes: the difference of large squares would lose a small variance.
        square = np.bincount(raw.indices, (values - mean[raw.indices]) ** 2, width)
        empty = n - np.bincount(raw.indices, minlength=width)
        square = square + empty * mean**2
    else:
        mean = raw.mean(axis=0, dtype=np.float64)
        square = np.zeros(raw.shape[1])
        for rows in blocks(n, width_of(raw), budget.block):
            square += ((raw[rows] - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(square / n)
    deviation[deviation < 1e-9 * np.abs(mean)] = 0.0
    return mean, deviation
