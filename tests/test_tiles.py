"""Covariances over a graph: the loop of Eq. 12 and 16, in tiles and from caches alike."""

from __future__ import annotations

from functools import partial
from inspect import getclosurevars

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from conftest import KERNELS, TOLERANCE, dense, random_graph
from helpers import one_hop_prior, raw_domain
from nodegp.budget import budget
from nodegp.filters import Identity, NeighbourMean
from nodegp.graph import Graph
from nodegp.kernels import RBF, Linear, Matern, Polynomial
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain, FilteredFunction, WeightedRows
from nodegp.prior import tiles as module
from nodegp.prior.tiles import cached_covariance, cached_variance, covariance, variance
from nodegp.rows import Rows

FORMS = ["dense", "sparse", "centred"]
FILTERS = {"mean": NeighbourMean(), "identity": Identity()}


def setting(form, filter_name="mean", n=10, d=3, seed=0, weighted=True, nodes=None):
    """Sets of rows of a small graph, with its dense adjacency (none for identity) and features."""
    graph = random_graph(n, 0.3, d, seed, weighted, sparse=form != "dense")
    domain = Domain(graph, Preprocessor.fit(graph.features, "raw", center=form == "centred"))
    X = dense(domain.rows.take(np.arange(n)))
    A = graph.adjacency.toarray() if filter_name == "mean" else np.zeros((n, n))
    nodes = np.arange(n) if nodes is None else np.asarray(nodes)
    return FilteredFunction(RBF(), FILTERS[filter_name]).at(domain, nodes), A, X


def inducing(m=4, d=3, seed=9):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((m, d)))


def close(actual, expected, tolerance=1e-10):
    actual = actual.detach().numpy() if isinstance(actual, torch.Tensor) else actual
    expected = expected.detach().numpy() if isinstance(expected, torch.Tensor) else expected
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def leaves_of(kernel, factor=1.0):
    return {
        path: torch.tensor(factor * value, dtype=torch.float64, requires_grad=True)
        for path, value in kernel.parameters().items()
    }


def gradients(function, kernel, *others):
    """Gradient of a fixed mix of function(kernel) in each hyper-parameter and other tensors."""
    leaves = leaves_of(kernel)
    value = function(kernel.with_parameters(leaves))
    mixing = torch.randn(
        value.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    # A constant kernel does not depend on points at all: that is a gradient of zero.
    return torch.autograd.grad(
        (value * mixing).sum(), [*leaves.values(), *others], materialize_grads=True
    )


# --- the loops ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("filter_name", FILTERS)
@pytest.mark.parametrize("name", KERNELS)
def test_is_the_loop(name, filter_name, form):
    """Eq. 12 between nodes, its diagonal, and Eq. 16 with inducing points, on a weighted graph."""
    kernel, twin = KERNELS[name]
    sets, A, X = setting(form, filter_name)
    K = reference.prior_covariance(twin, A, X)
    close(covariance(kernel, sets, sets), K, TOLERANCE[name])
    close(variance(kernel, sets), K.diagonal(), TOLERANCE[name])
    Z = inducing()
    expected = reference.interdomain_covariance(twin, A, X, Z.numpy())
    close(covariance(kernel, sets, WeightedRows(None, Rows(Z))), expected, TOLERANCE[name])
    close(covariance(kernel, WeightedRows(None, Rows(Z)), sets), expected.T, TOLERANCE[name])
    close(
        covariance(kernel, WeightedRows(None, Rows(Z)), WeightedRows(None, Rows(Z))),
        reference.gram(twin, Z.numpy(), Z.numpy()),
        TOLERANCE[name],
    )


@pytest.mark.parametrize("name", ["polynomial-3", "rbf"])
def test_unweighted_graph_is_the_loop(name):
    kernel, twin = KERNELS[name]
    sets, A, X = setting("sparse", weighted=False)
    assert set(np.unique(A)) == {0.0, 1.0}
    close(covariance(kernel, sets, sets), reference.prior_covariance(twin, A, X))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KERNELS)
def test_weights_of_any_sign_and_sum(name, form):
    """Filters other than means: rows of F that do not sum to one, some empty."""
    kernel, twin = KERNELS[name]
    source, _, X = setting(form, "identity")
    W = np.random.default_rng(7).standard_normal((5, 10)) * (np.arange(10) % 3 > 0)
    W[2] = 0.0
    sets = WeightedRows(sp.csr_array(W), source.rows)
    expected = W @ reference.gram(twin, X, X) @ W.T
    # Weights of both signs cancel: compare on the scale of what is summed.
    scale = max((np.abs(W) @ np.abs(reference.gram(twin, X, X)) @ np.abs(W.T)).max(), 1.0)
    close(covariance(kernel, sets, sets) / scale, expected / scale, TOLERANCE[name])
    close(variance(kernel, sets) / scale, expected.diagonal() / scale, TOLERANCE[name])
    close(cached_covariance(kernel, sets, sets)(kernel) / scale, expected / scale, TOLERANCE[name])
    close(
        cached_variance(kernel, sets)(kernel) / scale, expected.diagonal() / scale, TOLERANCE[name]
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_mean_embeddings_of_polynomial_feature_maps(degree, form):
    """Eq. 13: the same covariance as inner products of averaged, explicit feature maps."""
    sets, A, X = setting(form)
    phi = partial(reference.polynomial_feature_map, degree=degree, variance=0.6, offset=1.7)
    embedded = np.array([reference.mean_embedding(phi, A, X, n) for n in range(len(A))])
    kernel = Polynomial(degree, 0.6, 1.7)
    close(covariance(kernel, sets, sets), embedded @ embedded.T)
    close(variance(kernel, sets), (embedded**2).sum(axis=1))
    Z = inducing()
    maps = np.array([phi(z) for z in Z.numpy()])
    close(covariance(kernel, sets, WeightedRows(None, Rows(Z))), embedded @ maps.T)


@pytest.mark.parametrize("name", ["linear", "polynomial-3", "rbf", "cosine", "matern-0.5"])
def test_all_features_zero(name):
    kernel, twin = KERNELS[name]
    graph = Graph(random_graph().adjacency, sp.csr_array((12, 3)))
    sets = one_hop_prior().at(raw_domain(graph), np.arange(12))
    expected = twin(np.zeros(3), np.zeros(3))
    close(covariance(kernel, sets, sets), np.full((12, 12), expected))
    close(variance(kernel, sets), np.full(12, expected))
    assert all(torch.isfinite(g) for g in gradients(lambda k: variance(k, sets), kernel))


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3), RBF()])
@pytest.mark.parametrize(("form", "filter_name"), [("dense", "identity"), ("centred", "mean")])
def test_no_sets_at_all(kernel, form, filter_name):
    """Asking about no nodes is an empty answer, not an error."""
    empty, _, _ = setting(form, filter_name, nodes=np.zeros(0, dtype=np.intp))
    some, _, _ = setting(form, filter_name)
    assert covariance(kernel, empty, empty).shape == (0, 0)
    assert covariance(kernel, empty, some).shape == (0, 10)
    assert covariance(kernel, some, empty).shape == (10, 0)
    assert variance(kernel, empty).shape == (0,)
    assert cached_covariance(kernel, empty, some)(kernel).shape == (0, 10)
    assert cached_variance(kernel, empty)(kernel).shape == (0,)


# --- invariances ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_variance_is_the_diagonal(name):
    kernel, _ = KERNELS[name]
    for form in FORMS:
        sets, _, _ = setting(form, n=30, seed=3)
        close(variance(kernel, sets), covariance(kernel, sets, sets).diagonal(), TOLERANCE[name])


@pytest.mark.parametrize("name", KERNELS)
def test_relabelled_nodes_give_relabelled_answers(name):
    kernel, _ = KERNELS[name]
    graph = random_graph(15, weighted=True, sparse=True)
    order = np.random.default_rng(1).permutation(15)
    shuffled = Graph(graph.adjacency[order][:, order], graph.features[order])
    results = []
    for g in (graph, shuffled):
        domain = Domain(g, Preprocessor.fit(g.features, "l2"))
        sets = one_hop_prior().at(domain, np.arange(15))
        results.append((covariance(kernel, sets, sets), variance(kernel, sets)))
    close(results[1][0], results[0][0][np.ix_(order, order)], TOLERANCE[name])
    close(results[1][1], results[0][1][order], TOLERANCE[name])


def test_some_nodes_in_any_order_are_part_of_the_whole():
    nodes = [7, 0, 7, 3]
    for name in ("rbf", "polynomial-3", "linear"):
        kernel, _ = KERNELS[name]
        whole, _, _ = setting("sparse")
        part, _, _ = setting("sparse", nodes=nodes)
        close(covariance(kernel, part, whole), covariance(kernel, whole, whole)[nodes])
        close(variance(kernel, part), variance(kernel, whole)[nodes])


@given(
    n=st.integers(1, 14),
    p=st.floats(0, 1),
    d=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    form=st.sampled_from(FORMS),
    name=st.sampled_from(sorted(KERNELS)),
)
def test_prior_is_positive_semi_definite(n, p, d, seed, weighted, form, name):
    kernel, _ = KERNELS[name]
    graph = random_graph(n, p, d, seed, weighted, sparse=form != "dense")
    fitted = Preprocessor.fit(graph.features, "raw", center=form == "centred")
    sets = one_hop_prior().at(Domain(graph, fitted), np.arange(n))
    K = covariance(kernel, sets, sets).numpy()
    np.testing.assert_allclose(K, K.T, rtol=1e-10, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() >= -1e-8 * max(np.abs(K).max(), 1.0)
    np.testing.assert_allclose(variance(kernel, sets).numpy(), K.diagonal(), rtol=1e-7, atol=1e-7)


# --- gradients ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name", ["linear", "polynomial-3", "rbf", "matern-1.5", "arc-cosine-1", "nested"]
)
def test_gradients_by_finite_differences(name, form):
    kernel, _ = KERNELS[name]
    sets, _, _ = setting(form, n=6)
    Z = inducing(2).requires_grad_()
    paths = list(kernel.parameters())
    leaves = leaves_of(kernel).values()

    def everything(points, *values):
        k = kernel.with_parameters(dict(zip(paths, values, strict=True)))
        u = WeightedRows(None, Rows(points))
        parts = [
            covariance(k, sets, sets),
            covariance(k, sets, u),
            covariance(k, u, sets),
            covariance(k, u, u),
            variance(k, sets),
            variance(k, u),
        ]
        return torch.cat([part.ravel() for part in parts])

    assert torch.autograd.gradcheck(everything, (Z, *leaves), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", KERNELS)
def test_points_that_lie_on_nodes_and_at_zero_have_finite_gradients(name):
    """k-means puts inducing points on single nodes, and zero rows make a zero centre."""
    kernel, _ = KERNELS[name]
    for form in FORMS:
        sets, _, X = setting(form)
        Z = torch.from_numpy(np.vstack([X[:3], X[:1], np.zeros((1, 3))])).requires_grad_()
        u = WeightedRows(None, Rows(Z))
        results = gradients(lambda k, sets=sets, u=u: covariance(k, sets, u), kernel, Z)
        results += gradients(lambda k, u=u: covariance(k, u, u), kernel, Z)
        assert all(torch.isfinite(g).all() for g in results)


# --- tiles ----------------------------------------------------------------------------------

TILED = ["linear", "polynomial-3", "rbf", "matern-1.5", "nested", "nested-polynomial"]


@pytest.mark.parametrize("tile", [1, 7, 40])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TILED)
def test_tiles_give_what_the_whole_gives(name, form, tile, monkeypatch):
    """Values and gradients, with tiles so small that every set counts as a hub."""
    kernel, _ = KERNELS[name]
    sets, _, _ = setting(form, n=14)
    some, _, _ = setting(form, n=14, nodes=[3, 1, 8])
    Z = inducing().requires_grad_()
    u = WeightedRows(None, Rows(Z))
    functions = [
        lambda k: covariance(k, sets, some),
        lambda k: covariance(k, sets, u),
        lambda k: covariance(k, u, sets),
        lambda k: variance(k, sets),
        lambda k: variance(k, sets.materialise()),
    ]
    needs_points = [False, True, True, False, False]

    def evaluate():
        found = []
        for function, with_points in zip(functions, needs_points, strict=True):
            found.append(function(kernel).detach())
            found += gradients(function, kernel, *([Z] if with_points else []))
        return found

    whole = evaluate()
    monkeypatch.setattr(budget, "tile", tile)
    for a, b in zip(evaluate(), whole, strict=True):
        close(a, b, 1e-11)


def star(leaves, seed=0):
    """A hub with this many neighbours; sparse features, some rows zero."""
    generator = np.random.default_rng(seed)
    n = leaves + 1
    hub, others = np.zeros(leaves, dtype=int), np.arange(1, n)
    adjacency = sp.coo_array((generator.uniform(0.5, 2, leaves), (hub, others)), shape=(n, n))
    X = sp.random_array((n, 30), density=0.1, rng=generator, format="csr")
    return Graph(adjacency, X)


@pytest.mark.parametrize("name", ["rbf", "polynomial-3", "matern-0.5"])
def test_a_hub_is_summed_in_small_tiles(name, monkeypatch):
    """3000 neighbours are nine million pairs; no tile may hold more than a few thousand."""
    kernel, _ = KERNELS[name]
    graph = star(3000)
    sets = one_hop_prior().at(raw_domain(graph), np.array([5, 0]))
    largest = 0
    original = type(kernel).__call__

    def watched(self, tile):
        nonlocal largest
        largest = max(largest, tile.inner.numel())
        return original(self, tile)

    X = graph.features.toarray()
    w = np.concatenate([[1.0], graph.adjacency[[0]].toarray()[0, 1:]])
    w /= w.sum()
    norms = torch.from_numpy((X * X).sum(axis=1))
    expected = 0.0
    for i in range(len(X)):
        row = module.Tile(torch.from_numpy(X[i] @ X.T), norms[i], norms)
        expected += w[i] * float(kernel(row).numpy() @ w)

    monkeypatch.setattr(type(kernel), "__call__", watched)
    monkeypatch.setattr(budget, "tile", 1 << 14)
    with torch.no_grad():
        result = variance(kernel, sets)
        cached = cached_variance(kernel, sets)(kernel)
        between = covariance(kernel, sets, sets)
    assert 0 < largest <= 2 << 14
    close(result[1], expected)
    close(cached, result)
    close(between.diagonal(), result)


def test_gradient_through_a_hub(monkeypatch):
    graph = star(200)
    sets = one_hop_prior().at(raw_domain(graph), np.arange(graph.n_nodes))
    whole = gradients(lambda k: variance(k, sets), RBF())
    monkeypatch.setattr(budget, "tile", 1 << 10)
    for a, b in zip(gradients(lambda k: variance(k, sets), RBF()), whole, strict=True):
        close(a, b)


def test_common_sizes_hold_what_they_must():
    sizes = np.arange(1, 5000)
    padded = module._common_sizes(sizes)
    assert (padded >= sizes).all()
    assert (padded - sizes <= padded / 3).all(), "more than a third is padding"
    assert len(np.unique(padded)) < 30


# --- caches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", [0, 1 << 24], ids=["stream", "keep"])
@pytest.mark.parametrize("tile", [16, 1 << 21], ids=["tiles", "whole"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*TILED, "constant", "cosine"])
def test_caches_give_what_the_functions_give(name, form, tile, cache, monkeypatch):
    """At hyper-parameters other than those they were made with, values and gradients."""
    kernel, _ = KERNELS[name]
    a, _, _ = setting(form, nodes=[4, 0, 9, 4, 2])
    b, _, _ = setting(form)
    u = WeightedRows(None, Rows(inducing()))
    asked = [
        kernel.with_parameters({p: f * v for p, v in kernel.parameters().items()})
        for f in (0.4, 1.0, 3.0)
    ]
    functions = [
        lambda k: covariance(k, a, b),
        lambda k: covariance(k, a, u),
        lambda k: covariance(k, u, b),
        lambda k: variance(k, b),
        lambda k: variance(k, u),
    ]
    expected = [[(f(k).detach(), gradients(f, k)) for k in asked] for f in functions]
    monkeypatch.setattr(budget, "tile", tile)
    monkeypatch.setattr(budget, "fit", cache)
    caches = [
        cached_covariance(kernel, a, b),
        cached_covariance(kernel, a, u),
        cached_covariance(kernel, u, b),
        cached_variance(kernel, b),
        cached_variance(kernel, u),
    ]
    polynomial = kernel.coefficients() is not None
    held = [set(getclosurevars(cached).nonlocals) for cached in caches]
    assert all(("powers" in names) == polynomial for names in held)
    is_kept = not polynomial and cache > 0
    assert all(bool(names & {"tile", "tiles"}) == is_kept for names in held)
    for cached, answers in zip(caches, expected, strict=True):
        for k, (value, slopes) in zip(asked, answers, strict=True):
            close(cached(k), value, 1e-11)
            for found, slope in zip(gradients(cached, k), slopes, strict=True):
                close(found, slope, 1e-9)


def test_caches_hold_rows_of_their_own_sets_only():
    """A fit on few labels of a large graph keeps little in memory."""
    n = 50_000
    ring = np.arange(n)
    links = sp.coo_array((np.ones(n), (ring, (ring + 1) % n)), shape=(n, n))
    graph = Graph(links, sp.eye_array(n, format="csr"))
    sets = one_hop_prior().at(raw_domain(graph), np.array([1, 2, 40_000]))
    for kernel in (RBF(), Matern(), Polynomial(3)):
        cache = cached_covariance(kernel, sets, sets)
        held = getclosurevars(cache).nonlocals.values()
        assert all(len(part.rows) == 7 for part in held if isinstance(part, WeightedRows))
        close(cache(kernel), covariance(kernel, sets, sets))
