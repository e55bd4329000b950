"""Running the engines: blocks, precision, convergence, leave-one-out, priors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from helpers import (
    FIXED_LIKELIHOODS,
    FIXED_RBF,
    hide,
    one_hop_prior,
    quiet,
    random_graph,
    raw_domain,
    smooth_classes,
    toy_problem,
)
from nodegp import Graph, GraphGPClassifier, Recipe
from nodegp.budget import budget
from nodegp.filters import NeighbourMean
from nodegp.inducing import Labelled, Points
from nodegp.inference import Dual
from nodegp.kernels import RBF
from nodegp.likelihoods import Softmax
from nodegp.posterior import Marginals, leave_one_out
from nodegp_paper.inference import Adam

STILL_POINTS = Points(8, optimise=False)
INDUCING = {"labelled": Labelled(), "points": STILL_POINTS}
FAST_ADAM = Adam(learning_rate=0.03, max_iter=3000, check_every=50, tol=1e-7)
TIGHT = Dual(tol=1e-8, max_steps=2000)
each_likelihood = pytest.mark.parametrize("name", list(FIXED_LIKELIHOODS))
each_inducing = pytest.mark.parametrize("inducing", list(INDUCING))


# --- running: blocks, minibatches, precision, convergence -------------------------------------


@each_likelihood
def test_blocks_of_labels_are_the_whole(name, monkeypatch):
    whole = TIGHT.fit(toy_problem(FIXED_LIKELIHOODS[name], STILL_POINTS), quiet)
    monkeypatch.setattr(budget, "passing", 5 * 8 * 3)
    blocks = TIGHT.fit(toy_problem(FIXED_LIKELIHOODS[name], STILL_POINTS), quiet)
    assert blocks.elbo == pytest.approx(whole.elbo, rel=1e-9)
    torch.testing.assert_close(
        blocks.label_marginals.mean, whole.label_marginals.mean, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("filter", ["auto", "mean"])
def test_blocks_of_predictions_are_the_whole(filter, monkeypatch):
    graph = random_graph()
    model = GraphGPClassifier(kernel=FIXED_RBF, filter=filter)
    model.fit(graph, hide(smooth_classes(graph), np.arange(9)))
    whole, latent = model.predict_proba(), model.predict_latent()
    monkeypatch.setattr(budget, "cached", 60)
    monkeypatch.setattr(budget, "large", 40)
    monkeypatch.setattr(budget, "tile", 800)
    sizes, predict = [], Softmax.predict
    monkeypatch.setattr(
        Softmax, "predict", lambda self, *m: sizes.append(len(m[0])) or predict(self, *m)
    )
    # Of the same graph as another object: of its own a model remembers what it said.
    again = model.predict_proba(Graph(graph.adjacency.copy(), graph.features.copy()))
    assert len(sizes) > 3
    assert sum(sizes) == 24
    np.testing.assert_allclose(again, whole, atol=1e-12)
    for a, b in zip(model.predict_latent(), latent, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@each_inducing
def test_minibatches_improve_the_bound(inducing):
    engine = Adam(learning_rate=0.01, max_iter=300, batch_size=4, check_every=50)
    problem = toy_problem(FIXED_LIKELIHOODS["softmax"], INDUCING[inducing])
    fit = engine.fit(problem, quiet)
    best = TIGHT.fit(toy_problem(FIXED_LIKELIHOODS["softmax"], INDUCING[inducing]), quiet).elbo
    assert fit.elbo_trace[0] + 0.5 * (best - fit.elbo_trace[0]) < fit.elbo <= best + 1e-6


def test_adam_moves_points_and_hyperparameters():
    engine = Adam(learning_rate=0.02, max_iter=200, check_every=50)
    problem = toy_problem(FIXED_LIKELIHOODS["softmax"], Points(5), kernel=RBF())
    fit = engine.fit(problem, quiet)
    assert not torch.allclose(fit.posterior.inducing.rows.values, problem.projector.points)
    assert fit.posterior.prior.kernel.lengthscale != 1.0
    assert fit.elbo == max(fit.elbo_trace)


@pytest.mark.parametrize(
    ("engine", "advice"),
    [
        (Dual(max_iter=1), "max_iter"),
        (Dual(max_steps=1), "max_steps"),
        (Adam(max_iter=5), "max_iter"),
    ],
    ids=["dual", "dual sites", "adam"],
)
def test_too_few_iterations_warn_with_advice(engine, advice):
    graph = random_graph()
    model = GraphGPClassifier(kernel=RBF(), likelihood="softmax", engine=engine)
    with pytest.warns(ConvergenceWarning, match=f"raise {advice}"):
        model.fit(graph, hide(smooth_classes(graph), np.arange(9)))
    assert not model.converged_
    assert model.n_iter_ >= 1
    assert np.isfinite(model.predict_proba()).all()


def test_fixed_hyperparameters_converge_without_a_warning(recwarn):
    graph = random_graph()
    model = GraphGPClassifier(kernel=FIXED_RBF).fit(
        graph, hide(smooth_classes(graph), np.arange(9))
    )
    assert model.converged_
    assert model.n_iter_ >= 1
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]


@each_likelihood
@pytest.mark.parametrize("engine", [Dual(), replace(FAST_ADAM, tol=1e-5)], ids=["dual", "adam"])
def test_float32_is_close_to_float64(name, engine):
    double, single = (
        engine.fit(toy_problem(FIXED_LIKELIHOODS[name], dtype=dtype), quiet)
        for dtype in (torch.float64, torch.float32)
    )
    assert single.posterior.mean.dtype == torch.float32
    assert single.elbo == pytest.approx(double.elbo, rel=3e-3 if name == "robustmax" else 1e-3)
    assert single.converged


def test_float32_predictions_are_close_to_float64():
    graph = random_graph()
    y = hide(smooth_classes(graph), np.arange(12))
    double, single = (
        GraphGPClassifier(kernel=FIXED_RBF, likelihood="softmax", engine=Dual(dtype=d))
        .fit(graph, y)
        .predict_proba()
        for d in ("float64", "float32")
    )
    np.testing.assert_allclose(single, double, atol=1e-3)


# --- leave-one-out against refits -------------------------------------------------------------


def loo_and_refits(likelihood, inducing, engine, every=1):
    """q(h) at labelled nodes without their own label: by division, and by fitting again."""
    graph = random_graph(30, seed=6)
    nodes = np.sort(np.random.default_rng(6).choice(30, 15, replace=False))
    left_out = range(0, 15, every)

    def fit(labelled):
        # All nodes' features seed k-means, so the points are the same in every fit.
        return engine.fit(toy_problem(likelihood, inducing, graph=graph, nodes=labelled), quiet)

    def at(some):
        return one_hop_prior().at(raw_domain(graph), some)

    whole = fit(nodes)
    divided = leave_one_out(
        whole.label_marginals, whole.inducing_variance, whole.cavity_share, whole.alpha
    )
    refits = [fit(np.delete(nodes, n)).posterior.marginals(at(nodes[[n]])) for n in left_out]
    return (
        Marginals(*(part[list(left_out)] for part in divided)),
        Marginals(*(torch.cat(part) for part in zip(*refits, strict=True))),
        Marginals(*(part[list(left_out)] for part in whole.label_marginals)),
    )


@each_inducing
def test_leave_one_out_is_exact_for_gaussian(inducing):
    divided, refits, _ = loo_and_refits(FIXED_LIKELIHOODS["gaussian"], INDUCING[inducing], TIGHT)
    for a, b in zip(divided, refits, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@each_inducing
@pytest.mark.parametrize("engine", ["dual", "adam"])
@pytest.mark.parametrize("name", ["bernoulli", "softmax", "robustmax"])
def test_leave_one_out_is_close_to_refits(name, engine, inducing):
    # Without the label the other sites would move a little, which the division leaves out.
    # Log-concave likelihoods: a few percent. Robust-max, whose sites move in jumps: more.
    likelihood = FIXED_LIKELIHOODS[name]
    if engine == "dual":
        found = loo_and_refits(likelihood, INDUCING[inducing], Dual())
    else:
        quick = Adam(learning_rate=0.05, max_iter=300, check_every=50)
        found = loo_and_refits(likelihood, INDUCING[inducing], quick, every=4)
    divided, refits, kept = (likelihood.predict(*marginals) for marginals in found)
    error, effect = (divided - refits).abs(), (kept - refits).abs()
    assert error.max() < (0.15 if name == "robustmax" else 0.05)
    assert error.mean() < 0.25 * effect.mean()


# --- a prior on hyper-parameters ----------------------------------------------------------------


def test_a_prior_holds_hyperparameters_that_nothing_else_does():
    """Two labels say nothing of the scale: a wide prior lets it go, a narrow one does not."""
    graph = random_graph(12)
    y = np.full(12, -1)
    y[[0, 1]] = 0, 1
    learnt = {}
    for prior in (None, 1.0, 0.1):
        recipe = Recipe(NeighbourMean(), RBF(4.0, 1.0), hyperprior_std=prior)
        model = GraphGPClassifier(recipe).fit(graph, y)
        logs = np.log([float(v) for v in model.kernel_.parameters().values()])
        learnt[prior] = np.abs(logs - np.log([4.0, 1.0])).max()
    assert learnt[0.1] < learnt[1.0] < learnt[None]
    assert learnt[0.1] < 0.1


def test_the_prior_is_a_normal_one():
    """At the end its pull and the bound's are equal: gradient = (log theta - log start) / sd^2."""
    graph, sd = random_graph(30), 0.5
    y = hide(smooth_classes(graph), np.arange(0, 30, 2))
    recipe = Recipe(NeighbourMean(), RBF(1.0, 3.0, fixed=("variance",)), hyperprior_std=sd)
    fitted = GraphGPClassifier(recipe, engine=Dual(tol=1e-6)).fit(graph, y)
    at = float(fitted.kernel_.lengthscale)

    def elbo(lengthscale):
        kernel = RBF(1.0, lengthscale).learn()
        model = GraphGPClassifier(kernel=kernel, filter="mean", engine=Dual(tol=1e-6))
        return model.fit(graph, y).elbo_

    slope = (elbo(at * 1.01) - elbo(at / 1.01)) / (2 * np.log(1.01))
    assert slope == pytest.approx((np.log(at) - np.log(3.0)) / sd**2, abs=0.05)
    assert fitted.elbo_ == pytest.approx(elbo(at), abs=1e-4)  # the prior is not counted
    with pytest.raises(ValueError, match="hyperprior_std must be positive"):
        Recipe(NeighbourMean(), hyperprior_std=0.0)
