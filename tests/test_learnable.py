"""Hyper-parameters of filters, learnt together with those of the kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import nodegp
from helpers import hide, random_graph, raw_domain, smooth_classes, smooth_scores
from nodegp import GraphGPClassifier, GraphGPRegressor
from nodegp.filters import Chebyshev, Diffusion, MaternFilter, PageRank, RegularisedLaplacian
from nodegp.inducing import Points
from nodegp.inference import Dual
from nodegp.kernels import RBF, Linear, Polynomial
from nodegp.prior import FilteredFeatures
from nodegp.prior.rows import BasisRows
from nodegp_paper.inference import Adam

GRAPH = random_graph(40, seed=4)
TRUTH = smooth_classes(GRAPH)
Y = hide(TRUTH, np.arange(0, 40, 2))
FREE = [
    PageRank(0.3),
    Diffusion(1.0),
    RegularisedLaplacian(1.0),
    MaternFilter(1.5, 1.0),
    Chebyshev((1.0, 0.7, 0.4)),
]
LINEAR = Linear(2.0, fixed=("variance",))


def model(filter, **settings):
    settings = {"kernel": LINEAR, "likelihood": "softmax", "calibrate": None, **settings}
    return GraphGPClassifier(filter=filter, random_state=0, **settings)


def held(filter):
    """The same with nothing left to learn."""
    if isinstance(filter, Chebyshev):
        return replace(filter, values=tuple(replace(v, fixed=("value",)) for v in filter.values))
    return replace(filter, fixed=filter.positive)


def elbo(filter, **settings) -> float:
    assert not held(filter).free_parameters()
    return model(held(filter), **settings).fit(GRAPH, Y).elbo_


@pytest.mark.parametrize("filter", FREE, ids=lambda f: type(f).__name__)
def test_the_bound_rises_to_where_it_is_flat(filter):
    fitted = model(filter, engine=Dual(tol=1e-6)).fit(GRAPH, Y)
    learnt = fitted.filter_
    assert type(learnt) is type(filter)
    assert fitted.elbo_ > elbo(filter) - 1e-6
    # What was learnt, held, gives the same bound, and a step either way gives no better one.
    assert elbo(learnt, engine=Dual(tol=1e-6)) == pytest.approx(fitted.elbo_, abs=1e-4)
    for name, value in learnt.free_parameters().items():
        for factor in (0.8, 1.25):
            moved = learnt.with_parameters({name: value * factor})
            assert elbo(moved, engine=Dual(tol=1e-6)) < fitted.elbo_ + 1e-3


@pytest.mark.parametrize("filter", ["matern", "diffusion", "pagerank"])
def test_what_is_climbed_never_falls(filter):
    """By default the hyper-parameters have a prior, to which the bound by itself gives way."""
    for seed in range(8):
        graph = random_graph(30, seed=seed)
        y = hide(smooth_classes(graph), np.arange(0, 30, 2))
        fitted = GraphGPClassifier(filter=filter, random_state=0).fit(graph, y)
        assert (np.diff(fitted.elbo_trace_) >= 0).all()
        start, learnt = (
            np.log([*values.values()])
            for values in (fitted.model_.diagnostics.start, fitted.prior_.free_parameters())
        )
        log_prior = -0.5 * ((learnt - start) ** 2).sum() / fitted.recipe_.hyperprior_std**2
        assert fitted.elbo_trace_[-1] == pytest.approx(fitted.elbo_ + log_prior, abs=1e-9)


@pytest.mark.parametrize("kernel", [LINEAR, RBF(1.0, 0.8), Polynomial(3, 1.0, 1.0)], ids=repr)
@pytest.mark.parametrize("filter", FREE, ids=lambda f: type(f).__name__)
def test_gradients_against_finite_differences(filter, kernel):
    """Of the covariance of some nodes, in every hyper-parameter of filter and kernel."""
    prior = FilteredFeatures(kernel.learn(*kernel.parameters()), filter)
    inputs = prior.to_learn(raw_domain(GRAPH), np.arange(9))
    assert isinstance(inputs.rows, BasisRows)
    weight = torch.randn(9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def value(log_values):
        named = dict(zip(prior.parameters(), log_values.exp(), strict=True))
        chosen = prior.with_parameters(named)
        return (weight * chosen.cov(inputs, inputs)).sum() + chosen.var(inputs).sum()

    start = torch.tensor([float(v) for v in prior.parameters().values()]).double().log()
    assert torch.autograd.gradcheck(value, start.requires_grad_(), atol=1e-5, rtol=1e-4)


def test_covariances_with_points_that_learn_too():
    """Of nodes with points, and of either alone, against finite differences."""
    prior = FilteredFeatures(RBF(1.0, 0.8), PageRank(0.3))
    inputs = prior.to_learn(raw_domain(GRAPH), np.arange(5))
    points = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def value(log_values, points):
        chosen = prior.with_parameters(dict(zip(prior.parameters(), log_values.exp(), strict=True)))
        u = chosen.points(points)
        parts = [chosen.cov(inputs, u), chosen.cov(u, inputs), chosen.cov(u, u), chosen.var(u)]
        return torch.cat([part.ravel() for part in parts])

    start = torch.tensor([*prior.parameters().values()]).double().log()
    parts = start.requires_grad_(), points.requires_grad_()
    assert torch.autograd.gradcheck(value, parts, atol=1e-5, rtol=1e-4)


def test_what_was_learnt_holds_when_frozen_and_for_all_nodes():
    prior = FilteredFeatures(RBF(1.0, 0.8), PageRank(0.3))
    domain, nodes = raw_domain(GRAPH), np.arange(9)
    learning = prior.to_learn(domain, nodes)
    for strength in (0.4, 5.0):
        learnt = prior.with_parameters({"filter.strength": strength})
        expected = learnt.cov(learning, learning)
        frozen = learnt.freeze(learning)
        np.testing.assert_allclose(learnt.cov(frozen, frozen), expected, atol=1e-12)
        asked = learnt.at(domain, nodes)
        np.testing.assert_allclose(learnt.cov(asked, frozen), expected, atol=1e-12)
        np.testing.assert_allclose(learnt.var(asked), learnt.var(learning), atol=1e-12)


def test_points_adam_regression_and_new_nodes(tmp_path):
    for settings in ({"inducing": Points(8)}, {"engine": Adam(max_iter=60, tol=0)}):
        fitted = model(PageRank(0.3), **settings).fit(GRAPH, Y)
        assert fitted.filter_.teleport != 0.3
        assert np.isfinite(fitted.predict_proba()).all()
    target = np.where(Y >= 0, smooth_scores(GRAPH, 1)[:, 0], np.nan)
    regressor = GraphGPRegressor(filter=Diffusion(1.0)).fit(GRAPH, target)
    assert regressor.filter_.time != 1.0
    fitted = model(Diffusion(1.0)).fit(GRAPH, Y)
    fitted.save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model")
    assert loaded.filter_ == fitted.filter_
    larger = random_graph(45, seed=4)
    assert np.array_equal(loaded.predict_proba(larger), fitted.predict_proba(larger))


def test_an_update_goes_on_from_the_filter_learnt():
    more = np.array([1, 3, 5])
    updated = model(Diffusion(1.0)).fit(GRAPH, Y).update(more, TRUTH[more])
    fresh = model(Diffusion(1.0)).fit(GRAPH, hide(TRUTH, np.union1d(np.flatnonzero(Y >= 0), more)))
    assert updated.elbo_ == pytest.approx(fresh.elbo_, abs=0.05)


def test_on_the_function_a_filter_stays_as_it_is():
    fitted = model(PageRank(0.3, on="function", order=3)).fit(GRAPH, Y)
    assert fitted.filter_.teleport == 0.3
    assert fitted.prior_.free_parameters() == {}
