"""Active learning: SOPT against the naive inverse, the loop by hand, any model."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nodegp import Graph, GraphGPClassifier
from nodegp.active import SOPT, Acquisition, ActiveLearner, Random, Situation
from nodegp.kernels import Linear


def path(n: int) -> Graph:
    return Graph(sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)))


def situation(graph: Graph, labelled=(), candidates=None, memory=None) -> Situation:
    mask = np.zeros(graph.n_nodes, dtype=bool)
    mask[list(labelled)] = True
    if candidates is None:
        candidates = ~mask
    rng, memory = np.random.default_rng(0), {} if memory is None else memory
    return Situation(graph, mask, candidates, None, rng, memory=memory)


def naive_scores(graph: Graph, labelled: list[int]) -> np.ndarray:
    """By the definition: invert L over the unlabelled nodes."""
    A = graph.adjacency.toarray()
    laplacian = np.diag(A.sum(1)) - A
    u = np.setdiff1d(np.arange(graph.n_nodes), labelled)
    C = np.linalg.inv(laplacian[np.ix_(u, u)])
    scores = np.full(graph.n_nodes, -np.inf)
    scores[u] = C.sum(1) / np.sqrt(np.diag(C))
    return scores


@st.composite
def connected_graphs(draw) -> Graph:
    n = draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    A = np.zeros((n, n))
    for i in range(1, n):  # a random tree, and some edges more
        A[i, rng.integers(i)] = rng.uniform(0.2, 3.0)
    extra = rng.random((n, n)) < draw(st.floats(0, 0.5))
    A[extra & (A == 0)] = 1.0
    return Graph(A)


# --- SOPT -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(connected_graphs(), st.integers(0, 2**32 - 1))
def test_scores_match_the_naive_inverse_label_after_label(graph, seed):
    memory = {}
    order = np.random.default_rng(seed).permutation(graph.n_nodes).tolist()
    for count in range(1, graph.n_nodes):
        scores = SOPT().scores(situation(graph, order[:count], memory=memory))
        np.testing.assert_allclose(scores, naive_scores(graph, order[:count]), rtol=1e-8)


def test_path_by_hand():
    # On 0-1-2-3-4 with node 0 labelled, C_ij = min(i, j). Row sums: 4, 7, 9, 10;
    # over the roots of 1, 2, 3, 4: 4, 4.95, 5.20, 5.
    scores = SOPT().scores(situation(path(5), [0]))
    np.testing.assert_allclose(scores[1:], [4, 7 / np.sqrt(2), 9 / np.sqrt(3), 5])
    assert SOPT().choose(situation(path(5), [0])).tolist() == [3]


def test_first_node_without_any_label_is_the_most_central():
    assert SOPT().choose(situation(path(7))).tolist() == [3]


def test_equal_scores_go_to_the_first_node():
    ring = Graph(np.roll(np.eye(6), 1, axis=1))
    assert SOPT().choose(situation(ring)).tolist() == [0]
    # Nodes 2 and 4 mirror each other around the labelled nodes 0 and 3; so do 1 and 5.
    scores = SOPT().scores(situation(ring, [0, 3]))
    assert scores[1] == pytest.approx(scores[5])
    assert SOPT().choose(situation(ring, [0, 3])).tolist() == [1]


def test_components_are_separate_fields():
    two = Graph(sp.block_diag([path(5).adjacency, path(4).adjacency]))
    together = SOPT().scores(situation(two, [0, 5]))
    apart = [naive_scores(path(5), [0]), naive_scores(path(4), [0])]
    np.testing.assert_allclose(together, np.concatenate(apart))


def test_large_components_are_opened_before_small_ones_and_isolated_nodes_come_late():
    parts = [np.zeros((1, 1)), path(3).adjacency, path(9).adjacency]
    graph = Graph(sp.block_diag(parts))
    order = SOPT().choose(situation(graph), graph.n_nodes).tolist()
    assert sorted(order) == list(range(graph.n_nodes))
    assert order[0] == 8  # the middle of the nine
    assert order.index(2) < order.index(0)  # the middle of the three before the lone node
    assert len(SOPT().choose(situation(Graph(np.zeros((3, 3)))), 3)) == 3  # no edges at all


def test_scale_of_the_weights_does_not_matter():
    graph = path(9)
    scaled = Graph(1000.0 * graph.adjacency)
    assert (
        SOPT().choose(situation(graph), 9).tolist() == SOPT().choose(situation(scaled), 9).tolist()
    )


def test_a_batch_is_what_single_questions_would_have_been():
    graph = path(12)
    batch = SOPT().choose(situation(graph, [0]), 5).tolist()
    single, memory = [], {}
    for _ in range(5):
        single += SOPT().choose(situation(graph, [0, *single], memory=memory)).tolist()
    assert batch == single


def test_a_batch_that_was_not_answered_is_forgotten():
    graph, memory = path(9), {}
    first = SOPT().choose(situation(graph, [0], memory=memory), 3)
    again = SOPT().choose(situation(graph, [0], memory=memory), 3)
    assert again.tolist() == first.tolist()
    other = SOPT().choose(situation(graph, [8], memory=memory), 1).tolist()  # another run
    assert other == SOPT().choose(situation(graph, [8]), 1).tolist()


def test_only_candidates_are_chosen():
    candidates = np.zeros(9, dtype=bool)
    candidates[[1, 2]] = True
    chosen = SOPT().choose(situation(path(9), [0], candidates), 5)
    assert sorted(chosen.tolist()) == [1, 2]


# --- the loop -------------------------------------------------------------------------------


class Majority:
    """Not a scikit-learn estimator: predicts the most frequent label for all."""

    def fit(self, graph, y):
        self.y = y
        return self

    def predict_proba(self, graph):
        _, counts = np.unique([v for v in self.y if v is not None], return_counts=True)
        return np.tile(counts / counts.sum(), (graph.n_nodes, 1))


def test_fixed_oracle_on_a_path():
    learner = ActiveLearner(Majority(), path(5), SOPT(), list("aabbb"), initial=[0])
    steps = list(learner.steps(3))
    assert [s.nodes.tolist() for s in steps] == [[0], [3], [1]]
    # After 0 and 3: C over (1, 2, 4) is [[2/3, 1/3, 0], [1/3, 2/3, 0], [0, 0, 1]], so nodes 1
    # and 2 tie at 1 / sqrt(2/3) = 1.22, above 1, and the first is asked.
    assert [s.answers for s in steps] == [["a"], ["b"], ["a"]]
    assert [s.n_labels for s in steps] == [1, 2, 3]
    assert steps[1].model.y.tolist() == ["a", None, None, "b", None]  # its own labels, kept
    assert [s.nodes.tolist() for s in learner.steps(4)] == [[4]]  # goes on: 1 beats 1 / sqrt(2)


def test_ends_when_nobody_is_left_to_ask():
    learner = ActiveLearner(Majority(), path(4), Random(), list("abab"), random_state=1)
    steps = list(learner.steps())
    assert sorted(int(s.nodes[0]) for s in steps) == [0, 1, 2, 3]
    assert list(learner.steps()) == []


def test_random_is_uniform_and_repeatable():
    graph = path(4)
    runs = [
        [int(s.nodes[0]) for s in ActiveLearner(
            Majority(), graph, Random(), list("abab"), random_state=seed).steps()]
        for seed in [0, 0, *range(1, 400)]
    ]  # fmt: skip
    assert runs[0] == runs[1]
    first = np.bincount([run[0] for run in runs[1:]], minlength=4) / 400
    np.testing.assert_allclose(first, 0.25, atol=0.08)  # 3.7 standard errors


def test_batches_and_the_last_one_is_cut_to_the_number_asked_for():
    learner = ActiveLearner(Majority(), path(9), SOPT(), list("abababaab"), batch_size=4)
    assert [len(s.nodes) for s in learner.steps(6)] == [4, 2]


def test_an_expert_who_does_not_know_is_not_asked_again():
    answers = ["a", None, float("nan"), "b", "a"]
    learner = ActiveLearner(Majority(), path(5), SOPT(), answers, initial=[1, 2])
    steps = list(learner.steps())
    # The first round brought no label, so there was nothing to fit.
    assert all(s.n_labels > 0 for s in steps)
    assert sorted(itertools.chain(*(s.nodes.tolist() for s in steps))) == [0, 3, 4]
    assert steps[-1].n_labels == 3


def test_only_candidates_are_asked_about():
    learner = ActiveLearner(
        Majority(), path(6), SOPT(), list("ababab"), initial=[0], candidates=[2, 4]
    )
    assert sorted(int(s.nodes[0]) for s in learner.steps()) == [0, 2, 4]


def test_minus_one_is_no_label():
    learner = ActiveLearner(Majority(), path(3), SOPT(), np.array([0, -1, 1]))
    assert list(learner.steps())[-1].labelled.tolist() == [True, False, True]


def test_the_model_is_seen_by_the_acquisition_and_never_changed():
    seen = []

    class Watch(Acquisition):
        def scores(self, situation):
            seen.append(situation.model)
            return np.arange(situation.graph.n_nodes, 0, -1.0)

    graph = Graph(path(6).adjacency, np.eye(6))
    model = GraphGPClassifier(kernel=Linear())
    learner = ActiveLearner(model, graph, Watch(), [0, 0, 1, 1, 0, 1], classes=[0, 1])
    steps = list(learner.steps(4))
    assert seen[0] is None
    assert seen[1:] == [s.model for s in steps[:-1]]
    assert not hasattr(model, "posterior_")
    # One label, one class: the other is known from classes=.
    assert steps[0].model.predict_proba(graph).shape == (6, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"oracle": [0, 1]}, "2 labels for 5 nodes"),
        ({"initial": [7]}, "7"),
    ],
)
def test_bad_arguments(arguments, message):
    settings = {"oracle": [0, 1, 0, 1, 0]} | arguments
    with pytest.raises((ValueError, IndexError), match=message):
        ActiveLearner(Majority(), path(5), SOPT(), **settings)


def test_a_learner_takes_a_strategy_by_its_name():
    graph = Graph.from_edges([[n, n + 1] for n in range(9)])
    side = ["left"] * 5 + ["right"] * 5
    model = GraphGPClassifier()

    def asked(strategy):
        learner = ActiveLearner(model, graph, strategy, oracle=side, classes=["left", "right"])
        return [step.nodes.tolist() for step in learner.steps(n_labels=3)]

    assert asked("sopt") == asked(SOPT())
    with pytest.raises(ValueError, match="strategy must be one of"):
        asked("best")
