"""Stacked graph GPs: one layer is the ordinary model, and more of them do what is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

import nodegp
from helpers import FIXED_RBF, hide, random_graph, smooth_classes
from nodegp.filters import (
    Diffusion,
    Filter,
    Identity,
    NeighbourMean,
    PageRank,
    Propagation,
    SumOfFilters,
)
from nodegp.graph import Graph
from nodegp.inducing import Points
from nodegp.kernels import RBF, Kernel, Linear
from nodegp.likelihoods import Softmax
from nodegp.preprocessing import Preprocessing, Preprocessor
from nodegp.prior import Domain
from nodegp_paper.stacked import StackedGraphGPClassifier
from nodegp_paper.stacked.layers import Layer, draws, elbo
from nodegp_paper.stacked.spread import Spread

FILTERS: dict[str, Filter] = {
    "identity": Identity(),
    "mean": NeighbourMean(),
    "pagerank": PageRank(),
    "function": Diffusion(0.7, on="function"),
    "averaged": Diffusion(1.3, averaged=True),
    "discounted": PageRank(0.2, hub_discount=0.5),
}
SINGLE = 1e-6  # means of a softmax are in single precision
QUICK = {"width": 2, "n_inducing": 8, "max_iter": 12, "n_predictive": 4}


def layer(kernel: Kernel, n_points: int, d: int, width: int, shared: bool, seed: int = 0) -> Layer:
    """A layer with nothing at its start: any q, any points, any mean function."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(size=shape))

    made = Layer(kernel, normal(n_points, d), normal(d, width), learn_points=True, shared=shared)
    with torch.no_grad():
        made.q_mean.copy_(normal(*made.q_mean.shape))
        made.q_factor.add_(0.3 * normal(*made.q_factor.shape))
    return made


def variables(layers: list[Layer]) -> list[torch.Tensor]:
    return [variable for made in layers for variable in made.parameters()]


def xor_graph(n: int = 120) -> tuple[Graph, np.ndarray]:
    """Two classes in opposite quadrants, and a few edges within classes."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.2, 1.0, (n, 2)) * rng.choice([-1.0, 1.0], (n, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    # Links within a quadrant: across it, means would leave nothing to tell classes apart by.
    quadrant = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    same = quadrant[:, None] == quadrant[None]
    upper = np.triu(same & (rng.random((n, n)) < 0.03), 1)
    return Graph((upper + upper.T).astype(float), X), y


# --- one layer --------------------------------------------------------------------------------


def shallow_and_stacked(likelihood: str, **settings):
    graph = random_graph(40, seed=3)
    y = hide(smooth_classes(graph, seed=3), np.arange(0, 40, 2))
    common = {"kernel": FIXED_RBF, "filter": PageRank(0.3, fixed="strength")}
    common |= {"likelihood": likelihood, "random_state": 5}
    inducing = Points(10, optimise=False)
    shallow = nodegp.GraphGPClassifier(
        preprocessing=Preprocessing("raw", center=False),
        inducing=inducing,
        calibrate=False,
        **common,
    ).fit(graph, y)
    stacked = StackedGraphGPClassifier(
        1, preprocessing="raw", n_inducing=10, **common, **settings
    ).fit(graph, y)
    return graph, y, shallow, stacked


@pytest.mark.parametrize("likelihood", ["softmax", "robustmax"])
def test_the_bound_of_one_layer_is_the_ordinary_one(likelihood):
    graph, y, shallow, stacked = shallow_and_stacked(likelihood, max_iter=1)
    (only,) = stacked.layers_
    q = shallow.posterior_
    torch.testing.assert_close(only.points, q.inducing.rows.values)
    with torch.no_grad():
        only.q_mean.copy_(q.mean)
        only.q_factor.copy_(torch.linalg.cholesky(torch.eye(10) - q.gain))
        inputs, spreads = stacked._inputs(graph)
        drawn = stacked._draws(inputs, spreads, torch.from_numpy(stacked.labelled_))
        bound = elbo([only], stacked.likelihood_, torch.from_numpy(y[stacked.labelled_]), drawn)
    assert float(bound) == pytest.approx(shallow.elbo_, rel=1e-6)
    np.testing.assert_allclose(stacked.predict_proba(), shallow.predict_proba(), atol=1e-6)


def test_a_fit_of_one_layer_finds_the_ordinary_model():
    graph, _, shallow, stacked = shallow_and_stacked("softmax", max_iter=400, learning_rate=0.05)
    assert stacked.elbo_ == pytest.approx(shallow.elbo_, abs=0.01)
    assert stacked.elbo_ <= shallow.elbo_ + 1e-6
    np.testing.assert_allclose(stacked.predict_proba(graph), shallow.predict_proba(), atol=0.01)


# --- layers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_kl_is_that_of_torch(shared):
    made = layer(RBF(), 5, 3, 4, shared)
    expected = 0.0
    for w in range(4):
        factor = made.q_factor[0 if shared else w].tril()
        # The sign of a factor's column says nothing, and torch wants it positive.
        factor = factor * factor.diagonal().sign()
        q = MultivariateNormal(made.q_mean[w], scale_tril=factor)
        prior = MultivariateNormal(torch.zeros(5).double(), torch.eye(5).double())
        expected += float(kl_divergence(q, prior).detach())
    assert float(made.kl().detach()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("shared", [False, True])
def test_marginals_are_those_of_a_sparse_gp(shared):
    """Each input and function by itself, from q(u) and the conditional prior f | u."""
    kernel = RBF(1.3, 0.9)
    made = layer(kernel, 5, 3, 2, shared)
    inputs = torch.from_numpy(np.random.default_rng(1).normal(size=(7, 3)))
    with torch.no_grad():
        mean, var = (part.numpy() for part in made.marginals(made.see(inputs)))
    x, z = inputs.numpy(), made.points.detach().numpy()

    def k(a, b):
        return 1.3 * np.exp(-0.5 * ((a - b) ** 2).sum() / 0.9**2)

    K = np.array([[k(a, b) for b in z] for a in z])
    root = np.linalg.cholesky(K)
    for w in range(2):
        factor = made.q_factor[0 if shared else w].tril().detach().numpy()
        u_mean = root @ made.q_mean[w].detach().numpy()
        u_cov = root @ factor @ factor.T @ root.T
        for n in range(7):
            weights = np.linalg.solve(K, [k(x[n], b) for b in z])
            slope = made.mean_function[:, w].numpy()
            assert mean[n, w] == pytest.approx(x[n] @ slope + weights @ u_mean, abs=1e-6)
            conditional = k(x[n], x[n]) - weights @ K @ weights
            assert var[n, w] == pytest.approx(conditional + weights @ u_cov @ weights, abs=1e-6)


@pytest.mark.parametrize("name", FILTERS)
def test_spreading_is_a_product_with_the_filter(name):
    graph, filter = random_graph(seed=2), FILTERS[name]
    weights = filter.weights(graph, np.arange(graph.n_nodes))
    F = np.eye(graph.n_nodes) if weights is None else weights.toarray()
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(graph.n_nodes, 3))).requires_grad_()
    spread = Spread(filter, graph)(values)
    np.testing.assert_allclose(spread.detach(), F @ values.detach().numpy(), atol=1e-9)
    along = rng.normal(size=spread.shape)
    (gradient,) = torch.autograd.grad(spread, values, torch.from_numpy(along))
    np.testing.assert_allclose(gradient, F.T @ along, atol=1e-9)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_features_are_filtered_as_hidden_values_are(name, center, random_graph):
    graph = random_graph(sparse=True)
    domain = Domain(graph, Preprocessor.fit(graph.features, "l2", center))
    spread = Spread(FILTERS[name], graph)
    dense = graph.features.toarray()
    norms = np.linalg.norm(dense, axis=1, keepdims=True)
    dense = dense / np.where(norms > 0, norms, 1.0)
    dense = dense - dense.mean(axis=0) if center else dense
    torch.testing.assert_close(spread.features(domain), spread(torch.from_numpy(dense)))


# --- the bound --------------------------------------------------------------------------------


def tiny(filter: Filter):
    """Two layers on a path of three nodes, with labels at both ends."""
    path = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    X = torch.tensor([[0.3, -1.0], [0.8, 0.1], [-0.5, 0.7]], dtype=torch.float64)
    layers = [layer(RBF(4.0), 3, 2, 1, True), layer(RBF(6.0, 0.8), 3, 1, 2, False, seed=1)]
    return layers, X, [Spread(filter, Graph(path))], torch.tensor([0, 2]), torch.tensor([1, 0])


def sampled(layers, X, spreads, nodes, y, n_samples, seed):
    noise = torch.Generator().manual_seed(seed)
    return elbo(
        layers, Softmax(64), y, draws(layers, layers[0].see(X), spreads, nodes, n_samples, noise)
    )


def test_the_sampled_bound_is_unbiased():
    """Against quadrature: with the neighbourhood mean each end sees two hidden values."""
    layers, X, _, _, y = case = tiny(NeighbourMean())
    node, weight = np.polynomial.hermite_e.hermegauss(24)
    weights = torch.from_numpy(np.outer(weight, weight).ravel() / weight.sum() ** 2)
    sure = torch.ones(len(weights), dtype=torch.float64)
    with torch.no_grad():
        exact = -float(sum(made.kl() for made in layers))
        hidden = layers[0].marginals(layers[0].see(X))
        mean, sd = hidden.mean[:, 0].numpy(), hidden.var.sqrt()[:, 0].numpy()
        for end, label in zip([0, 2], y, strict=True):
            at_end, at_middle = (mean[n] + sd[n] * node for n in (end, 1))
            inputs = torch.from_numpy(np.add.outer(at_end, at_middle).reshape(-1, 1) / 2)
            top = layers[1].marginals(layers[1].see(inputs))
            fit = Softmax(64).expected_log_prob(label.expand(len(weights)), *top, sure)
            exact += float(weights @ fit)
        estimates = np.array([float(sampled(*case, 25, seed)) for seed in range(100)])
    error = estimates.std(ddof=1) / np.sqrt(len(estimates))
    assert error < 0.05  # or the next line would hardly be a test
    assert abs(estimates.mean() - exact) < 4 * error


@pytest.mark.parametrize("name", ["mean", "pagerank", "averaged"])
def test_gradients(name):
    layers, *rest = tiny(FILTERS[name])
    every = variables(layers)
    assert torch.autograd.gradcheck(lambda *_: sampled(layers, *rest, 2, 0), every, atol=1e-5)


# --- as it is used ----------------------------------------------------------------------------


def test_two_layers_learn_what_one_linear_layer_cannot():
    graph, y = xor_graph()
    shown = np.arange(0, len(y), 2)
    rest = np.delete(np.arange(len(y)), shown)
    settings = {"filter": "mean", "n_inducing": 20, "random_state": 0, "learning_rate": 0.05}
    one = StackedGraphGPClassifier(1, kernel=Linear(10.0), **settings)
    two = StackedGraphGPClassifier(
        2, width=2, kernel=(RBF(), Linear(10.0)), max_iter=200, **settings
    )
    accuracy = [
        (m.fit(graph, hide(y, shown)).predict()[rest] == y[rest]).mean() for m in (one, two)
    ]
    assert accuracy[0] < 0.75
    assert accuracy[1] > 0.9


def test_the_bound_rises():
    graph = random_graph(40, seed=1)
    model = StackedGraphGPClassifier(3, **(QUICK | {"max_iter": 100}), random_state=0)
    model.fit(graph, smooth_classes(graph, seed=1))
    assert len(model.elbo_trace_) == 5
    assert model.elbo_trace_[-1] > model.elbo_trace_[0] + 5
    assert model.elbo_ > model.elbo_trace_[0]


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_names_for_classes_and_probabilities(n_layers):
    graph = random_graph(seed=4)
    names = np.array(["ant", "bee", "cat"])[smooth_classes(graph, seed=4)]
    y = [name if n % 2 else None for n, name in enumerate(names)]
    model = StackedGraphGPClassifier(n_layers, **QUICK).fit(
        graph, y, classes=["ant", "bee", "cat", "dog"]
    )
    proba = model.predict_proba(graph)
    assert model.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert proba.shape == (graph.n_nodes, 4)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert model.predict(nodes=[2, 5]).tolist() == model.predict()[[2, 5]].tolist()
    assert 0 <= model.score(graph, names) <= 1
    np.testing.assert_allclose(model.predict_proba(nodes=[2, 5]), proba[[2, 5]], atol=SINGLE)
    assert [layer.points.requires_grad for layer in model.layers_] == [False, True, True][:n_layers]


def test_a_prediction_is_the_mean_over_draws():
    graph = random_graph(seed=9)
    model = StackedGraphGPClassifier(**QUICK, random_state=0).fit(graph, smooth_classes(graph))
    inputs, spreads = model._inputs(graph)
    with torch.no_grad():
        nodes = torch.arange(graph.n_nodes)
        each = [Softmax().predict(*drawn) for drawn in model._draws(inputs, spreads, nodes)]
    assert len(each) == QUICK["n_predictive"]
    assert float((each[0] - each[1]).abs().max()) > 1e-3
    np.testing.assert_allclose(model.predict_proba(), sum(each) / len(each), atol=1e-12)


def test_a_seed_settles_everything():
    graph = random_graph(seed=5)
    y = smooth_classes(graph, seed=5)
    fits = [
        StackedGraphGPClassifier(**QUICK, random_state=seed).fit(graph, y) for seed in (1, 1, 2)
    ]
    first, again, other = (model.predict_proba() for model in fits)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, fits[0].predict_proba())
    np.testing.assert_array_equal(fits[0].elbo_trace_, fits[1].elbo_trace_)
    assert np.abs(first - other).max() > 1e-3


def test_relabelling_the_nodes_relabels_the_answer():
    """With one layer: hidden values are drawn in the order of the nodes."""
    graph = random_graph(seed=6)
    y = smooth_classes(graph, seed=6)
    model = StackedGraphGPClassifier(1, **QUICK, random_state=0).fit(graph, y)
    order = np.random.default_rng(0).permutation(graph.n_nodes)
    shuffled = graph.subgraph(order)
    nodes = torch.arange(graph.n_nodes)
    with torch.no_grad():
        (before,), (after,) = (
            list(model._draws(*model._inputs(g), nodes)) for g in (graph, shuffled)
        )
    for was, now in zip(before, after, strict=True):  # means and variances
        np.testing.assert_allclose(now, was[order], atol=1e-9)
    np.testing.assert_allclose(
        model.predict_proba(shuffled), model.predict_proba()[order], atol=SINGLE
    )


def test_new_nodes_get_an_answer():
    graph = random_graph(seed=7)
    model = StackedGraphGPClassifier(
        **QUICK, preprocessing="raw", filter=Propagation(1), random_state=0
    ).fit(graph, smooth_classes(graph, seed=7))
    grown = np.zeros((26, 26))
    grown[:24, :24] = graph.adjacency.toarray()
    grown[24, 25] = grown[25, 24] = 1.0
    X = np.vstack([graph.features, np.ones((2, 3))])
    proba = model.predict_proba(Graph(grown, X))
    assert proba.shape == (26, 3)
    np.testing.assert_allclose(proba[24], proba[25], atol=SINGLE)


def test_a_graph_without_features():
    graph = Graph(random_graph(seed=8).adjacency)
    model = StackedGraphGPClassifier(**QUICK).fit(graph, smooth_classes(random_graph(seed=8)))
    assert model.preprocessing_ == "one-hot"
    assert np.isfinite(model.predict_proba()).all()
    with pytest.raises(ValueError, match="knows no others"):
        model.predict_proba(Graph(np.zeros((30, 30))))


def test_one_class_is_certain():
    graph = random_graph()
    for likelihood in ("softmax", "bernoulli"):
        model = StackedGraphGPClassifier(**QUICK, likelihood=likelihood).fit(graph, np.ones(24))
        np.testing.assert_array_equal(model.predict_proba(nodes=[3]), [[1.0]])


def test_progress(capsys):
    graph = random_graph()
    StackedGraphGPClassifier(**(QUICK | {"max_iter": 41}), verbose=1).fit(
        graph, smooth_classes(graph)
    )
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["20", "40", "41"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_layers": 0}, "n_layers must be a whole number"),
        ({"n_samples": 1.5}, "n_samples must be a whole number"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"kernel": [RBF()]}, "1 settings for 2 layers"),
        ({"kernel": "rbf"}, "kernel must be a Kernel"),
        ({"filter": "pagerange"}, "filter must be one of"),
        ({"filter": SumOfFilters((Identity(), PageRank()))}, "sums several functions"),
        ({"likelihood": nodegp.likelihoods.Gaussian()}, "is for regression"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    graph = random_graph()
    with pytest.raises(ValueError, match=message):
        StackedGraphGPClassifier(**settings).fit(graph, smooth_classes(graph))


def test_what_cannot_be_fitted():
    graph = random_graph()
    model = StackedGraphGPClassifier(**QUICK)
    for y, message in [
        (None, "requires y"),
        (np.zeros(3), "3 entries for 24 nodes"),
        (np.full(24, -1), "no labels at all"),
        (np.linspace(0.0, 1.0, 24), "continuous"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(graph, y)
    with pytest.raises(TypeError, match="got a ndarray"):
        model.fit(graph.features, smooth_classes(graph))
    assert not hasattr(model, "layers_")
