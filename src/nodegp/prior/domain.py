"""A graph with its preprocessed features: where priors are asked, and what is kept for the next
question.

Whatever is kept follows from graph, features and filter alone, never from labels or kernels: rows
and lengths of filtered features, and their inner products with some rows. So a label that comes,
changes or goes can make none of it wrong, and one more label is one more column.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch

from nodegp.budget import budget
from nodegp.features import FeatureRows
from nodegp.graph import Graph
from nodegp.operators import GraphOperator, operator_of
from nodegp.preprocessing import Preprocessor
from nodegp.prior.cache import ArrayCache
from nodegp.prior.columns import FeatureColumns, ProductColumns
from nodegp.prior.edges import LINKS, derived_graph, filter_rows_centred, is_derived
from nodegp.prior.inputs import cut
from nodegp.prior.kept import (
    KeptColumns,
    KeptRows,
    LabelledRows,
    check_size,
    knowing,
    row_marks,
    taken,
)
from nodegp.prior.lengths import random_signs
from nodegp.propagation import (
    FilterPolynomial,
    filter_rows,
    filter_rows_dense,
    filter_rows_short,
    propagate,
    propagate_blocks,
    squared_row_lengths,
)
from nodegp.rows import Rows, squared_lengths

__all__ = ["Domain"]

_SHORT = 2  # hops that a few nodes' neighbourhoods are still small at
_KEPT_ROWS, _KEPT_TIMES = 1024, 2  # rows that are kept beside those asked for, and for each of them
_OF_BUDGET = 16  # the share of the budget that is spent on what is only sometimes of use
_LINKS = 1  # hops that those of all nodes are together no more than the edges at

# Kept for as long as the graph lives, and for all models on it that see the same features.
_caches: WeakKeyDictionary[Graph, ArrayCache] = WeakKeyDictionary()


class Domain:
    """The nodes of a graph with their features, as filters and priors see them."""

    def __init__(
        self,
        graph: Graph,
        preprocessor: Preprocessor,
        in_double: bool = False,
        stranger_to: int | None = None,
        rows: FeatureRows | None = None,
    ):
        self.graph = graph
        self.preprocessor = preprocessor
        self.in_double = in_double
        # How many nodes a model was fitted on, where these are others: of whom it knows features,
        # and no links.
        self.stranger_to = stranger_to
        self.cache = _caches.setdefault(graph, ArrayCache(budget.kept_bytes))
        self.rows = rows or self._feature_rows()
        # Other edges between the same nodes share the budget of what is kept.
        self._mark = id(graph), preprocessor.fingerprint, np.dtype(self.rows.precision).name
        self._relations: dict[str, Domain] = {}

    def _feature_rows(self) -> FeatureRows:
        """The features, with what has been made of them for other edges and other questions."""
        key = ("features", self.preprocessor.fingerprint, self.in_double)
        known = self.cache.get(key)
        if isinstance(known, FeatureRows):
            same_nodes = self.is_featureless and len(known) == self.n_nodes
            if known.raw is self.graph.features or same_nodes:
                return known
        of_graph = FeatureRows.of(self.preprocessor, self.graph.features, self.n_nodes)
        rows = replace(of_graph, in_double=self.in_double)
        self.cache.put(key, rows, 24 * len(rows) * rows.width)
        return rows

    def __eq__(self, other: object) -> bool:
        """Whether both are the same features on the very same graph."""
        return isinstance(other, Domain) and self._mark == other._mark

    def __hash__(self) -> int:
        return hash(self._mark)

    def __reduce__(self) -> tuple[type[Domain], tuple[Graph, Preprocessor, bool, int | None]]:
        return Domain, (self.graph, self.preprocessor, self.in_double, self.stranger_to)

    def precise(self, is_so: bool = True) -> Domain:
        """The same with all sums over many rows in double precision, or in that of features."""
        again = (self.graph, self.preprocessor, is_so, self.stranger_to)
        return self if self.in_double == is_so else Domain(*again)

    @property
    def mark(self) -> Hashable:
        """What it is known by to others who keep something of it in :attr:`cache`."""
        return self._mark

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def n_columns(self) -> int:
        """Of the features, or as many as there are nodes in a graph without."""
        return self.rows.n_columns

    @property
    def is_featureless(self) -> bool:
        return self.preprocessor.kind == "one-hot"

    def gathered(self, nodes: np.ndarray) -> FeatureRows:
        """The features of nodes that lie anywhere, for a filter on the function."""
        return self.rows.select(nodes)

    def operator(self, self_loops: bool) -> GraphOperator:
        return operator_of(self.graph, self_loops)

    def has_short_rows(self, polynomial: FilterPolynomial, relation: str | None) -> bool:
        """Whether filtered features are a few links of each node, whose lengths are had at once."""
        is_short = polynomial.order <= _LINKS and polynomial.hub_discount == 0
        return is_short and (relation == LINKS or (relation is None and self.is_featureless))

    def relation(self, name: str | None) -> Domain:
        """The same nodes with the edges of one kind only, or with others that follow from graph and
        features (:mod:`nodegp.prior.edges`)."""
        if name is None:
            return self
        if name not in self._relations:
            self._relations[name] = self._related(name)
        return self._relations[name]

    def _related(self, name: str) -> Domain:
        if not is_derived(name):
            related = self.graph.relation(name)
            _caches.setdefault(related, self.cache)
            return Domain(related, self.preprocessor, self.in_double, rows=self.rows)
        if name == LINKS and self.stranger_to is not None:
            nothing = sp.csr_array((self.n_nodes, self.stranger_to))
            apart = Graph(sp.csr_array((self.n_nodes, self.n_nodes)), nothing)
            return Domain(apart, Preprocessor("raw", n_features=self.stranger_to))
        view = derived_graph(self.graph, self.rows, name)
        _caches.setdefault(view, self.cache)
        if name == LINKS:
            return Domain(view, Preprocessor.fit(None, n_nodes=self.n_nodes), self.in_double)
        return Domain(view, self.preprocessor, self.in_double, rows=self.rows)

    # --- filtered features F X, all of them or some ------------------------------------------

    def filtered_rows(
        self, polynomial: FilterPolynomial, nodes: np.ndarray, sketch: int = 0
    ) -> Rows:
        """Rows of F X at some nodes, with sketches of a width beside them; each is made once. They
        are dense, but for a graph without features: there X = I, and they are rows of F, which are
        sparse unless it is centred."""
        values = self._row_by_row(
            ("rows", self._mark, polynomial), nodes, lambda new: self._new_rows(polynomial, new)
        )
        rows = Rows(torch.from_numpy(values) if isinstance(values, np.ndarray) else values)
        if not sketch:
            return rows
        place = {n: j for j, n in enumerate(nodes.tolist())}

        def new_sketches(new: np.ndarray) -> np.ndarray:
            # In the precision of those of all nodes.
            kind = self.rows.precision
            signs = random_signs(self.n_columns, sketch).astype(kind, copy=False)
            some = values[[place[n] for n in new.tolist()]].astype(kind, copy=False)
            return (some @ signs).astype(np.float64, copy=False)

        key = ("row sketches", self._mark, polynomial, sketch)
        beside = self._row_by_row(key, nodes, new_sketches)
        return Rows(rows.values, rows.centre, torch.from_numpy(beside))

    def labelled_rows(
        self, polynomial: FilterPolynomial, nodes: np.ndarray, sketch: int = 0
    ) -> Rows:
        """What :meth:`filtered_rows` gives, with inner products of the rows with each other. Those
        of the nodes that were asked about the last time are kept: all views, a fit and an update
        ask for the same, and one more label is one more row."""
        if len(nodes) ** 2 > budget.fit:
            return self.filtered_rows(polynomial, nodes, sketch)
        key = ("labelled", self._mark, polynomial, sketch)
        cached = self.cache.get(key)
        before = cached if isinstance(cached, LabelledRows) else None
        if before is not None and before.nodes == nodes.tolist():
            return before.rows
        rows = self.filtered_rows(polynomial, nodes, sketch)
        marks = row_marks(self.cache, ("number", self._mark, polynomial), nodes)
        labelled = knowing(rows, nodes, marks, before)
        self.cache.put(key, labelled, 8 * len(rows) * (len(rows) + rows.width))
        return labelled.rows

    def _row_by_row(
        self,
        key: Hashable,
        nodes: np.ndarray,
        make: Callable[[np.ndarray], sp.csr_array | np.ndarray],
    ) -> sp.csr_array | np.ndarray:
        """Rows at some nodes, of which those that are kept are not made again."""
        kept = self.cache.get(key)
        if not isinstance(kept, KeptRows):
            kept = KeptRows(nodes[:0], make(nodes[:0]))
        missing = kept.missing(nodes)
        if len(missing):
            if len(kept.nodes) > _KEPT_ROWS + _KEPT_TIMES * len(nodes):
                # Other labels, as in a cross-validation: those of long ago are not asked for again.
                kept = kept.only(nodes)
            kept = kept.with_rows(missing, make(missing))
            self.cache.put(key, kept, kept.n_bytes)
        return kept.at(nodes)

    def _new_rows(
        self, polynomial: FilterPolynomial, nodes: np.ndarray
    ) -> sp.csr_array | np.ndarray:
        operator = self.operator(polynomial.self_loops)
        if self.is_featureless and not polynomial.centred:
            return filter_rows(operator, polynomial, nodes)
        check_size(len(nodes), self.n_columns)
        if self.is_featureless and polynomial.order <= _LINKS:
            return filter_rows_centred(operator, polynomial, nodes)
        if self.is_featureless:  # what a centre is taken from has an entry for every node
            result = np.empty((len(nodes), self.n_nodes))
            for block in operator.column_blocks(len(nodes)):
                result[block] = filter_rows_dense(operator, polynomial, nodes[block]).T
            return result
        whole = self._known_whole(polynomial)
        if whole is not None:  # what a new label asks for is there
            return whole[nodes].astype(np.float64)
        if not self.indicators_are_cheaper(polynomial, len(nodes)):
            if not self.rows.is_sparse:
                return self.whole(polynomial)[nodes].astype(np.float64)
            result = np.empty((len(nodes), self.n_columns))
            for block, carried in propagate_blocks(operator, polynomial, FeatureColumns(self.rows)):
                result[:, block] = carried[nodes]
            return result
        if polynomial.order <= _SHORT:
            weights, touched = cut(filter_rows_short(operator, polynomial, nodes))
            return self.rows.take(touched).combined(weights).dense()
        result = np.empty((len(nodes), self.n_columns))
        for block in operator.column_blocks(len(nodes)):
            back = filter_rows_dense(operator, polynomial, nodes[block], self.rows.precision)
            result[block] = self.rows.transposed_times(back).T
        return result

    def whole(self, polynomial: FilterPolynomial) -> np.ndarray:
        """F X for all nodes, (N, D): for dense features of fewer columns than there are labels. It
        is no more precise than they are, or it would be there twice: wherever sums are in double
        precision, products of these rows are what is summed."""
        made = self._known_whole(polynomial)
        if made is None:
            operator, rows = self.operator(polynomial.self_loops), self.precise(False).rows
            made = propagate(operator, polynomial, FeatureColumns(rows))
            self.cache.put(("whole", self.precise(False)._mark, polynomial), made, made.nbytes)
        return made

    def _known_whole(self, polynomial: FilterPolynomial) -> np.ndarray | None:
        cached = self.cache.get(("whole", self.precise(False)._mark, polynomial))
        return cached if isinstance(cached, np.ndarray) else None

    def reads_whole(self, n_others: int) -> bool:
        """Whether inner products with so many rows are had from F X itself."""
        return not self.rows.is_sparse and self.n_columns <= n_others

    def indicators_are_cheaper(
        self, polynomial: FilterPolynomial, n_rows: int, n_results: int = 1
    ) -> bool:
        """Whether some rows of F X are had with less from rows of F than from the columns of X."""
        # Operations per column: the product, and four passes over the column beside it.
        operator = self.operator(polynomial.self_loops)
        column = len(polynomial) * (operator.cost + 4 * self.n_nodes)
        # A dense product is about eight times as fast per entry as a sparse one.
        raw = self.rows.raw
        mixing = raw.nnz if self.rows.is_sparse else self.n_nodes * self.n_columns // 8
        return n_rows * (column + n_results * mixing) < self.n_columns * column

    # --- inner products and lengths, of all nodes ---------------------------------------------

    def prepare(self, polynomial: FilterPolynomial, width: int) -> None:
        """Work out what of a filter needs no label: lengths of all rows, or sketches that tell
        them. Of dense rows F X itself may be made, and tells."""
        self.rows.prepare()
        if width:
            self.sketches(polynomial, width)
        elif self.rows.is_sparse:
            self.squared_lengths(polynomial)

    def kept_columns(self, polynomial: FilterPolynomial, rows: Rows) -> np.ndarray | None:
        """The answer of :meth:`columns`, if it is there."""
        cached = self.cache.get(("columns", self._mark, polynomial))
        if isinstance(cached, KeptColumns) and cached.of == rows.fingerprints:
            return cached.values
        return None

    def columns(self, polynomial: FilterPolynomial, rows: Rows) -> np.ndarray:
        """Inner products of all nodes' filtered features with some rows: F X rows^T, (N, rows).

        Neither F X nor anything else of its size is made. Those of rows that were asked for
        before are taken over, so one more row costs one column.
        """
        cached = self.cache.get(key := ("columns", self._mark, polynomial))
        nothing = KeptColumns((), np.zeros((self.n_nodes, 0)))
        before = cached if isinstance(cached, KeptColumns) else nothing
        if before.of == rows.fingerprints:
            return before.values
        place = {mark: j for j, mark in enumerate(before.of)}
        new = [j for j, mark in enumerate(rows.fingerprints) if mark not in place]
        if len(new) == len(rows):
            result = self.new_columns(polynomial, rows)
        else:
            places = torch.tensor([place.get(m, 0) for m in rows.fingerprints])
            result = torch.from_numpy(before.values).index_select(1, places).numpy()
            if new:
                result[:, new] = self.new_columns(polynomial, rows.take(np.array(new)))
        self.cache.put(key, KeptColumns(rows.fingerprints, result), result.nbytes)
        return result

    def new_columns(self, polynomial: FilterPolynomial, rows: Rows) -> np.ndarray:
        """What :meth:`columns` gives, with nothing taken over or kept."""
        operator = self.operator(polynomial.self_loops)
        return propagate(operator, polynomial, ProductColumns(self.rows, rows))

    def inner_at(self, polynomial: FilterPolynomial, rows: Rows, nodes: np.ndarray) -> np.ndarray:
        """What :meth:`new_columns` gives, of some nodes."""
        return self.new_columns(polynomial, rows)[nodes]

    def lengths_at(self, polynomial: FilterPolynomial, nodes: np.ndarray) -> np.ndarray:
        """|F x|^2 of some nodes."""
        return self.squared_lengths(polynomial)[nodes]

    def squared_lengths(self, polynomial: FilterPolynomial) -> np.ndarray:
        """|F x|^2 of every node, (N,)."""
        cached = self.known_scale(polynomial, 0)
        if cached is not None:
            return cached
        whole = self._known_whole(polynomial)
        if whole is not None:
            lengths = squared_lengths(whole).numpy()
        elif self.has_short_rows(polynomial, None):
            lengths = squared_row_lengths(self.operator(polynomial.self_loops), polynomial)
        else:
            operator, columns = self.operator(polynomial.self_loops), FeatureColumns(self.rows)
            lengths = np.zeros(self.n_nodes)
            for _, carried in propagate_blocks(operator, polynomial, columns):
                lengths += np.einsum("nc,nc->n", carried, carried)
        self.put_scale(polynomial, 0, lengths)
        return lengths

    def sketches(self, polynomial: FilterPolynomial, width: int) -> np.ndarray:
        """F X R of every node, (N, width), of which the squared lengths are estimates of |F x|^2
        (:mod:`nodegp.prior.lengths`)."""
        cached = self.known_scale(polynomial, width)
        if cached is not None:
            return cached
        operator, columns = self.operator(polynomial.self_loops), self._random_columns(width)
        result = propagate(operator, polynomial, columns)
        self.put_scale(polynomial, width, result)
        return result

    def _random_columns(self, width: int) -> ProductColumns | np.ndarray:
        """X R, which is the same for all filters and kinds of edges: kept where it is small."""
        columns = ProductColumns(self.rows, random_signs(self.n_columns, width))
        n_bytes = self.n_nodes * width * np.dtype(self.rows.precision).itemsize
        if n_bytes > self.cache.budget // _OF_BUDGET:
            return columns
        key = ("random columns", self.preprocessor.fingerprint, self.rows.precision, width)
        if not isinstance(cached := self.cache.get(key), np.ndarray):
            self.cache.put(key, cached := columns.block(slice(0, width)), n_bytes)
        return cached

    def sketches_at(self, polynomial: FilterPolynomial, width: int, at: np.ndarray) -> np.ndarray:
        """Sketches of some nodes."""
        return taken(self.sketches(polynomial, width), at)

    def known_scale(self, polynomial: FilterPolynomial, width: int) -> np.ndarray | None:
        """The lengths of all rows, or their sketches of some width, if they are there."""
        cached = self.cache.get(("scale", self._mark, polynomial, width))
        return cached if isinstance(cached, np.ndarray) else None

    def put_scale(self, polynomial: FilterPolynomial, width: int, values: np.ndarray) -> None:
        """Keep what :meth:`known_scale` gives: worked out here, or read from a model file."""
        key = ("scale", self._mark, polynomial, width)
        self.cache.put(key, values, values.nbytes)
