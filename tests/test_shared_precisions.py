"""Above a hundred classes: one precision for a label's own class and one for all others."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nodegp
from helpers import hide, quiet, random_graph, smooth_classes, toy_problem
from memory import without_proc
from nodegp import GraphGPClassifier
from nodegp.gains import OwnClassGains
from nodegp.inducing import Exact, Labelled, Points, choose
from nodegp.inference import Dual, shared
from nodegp.inference.moments import gradients, posterior_arrays, posterior_moments
from nodegp.inference.sites import Labels, evaluate, solve, start_sites
from nodegp.kernels import RBF, Cosine
from nodegp.likelihoods import RobustMax, Softmax
from nodegp.linalg import QuadraticForms
from nodegp.posterior import Sites
from packages import run_code

GRAPH = random_graph(60, n_features=4, seed=4)
TRUTH = smooth_classes(GRAPH, 8)
Y = hide(TRUTH, np.arange(0, 60, 2))


@pytest.fixture
def from_three_classes_on(monkeypatch):
    monkeypatch.setattr(shared, "MANY_CLASSES", 2)


def random_sites(n_latents: int, n_labels: int, seed: int):
    """A covariance, labels of which some classes have none, and sites of the restricted form."""
    rng = np.random.default_rng(seed)
    root = torch.from_numpy(rng.normal(size=(n_labels, 4)))
    K = root @ root.mT + 0.3 * torch.eye(n_labels, dtype=torch.float64)
    own = torch.from_numpy(rng.integers(0, n_latents - 1, n_labels))
    lambda1, lambda2 = torch.from_numpy(rng.normal(size=(2, n_latents, n_labels)))
    return Exact(K), own, Sites(lambda1, shared.shared_precisions(lambda2.square(), own))


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


@given(st.integers(3, 9), st.integers(3, 14), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_moments_gradients_and_gains_are_those_of_each_class_by_itself(n_latents, n_labels, seed):
    exact, own, sites = random_sites(n_latents, n_labels, seed)
    each, together = posterior_moments(exact, sites), posterior_moments(exact, sites, own)
    for name in ("alpha", "mean", "inducing_variance", "cavity_share", "half_log_det"):
        same(getattr(together, name), getattr(each, name))

    labels = Labels(own, torch.ones(n_labels, dtype=torch.float64))
    state = evaluate(exact, Softmax(16), labels, sites)._replace(sites=sites)
    of_each, of_all = (state._replace(moments=moments) for moments in (each, together))
    same(gradients(exact, of_all)[0], gradients(exact, of_each)[0])

    (_, _, gain), (_, _, gains) = (posterior_arrays(exact, s) for s in (of_each, of_all))
    assert isinstance(gains, OwnClassGains)
    assert gains.shape == gain.shape
    same(gains[:], gain)
    same(gains[1:2], gain[1:2])
    w = torch.from_numpy(np.random.default_rng(seed).normal(size=(5, n_labels)))
    same(gains.forms(None, torch.float64)(w), QuadraticForms(gain)(w))
    right, few = w[:3].mT, w[:, :3]
    same(gains.forms(right, torch.float64)(few), QuadraticForms(right.mT @ gain @ right)(few))
    same(gains.between(w[:2].mT, w.mT), (w[:2] @ gain) @ w.mT)


def test_precisions_of_the_restricted_form_stay_as_they_are():
    _, own, sites = random_sites(6, 9, 0)
    same(shared.shared_precisions(sites.lambda2, own), sites.lambda2)
    others = sites.lambda2.clone()
    others[own, torch.arange(9)] = torch.nan
    spread = others.nan_to_num(torch.inf).amin(0) - others.nan_to_num(-torch.inf).amax(0)
    assert spread.abs().max() < 1e-12
    assert (sites.lambda2[own, torch.arange(9)] >= others.nan_to_num(0.0).amax(0) - 1e-12).all()


def test_sites_end_where_their_means_are_the_best(from_three_classes_on):
    """alpha is the likelihood's gradient there, and the bound has never fallen."""
    problem = toy_problem(Softmax(64), Labelled(), RBF(1.5, 1.2).learn())
    projection = problem.projector(problem.prior, None)
    labels = Labels(problem.y, problem.confidence)
    start = start_sites(projection, problem.likelihood, labels, problem.n_latents)
    solution = solve(projection, problem.likelihood, labels, start, 1e-7, 200)
    assert solution.converged
    assert (np.diff(solution.trace) >= 0).all()
    same_within = {"rtol": 0, "atol": 1e-5}
    gradient = solution.state.expectation.mean_gradient.mT
    torch.testing.assert_close(solution.state.moments.alpha, gradient, **same_within)


def test_hyper_parameters_are_learnt_as_they_would_be(from_three_classes_on, monkeypatch):
    def learnt():
        return Dual().fit(toy_problem(Softmax(64), Labelled(), RBF()), quiet)

    restricted = learnt()
    assert isinstance(restricted.posterior.gain, OwnClassGains)
    assert (np.diff(restricted.elbo_trace) >= 0).all()
    monkeypatch.undo()
    free = learnt()
    assert isinstance(free.posterior.gain, torch.Tensor)
    assert free.elbo - 0.5 < restricted.elbo < free.elbo + 1e-3
    for name, value in free.posterior.prior.parameters().items():
        assert restricted.posterior.prior.parameters()[name] == pytest.approx(value, rel=0.2)


@pytest.mark.parametrize("kernel", [None, RBF(2.0, 0.8).learn()], ids=["default", "rbf"])
def test_all_that_is_asked_of_a_model_is_answered(
    kernel, from_three_classes_on, monkeypatch, tmp_path
):
    nodes, more = [1, 5, 7], TRUTH[[1, 5, 7]]

    def fitted():
        return GraphGPClassifier(kernel=kernel, random_state=0).fit(GRAPH, Y)

    def answers(model):
        return [
            model.predict_proba(),
            *model.predict_latent(),
            *model.predict_latent(nodes=nodes, cov=True),
            model.sample_proba(nodes=nodes, n_samples=3, random_state=0),
            *model.predict_information(nodes=nodes),
            model.predict_set(nodes=nodes),
            model.model_.loo_proba,
        ]

    model = fitted()
    assert isinstance(model.posterior_.gain, OwnClassGains)
    model.save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model")
    assert isinstance(loaded.posterior_.gain, OwnClassGains)
    for a, b in zip(answers(loaded), answers(model), strict=True):
        np.testing.assert_array_equal(a, b)
    mean, cov = model.predict_latent(nodes=nodes, cov=True)
    of_all, var = model.predict_latent()
    np.testing.assert_allclose(mean, of_all[nodes], atol=1e-5)
    np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2).T, var[nodes], atol=1e-5)
    explained = model.explain(1)
    parts = explained.from_labels.sum(axis=0) + explained.common + explained.rest
    np.testing.assert_allclose(parts, of_all[1], atol=1e-5)
    np.testing.assert_allclose(explained.rest, 0.0, atol=1e-8)
    again = GraphGPClassifier(kernel=kernel, random_state=0)  # views are weighed again
    updated = model.update(nodes, more).predict_proba()
    again.fit(GRAPH, hide(TRUTH, np.union1d(np.arange(0, 60, 2), nodes)))
    np.testing.assert_allclose(updated, again.predict_proba(), atol=0.01)

    monkeypatch.undo()
    exact = fitted()
    assert isinstance(exact.posterior_.gain, torch.Tensor)
    np.testing.assert_allclose(loaded.predict_proba(), exact.predict_proba(), atol=0.05)


def test_what_it_costs_is_little(monkeypatch):
    """Accuracy within half a point and log loss within 0.02, of unlabelled nodes."""
    n_classes, rng = 60, np.random.default_rng(1)
    y = np.arange(8 * n_classes) % n_classes
    X = rng.standard_normal((n_classes, 24))[y] + 1.5 * rng.standard_normal((len(y), 24))
    ends = rng.integers(0, 8, (2, len(y)))
    edges = np.stack([y + n_classes * ends[0], y + n_classes * ends[1]], 1)
    graph = nodegp.Graph.from_edges(edges, n_nodes=len(y), features=X)
    hidden = np.arange(len(y)) >= 3 * n_classes
    scores = []
    for many in (n_classes, n_classes - 1):
        monkeypatch.setattr(shared, "MANY_CLASSES", many)
        model = GraphGPClassifier(filter="propagation", kernel=Cosine(1.75).learn())
        proba = model.fit(graph, np.where(hidden, -1, y)).predict_proba()[hidden]
        assert isinstance(model.posterior_.gain, OwnClassGains) == (many < n_classes)
        loss = -np.log(proba[np.arange(len(proba)), y[hidden]]).mean()
        scores.append((loss, (proba.argmax(1) == y[hidden]).mean()))
    (exact_loss, exact_accuracy), (loss, accuracy) = scores
    assert 0.5 < exact_accuracy < 0.99
    assert accuracy > exact_accuracy - 0.005
    assert loss < exact_loss + 0.02


def test_a_file_with_a_latent_that_is_not_there_is_refused():
    _, own, _ = random_sites(4, 6, 0)
    for bad in (own + 4, own - 4, own.double()):
        with pytest.raises(ValueError, match="latent"):
            OwnClassGains(torch.eye(6), torch.eye(6), bad, 4)


def test_who_shares():
    exact, y = Exact(torch.eye(2)), torch.tensor([0, 1])
    most = shared.MANY_CLASSES
    assert shared.shared_classes(exact, Softmax(), y, most) is None
    assert shared.shared_classes(exact, Softmax(), y, most + 1) is y
    assert shared.shared_classes(exact.whitened(), Softmax(), y, most + 1) is None
    assert shared.shared_classes(exact, RobustMax(), y, most + 1) is None
    assert choose("auto", 2000, is_shared=True) == Labelled()
    assert choose("auto", 2000) == choose("auto", 4000, is_shared=True) == Points()


CODE = """
import json
import numpy as np
from memory import mebibytes
from nodegp import Graph, GraphGPClassifier
from nodegp.kernels import Constant, Cosine

n_classes, rng = 500, np.random.default_rng(0)
y = np.arange(4 * n_classes) % n_classes
X = rng.standard_normal((n_classes, 32))[y] + rng.standard_normal((len(y), 32))
nodes = np.arange(2 * n_classes)
graph = Graph.from_edges(np.stack([nodes, 2 * n_classes + nodes], 1), features=X)
kernel = Cosine(1.75, fixed=("variance",)) + Constant(0.1, fixed=("variance",))
model = GraphGPClassifier(filter="propagation", kernel=kernel)
model.fit(graph, np.where(np.arange(len(y)) < 2 * n_classes, y, -1))
right = model.predict()[2 * n_classes :] == y[2 * n_classes :]
peak = mebibytes("VmHWM")
print(json.dumps({"peak": peak, "accuracy": right.mean(), "steps": len(model.elbo_trace_)}))
"""


@pytest.mark.slow
@without_proc
def test_five_hundred_classes_and_a_thousand_labels_in_two_gibibytes():
    found = json.loads(run_code(CODE, options=("-W", "ignore")))
    assert found["peak"] < 2 << 10
    assert found["accuracy"] > 0.9
    assert found["steps"] < 12
