"""Bugs that were found and fixed, each with the test that would have caught it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import ConvergenceWarning

from helpers import one_hop, one_hop_prior, raw_domain
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp import inducing as inducing_module
from nodegp.budget import budget
from nodegp.component import Component
from nodegp.features import FeatureRows
from nodegp.filters import Identity, PageRank, SumOfFilters
from nodegp.inducing import Points
from nodegp.inference import Dual
from nodegp.kernels import RBF, Linear, Matern
from nodegp.labels import Observations
from nodegp.likelihoods import Gaussian
from nodegp.model.calibration import fit_temperatures
from nodegp.model.views import averaged, candidates
from nodegp.preprocessing import Preprocessor
from nodegp.prior import build
from nodegp.prior.tiles import cached_variance
from nodegp_paper.inference import Adam


def labelled_graph(n=80, n_labels=40, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.standard_normal((n, n_features)) + 2.0 * np.eye(3, n_features)[y]
    A = sp.random_array((n, n), density=0.04, rng=rng)
    labels = np.where(np.arange(n) < n_labels, y, -1)
    return A, X, labels


def test_a_label_without_prior_variance_does_not_fake_convergence():
    # Its site precision is enormous and used to drown all others in the residual.
    A, X, y = labelled_graph()
    A = sp.lil_array(A)
    A[0, :], A[:, 0] = 0, 0
    X[0] = 0
    settings = {"kernel": Linear(fixed=("variance",)), "preprocessing": "raw", "calibrate": None}
    loose = GraphGPClassifier(**settings).fit(Graph(A, X), y)
    tight = GraphGPClassifier(engine=Dual(tol=1e-7, max_steps=2000), **settings)
    tight.fit(Graph(A, X), y)
    assert loose.converged_
    assert loose.elbo_ == pytest.approx(tight.elbo_, abs=0.01)


@pytest.mark.parametrize("kernel", [RBF(1.0, 0.2, fixed=("variance",)), Matern(0.5, 1.0, 0.1)])
def test_warm_sites_that_do_not_suit_the_next_kernel(kernel):
    # Negative site precisions carried to another lengthscale left no posterior there at all.
    A, X, y = labelled_graph(120, 80)
    model = GraphGPClassifier(kernel=kernel, inducing=Points(15, optimise=False), random_state=0)
    model.fit(Graph(A, X), y)
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.predict_proba()).all()


def test_a_failed_fit_leaves_a_fitted_model_as_it_was():
    A, X, y = labelled_graph()
    graph = Graph(A, X)
    model = GraphGPClassifier().fit(graph, y)
    before, attributes = model.predict_proba(graph), dict(vars(model))
    for bad in (np.full(80, -1), np.arange(79)):
        with pytest.raises(ValueError, match="y has"):
            model.fit(Graph(A, 5.0 * X), bad)
    model.set_params(likelihood="bernoulli")
    with pytest.raises(ValueError, match="two classes"):
        model.fit(graph, y)
    assert vars(model) == attributes | {"likelihood": "bernoulli"}
    np.testing.assert_array_equal(model.predict_proba(graph), before)


def test_leave_one_out_with_hardly_any_noise():
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((15, 2)), 1e-8
    y = np.sin(X[:, 0])
    model = GraphGPRegressor(
        kernel=RBF(fixed=("variance", "lengthscale")),
        filter="identity",
        likelihood=Gaussian(noise, fixed=("noise",)),
        preprocessing="raw",
    )
    model.fit(Graph(sp.csr_array((15, 15)), X), y)
    standard = (y - y.mean()) / y.std()
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(2)) + noise * np.eye(15)
    inverse = np.linalg.inv(K)
    expected = y - y.std() * (inverse @ standard) / np.diag(inverse)
    # The matrix has a condition number of some 1e8, and both sides lose that many digits.
    np.testing.assert_allclose(model.loo_mean_, expected, atol=1e-4)


def test_adam_that_diverges_says_so():
    A, X, y = labelled_graph()
    engine = Adam(learning_rate=5.0, max_iter=200, check_every=5, patience=3)
    with pytest.warns(ConvergenceWarning, match="learning_rate"):
        model = GraphGPClassifier(engine=engine).fit(Graph(A, X), y)
    assert not model.converged_


def test_featureless_points_on_a_grown_graph():
    A, _, y = labelled_graph()
    grown = sp.block_diag([A, sp.csr_array((2, 2))], format="lil")
    grown[80, 3] = 1
    for inducing in ("labelled", "points"):
        model = one_hop(kernel=Linear(), inducing=inducing, random_state=0).fit(Graph(A), y)
        old = model.predict_proba(Graph(A))
        np.testing.assert_allclose(model.predict_proba(Graph(grown))[10:80], old[10:], atol=1e-6)
        with pytest.raises(ValueError, match="Keep the old nodes first"):
            model.predict_proba(Graph(sp.csr_array(A)[:70, :70]))


def test_start_values_far_out_are_not_moved_in_silence():
    # Learnt on a log scale within bounds, the start used to be clipped to 1e-6 first.
    X = np.linspace(0, 1, 12)[:, None]
    model = GraphGPRegressor(likelihood=Gaussian(1e-9), engine=Dual(max_iter=1))
    seen = []
    model._report = seen.append
    with pytest.warns(ConvergenceWarning):
        model.fit(Graph(sp.csr_array((12, 12)), X), X[:, 0])
    assert "noise 1e-09" in next(line for line in seen if "noise" in line)


def test_unsure_labels_weigh_less_in_the_temperature():
    proba = np.tile([0.6, 0.4], (40, 1))
    y = np.r_[np.zeros(36, int), np.ones(4, int)]
    sure, unsure = (fit_temperatures(proba[None], y, np.full(40, c)).by_all for c in (1.0, 0.1))
    assert sure < unsure < 1.0  # the prior on log T pulls the less certain one to 1


def test_two_components_cannot_share_a_name():
    with pytest.raises(ValueError, match="already"):
        type("RBF", (Component,), {"__module__": "elsewhere"})


def test_a_composite_kernel_does_not_pretend_to_learn():
    with pytest.raises(TypeError, match="made of kernels"):
        (RBF() + Linear()).learn()


def test_gradients_through_a_hub_do_not_keep_its_tiles(monkeypatch):
    # With every tile kept, memory would grow with the square of the degree.

    monkeypatch.setattr(budget, "tile", 64)
    monkeypatch.setattr(budget, "fit", 1)
    star = sp.coo_array((np.ones(60), (np.zeros(60, int), np.arange(1, 61))), shape=(61, 61))
    X = np.random.default_rng(0).standard_normal((61, 2))
    graph = Graph(star, X)
    hub = one_hop_prior().at(raw_domain(graph), np.array([0]))
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()), lambda t: t):
        cached_variance(RBF(), hub)(RBF(lengthscale=scale))
    assert max(saved, default=0) < 61  # nothing of the size of a tile


def test_joint_covariance_of_too_many_nodes_is_refused(monkeypatch):

    A, X, y = labelled_graph()
    model = GraphGPClassifier().fit(Graph(A, X), y)
    monkeypatch.setattr(budget, "answer", 80 * 80)
    with pytest.raises(ValueError, match="pass nodes="):
        model.predict_latent(cov=True)
    assert model.predict_latent(nodes=[1, 2], cov=True)[1].shape == (3, 2, 2)


def test_number_labels_with_gaps():
    A, X, y = labelled_graph()
    with_none = [None if v == -1 else int(v) for v in y]
    model = GraphGPClassifier().fit(Graph(A, X), with_none)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_more_points_than_the_sample_for_kmeans():
    from nodegp.inducing import kmeans

    n = 20_100
    rows = FeatureRows.of(Preprocessor.fit(np.zeros((n, 1)), "raw"), np.zeros((n, 1)), n)
    assert kmeans(rows, 2_100, np.random.default_rng(0)).shape == (1, 1)


def test_saving_into_a_folder_that_is_not_there(tmp_path):
    A, X, y = labelled_graph()
    model = GraphGPClassifier().fit(Graph(A, X), y)
    with pytest.raises(FileNotFoundError, match="no folder"):
        model.save(tmp_path / "nowhere" / "model.nodegp")


def words_graph(n_nodes=300, n_columns=40, seed=0):
    rng = np.random.default_rng(seed)
    A = sp.random_array((n_nodes, n_nodes), density=0.02, rng=rng)
    return Graph(A, sp.csr_array(rng.poisson(0.3, size=(n_nodes, n_columns)).astype(float)))


def test_inducing_points_have_exact_lengths(monkeypatch):
    """Estimated ones gave negative variances beside the points, and no prediction at all."""
    monkeypatch.setattr(build, "sketch_width", lambda n_nodes, n_columns: 24)
    graph, y = words_graph(), np.where(np.arange(300) < 60, np.arange(300) % 3, -1)
    settings = {"filter": PageRank(0.2, fixed=("strength",)), "random_state": 0}
    by_points = GraphGPClassifier(inducing=Points(20), **settings).fit(graph, y)
    assert by_points.prior_.sketch == 0
    assert np.isfinite(by_points.predict_proba()).all()
    assert GraphGPClassifier(**settings).fit(graph, y).prior_.sketch == 24


def test_a_sum_of_functions_takes_labels_beyond_the_limit_of_labelled_nodes(monkeypatch):
    """Inducing points would take over there, and are points of one function only."""
    graph, y = words_graph(), np.arange(300) % 3
    model = GraphGPClassifier(filter=SumOfFilters((Identity(), PageRank(0.2, fixed=("strength",)))))
    model.fit(graph, np.where(np.arange(300) < 30, y, -1))
    monkeypatch.setattr(inducing_module, "MAX_LABELLED", 35)
    model.update(np.arange(30, 40), y[30:40])
    assert len(model.labelled_) == 40
    assert model.predict_proba().shape == (300, 3)


def test_a_recipe_is_planned_with_whatever_labels_have_come_in(monkeypatch):
    """A sum that was chosen for few labels was not among the recipes for many."""
    graph, y = words_graph(), np.arange(300) % 3
    model = GraphGPClassifier().fit(graph, np.where(np.arange(300) < 30, y, -1))
    looks, base = candidates(model.model_.domain(), 10), model.model_.recipe
    monkeypatch.setattr(inducing_module, "MAX_LABELLED", 35)
    for which in range(len(looks)):  # whichever had been the best
        recipe, _ = averaged(looks, np.eye(len(looks))[which], 1.75, 0.6, base)
        chosen = replace(model.model_, recipe=recipe)
        assert chosen.planning_prior(chosen.domain()).parameters()
        later = chosen.update(Observations(np.arange(40), y[:40], np.ones(40)))
        assert later.planning_prior(later.domain()).parameters()


@pytest.mark.parametrize("filter", [PageRank(0.3, fixed=("strength",)), Identity()])
def test_distances_between_rows_have_their_last_digits(filter):
    """In single precision variances at the labels of a smooth regression fell below zero."""
    rng = np.random.default_rng(0)
    A = sp.random_array((2200, 2200), density=0.001, rng=rng)
    graph = Graph(A, rng.standard_normal((2200, 500)))  # beyond what is double anyway
    y = np.where(np.arange(2200) < 150, np.sin(np.arange(2200.0)), np.nan)
    model = GraphGPRegressor(
        kernel=RBF(1.0, 1.0).learn(),
        filter=filter,
        likelihood=Gaussian(1e-6, fixed=("noise",)),
    ).fit(graph, y)
    _, at_once = model.predict_latent()
    _, few = model.predict_latent(nodes=np.arange(60))
    np.testing.assert_allclose(at_once[:60], few, rtol=1e-3)
    assert at_once[:150].min() > 1e-8
