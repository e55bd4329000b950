"""Sums of filters and several kinds of edges: against their dense definition, and what they say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nodegp
from helpers import hide, random_graph, raw_domain, rbf, smooth_classes
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.filters import (
    Diffusion,
    Identity,
    NeighbourMean,
    PageRank,
    Propagation,
    Relations,
    SumOfFilters,
)
from nodegp.inducing import Points
from nodegp.kernels import RBF, Linear
from nodegp.prior import SumInputs, SumPrior, make_prior, whole

GRAPH = random_graph(30, seed=5)
TRUTH = smooth_classes(GRAPH)
Y = hide(TRUTH, np.arange(0, 30, 2))
HOPS = SumOfFilters((Identity(), NeighbourMean(), Propagation(2)))


def test_covariance_is_the_sum_of_independent_functions():
    nodes = np.array([3, 0, 11])
    kernels = tuple(RBF(v, s) for v, s in ((1.0, 1.0), (2.0, 0.5), (0.3, 2.0)))
    domain = raw_domain(GRAPH)
    prior = make_prior(HOPS, kernels, domain)
    assert isinstance(prior, SumPrior)
    inputs = prior.at(domain, nodes)
    assert isinstance(inputs, SumInputs)
    found = prior.cov(inputs, inputs).numpy()
    X, eye = GRAPH.features, np.eye(30)
    A = GRAPH.adjacency.toarray()
    P = (A + eye) / (A + eye).sum(1, keepdims=True)
    root = np.diag((A + eye).sum(1) ** -0.5)
    S = root @ (A + eye) @ root
    expected = rbf(X, X, 1.0, 1.0)
    expected = expected + P @ rbf(X, X, 2.0, 0.5) @ P.T  # on the function
    expected = expected + rbf(S @ S @ X, S @ S @ X, 0.3, 2.0)  # on the features
    assert found == pytest.approx(expected[np.ix_(nodes, nodes)], abs=1e-6)
    assert prior.var(inputs).numpy() == pytest.approx(np.diag(found))
    variances = [part.numpy() for part in prior.variances(inputs)]
    assert variances[1] == pytest.approx(np.diag(P @ rbf(X, X, 2.0, 0.5) @ P.T)[nodes])
    everyone = prior.at(domain, np.arange(30))
    across = whole(prior.cross(everyone, inputs.materialise())).numpy()
    assert across == pytest.approx(expected[:, nodes], abs=1e-6)
    halved = prior.with_parameters({"parts[1].kernel.variance": 1.0})
    learning = prior.to_learn(domain, nodes)
    cached = prior.cached_cov(learning, learning), prior.cached_var(learning)
    assert cached[0](prior).numpy() == pytest.approx(found)
    assert cached[0](halved).numpy() == pytest.approx(halved.cov(inputs, inputs).numpy())
    assert cached[1](halved).numpy() == pytest.approx(halved.var(inputs).numpy())
    assert halved.var(inputs).numpy() == pytest.approx(np.diag(found) - variances[1] / 2)
    part = inputs.take(np.array([2, 2]))
    assert prior.cov(part, inputs).numpy() == pytest.approx(found[[2, 2]])


def test_a_sum_of_one_is_that_one():
    alone = GraphGPClassifier(kernel=Linear(2.0), filter="mean", likelihood="softmax").fit(GRAPH, Y)
    summed = GraphGPClassifier(
        kernel=Linear(2.0), filter=SumOfFilters((NeighbourMean(),)), likelihood="softmax"
    )
    summed.fit(GRAPH, Y)
    assert summed.elbo_ == pytest.approx(alone.elbo_, abs=1e-6)
    assert summed.predict_proba() == pytest.approx(alone.predict_proba(), abs=1e-6)


@pytest.mark.parametrize(
    "filter", [HOPS, SumOfFilters((Identity(), Diffusion(1.0)))], ids=["held", "learnt"]
)
@pytest.mark.parametrize("likelihood", ["robustmax", "softmax"])
def test_everything_a_model_does(filter, likelihood, tmp_path):
    model = GraphGPClassifier(
        kernel=Linear(2.0), filter=filter, likelihood=likelihood, random_state=0
    )
    model.fit(GRAPH, Y)
    shares = model.term_shares_
    assert len(shares) == len(filter.filters)
    assert sum(shares.values()) == pytest.approx(1.0)
    found = model.explain(3)
    mean = model.predict_latent(nodes=[3])[0][0]
    assert found.from_labels.sum(0) + found.common + found.rest == pytest.approx(mean)
    assert found.from_neighbours.sum(0) == pytest.approx(mean)
    model.save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model")
    larger = random_graph(34, seed=5)
    assert loaded.predict_proba(larger) == pytest.approx(model.predict_proba(larger), abs=1e-12)
    assert loaded.term_shares_ == pytest.approx(shares)
    updated = loaded.update([1, 3], TRUTH[[1, 3]])
    fresh = GraphGPClassifier(
        kernel=Linear(2.0), filter=filter, likelihood=likelihood, random_state=0
    )
    fresh.fit(GRAPH, hide(TRUTH, np.union1d(np.arange(0, 30, 2), [1, 3])))
    if likelihood == "softmax":  # robust-max has several optima, and the two may differ in theirs
        assert updated.elbo_ == pytest.approx(fresh.elbo_, abs=0.1)
    whole = model.predict_latent(nodes=[4, 7], cov=True)[1]
    variances = np.diagonal(whole, axis1=1, axis2=2).T
    assert variances == pytest.approx(model.predict_latent(nodes=[4, 7])[1])


def test_a_new_class_comes_into_a_sum_with_learnt_filters():
    """It was taken for a first fit: the filter was reset, and the kernel refused."""
    y = np.where(TRUTH == 2, 0, TRUTH)
    filter = SumOfFilters((Identity(), Diffusion(1.0)))
    model = GraphGPClassifier(
        kernel=Linear(2.0), filter=filter, likelihood="softmax", random_state=0
    )
    model.fit(GRAPH, hide(y, np.arange(0, 30, 2)))
    start = dict(model.model_.diagnostics.start)
    model.update(np.flatnonzero(TRUTH == 2)[:3], [2, 2, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.model_.diagnostics.start == start
    assert model.filter_.filters[1].time != 1.0


def test_a_kernel_for_each_function():
    kernels = (RBF(1.0, 2.0), Linear(0.5), Linear(2.0, fixed=("variance",)))
    model = GraphGPClassifier(kernel=kernels, filter=HOPS, likelihood="softmax").fit(GRAPH, Y)
    assert isinstance(model.kernel_, tuple)
    assert [type(kernel) for kernel in model.kernel_] == [RBF, Linear, Linear]
    assert model.kernel_[2].variance == 2.0
    assert set(model.prior_.free_parameters()) == {
        "parts[0].kernel.variance",
        "parts[0].kernel.lengthscale",
        "parts[1].kernel.variance",
    }


def opposites(seed, homophilous):
    """Two classes with telling features; edges join equals, or opposites."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 5)) + 0.8 * (2 * y[:, None] - 1)
    same = y[:, None] == y[None, :]
    A = np.triu(rng.random((200, 200)) < np.where(same == homophilous, 0.06, 0.002), 1)
    return Graph((A + A.T).astype(float), X), y


@pytest.mark.parametrize("homophilous", [True, False])
def test_the_shares_say_whether_neighbours_are_alike(homophilous):
    graph, y = opposites(0, homophilous)
    filter = SumOfFilters((Identity(), PageRank(0.1, fixed=("strength",))))
    shown = hide(y, np.arange(40))
    model = GraphGPClassifier(kernel=Linear(2.0), filter=filter, likelihood="softmax").fit(
        graph, shown
    )
    own, far = model.term_shares_.values()
    assert (far > own) == homophilous
    alone = GraphGPClassifier(kernel=Linear(2.0), filter="identity", likelihood="softmax")
    rest = hide(y, np.arange(40, 200))
    assert model.score(graph, rest) > alone.fit(graph, shown).score(graph, rest) - 0.03


# --- several kinds of edges -----------------------------------------------------------------------


def test_a_graph_of_several_kinds():
    A, B = random_graph(8, seed=1).adjacency, random_graph(8, seed=2).adjacency
    X = np.arange(16.0).reshape(8, 2)
    graph = Graph({"cites": A, "met": 2 * B}, X, ids=list("abcdefgh"))
    assert set(graph.relations) == {"cites", "met"}
    assert (graph.adjacency != A.maximum(2 * B)).nnz == 0
    assert graph.relation("cites") is graph.relation("cites")
    assert (graph.relation("met").adjacency != 2 * B).nnz == 0
    part = graph.subgraph([4, 2, 1])
    assert (part.relation("cites").adjacency != A[[4, 2, 1]][:, [4, 2, 1]]).nnz == 0
    with pytest.raises(ValueError, match="no edges of kind 'knows'"):
        graph.relation("knows")
    with pytest.raises(ValueError, match="same nodes"):
        Graph({"a": A, "b": sp.csr_array((3, 3))})
    with pytest.raises(ValueError, match="at least one"):
        Graph({})


def test_which_kind_of_edges_mattered(tmp_path):
    graph, y = opposites(1, True)
    noise = random_graph(200, seed=9, p=0.03).adjacency
    both = Graph({"alike": graph.adjacency, "chance": noise}, graph.features)
    shown, rest = hide(y, np.arange(40)), hide(y, np.arange(40, 200))
    model = GraphGPClassifier(kernel=Linear(2.0), filter=Relations(), likelihood="softmax").fit(
        both, shown
    )
    shares = model.term_shares_
    assert set(shares) == {"features", "alike", "chance"}
    assert shares["alike"] == max(shares.values())
    assert shares["chance"] < 0.2
    mixed = GraphGPClassifier(kernel=Linear(2.0), filter="pagerank", likelihood="softmax")
    assert model.score(both, rest) > mixed.fit(both, shown).score(both, rest) - 0.02
    model.save(tmp_path / "model", include_graph=True)
    again = nodegp.load(tmp_path / "model").predict_proba()
    assert again == pytest.approx(model.predict_proba(), abs=1e-12)
    with pytest.raises(ValueError, match="one kind of edges only"):
        GraphGPClassifier(filter=Relations()).fit(graph, shown)


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="tuple of filters"):
        SumOfFilters(())
    with pytest.raises(ValueError, match="one sum"):
        SumOfFilters((HOPS, Identity()))
    with pytest.raises(ValueError, match="stay as"):
        Relations(PageRank(0.1))
    with pytest.raises(ValueError, match="sums 3 functions here"):
        make_prior(HOPS, (RBF(), RBF()), raw_domain(GRAPH))
    with pytest.raises(ValueError, match="sums 3 functions here"):
        GraphGPClassifier(kernel=(RBF(), RBF()), filter=HOPS).fit(GRAPH, Y)
    with pytest.raises(ValueError, match="kernel must be a Kernel"):
        GraphGPClassifier(kernel=(RBF(), RBF()), filter="mean").fit(GRAPH, Y)
    prior = make_prior(HOPS, RBF(), raw_domain(GRAPH))
    of_one_part = prior.parts[0].at(raw_domain(GRAPH), np.arange(3))
    with pytest.raises(TypeError, match="inputs of a prior of another kind"):
        prior.var(of_one_part)
    with pytest.raises(ValueError, match="inducing='labelled'"):
        GraphGPClassifier(filter=HOPS, inducing=Points(5)).fit(GRAPH, Y)
    with pytest.raises(AttributeError, match="no sum of filters"):
        _ = GraphGPClassifier(filter="identity").fit(GRAPH, Y).term_shares_


def test_regression_and_a_kernel_without_a_scale():
    target = np.where(Y >= 0, GRAPH.features[:, 0], np.nan)
    assert np.isfinite(GraphGPRegressor(filter=HOPS).fit(GRAPH, target).predict()).all()
    prior = make_prior(HOPS, Linear(1.0, fixed=("variance",)), raw_domain(GRAPH))
    assert len(prior.free_parameters()) == 3  # each term is scaled all the same
