"""Every strategy: a contract for all, and each by hand or against a naive twin."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import entr, softmax

from nodegp import Graph, GraphGPClassifier
from nodegp.active import (
    STRATEGIES,
    Acquisition,
    ActiveLearner,
    Degree,
    Entropy,
    Margin,
    Situation,
    strategies,
    suggest,
)
from nodegp.kernels import Linear
from nodegp_paper.baselines import REGISTRY
from nodegp_paper.strategies import BALD, EER, S2


def path(n: int) -> Graph:
    return Graph(sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)))


def star(n: int) -> Graph:
    A = np.zeros((n, n))
    A[0, 1:] = 1.0
    return Graph(A)


def two_cliques(n: int) -> Graph:
    """Nodes 0..n-1 and n..2n-1, joined by the edge {n-1, n}."""
    A = sp.block_diag([np.ones((n, n)), np.ones((n, n))]).toarray()
    A[n - 1, n] = 1.0
    return Graph(A)


class Fixed:
    """Answers with given probabilities, and draws of them: (S, N, C)."""

    def __init__(self, draws: np.ndarray):
        self.draws = draws

    def predict_proba(self, graph):
        return self.draws.mean(axis=0)

    def predict_information(self, graph, nodes):
        draws = self.draws[:, nodes]
        entropy = entr(draws.mean(axis=0)).sum(axis=1)
        return entropy, entropy - entr(draws).sum(axis=2).mean(axis=0)

    def sample_proba(self, graph, nodes, n_samples, random_state):
        return self.draws[:, nodes]


def situation(graph: Graph, y=None, model=None, candidates=None, seed: int = 0) -> Situation:
    y = np.full(graph.n_nodes, -1) if y is None else np.asarray(y)
    labelled = y != -1
    if candidates is None:
        candidates = ~labelled
    return Situation(graph, labelled, candidates, model, np.random.default_rng(seed), y)


# --- the contract ---------------------------------------------------------------------------


def disconnected() -> tuple[Graph, np.ndarray]:
    """Two cliques, a path and a lone node."""
    parts = [two_cliques(4).adjacency, path(5).adjacency, np.zeros((1, 1))]
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1])
    return Graph(sp.block_diag(parts), np.eye(14)), y


OURS = ("nodegp.", "nodegp_paper.")


def test_the_registry_holds_every_strategy_by_its_name():
    def concrete(kind):
        for sub in kind.__subclasses__():
            if sub.__module__.startswith(OURS) and not sub.__abstractmethods__:
                yield sub
            yield from concrete(sub)

    ours = {kind for kind in STRATEGIES.values() if kind.__module__.startswith(OURS)}
    assert ours == set(concrete(Acquisition))
    assert list(STRATEGIES) == [kind.name for kind in STRATEGIES.values()]
    assert all(kind.score_means != Acquisition.score_means for kind in ours)


@pytest.mark.parametrize("name", strategies())
@pytest.mark.parametrize("batch_size", [1, 3])
def test_contract_through_the_loop(name, batch_size):
    graph, y = disconnected()
    candidates = np.arange(13)  # not the lone node

    def run(seed):
        model = GraphGPClassifier(kernel=Linear(fixed=("variance",)), likelihood="softmax")
        learner = ActiveLearner(
            model, graph, STRATEGIES[name](), y, candidates=candidates, classes=[0, 1],
            batch_size=batch_size, random_state=seed,
        )  # fmt: skip
        return list(itertools.chain(*(step.nodes.tolist() for step in learner.steps())))

    asked = run(0)
    assert sorted(asked) == candidates.tolist()  # each once, and no other
    assert run(0) == asked


@pytest.mark.parametrize("name", strategies())
def test_contract_of_a_single_question(name):
    graph, truth = disconnected()
    y = np.where(np.isin(np.arange(14), [0, 7, 12]), truth, -1)
    model = GraphGPClassifier(kernel=Linear(fixed=("variance",)), likelihood="softmax").fit(
        graph, y
    )
    choice = suggest(graph, 4, name, y=y, model=model, random_state=3)
    assert choice.strategy == name
    assert choice.note == ""
    assert choice.score_means == STRATEGIES[name].score_means
    assert len(set(choice.nodes.tolist())) == 4
    assert not set(choice.nodes.tolist()) & {0, 7, 12}
    assert choice.scores.shape == (4,)
    assert np.isfinite(choice.scores).all()
    again = suggest(graph, 4, name, y=y, model=model, random_state=3)
    assert again.nodes.tolist() == choice.nodes.tolist()
    few = suggest(graph, 10, name, y=y, model=model, candidates=[0, 1, 2])  # 0 has a label
    assert sorted(few.nodes.tolist()) == [1, 2]
    nothing = suggest(graph, 3, name, y=truth, model=model)
    assert nothing.nodes.tolist() == nothing.scores.tolist() == []


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("entropy", "a fitted model"),
        ("margin", "a fitted model"),
        ("bald", "a fitted model"),
        ("s2", "a label"),
        ("eer", "labels of two classes"),
    ],
)
def test_cold_start_is_left_to_sopt_and_said(name, needs):
    choice = suggest(path(7), 3, name)
    assert choice.strategy == "sopt"
    assert choice.note == f"{name} needs {needs}, so sopt chose"
    assert choice.nodes.tolist() == suggest(path(7), 3, "sopt").nodes.tolist()


@pytest.mark.parametrize("name", ["sopt", "vopt", "degree", "random"])
def test_these_need_neither_model_nor_labels(name):
    assert suggest(path(7), 3, name).strategy == name


def test_eer_waits_for_a_second_class():
    assert suggest(path(5), 1, "eer", y=["a", None, None, None, "a"]).strategy == "sopt"
    assert suggest(path(5), 1, "eer", y=["a", None, None, None, "b"]).strategy == "eer"


def test_bad_questions_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"'sopt'.*got 'oracle'"):
        suggest(path(4), 1, "oracle")
    with pytest.raises(ValueError, match="n must be"):
        suggest(path(4), 0)
    with pytest.raises(ValueError, match=r"shape \(3,\) for 4 nodes"):
        suggest(path(4), 1, y=[0, 1, -1])
    lp = REGISTRY["lp"]().fit(path(4), [0, -1, -1, 1])
    with pytest.raises(TypeError, match="entropy or margin"):
        suggest(path(4), 1, "bald", y=[0, -1, -1, 1], model=lp)
    assert suggest(path(4), 1, "entropy", y=[0, -1, -1, 1], model=lp).nodes.tolist() == [1]
    mask = np.array([True, False, False, True])
    with pytest.raises(ValueError, match="give Situation a y"):
        S2().choose(Situation(path(4), mask, ~mask, None, np.random.default_rng(0)))


# --- degree, entropy, margin ----------------------------------------------------------------


def test_degree_counts_weights_and_a_batch_avoids_neighbours():
    assert suggest(star(6), 1, "degree").nodes.tolist() == [0]
    A = np.zeros((5, 5))
    A[0, 1], A[1, 2], A[3, 4] = 9.0, 2.0, 1.0
    choice = Degree().explain_choice(situation(Graph(A)), 5)
    # Node 1 with 11; 0 and 2 are its neighbours; then 3; and when only neighbours are left,
    # these by their degree.
    assert choice.nodes.tolist() == [1, 3, 0, 2, 4]
    assert choice.scores.tolist() == [11.0, 1.0, 9.0, 2.0, 1.0]


def test_entropy_and_margin_differ_as_they_should():
    proba = np.array([[0.5, 0.5, 0.0], [0.45, 0.3, 0.25], [0.9, 0.05, 0.05]])
    asked = situation(Graph(np.zeros((3, 3))), model=Fixed(proba[None]))
    entropy = Entropy().explain_choice(asked, 3)
    assert entropy.nodes.tolist() == [1, 0, 2]
    np.testing.assert_allclose(entropy.scores[1], np.log(2))
    margin = Margin().explain_choice(asked, 3)
    assert margin.nodes.tolist() == [0, 1, 2]
    np.testing.assert_allclose(margin.scores, [1.0, 0.85, 0.15])
    one_class = situation(path(3), model=Fixed(np.ones((1, 3, 1))))
    assert Margin().choose(one_class).tolist() == [0]


def test_a_model_that_answers_for_other_nodes_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        Entropy().choose(situation(path(4), model=Fixed(np.ones((1, 2, 3)))))


# --- S2 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 2, 31, 40, 63])
def test_s2_finds_the_cut_of_a_path_by_bisection(cut):
    truth = (np.arange(65) >= cut).astype(int)
    y = np.full(65, -1)
    y[[0, 64]] = truth[[0, 64]]
    asked = []
    while not (y[cut - 1] >= 0 and y[cut] >= 0):
        node = int(S2().choose(situation(path(65), y))[0])
        y[node] = truth[node]
        asked.append(node)
    assert asked[0] == 32
    assert len(asked) <= 6  # log2(64)
    # The edge is found and no path between different labels is left: now at random.
    choice = S2().explain_choice(situation(path(65), y, seed=5), 2)
    assert choice.scores.tolist() == [0.0, 0.0]
    assert y[choice.nodes].tolist() == [-1, -1]
    assert choice.strategy == "s2"


def test_s2_takes_the_shortest_of_all_paths():
    # 0 - 1 - 2 - 3 - 4 - 5 - 6 - 7 - 8 with labels a . . . . . b . a: the path 6-7-8 is shortest.
    y = np.array([0, -1, -1, -1, -1, -1, 1, -1, 0])
    choice = S2().explain_choice(situation(path(9), y), 3)
    # In a batch nobody passes through 7, so next comes the middle of 0..6; that cuts both paths.
    assert choice.nodes[:2].tolist() == [7, 3]
    assert choice.scores.tolist() == [2.0, 6.0, 0.0]


def test_s2_goes_past_a_middle_that_may_not_be_asked_about():
    y = np.array([0, -1, -1, -1, 1])
    candidates = np.array([False, True, False, True, False])
    assert S2().choose(situation(path(5), y, candidates=candidates)).tolist() == [1]


def test_s2_finds_the_bridge_between_cliques():
    y = np.full(12, -1)
    y[0], y[11] = 0, 1
    asked = S2().explain_choice(situation(two_cliques(6), y))
    assert asked.nodes[0] in (5, 6)  # 0 - 5 - 6 - 11
    assert asked.scores[0] == 3


def test_s2_against_all_pairs():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = 14
        A = np.triu(rng.random((n, n)) < 0.18, 1).astype(float)
        y = np.where(rng.random(n) < 0.3, rng.integers(3, size=n), -1)
        A[(y[:, None] >= 0) & (y >= 0) & (y[:, None] != y)] = 0.0  # found edges count no more
        hops = np.where(A + A.T > 0, 1.0, np.inf)
        np.fill_diagonal(hops, 0.0)
        for k in range(n):  # Floyd and Warshall
            hops = np.minimum(hops, hops[:, [k]] + hops[[k]])
        pairs = [(i, j) for i in range(n) for j in range(i) if -1 != y[i] != y[j] != -1]
        shortest = min((hops[i, j] for i, j in pairs), default=np.inf)
        if (y == -1).sum() == 0 or (y == -1).all():
            continue
        choice = S2().explain_choice(situation(Graph(A), y))
        if not np.isfinite(shortest):
            assert choice.scores[0] == 0.0
            continue
        middle = int(choice.nodes[0])
        assert choice.scores[0] == shortest
        assert any(
            {hops[i, middle], hops[middle, j]} == {shortest // 2, shortest - shortest // 2}
            for i, j in pairs
        )


# --- expected error reduction ---------------------------------------------------------------


def naive_harmonic(graph: Graph, labels: dict[int, int], n_classes: int) -> np.ndarray:
    A = graph.adjacency.toarray()
    L = np.diag(A.sum(1)) - A
    known = sorted(labels)
    u = [i for i in range(graph.n_nodes) if i not in labels]
    f = np.zeros((graph.n_nodes, n_classes))
    for node in known:
        f[node, labels[node]] = 1.0
    f[u] = np.linalg.solve(L[np.ix_(u, u)], A[np.ix_(u, known)] @ f[known])
    return f


def test_eer_is_what_refitting_for_every_answer_gives():
    rng = np.random.default_rng(3)
    A = np.triu(rng.random((11, 11)) < 0.3, 1) * rng.uniform(0.5, 2.0, (11, 11))
    A[np.arange(10), np.arange(1, 11)] = 1.0  # connected
    graph = Graph(A)
    labels = {0: 0, 4: 1, 9: 2}
    f = naive_harmonic(graph, labels, 3)
    risk = (1.0 - f.max(1)).sum()
    y = np.full(11, -1)
    y[list(labels)] = list(labels.values())
    scores = EER().scores(situation(graph, y))
    for k in np.flatnonzero(y == -1):
        after = sum(
            f[k, c] * (1.0 - naive_harmonic(graph, labels | {int(k): c}, 3).max(1)).sum()
            for c in range(3)
        )
        assert scores[k] == pytest.approx(risk - after, abs=1e-9)
    choice = EER().explain_choice(situation(graph, y))
    assert choice.nodes[0] == np.argmax(scores)


def test_eer_opens_components_without_labels_at_their_centre_by_size():
    graph = Graph(sp.block_diag([path(2).adjacency, path(3).adjacency, path(9).adjacency]))
    y = np.full(14, -1)
    y[:2] = [0, 1]
    choice = EER().explain_choice(situation(graph, y), 3)
    assert choice.nodes[:2].tolist() == [9, 3]
    np.testing.assert_allclose(choice.scores, [4.5, 1.5, 0.0], atol=1e-4)


# --- BALD -----------------------------------------------------------------------------------


def joint_information(draws: np.ndarray, nodes: list[int]) -> float:
    """I(y; h) by going through every combination of answers."""
    total = 0.0
    for answers in itertools.product(range(draws.shape[2]), repeat=len(nodes)):
        given = np.prod([draws[:, i, c] for i, c in zip(nodes, answers, strict=True)], axis=0)
        total += entr(given.mean()) - entr(given).mean()
    return total


def random_draws(n_draws=40, n_nodes=6, n_classes=3, seed=0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return softmax(2.0 * rng.standard_normal((n_draws, n_nodes, n_classes)), axis=2)


def test_batch_bald_against_every_pair():
    for seed in range(5):
        draws = random_draws(seed=seed)
        choice = BALD().explain_choice(situation(path(6), model=Fixed(draws)), 3)
        first, second, third = choice.nodes.tolist()
        assert first == max(range(6), key=lambda i: joint_information(draws, [i]))
        pairs = {i: joint_information(draws, [first, i]) for i in range(6) if i != first}
        assert second == max(pairs, key=pairs.__getitem__)
        assert sum(choice.scores[:2]) == pytest.approx(pairs[second])
        assert sum(choice.scores) == pytest.approx(joint_information(draws, [first, second, third]))


def test_bald_does_not_ask_twins_at_once():
    draws = random_draws(seed=1)
    draws[:, 1] = draws[:, 0] = (draws[:, 0] > 0.5) * 0.98 + 0.01
    draws /= draws.sum(axis=2, keepdims=True)
    alone = BALD().scores(situation(path(6), model=Fixed(draws)))
    assert set(np.argsort(alone)[-2:].tolist()) == {0, 1}
    chosen = BALD().choose(situation(path(6), model=Fixed(draws)), 3).tolist()
    assert chosen[0] == 0
    assert 1 not in chosen


def test_bald_samples_answers_when_there_are_too_many():
    draws = random_draws(n_draws=30, n_nodes=5, seed=2)
    asked = situation(path(5), model=Fixed(draws))
    exact = BALD(n_outcomes=3**5).explain_choice(asked, 4)
    few = [
        BALD(n_outcomes=64).explain_choice(situation(path(5), model=Fixed(draws), seed=s), 4)
        for s in range(30)
    ]
    assert sum(exact.scores) == pytest.approx(joint_information(draws, exact.nodes.tolist()))
    assert np.mean([sum(c.scores) for c in few]) == pytest.approx(sum(exact.scores), rel=0.03)


def test_bald_looks_for_a_batch_among_the_best_alone():
    draws = random_draws(n_nodes=6, seed=4)
    alone = [joint_information(draws, [i]) for i in range(6)]
    chosen = BALD(pool=3).choose(situation(path(6), model=Fixed(draws)), 3)
    assert set(chosen.tolist()) == set(np.argsort(alone)[-3:].tolist())
    assert len(BALD(pool=1).choose(situation(path(6), model=Fixed(draws)), 4)) == 4


def test_bald_leaves_noise_alone():
    draws = np.full((20, 3, 2), 0.5)  # node 0: an even chance, whatever the latents
    draws[:10, 1:] = [0.9, 0.1]
    draws[10:, 1:] = [0.1, 0.9]
    asked = situation(Graph(np.zeros((3, 3))), model=Fixed(draws))
    assert Entropy().choose(asked).tolist() == [0]
    assert BALD().choose(asked).tolist() == [1]
