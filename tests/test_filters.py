"""Filters: the paper's mean over neighbours, and a contract that every filter must keep."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from conftest import concrete, dense, random_graph
from helpers import raw_domain
from nodegp.filters import (
    AdditiveFilter,
    Chebyshev,
    Diffusion,
    Filter,
    Identity,
    InverseCosine,
    MaternFilter,
    NeighbourMean,
    PageRank,
    Propagation,
    RandomWalk,
    RegularisedLaplacian,
    Spectral,
)
from nodegp.graph import Graph
from nodegp.kernels import RBF, Constant, Cosine, Linear
from nodegp.prior import FilteredFunction, WeightedRows, make_prior, whole
from nodegp.rows import Rows

# Every filter class, with the settings to test it in. A new filter must be added here.
FILTERS = {
    NeighbourMean: [NeighbourMean()],
    Identity: [Identity()],
    PageRank: [PageRank(0.2), PageRank(0.2, on="function", order=4)],
    Propagation: [Propagation(), Propagation(3, averaged=True)],
    RegularisedLaplacian: [RegularisedLaplacian(), RegularisedLaplacian(averaged=True)],
    Diffusion: [Diffusion(), Diffusion(2.0, on="function", averaged=True)],
    RandomWalk: [RandomWalk(), RandomWalk(3, 2.5, on="function")],
    InverseCosine: [InverseCosine(self_loops=True)],
    MaternFilter: [MaternFilter()],
    Chebyshev: [Chebyshev(), Chebyshev((0.5, 1.0, 1.5), on="function")],
}
TELLING = RBF()  # any two inputs apart
ALL = [pytest.param(f, id=repr(f)) for instances in FILTERS.values() for f in instances]


def prior_of(filter_, graph, kernel=TELLING):
    return make_prior(filter_, kernel, raw_domain(graph))


def inputs_of(filter_, graph, nodes=None):
    nodes = np.arange(graph.n_nodes) if nodes is None else np.asarray(nodes)
    return prior_of(filter_, graph).at(raw_domain(graph), nodes)


def covariance(filter_, graph, nodes=None):
    """Cov(h, h) at some nodes or all."""
    inputs = inputs_of(filter_, graph, nodes)
    return prior_of(filter_, graph).cov(inputs, inputs).numpy()


def images(inputs):
    """What the filter makes of the features themselves: W X."""
    return inputs.row_weights().toarray() @ dense(inputs.in_memory())


# --- contract -------------------------------------------------------------------------------


def test_no_filter_dodges_the_contract():
    plain = {cls for cls in concrete(Filter, "weights") if not issubclass(cls, AdditiveFilter)}
    assert plain - {Spectral} == set(FILTERS)  # sums have a contract of their own: test_filter_sums
    assert all(type(f) is cls for cls, instances in FILTERS.items() for f in instances)


@pytest.mark.parametrize("filter_", ALL)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
class TestContract:
    def test_shapes(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        inputs = inputs_of(filter_, graph, [3, 0, 3, 11])
        assert len(inputs) == 4
        weights = filter_.weights(graph, np.array([3, 0, 3, 11]))
        if weights is not None:
            assert isinstance(weights, sp.csr_array)
            assert weights.shape == (4, graph.n_nodes)
        assert inputs.row_weights().shape == (4, len(inputs.rows))
        assert np.isfinite(inputs.row_weights().data).all()
        assert images(inputs).shape == (4, graph.n_features)

    def test_no_nodes(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        nobody = np.zeros(0, dtype=np.intp)
        empty, every = inputs_of(filter_, graph, nobody), inputs_of(filter_, graph)
        prior = prior_of(filter_, graph)
        assert len(empty) == 0
        assert covariance(filter_, graph, nobody).shape == (0, 0)
        assert prior.cov(empty, every).shape == (0, 12)
        assert prior.var(empty).shape == (0,)
        assert whole(prior.cross(empty, every.materialise())).shape == (0, 12)
        assert whole(prior.cross(every, empty.materialise())).shape == (12, 0)

    def test_some_nodes_are_rows_of_all(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        nodes = np.array([7, 2, 2, 11, 0])
        some, every = inputs_of(filter_, graph, nodes), inputs_of(filter_, graph)
        np.testing.assert_allclose(images(some), images(every)[nodes], atol=1e-13)
        found, expected = covariance(filter_, graph, nodes), covariance(filter_, graph)
        np.testing.assert_allclose(found, expected[np.ix_(nodes, nodes)], atol=1e-13)

    def test_relabelled_graph_gives_relabelled_inputs(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        order = np.random.default_rng(5).permutation(graph.n_nodes)
        shuffled = Graph(graph.adjacency[order][:, order], graph.features[order])
        before, after = (images(inputs_of(filter_, g)) for g in (graph, shuffled))
        np.testing.assert_allclose(after, before[order], atol=1e-13)
        before, after = (covariance(filter_, g) for g in (graph, shuffled))
        np.testing.assert_allclose(after, before[np.ix_(order, order)], atol=1e-13)

    def test_isolated_nodes(self, filter_, weighted, sparse):
        """Alone with its own features, whatever the rest of the graph does."""
        graph = random_graph(weighted=weighted, sparse=sparse)
        alone = Graph(sp.csr_array((1, 1)), graph.features[11:12])
        assert graph.degrees[11] == 0
        np.testing.assert_allclose(
            images(inputs_of(filter_, graph, [11])), images(inputs_of(filter_, alone)), atol=1e-13
        )
        edgeless = Graph(sp.csr_array((12, 12)), graph.features)
        result = covariance(filter_, edgeless)
        assert np.isfinite(result).all()
        assert (result.diagonal() > 0).all()

    def test_take_and_materialise(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        inputs, prior = inputs_of(filter_, graph, [1, 5, 8, 11]), prior_of(filter_, graph)
        loaded = inputs.materialise()
        assert isinstance(loaded.rows, Rows)
        expected = prior.cov(inputs, inputs)
        np.testing.assert_allclose(prior.cov(loaded, loaded), expected, atol=1e-14)
        for source in (inputs, loaded):
            part = source.take(np.array([2, 0, 2]))
            assert isinstance(part.rows, Rows)
            np.testing.assert_allclose(images(part), images(inputs)[[2, 0, 2]], atol=1e-14)
            touched = np.unique(part.row_weights().indices)
            assert len(touched) == len(part.rows), "rows that no set touches were kept"

    def test_without_features(self, filter_, weighted, sparse):
        graph = Graph(random_graph(weighted=weighted).adjacency)
        assert np.linalg.eigvalsh(covariance(filter_, graph)).min() > -1e-10

    def test_graph_is_not_changed(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        before = graph.adjacency.copy()
        images(inputs_of(filter_, graph))
        np.testing.assert_array_equal(graph.adjacency.data, before.data)
        np.testing.assert_array_equal(graph.adjacency.indices, before.indices)

    @pytest.mark.parametrize("n", [12, 90], ids=["few", "many"])
    @pytest.mark.parametrize("kernel", [Linear(0.7), Cosine() + Constant(), RBF()], ids=repr)
    def test_every_way_to_the_covariance(self, filter_, weighted, sparse, n, kernel):
        """Whole, in ranges, as factors, kept for other hyper-parameters, and as variances."""
        graph = random_graph(n, weighted=weighted, sparse=sparse)
        domain, nodes = raw_domain(graph), np.array([7, 2, 2, 11, 0])
        prior = prior_of(filter_, graph, kernel)
        every, others = prior.at(domain, np.arange(n)), prior.at(domain, nodes).materialise()
        loaded = every.materialise()
        expected = prior.cov(loaded, loaded)
        np.testing.assert_allclose(prior.cov(every, every), expected, atol=1e-12)
        np.testing.assert_allclose(prior.cov(every, others), expected[:, nodes], atol=1e-12)
        np.testing.assert_allclose(prior.cov(others, every), expected[nodes], atol=1e-12)
        np.testing.assert_allclose(prior.var(every), expected.diagonal(), atol=1e-12)
        np.testing.assert_allclose(prior.var(others), expected.diagonal()[nodes], atol=1e-12)
        for source in (every, loaded):
            cross = prior.cross(source, others)
            assert len(cross) == n
            np.testing.assert_allclose(whole(cross), expected[:, nodes], atol=1e-12)
            np.testing.assert_allclose(
                cross.block(slice(3, 9)), expected[3:9][:, nodes], atol=1e-12
            )
            factors = cross.factors()
            if factors is not None:
                product = factors.left(slice(3, 9)) @ factors.right.mT
                np.testing.assert_allclose(product, expected[3:9][:, nodes], atol=1e-12)
        doubled = prior.with_parameters({p: 2.0 * v for p, v in prior.free_parameters().items()})
        at_doubled = doubled.freeze(doubled.to_learn(domain, nodes))
        learnt = prior.to_learn(domain, nodes)
        between, alone = prior.cached_cov(learnt, learnt), prior.cached_var(learnt)
        for asked, inputs in ((prior, others), (doubled, at_doubled)):
            found = asked.cov(inputs, inputs)
            np.testing.assert_allclose(between(asked), found, atol=1e-11)
            np.testing.assert_allclose(alone(asked), found.diagonal(), atol=1e-11)


# --- the paper's filter ---------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_neighbour_mean_is_the_random_walk_matrix(weighted):
    """P = (I + D)^-1 (I + A), densely (Eq. 11)."""
    graph = random_graph(20, 0.2, weighted=weighted)
    A = graph.adjacency.toarray()
    identity = np.eye(20)
    P = np.linalg.inv(identity + np.diag(A.sum(axis=1))) @ (identity + A)
    weights = NeighbourMean().weights(graph, np.arange(20))
    np.testing.assert_allclose(weights.toarray(), P, atol=1e-14)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_neighbour_mean_is_the_loop(weighted):
    graph = random_graph(weighted=weighted)
    A, X = graph.adjacency.toarray(), graph.features
    expected = [reference.mean_embedding(lambda x: x, A, X, n) for n in range(graph.n_nodes)]
    np.testing.assert_allclose(images(inputs_of(NeighbourMean(), graph)), expected, atol=1e-14)


@given(
    n=st.integers(1, 15),
    p=st.floats(0, 1),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    data=st.data(),
)
def test_neighbour_mean_rows_sum_to_one(n, p, seed, weighted, data):
    graph = random_graph(n, p, 2, seed, weighted)
    nodes = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=20)), dtype=np.intp)
    rows = NeighbourMean().weights(graph, nodes)
    np.testing.assert_allclose(np.asarray(rows.sum(axis=1)).ravel(), 1.0, atol=1e-12)
    assert (rows.data > 0).all()


def test_inputs_touch_neighbourhoods_only():
    """The features of the rest of a large graph are never looked at."""
    n = 100_000
    ring = np.arange(n)
    links = sp.coo_array((np.ones(n), (ring, (ring + 1) % n)), shape=(n, n))
    inputs = inputs_of(NeighbourMean(), Graph(links, sp.csr_array((n, 3))), [10, 11, 5000])
    assert len(inputs.rows) == 4 + 3
    assert inputs.weights.shape == (3, 7)


def test_identity_uses_no_edges():
    graph = random_graph()
    inputs = inputs_of(Identity(), graph, [4, 2])
    assert inputs.weights is None
    np.testing.assert_array_equal(images(inputs), graph.features[[4, 2]])


def test_points_are_sets_of_one():
    points = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    prior = FilteredFunction(RBF(2.0), NeighbourMean())
    for inputs in (WeightedRows(None, Rows(points)), prior.points(points)):
        assert len(inputs) == 3
        np.testing.assert_array_equal(inputs.row_weights().toarray(), np.eye(3))
        np.testing.assert_array_equal(images(inputs), points.numpy())
        np.testing.assert_allclose(prior.var(inputs).numpy(), [2.0, 2.0, 2.0])
        np.testing.assert_array_equal(images(inputs.take(np.array([2]))), points.numpy()[[2]])
