"""The two earlier Gaussian processes on graphs, each against its formula written another way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

import nodegp
from helpers import (
    hide,
    laplacian,
    one_hop,
    rbf,
    smooth_classes,
    weighted_graph,
)
from nodegp import Graph
from nodegp.filters import Identity
from nodegp.inducing import LabelledProjector
from nodegp.kernels import RBF, Linear, Polynomial
from nodegp.likelihoods import Gaussian, RobustMax
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain, FilteredFunction
from nodegp_paper.baselines import (
    LabelPropagation,
    MixedGraphGP,
    RelationalGP,
    latent,
    rgp,
    xgp,
)
from nodegp_paper.baselines.latent import Nodes

PATH = sp.diags_array([np.ones(4), np.ones(4)], offsets=[1, -1])  # 0 - 1 - 2 - 3 - 4
GRAPH = weighted_graph()
TRUTH = smooth_classes(GRAPH)
SHOWN = np.arange(0, 24, 2)
DOMAIN = Domain(GRAPH, Preprocessor.fit(GRAPH.features))
Y = hide(TRUTH, SHOWN)


# --- a covariance that is stated --------------------------------------------------------------


@dataclass(frozen=True)
class Stated(latent.NodePrior):
    """A covariance matrix of all nodes, without hyper-parameters."""

    K: torch.Tensor

    def cov(self, a, b) -> torch.Tensor:
        return self.K[np.ix_(a.numbers, b.numbers)]

    def var(self, a) -> torch.Tensor:
        return self.K.diagonal()[a.numbers]


def regress(K: np.ndarray, labelled: np.ndarray, y: np.ndarray, noise: float):
    """Mean and variance at all nodes, by the package's inference."""
    prior, rng = Stated(torch.tensor(K)), np.random.default_rng(0)
    likelihood = Gaussian(noise, fixed=("noise",))
    fit = latent.fit(prior, DOMAIN, labelled, y, likelihood, 1, rng)
    mean, var = fit.posterior.marginals(Nodes(np.arange(len(K))))
    return mean[:, 0].numpy(), var[:, 0].numpy()


@pytest.mark.parametrize("whitened", [False, True])
def test_a_stated_covariance_gives_exact_regression(monkeypatch, whitened):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(24, 24))
    K, y = root @ root.T / 24, rng.normal(size=12)
    if whitened:
        plain = LabelledProjector.__call__
        monkeypatch.setattr(LabelledProjector, "__call__", lambda *a: plain(*a).whitened())
    mean, var = regress(K, SHOWN, y, 0.1)
    inverse = np.linalg.inv(K[np.ix_(SHOWN, SHOWN)] + 0.1 * np.eye(12))
    np.testing.assert_allclose(mean, K[:, SHOWN] @ inverse @ y, atol=1e-6)
    expected = np.diag(K - K[:, SHOWN] @ inverse @ K[SHOWN])
    np.testing.assert_allclose(var, expected, atol=1e-6)


def test_some_labels_are_projected_as_the_whole():
    root = np.random.default_rng(0).normal(size=(24, 24))
    prior, template = Stated(torch.tensor(root @ root.T)), torch.zeros(()).double()
    projector = LabelledProjector(prior, Nodes(SHOWN), template)
    whole = projector(prior, None).whitened()
    some = projector.minibatch(prior, None, np.array([4, 1]))
    torch.testing.assert_close(some.W, whole.W[:, [4, 1]])
    torch.testing.assert_close(some.prior_var, whole.prior_var[[4, 1]])


@pytest.mark.parametrize("seed", range(3))
def test_label_propagation_is_regression_with_the_inverse_laplacian(seed):
    """Zhu, Lafferty and Ghahramani (2003): the harmonic solution is the posterior mean of a
    Gaussian process whose precision is the Laplacian, as the noise and what grounds it vanish."""
    graph = weighted_graph(seed=seed)
    truth = smooth_classes(graph, seed=seed)
    y = hide(truth, np.arange(0, 24, 3))
    propagated = LabelPropagation(mass_normalisation=False).fit(graph, y, classes=range(3)).proba_
    labelled = np.flatnonzero(y >= 0)
    _, component = connected_components(graph.adjacency)
    reached = np.isin(component, component[labelled])
    assert reached.sum() > len(labelled)
    K = np.linalg.inv(laplacian(graph) + 1e-6 * np.eye(24))
    for c in range(3):
        one_hot = (y[labelled] == c).astype(float)
        direct = K[:, labelled] @ np.linalg.solve(
            K[np.ix_(labelled, labelled)] + 1e-6 * np.eye(len(labelled)), one_hot
        )
        np.testing.assert_allclose(direct[reached], propagated[reached, c], atol=1e-4)
        mean, _ = regress(K, labelled, one_hot, 1e-6)
        np.testing.assert_allclose(mean[reached], propagated[reached, c], atol=1e-4)


# --- the relational Gaussian process ----------------------------------------------------------


def kernel_matrix(graph: Graph) -> np.ndarray:
    """The Gaussian kernel on features that are standardised as the package does."""
    X = (graph.features - graph.features.mean(axis=0)) / graph.features.std(axis=0)
    X /= np.sqrt(X.shape[1])
    return rbf(X, X, 1.0, 1.0)


def conditioned_edge_by_edge(K: np.ndarray, graph: Graph, precision: float) -> np.ndarray:
    """Each edge observes its two ends to differ by zero, with variance 1 / (precision w)."""
    for i, j in zip(*sp.triu(graph.adjacency).nonzero(), strict=True):
        across = K[:, i] - K[:, j]
        noise = 1.0 / (precision * graph.adjacency[i, j])
        K = K - np.outer(across, across) / (across[i] - across[j] + noise)
    return K


@pytest.mark.parametrize("precision", [0.03, 1.0, 40.0])
def test_edges_are_conditioned_on(precision):
    expected = conditioned_edge_by_edge(kernel_matrix(GRAPH), GRAPH, precision)
    prior = rgp.ConditionedOnEdges(rgp.Directions.of(DOMAIN, RBF()), precision)
    everyone, labelled = Nodes(np.arange(24)), Nodes(SHOWN)
    K = prior.cov(everyone, labelled)
    np.testing.assert_allclose(K, expected[:, SHOWN], atol=1e-6)
    np.testing.assert_allclose(prior.cov(labelled, labelled), K[SHOWN], atol=1e-9)
    np.testing.assert_allclose(prior.cached_cov(labelled, labelled)(prior), K[SHOWN], atol=1e-9)
    nodes = np.array([7, 3])
    np.testing.assert_allclose(prior.var(Nodes(nodes)), np.diag(expected)[nodes], atol=1e-6)


def test_without_edges_it_is_an_ordinary_gaussian_process():
    graph = Graph(np.zeros((24, 24)), GRAPH.features)
    relational = RelationalGP().fit(graph, Y)
    plain = one_hop(kernel=RBF().learn(), filter="identity", calibrate=False).fit(graph, Y)
    np.testing.assert_allclose(relational.proba_, plain.predict_proba(), atol=1e-3)


def test_the_precision_is_learnt():
    start, learnt = (RelationalGP(learn=learn).fit(GRAPH, Y) for learn in (False, True))
    assert start.precision_ == 1.0
    assert abs(np.log(learnt.precision_)) > 0.1
    assert learnt.elbo_ > start.elbo_ + 0.01
    there = RelationalGP(precision=learnt.precision_, learn=False).fit(GRAPH, Y)
    assert there.elbo_ == pytest.approx(learnt.elbo_, abs=1e-3)


def test_graphs_beyond_a_size_are_refused(monkeypatch):
    monkeypatch.setattr(rgp, "_LARGEST", 20)
    with pytest.raises(ValueError, match=r"at most 20 of them, this graph has 24.*subgraph"):
        RelationalGP().fit(GRAPH, Y)


# --- the mixed-graph Gaussian process ---------------------------------------------------------


def cliques_by_brute_force(graph: Graph) -> set[frozenset[int]]:
    """Every set of nodes is looked at, as the bits of a number."""
    n_nodes = graph.n_nodes
    near = [sum(1 << int(j) for j in graph.adjacency[[i]].indices) for i in range(n_nodes)]
    complete = [True] * (1 << n_nodes)
    for nodes in range(1, 1 << n_nodes):
        last = nodes.bit_length() - 1
        rest = nodes ^ (1 << last)
        complete[nodes] = complete[rest] and rest & ~near[last] == 0
    maximal = [
        nodes
        for nodes in range(1, 1 << n_nodes)
        if complete[nodes] and not any(nodes & ~linked == 0 for linked in near)
    ]
    return {frozenset(i for i in range(n_nodes) if nodes >> i & 1) for nodes in maximal}


@given(n_nodes=st.integers(1, 12), density=st.floats(0, 1), seed=st.integers(0, 10_000))
@example(n_nodes=12, density=0.5, seed=0)
def test_cliques_against_brute_force(n_nodes, density, seed):
    upper = np.triu(np.random.default_rng(seed).random((n_nodes, n_nodes)) < density, 1)
    graph = Graph(upper.astype(float))
    cliques = [frozenset(clique) for clique in xgp.maximal_cliques(graph)]
    assert len(cliques) == len(set(cliques))
    assert set(cliques) == cliques_by_brute_force(graph)


def test_common_causes_by_hand():
    # A triangle 0, 1, 2, an edge from 2 to 3, and 4 alone: causes {012}, {23} and {4}.
    adjacency = np.zeros((5, 5))
    for i, j, weight in [(0, 1, 1.0), (0, 2, 2.0), (1, 2, 3.0), (2, 3, 4.0)]:
        adjacency[i, j] = weight
    graph = Graph(adjacency)
    acting = xgp.clique_causes(graph).toarray()
    h = np.sqrt(0.5)
    U = [[1, 1, h, 0, 0], [1, 1, h, 0, 0], [h, h, 1, h, 0], [0, 0, h, 1, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_allclose(acting @ acting.T, U)
    # One cause to an edge: correlations w_ij / sqrt(d_i d_j), with degrees 3, 4, 9 and 4.
    acting = xgp.edge_causes(graph).toarray()
    expected = np.eye(5)
    degrees = [3, 4, 9, 4, 0]
    for i, j in [(0, 1), (0, 2), (1, 2), (2, 3)]:
        expected[i, j] = expected[j, i] = adjacency[i, j] / np.sqrt(degrees[i] * degrees[j])
    np.testing.assert_allclose(acting @ acting.T, expected, atol=1e-12)


@pytest.mark.parametrize("causes", xgp.CAUSES)
@pytest.mark.parametrize("kernel", [RBF(), Linear(2.0), Polynomial(3, 1.0, 5.0)])
def test_errors_are_mixed_as_stated(causes, kernel):
    acting = {"cliques": xgp.clique_causes, "edges": xgp.edge_causes}[causes](GRAPH)
    preprocessor = Preprocessor.fit(GRAPH.features)
    domain = Domain(GRAPH, preprocessor)
    X = domain.rows.take(np.arange(24)).values.numpy()
    G = X @ X.T
    K = {
        RBF: lambda: rbf(X, X, 1.0, 1.0),
        Linear: lambda: 2.0 * G,
        Polynomial: lambda: (G + 5.0) ** 3,
    }[type(kernel)]()
    features, causes_of = FilteredFunction(kernel, Identity()), xgp.Causes(domain, acting)
    prior = xgp.CommonCauses(features, causes_of, odds=3.0)  # v = 3/4
    assert prior.share == 0.75
    expected = K + 0.75 * (acting @ acting.T).toarray() + 0.25 * np.eye(24)
    labelled = Nodes(SHOWN)
    found = prior.cov(Nodes(np.arange(24)), labelled)
    np.testing.assert_allclose(found, expected[:, SHOWN], atol=1e-9)
    within = expected[np.ix_(SHOWN, SHOWN)]
    np.testing.assert_allclose(prior.cov(labelled, labelled), within, atol=1e-9)
    # What a fit keeps serves other odds too.
    cached = xgp.CommonCauses(features, causes_of).cached_cov(labelled, labelled)
    np.testing.assert_allclose(cached(prior), within, atol=1e-9)
    np.testing.assert_allclose(prior.var(labelled), np.diag(expected)[SHOWN], atol=1e-9)
    assert np.linalg.eigvalsh(expected).min() > 0.2


def test_a_linked_label_moves_a_node_that_features_say_nothing_of():
    graph = Graph(PATH, np.ones((5, 2)))
    proba = MixedGraphGP().fit(graph, [0, -1, -1, -1, 1]).predict_proba()
    assert proba[1, 0] > 0.55
    assert proba[3, 1] > 0.55
    assert proba[2, 0] == pytest.approx(0.5, abs=1e-3)


def test_what_is_free_in_the_kernel_is_learnt():
    model = MixedGraphGP(RBF()).fit(GRAPH, Y)
    fixed = MixedGraphGP().fit(GRAPH, Y)
    assert 0 < fixed.share_ < 1
    assert fixed.kernel_ == RBF().learn()
    assert model.kernel_ != RBF()
    assert model.elbo_ >= fixed.elbo_


def test_too_many_cliques_are_refused():
    # Twelve groups of three, all linked but within the group: 3^12 maximal cliques.
    adjacency = 1.0 - np.kron(np.eye(12), np.ones((3, 3)))
    graph = Graph(adjacency, np.random.default_rng(0).normal(size=(36, 2)))
    y = np.where(np.arange(36) < 6, np.arange(36) % 2, -1)
    with pytest.raises(ValueError, match="36 nodes and 594 edges has too many cliques"):
        MixedGraphGP().fit(graph, y)
    assert MixedGraphGP(causes="edges").fit(graph, y).predict_proba().shape == (36, 2)


def test_a_process_that_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(
        latent.inference, "Dual", lambda: nodegp.inference.dual.Dual(max_iter=1, max_steps=1)
    )
    prior = Stated(torch.eye(24).double())
    with pytest.warns(UserWarning, match="did not converge"):
        latent.fit(prior, DOMAIN, SHOWN, TRUTH[SHOWN], RobustMax(), 3, None)
