"""What follows from q(v), against dense Gaussian algebra written out."""

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
from nodegp import GraphGPClassifier
from nodegp.budget import budget
from nodegp.filters import Propagation
from nodegp.kernels import Linear
from nodegp.linalg import cholesky
from nodegp.posterior import Marginals, Posterior, Sites, leave_one_out, sample_joint
from nodegp.prior import Inputs

GRAPH = random_graph(20)
LABELLED = np.arange(0, 20, 3)


def inputs(nodes=None) -> Inputs:
    return one_hop_prior().at(raw_domain(GRAPH), np.arange(20) if nodes is None else nodes)


def prior_covariance() -> np.ndarray:
    F, X = neighbourhood_mean(GRAPH), GRAPH.features
    return F @ rbf(X, X, FIXED_RBF.variance, FIXED_RBF.lengthscale) @ F.T


def whitened() -> tuple[Posterior, np.ndarray, np.ndarray]:
    """Any q will do: two latents with random moments of v, and those of u = L v."""
    rng = np.random.default_rng(3)
    M = len(LABELLED)
    L = cholesky(torch.from_numpy(prior_covariance()[np.ix_(LABELLED, LABELLED)]))[0]
    mean, root = rng.normal(size=(2, M)), 0.3 * rng.normal(size=(2, M, M))
    cov = root @ root.transpose(0, 2, 1)
    q = Posterior(
        one_hop_prior(),
        inputs(LABELLED).materialise(),
        L,
        torch.from_numpy(mean),
        torch.from_numpy(np.eye(M) - cov),
    )
    return q, mean @ L.numpy().T, L.numpy() @ cov @ L.numpy().T


def unwhitened() -> tuple[Posterior, np.ndarray, np.ndarray]:
    """The same q in terms of Kuu^-1 u: nothing to solve at prediction time."""
    q, mean, cov = whitened()
    inverse = np.linalg.inv((q.chol @ q.chol.mT).numpy())
    K = (q.chol @ q.chol.mT).numpy()
    return (
        Posterior(
            q.prior,
            q.inducing,
            None,
            torch.from_numpy(mean @ inverse),
            torch.from_numpy(inverse @ (K - cov) @ inverse),
        ),
        mean,
        cov,
    )


@pytest.fixture(params=[whitened, unwhitened])
def case(request):
    return request.param()


@pytest.fixture
def posterior(case) -> Posterior:
    return case[0]


def dense_joint(mean_u: np.ndarray, cov_u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """h | u is Gaussian; u is averaged out."""
    K = prior_covariance()
    project = K[:, LABELLED] @ np.linalg.inv(K[np.ix_(LABELLED, LABELLED)])
    left = K - project @ K[LABELLED]
    return (mean_u @ project.T).T, left + project @ cov_u @ project.T


def test_joint_is_the_dense_formula(case):
    posterior, *moments_of_u = case
    mean, cov = posterior.joint(inputs())
    expected_mean, expected_cov = dense_joint(*moments_of_u)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-7)
    np.testing.assert_allclose(cov, expected_cov, atol=1e-7)


def test_marginals_are_the_diagonal_of_the_joint(posterior):
    mean, cov = posterior.joint(inputs())
    marginals = posterior.marginals(inputs())
    torch.testing.assert_close(marginals.mean, mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(marginals.var, cov.diagonal(dim1=1, dim2=2).mT, rtol=1e-8, atol=1e-8)


def test_blocks_are_the_whole(posterior, monkeypatch):
    whole = posterior.marginals(inputs())
    monkeypatch.setattr(budget, "cached", 1)
    for a, b in zip(whole, posterior.marginals(inputs()), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_what_is_kept_for_the_next_question_suits_it():
    """All nodes are asked about in the space of weights, a few in that of labels."""
    graph, rng = random_graph(400, n_features=3, p=0.01), np.random.default_rng(0)
    y = np.where(np.arange(400) < 20, rng.integers(0, 2, 400), -1)
    model = GraphGPClassifier(kernel=Linear(), filter=Propagation(1), preprocessing="raw")
    fitted = model.fit(graph, y).model_
    domain, posterior = fitted.domain(), fitted.posterior
    for nodes in (np.arange(400), np.arange(5), np.arange(400), np.arange(100, 390)):
        inputs = fitted.prior.at(domain, nodes)
        mean, cov = posterior.joint(inputs)
        marginals = posterior.marginals(inputs)
        np.testing.assert_allclose(marginals.mean, mean, atol=1e-8)
        np.testing.assert_allclose(marginals.var, cov.diagonal(dim1=1, dim2=2).mT, atol=1e-8)


def test_samples_have_the_joint_mean_and_covariance(posterior):
    mean, cov = posterior.joint(inputs(np.arange(5)))
    n = 40_000
    draws = sample_joint(mean, cov, n, np.random.default_rng(0)).numpy()
    assert draws.shape == (n, 5, 2)
    variances = cov.diagonal(dim1=1, dim2=2).numpy()
    for latent in range(2):
        error = np.sqrt(variances[latent] / n)
        assert (np.abs(draws[..., latent].mean(0) - mean[:, latent].numpy()) < 5 * error).all()
        spread = np.sqrt(2 / n) * variances[latent].max()
        assert np.abs(np.cov(draws[..., latent].T) - cov[latent].numpy()).max() < 5 * spread


def test_samples_of_a_singular_covariance_are_equal_where_they_must_be():
    cov = torch.ones(1, 3, 3, dtype=torch.float64)
    draws = sample_joint(torch.zeros(3, 1).double(), cov, 10, np.random.default_rng(0))
    torch.testing.assert_close(draws[:, 0], draws[:, 2], rtol=0, atol=1e-7)
    assert draws.std() > 0.1


def divided(marginals, explained, sites):
    """Leave-one-out from the sites, with the differences taken as the formula has them."""
    lambda1, lambda2 = sites.lambda1.mT, sites.lambda2.mT
    kept, alpha = 1.0 - lambda2 * explained, lambda1 - lambda2 * marginals.mean
    return leave_one_out(marginals, explained, kept, alpha)


class TestLeaveOneOut:
    def test_dividing_a_factor_out_undoes_multiplying_it_in(self):
        # One node alone: prior N(0, k), a site on it. Without the site the prior is left.
        k, lambda1, lambda2 = 1.7, 2.0, 3.0
        s = 1 / (1 / k + lambda2)
        marginals = Marginals(torch.tensor([[s * lambda1]]), torch.tensor([[s]]))
        sites = Sites(torch.tensor([[lambda1]]), torch.tensor([[lambda2]]))
        without = divided(marginals, torch.tensor([[s]]), sites)
        assert float(without.mean) == pytest.approx(0.0, abs=1e-6)
        assert float(without.var) == pytest.approx(k, rel=1e-5)

    def test_a_site_of_nothing_changes_nothing(self):
        rng = np.random.default_rng(0)
        mean, var = torch.from_numpy(rng.normal(size=(4, 2))), torch.rand(4, 2).double() + 0.5
        none = Sites(torch.zeros(2, 4).double(), torch.zeros(2, 4).double())
        for a, b in zip(divided(Marginals(mean, var), 0.3 * var, none), (mean, var), strict=True):
            torch.testing.assert_close(a, b)

    def test_a_node_without_any_variance_stays_finite(self):
        zero = torch.zeros(1, 1).double()
        ones = Sites(zero + 1, zero + 1)
        without = divided(Marginals(zero, zero), zero, ones)
        assert float(without.mean) == 0.0
        assert 0 < float(without.var) < 1e-6
