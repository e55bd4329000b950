"""Spectral filters: each against its dense definition, and both routes to filtered rows."""

from __future__ import annotations

import gc
import json
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from conftest import concrete, dense, random_graph
from nodegp import features
from nodegp.component import from_dict
from nodegp.features import Preprocessor
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
    propagation,
    rows,
    spectral,
)
from nodegp.graph import Graph

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
    """A graph, its nodes' rows for a filter, and what those stand for as a dense matrix."""
    sparse = kind in ("tfidf", "centred")
    graph = random_graph(n, 0.1, 7, seed, weighted=True, sparse=sparse)
    if kind == "one-hot":
        graph = Graph(graph.adjacency)
    settings = {"centred": ("l2", True), "one-hot": ("raw", False)}.get(kind, (kind, False))
    lazy = Preprocessor.fit(graph.features, *settings, n).rows_of(graph.features, n)
    return graph, lazy, dense(lazy.take(np.arange(n)))


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
    monkeypatch.setattr(rows, "_indicators_are_cheaper", lambda *_: few)
    monkeypatch.setattr(propagation, "_COLUMNS", 8)  # several blocks
    graph, lazy, X = prepared(kind)
    filter_ = Diffusion(1.5, order=30, averaged=averaged)
    expected = dense_filter(filter_, RESPONSES["diffusion"][1], graph) @ X
    for nodes in (np.arange(30), np.array([29, 3, 3, 17]), np.zeros(0, dtype=np.intp)):
        source = filter_.bags(graph, lazy, nodes).rows
        found = dense(source.take(np.arange(len(nodes))))
        tolerance = SINGLE if single and kind != "one-hot" else 1e-11
        np.testing.assert_allclose(found, expected[nodes], atol=tolerance)
        again = np.arange(len(nodes))[::-2]
        np.testing.assert_array_equal(dense(source.take(again)), found[again])
        assert source.is_sparse == (kind == "one-hot")


@pytest.mark.parametrize("kind", PREPROCESSING)
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("few", [False, True], ids=["by columns", "by indicators"])
@pytest.mark.parametrize("order", [1, 2, 6])  # the first two by gathering, if for a few rows
@pytest.mark.parametrize("settled", [None, 20])
def test_basis_and_coefficients_make_the_rows(kind, averaged, few, order, settled, monkeypatch):
    monkeypatch.setattr(rows, "_indicators_are_cheaper", lambda *_: few)
    graph, lazy, _ = prepared(kind)
    graph.n_settled = settled
    filter_ = PageRank(0.3, order=order, averaged=averaged)
    nodes = np.array([5, 29, 5, 11])
    basis = filter_.basis(graph, lazy, nodes)
    assert basis.shape == (order + 1 + averaged, 4, lazy.raw.shape[1])
    made = torch.einsum("k,knd->nd", filter_.coefficients(), basis)
    found = dense(filter_.bags(graph, lazy, nodes).rows.take(np.arange(4)))
    np.testing.assert_allclose(made, found, atol=1e-12)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, 7])
@pytest.mark.parametrize("settled", [None, 20])
@pytest.mark.parametrize("sparse", [0.0, 0.2, 1.0])
def test_sums_of_terms_are_the_terms_summed(averaged, order, settled, sparse, monkeypatch):
    """Clenshaw's recursion against the terms one by one, in rows and in columns; in rows with
    none, some and all of its levels sparse."""
    monkeypatch.setattr(propagation, "_SPARSE", sparse)
    graph = random_graph(30, 0.15, 5)
    graph.n_settled = settled
    terms = propagation.Terms(order, True, averaged)
    rng = np.random.default_rng(0)
    coefficients = rng.normal(size=len(terms))
    columns, nodes = rng.normal(size=(30, 4)), np.array([3, 29, 3])
    made = sum(c * t for c, t in zip(coefficients, terms.of_columns(graph, columns), strict=True))
    found = terms.sum_of_columns(graph, coefficients, columns)
    np.testing.assert_allclose(found, made, atol=1e-12)
    by_rows = sum(c * t for c, t in zip(coefficients, terms.of_rows(graph, nodes), strict=True))
    np.testing.assert_allclose(terms.sum_of_rows(graph, coefficients, nodes), by_rows, atol=1e-12)
    all_sparse = terms.sparse_rows(graph, coefficients, nodes).toarray()
    np.testing.assert_allclose(all_sparse.T, by_rows, atol=1e-12)
    single = terms.sum_of_rows(graph, coefficients, nodes, np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, by_rows, atol=1e-4)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("order", [1, 2, 6])
@pytest.mark.parametrize("settled", [None, 20])
@pytest.mark.parametrize("few", [False, True], ids=["by columns", "by indicators"])
def test_hubs_are_discounted_on_every_way(averaged, order, settled, few, monkeypatch):
    """F (I + D)^-p, whatever of it is asked for."""
    monkeypatch.setattr(rows, "_indicators_are_cheaper", lambda *_: few)
    graph, lazy, X = prepared("centred")
    graph.n_settled = settled
    plain, discounted = (
        PageRank(0.3, order=order, averaged=averaged, hub_discount=p) for p in (0.0, 0.5)
    )
    everyone, nodes = np.arange(30), np.array([5, 29, 5, 11])
    expected = plain.weights(graph, everyone).toarray() / np.sqrt(1.0 + graph.degrees)
    np.testing.assert_allclose(
        discounted.weights(graph, nodes).toarray(), expected[nodes], atol=1e-9
    )
    np.testing.assert_allclose(discounted.columns(graph, X), expected @ X, atol=1e-9)
    found = dense(discounted.bags(graph, lazy, nodes).rows.take(np.arange(4)))
    np.testing.assert_allclose(found, (expected @ X)[nodes], atol=1e-9)
    made = torch.einsum(
        "k,knd->nd", discounted.coefficients(), discounted.basis(graph, lazy, nodes)
    )
    np.testing.assert_allclose(made, (expected @ X)[nodes], atol=1e-9)


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "much"])
def test_a_discount_is_a_number_that_is_not_negative(value):
    with pytest.raises(ValueError, match="hub_discount must be a number of at least 0"):
        PageRank(0.1, hub_discount=value)


def test_few_rows_take_indicators_and_many_take_columns(monkeypatch):
    """Whole graphs are filtered once, for every model with the same preprocessing."""
    taken = []
    for name in ("_from_indicators", "_from_columns"):
        route = getattr(rows, name)
        monkeypatch.setattr(
            rows, name, lambda *a, name=name, route=route: taken.append(name) or route(*a)
        )
    graph = random_graph(200, 0.05, 60)

    def ask(filter_, nodes, kind="raw", graph=graph):
        taken.clear()
        lazy = Preprocessor.fit(graph.features, kind).rows_of(graph.features, 200)
        filter_.bags(graph, lazy, nodes).in_memory()
        return list(taken)

    assert ask(PageRank(), np.arange(3)) == ["_from_indicators"]
    assert ask(PageRank(), np.arange(200)) == ["_from_columns"]
    assert ask(PageRank(), np.arange(200)) == []
    assert ask(PageRank(), np.arange(3)) == []
    assert ask(PageRank(), np.arange(200), "l2") == ["_from_columns"]
    assert ask(PageRank(0.2), np.arange(200)) == ["_from_columns"]
    monkeypatch.setattr(rows, "_KEPT", 1)
    assert ask(PageRank(0.3), np.arange(200)) == ["_from_columns"]
    assert ask(PageRank(0.3), np.arange(200)) == [], "the latest is always kept"
    assert ask(PageRank(), np.arange(200)) == ["_from_columns"], "older ones made room"
    assert graph in rows._Cache._kept
    before = len(rows._Cache._kept)
    del graph, ask
    gc.collect()
    assert len(rows._Cache._kept) < before


def test_what_is_kept_cannot_be_changed_through_the_rows():
    graph, lazy, _ = prepared("raw")
    source = PageRank().bags(graph, lazy, np.arange(30)).rows
    first = source.take(np.arange(30)).values.clone()
    source.take(np.arange(30)).values.zero_()
    np.testing.assert_array_equal(source.take(np.arange(30)).values, first)


def test_wide_features_of_a_large_graph(monkeypatch):
    """What does not fit whole is answered for some nodes at a time."""
    graph, lazy, _ = prepared("tfidf")
    expected = dense(PageRank().bags(graph, lazy, np.arange(30)).in_memory().rows)
    graph, lazy, _ = prepared("tfidf")
    monkeypatch.setattr(rows, "LARGEST", 100)
    half = PageRank().bags(graph, lazy, np.arange(14)).in_memory().rows
    np.testing.assert_allclose(dense(half), expected[:14], atol=1e-14)
    with pytest.raises(ValueError, match="Ask about fewer nodes at a time"):
        PageRank().bags(graph, lazy, np.arange(30)).in_memory()
    with pytest.raises(ValueError, match="Ask about fewer nodes at a time"):
        PageRank().basis(graph, lazy, np.arange(14))


def test_points_start_from_a_sample_where_all_rows_would_be_a_square(monkeypatch):
    graph, lazy, _ = prepared("one-hot")
    F = PageRank().weights(graph, np.arange(30)).toarray()
    for entries, nodes in ((900, np.arange(30)), (120, [0, 9, 19, 29]), (1, [0])):
        monkeypatch.setattr(spectral, "_SAMPLE", entries)
        found = PageRank().inputs(graph, lazy)
        np.testing.assert_array_equal(found.index, nodes)
        np.testing.assert_allclose(dense(found.take(np.arange(len(nodes)))), F[nodes], atol=1e-14)


def test_too_many_rows_of_the_filter(monkeypatch):
    monkeypatch.setattr(propagation, "_ENTRIES", 50)
    graph = random_graph(30, 0.2)
    with pytest.raises(ValueError, match=r"on='features'"):
        PageRank().weights(graph, np.arange(30))


def test_a_large_graph_within_bounded_memory():
    n, d = 200_000, 32
    rng = np.random.default_rng(0)
    ends = rng.integers(n, size=(2, 3 * n))
    adjacency = sp.coo_array((np.ones(3 * n), ends), shape=(n, n))
    graph = Graph(adjacency, rng.standard_normal((n, d), dtype=np.float32))
    lazy = Preprocessor.fit(graph.features, "standardise").rows_of(graph.features, n)
    tracemalloc.start()
    source = PageRank(0.1, order=5).bags(graph, lazy, np.arange(n)).rows
    some = source.take(np.array([n - 1, 0, 77]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The answer has 49 MiB, the operator 20; the rest is one block of columns and its terms.
    assert peak < 400 * 2**20
    alone = PageRank(0.1, order=5).basis(graph, lazy, np.array([n - 1, 0, 77]))
    made = torch.einsum("k,knd->nd", PageRank(0.1, order=5).coefficients(), alone)
    np.testing.assert_allclose(some.values, made, atol=1e-6)
