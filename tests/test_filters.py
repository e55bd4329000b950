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
from nodegp.covariance import covariance, variance
from nodegp.features import LazyRows, Preprocessor, Rows
from nodegp.filters import (
    Bags,
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
from nodegp.filters.hops import Summed
from nodegp.graph import Graph
from nodegp.kernels import RBF

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
ALL = [pytest.param(f, id=repr(f)) for instances in FILTERS.values() for f in instances]


def all_rows(graph: Graph) -> LazyRows:
    return Preprocessor.fit(graph.features, "raw").rows_of(graph.features, graph.n_nodes)


def bags_of(filter_, graph, nodes=None):
    nodes = np.arange(graph.n_nodes) if nodes is None else np.asarray(nodes)
    return filter_.bags(graph, all_rows(graph), nodes)


def prior(bags):
    """Cov(h, h) under a kernel that tells any two bags apart."""
    return covariance(RBF(), bags, bags).numpy()


def images(bags):
    """What the filter makes of the features themselves: W X."""
    rows = dense(bags.rows.take(np.arange(len(bags.rows))))
    return bags.row_weights().toarray() @ rows


# --- contract -------------------------------------------------------------------------------


def test_no_filter_dodges_the_contract():
    plain = {cls for cls in concrete(Filter, "weights") if not issubclass(cls, Summed)}
    assert plain - {Spectral} == set(FILTERS)  # sums have a contract of their own: test_hops
    assert all(type(f) is cls for cls, instances in FILTERS.items() for f in instances)


@pytest.mark.parametrize("filter_", ALL)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
class TestContract:
    def test_shapes(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        bags = bags_of(filter_, graph, [3, 0, 3, 11])
        assert len(bags) == 4
        weights = filter_.weights(graph, np.array([3, 0, 3, 11]))
        if weights is not None:
            assert isinstance(weights, sp.csr_array)
            assert weights.shape == (4, graph.n_nodes)
        assert bags.row_weights().shape == (4, len(bags.rows))
        assert np.isfinite(bags.row_weights().data).all()
        assert images(bags).shape == (4, graph.n_features)

    def test_no_nodes(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        bags = bags_of(filter_, graph, np.zeros(0, dtype=np.intp))
        assert len(bags) == 0
        assert prior(bags).shape == (0, 0)

    def test_some_nodes_are_rows_of_all(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        nodes = np.array([7, 2, 2, 11, 0])
        some, every = bags_of(filter_, graph, nodes), bags_of(filter_, graph)
        np.testing.assert_allclose(images(some), images(every)[nodes], atol=1e-13)
        np.testing.assert_allclose(prior(some), prior(every)[np.ix_(nodes, nodes)], atol=1e-13)

    def test_relabelled_graph_gives_relabelled_bags(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        order = np.random.default_rng(5).permutation(graph.n_nodes)
        shuffled = Graph(graph.adjacency[order][:, order], graph.features[order])
        before, after = bags_of(filter_, graph), bags_of(filter_, shuffled)
        np.testing.assert_allclose(images(after), images(before)[order], atol=1e-13)
        np.testing.assert_allclose(prior(after), prior(before)[np.ix_(order, order)], atol=1e-13)

    def test_isolated_nodes(self, filter_, weighted, sparse):
        """Alone with its own features, whatever the rest of the graph does."""
        graph = random_graph(weighted=weighted, sparse=sparse)
        alone = Graph(sp.csr_array((1, 1)), graph.features[11:12])
        assert graph.degrees[11] == 0
        np.testing.assert_allclose(
            images(bags_of(filter_, graph, [11])), images(bags_of(filter_, alone)), atol=1e-13
        )
        edgeless = Graph(sp.csr_array((12, 12)), graph.features)
        result = prior(bags_of(filter_, edgeless))
        assert np.isfinite(result).all()
        assert (result.diagonal() > 0).all()

    def test_take_and_in_memory(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        bags = bags_of(filter_, graph, [1, 5, 8, 11])
        loaded = bags.in_memory()
        assert isinstance(loaded.rows, Rows)
        np.testing.assert_allclose(prior(loaded), prior(bags), atol=1e-14)
        for source in (bags, loaded):
            part = source.take(np.array([2, 0, 2]))
            assert isinstance(part.rows, Rows)
            np.testing.assert_allclose(images(part), images(bags)[[2, 0, 2]], atol=1e-14)
            touched = np.unique(part.row_weights().indices)
            assert len(touched) == len(part.rows), "rows that no bag touches were kept"

    def test_without_features(self, filter_, weighted, sparse):
        graph = Graph(random_graph(weighted=weighted).adjacency)
        result = prior(bags_of(filter_, graph))
        assert np.linalg.eigvalsh(result).min() > -1e-10

    def test_graph_is_not_changed(self, filter_, weighted, sparse):
        graph = random_graph(weighted=weighted, sparse=sparse)
        before = graph.adjacency.copy()
        images(bags_of(filter_, graph))
        np.testing.assert_array_equal(graph.adjacency.data, before.data)
        np.testing.assert_array_equal(graph.adjacency.indices, before.indices)


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
    np.testing.assert_allclose(images(bags_of(NeighbourMean(), graph)), expected, atol=1e-14)


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


def test_bags_touch_neighbourhoods_only():
    """The features of the rest of a large graph are never looked at."""
    n = 100_000
    ring = np.arange(n)
    links = sp.coo_array((np.ones(n), (ring, (ring + 1) % n)), shape=(n, n))
    bags = bags_of(NeighbourMean(), Graph(links, sp.csr_array((n, 3))), [10, 11, 5000])
    assert len(bags.rows) == 4 + 3
    assert bags.weights.shape == (3, 7)


def test_identity_uses_no_edges():
    graph = random_graph()
    bags = bags_of(Identity(), graph, [4, 2])
    assert bags.weights is None
    np.testing.assert_array_equal(images(bags), graph.features[[4, 2]])


def test_points_are_bags_of_one():
    points = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    bags = Bags.points(points)
    assert len(bags) == 3
    np.testing.assert_array_equal(bags.row_weights().toarray(), np.eye(3))
    np.testing.assert_array_equal(images(bags), points.numpy())
    np.testing.assert_allclose(variance(RBF(2.0), bags).numpy(), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(images(bags.take(np.array([2]))), points.numpy()[[2]])
