"""Edges between nodes that are alike, and the others that follow from graph and features."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_graph
from nodegp import Graph
from nodegp.budget import budget
from nodegp.operators import operator_of
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain, edges
from nodegp.prior.edges import (
    ALIKE,
    BOTH,
    LINKS,
    alike_cost,
    derived_graph,
    filter_rows_centred,
    is_derived,
    keep_derived,
    nearest_nodes,
)
from nodegp.propagation import FilterPolynomial, filter_rows_dense


def domain_of(graph, kind="raw", centre=False):
    return Domain(graph, Preprocessor.fit(graph.features, kind, centre, graph.n_nodes))


def table(n, d, seed, sparse=False, zeros=0):
    """Features, some of whose rows are all zero; few enough ties to tell which are nearest."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if sparse:
        X = np.abs(X) * (rng.random((n, d)) < 0.5)
    X[:zeros] = 0.0
    return sp.csr_array(X) if sparse else X


def nearest_by_loops(X, k):
    """Pairs of nodes, either of which is among the k largest cosines of the other; none without a
    positive cosine. Beside them each cosine, to leave out ties."""
    n = len(X)
    lengths = [np.sqrt(sum(x * x for x in row)) for row in X]
    top = max(lengths, default=0.0)
    cosines = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if min(lengths[i], lengths[j]) > 1e-4 * top:
                cosines[i, j] = X[i] @ X[j] / (lengths[i] * lengths[j])
    linked = np.zeros((n, n), dtype=bool)
    for i in range(n):
        others = [j for j in range(n) if j != i and cosines[i, j] > 0]
        others.sort(key=lambda j: -cosines[i, j])
        linked[i, others[:k]] = True
    return linked, cosines


def assert_nearest(found, X, k):
    """As in the loops, but for what single precision cannot tell."""
    expected, cosines = nearest_by_loops(X, k)
    found = found.toarray() > 0
    for i in range(len(X)):
        where = np.flatnonzero(found[i] != expected[i])
        if len(where):  # ties with the last that is taken, or with nothing in common
            last = min(cosines[i, expected[i]], default=0.0)
            assert cosines[i, where] == pytest.approx(last, abs=1e-5) or np.all(
                np.abs(cosines[i, where]) < 1e-5
            )
        assert found[i].sum() <= k
        assert not found[i, i]


@given(
    n=st.integers(2, 40),
    d=st.integers(1, 6),
    seed=st.integers(0, 1000),
    sparse=st.booleans(),
    zeros=st.integers(0, 3),
    centre=st.booleans(),
    kind=st.sampled_from(["raw", "standardise", "tfidf"]),
)
def test_nearest_nodes_by_a_loop_over_cosines(n, d, seed, sparse, zeros, centre, kind):
    X = table(n, d, seed, sparse, min(zeros, n - 1))
    if kind == "tfidf" and not sparse:
        X = np.abs(X)
    if sparse and X.nnz == 0:
        return
    rows = domain_of(Graph(sp.csr_array((n, n)), X), kind, centre).rows
    assert_nearest(nearest_nodes(rows), rows.materialise().dense(), min(10, n - 1))


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("block", [None, 100])
def test_wide_sparse_rows_are_never_made_dense(centre, block, monkeypatch):
    """The way that large graphs of words take, a block of nodes at a time too."""
    rng = np.random.default_rng(1)
    X = sp.random_array((60, 4000), density=0.004, rng=rng, format="csr")
    graph = Graph(sp.csr_array((60, 60)), X)
    rows = domain_of(graph, "raw", centre).rows
    assert not edges._is_dense(rows)
    if block:
        monkeypatch.setattr(budget, "block", block)
    dense = X.toarray() - (X.toarray().mean(0) if centre else 0)
    assert_nearest(nearest_nodes(rows), dense, 10)


def test_dense_rows_in_blocks_are_the_same(monkeypatch):
    rows = domain_of(random_graph(50, d=7)).rows
    whole = nearest_nodes(rows).toarray()
    monkeypatch.setattr(budget, "block", 120)
    assert np.array_equal(nearest_nodes(rows).toarray(), whole)


def test_rows_that_are_zero_or_all_centre_have_no_links():
    X = np.zeros((6, 3))
    X[:3] = [[1, 0, 0], [1, 0.1, 0], [0.9, 0, 0.1]]
    found = nearest_nodes(domain_of(Graph(np.zeros((6, 6)), X)).rows)
    assert found.toarray()[3:].sum() == found.toarray()[:, 3:].sum() == 0
    assert (found.toarray()[:3, :3] + np.eye(3) == 1).all()
    same = np.ones((5, 2))  # nothing is left of them without their mean
    assert nearest_nodes(domain_of(Graph(np.zeros((5, 5)), same), centre=True).rows).nnz == 0
    opposite = np.array([[1.0], [-1.0]])
    assert nearest_nodes(domain_of(Graph(np.zeros((2, 2)), opposite)).rows).nnz == 0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_fewer_nodes_than_neighbours(n):
    X = np.abs(table(n, 3, 0)) + 0.1
    found = nearest_nodes(domain_of(Graph(np.zeros((n, n)), X)).rows)
    assert found.shape == (n, n)
    assert np.array_equal(found.toarray(), 1 - np.eye(n))


# --- the graphs that have them -------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [True, False])
def test_the_edges_of_each_relation(sparse):
    graph = random_graph(40, d=5, weighted=True, sparse=sparse)
    domain = domain_of(graph, centre=True)
    near = nearest_nodes(domain.rows).toarray()
    alike = domain.relation(ALIKE)
    assert np.array_equal(alike.graph.adjacency.toarray(), np.maximum(near, near.T))
    arrays = [each.features.data if sparse else each.features for each in (alike.graph, graph)]
    assert np.shares_memory(*arrays), "features are there once"
    assert alike.preprocessor is domain.preprocessor
    # Beside the graph's own edges, a fifth of their mean weight.
    A = graph.adjacency.toarray()
    expected = A + 0.2 * A[A > 0].mean() * np.maximum(near, near.T)
    assert domain.relation(BOTH).graph.adjacency.toarray() == pytest.approx(expected)
    links = domain.relation(LINKS)
    assert np.array_equal(links.graph.adjacency.toarray(), A)
    assert links.graph.features is None
    assert links.is_featureless
    for name in (ALIKE, BOTH, LINKS):
        assert is_derived(name)
        assert domain.relation(name) is domain.relation(name)
        assert domain.relation(name).n_nodes == 40


def test_without_edges_both_is_alike():
    graph = Graph(sp.csr_array((30, 30)), random_graph(30).features)
    domain = domain_of(graph)
    alike, both = (domain.relation(name).graph.adjacency for name in (ALIKE, BOTH))
    assert (both.toarray() == 0.2 * alike.toarray()).all()


def test_the_same_graph_each_time(monkeypatch):
    graph = random_graph(30)
    first = domain_of(graph).relation(ALIKE).graph
    assert domain_of(graph).relation(ALIKE).graph is first
    calls = []
    plain = edges.nearest_nodes
    monkeypatch.setattr(edges, "nearest_nodes", lambda rows: calls.append(1) or plain(rows))
    domain_of(graph).relation(BOTH)
    assert not calls, "found once for a graph"
    domain_of(graph, centre=True).relation(ALIKE)
    assert calls == [1], "other features are alike in another way"
    domain_of(graph, centre=True).precise().relation(ALIKE)
    assert calls == [1]


def test_what_is_kept_for_a_graph_goes_with_it():
    graph = random_graph(20)
    domain_of(graph).relation(BOTH)
    assert graph in edges._derived
    seen = weakref.ref(graph)
    del graph
    gc.collect()
    assert seen() is None


def test_edges_from_a_file_are_taken_over(monkeypatch):
    graph = random_graph(12, d=3)
    monkeypatch.setattr(edges, "nearest_nodes", None)
    given = sp.csr_array(np.diag(np.ones(11), 1))
    domain = domain_of(graph)
    keep_derived(graph, domain.rows, given)
    found = domain.relation(ALIKE).graph.adjacency.toarray()
    assert np.array_equal(found, (given + given.T).toarray())
    assert domain.relation(BOTH).graph.adjacency[0, 1] > 0


def test_no_kind_of_edges_of_ones_own_begins_like_these():
    with pytest.raises(ValueError, match=r"cannot begin with @; rename \['@alike'\]"):
        Graph({"@alike": np.zeros((3, 3)), "other": np.zeros((3, 3))})
    graph = random_graph(5)
    with pytest.raises(ValueError, match="no edges are called '@other'"):
        derived_graph(graph, domain_of(graph).rows, "@other")


def test_what_it_costs_grows_with_nodes_and_entries():
    def cost(n, d, density):
        X = sp.random_array((n, d), density=density, rng=np.random.default_rng(0), format="csr")
        return alike_cost(domain_of(Graph(sp.csr_array((n, n)), X)).rows)

    assert cost(400, 50, 0.1) == pytest.approx(4 * cost(200, 50, 0.1), rel=0.05)
    assert cost(200, 4000, 0.002) > cost(200, 4000, 0.001)
    dense = domain_of(Graph(sp.csr_array((100, 100)), np.ones((100, 30)))).rows
    assert alike_cost(dense) == 100**2 * (30 + 100)


# --- nodes of other graphs -----------------------------------------------------------------------


def changed(features, by):
    """The same with one entry larger."""
    entry = sp.csr_array(([by], ([3], [1])), shape=features.shape)
    return features + (entry if sp.issparse(features) else entry.toarray())


@pytest.mark.parametrize("sparse", [True, False])
def test_whether_a_graph_begins_like_another(sparse):
    graph = random_graph(12, d=4, sparse=sparse)

    def like(first=None, ids=None, n=12):
        X = graph.features if first is None else first
        stack = sp.vstack if sp.issparse(X) else np.vstack
        X = X[:n] if n <= 12 else stack([X, X[: n - 12]])
        return Graph(np.ones((n, n)), X, ids)

    assert like().begins_like(graph), "edges may have come and gone"
    assert like(n=15).begins_like(graph)
    assert not like(n=11).begins_like(graph)
    other = changed(graph.features, 7.0)
    assert not like(other).begins_like(graph)
    named = Graph(graph.adjacency, graph.features, [f"n{i}" for i in range(12)])
    assert like(other, [f"n{i}" for i in range(12)]).begins_like(named), "names tell nodes"
    assert not like(None, [f"m{i}" for i in range(12)]).begins_like(named)
    assert like().begins_like(named), "without names features do"
    assert not Graph(graph.adjacency).begins_like(graph)
    assert Graph(graph.adjacency).begins_like(Graph(graph.adjacency))
    kind = graph.features.toarray() if sparse else sp.csr_array(graph.features)
    assert not like(kind).begins_like(graph)


@pytest.mark.parametrize("sparse", [True, False])
def test_marks_tell_what_comparing_tells(sparse):
    graph = random_graph(12, d=4, sparse=sparse)
    X = graph.features
    stack = sp.vstack if sparse else np.vstack
    grown = Graph(np.zeros((14, 14)), stack([X, X[:2]]))
    assert grown.marks(12) == graph.marks(12)
    assert grown.marks(14) != graph.marks(12)
    other = changed(X, 1e-9)
    assert Graph(graph.adjacency, other).marks(12) != graph.marks(12)
    named = Graph(graph.adjacency, X, [f"n{i}" for i in range(12)])
    assert named.marks(12)["features"] == graph.marks(12)["features"]
    assert set(named.marks(12)) == {"ids", "features"}
    assert Graph(graph.adjacency, X, [f"m{i}" for i in range(12)]).marks(12) != named.marks(12)
    assert Graph(graph.adjacency).marks(12) == {}


def test_a_stranger_has_no_links_that_anybody_knows():
    graph = random_graph(12, d=4)
    strange = Domain(graph, Preprocessor.fit(graph.features, "raw"), stranger_to=30)
    links = strange.relation(LINKS)
    assert links.n_nodes == 12
    assert links.rows.n_columns == 30
    assert links.graph.adjacency.nnz == 0
    assert not links.rows.materialise().dense().any()
    assert strange.precise().stranger_to == 30
    assert strange.relation(ALIKE).graph.adjacency.nnz > 0


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("discount", [0.0, 0.3])
@pytest.mark.parametrize("order", [1, 2])
def test_rows_of_a_short_centred_filter_are_those_of_the_dense_way(averaged, discount, order):
    graph, nodes = random_graph(30, 0.1, weighted=True), np.array([3, 29, 7])
    operator = operator_of(graph, self_loops=False)
    coefficients = (*(0.7,) * averaged, 0.2, 0.5, 0.3)[: order + 1 + averaged]
    polynomial = FilterPolynomial(coefficients, False, averaged, discount, centred=True)
    rows = filter_rows_centred(operator, polynomial, nodes)
    expected = filter_rows_dense(operator, polynomial, nodes).T
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-14)
