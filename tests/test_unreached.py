"""Nodes that no label leads to: neither features nor edges, or a part of the graph of their own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nodegp
from helpers import hide, raw_domain
from nodegp import Graph, GraphGPClassifier
from nodegp.filters import PageRank
from nodegp.kernels import RBF, Constant, Cosine, Linear
from nodegp.model.calibration import least_probability, mixed
from nodegp.preprocessing import Preprocessing
from nodegp.prior import bias_of, make_prior
from stores import stored

N_LINKED, N_ALONE = 120, 10
ALONE = np.arange(N_LINKED, N_LINKED + N_ALONE)
Y = np.append(np.arange(N_LINKED) % 2, np.arange(N_ALONE) % 2)


def edges(n_alone=N_ALONE, seed=0):
    """Two classes that are mostly linked within, and nodes without any edge."""
    rng = np.random.default_rng(seed)
    same = Y[:N_LINKED, None] == Y[:N_LINKED]
    linked = np.triu(rng.random((N_LINKED, N_LINKED)) < np.where(same, 0.12, 0.02), 1)
    return sp.block_diag([sp.csr_array(linked, dtype=float), sp.csr_array((n_alone, n_alone))])


GRAPH = Graph(edges())
RAW = Preprocessing("raw", center=False)


def fit(shown, graph=GRAPH, **settings):
    return GraphGPClassifier(random_state=0, **settings).fit(graph, hide(Y, np.asarray(shown)))


# Six of one class and six of the other, at places that have nothing in common: the bias leans.
BALANCED = np.r_[0:12:2, 41:53:2]


@pytest.mark.parametrize("seed", range(4))
def test_balanced_labels_leave_a_tie(seed):
    shown = np.random.default_rng(seed).permutation(N_LINKED // 2)[:8]
    shown = np.r_[2 * shown[:4], 2 * shown[4:] + 1]
    model = fit(shown, Graph(edges(seed=seed)))
    proba = model.predict_proba()
    np.testing.assert_array_equal(proba[ALONE], 0.5)
    assert (model.predict()[:N_LINKED] == Y[:N_LINKED]).mean() > 0.8
    assert np.abs(proba[:N_LINKED, 0] - 0.5).min() > 0, "of linked nodes something is known"


def test_others_leave_their_own_shares():
    shown = np.r_[0:18:2, 41:47:2]
    proba = fit(shown).predict_proba(nodes=ALONE)
    # Nine and three labels, and one more of each.
    expected = mixed(np.array([[10.0, 4.0]]) / 14, least_probability(12, 2))
    np.testing.assert_allclose(proba, np.tile(expected, (N_ALONE, 1)), rtol=1e-12)


def test_a_label_of_which_the_expert_is_unsure_counts_for_less():
    confidence = np.where(Y[BALANCED] == 0, 1.0, 0.6)
    model = GraphGPClassifier().fit(GRAPH, hide(Y, BALANCED), label_confidence=spread(confidence))
    expected = mixed(np.array([7.0, 4.6]) / 11.6, least_probability(12, 2))
    np.testing.assert_allclose(model.predict_proba(nodes=ALONE[:1])[0], expected, rtol=1e-12)


def spread(confidence):
    each = np.ones(len(Y))
    each[BALANCED] = confidence
    return each


@pytest.mark.parametrize("include_graph", [True, False])
def test_however_they_are_asked_for(include_graph, tmp_path):
    model = fit(BALANCED)
    model.save(tmp_path / "model", include_graph=include_graph)
    loaded = nodegp.load(tmp_path / "model")
    for each in (model, loaded):
        for graph in (GRAPH, Graph(edges(N_ALONE + 5))):  # and new nodes without edges
            alone = np.arange(N_LINKED, graph.n_nodes)
            whole = each.predict_proba(graph)
            np.testing.assert_array_equal(whole[alone], 0.5)
            np.testing.assert_array_equal(each.predict_proba(graph, nodes=alone[::-2]), 0.5)
            frame = each.predict_frame(graph, kind="pandas")
            np.testing.assert_array_equal(frame["p(0)"], whole[:, 0])
            entropy, _ = each.predict_information(graph, nodes=alone)
            np.testing.assert_allclose(entropy, np.log(2))
    more = [20, 61]
    updated = model.update(more, Y[more])
    np.testing.assert_array_equal(updated.predict_proba(nodes=ALONE), 0.5)


def test_a_label_leads_to_its_own_node_and_to_no_other_without_edges():
    model = fit(np.r_[BALANCED, ALONE[:2]])
    proba = model.predict_proba(nodes=ALONE)
    assert (proba[:2].argmax(1) == Y[ALONE[:2]]).all()
    np.testing.assert_array_equal(proba[2:], 0.5)


def test_what_is_not_calibrated_stays_what_the_posterior_says():
    model = fit(BALANCED, calibrate=False)
    proba = model.predict_proba()
    assert np.ptp(proba[ALONE], axis=0).max() < 1e-9
    np.testing.assert_allclose(
        model.sample_proba(nodes=ALONE[:1], n_samples=20_000, random_state=0).mean(0),
        proba[ALONE[:1]],
        atol=0.01,
    )


@pytest.mark.parametrize("kernel", [Linear(), Cosine() + Constant(0.5), RBF()])
@pytest.mark.parametrize("inducing", ["labelled", "points"])
def test_nodes_without_features_or_edges_under_other_kernels(kernel, inducing, tmp_path):
    """A distance to a row of zeros says something; an angle does not. In memory and on disk."""
    rng = np.random.default_rng(0)
    features = (np.eye(2)[Y] + 0.5 * rng.random((len(Y), 2))).astype(np.float32)
    features[ALONE] = 0
    graph = Graph(GRAPH.adjacency, features)
    settings = {"kernel": kernel, "filter": PageRank(), "preprocessing": RAW}
    settings["inducing"] = nodegp.inducing.Points(6) if inducing == "points" else inducing
    in_memory = fit(BALANCED, graph, **settings).predict_proba()
    is_tie = kernel != RBF()
    assert (in_memory[ALONE] == 0.5).all() == is_tie
    if inducing == "labelled" and is_tie:
        store = stored(graph, tmp_path / "store")
        model = GraphGPClassifier(**settings).fit(store, (BALANCED, Y[BALANCED]))
        np.testing.assert_array_equal(model.predict_proba(nodes=ALONE), 0.5)
        np.testing.assert_array_equal(model.predict_proba()[ALONE], 0.5)


def test_the_bias_of_a_sum_is_that_of_its_parts():
    graph = Graph(GRAPH.adjacency, np.eye(len(Y)))
    filters = nodegp.filters.SumOfFilters((PageRank(), nodegp.filters.Identity()))
    kernels = (Cosine(2.0) + Constant(0.5), Linear(3.0))
    assert bias_of(make_prior(filters, kernels, raw_domain(graph))) == 0.5
    assert bias_of(make_prior(PageRank(), RBF(), raw_domain(graph))) == 0.0
