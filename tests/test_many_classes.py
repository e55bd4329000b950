"""Hundreds of classes: latents in blocks, as the whole would be, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nodegp
from helpers import hide, quiet, random_graph, smooth_classes, toy_problem
from memory import without_proc
from nodegp import GraphGPClassifier
from nodegp.budget import budget
from nodegp.gains import SiteGains
from nodegp.inducing import Labelled, Points
from nodegp.inference import Dual
from nodegp.kernels import RBF, Linear
from nodegp.likelihoods import RobustMax, Softmax
from packages import run_code

GRAPH = random_graph(40, seed=4)
Y = hide(smooth_classes(GRAPH, 5), np.arange(0, 40, 2))


@pytest.fixture
def few_at_a_time(monkeypatch):
    """Two latents of some ten or twenty inducing variables."""
    monkeypatch.setattr(budget, "fit", 100)
    monkeypatch.setattr(budget, "passing", 900)


@pytest.mark.parametrize("likelihood", [Softmax(), RobustMax()], ids=lambda item: item.alias)
@pytest.mark.parametrize("inducing", [Labelled(), Points(6)], ids=["labelled", "points"])
def test_a_fit_in_blocks_of_latents_is_the_whole(likelihood, inducing, request):
    """Gradients included: the hyper-parameters, and the points, are learnt."""
    whole = Dual().fit(toy_problem(likelihood, inducing, RBF()), quiet)
    request.getfixturevalue("few_at_a_time")
    fit = Dual().fit(toy_problem(likelihood, inducing, RBF()), quiet)
    # Whatever is summed over latents differs in its last digit, and so where the climb ends.
    assert fit.elbo == pytest.approx(whole.elbo, abs=1e-5)
    for name, value in whole.posterior.prior.parameters().items():
        assert fit.posterior.prior.parameters()[name] == pytest.approx(value, rel=1e-3)
    for a, b in zip(fit.label_marginals, whole.label_marginals, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kernel", [RBF(2.0, 0.8), Linear(2.0)], ids=["rbf", "linear"])
@pytest.mark.parametrize("inducing", ["labelled", Points(18)], ids=["labelled", "points"])
def test_predictions_files_and_updates_of_gains_that_are_made(
    kernel, inducing, tmp_path, few_at_a_time, monkeypatch
):
    kernel = kernel.learn()
    model = GraphGPClassifier(kernel=kernel, inducing=inducing, random_state=0).fit(GRAPH, Y)
    assert isinstance(model.posterior_.gain, SiteGains)
    model.save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model")
    assert isinstance(loaded.posterior_.gain, SiteGains)
    nodes = [1, 5, 7]
    more = nodes, smooth_classes(GRAPH, 5)[nodes]

    def answers(model):
        return [
            model.predict_proba(),
            *model.predict_latent(),
            *model.predict_latent(nodes=nodes, cov=True),
        ]

    in_blocks = answers(model)
    for a, b in zip(answers(loaded), in_blocks, strict=True):
        np.testing.assert_array_equal(a, b)
    updated = answers(model.update(*more))
    monkeypatch.undo()
    whole = GraphGPClassifier(kernel=kernel, inducing=inducing, random_state=0).fit(GRAPH, Y)
    assert isinstance(whole.posterior_.gain, torch.Tensor)
    for a, b in zip(in_blocks, answers(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)
    for a, b in zip(updated, answers(whole.update(*more)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


@without_proc
def test_many_classes_take_no_matrix_of_labels_for_each():
    """Peak memory of a fit with its gradients, leave-one-out and predictions."""
    code = """
import numpy as np
from nodegp import Graph, GraphGPClassifier
from nodegp.budget import budget
from nodegp.inference import Dual
from memory import mebibytes
from nodegp.kernels import RBF

def model(n_classes, n_labels):
    y = np.arange(2 * n_labels) % n_classes
    X = np.random.default_rng(0).standard_normal((n_classes, 8))[y]
    edges = np.stack([np.arange(n_labels), n_labels + np.arange(n_labels)], 1)
    graph = Graph.from_edges(edges, features=X)
    known = np.where(np.arange(2 * n_labels) < n_labels, y, -1)
    model = GraphGPClassifier(kernel=RBF(fixed=("variance",)), engine=Dual(tol=0.5, max_iter=1))
    model.fit(graph, known).predict_proba()

budget.fit = budget.passing = 1 << 20
model(4, 20)
before = mebibytes("VmHWM")
model(150, 250)
print((mebibytes("VmHWM") - before) * 2**20 / (8 * 150 * 250**2))
"""
    used = float(run_code(code, options=("-W", "ignore")))
    assert used < 1.7, "arrays of (classes, labels, labels) at once"
