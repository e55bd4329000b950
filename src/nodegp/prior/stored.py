"""The nodes of a stored graph, as filters and priors see them.

Dense features are filtered once for each filter and kept with the store (:mod:`nodegp.disk`):
whatever is asked after that reads rows of F X, and nothing travels along the edges again. Without
features, or with sparse ones, columns of labels travel, as in memory; only the edges are on disk
then, and what does not fit in memory is refused.
"""

from __future__ import annotations

import numpy as np
import torch

from nodegp.disk import GraphOnDisk, StoredOperator, workers
from nodegp.disk.filtered import FilteredMatrix
from nodegp.disk.hops import Recursion
from nodegp.features import FeatureRows
from nodegp.graph import Graph
from nodegp.preprocessing import Preprocessor
from nodegp.prior.domain import Domain
from nodegp.prior.edges import is_derived
from nodegp.prior.lengths import random_signs, sketch_width
from nodegp.propagation import Countdown, FilterPolynomial
from nodegp.rows import Rows, squared_lengths

__all__ = ["StoredDomain", "check_affordable", "domain_of", "recursion_of"]


def domain_of(graph: Graph, preprocessor: Preprocessor, stranger_to: int | None = None) -> Domain:
    """A graph with its features, in memory or on disk."""
    if isinstance(graph, GraphOnDisk) and graph.is_dense:
        return StoredDomain(graph, preprocessor)
    return Domain(graph, preprocessor, stranger_to=stranger_to)


class StoredDomain(Domain):
    """The nodes of a stored graph with dense features."""

    graph: GraphOnDisk

    def __init__(self, graph: GraphOnDisk, preprocessor: Preprocessor, in_double: bool = False):
        super().__init__(graph, preprocessor, in_double)
        self._matrices: dict[FilterPolynomial, FilteredMatrix] = {}

    def __reduce__(self) -> tuple[type[Domain], tuple[object, ...]]:  # type: ignore[override]
        return StoredDomain, (self.graph, self.preprocessor, self.in_double)

    def precise(self, is_so: bool = True) -> Domain:
        return (
            self if self.in_double == is_so else StoredDomain(self.graph, self.preprocessor, is_so)
        )

    def _related(self, name: str) -> Domain:
        if is_derived(name):
            raise ValueError(
                f"edges of kind {name!r} take all pairs of nodes, which a stored graph is too "
                "large for; leave that view out"
            )
        return super()._related(name)

    def gathered(self, nodes: np.ndarray) -> FeatureRows:
        needed, allowed = 8 * len(nodes) * self.n_columns, workers().memory
        if needed > allowed:
            raise ValueError(
                f"a filter on the function takes the features of all neighbours, here "
                f"{len(nodes):,} rows of {needed / 2**30:.2f} GiB, and {allowed / 2**30:.2f} are "
                "allowed; filter the features instead (filter='auto'), ask about fewer nodes at a "
                "time, or allow more with --memory (in Python nodegp.disk.using(memory=...))"
            )
        return super().gathered(nodes)

    # --- filtered features, which are kept with the store ---------------------------------------

    def matrix(self, polynomial: FilterPolynomial) -> FilteredMatrix:
        """F X as it is, or is to be, on disk."""
        if polynomial not in self._matrices:
            # Files are in the precision that the same graph has in memory.
            kind = self.precise(False).rows.precision
            dtype = torch.float32 if kind == np.float32 else torch.float64
            parts = (self.graph.store, self.preprocessor, recursion_of(polynomial), dtype)
            self._matrices[polynomial] = FilteredMatrix(*parts)
        return self._matrices[polynomial]

    def whole(self, polynomial: FilterPolynomial) -> np.ndarray:
        matrix, operator = self.matrix(polynomial), self.operator(polynomial.self_loops)
        assert isinstance(operator, StoredOperator)
        countdown: list[Countdown] = []

        def progress(done: int, total: int) -> None:
            if not countdown:
                countdown.append(Countdown("propagating along the edges", "hops", total))
            countdown[0](done)

        matrix.make(operator, progress)
        return matrix  # type: ignore[return-value]  # rows of it are taken as of an array

    def prepare(self, polynomial: FilterPolynomial, width: int) -> None:
        self.whole(polynomial)

    def reads_whole(self, n_others: int) -> bool:
        return True

    def _new_rows(self, polynomial: FilterPolynomial, nodes: np.ndarray) -> np.ndarray:
        return self.whole(polynomial)[nodes].astype(np.float64)

    def inner_at(self, polynomial: FilterPolynomial, rows: Rows, nodes: np.ndarray) -> np.ndarray:
        left, right = self.whole(polynomial)[nodes], rows.dense().T
        result: np.ndarray = left.astype(self.rows.precision) @ right.astype(self.rows.precision)
        return result

    def lengths_at(self, polynomial: FilterPolynomial, nodes: np.ndarray) -> np.ndarray:
        result: np.ndarray = squared_lengths(self.whole(polynomial)[nodes]).numpy()
        return result

    def sketches_at(self, polynomial: FilterPolynomial, width: int, at: np.ndarray) -> np.ndarray:
        rows = self.whole(polynomial)[at]
        return rows @ random_signs(self.n_columns, width).astype(rows.dtype)


def recursion_of(polynomial: FilterPolynomial) -> Recursion:
    """A filter as those who work on a stored graph know it."""
    if polynomial.centred:
        raise ValueError(
            "a centred filter is for graphs without features, and the features of this stored "
            "graph are; use centred=False"
        )
    own = polynomial.coefficients[0] if polynomial.averaged else None
    terms = tuple(polynomial.in_adjacency)
    return Recursion(terms, polynomial.self_loops, polynomial.hub_discount, own)


def check_affordable(graph: GraphOnDisk, n_labels: int) -> None:
    """Refuse what would take more memory than is allowed, where features are not dense: columns of
    labels, and sketches, for all nodes."""
    store = graph.store
    if graph.is_dense:
        return
    n_columns = store.n_features or store.n_nodes
    width = sketch_width(store.n_nodes, n_columns)
    # Columns in single precision with what carries them, and rows of the labelled nodes.
    needed = 4 * store.n_nodes * (n_labels + width + 64) + 8 * n_labels * n_columns
    if store.has_sparse_features:
        entries = int(store.column_statistics["nnz"].sum())
        needed += 12 * entries + 8 * width * n_columns
        remedy = "bring the features to fewer columns first: nodegp prepare --svd 128"
    else:
        needed += 12 * n_labels * store.n_nodes + 8 * width * store.n_nodes
        remedy = "give its nodes features, of which a few dense columns are enough"
    allowed = workers().memory
    if needed > allowed:
        what = "wide sparse features" if store.has_features else "no features"
        raise ValueError(
            f"{n_labels:,} labels on {store.n_nodes:,} nodes with {what} take about "
            f"{needed / 2**30:.1f} GiB of memory, and {allowed / 2**30:.1f} are allowed; {remedy}, "
            "or allow more with --memory"
        )
