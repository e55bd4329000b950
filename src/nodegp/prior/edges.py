"""Edges that a prior may look along beside the graph's own: they follow from graph and features,
need no label, and are worked out once for each graph.

A relation that begins with ``@`` names them: ``@alike`` links nodes to those whose features are
most alike, ``@both`` has these beside the graph's edges, and ``@links`` has the graph's edges over
nodes whose only feature is which one they are; rows of its filters are made here too.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.features import FeatureRows
from nodegp.graph import Graph
from nodegp.operators import GraphOperator
from nodegp.propagation import Countdown, FilterPolynomial, filter_rows_short

__all__ = [
    "ALIKE",
    "BOTH",
    "LINKS",
    "alike_cost",
    "derived_graph",
    "filter_rows_centred",
    "is_derived",
    "keep_derived",
]

ALIKE, BOTH, LINKS = "@alike", "@both", "@links"
_NEAREST = 10
_SPARSE = 25  # multiplications of dense rows that take as long as one of sparse ones
_CHOOSING = 100  # of them that take as long as one cosine more to choose from
_SAY = 0.2  # of an edge to a node that is alike, beside the mean of the graph's own

# The same object each time, so that what is kept for a graph is found again.
_derived: WeakKeyDictionary[Graph, dict[tuple[str, str], Graph]] = WeakKeyDictionary()


def is_derived(relation: str) -> bool:
    return relation.startswith("@")


def derived_graph(graph: Graph, rows: FeatureRows, relation: str) -> Graph:
    """The same nodes with edges of one of these kinds."""
    made = _derived.setdefault(graph, {})
    key = relation, "" if relation == LINKS else rows.preprocessor.fingerprint
    if key not in made:
        made[key] = _derive(graph, rows, relation)
    return made[key]


def keep_derived(graph: Graph, rows: FeatureRows, nearest: sp.csr_array) -> None:
    """Take over the edges between nodes that are alike, as a model file has them."""
    view = Graph(nearest, graph.features, graph.ids, graph.is_prepared)
    _derived.setdefault(graph, {})[ALIKE, rows.preprocessor.fingerprint] = view


def _derive(graph: Graph, rows: FeatureRows, relation: str) -> Graph:
    if relation == LINKS:
        return Graph(graph.adjacency)
    if relation == ALIKE:
        edges = nearest_nodes(rows)
    elif relation == BOTH:
        alike = derived_graph(graph, rows, ALIKE).adjacency
        usual = graph.adjacency.data.mean() if graph.adjacency.nnz else 1.0
        edges = sp.csr_array(graph.adjacency + _SAY * usual * alike)
    else:
        raise ValueError(f"no edges are called {relation!r}")
    return Graph(edges, graph.features, graph.ids, graph.is_prepared)


def alike_cost(rows: FeatureRows) -> float:
    """About how many multiplications :func:`nearest_nodes` takes, and passes over its answers."""
    n_nodes = float(len(rows))
    by_row = rows.n_columns if _is_dense(rows) else _SPARSE * rows.raw.nnz / max(n_nodes, 1.0)
    return n_nodes**2 * (by_row + _CHOOSING)


def nearest_nodes(rows: FeatureRows) -> sp.csr_array:
    """Links between each node and those whose rows have the largest cosines with its own, either
    way round. Rows that have nothing in common are not linked, however few others there are."""
    n_nodes = len(rows)
    k = min(_NEAREST, n_nodes - 1)
    if k < 1:
        return sp.csr_array((n_nodes, n_nodes))
    inverse = _inverse_lengths(rows)
    whole = None
    if _is_dense(rows):
        whole = torch.from_numpy(rows.materialise().dense().astype(np.float32))
    targets, is_linked = np.empty((n_nodes, k), np.int64), np.empty((n_nodes, k), bool)
    progress = Countdown("finding nodes that are alike", "nodes", n_nodes)
    # Dense products are the faster the larger they are, sparse ones wait for memory.
    for block in blocks(n_nodes, n_nodes, budget.tile if whole is None else budget.block):
        cosines = _inner(rows, whole, block) * inverse * inverse[block, None]
        each = torch.arange(block.stop - block.start)
        cosines[each, each + block.start] = -torch.inf
        values, places = cosines.topk(k, dim=1)
        targets[block], is_linked[block] = places.numpy(), (values > 0).numpy()
        progress(block.stop)
    sources = np.repeat(np.arange(n_nodes), k).reshape(n_nodes, k)
    ends = sources[is_linked], targets[is_linked]
    return sp.csr_array((np.ones(len(ends[0])), ends), shape=(n_nodes, n_nodes))


def _is_dense(rows: FeatureRows) -> bool:
    """Whether the products of all rows with all are had with less from dense ones."""
    n_entries = len(rows) * rows.n_columns
    return not rows.is_sparse or n_entries <= min(_SPARSE * rows.raw.nnz, budget.large)


def _inverse_lengths(rows: FeatureRows) -> Tensor:
    squares = rows.squared_norms()
    # What is left of a row that is all centre is rounding, and no direction.
    small = 1e-9 * squares.max().clamp_min(torch.finfo(squares.dtype).tiny)
    return torch.where(squares > small, squares, torch.inf).rsqrt().float()


def _inner(rows: FeatureRows, whole: Tensor | None, block: slice) -> Tensor:
    """Inner products of a range of rows with all of them, (n, N), in single precision."""
    if whole is not None:
        return whole[block] @ whole.mT
    some = rows.take(np.arange(block.start, block.stop)).dense().astype(np.float32)
    return torch.from_numpy(rows.times(some.T)).mT.contiguous()


def filter_rows_centred(
    operator: GraphOperator, polynomial: FilterPolynomial, nodes: np.ndarray
) -> np.ndarray:
    """Rows ``nodes`` of a centred F, (len(nodes), N), for an order of one: a few entries, less what
    is taken from all places."""
    plain = replace(polynomial, centred=False, hub_discount=0.0)
    rows, leading = filter_rows_short(operator, plain, nodes), polynomial.leading(operator)
    result = np.multiply.outer(-(rows @ leading), leading)
    result[np.repeat(np.arange(len(nodes)), np.diff(rows.indptr)), rows.indices] += rows.data
    if polynomial.hub_discount > 0:
        result *= polynomial.discounts(operator)
    return result
