"""Synthetic graphs: degrees, homophily, features, splits, seeds and refusals."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nodegp_paper.datasets import hub_graph, synthetic


def edge_homophily(data):
    links = data.graph.adjacency.tocoo()
    return np.mean(data.y[links.row] == data.y[links.col])


@settings(max_examples=40, deadline=None)
@given(
    n_nodes=st.integers(20, 300),
    n_classes=st.integers(2, 4),
    mean_degree=st.floats(0.5, 12),
    max_degree=st.integers(12, 30),
    homophily=st.floats(0, 1),
    sparse=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_setting_gives_a_proper_data_set(
    n_nodes, n_classes, mean_degree, max_degree, homophily, sparse, seed
):
    data = synthetic(
        n_nodes,
        n_classes,
        mean_degree,
        max_degree,
        homophily,
        n_features=12,
        sparse_features=sparse,
        labels_per_class=1,
        seed=seed,
    )
    adjacency = data.graph.adjacency
    assert adjacency.shape == (n_nodes, n_nodes)
    assert (adjacency != adjacency.T).nnz == 0
    assert adjacency.diagonal().sum() == 0
    assert np.all(adjacency.data == 1)
    assert data.graph.degrees.max() <= max_degree
    assert data.graph.features.shape == (n_nodes, 12)
    assert (
        np.bincount(data.y[data.splits["train"]], minlength=n_classes).tolist() == [1] * n_classes
    )
    assert len(data.splits["val"]) == 0
    assert not np.isin(data.splits["train"], data.splits["test"]).any()
    assert len(data.splits["test"]) == min(1000, n_nodes - n_classes)


@pytest.fixture(scope="module")
def large():
    return synthetic(50_000, max_degree=500, n_features=20, seed=1)


def test_degrees_follow_a_capped_power_law(large):
    degrees = large.graph.degrees
    assert degrees.mean() == pytest.approx(10, rel=0.03)
    assert 400 < degrees.max() <= 500
    # Pareto tail: P(degree > d) ~ d^-(power - 1), so a fourfold degree is 8 times as rare
    assert np.sum(degrees > 25) / np.sum(degrees > 100) == pytest.approx(8, rel=0.25)


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.8, 1.0])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_homophily_is_the_share_of_edges_within_classes(homophily, n_classes):
    data = synthetic(20_000, n_classes, homophily=homophily, max_degree=100, n_features=0, seed=2)
    assert data.graph.features is None
    assert edge_homophily(data) == pytest.approx(homophily, abs=0.01)


def test_edges_across_classes_mix_all_classes():
    data = synthetic(20_000, 4, homophily=0.0, max_degree=100, n_features=0)
    links = data.graph.adjacency.tocoo()
    counts = np.zeros((4, 4))
    np.add.at(counts, (data.y[links.row], data.y[links.col]), 1)
    off_diagonal = counts[~np.eye(4, dtype=bool)] / counts.sum()
    assert np.all(np.abs(off_diagonal - 1 / 12) < 0.02)


def test_dense_features_tell_of_the_class(large):
    features = large.graph.features
    assert features.dtype == np.float32
    means = np.stack([features[large.y == c].mean(axis=0) for c in range(5)])
    nearest = np.argmin(((features[:, None] - means) ** 2).sum(-1), axis=1)
    assert 0.3 < np.mean(nearest == large.y) < 0.95  # 0.2 by chance; not given away either
    residual = features - means[large.y]
    assert residual.std() == pytest.approx(1.0, rel=0.02)


def test_sparse_features_are_binary_words_that_tell_of_the_class():
    data = synthetic(5_000, n_features=200, sparse_features=True, seed=3)
    features = data.graph.features
    assert sp.issparse(features)
    assert features.format == "csr"
    assert features.dtype == np.float32
    assert set(features.data) == {1.0}
    assert 10 < features.nnz / 5_000 <= 20
    rates = np.stack([features[data.y == c].mean(axis=0) for c in range(5)])
    top = rates.max(axis=0) / np.median(rates, axis=0)
    assert np.median(top) > 2
    sharp = synthetic(500, n_features=50, sparse_features=True, feature_noise=0.0).graph.features
    assert sharp.has_canonical_format


def test_dtype_is_kept():
    for sparse in (False, True):
        data = synthetic(300, n_features=10, sparse_features=sparse, dtype=np.float64)
        assert data.graph.features.dtype == np.float64
    with pytest.raises(ValueError, match="float32 or float64"):
        synthetic(300, dtype=np.int32)


def test_the_seed_decides_everything():
    a, b, c = (synthetic(500, seed=seed) for seed in (7, 7, 8))
    assert (a.graph.adjacency != b.graph.adjacency).nnz == 0
    assert np.array_equal(a.graph.features, b.graph.features)
    assert np.array_equal(a.splits["train"], b.splits["train"])
    assert (a.graph.adjacency != c.graph.adjacency).nnz > 0


def test_default_splits():
    data = synthetic(3_000)
    assert np.bincount(data.y[data.splits["train"]]).tolist() == [40] * 5
    assert len(data.splits["test"]) == 1000


def test_a_large_graph_is_quick():
    start = time.perf_counter()
    synthetic(100_000, n_features=20)
    assert time.perf_counter() - start < 15  # about half a second; slack for busy machines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_classes": 1}, "n_classes is 1"),
        ({"n_nodes": 6}, "n_nodes is 6"),
        ({"homophily": 1.2}, "homophily is 1.2"),
        ({"power": 2.0}, "power is 2"),
        ({"n_features": -1}, "n_features is -1"),
        ({"feature_noise": -1}, "feature_noise is -1"),
        ({"mean_degree": 0}, "mean_degree is 0"),
        ({"mean_degree": 20, "max_degree": 10}, "at most at 10"),
        ({"labels_per_class": 100}, "labels_per_class is 100"),
        ({"labels_per_class": 0}, "labels_per_class is 0"),
        ({"n_features": 3, "sparse_features": True}, "n_features is 3"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(arguments, message):
    with pytest.raises(ValueError, match=message):
        synthetic(**{"n_nodes": 400, **arguments})


def test_hub_graph():
    data = hub_graph(2_000, n_features=5, n_labelled=6)
    degrees = data.graph.degrees
    assert degrees[0] == 2_000
    assert np.all(degrees[1:] == 1)
    assert data.graph.n_nodes == 2_001
    assert data.graph.features.shape == (2_001, 5)
    assert data.splits["train"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert len(data.splits["test"]) == 1000
    assert len(data.splits["val"]) == 0
    assert set(data.y[data.splits["train"]]) == {0, 1}

    unlabelled = hub_graph(10, n_labelled=4, label_hub=False)
    assert unlabelled.splits["train"].tolist() == [1, 2, 3, 4]
    assert unlabelled.splits["test"].tolist() == [0, 5, 6, 7, 8, 9, 10]
    with pytest.raises(ValueError, match="n_labelled is 5"):
        hub_graph(4, n_labelled=5)
    with pytest.raises(ValueError, match="n_classes is 1"):
        hub_graph(20, n_classes=1)
