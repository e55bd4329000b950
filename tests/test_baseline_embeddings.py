"""Random walks, the embeddings learnt on them, Planetoid, and logistic regression on features."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.stats import chisquare
from sklearn.linear_model import LogisticRegression

import nodegp
from helpers import hide, random_graph
from nodegp import Graph
from nodegp_paper.baselines import deepwalk, planetoid, walks
from nodegp_paper.baselines.base import Labels
from nodegp_paper.baselines.deepwalk import DeepWalk
from nodegp_paper.baselines.logistic import Classifier, FeatureLogistic
from nodegp_paper.baselines.node2vec import Node2Vec
from nodegp_paper.baselines.planetoid import PlanetoidI, PlanetoidT
from nodegp_paper.baselines.skipgram import skip_gram
from nodegp_paper.baselines.walks import Steps, walk, walks_from_all

# 0-1-2 is a triangle, 3 hangs on 2, 4 on 3; 5 is alone.
EDGES = {(0, 1): 1.0, (0, 2): 4.0, (1, 2): 0.5, (2, 3): 2.0, (3, 4): 3.0}


def small_graph(weighted: bool = True) -> Graph:
    adjacency = np.zeros((6, 6))
    for (i, j), weight in EDGES.items():
        adjacency[i, j] = weight if weighted else 1.0
    return Graph(adjacency)


def two_cliques(size: int = 8, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Two cliques with one edge between them and a node apart, with features that say little."""
    n = 2 * size + 1
    adjacency = np.zeros((n, n))
    adjacency[:size, :size] = adjacency[size:-1, size:-1] = 1.0
    adjacency[0, size] = 1.0
    features = np.random.default_rng(seed).normal(size=(n, 4))
    features[:, 0] += np.arange(n) >= size
    return Graph(adjacency, features), (np.arange(n) >= size).astype(int)


def goodness(counts: np.ndarray, chances: np.ndarray) -> float:
    """The p-value of these counts; what cannot happen must not have happened."""
    assert counts[chances == 0].sum() == 0
    possible = chances > 0
    if possible.sum() == 1:
        return 1.0
    return chisquare(counts[possible], counts.sum() * chances[possible]).pvalue


# --- walks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [True, False])
def test_steps_follow_the_transition_matrix(weighted):
    graph = small_graph(weighted)
    weights = graph.adjacency.toarray()
    at = np.repeat(np.arange(5), 20_000)
    to = Steps(graph).first_order(at, np.random.default_rng(0))
    for node in range(5):
        counts = np.bincount(to[at == node], minlength=6)
        assert goodness(counts, weights[node] / weights[node].sum()) > 1e-3


def chances_by_definition(graph: Graph, before: int, at: int, p: float, q: float) -> np.ndarray:
    """Section 3.2.2 of node2vec, one neighbour at a time."""
    weights = graph.adjacency.toarray()
    chances = np.zeros(graph.n_nodes)
    for x in range(graph.n_nodes):
        if weights[at, x] > 0:
            if x == before:
                bias = 1 / p
            elif weights[before, x] > 0:
                bias = 1.0
            else:
                bias = 1 / q
            chances[x] = bias * weights[at, x]
    return chances / chances.sum()


@pytest.mark.parametrize("rounds", [100, 0], ids=["proposals", "all neighbours"])
@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (4.0, 0.5), (1.0, 3.0), (50.0, 50.0)])
@pytest.mark.parametrize("weighted", [True, False])
def test_second_order_steps_follow_their_definition(monkeypatch, weighted, p, q, rounds):
    monkeypatch.setattr(walks, "_ROUNDS", rounds)
    graph, rng = small_graph(weighted), np.random.default_rng(1)
    pairs = [*EDGES, *((j, i) for i, j in EDGES)]
    before, at = np.repeat(np.array(pairs), 3_000, axis=0).T
    to = Steps(graph).second_order(at, before, p, q, rng)
    for i, j in pairs:
        counts = np.bincount(to[(before == i) & (at == j)], minlength=6)
        assert goodness(counts, chances_by_definition(graph, i, j, p, q)) > 1e-4, (i, j)


def test_walks_of_both_orders():
    graph = small_graph()
    weights = graph.adjacency.toarray()
    for p, q in [(1.0, 1.0), (0.5, 2.0)]:
        found = walk(graph, np.arange(6), 30, np.random.default_rng(0), p, q)
        assert found.shape == (6, 30)
        np.testing.assert_array_equal(found[:, 0], np.arange(6))
        assert (weights[found[:5, :-1], found[:5, 1:]] > 0).all()
        assert (found[5] == 5).all()  # alone, it goes nowhere
        again = walk(graph, np.arange(6), 30, np.random.default_rng(0), p, q)
        np.testing.assert_array_equal(again, found)


def test_walks_start_equally_often_from_all_nodes_with_neighbours():
    found = walks_from_all(small_graph(), 7, 3, np.random.default_rng(0))
    assert found.shape == (35, 3)
    for once in found[:, 0].reshape(7, 5):
        assert sorted(once) == [0, 1, 2, 3, 4]
    assert len({tuple(once) for once in found[:, 0].reshape(7, 5)}) > 1


def test_walks_on_a_graph_without_edges():
    graph = Graph(np.zeros((3, 3)))
    assert walks_from_all(graph, 2, 5, np.random.default_rng(0)).shape == (0, 5)
    stays = walk(graph, np.arange(3), 4, np.random.default_rng(0), 2.0, 2.0)
    np.testing.assert_array_equal(stays, [[0] * 4, [1] * 4, [2] * 4])


def test_edges_are_recognised():
    graph = random_graph(30, seed=3)
    left, right = np.divmod(np.arange(900), 30)
    joined = Steps(graph).are_joined(left, right)
    np.testing.assert_array_equal(joined.reshape(30, 30), graph.adjacency.toarray() > 0)


def test_extreme_weights_and_settings():
    # On a path every step goes back or away: both have a millionth of the largest chance.
    path = Graph(np.diag([1.0, 1.0, 1.0], 1))
    before, at = np.full(2_000, 0), np.full(2_000, 1)
    to = Steps(path).second_order(at, before, 1e6, 1e6, np.random.default_rng(0))
    assert goodness(np.bincount(to, minlength=4), np.array([0.5, 0, 0.5, 0])) > 1e-3
    huge = Graph(np.array([[0, 1e149, 1e149], [0, 0, 1e-300], [0, 0, 0]]))
    to = Steps(huge).first_order(np.repeat([0, 1], 2_000), np.random.default_rng(0))
    assert goodness(np.bincount(to[:2_000], minlength=3), np.array([0, 0.5, 0.5])) > 1e-3
    assert (to[2_000:] == 0).all()


# --- skip-gram ----------------------------------------------------------------------------------


@pytest.mark.parametrize("negatives", [0, 5])
def test_nodes_of_a_clique_come_to_lie_together(negatives):
    graph, side = two_cliques()
    rng = np.random.default_rng(0)
    found = skip_gram(walks_from_all(graph, 40, 20, rng), 17, 16, 5, 2, rng, negatives)
    assert found.shape == (17, 16)
    unit = found[:16] / np.linalg.norm(found[:16], axis=1, keepdims=True)
    similar = unit @ unit.T
    same = np.equal.outer(side[:16], side[:16])
    assert similar[same].mean() > similar[~same].mean() + 0.2
    # The node apart is where gensim starts it: between plus and minus one over the dimensions.
    assert 0 < np.abs(found[16]).max() <= 1 / 16 < np.abs(found[:16]).max(axis=1).min()


def test_embeddings_come_in_the_order_of_the_nodes():
    """However often the nodes are visited: gensim keeps them in the order of that."""
    graph, _ = two_cliques()
    order = np.random.default_rng(5).permutation(17)
    moved = Graph(graph.adjacency[order][:, order])
    model = DeepWalk(walks_per_node=40, size=16, random_state=0)
    near = {}
    for name, g in (("as is", graph), ("moved", moved)):
        e = model.fit(g, np.arange(17) % 2).embeddings_
        unit = e / np.linalg.norm(e, axis=1, keepdims=True)
        near[name] = unit @ unit.T
    back = np.argsort(order)
    difference = np.abs(near["as is"] - near["moved"][back][:, back])[:16, :16]
    assert difference.mean() < 0.1


def test_without_gensim_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    graph, side = two_cliques()
    for model in (DeepWalk(), Node2Vec()):
        with pytest.raises(ImportError, match=r"pip install 'nodegp\[baselines\]'"):
            model.fit(graph, side)


@pytest.mark.parametrize("method", [DeepWalk, Node2Vec])
def test_one_label_a_clique_is_enough(method):
    graph, side = two_cliques()
    model = method(walks_per_node=60, random_state=0).fit(graph, hide(side, [3, 12]))
    np.testing.assert_array_equal(model.predict()[:16], side[:16])
    assert model.embeddings_.shape == (17, 128)


def test_deepwalk_follows_the_weights():
    # Node 16 is joined to one node of each clique, to one of them a hundred times as strongly.
    graph, side = two_cliques()
    for strong, weak, expected in [(2, 10, 0), (10, 2, 1)]:
        adjacency = graph.adjacency.toarray()
        adjacency[16, strong], adjacency[16, weak] = 10.0, 0.1
        y = hide(side, np.arange(16))
        model = DeepWalk(walks_per_node=40, random_state=0).fit(Graph(adjacency), y)
        assert model.predict()[16] == expected


def test_deepwalk_takes_fewer_walks_on_large_graphs():
    def count(n_nodes: int, **settings) -> int:
        graph = Graph(sp.csr_array((n_nodes, n_nodes)))
        return DeepWalk(**settings)._walks_on(graph)

    assert [count(n) for n in (5, 2708, 3327, 19717, 10**6)] == [80, 80, 80, 15, 10]
    assert count(10**6, walks_per_node=33) == 33
    assert count(5, walk_length=deepwalk._STEPS) == 10


def test_node2vec_uses_p_and_q():
    graph, side = two_cliques()
    settings = {"walks_per_node": 4, "size": 8, "random_state": 0}
    plain = Node2Vec(**settings).fit(graph, side).embeddings_
    for change in ({"p": 0.25}, {"q": 0.25}):
        assert np.abs(Node2Vec(**settings, **change).fit(graph, side).embeddings_ - plain).max() > 0


# --- logistic regression ------------------------------------------------------------------------


def test_logistic_regression_on_prepared_features():
    graph = random_graph(40, 5, seed=2)
    y = hide(np.arange(40) % 3, np.arange(0, 40, 2))
    X = graph.features
    X = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(5)
    expected = LogisticRegression().fit(X[::2], y[::2]).predict_proba(X)
    for features in (graph.features, sp.csr_array(graph.features)):
        model = FeatureLogistic().fit(Graph(graph.adjacency, features), y)
        np.testing.assert_allclose(model.predict_proba(), expected, atol=2e-4)
    looser = FeatureLogistic(C=100.0).fit(graph, y)
    assert np.abs(looser.predict_proba() - expected).max() > 0.05


def test_logistic_regression_ignores_the_edges_and_answers_for_new_nodes():
    graph = random_graph(40, 5, seed=2)
    y = hide(np.arange(40) % 3, np.arange(0, 40, 2))
    model = FeatureLogistic().fit(graph, y)
    alone = FeatureLogistic().fit(Graph(np.zeros((40, 40)), graph.features), y)
    np.testing.assert_array_equal(model.proba_, alone.proba_)
    part = Graph(np.zeros((7, 7)), graph.features[:7])
    np.testing.assert_allclose(model.predict_proba(part), model.proba_[:7])


@pytest.mark.parametrize("one_vs_rest", [True, False])
def test_classes_without_labels_get_nothing(one_vs_rest):
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [3.0, 0.0]])
    classifier = Classifier(5, one_vs_rest=one_vs_rest)
    for targets in ([1, 4, 1, 4], [3, 3, 3, 3], [0, 1, 4, 4]):
        classifier.fit(rows, np.array(targets))
        proba = classifier.proba(rows)
        assert np.flatnonzero(proba.sum(axis=0)).tolist() == sorted(set(targets))
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)


# --- planetoid ----------------------------------------------------------------------------------


def test_contexts_from_labels():
    nodes, targets = np.array([7, 3, 9, 4, 8, 1]), np.array([1, 0, 2, 1, 0, 1])
    found = planetoid.label_contexts(Labels(nodes, targets), 6_000, 2, np.random.default_rng(0))
    class_of = dict(zip(nodes, targets, strict=True))
    np.testing.assert_array_equal(found.nodes, nodes)
    for i, (node, target) in enumerate(zip(nodes, targets, strict=True)):
        contexts = found.contexts[found.sources == i]
        assert 900 < len(contexts) < 1_100
        chances = np.array([class_of.get(n, -1) == target for n in range(10)]) / 1.0
        assert goodness(np.bincount(contexts[:, 0], minlength=10), chances / chances.sum()) > 1e-3
        others = np.array([n in class_of and class_of[n] != target for n in range(10)]) / 1.0
        noise = np.bincount(contexts[:, 1:].ravel(), minlength=10)
        assert goodness(noise, others / others.sum()) > 1e-3, node


def test_contexts_from_walks():
    seen = np.array([[5, 2, 5, 9], [3, 2, 3, 2]])
    found = planetoid.walk_contexts(seen, 2, 10, 3, np.random.default_rng(0))
    expected = []
    for one in seen:
        for j in range(4):
            for k in range(4):
                if abs(j - k) <= 2:
                    expected.append((one[j], one[k]))
    pairs = zip(found.nodes[found.sources], found.contexts[:, 0], strict=True)
    assert sorted(pairs) == sorted(expected)
    assert found.nodes.tolist() == [2, 3, 5, 9]
    assert found.contexts.shape == (len(expected), 4)
    many = planetoid.walk_contexts(np.tile(seen, (300, 1)), 2, 10, 3, np.random.default_rng(0))
    noise = np.bincount(many.contexts[:, 1:].ravel(), minlength=10)
    assert goodness(noise, np.full(10, 0.1)) > 1e-3


def embeddings_of(kind: str, n_nodes: int = 6, size: int = 3):
    """Embeddings in float64, and their parameters."""
    rng = torch.Generator().manual_seed(1)
    draw = {"dtype": torch.float64, "generator": rng}
    if kind == "free":
        found = planetoid.FreeEmbeddings(torch.randn(n_nodes, size, **draw))
        return found, [found.table]
    features = sp.csr_array(np.random.default_rng(2).normal(size=(n_nodes, 4)))
    weight, bias = torch.randn(4, size, **draw), torch.randn(size, **draw)
    found = planetoid.FeatureEmbeddings(features, weight, bias)
    return found, [weight, bias]


def rows_by_formula(kind: str, embeddings, parameters: list) -> torch.Tensor:
    if kind == "free":
        return parameters[0]
    return (torch.tensor(embeddings.features.toarray()) @ parameters[0] + parameters[1]).relu()


@pytest.mark.parametrize("kind", ["free", "of features"])
def test_a_step_on_contexts_goes_down_its_gradient(kind):
    embeddings, parameters = embeddings_of(kind)
    table = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    nodes, sources = np.array([1, 4, 5]), np.array([0, 0, 2, 1, 2])
    contexts = np.array([[0, 3, 3], [1, 5, 2], [5, 4, 4], [0, 0, 1], [2, 2, 2]])
    batch = planetoid.Contexts(nodes, sources, contexts)
    variables = [x.clone().requires_grad_() for x in (*parameters, table)]
    rows = rows_by_formula(kind, embeddings, variables[:-1])
    loss = torch.zeros(())
    for source, (true, *noise) in zip(nodes[sources], contexts, strict=True):
        loss = loss - F.logsigmoid(rows[source] @ variables[-1][true])
        for context in noise:
            loss = loss - F.logsigmoid(-rows[source] @ variables[-1][context])
    expected = torch.autograd.grad(loss, variables)
    before = [x.clone() for x in (*parameters, table)]
    planetoid.context_step(embeddings, table, batch, 0.25)
    for old, new, gradient in zip(before, (*parameters, table), expected, strict=True):
        torch.testing.assert_close(new, old - 0.25 * gradient)


@pytest.mark.parametrize("kind", ["free", "of features"])
def test_a_step_on_classes_goes_down_its_gradient(kind):
    embeddings, parameters = embeddings_of(kind)
    rng = torch.Generator().manual_seed(4)
    network = planetoid.Network(
        *(torch.randn(*shape, dtype=torch.float64, generator=rng)
          for shape in ((5, 2), (3, 2), (4, 2), (3, 2))),
        np.array([0, 1]), 2,
    )  # fmt: skip
    features = sp.csr_array(np.random.default_rng(3).normal(size=(6, 5)))
    nodes, targets = np.array([5, 0, 3]), np.array([0, 1, 1])
    variables = [x.clone().requires_grad_() for x in (*parameters, *network.parameters)]
    by_x, by_e, by_both, bias = variables[-4:]
    rows = rows_by_formula(kind, embeddings, variables[:-4])
    loss = torch.zeros(())
    for node, target in zip(nodes, targets, strict=True):
        first = (torch.tensor(features.toarray()[node]) @ by_x + bias[0]).softmax(0)
        second = (rows[node] @ by_e + bias[1]).softmax(0)
        last = (torch.cat([first, second]) @ by_both + bias[2]).softmax(0)
        loss = loss - (first[target].log() + second[target].log() + last[target].log()) / 3
    expected = torch.autograd.grad(loss, variables)
    before = [x.detach().clone() for x in variables]
    planetoid.class_step(network, embeddings, features, Labels(nodes, targets), 0.5)
    after = (*parameters, *network.parameters)
    for old, new, gradient in zip(before, after, expected, strict=True):
        torch.testing.assert_close(new, old - 0.5 * gradient)


@pytest.mark.parametrize("method", [PlanetoidT, PlanetoidI])
def test_planetoid_learns_from_the_graph_what_features_do_not_say(method):
    """Each class has 40 words, and the labelled nodes use few of them; the edges know more."""
    rng = np.random.default_rng(0)
    side = np.repeat([0, 1], 60)
    chance = np.where(np.equal.outer(side, side), 0.15, 0.002)
    words = np.array([np.isin(np.arange(80), 40 * c + rng.choice(40, 3)) for c in side])
    graph = Graph(np.triu(rng.random((120, 120)) < chance, 1), words)
    y = hide(side, [0, 1, 2, 60, 61, 62])
    floor = FeatureLogistic().fit(graph, y).score(graph, side)
    model = method(label_steps=1000, passes=100, steps=300, random_state=0).fit(graph, y)
    assert 0.6 < floor < 0.8
    assert model.score(graph, side) > floor + 0.1


def test_planetoid_i_answers_from_features_alone():
    graph, side = two_cliques()
    y = hide(side, [1, 2, 9, 10])
    model = PlanetoidI(label_steps=50, steps=100, random_state=0).fit(graph, y)
    alone = Graph(np.zeros((3, 3)), graph.features[[4, 11, 16]])
    np.testing.assert_allclose(model.predict_proba(alone), model.proba_[[4, 11, 16]], atol=1e-6)


@pytest.mark.parametrize("method", [PlanetoidT, PlanetoidI])
def test_planetoid_does_not_mind_the_scale_of_the_features(method):
    graph, side = two_cliques()
    y = hide(side, [1, 2, 9, 10])
    larger = Graph(graph.adjacency, sp.csr_array(1024.0 * graph.features))
    first, second = (
        method(label_steps=50, steps=100, random_state=0).fit(g, y) for g in (graph, larger)
    )
    np.testing.assert_allclose(first.proba_, second.proba_, rtol=0, atol=1e-5)
    assert planetoid.typical_size(Graph(np.zeros((2, 2)), [[0, 3], [4, 0]])) == 12.5**0.5


def test_planetoid_t_by_its_formula():
    graph, side = two_cliques()
    model = PlanetoidT(label_steps=20, passes=2, steps=20, random_state=0)
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        trained = planetoid._trained
        patch.setattr(planetoid, "_trained", lambda *a: kept.append(trained(*a)) or kept[0])
        model.fit(graph, hide(side, [1, 2, 9, 10]))

    def softmax(logits):
        odds = np.exp(logits)
        return odds / odds.sum(axis=1, keepdims=True)

    by_x, by_e, by_both, bias = (x.numpy() for x in kept[0].parameters)
    X = graph.features / np.sqrt(np.mean(graph.features**2))
    inner = [softmax(X @ by_x + bias[0]), softmax(model.embeddings_ @ by_e + bias[1])]
    expected = softmax(np.hstack(inner) @ by_both + bias[2])
    np.testing.assert_allclose(model.predict_proba(), expected, atol=1e-6)


# --- all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "bad"),
    [
        (DeepWalk, {"walks_per_node": 0}),
        (DeepWalk, {"walk_length": 10_001}),
        (DeepWalk, {"window": 2.5}),
        (DeepWalk, {"size": 0}),
        (DeepWalk, {"epochs": 0}),
        (DeepWalk, {"C": 0}),
        (Node2Vec, {"p": 0.0}),
        (Node2Vec, {"q": np.nan}),
        (Node2Vec, {"negatives": 0}),
        (Node2Vec, {"walks_per_node": None}),
        (FeatureLogistic, {"C": -1.0}),
        (FeatureLogistic, {"preprocessing": "best"}),
        (PlanetoidT, {"size": 0}),
        (PlanetoidT, {"window": 0}),
        (PlanetoidT, {"passes": -1}),
        (PlanetoidI, {"steps": -1}),
        (PlanetoidI, {"walk_rate": 1.5}),
        (PlanetoidI, {"learning_rate": "fast"}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_bad_settings_are_named(method, bad):
    graph, side = two_cliques()
    (name,) = bad
    with pytest.raises(ValueError, match=f"{name} must be "):
        method(**bad).fit(graph, side)


@pytest.mark.parametrize(
    ("model", "floor"),
    [
        (DeepWalk(walks_per_node=4, random_state=0), 0.60),
        (FeatureLogistic(), 0.55),
        (PlanetoidT(random_state=0), 0.72),
    ],
    ids=lambda value: type(value).__name__,
)
def test_accuracy_on_cora(model, floor):
    """Somewhat below what is found with more walks, or over more seeds."""
    data = nodegp.load_dataset("cora")
    model.fit(data.graph, data.labels("train"))
    assert model.score(data.graph, data.labels("test")) >= floor
