"""Spectral filters: each against its dense definition, and both routes to filtered rows."""

from __future__ import annotations

import gc
import json
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from conftest import concrete, dense, random_graph
from memory import without_proc
from nodegp import features, operators, propagation
from nodegp.budget import budget
from nodegp.component import from_dict
from nodegp.filters import (
    Chebyshev,
    Diffusion,
    InverseCosine,
    MaternFilter,
    PageRank,
    Propagation,
    RandomWalk,
    RegularisedLaplacian,
    ResponseValue,
    Spectral,
)
from nodegp.graph import Graph
from nodegp.kernels import RBF, Cosine, Linear
from nodegp.operators import operator_of
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain, FilteredFeatures, domain, make_prior, whole
from nodegp.prior.basis import basis_at
from nodegp.prior.rows import FilteredRows
from nodegp.propagation import (
    FilterPolynomial,
    basis_columns,
    basis_rows,
    filter_rows,
    filter_rows_dense,
    filter_rows_short,
    propagate,
    propagate_blocks,
)
from packages import run_code

# Each filter beside its response, written down once more.
RESPONSES = {
    "pagerank": (PageRank(0.2, order=60), lambda v: 0.2 / (1 - 0.8 * (1 - v))),
    "propagation": (Propagation(3), lambda v: (1 - v) ** 3),
    "laplacian": (RegularisedLaplacian(2.0, order=60), lambda v: 1 / (1 + 2 * v)),
    "diffusion": (Diffusion(1.5, order=30), lambda v: np.exp(-1.5 * v)),
    "walk": (RandomWalk(4, 3.0), lambda v: ((3 - v) / 3) ** 4),
    "cosine": (InverseCosine(order=20), lambda v: np.cos(v * np.pi / 4)),
    "matern": (
        MaternFilter(2.5, 1.2, order=60),
        lambda v: ((5 / 1.44) / (5 / 1.44 + v)) ** 1.25,
    ),
    # Through 0.9, 1.4, 0.3 at 1 - sqrt(3/4), 1, 1 + sqrt(3/4).
    "chebyshev": (
        Chebyshev((0.9, 1.4, 0.3)),
        lambda v: 1.4 - 0.3 / np.sqrt(0.75) * (v - 1) - 0.8 / 0.75 * (v - 1) ** 2,
    ),
}
SPECTRAL = [pytest.param(*pair, id=name) for name, pair in RESPONSES.items()]
SINGLE = 2e-6  # filtered features, if there are many, are in single precision
PREPROCESSING = ["raw", "tfidf", "centred", "standardise", "one-hot"]


def dense_filter(filter_, response, graph):
    """F by eigendecomposition of a Laplacian that loops over edges made."""
    n = graph.n_nodes
    A = graph.adjacency.toarray() + (np.eye(n) if filter_.self_loops else 0.0)
    degrees = A.sum(axis=1)
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if degrees[i] > 0 and degrees[j] > 0:
                L[i, j] = (i == j) - A[i, j] / np.sqrt(degrees[i] * degrees[j])
    values, vectors = np.linalg.eigh(L)
    F = vectors @ np.diag(response(values)) @ vectors.T
    if filter_.averaged:
        D = np.diag(graph.degrees)
        F = np.linalg.inv(np.eye(n) + D) @ (D + F)
    return F


def prepared(kind, seed=0, n=30):
    """A graph with its features, and what those stand for as a dense matrix."""
    sparse = kind in ("tfidf", "centred")
    graph = random_graph(n, 0.1, 7, seed, weighted=True, sparse=sparse)
    if kind == "one-hot":
        graph = Graph(graph.adjacency)
    settings = {"centred": ("l2", True), "one-hot": ("raw", False)}.get(kind, (kind, False))
    made = Domain(graph, Preprocessor.fit(graph.features, *settings, n))
    return made, dense(made.rows.take(np.arange(n)))


def by_route(monkeypatch, few):
    """Filtered rows by the route for a few of them, or by that for many."""
    monkeypatch.setattr(Domain, "indicators_are_cheaper", lambda *_: few)


# --- what a filter is -----------------------------------------------------------------------


def test_every_spectral_filter_is_here():
    tested = {type(filter_) for filter_, _ in RESPONSES.values()}
    assert tested == set(concrete(Spectral, "response"))


@pytest.mark.parametrize(("filter_", "response"), SPECTRAL)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("changes", [{}, {"self_loops": True}, {"averaged": True}], ids=str)
def test_dense_definition(filter_, response, weighted, changes):
    filter_ = from_dict(filter_.to_dict() | changes)
    graph = random_graph(25, 0.12, seed=3, weighted=weighted)
    assert (graph.degrees == 0).any()
    F = dense_filter(filter_, response, graph)
    nodes = np.array([4, 24, 0, 4, *range(25)])
    np.testing.assert_allclose(filter_.weights(graph, nodes).toarray(), F[nodes], atol=1e-10)


@pytest.mark.parametrize(("filter_", "response"), SPECTRAL)
def test_round_trip_through_json(filter_, response):
    again = from_dict(json.loads(json.dumps(filter_.to_dict())))
    assert again == filter_
    assert again.order == filter_.order
    doubled = {path: 2.0 * value for path, value in filter_.parameters().items()}
    assert filter_.with_parameters(doubled).parameters() == pytest.approx(doubled)


@pytest.mark.parametrize(("filter_", "response"), SPECTRAL)
def test_response(filter_, response):
    at = torch.linspace(0.0, 2.0, 17, dtype=torch.float64)
    np.testing.assert_allclose(filter_.response(at), response(at.numpy()), atol=1e-13)
    if not isinstance(filter_, Chebyshev):
        assert filter_.response(at)[0] == 1.0


@pytest.mark.parametrize(("filter_", "response"), SPECTRAL)
@pytest.mark.parametrize("averaged", [False, True])
def test_coefficients_are_differentiable(filter_, response, averaged):
    """Against finite differences, on the log scale on which they are learnt."""
    filter_ = from_dict(filter_.to_dict() | {"averaged": averaged})
    free = filter_.free_parameters()
    if not free:
        assert isinstance(filter_, Propagation | InverseCosine)
        return
    logs = torch.tensor(list(free.values()), dtype=torch.float64).log().requires_grad_()

    def coefficients(logs):
        return filter_.with_parameters(dict(zip(free, logs.exp(), strict=True))).coefficients()

    assert torch.autograd.gradcheck(coefficients, logs)
    assert len(coefficients(logs)) == filter_.order + 1 + averaged


def test_the_error_falls_as_the_order_grows():
    at = torch.linspace(0.0, 2.0, 1001, dtype=torch.float64)

    def error(order):
        filter_ = PageRank(0.1, order=order)
        terms = torch.cos(torch.arccos(at - 1.0)[:, None] * torch.arange(order + 1))
        return float((terms @ filter_.coefficients() - filter_.response(at)).abs().max())

    errors = [error(order) for order in (2, 5, 10, 20, 40)]
    assert all(after < before / 3 for before, after in pairwise(errors))
    assert errors[2] == pytest.approx(0.0072, abs=5e-5), "the docstring says so"
    assert errors[3] == pytest.approx(0.00007, abs=5e-6), "the docstring says so"


def test_teleport_stays_below_one_whatever_is_learnt():
    assert PageRank(0.1).parameters() == {"strength": pytest.approx(9.0)}
    assert PageRank().teleport == 0.1
    for strength in (1e-6, 0.3, 40.0):
        learnt = PageRank(0.1, order=3).with_parameters({"strength": strength})
        assert 0 < learnt.teleport < 1
        assert learnt.parameters()["strength"] == pytest.approx(strength, rel=1e-9)
        assert learnt.order == 3
    assert PageRank(0.1, fixed="strength").free_parameters() == {}
    with pytest.raises(ValueError, match="no hyper-parameter 'scale'"):
        PageRank().with_parameters({"scale": 1.0})


def test_pagerank_is_where_walks_stop():
    """On a regular graph, the sum of t (1 - t)^k P^k over all lengths k of a walk."""
    n, t = 9, 0.3
    ring = np.roll(np.eye(n), 1, axis=1)
    graph = Graph(ring + ring.T)
    P = (np.eye(n) + ring + ring.T) / 3
    F = sum(t * (1 - t) ** k * np.linalg.matrix_power(P, k) for k in range(150))
    found = PageRank(t, order=60).weights(graph, np.arange(n)).toarray()
    np.testing.assert_allclose(found, F, atol=1e-12)


def test_chebyshev_goes_through_its_values():
    values = (0.3, 1.2, 0.7, 0.1)
    at = 1.0 - torch.cos((torch.arange(4, dtype=torch.float64) + 0.5) * torch.pi / 4)
    np.testing.assert_allclose(Chebyshev(values).response(at), values, atol=1e-14)
    graph = random_graph()
    same = Chebyshev((2.0, 2.0, 2.0)).weights(graph, np.arange(12))
    np.testing.assert_allclose(same.toarray(), 2.0 * np.eye(12), atol=1e-14)


def test_chebyshev_values_may_be_fixed_one_by_one():
    filter_ = Chebyshev((ResponseValue(1.0, fixed="value"), 0.5))
    assert filter_.free_parameters() == {"values[1].value": 0.5}
    assert from_dict(json.loads(json.dumps(filter_.to_dict()))) == filter_
    assert filter_.with_parameters({"values[1].value": 0.7}).values[1].value == 0.7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PageRank(0.0), r"teleport must lie in \(0, 1\)"),
        (lambda: PageRank(1.5), r"teleport must lie in \(0, 1\)"),
        (lambda: PageRank("0.1"), "teleport must be a number"),
        (lambda: PageRank(order=2.5), "order must be a whole number"),
        (lambda: PageRank(on="nodes"), "on must be one of"),
        (lambda: Propagation(-1), "steps must be a whole number"),
        (lambda: RandomWalk(2, 0.0, fixed="shift"), "shift must be positive"),
        (lambda: MaternFilter(0.0), "smoothness must be a positive number"),
        (lambda: Chebyshev(()), "values must be one or more numbers"),
        (lambda: Chebyshev((1.0, -0.5)), "value must be positive"),
        (lambda: Diffusion(0.0), "time=0 cannot be learnt"),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


# --- filtered rows --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PREPROCESSING)
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("few", [False, True], ids=["by columns", "by indicators"])
@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
def test_filtered_rows(kind, averaged, few, single, monkeypatch):
    """F (X - centre), by either route, for all nodes and for some."""
    if single:
        monkeypatch.setattr(features, "_SMALL", 0)
    by_route(monkeypatch, few)
    monkeypatch.setattr(operators, "_FEWEST", 8)
    monkeypatch.setattr(operators, "_CACHED_BYTES", 0)  # several blocks
    filter_ = Diffusion(1.5, order=30, averaged=averaged)
    tolerance = SINGLE if single and kind != "one-hot" else 1e-11
    for nodes in (np.arange(30), np.array([29, 3, 3, 17]), np.zeros(0, dtype=np.intp)):
        where, X = prepared(kind)  # anew: rows that were asked for are kept
        expected = dense_filter(filter_, RESPONSES["diffusion"][1], where.graph) @ X
        source = FilteredRows(where, filter_.polynomial(), nodes)
        found = dense(source.take(np.arange(len(nodes))))
        np.testing.assert_allclose(found, expected[nodes], atol=tolerance)
        again = np.arange(len(nodes))[::-2]
        np.testing.assert_array_equal(dense(source.take(again)), found[again])
        assert source.is_sparse == (kind == "one-hot")
        lengths = (expected[nodes] ** 2).sum(axis=1)
        np.testing.assert_allclose(source.squared_norms(), lengths, atol=10 * tolerance)


@pytest.mark.parametrize("kind", PREPROCESSING)
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("n_others", [3, 9], ids=["few", "more than columns"])
@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
def test_inner_products_and_lengths_of_many_nodes(kind, averaged, n_others, single, monkeypatch):
    """<F x, F x'> and |F x|^2 without the rows themselves, for all nodes and for some."""
    if single:
        monkeypatch.setattr(features, "_SMALL", 0)
    monkeypatch.setattr(operators, "_FEWEST", 8)
    monkeypatch.setattr(operators, "_CACHED_BYTES", 0)  # several blocks
    where, X = prepared(kind, n=90)
    filter_ = Diffusion(1.5, order=30, averaged=averaged)
    filtered = dense_filter(filter_, RESPONSES["diffusion"][1], where.graph) @ X
    polynomial = filter_.polynomial()
    others = FilteredRows(where, polynomial, np.arange(40, 40 + n_others)).materialise()
    expected = filtered @ filtered[40 : 40 + n_others].T
    tolerance = 10 * SINGLE if single else 1e-11
    for nodes in (np.arange(90), np.arange(10, 85), np.random.default_rng(0).permutation(90)):
        source = FilteredRows(where, polynomial, nodes)
        assert not source.may_be_made
        inner = source.inner_with(others)
        np.testing.assert_allclose(inner(slice(5, 60)), expected[nodes][5:60], atol=tolerance)
        lengths = (filtered[nodes] ** 2).sum(axis=1)
        np.testing.assert_allclose(source.squared_norms(), lengths, atol=tolerance)


@pytest.mark.parametrize("kind", PREPROCESSING)
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("few", [False, True], ids=["by columns", "by indicators"])
@pytest.mark.parametrize("order", [1, 2, 6])  # the first two by gathering, if for a few rows
@pytest.mark.parametrize("settled", [None, 20])
def test_basis_and_coefficients_make_the_rows(kind, averaged, few, order, settled, monkeypatch):
    by_route(monkeypatch, few)
    where, X = prepared(kind)
    where.graph.n_fitted_nodes = settled
    filter_ = PageRank(0.3, order=order, averaged=averaged)
    nodes = np.array([5, 29, 5, 11])
    basis = torch.from_numpy(basis_at(where, filter_.polynomial(), nodes))
    assert basis.shape == (order + 1 + averaged, 4, X.shape[1])
    made = torch.einsum("k,knd->nd", filter_.coefficients(), basis)
    found = dense(where.filtered_rows(filter_.polynomial(), nodes))
    np.testing.assert_allclose(made, found, atol=1e-12)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, 7])
@pytest.mark.parametrize("settled", [None, 20])
@pytest.mark.parametrize("sparse", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("discount", [0.0, 0.5])
def test_sums_of_terms_are_the_terms_summed(
    averaged, order, settled, sparse, discount, monkeypatch
):
    """Clenshaw's recursion against the terms one by one, in rows and in columns; in rows with
    none, some and all of its levels sparse."""
    monkeypatch.setattr(propagation, "_SPARSE", sparse)
    monkeypatch.setattr(operators, "_FEWEST", 8)
    monkeypatch.setattr(operators, "_CACHED_BYTES", 0)  # several blocks
    graph = random_graph(30, 0.15, 5)
    graph.n_fitted_nodes = settled
    operator = operator_of(graph, True)
    rng = np.random.default_rng(0)
    coefficients = tuple(rng.normal(size=order + 1 + averaged).tolist())
    polynomial = FilterPolynomial(coefficients, True, averaged, discount)
    assert polynomial.order == order
    assert len(polynomial) == len(coefficients)
    columns, nodes = rng.normal(size=(30, 19)), np.array([3, 29, 3])
    before = columns.copy()

    def summed(terms):
        # Each term in the caller's hands while the next is made.
        return sum(c * t for c, t in zip(coefficients, list(terms), strict=True))

    made = summed(basis_columns(operator, polynomial, columns))
    np.testing.assert_allclose(propagate(operator, polynomial, columns), made, atol=1e-12)
    source, seen = propagation.ArrayColumns(columns), []
    for some, carried in propagate_blocks(operator, polynomial, source):
        np.testing.assert_allclose(carried, made[:, some], atol=1e-12)
        seen += range(19)[some]
    assert seen == list(range(19))
    single = propagate(operator, polynomial, columns.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, made, atol=1e-4)
    by_rows = summed(basis_rows(operator, polynomial, nodes))
    found = filter_rows_dense(operator, polynomial, nodes)
    np.testing.assert_allclose(found, by_rows, atol=1e-12)
    np.testing.assert_allclose(by_rows.T @ columns, made[nodes], atol=1e-12)
    all_sparse = filter_rows_short(operator, polynomial, nodes).toarray()
    np.testing.assert_allclose(all_sparse.T, by_rows, atol=1e-12)
    trimmed = filter_rows(operator, polynomial, nodes).toarray()
    np.testing.assert_allclose(trimmed.T, by_rows, atol=1e-11)
    single = filter_rows_dense(operator, polynomial, nodes, np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, by_rows, atol=1e-4)
    np.testing.assert_array_equal(columns, before)


def test_nothing_to_propagate():
    operator = operator_of(random_graph(30), False)
    polynomial = PageRank().polynomial()
    nobody = np.zeros(0, dtype=np.intp)
    assert propagate(operator, polynomial, np.zeros((30, 0))).shape == (30, 0)
    assert filter_rows(operator, polynomial, nobody).shape == (0, 30)
    assert filter_rows_dense(operator, polynomial, nobody).shape == (30, 0)
    assert filter_rows_short(operator, polynomial, nobody).shape == (0, 30)
    assert operator.products == 0


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("order", [1, 2, 6])
@pytest.mark.parametrize("settled", [None, 20])
@pytest.mark.parametrize("few", [False, True], ids=["by columns", "by indicators"])
def test_hubs_are_discounted_on_every_way(averaged, order, settled, few, monkeypatch):
    """F (I + D)^-p, whatever of it is asked for."""
    by_route(monkeypatch, few)
    where, X = prepared("centred")
    graph = where.graph
    graph.n_fitted_nodes = settled
    plain, discounted = (
        PageRank(0.3, order=order, averaged=averaged, hub_discount=p) for p in (0.0, 0.5)
    )
    everyone, nodes = np.arange(30), np.array([5, 29, 5, 11])
    expected = plain.weights(graph, everyone).toarray() / np.sqrt(1.0 + graph.degrees)
    np.testing.assert_allclose(
        discounted.weights(graph, nodes).toarray(), expected[nodes], atol=1e-9
    )
    polynomial, operator = discounted.polynomial(), operator_of(graph, discounted.self_loops)
    np.testing.assert_allclose(propagate(operator, polynomial, X), expected @ X, atol=1e-9)
    found = dense(FilteredRows(where, polynomial, nodes).materialise())
    np.testing.assert_allclose(found, (expected @ X)[nodes], atol=1e-9)
    basis = torch.from_numpy(basis_at(where, polynomial, nodes))
    made = torch.einsum("k,knd->nd", discounted.coefficients(), basis)
    np.testing.assert_allclose(made, (expected @ X)[nodes], atol=1e-9)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("order", [1, 2, 6])
@pytest.mark.parametrize("discount", [0.0, 0.5])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("few", [False, True], ids=["by columns", "by indicators"])
def test_the_leading_direction_is_taken_away_on_every_way(
    averaged, order, discount, loops, few, monkeypatch
):
    """F (I - v v^T) (I + D)^-p, whatever of it is asked for."""
    by_route(monkeypatch, few)
    where, X = prepared("centred")
    graph = where.graph
    settings = {"order": order, "averaged": averaged, "self_loops": loops}
    plain = PageRank(0.3, **settings)
    filter_ = PageRank(0.3, **settings, hub_discount=discount, centred=True)
    everyone, nodes = np.arange(30), np.array([5, 29, 5, 11])
    assert graph.degrees[29] == 0
    leading = np.sqrt(np.where(graph.degrees > 0, graph.degrees + loops, 0.0))
    leading /= np.linalg.norm(leading)
    centring = np.eye(30) - np.outer(leading, leading)
    discounts = (1.0 + graph.degrees) ** -discount
    expected = plain.weights(graph, everyone).toarray() @ centring * discounts
    np.testing.assert_allclose(filter_.weights(graph, nodes).toarray(), expected[nodes], atol=1e-9)
    polynomial, operator = filter_.polynomial(), operator_of(graph, filter_.self_loops)
    np.testing.assert_allclose(propagate(operator, polynomial, X), expected @ X, atol=1e-9)
    short = filter_rows_short(operator, polynomial, nodes).toarray()
    np.testing.assert_allclose(short, expected[nodes], atol=1e-9)
    columns = filter_rows_dense(operator, polynomial, nodes)
    np.testing.assert_allclose(columns, expected[nodes].T, atol=1e-9)
    found = dense(FilteredRows(where, polynomial, nodes).materialise())
    np.testing.assert_allclose(found, (expected @ X)[nodes], atol=1e-9)
    basis = torch.from_numpy(basis_at(where, polynomial, nodes))
    made = torch.einsum("k,knd->nd", filter_.coefficients(), basis)
    np.testing.assert_allclose(made, (expected @ X)[nodes], atol=1e-9)


def test_what_is_taken_away_is_the_eigenvector_at_one():
    """Of a graph in one piece: S v = v, so that nothing of v is left however far it spreads."""
    graph = Graph(np.ones((6, 6)) - np.eye(6))
    weighted = Graph(np.triu(np.random.default_rng(0).uniform(0.1, 2.0, (6, 6)), 1))
    for loops in (True, False):
        for each in (graph, weighted):
            plain = PageRank(0.2, self_loops=loops, order=40)
            weights = plain.weights(each, np.arange(6)).toarray()
            leading = np.sqrt(each.degrees + loops)
            np.testing.assert_allclose(weights @ leading, leading, rtol=1e-3)
            centred = PageRank(0.2, self_loops=loops, order=40, centred=True)
            left = centred.weights(each, np.arange(6)).toarray() @ leading
            np.testing.assert_allclose(left, 0.0, atol=1e-9)


def test_a_graph_without_edges_has_nothing_to_take_away():
    graph = Graph(sp.csr_array((4, 4)))
    for loops in (True, False):
        weights = [
            PageRank(0.2, self_loops=loops, centred=c).weights(graph, np.arange(4)).toarray()
            for c in (True, False)
        ]
        np.testing.assert_array_equal(*weights)


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "much"])
def test_a_discount_is_a_number_that_is_not_negative(value):
    with pytest.raises(ValueError, match="hub_discount must be a number of at least 0"):
        PageRank(0.1, hub_discount=value)


# --- what is kept, and what a question costs --------------------------------------------------


def test_few_rows_take_indicators_and_many_take_columns():
    """Whole graphs are filtered once, for every model with the same preprocessing."""
    graph = random_graph(200, 0.05, 60)
    operator = operator_of(graph, True)

    def ask(filter_, nodes, kind="raw", graph=graph):
        """Columns that the operator was multiplied with for these nodes' filtered rows."""
        before = operator.products
        where = Domain(graph, Preprocessor.fit(graph.features, kind))
        FilteredRows(where, filter_.polynomial(), nodes).materialise()
        return operator.products - before

    some, every = np.arange(3), np.arange(200)
    by_indicators, by_columns = 10 * 3, 10 * 60
    assert ask(PageRank(), some) == by_indicators
    assert ask(PageRank(), np.array([2, 0, 7])) == 10, "one of them is new"
    assert ask(PageRank(), every) == by_columns
    assert ask(PageRank(), every) == 0
    assert ask(PageRank(), some) == 0
    assert ask(PageRank(), every, "l2") == by_columns
    assert ask(PageRank(0.2), every) == by_columns
    assert ask(PageRank(order=2), some) == 2 * 3, "by gathering"
    kept = domain._caches[graph]
    kept.budget = kept.n_bytes
    assert ask(PageRank(0.3), every) == by_columns
    assert ask(PageRank(0.3), every) == 0, "the latest is kept"
    assert ask(PageRank(), every) == by_columns, "older ones made room"
    assert kept.n_bytes <= kept.budget
    kept.budget = 1
    for _ in range(2):
        assert ask(PageRank(0.4), some) == by_indicators, "nothing is kept beyond the budget"
    before = len(domain._caches)
    del graph, ask
    gc.collect()
    assert len(domain._caches) < before


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", [Linear(), Cosine()], ids=repr)
@pytest.mark.parametrize("sketch", [0, 128])
def test_what_a_question_costs(sparse, kernel, sketch):
    """As announced, the first time; one more label is one more column after that."""
    graph = random_graph(200, 0.05, 60, sparse=sparse)
    where = Domain(graph, Preprocessor.fit(graph.features, "l2"))
    filter_ = PageRank(0.1, fixed="strength")
    prior, operator = FilteredFeatures(kernel, filter_, None, sketch), operator_of(graph, True)
    everyone = prior.at(where, np.arange(200))

    def ask(n_labels):
        labelled = prior.to_learn(where, np.arange(n_labels))
        before = operator.products
        prior.var(everyone)
        whole(prior.cross(everyone, labelled))
        return operator.products - before

    assert ask(20) == prior.products(everyone, 20) == 10 * (20 + (sketch or 60))
    assert ask(20) == 0
    assert ask(21) == 10
    assert ask(19) == 0
    assert ask(20) == 10, "only the latest are kept"
    few = prior.at(where, np.arange(100, 103))
    assert prior.products(few, 20) == 10 * 3


def test_what_is_kept_cannot_be_changed_through_the_rows():
    where, _ = prepared("raw", n=90)
    polynomial = PageRank().polynomial()
    source = FilteredRows(where, polynomial, np.arange(30))
    first = source.take(np.arange(30)).values.clone()
    source.take(np.arange(30)).values.zero_()
    np.testing.assert_array_equal(source.take(np.arange(30)).values, first)
    other = FilteredRows(where, polynomial, np.arange(30))
    other.materialise().values.zero_()
    np.testing.assert_array_equal(source.take(np.arange(30)).values, first)
    for n_others in (3, 9):  # fewer than columns, and more
        prior = FilteredFeatures(Linear(), PageRank())
        everyone = prior.at(where, np.arange(90))
        others = prior.at(where, np.arange(n_others)).materialise()
        before = [whole(prior.cross(everyone, others)).clone(), prior.var(everyone).clone()]
        for block in (prior.cross(everyone, others).block(slice(0, 90)), prior.var(everyone)):
            block.zero_()
        again = [whole(prior.cross(everyone, others)), prior.var(everyone)]
        for was, now in zip(before, again, strict=True):
            np.testing.assert_array_equal(now, was)


def test_features_in_any_order_of_memory():
    expected = None
    for order in "CF":
        graph = random_graph(90, 0.05, 7)
        graph = Graph(graph.adjacency, np.array(graph.features, order=order))
        where = Domain(graph, Preprocessor.fit(graph.features, "standardise"))
        found = where.whole(PageRank().polynomial())
        expected = found if expected is None else expected
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_kernels_of_distances_take_the_same_filtered_features_as_others(monkeypatch):
    """There is one array of them, no more precise than features are; what is summed of its entries
    is in double precision, so that nodes which are alike are no less apart than they are."""
    monkeypatch.setattr(features, "_SMALL", 0)
    labels, everyone = np.arange(20), np.arange(90)
    graph = random_graph(90, 0.05, 8)
    graph = Graph(graph.adjacency, graph.features + 10.0)
    where = Domain(graph, Preprocessor.fit(graph.features))
    filter = PageRank(0.1, order=4)
    apart = FilteredFeatures(RBF(1.0, 0.01), filter)
    alike = FilteredFeatures(Cosine(), filter)
    covariances = []
    for prior in (alike, apart):
        at_labels = prior.to_learn(where, labels)
        covariances.append(whole(prior.cross(prior.at(where, everyone), at_labels)))
    assert where.precise().whole(filter.polynomial()) is where.whole(filter.polynomial())
    true = where.whole(filter.polynomial()).astype(np.float64)
    gaps = ((true[:, None] - true[None, labels]) ** 2).sum(2)
    np.testing.assert_allclose(covariances[1], np.exp(-gaps / (2 * 0.01**2)), atol=1e-9)
    assert where.whole(filter.polynomial()).dtype == np.float32


def test_wide_features_of_a_large_graph(monkeypatch):
    """What does not fit whole is answered for some nodes at a time, and all nodes' covariances
    with a few never need it."""
    where, _ = prepared("tfidf", n=90)
    polynomial = PageRank().polynomial()
    expected = dense(FilteredRows(where, polynomial, np.arange(90)).materialise())
    where, _ = prepared("tfidf", n=90)
    monkeypatch.setattr(budget, "answer", 100)
    half = FilteredRows(where, polynomial, np.arange(14)).materialise()
    np.testing.assert_allclose(dense(half), expected[:14], atol=1e-14)
    for n in (15, 90):
        with pytest.raises(ValueError, match="Use fewer labels"):
            FilteredRows(where, polynomial, np.arange(14, 14 + n) % 90).materialise()
    with pytest.raises(ValueError, match="Use fewer labels"):
        basis_at(where, polynomial, np.arange(14))
    prior = FilteredFeatures(Linear(), PageRank())
    found = whole(prior.cross(prior.at(where, np.arange(90)), prior.at(where, np.arange(14))))
    np.testing.assert_allclose(found, expected @ expected[:14].T, atol=1e-12)
    variances = prior.var(prior.at(where, np.arange(90)))
    np.testing.assert_allclose(variances, (expected**2).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("kind", ["one-hot", "raw"])
def test_points_start_from_a_sample_where_all_rows_would_be_too_many(kind, monkeypatch):
    where, X = prepared(kind)
    expected = PageRank().weights(where.graph, np.arange(30)).toarray() @ X
    prior, width = FilteredFeatures(RBF(), PageRank()), X.shape[1]
    for n_rows, nodes in ((30, np.arange(30)), (4, [0, 9, 19, 29]), (0, [0])):
        monkeypatch.setattr(budget, "sample", max(n_rows * width, 1))
        found = prior.inducing_candidates(where)
        np.testing.assert_array_equal(found.nodes, nodes)
        np.testing.assert_allclose(
            dense(found.take(np.arange(len(nodes)))), expected[nodes], atol=1e-14
        )


def test_on_the_function_points_start_from_the_features():
    where, X = prepared("raw")
    prior = make_prior(PageRank(on="function"), RBF(), where)
    found = prior.inducing_candidates(where)
    np.testing.assert_array_equal(dense(found.take(np.arange(30))), X)


def test_too_many_rows_of_the_filter(monkeypatch):
    monkeypatch.setattr(budget, "large", 50)
    graph = random_graph(30, 0.2)
    with pytest.raises(ValueError, match=r"on='features'"):
        PageRank().weights(graph, np.arange(30))


LARGE = """
import numpy as np
import scipy.sparse as sp
import torch

from memory import mebibytes
from nodegp.preprocessing import Preprocessor
from nodegp.filters import PageRank
from nodegp.graph import Graph
from nodegp.kernels import Linear
from nodegp.prior import Domain, FilteredFeatures
from nodegp.prior.basis import basis_at

n, d = 200_000, 32
rng = np.random.default_rng(0)
ends = rng.integers(n, size=(2, 3 * n))
adjacency = sp.coo_array((np.ones(3 * n), ends), shape=(n, n))
graph = Graph(adjacency, rng.standard_normal((n, d), dtype=np.float32))
where = Domain(graph, Preprocessor.fit(graph.features, "standardise"))
prior = FilteredFeatures(Linear(), PageRank(0.1, order=5))
before = mebibytes("VmHWM")
everyone, some = prior.at(where, np.arange(n)), np.array([n - 1, 0, 77])
several = some, np.arange(40)  # fewer than columns, and more
answers = []
for labelled in several:
    cross = prior.cross(everyone, prior.to_learn(where, labelled))
    answers.append((cross.block(slice(0, n))[some, 2].double(), prior.var(everyone)[some]))
peak = mebibytes("VmHWM")  # before the terms below are made, which take more
for labelled, (found, variances) in zip(several, answers):
    basis = torch.from_numpy(basis_at(where, prior.filter.polynomial(), np.r_[some, labelled[2]]))
    rows = torch.einsum("k,knd->nd", prior.filter.coefficients(), basis)
    np.testing.assert_allclose(found, rows[:3] @ rows[3], atol=1e-6)
    np.testing.assert_allclose(variances, (rows[:3] ** 2).sum(1), atol=1e-6)
print(peak - before)
"""


@without_proc
def test_a_large_graph_within_bounded_memory():
    # In a process of its own: what others took before would hide what this takes.
    # F X has 24 MiB, the operator 20; the rest is one block of columns and its terms.
    assert int(run_code(LARGE)) < 260  # MiB


@pytest.mark.parametrize("settled", [None, 20])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_one_column_is_carried_as_among_others(settled, transposed, kind):
    graph = random_graph(30, 0.15, 5)
    graph.n_fitted_nodes = settled
    operator = operator_of(graph, True)
    columns, others = torch.rand(2, 30, 3, dtype=kind)
    for subtract in (None, others):
        # Products may overwrite what they subtract.
        of_all = operator.matmul(
            columns, 2.0, None if subtract is None else others.clone(), transposed
        )
        alone = None if subtract is None else others[:, :1].clone()
        of_one = operator.matmul(columns[:, :1], 2.0, alone, transposed)
        assert of_one.dtype == kind
        assert of_one.numpy() == pytest.approx(of_all[:, :1].numpy(), rel=1e-5, abs=1e-6)
