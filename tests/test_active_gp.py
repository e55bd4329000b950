"""Designs on a Gaussian process' own covariance: against naive inverses, by hand, and as used."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers import random_graph, smooth_classes
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor, load, load_dataset
from nodegp.active import GPVOPT, SOPT, ActiveLearner, Hybrid, Situation, strategies, suggest
from nodegp.active import latent as latent_module
from nodegp.active.acquisition import best
from nodegp.active.latent import DenseCovariance, LowRankCovariance, latent_covariance
from nodegp.filters import Identity, NeighbourMean, PageRank, SumOfFilters
from nodegp.kernels import RBF, Linear
from nodegp.preprocessing import Preprocessing
from nodegp_paper.baselines import REGISTRY
from nodegp_paper.strategies import GPEER, gpeer
from nodegp_paper.strategies.gpeer import expected_gains

FIXED = Linear(1.0, fixed=("variance",))
FAR = PageRank(0.2, fixed=("strength",))


def labels_at(y: np.ndarray, nodes) -> np.ndarray:
    shown = np.full(len(y), -1)
    shown[list(nodes)] = y[list(nodes)]
    return shown


def situation(graph: Graph, y: np.ndarray, model, memory=None) -> Situation:
    labelled, rng = y != -1, np.random.default_rng(0)
    memory = {} if memory is None else memory
    return Situation(graph, labelled, ~labelled, model, rng, y, memory)


def fitted(graph: Graph, y: np.ndarray, kernel=FIXED, filter=FAR, **settings) -> GraphGPClassifier:
    model = GraphGPClassifier(
        kernel=kernel,
        filter=filter,
        preprocessing=Preprocessing("raw", center=False),
        calibrate=False,
        **settings,
    )
    return model.fit(graph, y, classes=[0, 1, 2])


def prior(graph: Graph, model) -> np.ndarray:
    """K of a linear kernel on features filtered by the dense F."""
    F = model.filter_.weights(graph, np.arange(graph.n_nodes)).toarray()
    X = np.eye(graph.n_nodes) if graph.features is None else graph.features
    return F @ X @ X.T @ F.T


def naive_fall(K: np.ndarray, labelled: list[int], noise: float, weights: np.ndarray) -> np.ndarray:
    """The fall of the weighted posterior variances by one more label, with an inverse for each."""

    def total(nodes: list[int]) -> float:
        inverse = np.linalg.inv(K[np.ix_(nodes, nodes)] + noise * np.eye(len(nodes)))
        left = 0.0
        for j in range(len(K)):
            left += weights[j] * (K[j, j] - K[j, nodes] @ inverse @ K[nodes, j])
        return left

    before = total(labelled)
    return np.array([before - total([*labelled, i]) for i in range(len(K))])


# --- the covariance -------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_rank_one_updates_are_what_inverses_give(n, width, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, width))
    K, weights, noise = X @ X.T, rng.random(n), 0.4
    dense = DenseCovariance(K.copy(), noise)
    everyone = np.arange(n)
    low_rank = LowRankCovariance(torch.tensor(K), everyone, K.diagonal(), noise)
    labelled: list[int] = []
    for node in rng.permutation(n)[:-1].tolist():
        dense.condition(node)
        low_rank.condition(node)
        labelled.append(node)
        fall = naive_fall(K, labelled, noise, weights)
        rest = np.setdiff1d(everyone, labelled)
        for found in (dense, low_rank):
            worth = found.squares(weights) / (found.variances() + noise)
            np.testing.assert_allclose(worth[rest], fall[rest], rtol=1e-5, atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(40, 400), st.integers(0, 2**32 - 1), st.booleans())
@example(117, 497, True)
def test_single_precision_asks_about_the_same_node(n, seed, alike):
    """Most scores are rough; the best is exact, whoever may be asked about."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20)) * 10.0 ** rng.uniform(-1, 1, (n, 1))
    if alike:  # then too many are near the best to tell them apart roughly
        X = np.repeat(X[:1], n, axis=0) * (1 + 1e-6 * rng.random((n, 1)))
    landmarks = np.sort(rng.choice(n, 15, replace=False))
    K, weights = X @ X.T + 0.1 * np.eye(n), rng.random(n) ** 4
    found = LowRankCovariance(torch.tensor(K[:, landmarks]), landmarks, K.diagonal(), 0.4)
    open_ = rng.random(n) < 0.7
    open_[0] = True
    for node in rng.permutation(n)[:8].tolist():
        rough, exact = found.worth(weights, open_), found.squares(weights)
        exact /= found.variances() + found.noise
        chosen = best(rough, open_)
        assert chosen == best(exact, open_)
        assert rough[chosen] == pytest.approx(exact[chosen], rel=1e-12)
        # Single precision keeps the digits of what there was before any label.
        loosely = {"rtol": 1e-3, "atol": 1e-4 * exact.max() + 1e-6 * (weights @ K.diagonal())}
        np.testing.assert_allclose(rough[open_], exact[open_], **loosely)
        found.condition(node)
        open_[node] = False
        open_[(node + 1) % n] = True


def test_what_landmarks_do_not_tell_is_each_nodes_own():
    # Nodes 0, 1 share a feature, 2 and 3 have one each; the landmarks are 0 and 2.
    X = np.array([[1.0, 0, 0], [2.0, 0, 0], [0, 1.0, 0], [0, 0, 3.0]])
    K = X @ X.T
    found = LowRankCovariance(torch.tensor(K[:, [0, 2]]), np.array([0, 2]), K.diagonal(), 0.5)
    np.testing.assert_allclose(found.variances(), [1, 4, 1, 9], rtol=1e-6)
    np.testing.assert_allclose(found.squares(np.ones(4)), [5, 20, 1, 81], rtol=1e-6)
    found.condition(1)  # leaves 1 - 4 / 4.5 of node 0, and says nothing of 2 and 3
    np.testing.assert_allclose(found.variances()[[0, 2, 3]], [1 - 4 / 4.5, 1, 9], rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "filter"),
    [(FIXED, FAR), (RBF(1.0, 1.0), NeighbourMean()), (FIXED, SumOfFilters((Identity(), FAR)))],
)
def test_the_prior_is_the_models_own(kernel, filter):
    graph = random_graph(20, seed=1)
    y = labels_at(smooth_classes(graph), [0, 3, 7, 9])
    model = fitted(graph, y, kernel, filter)
    domain = model.model_.domain(graph)
    found = latent_covariance(model.model_.planning_prior(domain), domain, 0.3)
    # The prior is the posterior's covariance and what the labels have explained of it.
    _, after = model.predict_latent(graph, cov=True)
    w = model.posterior_.project(_cross(model, graph)).numpy()
    K = after[0] + w.T @ model.posterior_.gain[0].numpy() @ w
    np.testing.assert_allclose(found.variances(), K.diagonal(), rtol=1e-8)
    np.testing.assert_allclose(found.squares(np.ones(20)), (K**2).sum(1), rtol=1e-8)
    assert found.noise == pytest.approx(0.3 * K.diagonal().mean())


def _cross(model, graph):
    everyone = model.prior_.at(model.model_.domain(graph), np.arange(graph.n_nodes))
    return model.prior_.cov(everyone, model.posterior_.inducing)


# --- choices --------------------------------------------------------------------------------


def test_first_choice_by_hand():
    # No edges, so K = X X^T. Node 0 is labelled and alone in its direction; 1, 2, 3 share one, of
    # which 2 has most; 4 is longest of all, and nobody learns from it.
    X = np.array([[1.0, 0, 0], [0, 1, 0], [0, 2, 0], [0, 1, 0], [0, 0, 2.2]])
    graph = Graph(np.zeros((5, 5)), X)
    y = np.array([0, -1, -1, -1, -1])
    model = fitted(graph, y, filter=Identity())
    asked = situation(graph, y, model)
    noise = 0.5 * (1 + 1 + 4 + 1 + 4.84) / 5
    scores = GPVOPT(noise=0.5).scores(asked)
    np.testing.assert_allclose(scores[2], (4 + 16 + 4) / (4 + noise))
    np.testing.assert_allclose(scores[1], (1 + 4 + 1) / (1 + noise))
    np.testing.assert_allclose(scores[4], 4.84**2 / (4.84 + noise))
    # A batch takes 2 as labelled, after which 1 and 3 have little left to tell.
    assert GPVOPT(noise=0.5).choose(asked, 2).tolist() == [2, 4]
    error = 1.0 - model.predict_proba(graph).max(axis=1)
    expected = (error[1] * 4 + error[2] * 16 + error[3] * 4) / (4 + noise)
    np.testing.assert_allclose(Hybrid(noise=0.5).scores(asked)[2], expected)


def test_label_after_label_against_the_naive_inverse_with_and_without_doubt():
    graph = random_graph(18, seed=4)
    truth = smooth_classes(graph)
    nodes = [2, 5, 11]
    memories = {"gp-vopt": {}, "hybrid": {}}
    for node in (16, 7, 0):
        nodes.append(node)
        y = labels_at(truth, nodes)
        model = fitted(graph, y)
        K = prior(graph, model)
        doubt = 1.0 - model.predict_proba(graph).max(axis=1)
        rest = np.flatnonzero(y == -1)
        for name, weights in (("gp-vopt", np.ones(18)), ("hybrid", doubt)):
            asked = situation(graph, y, model, memories[name])
            scores = strategies()[name]().scores(asked)
            fall = naive_fall(K, nodes, 0.3 * K.diagonal().mean(), weights)
            np.testing.assert_allclose(scores[rest], fall[rest], rtol=1e-5)


def test_hybrid_leaves_alone_what_is_decided():
    # Two groups of equal nodes, in directions of their own. One has three labels, of one class;
    # the other's four are of two classes, so there all is open, though as much is known of it.
    X = np.repeat(np.eye(2), 12, axis=0) * 3.0
    graph = Graph(np.zeros((24, 24)), X)
    y = np.full(24, -1)
    y[:4], y[12:16] = 0, [1, 2, 1, 2]
    model = fitted(graph, y, filter=Identity())
    asked = situation(graph, y, model)
    coverage, hybrid = GPVOPT().scores(asked), Hybrid().scores(asked)
    assert coverage[5] == pytest.approx(coverage[20])
    assert hybrid[20] > 2.0 * hybrid[5]
    assert Hybrid().choose(asked).tolist() == [16]


@pytest.mark.parametrize("kind", [GPVOPT, Hybrid])
def test_a_batch_is_what_single_questions_would_have_been_of_the_same_model(kind):
    graph = random_graph(24, seed=2)
    truth = smooth_classes(graph)
    model = fitted(graph, labels_at(truth, [0, 1]))
    nodes = [0, 1]
    for _ in range(5):
        nodes += kind().choose(situation(graph, labels_at(truth, nodes), model)).tolist()
    asked = situation(graph, labels_at(truth, [0, 1]), model)
    batch = kind().explain_choice(asked, 5)
    assert batch.nodes.tolist() == nodes[2:]
    # The batch was not answered, and is asked for again.
    again = kind().explain_choice(asked, 5)
    assert again.nodes.tolist() == nodes[2:]
    np.testing.assert_allclose(again.scores, batch.scores)


def test_other_hyper_parameters_and_other_graphs_are_noticed():
    graph, other = random_graph(20, seed=1), random_graph(20, seed=9)
    y = labels_at(smooth_classes(graph), [0, 3, 7])
    memory = {}
    cases = [
        (graph, fitted(graph, y)),
        (graph, fitted(graph, y, filter=PageRank(0.5, fixed=("strength",)))),
        (graph, fitted(graph, y, Linear(2.0, fixed=("variance",)))),
        (other, fitted(other, y)),
    ]
    for where, model in cases:
        found = GPVOPT().scores(situation(where, y, model, memory))
        np.testing.assert_allclose(found, GPVOPT().scores(situation(where, y, model)))
    # A model that learns in place has another prior afterwards.
    model = fitted(graph, y, Linear(1.0))
    GPVOPT().scores(situation(graph, y, model, memory))
    model.update([5], [1])
    y = labels_at(np.where(np.arange(20) == 5, 1, smooth_classes(graph)), [0, 3, 5, 7])
    found = GPVOPT().scores(situation(graph, y, model, memory))
    np.testing.assert_allclose(found, GPVOPT().scores(situation(graph, y, model)))
    # Another noise leaves another covariance.
    found = GPVOPT(noise=0.9).scores(situation(graph, y, model, memory))
    np.testing.assert_allclose(found, GPVOPT(noise=0.9).scores(situation(graph, y, model)))


@pytest.mark.parametrize("name", ["gp-vopt", "hybrid", "gp-eer"])
def test_graphs_without_features_and_in_pieces(name):
    path = sp.diags_array([np.ones(6)], offsets=[1], shape=(7, 7))
    star = np.zeros((5, 5))
    star[0, 1:] = 1.0
    graph = Graph(sp.block_diag([path, star, np.zeros((1, 1))]))
    truth = np.array([0] * 7 + [1] * 5 + [1])
    learner = ActiveLearner(
        GraphGPClassifier(kernel=FIXED, filter=FAR), graph, strategies()[name](), truth,
        initial=[0], candidates=np.arange(12), classes=[0, 1, 2],
    )  # fmt: skip
    asked = [node for step in learner.steps() for node in step.nodes.tolist()]
    assert sorted(asked) == list(range(12))
    assert asked[0] == 0
    assert asked[1] == 7  # the star is open, and its centre tells most of it


def test_with_one_class_known_hybrid_is_coverage():
    graph = random_graph(15, seed=3)
    y = np.full(15, -1)
    y[4] = 0
    model = GraphGPClassifier(kernel=FIXED, filter=FAR, preprocessing="raw").fit(graph, y)
    asked = situation(graph, y, model)
    np.testing.assert_allclose(Hybrid().scores(asked), GPVOPT().scores(asked))


def test_large_graphs_choose_nearly_the_same(monkeypatch):
    graph = random_graph(200, n_features=5, seed=6, p=0.03)
    truth = smooth_classes(graph)
    y = labels_at(truth, range(6))
    model = fitted(graph, y)
    exact = Hybrid().scores(situation(graph, y, model))
    monkeypatch.setattr(latent_module, "MAX_DENSE", 100)
    monkeypatch.setattr(latent_module, "N_LANDMARKS", 20)  # five features: they tell all
    np.testing.assert_allclose(
        Hybrid().scores(situation(graph, y, model)), exact, rtol=1e-4, atol=1e-9
    )
    monkeypatch.setattr(latent_module, "N_LANDMARKS", 3)
    found = Hybrid().explain_choice(situation(graph, y, model), 10)
    assert len(set(found.nodes.tolist()) - set(range(6))) == 10
    again = Hybrid().explain_choice(situation(graph, y, model), 10)
    assert again.nodes.tolist() == found.nodes.tolist()
    rough = Hybrid().scores(situation(graph, y, model))
    assert np.corrcoef(rough, exact)[0, 1] > 0.5


def test_what_they_need_is_said():
    graph = random_graph(12, seed=0)
    y = labels_at(smooth_classes(graph), [0, 1, 2])
    for name in ("gp-vopt", "hybrid", "gp-eer"):
        cold = suggest(graph, 2, name)
        assert cold.note == f"{name} needs a fitted model, so sopt chose"
        assert cold.nodes.tolist() == suggest(graph, 2, SOPT()).nodes.tolist()
        lp = REGISTRY["lp"]().fit(graph, y)
        with pytest.raises(TypeError, match=f"{name} needs a Gaussian process.*got"):
            suggest(graph, 1, name, y=y, model=lp)
    values = np.where(y < 0, np.nan, y.astype(float))
    regressor = GraphGPRegressor(kernel=FIXED, filter=FAR, preprocessing="raw").fit(graph, values)
    assert suggest(graph, 2, "gp-vopt", y=y, model=regressor).note == ""
    for name in ("hybrid", "gp-eer"):
        with pytest.raises(TypeError, match=f"{name} needs a classifier; for a GraphGPRegressor"):
            suggest(graph, 1, name, y=y, model=regressor)
    robust = GraphGPClassifier(
        kernel=FIXED, filter=FAR, likelihood="robustmax", preprocessing="raw"
    ).fit(graph, y)
    with pytest.raises(TypeError, match="likelihood='softmax'; use hybrid"):
        suggest(graph, 1, "gp-eer", y=y, model=robust)
    one = GraphGPClassifier(kernel=FIXED, filter=FAR).fit(
        graph, np.where(np.arange(12) == 3, 0, -1)
    )
    assert suggest(graph, 1, "gp-eer", y=y, model=one).note.startswith("gp-eer needs two classes")
    with pytest.raises(ValueError, match="Hybrid: noise must be positive, got 0"):
        Hybrid(noise=0)


def test_nodes_without_any_variance_are_no_trouble():
    X = np.zeros((6, 2))
    X[:2] = np.eye(2)
    graph = Graph(np.zeros((6, 6)), X)
    y = np.array([0, -1, 1, -1, -1, -1])
    choice = suggest(graph, 4, "hybrid", y=y, model=fitted(graph, y, filter=Identity()))
    assert choice.nodes[0] == 1
    assert np.isfinite(choice.scores).all()
    blank = Graph(np.zeros((6, 6)), np.zeros((6, 2)))
    model = fitted(blank, y, filter=Identity())
    assert suggest(blank, 2, "gp-vopt", y=y, model=model).nodes.tolist() == [1, 3]


def naive_gain(model, graph: Graph, k: int) -> float:
    """Expected fall in the number of wrong nodes by asking about k, a loop for each sum."""
    mean, cov = model.predict_latent(graph, cov=True)
    n, n_classes = mean.shape

    def wrong(means: np.ndarray, variances: np.ndarray, known: int | None = None) -> float:
        total = 0.0
        for j in range(n):
            if j != known:
                z = means[j] / np.sqrt(1 + np.pi / 8 * variances[j]) / model.temperature_
                total += 1.0 - np.exp(z - z.max()).max() / np.exp(z - z.max()).sum()
        return total

    variances = np.array([cov[c].diagonal() for c in range(n_classes)]).T
    expected = 0.0
    for c, chance in enumerate(model.predict_proba(graph, [k])[0]):
        site = model.likelihood_.expectation(
            torch.tensor([c]), *(torch.from_numpy(part[[k]]) for part in (mean, variances)),
            torch.ones(1).double(),
        )  # fmt: skip
        after, left = mean.copy(), variances.copy()
        for latent in range(n_classes):
            precision = -2 * float(site.variance_gradient[0, latent])
            kept = 1 + precision * variances[k, latent]
            for j in range(n):
                carried = cov[latent, j, k]
                after[j, latent] += carried * float(site.mean_gradient[0, latent]) / kept
                left[j, latent] -= carried**2 * precision / kept
        expected += chance * wrong(after, left, known=k)
    return wrong(mean, variances) - expected


@pytest.mark.parametrize(
    ("filter", "inducing"),
    [(FAR, "labelled"), (FAR, "points"), (SumOfFilters((Identity(), FAR)), "labelled")],
)
def test_expected_errors_are_what_loops_give(filter, inducing):
    graph = random_graph(14, seed=2)
    y = labels_at(smooth_classes(graph), [0, 4, 9, 11])
    model = fitted(graph, y, Linear(2.0, fixed=("variance",)), filter, inducing=inducing)
    model.model_ = replace(model.model_, temperature=0.7)
    nodes = np.array([1, 5, 13])
    found = expected_gains(model.model_, graph, nodes)
    np.testing.assert_allclose(found, [naive_gain(model, graph, k) for k in nodes], atol=1e-4)
    choice = GPEER().explain_choice(situation(graph, y, model), 10)
    gains = expected_gains(model.model_, graph, choice.nodes)
    np.testing.assert_allclose(choice.scores, gains, rtol=1e-6)
    assert (np.diff(gains) <= 0).all()
    assert not set(choice.nodes.tolist()) & {0, 4, 9, 11}


def test_only_the_shortlist_is_scored(monkeypatch):
    monkeypatch.setattr(gpeer, "SHORTLIST", 3)
    graph = random_graph(14, seed=2)
    y = labels_at(smooth_classes(graph), [0, 4, 9, 11])
    asked = situation(graph, y, fitted(graph, y))
    best = Hybrid().scores(asked)[asked.candidates]
    chosen = GPEER().choose(asked)[0]
    assert Hybrid().scores(asked)[chosen] >= np.sort(best)[-3]
    assert len(GPEER().choose(asked, 6)) == 6


def test_a_plan_stays_as_labels_come_in():
    """The default model weighs its views anew and carries features less far with every label; its
    questions are planned with one prior, so that a question costs one label and no more."""
    data = load_dataset("cora")
    memory, plans, models = {}, [], []
    for n in (2, 30):
        y = labels_at(data.y, np.concatenate([np.flatnonzero(data.y == c)[:n] for c in range(7)]))
        models.append(GraphGPClassifier(random_state=0).fit(data.graph, y))
        asked = situation(data.graph, y, models[-1], memory=memory)
        Hybrid().scores(asked)
        plans.append(memory["plan"][1])
    assert models[0].prior_ != models[1].prior_
    assert plans[0] is plans[1]
    fixed = fitted(random_graph(14, seed=2), labels_at(np.arange(14) % 3, [0, 1, 2]))
    assert fixed.model_.planning_prior(fixed.model_.domain()) == fixed.prior_
    assert (fixed.prior_.kernel, fixed.prior_.filter) == (fixed.kernel_, fixed.filter_)


@pytest.mark.parametrize("filter", [FAR, SumOfFilters((Identity(), FAR))])
def test_a_saved_model_asks_the_same(tmp_path, filter):
    graph = random_graph(20, seed=5)
    y = labels_at(smooth_classes(graph), [0, 4, 9])
    model = fitted(graph, y, filter=filter)
    model.save(tmp_path / "model.nodegp")
    for name in ("gp-vopt", "hybrid", "gp-eer"):
        before = suggest(graph, 4, name, y=y, model=model)
        after = suggest(graph, 4, name, y=y, model=load(tmp_path / "model.nodegp"))
        assert after.nodes.tolist() == before.nodes.tolist()
        np.testing.assert_allclose(after.scores, before.scores)


def test_one_label_and_a_wide_prior_can_be_fitted():
    graph = random_graph(12, seed=0)
    y = labels_at(smooth_classes(graph), [3])
    norm = float(prior(graph, fitted(graph, y))[3, 3])
    for variance in (1.0, 44.0, 1e3):
        model = fitted(graph, y, Linear(variance / norm, fixed=("variance",)))
        assert model.converged_
        assert np.isfinite(model.predict_proba(graph)).all()
