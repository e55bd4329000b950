"""The Gaussian field of sopt, vopt and eer: against naive inverses, and large against exact."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from nodegp import Graph, load_dataset
from nodegp.active import SOPT, VOPT, Situation, suggest
from nodegp.active import design as field_module
from nodegp.active import large as large_module
from nodegp.active.design import ExactField, GaussianField
from nodegp.active.large import LargeField
from nodegp_paper.datasets import synthetic
from nodegp_paper.strategies import EER


def path(n: int) -> Graph:
    return Graph(sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)))


def situation(graph: Graph, labelled=(), y=None, memory=None) -> Situation:
    mask = np.zeros(graph.n_nodes, dtype=bool)
    mask[list(labelled)] = True
    rng, memory = np.random.default_rng(0), {} if memory is None else memory
    return Situation(graph, mask, ~mask, None, rng, y, memory)


def connected(n: int, seed: int, extra: float = 0.2) -> Graph:
    rng = np.random.default_rng(seed)
    A = np.zeros((n, n))
    for i in range(1, n):  # a random tree, and some edges more
        A[i, rng.integers(i)] = rng.uniform(0.2, 3.0)
    more = rng.random((n, n)) < extra
    A[more & (A == 0)] = 1.0
    return Graph(A)


def naive_covariance(graph: Graph, labelled: list[int]) -> np.ndarray:
    """L_uu^-1, with zeros for labelled nodes; without any, L^+ plus the variance of the level."""
    A = graph.adjacency.toarray()
    L = np.diag(A.sum(1)) - A
    if not labelled:
        return np.linalg.pinv(L) + 1.0 / graph.adjacency.data.mean()
    C = np.zeros_like(L)
    u = np.setdiff1d(np.arange(graph.n_nodes), labelled)
    C[np.ix_(u, u)] = np.linalg.inv(L[np.ix_(u, u)])
    return C


@pytest.fixture
def always_large(monkeypatch):
    monkeypatch.setattr(field_module, "MAX_COMPONENT", 1)


# --- VOPT -----------------------------------------------------------------------------------


@given(st.integers(3, 12), st.integers(0, 2**32 - 1))
def test_vopt_matches_the_naive_inverse_label_after_label(n, seed):
    graph, memory = connected(n, seed), {}
    order = np.random.default_rng(seed).permutation(n).tolist()
    for count in range(n):
        scores = VOPT().scores(situation(graph, order[:count], memory=memory))
        C = naive_covariance(graph, order[:count])
        left = order[count:]
        expected = (C**2).sum(0)[left] / C.diagonal()[left]
        np.testing.assert_allclose(scores[left], expected, rtol=1e-7)
        assert (scores[order[:count]] == -np.inf).all()


def test_vopt_on_a_path_by_hand():
    # On 0-1-2-3 with node 0 labelled, C_ij = min(i, j). Squares: 3, 9, 14; over 1, 2, 3.
    choice = VOPT().explain_choice(situation(path(4), [0]))
    assert VOPT().scores(situation(path(4), [0]))[1:] == pytest.approx([3, 4.5, 14 / 3])
    assert choice.nodes.tolist() == [3]
    assert choice.scores == pytest.approx([14 / 3])


def test_vopt_score_is_the_fall_in_total_variance():
    graph = connected(10, 5)
    before = np.trace(naive_covariance(graph, [2]))
    choice = VOPT().explain_choice(situation(graph, [2]), 3)
    labelled = [2]
    for node, score in zip(choice.nodes.tolist(), choice.scores, strict=True):
        labelled.append(node)
        after = np.trace(naive_covariance(graph, labelled))
        assert score == pytest.approx(before - after)
        before = after


def test_sopt_score_is_the_root_of_the_fall_in_the_variance_of_the_sum():
    graph = connected(10, 6)
    choice = SOPT().explain_choice(situation(graph, [2]))
    fall = naive_covariance(graph, [2]).sum() - naive_covariance(graph, [2, choice.nodes[0]]).sum()
    assert choice.scores[0] == pytest.approx(np.sqrt(fall))


# --- the large form -------------------------------------------------------------------------


def large_field(graph: Graph) -> LargeField:
    return LargeField(np.arange(graph.n_nodes), graph.adjacency, 1.0 / graph.adjacency.data.mean())


@pytest.mark.parametrize("in_one_go", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 6])
def test_sums_columns_and_refined_entries_are_exact(in_one_go, count):
    graph = connected(30, 8)
    part = large_field(graph)
    labelled = np.random.default_rng(1).permutation(30)[:count].tolist()
    if not in_one_go:
        part.squares()  # draws, images and columns are there before the labels come
        part.refine(np.arange(30))
        for k in labelled:
            part.condition([k])
            assert set(part._exact) == set(range(30))  # none has to be solved for again
    else:
        part.condition(labelled)
        part.refine(np.setdiff1d(np.arange(30), labelled))
    C = naive_covariance(graph, labelled)
    left = np.setdiff1d(np.arange(30), labelled)
    np.testing.assert_allclose(part.sums()[left], C.sum(0)[left], rtol=1e-5)
    np.testing.assert_allclose(part.variances()[left], C.diagonal()[left], rtol=1e-5)
    np.testing.assert_allclose(part.squares()[left], (C**2).sum(0)[left], rtol=1e-5)
    if labelled:
        np.testing.assert_allclose(part.columns(left[:3]), C[left[:3]], atol=1e-5 * C.max())


@pytest.mark.parametrize("labels", [[], [3], [3, 50, 70], list(range(40))])
def test_estimates_are_unbiased(labels, monkeypatch):
    """With very many draws the estimates come to the truth: every term of them is right."""
    monkeypatch.setattr(large_module, "N_DRAWS", 6_000)
    graph = connected(80, 2, extra=0.03)
    at_once, in_turn = large_field(graph), large_field(graph)
    at_once.condition(labels)
    in_turn.squares()
    for k in labels[:10]:  # these change the draws that are there
        in_turn.condition([k])
    in_turn.condition(labels[10:])
    C = naive_covariance(graph, labels)
    left = np.setdiff1d(np.arange(80), labels)
    for part in (at_once, in_turn):
        np.testing.assert_allclose(part.variances()[left], C.diagonal()[left], rtol=0.07)
        np.testing.assert_allclose(part.squares()[left], (C**2).sum(0)[left], rtol=0.07)


def test_same_choices_on_cora(monkeypatch):
    data = load_dataset("cora")
    graph = data.graph.subgraph(data.graph.largest_component())
    found = {}
    for size in (5_000, 1_000):
        monkeypatch.setattr(field_module, "MAX_COMPONENT", size)
        memory = {}  # keeps the exact form's inverse, for both
        for kind in (SOPT, VOPT):
            scores = kind().scores(situation(graph, [0, 100, 200], memory=memory))
            choice = kind().explain_choice(situation(graph, [0], memory=memory), 20)
            found[kind, size] = scores, choice
    for kind in (SOPT, VOPT):
        (exact, by_exact), (rough, by_rough) = found[kind, 5_000], found[kind, 1_000]
        left = np.isfinite(exact)
        assert spearmanr(exact[left], rough[left])[0] > 0.97
        top = set(np.argsort(-exact)[:20].tolist())
        assert len(top & set(np.argsort(-rough)[:20].tolist())) >= 18
        np.testing.assert_allclose(by_rough.scores, by_exact.scores, rtol=0.05)
    assert found[SOPT, 5_000][1].nodes.tolist() == found[SOPT, 1_000][1].nodes.tolist()


def test_components_large_and_small_go_together(monkeypatch):
    parts = [connected(7, 1), Graph(np.zeros((1, 1))), connected(30, 2), connected(12, 3)]
    graph = Graph(sp.block_diag([part.adjacency for part in parts]))
    exact = SOPT().explain_choice(situation(graph), 12)
    monkeypatch.setattr(field_module, "MAX_COMPONENT", 10)
    mixed = SOPT().explain_choice(situation(graph), 12)
    assert mixed.nodes.tolist() == exact.nodes.tolist()
    np.testing.assert_allclose(mixed.scores, exact.scores, rtol=1e-5)
    assert sorted(SOPT().choose(situation(graph), 50).tolist()) == list(range(50))


@pytest.mark.usefixtures("always_large")
def test_a_batch_that_was_not_answered_is_forgotten():
    graph, memory = connected(40, 3), {}
    first = SOPT().choose(situation(graph, [0], memory=memory), 3).tolist()
    assert SOPT().choose(situation(graph, [0], memory=memory), 3).tolist() == first
    assert SOPT().choose(situation(graph, [0]), 3).tolist() == first


@pytest.mark.usefixtures("always_large")
def test_eer_on_its_shortlist_is_exact(monkeypatch):
    graph = connected(25, 9)  # fewer nodes than the shortlist holds
    y = np.full(25, -1)
    y[[0, 7, 20]] = [0, 1, 2]
    part = GaussianField(graph).parts[0]
    assert isinstance(part, LargeField)
    rough = EER().scores(situation(graph, [0, 7, 20], y))
    monkeypatch.setattr(field_module, "MAX_COMPONENT", 100)
    exact = EER().scores(situation(graph, [0, 7, 20], y))
    np.testing.assert_allclose(rough, exact, rtol=1e-4)


def test_the_large_form_is_taken_above_the_limit_only():
    small, large = connected(10, 0), synthetic(6_000, n_features=0).graph
    assert isinstance(GaussianField(small).parts[0], ExactField)
    kinds = {type(part) for part in GaussianField(large).parts if len(part.nodes) > 5_000}
    assert kinds == {LargeField}


def test_a_power_law_graph_is_answered_from_its_hubs():
    graph = synthetic(6_000, n_features=0, seed=2).graph
    choice = suggest(graph, 3, "sopt")
    assert len(set(choice.nodes.tolist())) == 3
    assert (graph.degrees[choice.nodes] > np.quantile(graph.degrees, 0.99)).all()


def test_a_solve_that_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(field_module, "MAX_COMPONENT", 100)
    monkeypatch.setattr(large_module, "_MAX_ITERATIONS", 20)
    with pytest.raises(ValueError, match=r"did not converge in 20 steps.*degree"):
        suggest(path(400), 1, "sopt")
