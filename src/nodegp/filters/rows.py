"""Filtered features F X: rows for a kernel k(F x, F x'), made when they are asked for.

There are two ways to some rows of F X: propagate one indicator column per row wanted and
multiply with X, or propagate the columns of X themselves. The cheaper is taken: the first for a
few labelled nodes, the second for a whole graph, whose rows are then kept for the next question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch

from nodegp.features import LazyRows, Preprocessor, Rows
from nodegp.filters.bags import cut
from nodegp.filters.propagation import Terms, blocks, dense, filter_rows
from nodegp.graph import Graph

LARGEST = 1 << 28  # entries of the largest array that filtering makes: 2 GiB
_SHORT = 2  # hops that a few nodes' neighbourhoods are still small at
_KEPT = 1 << 26  # entries of filtered features that a graph keeps beside the latest: 512 MiB


@dataclass(frozen=True, eq=False)
class FilteredRows:
    """Rows of F X at some nodes, with F = sum_j c_j B_j and X the preprocessed features.

    They are dense, made and kept in the features' precision. Only a graph without features has
    X = I, and rows of F for rows: those are sparse and never kept, since all of them would be
    N x N. Each pass over them costs ``order`` sparse products for every few dozen nodes.
    """

    graph: Graph
    features: LazyRows  # all nodes'
    terms: Terms
    coefficients: tuple[float, ...]
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    @property
    def is_sparse(self) -> bool:
        return self.features.preprocessor.kind == "one-hot"

    @property
    def width(self) -> int:
        return self.features.raw.shape[1]

    def take(self, index: np.ndarray) -> Rows:
        if self.is_sparse:
            nodes = self.index[index]
            return Rows(filter_rows(self.terms, self.coefficients, self.graph, nodes))
        values, place = self._values
        taken = values[index if place is None else place[index]]
        return Rows(torch.from_numpy(taken).double())

    @cached_property
    def _values(self) -> tuple[np.ndarray, np.ndarray | None]:
        """An array of filtered rows, and which of them are ours (None: all, in order)."""
        cache = _Cache.of(self)
        whole = cache.get()
        if whole is None:
            few = _indicators_are_cheaper(self.terms, 1, self.graph, self.features, len(self))
            most = 2 * len(self) > self.graph.n_nodes  # then all are worth keeping
            if (few and not most) or self.graph.n_nodes * self.width > LARGEST:
                return filtered(*self._parts, self.index), None
            if few:
                whole = _from_indicators(*self._parts, np.arange(self.graph.n_nodes))
            else:
                whole = _from_columns(*self._parts, None)
            cache.put(whole)
        return whole, self.index

    @property
    def _parts(self) -> tuple[Terms, tuple[float, ...], Graph, LazyRows]:
        return self.terms, self.coefficients, self.graph, self.features


def filtered(
    terms: Terms,
    coefficients: tuple[float, ...],
    graph: Graph,
    features: LazyRows,
    nodes: np.ndarray,
) -> np.ndarray:
    """Rows of F X at the nodes, (n, D)."""
    _check_size(1, nodes, features)
    if not _indicators_are_cheaper(terms, 1, graph, features, len(nodes)):
        return _from_columns(terms, coefficients, graph, features, nodes)
    if terms.order <= _SHORT:
        return _gather(terms, coefficients, graph, features, nodes)
    return _from_indicators(terms, coefficients, graph, features, nodes)


def basis(terms: Terms, graph: Graph, features: LazyRows, nodes: np.ndarray) -> np.ndarray:
    """Rows of every B_j X at the nodes, (J, n, D), in double precision."""
    _check_size(len(terms), nodes, features)
    result = np.empty((len(terms), len(nodes), features.raw.shape[1]))
    if _indicators_are_cheaper(terms, len(terms), graph, features, len(nodes)):
        mix = features.mixer(np.float64)
        for some in blocks(len(nodes), graph.n_nodes):
            for which, weights in enumerate(terms.of_rows(graph, nodes[some])):
                result[which, some] = mix(weights)
        return result
    for some, columns in _columns(graph, features, np.float64):
        for which, found in enumerate(terms.of_columns(graph, columns)):
            result[which, :, some] = found[nodes]
    return result


def _check_size(n_results: int, nodes: np.ndarray, features: LazyRows) -> None:
    size = n_results * len(nodes) * features.raw.shape[1]
    if size > LARGEST:
        raise ValueError(
            f"the filtered features of {len(nodes)} nodes would take {size * 8 / 2**30:.0f} GiB "
            f"({features.raw.shape[1]} columns, dense). Ask about fewer nodes at a time, or bring "
            "the features to fewer columns first, for instance with TruncatedSVD of scikit-learn."
        )


def _indicators_are_cheaper(
    terms: Terms, n_results: int, graph: Graph, features: LazyRows, n_rows: int
) -> bool:
    n_nodes, width = features.raw.shape
    # Operations per column: the product, and four passes over the column beside it.
    column = len(terms) * (graph.adjacency.nnz + 4 * n_nodes)
    # A dense product is about eight times as fast per entry as a sparse one.
    mixing = features.raw.nnz if features.is_sparse else n_nodes * width // 8
    return n_rows * (column + n_results * mixing) < width * column


def _gather(
    terms: Terms,
    coefficients: tuple[float, ...],
    graph: Graph,
    features: LazyRows,
    nodes: np.ndarray,
) -> np.ndarray:
    """(F[nodes]) X, with sparse rows of F and only the features that they touch."""
    weights, touched = cut(terms.sparse_rows(graph, coefficients, nodes))
    rows = features.take(touched)
    result = weights @ (rows.values if rows.is_sparse else rows.values.numpy())
    result = result.toarray() if sp.issparse(result) else result
    if rows.centre is not None:
        result -= np.outer(weights.sum(axis=1), rows.centre)
    return result


def _from_indicators(
    terms: Terms,
    coefficients: tuple[float, ...],
    graph: Graph,
    features: LazyRows,
    nodes: np.ndarray,
) -> np.ndarray:
    """(F[nodes]) X, with rows of F from one indicator column each."""
    dtype = features.precision
    result = np.empty((len(nodes), features.raw.shape[1]), dtype)
    mix = features.mixer(dtype)
    for some in blocks(len(nodes), graph.n_nodes, dtype):
        result[some] = mix(terms.sum_of_rows(graph, coefficients, nodes[some], dtype))
    return result


def _from_columns(
    terms: Terms,
    coefficients: tuple[float, ...],
    graph: Graph,
    features: LazyRows,
    nodes: np.ndarray | None,
) -> np.ndarray:
    """(F X)[nodes], all of them for None, from the columns of X."""
    n_rows, dtype = graph.n_nodes if nodes is None else len(nodes), features.precision
    result = np.empty((n_rows, features.raw.shape[1]), dtype)
    for some, columns in _columns(graph, features, dtype):
        found = terms.sum_of_columns(graph, coefficients, columns)
        result[:, some] = found if nodes is None else found[nodes]
    return result


def _columns(
    graph: Graph, features: LazyRows, dtype: type[np.floating]
) -> Iterator[tuple[slice, np.ndarray]]:
    """The columns of X, a dense block at a time."""
    rows = features.take(np.arange(graph.n_nodes))
    values = rows.values.tocsc() if rows.is_sparse else rows.values.numpy()
    for some in blocks(values.shape[1], graph.n_nodes, dtype):
        if sp.issparse(values):
            part = dense(values[:, some], dtype)
            if rows.centre is not None:
                part -= rows.centre[some].astype(dtype)
        else:
            part = np.ascontiguousarray(values[:, some], dtype)
        yield some, part


class _Cache:
    """The filtered features of all nodes, kept for as long as their graph lives.

    A model asks for them at every prediction, and a comparison of models on one graph for the
    same again.
    """

    _kept: ClassVar[WeakKeyDictionary[Graph, dict[Any, tuple[Any, np.ndarray]]]] = (
        WeakKeyDictionary()
    )
    _lock: ClassVar = Lock()

    def __init__(self, graph: Graph, raw: Any, key: Any):
        self._graph, self._raw, self._key = graph, raw, key

    @classmethod
    def of(cls, rows: FilteredRows) -> _Cache:
        key = (rows.terms, rows.coefficients, _fingerprint(rows.features.preprocessor))
        return cls(rows.graph, rows.features.raw, key)

    def get(self) -> np.ndarray | None:
        raw, values = self._kept.get(self._graph, {}).get(self._key, (None, None))
        return values if raw is self._raw else None

    def put(self, values: np.ndarray) -> None:
        with self._lock:
            kept = self._kept.setdefault(self._graph, {})
            kept.pop(self._key, None)
            while sum(array.size for _, array in kept.values()) > _KEPT:
                del kept[next(iter(kept))]  # the oldest
            kept[self._key] = (self._raw, values)


def _fingerprint(preprocessor: Preprocessor) -> tuple[Any, ...]:
    arrays = (preprocessor.scale, preprocessor.centre)
    return preprocessor.kind, *(None if a is None else a.tobytes() for a in arrays)
