"""Preprocessing of a stored graph's dense features, from the statistics of its columns."""

from __future__ import annotations

import numpy as np

from nodegp.preprocessing import UNIT, WORDS, Preprocessing, Preprocessor
from nodegp.store import StoredGraph

__all__ = ["fit_preprocessor"]

_MANY = 0.25  # share of entries that are not zero, from which on features are no counts


def fit_preprocessor(preprocessing: Preprocessing, store: StoredGraph) -> Preprocessor:
    """What :meth:`Preprocessing.fit` gives for the same features in memory."""
    kind = preprocessing.kind
    if kind == "auto":
        kind = "raw" if store.is_prepared else _kind(store, preprocessing)
    statistics, n_rows = store.column_statistics, store.n_nodes
    mean = statistics["sum"] / n_rows
    scale, centre = None, None
    if kind in WORDS:
        idf = np.log((1.0 + n_rows) / (1.0 + statistics["nnz"])) + 1.0
        scale = idf if kind == "tfidf" else np.sqrt(idf)
    elif kind == "standardise":
        deviation = np.sqrt(statistics["deviations"] / n_rows)
        deviation[deviation < 1e-9 * np.abs(mean)] = 0.0
        with np.errstate(divide="ignore"):
            scale = np.where(deviation > 0, 1.0 / (deviation * np.sqrt(store.n_features)), 0.0)
        centre = mean * scale
    elif kind == "raw" and preprocessing.center:
        centre = mean
    fitted = Preprocessor(kind, scale, kind in UNIT, centre, store.n_features)
    if preprocessing.center and centre is None:
        total = np.zeros(store.n_features)
        for part in range(store.n_parts):
            rows = store.features_of(part)
            total += fitted.transform(rows, np.arange(len(rows))).values.sum(0).numpy()
        fitted = Preprocessor(kind, scale, kind in UNIT, total / n_rows, store.n_features)
    return fitted


def _kind(store: StoredGraph, preprocessing: Preprocessing) -> str:
    """What :func:`nodegp.preprocessing.kind_for` says of the same features."""
    statistics = store.column_statistics
    if statistics["nnz"].sum() > _MANY * store.n_nodes * store.n_features:
        return "standardise"
    if (statistics["min"] < 0).any():
        return "standardise"
    for part in range(store.n_parts):
        rows = store.features_of(part)
        if not np.array_equal(rows, np.round(rows)):
            return preprocessing.weights
    return preprocessing.counts
