"""Both engines against exact answers, against each other, and against finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel

from helpers import (
    FIXED_LIKELIHOODS,
    FIXED_RBF,
    neighbourhood_mean,
    quiet,
    random_graph,
    rbf,
    smooth_classes,
    smooth_scores,
    toy_problem,
)
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.inducing import Labelled, Points
from nodegp.inference import Dual
from nodegp.inference.dual import _Search
from nodegp.inference.moments import gradients
from nodegp.inference.sites import Labels, evaluate, solve, start_sites
from nodegp.kernels import RBF, Polynomial
from nodegp.likelihoods import Gaussian, RobustMax
from nodegp.posterior import Sites
from nodegp_paper.inference import Adam

NOISE = 0.2
STILL_POINTS = Points(8, optimise=False)
INDUCING = {"labelled": Labelled(), "points": STILL_POINTS}
FAST_ADAM = Adam(learning_rate=0.03, max_iter=3000, check_every=50, tol=1e-7)
# Robust-max asks for no negative site precision here: where it does they are cut off, and
# what the cut-off fixed point is, is not a maximum.
SMOOTH_SEED = 6
TIGHT = Dual(tol=1e-8, max_steps=2000)

each_likelihood = pytest.mark.parametrize("name", list(FIXED_LIKELIHOODS))
each_inducing = pytest.mark.parametrize("inducing", list(INDUCING))


# --- Gaussian likelihood: exact Gaussian process regression -----------------------------------


def regression(n_labels: int = 14):
    """A graph with targets of mean 0 and variance 1 (so standard units are their own)."""
    graph = random_graph(30, seed=4)
    nodes = np.random.default_rng(4).choice(30, n_labels, replace=False)
    y = np.full(30, np.nan)
    noise = np.random.default_rng(5).normal(size=n_labels)
    y[nodes] = smooth_scores(graph, 1, seed=4)[nodes, 0] + 0.3 * noise
    y = (y - np.nanmean(y)) / np.nanstd(y)
    return graph, np.sort(nodes), y


def exact(graph, nodes, y, variance, lengthscale, noise):
    """Posterior mean and covariance over all nodes, and the log marginal likelihood."""
    F, X = neighbourhood_mean(graph), graph.features
    K = F @ rbf(X, X, variance, lengthscale) @ F.T
    S = K[np.ix_(nodes, nodes)] + noise * np.eye(len(nodes))
    weights = np.linalg.solve(S, K[nodes])
    t = y[nodes]
    evidence = -0.5 * (
        t @ np.linalg.solve(S, t) + np.linalg.slogdet(S)[1] + len(t) * np.log(2 * np.pi)
    )
    return weights.T @ t, K - K[:, nodes] @ weights, evidence


def test_gaussian_likelihood_is_exact_regression():
    graph, nodes, y = regression()
    model = GraphGPRegressor(
        kernel=FIXED_RBF,
        filter="mean",
        likelihood=Gaussian(NOISE, fixed="noise"),
        preprocessing="raw",
    )
    model.fit(graph, y)
    mean, cov, evidence = exact(graph, nodes, y, 1.5, 1.2, NOISE)
    found_mean, found_cov = model.predict_latent(cov=True)
    np.testing.assert_allclose(found_mean[:, 0], mean, atol=1e-7)
    np.testing.assert_allclose(found_cov[0], cov, atol=1e-7)
    np.testing.assert_allclose(model.predict_latent()[1][:, 0], np.diag(cov), atol=1e-7)
    assert model.elbo_ == pytest.approx(evidence, rel=1e-6)
    predicted, std = model.predict(return_std=True)
    np.testing.assert_allclose(predicted, mean, atol=1e-7)
    np.testing.assert_allclose(std, np.sqrt(np.diag(cov) + NOISE), atol=1e-7)


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_learnt_hyperparameters_maximise_the_exact_evidence(seed):
    graph = random_graph(30, seed=seed)
    nodes = np.sort(np.random.default_rng(4).choice(30, 20, replace=False))
    noise = 0.1 * np.random.default_rng(5).normal(size=20)
    y = np.full(30, np.nan)
    y[nodes] = np.sin(2 * smooth_scores(graph, 1, seed)[nodes, 0]) + noise
    y = (y - np.nanmean(y)) / np.nanstd(y)
    model = GraphGPRegressor(kernel=RBF(), filter="mean", preprocessing="raw").fit(graph, y)
    assert model.converged_
    found = np.log([model.kernel_.variance, model.kernel_.lengthscale, model.likelihood_.noise])

    def loss(log_values):
        return -exact(graph, nodes, y, *np.exp(log_values))[2]

    assert model.elbo_ == pytest.approx(-loss(found), rel=1e-6)
    # The sites are within `tol` of those of the last hyper-parameters.
    mean, cov, _ = exact(graph, nodes, y, *np.exp(found))
    np.testing.assert_allclose(model.predict_latent()[0][:, 0], mean, atol=2e-3)
    np.testing.assert_allclose(model.predict_latent()[1][:, 0], np.diag(cov), atol=2e-3)
    polished = minimize(loss, found, method="L-BFGS-B", bounds=[(np.log(1e-6), np.log(1e6))] * 3)
    # The search stops where it expects to gain less than a thousandth more.
    assert loss(found) - polished.fun < 0.01


@pytest.mark.parametrize("how", ["no edges", "identity filter"])
def test_without_the_graph_it_is_an_ordinary_gaussian_process(how):
    graph, nodes, y = regression()
    if how == "no edges":
        graph = Graph(np.zeros((30, 30)), graph.features)
    model = GraphGPRegressor(
        kernel=FIXED_RBF,
        filter="identity" if how == "identity filter" else "mean",
        likelihood=Gaussian(NOISE, fixed="noise"),
        preprocessing="raw",
    ).fit(graph, y)
    ordinary = GaussianProcessRegressor(
        ConstantKernel(1.5) * SklearnRBF(1.2), alpha=NOISE, optimizer=None
    ).fit(graph.features[nodes], y[nodes])
    mean, std = ordinary.predict(graph.features, return_std=True)
    found, variance = model.predict_latent()
    np.testing.assert_allclose(found[:, 0], mean, atol=1e-6)
    np.testing.assert_allclose(variance[:, 0], std**2, atol=1e-6)
    assert model.elbo_ == pytest.approx(ordinary.log_marginal_likelihood_value_, rel=1e-6)


def test_unsure_targets_have_more_noise():
    graph, nodes, y = regression()
    confidence = np.random.default_rng(0).uniform(0.2, 1.0, 30)
    model = GraphGPRegressor(
        kernel=FIXED_RBF,
        filter="mean",
        likelihood=Gaussian(NOISE, fixed="noise"),
        preprocessing="raw",
    )
    model.fit(graph, y, label_confidence=confidence)
    noise = NOISE / confidence[nodes]
    mean, cov, evidence = exact(graph, nodes, y, 1.5, 1.2, noise)
    np.testing.assert_allclose(model.predict_latent()[0][:, 0], mean, atol=1e-7)
    np.testing.assert_allclose(model.predict_latent()[1][:, 0], np.diag(cov), atol=1e-7)
    assert model.elbo_ == pytest.approx(evidence, rel=1e-6)


# --- labelled nodes and points agree where they must ------------------------------------------


@each_likelihood
def test_points_at_every_node_lose_nothing(name):
    # With a point at the features of every node, u holds all that any h is made of.
    graph = random_graph(14, seed=1)
    common = {"graph": graph, "n_labels": 9, "seed": 1}
    labelled, points = (
        TIGHT.fit(toy_problem(FIXED_LIKELIHOODS[name], inducing, **common), quiet)
        for inducing in (Labelled(), Points(14, optimise=False))
    )
    assert points.elbo == pytest.approx(labelled.elbo, rel=1e-5)
    for a, b in zip(labelled.label_marginals, points.label_marginals, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_points_at_isolated_labelled_nodes_are_the_labelled_nodes():
    graph = Graph(np.zeros((12, 12)), random_graph(12).features)
    y = smooth_classes(graph)
    fits = [
        GraphGPClassifier(
            kernel=FIXED_RBF, preprocessing="raw", inducing=i, engine=TIGHT, random_state=0
        ).fit(graph, y)
        for i in (Labelled(), Points(12, optimise=False))
    ]
    np.testing.assert_allclose(fits[0].predict_proba(), fits[1].predict_proba(), atol=1e-5)
    assert fits[0].elbo_ == pytest.approx(fits[1].elbo_, rel=1e-6)


@each_likelihood
def test_no_points_beat_the_labelled_nodes(name):
    best = TIGHT.fit(toy_problem(FIXED_LIKELIHOODS[name]), quiet).elbo
    for n_points in (2, 8):
        problem = toy_problem(FIXED_LIKELIHOODS[name], Points(n_points, optimise=False))
        assert TIGHT.fit(problem, quiet).elbo < best + 1e-5 * abs(best)


def test_moving_the_points_raises_the_bound():
    still = TIGHT.fit(toy_problem(RobustMax(), Points(4, optimise=False)), quiet).elbo
    moved = TIGHT.fit(toy_problem(RobustMax(), Points(4)), quiet).elbo
    assert moved > still + 0.01


# --- two engines, one posterior ---------------------------------------------------------------


@each_likelihood
@each_inducing
def test_engines_agree(name, inducing):
    dual, adam = (
        engine.fit(
            toy_problem(FIXED_LIKELIHOODS[name], INDUCING[inducing], seed=SMOOTH_SEED), quiet
        )
        for engine in (TIGHT, FAST_ADAM)
    )
    assert dual.converged
    assert adam.converged
    # Robust-max has several optima; the others one.
    tolerance = 3e-3 if name == "robustmax" else 1e-4
    assert adam.elbo == pytest.approx(dual.elbo, rel=tolerance)
    if name != "robustmax":
        for a, b in zip(adam.label_marginals, dual.label_marginals, strict=True):
            torch.testing.assert_close(a, b, rtol=0.02, atol=0.02)


@each_likelihood
@pytest.mark.parametrize("engine", [Dual(), replace(FAST_ADAM, max_iter=100)], ids=["dual", "adam"])
def test_reported_elbo_is_that_of_the_reported_posterior(name, engine):
    """Eq. 5 from the posterior alone: dense KL between q(h) and p(h) at the labelled nodes."""
    problem = toy_problem(FIXED_LIKELIHOODS[name], confidence=0.9)
    fit = engine.fit(problem, quiet)
    labelled = problem.projector.inducing(problem.prior, None)
    marginals, (mean, cov) = fit.posterior.marginals(labelled), fit.posterior.joint(labelled)
    value = problem.likelihood.expected_log_prob(problem.y, *marginals, problem.confidence).sum()
    prior = torch.distributions.MultivariateNormal(
        torch.zeros(len(labelled)).double(), problem.prior.cov(labelled, labelled)
    )
    kl = sum(
        torch.distributions.kl_divergence(torch.distributions.MultivariateNormal(m, C), prior)
        for m, C in zip(mean.mT, cov, strict=True)
    )
    assert fit.elbo == pytest.approx(float(value - kl), rel=1e-6)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), n_labels=st.integers(1, 10), spread=st.floats(0.1, 30.0))
@each_likelihood
def test_elbo_never_falls(name, seed, n_labels, spread):
    graph = random_graph(12, 2, seed, p=0.2)
    problem = toy_problem(
        FIXED_LIKELIHOODS[name],
        kernel=RBF(spread, 1.0).learn(),
        graph=graph,
        n_labels=n_labels,
        seed=seed,
    )
    projection = problem.projector(problem.prior, None)
    labels = Labels(problem.y, problem.confidence)
    start = start_sites(projection, problem.likelihood, labels, problem.n_latents)
    found = solve(projection, problem.likelihood, labels, start, 1e-6, 300)
    assert (np.diff(found.trace) >= 0).all()
    assert np.isfinite(found.trace).all()
    assert found.state.elbo == found.trace[-1]


@each_likelihood
def test_elbo_trace_of_a_whole_fit_never_falls(name):
    kernel = RBF(0.5, 3.0)
    fit = Dual().fit(toy_problem(FIXED_LIKELIHOODS[name], Points(5), kernel=kernel), quiet)
    assert len(fit.elbo_trace) > 2
    assert (np.diff(fit.elbo_trace) >= 0).all()
    assert fit.elbo == fit.elbo_trace[-1]


@each_inducing
@pytest.mark.parametrize("confidence", [1.0, 0.95])
def test_robust_max_converges_with_the_default_settings(inducing, confidence):
    problems = (
        toy_problem(RobustMax(), INDUCING[inducing], seed=seed, confidence=confidence)
        for seed in range(20)
    )
    assert all(Dual().fit(problem, quiet).converged for problem in problems)


@each_likelihood
def test_converged_sites_match_the_likelihood(name):
    problem = toy_problem(FIXED_LIKELIHOODS[name], seed=SMOOTH_SEED)
    fit = TIGHT.fit(problem, quiet)
    assert fit.converged
    g = problem.likelihood.expectation(problem.y, *fit.label_marginals, problem.confidence)
    lambda2 = (-2 * g.variance_gradient).clamp_min(0)
    scale = float(lambda2.norm())
    torch.testing.assert_close(fit.sites.lambda2.mT, lambda2, rtol=0, atol=1e-6 * scale)
    expected = g.mean_gradient + lambda2 * fit.label_marginals.mean
    scale = float(expected.norm())
    torch.testing.assert_close(fit.sites.lambda1.mT, expected, rtol=0, atol=1e-6 * scale)


# --- gradients --------------------------------------------------------------------------------


@each_likelihood
@each_inducing
@pytest.mark.parametrize("converged", [True, False])
def test_gradients_with_the_sites_held(name, inducing, converged):
    problem = toy_problem(FIXED_LIKELIHOODS[name], INDUCING[inducing], confidence=0.9)
    projection = problem.projector(problem.prior, None)
    labels = Labels(problem.y, problem.confidence)
    rng = np.random.default_rng(8)
    shape = (problem.n_latents, len(problem.y))
    start = Sites(
        torch.from_numpy(rng.normal(size=shape)), torch.from_numpy(rng.uniform(0.1, 2, size=shape))
    )
    if inducing == "points":  # slack, so that the prior variance may fall and not be cut off
        projection = projection._replace(prior_var=projection.prior_var + 0.1)
    if converged:
        start = solve(projection, problem.likelihood, labels, start, 1e-8, 1000).state.sites
    state = evaluate(projection, problem.likelihood, labels, start)
    found = gradients(projection, state)

    names = {"labelled": ["K"], "points": ["W", "prior_var"]}[inducing]
    assert len(found) == len(names)
    step = 1e-5
    for field, gradient in zip(names, found, strict=True):
        for _ in range(4):
            here = getattr(projection, field)
            direction = torch.from_numpy(rng.normal(size=here.shape))
            if field == "K":
                direction = direction + direction.mT
            up, down = (
                evaluate(
                    projection._replace(**{field: here + sign * step * direction}),
                    problem.likelihood,
                    labels,
                    state.sites,
                ).elbo
                for sign in (1, -1)
            )
            slope = (up - down) / (2 * step)
            assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-5)


@each_likelihood
@pytest.mark.parametrize("kernel", [RBF(1.5, 1.2), Polynomial(3, 0.5, 1.0)], ids=["rbf", "cubic"])
@pytest.mark.parametrize("inducing", ["labelled", "points"])
def test_gradient_of_the_profiled_elbo(name, kernel, inducing):
    likelihood = Gaussian(NOISE) if name == "gaussian" else FIXED_LIKELIHOODS[name]
    if (name, inducing) == ("robustmax", "points"):
        pytest.skip("some site precisions are cut off, and there the gradient is approximate")
    chosen = Points(5) if inducing == "points" else None
    problem = toy_problem(likelihood, chosen, kernel=kernel, seed=SMOOTH_SEED)
    points = problem.projector.points
    search = _Search(Dual(tol=1e-9, max_steps=3000), problem, quiet)
    theta = np.array(search.theta)
    value, gradient = search.evaluate(theta, points)
    assert value == pytest.approx(converged_elbo(problem, theta, points), rel=1e-9)

    def elbo(x):
        moved = None if points is None else torch.from_numpy(x[len(theta) :]).view_as(points)
        return search.evaluate(x[: len(theta)], moved)[0]

    x = theta if points is None else np.concatenate([theta, points.numpy().ravel()])
    rng = np.random.default_rng(2)
    for _ in range(3):
        along = rng.normal(size=len(x))
        slope = (elbo(x + 1e-4 * along) - elbo(x - 1e-4 * along)) / 2e-4
        assert gradient @ along == pytest.approx(slope, rel=1e-5, abs=1e-5)


def converged_elbo(problem, theta, points=None):
    """The ELBO at these hyper-parameters (logs) with the sites at rest."""
    names = problem.free_parameters()
    prior, likelihood = problem.components(dict(zip(names, np.exp(theta).tolist(), strict=True)))
    projection = problem.projector(prior, points)
    labels = Labels(problem.y, problem.confidence)
    start = start_sites(projection, likelihood, labels, problem.n_latents)
    found = solve(projection, likelihood, labels, start, 1e-9, 3000)
    assert found.converged
    return found.state.elbo


def test_a_hyperparameter_search_ends_where_the_bound_is_flat():
    problem = toy_problem(FIXED_LIKELIHOODS["softmax"], kernel=RBF(1.0, 1.0))
    fit = Dual().fit(problem, quiet)
    assert fit.converged
    kernel = fit.posterior.prior.kernel
    theta = np.log([kernel.variance, kernel.lengthscale])
    for direction in np.eye(2):
        for sign in (1, -1):
            moved = theta + 0.05 * sign * direction
            if np.abs(moved).max() < np.log(1e6):
                assert converged_elbo(problem, moved) < fit.elbo + 1e-4
