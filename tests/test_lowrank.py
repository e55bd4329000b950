"""The low-rank form of filters on the function: its error, its gradients, and a model's life."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import nodegp
from helpers import hide, random_graph, raw_rows, rbf, smooth_classes
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.covariance import CovarianceCache, VarianceCache, covariance, standing, variance
from nodegp.features import Preprocessor
from nodegp.filters import (
    Bags,
    Diffusion,
    Hops,
    Identity,
    KnownBags,
    LowRankBags,
    PageRank,
    Propagation,
    RandomWalk,
    Relations,
)
from nodegp.inducing import Points
from nodegp.inference import Adam
from nodegp.kernels import RBF, Linear, Matern, Polynomial

N = 40
GRAPH = random_graph(N, seed=4)
TRUTH = smooth_classes(GRAPH)
Y = hide(TRUTH, np.arange(0, N, 2))
KERNELS = [RBF(1.3, 0.9), Polynomial(3, 0.5, 1.0), Matern(1.5, 1.0, 1.2), Linear(2.0)]
FILTERS = [
    PageRank(0.2, on="function", rank=12),
    Diffusion(1.5, on="function", rank=12, averaged=True),
    RandomWalk(3, on="function", rank=12),
]
NODES = np.array([7, 0, 31, 12, 25])


def low_rank(rank, teleport=0.2):
    return PageRank(teleport, on="function", rank=rank)


def dense_filter(filter):
    return filter.weights(GRAPH, np.arange(N)).toarray()


def dense_kernel(kernel, a, b):
    bags = [Bags.points(torch.from_numpy(x)) for x in (a, b)]
    return covariance(kernel, *bags).numpy()


def definition(filter, kernel):
    """F K_fu K_uu^-1 K_uf F^T, with u averages of f over the landmarks' rows."""
    landmarks = filter.landmarks
    V, Z, X = landmarks.weights.toarray(), landmarks.rows.values.numpy(), GRAPH.features
    F = dense_filter(filter)
    cross = F @ dense_kernel(kernel, X, Z) @ V.T
    return cross @ np.linalg.pinv(V @ dense_kernel(kernel, Z, Z) @ V.T, rcond=1e-9) @ cross.T


# --- what it is -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=repr)
@pytest.mark.parametrize("filter", FILTERS, ids=lambda f: type(f).__name__)
def test_covariance_against_the_dense_definition(filter, kernel):
    filter = filter.prepared(GRAPH, raw_rows(GRAPH))
    expected = definition(filter, kernel)
    few = filter.bags(GRAPH, raw_rows(GRAPH), NODES)
    everyone = filter.bags(GRAPH, raw_rows(GRAPH), np.arange(N))  # more than landmarks
    scale = {"abs": 1e-5 * expected.max()}
    for bags, nodes in ((few, NODES), (everyone, np.arange(N))):
        with torch.no_grad():
            found = covariance(kernel, bags, few).numpy()
            assert found == pytest.approx(expected[np.ix_(nodes, NODES)], **scale)
            assert variance(kernel, bags).numpy() == pytest.approx(
                np.diag(expected)[nodes], **scale
            )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_at_full_rank_nothing_is_left_out(kernel):
    F, X = dense_filter(low_rank(N)), GRAPH.features
    exact = F @ dense_kernel(kernel, X, X) @ F.T
    bags = low_rank(N).bags(GRAPH, raw_rows(GRAPH), np.arange(N))
    assert covariance(kernel, bags, bags).numpy() == pytest.approx(exact, abs=1e-6 * exact.max())


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=repr)
def test_the_error_falls_as_the_rank_grows(kernel):
    errors = []
    for rank in (3, 10, 20, 30, N):
        model = GraphGPClassifier(kernel.learn(), filter=low_rank(rank), features="raw")
        errors.append(model.fit(GRAPH, Y).low_rank_error())
    for column in zip(*errors, strict=True):
        assert all(earlier >= later - 1e-9 for earlier, later in pairwise(column))
        assert column[0] > 0.1
        assert column[-1] < 1e-6


def test_the_error_is_the_share_of_the_prior_left_out():
    settings = {"filter": low_rank(8), "features": "raw", "center": False}
    model = GraphGPClassifier(RBF(1.3, 0.9).learn(), **settings)
    found = model.fit(GRAPH, Y).low_rank_error(nodes=NODES)
    F, X = dense_filter(low_rank(8)), GRAPH.features
    exact = (F @ rbf(X, X, 1.3, 0.9) @ F.T)[np.ix_(NODES, NODES)]
    left_out = exact - definition(model.filter_, RBF(1.3, 0.9))[np.ix_(NODES, NODES)]
    assert found.variance == pytest.approx(np.trace(left_out) / np.trace(exact), abs=1e-5)
    gaps = [  # Var(h_m - h_n), over all pairs
        sum(C[m, m] + C[n, n] - 2 * C[m, n] for m in range(5) for n in range(5))
        for C in (left_out, exact)
    ]
    assert found.difference == pytest.approx(gaps[0] / gaps[1], abs=1e-5)
    with pytest.raises(ValueError, match="two nodes"):
        model.low_rank_error(nodes=[3])
    exact = GraphGPClassifier(filter=PageRank(0.2, on="function")).fit(GRAPH, Y)
    assert exact.low_rank_error() == (0.0, 0.0)


def test_points_beside_low_rank_nodes_are_of_one_function():
    """Cov(h, f(z)) under h = F E[f | u], whichever side comes first."""
    filter = low_rank(8).prepared(GRAPH, raw_rows(GRAPH))
    kernel, Z = RBF(1.3, 0.9), np.random.default_rng(0).normal(size=(4, 3))
    points = Bags.points(torch.from_numpy(Z))
    bags = filter.bags(GRAPH, raw_rows(GRAPH), NODES)
    V, L = filter.landmarks.weights.toarray(), filter.landmarks.rows.values.numpy()
    inverse = np.linalg.inv(V @ rbf(L, L, 1.3, 0.9) @ V.T)
    cross = dense_filter(filter)[NODES] @ rbf(GRAPH.features, L, 1.3, 0.9) @ V.T
    expected = cross @ inverse @ V @ rbf(L, Z, 1.3, 0.9)
    assert covariance(kernel, bags, points).numpy() == pytest.approx(expected, abs=1e-6)
    assert covariance(kernel, points, bags).numpy() == pytest.approx(expected.T, abs=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_against_finite_differences(kernel):
    bags = low_rank(8).bags(GRAPH, raw_rows(GRAPH), NODES)
    kernel = kernel.learn(*kernel.parameters())
    weight = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    caches = CovarianceCache(kernel, bags, bags), VarianceCache(kernel, bags)

    def value(log_values, kept):
        chosen = kernel.with_parameters(
            dict(zip(kernel.parameters(), log_values.exp(), strict=True))
        )
        if kept:
            return (weight * caches[0](chosen)).sum() + caches[1](chosen).sum()
        return (weight * covariance(chosen, bags, bags)).sum() + variance(chosen, bags).sum()

    start = torch.tensor([float(v) for v in kernel.parameters().values()]).double().log()
    start += 0.1  # not where the caches were made
    assert value(start, True).item() == pytest.approx(value(start, False).item(), rel=1e-6)
    for kept in (True, False):
        inputs = (start.clone().requires_grad_(), kept)
        assert torch.autograd.gradcheck(value, inputs, atol=1e-4, rtol=1e-3)


def test_what_stands_needs_no_graph():
    bags = low_rank(8).bags(GRAPH, raw_rows(GRAPH), NODES)
    known = standing(RBF(), bags)
    assert isinstance(bags, LowRankBags)
    assert isinstance(known, KnownBags)
    expected = covariance(RBF(), bags, bags).numpy()
    assert covariance(RBF(), known, known).numpy() == pytest.approx(expected)
    assert covariance(RBF(), bags.take(np.array([2, 0])), known.take(np.array([1]))).numpy() == (
        pytest.approx(expected[np.ix_([2, 0], [1])])
    )


# --- which landmarks ------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [True, False])
def test_landmarks_are_few_different_and_there_for_any_graph(features):
    graph = GRAPH if features else Graph(GRAPH.adjacency)
    fitted = Preprocessor.fit(graph.features, "raw", n_nodes=N)
    rows = fitted.rows_of(graph.features, N)
    for rank, expected in ((6, 6), (N, N), (1000, N)):
        landmarks = low_rank(rank).prepared(graph, rows).landmarks
        assert len(landmarks) == expected
        assert np.diff(landmarks.weights.indptr).max() <= 5
        assert len(np.unique(landmarks.weights.toarray(), axis=0)) == expected
    assert low_rank(6).prepared(graph, rows).landmarks.weights.nnz > 0


def test_equal_features_are_no_trouble():
    graph = Graph(GRAPH.adjacency, np.ones((N, 2)))
    bags = low_rank(10).bags(graph, raw_rows(graph), np.arange(N))
    assert torch.isfinite(covariance(RBF(), bags, bags)).all()


def test_rank_is_checked():
    with pytest.raises(ValueError, match="rank is for on='function'"):
        PageRank(0.2, rank=10)
    with pytest.raises(ValueError, match="rank must be a whole number"):
        PageRank(0.2, on="function", rank=0)


# --- in a model -----------------------------------------------------------------------------------


def model(filter, kernel=None, **settings):
    settings = {"likelihood": "softmax", "random_state": 0, **settings}
    return GraphGPClassifier(kernel or RBF(1.0, 1.0), filter=filter, **settings)


def test_a_fit_at_full_rank_is_the_exact_fit():
    exact = model(PageRank(0.2, on="function"), tol=1e-5).fit(GRAPH, Y)
    full = model(low_rank(N), tol=1e-5).fit(GRAPH, Y)
    assert full.elbo_ == pytest.approx(exact.elbo_, abs=1e-3)
    assert full.kernel_.lengthscale == pytest.approx(exact.kernel_.lengthscale, rel=0.05)
    assert full.kernel_.lengthscale != 1.0  # it was learnt
    assert full.predict_proba() == pytest.approx(exact.predict_proba(), abs=0.01)


HOPS = Hops((Identity(), low_rank(9), Propagation(1, on="function", rank=5)))


@pytest.mark.parametrize("filter", [low_rank(9), HOPS], ids=["one", "sum"])
@pytest.mark.parametrize("kernel", [RBF(1.0, 1.0), Polynomial(3, 1.0, 1.0)], ids=repr)
def test_everything_a_model_does(filter, kernel, tmp_path):
    fitted = model(filter, kernel).fit(GRAPH, Y)
    mean, var = fitted.predict_latent()
    assert fitted.predict_latent(nodes=[3, 30])[0] == pytest.approx(mean[[3, 30]], abs=1e-6)
    assert fitted.predict_latent(nodes=[3, 30])[1] == pytest.approx(var[[3, 30]], abs=1e-6)
    whole = fitted.predict_latent(nodes=[4, 7], cov=True)[1]
    variances = np.diagonal(whole, axis1=1, axis2=2).T
    assert variances == pytest.approx(var[[4, 7]], abs=1e-6)
    found = fitted.explain(3)
    assert found.from_labels.sum(0) + found.common + found.rest == pytest.approx(mean[3], abs=1e-6)
    assert found.from_neighbours.sum(0) == pytest.approx(mean[3], abs=1e-6)
    if filter is not HOPS:
        assert len(found.neighbours) > 5
    fitted.save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model")
    assert loaded.filter_ == fitted.filter_
    larger = random_graph(N + 6, seed=4)  # another graph: its own landmarks would be others
    assert loaded.predict_proba(larger) == pytest.approx(fitted.predict_proba(larger), abs=1e-9)
    assert loaded.low_rank_error() == pytest.approx(fitted.low_rank_error())
    updated = loaded.update([1, 3], TRUTH[[1, 3]])
    fresh = model(filter, kernel).fit(GRAPH, hide(TRUTH, np.union1d(np.arange(0, N, 2), [1, 3])))
    assert updated.elbo_ > fresh.elbo_ - 0.1  # of several optima it may find a better one


def test_new_nodes_far_away_change_nothing():
    """The landmarks are those of the fit, wherever a prediction is made."""
    fitted = model(low_rank(9)).fit(GRAPH, Y)
    apart = sp.block_array([[GRAPH.adjacency, None], [None, random_graph(7, seed=1).adjacency]])
    features = np.vstack([GRAPH.features, np.random.default_rng(0).normal(size=(7, 3))])
    found = fitted.predict_proba(Graph(apart, features))
    assert found[:N] == pytest.approx(fitted.predict_proba(), abs=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_points_adam_regression_and_kinds_of_edges(tmp_path):
    for settings in (
        {"inducing": Points(6)},
        {"inducing": Points(6, optimise=False)},
        {"engine": Adam(max_iter=40, tol=0)},
    ):
        fitted = model(low_rank(9), **settings).fit(GRAPH, Y)
        assert (fitted.predict() == TRUTH).mean() > 0.5
        fitted.save(tmp_path / "model")
        again = nodegp.load(tmp_path / "model").predict_proba(GRAPH)
        assert again == pytest.approx(fitted.predict_proba(), abs=1e-9)
    target = np.where(Y >= 0, GRAPH.features[:, 0], np.nan)
    assert np.isfinite(GraphGPRegressor(filter=low_rank(9)).fit(GRAPH, target).predict()).all()
    kinds = {"one": GRAPH.adjacency, "two": random_graph(N, seed=5).adjacency}
    related = Relations(PageRank(0.2, on="function", rank=9, fixed=("strength",)))
    graph = Graph(kinds, GRAPH.features)
    fitted = model(related).fit(graph, Y)
    fitted.save(tmp_path / "model")
    again = nodegp.load(tmp_path / "model").predict_proba(graph)
    assert again == pytest.approx(fitted.predict_proba(), abs=1e-9)


def test_sparse_centred_features():
    X = sp.random_array((N, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    graph = Graph(GRAPH.adjacency, X)
    sparse = model(low_rank(9), features="l2", center=True).fit(graph, Y)
    dense = model(low_rank(9), features="l2", center=True)
    dense.fit(Graph(GRAPH.adjacency, X.toarray()), Y)
    assert sparse.predict_proba() == pytest.approx(dense.predict_proba(), abs=1e-4)


def test_a_gpytorch_kernel_says_that_it_has_no_such_form():
    gpytorch = pytest.importorskip("gpytorch")
    from nodegp.gpytorch import GraphKernel

    kernel = GraphKernel(GRAPH, gpytorch.kernels.RBFKernel(), filter=low_rank(9))
    with pytest.raises(TypeError, match="of full rank"):
        kernel(torch.arange(3.0)[:, None]).to_dense()
