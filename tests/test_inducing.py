"""Inducing variables: what they are, how they are chosen, and the projection they give."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers import (
    FIXED_RBF,
    neighbourhood_mean,
    one_hop_prior,
    random_graph,
    raw_domain,
    rbf,
)
from nodegp.features import FeatureRows
from nodegp.inducing import MAX_LABELLED, Labelled, Points, choose, kmeans
from nodegp.kernels import Linear, Polynomial
from nodegp.preprocessing import Preprocessor

TEMPLATE = torch.zeros((), dtype=torch.float64)
FIXED = one_hop_prior(FIXED_RBF)


def prepared(inducing, prior=FIXED, graph=None, nodes=None):
    graph = random_graph() if graph is None else graph
    nodes = np.arange(0, graph.n_nodes, 2) if nodes is None else nodes
    return inducing.prepare(prior, raw_domain(graph), nodes, TEMPLATE, np.random.default_rng(0))


@pytest.mark.parametrize("inducing", [Labelled(), Points(6, optimise=False), Points(6)])
def test_projection_is_the_dense_formula(inducing):
    graph, nodes = random_graph(), np.arange(0, 24, 2)
    projector = prepared(inducing, graph=graph, nodes=nodes)
    points = projector.points
    found = projector(FIXED, points).whitened()
    F, X = neighbourhood_mean(graph)[nodes], graph.features
    K = rbf(X, X, FIXED_RBF.variance, FIXED_RBF.lengthscale)
    if isinstance(inducing, Labelled):
        Kuu, Kuh = F @ K @ F.T, F @ K @ F.T
    else:
        z = projector.inducing(FIXED, points).rows.values.numpy()
        Kuu = rbf(z, z, FIXED_RBF.variance, FIXED_RBF.lengthscale)
        Kuh = rbf(z, X, FIXED_RBF.variance, FIXED_RBF.lengthscale) @ F.T  # Eq. 16
    chol, W = found.chol.numpy(), found.W.numpy()
    np.testing.assert_allclose(chol @ chol.T, Kuu + found.jitter * np.eye(len(Kuu)), atol=1e-12)
    np.testing.assert_allclose(chol @ W, Kuh, atol=1e-7)
    np.testing.assert_allclose(found.prior_var, np.diag(F @ K @ F.T), atol=1e-7)


@pytest.mark.parametrize("inducing", [Labelled(), Points(6, optimise=False), Points(6)])
def test_a_batch_is_some_columns_of_the_whole(inducing):
    projector, batch = prepared(inducing), np.array([7, 0, 3])
    whole = projector(FIXED, projector.points).whitened()
    some = projector.minibatch(FIXED, projector.points, batch)
    torch.testing.assert_close(some.chol, whole.chol)
    torch.testing.assert_close(some.W, whole.W[:, batch], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(some.prior_var, whole.prior_var[batch], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kernel", [FIXED_RBF, Polynomial(3, 1.0, 2.0), Linear(2.0)])
def test_points_cached_where_they_started_are_points_given(kernel):
    prior = one_hop_prior(kernel)
    moving, still = prepared(Points(6), prior), prepared(Points(6, optimise=False), prior)
    assert still.points is None
    for a, b in zip(moving(prior, moving.points), still(prior, None), strict=True):
        torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), rtol=1e-7, atol=1e-7)


def test_auto_chooses_by_the_number_of_labels():
    assert choose("auto", MAX_LABELLED) == Labelled()
    assert choose("auto", MAX_LABELLED + 1) == Points()
    assert choose(Points(3), 5) == Points(3)
    assert choose("points", 5) == Points()
    assert choose("labelled", 10 * MAX_LABELLED) == Labelled()


@pytest.mark.parametrize("bad", ["nonsense", 3, None])
def test_unknown_choice_is_refused(bad):
    with pytest.raises(ValueError, match="inducing must be"):
        choose(bad, 5)


@pytest.mark.parametrize("n_points", [0, -2])
def test_points_needs_at_least_one(n_points):
    with pytest.raises(ValueError, match="n_points"):
        Points(n_points)


class TestKMeans:
    def rows(self, features):
        return FeatureRows.of(Preprocessor.fit(features, "raw"), features, len(features))

    def test_as_many_centres_as_rows_are_the_rows(self):
        features = np.random.default_rng(0).normal(size=(9, 3))
        centres = kmeans(self.rows(features), 9, np.random.default_rng(1)).numpy()
        np.testing.assert_allclose(centres, np.unique(features, axis=0), atol=1e-12)

    def test_no_more_centres_than_distinct_rows(self):
        features = np.repeat(np.eye(3), 5, axis=0)
        centres = kmeans(self.rows(features), 8, np.random.default_rng(1)).numpy()
        np.testing.assert_allclose(centres, np.unique(np.eye(3), axis=0), atol=1e-12)

    def test_more_points_than_rows(self):
        features = np.random.default_rng(0).normal(size=(4, 2))
        assert kmeans(self.rows(features), 10, np.random.default_rng(1)).shape == (4, 2)

    def test_same_seed_same_centres(self):
        features = np.random.default_rng(0).normal(size=(40, 3))
        first, second = (kmeans(self.rows(features), 5, np.random.default_rng(7)) for _ in range(2))
        assert torch.equal(first, second)
