"""The default model: what it compares, how it chooses, and what that does on several graphs."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import nodegp
from helpers import hide
from nodegp import Graph, GraphGPClassifier
from nodegp.filters import Identity, PageRank, Propagation, Relations, SumOfFilters
from nodegp.kernels import Linear
from nodegp.model import Recipe
from nodegp.model.candidates import candidates, neighbours_are_alike
from nodegp.model.comparison import Trial, compare, squared_error
from nodegp.model.recipe import (
    DEFAULT,
    bias_variance,
    default_kernel,
    far_neighbours,
    prior_variance,
    teleport,
)
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain
from nodegp.rows import paired_cosines


def graph_of(seed, alike, told=2.0, n=300, columns=8):
    """Two classes; ``alike`` is the share of edges within them, ``told`` how far features tell."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    rows, columns_ = [], []
    for i in range(n):
        for _ in range(3):
            same = rng.random() < alike
            rows.append(i)
            columns_.append(rng.choice(np.flatnonzero((y == y[i]) == same)))
    adjacency = sp.coo_array((np.ones(len(rows)), (rows, columns_)), shape=(n, n))
    adjacency = ((adjacency + adjacency.T) > 0).astype(float)
    adjacency.setdiag(0)
    features = rng.normal(size=(n, columns))
    features[:, 0] += told * (2 * y - 1)
    return Graph(sp.csr_array(adjacency), features), y


def some_labels(y, per_class, seed=0):
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(np.flatnonzero(y == c), per_class, replace=False) for c in np.unique(y)]
    return hide(y, np.concatenate(chosen))


def centred(graph, kind="auto"):
    return Domain(graph, Preprocessor.fit(graph.features, kind, True, graph.n_nodes))


def chosen(model):
    taken = [score.name for score in model.selection_ if score.chosen]
    assert len(taken) == 1
    return taken[0]


def test_the_default_is_said_by_its_parts():
    data = nodegp.load_dataset("cora")
    model = GraphGPClassifier().fit(data.graph, data.labels("train"))
    assert chosen(model) == "own features and far neighbours"
    own, far = model.filter_.filters
    assert isinstance(own, Identity)
    assert isinstance(far, PageRank)
    assert far.teleport == teleport(20) == 0.085
    assert type(model.likelihood_).__name__ == "Softmax"
    assert model.preprocessor_.centre is not None
    assert set(model.term_shares_) == {"0: Identity", "1: PageRank"}
    assert (model.predict(nodes=data.splits["val"]) == data.y[data.splits["val"]]).mean() > 0.78
    paper = GraphGPClassifier(recipe="paper").fit(data.graph, data.labels("train"))
    assert paper.selection_ == []
    assert paper.preprocessor_.centre is None


@pytest.mark.parametrize("seed", range(3))
def test_alike_neighbours_are_used(seed):
    graph, y = graph_of(seed, alike=0.9, told=0.7)
    model = GraphGPClassifier(random_state=0).fit(graph, some_labels(y, 10, seed))
    alone = GraphGPClassifier(filter="identity").fit(graph, some_labels(y, 10, seed))
    assert "far neighbours" in chosen(model)
    assert (model.predict() == y).mean() > (alone.predict() == y).mean() + 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("alike", "told"), [(0.5, 2.5), (0.05, 1.5)], ids=["noise", "differ"])
def test_edges_that_mislead_do_no_harm(alike, told, seed):
    graph, y = graph_of(seed, alike=alike, told=told)
    labels = some_labels(y, 20, seed)
    model = GraphGPClassifier(random_state=0).fit(graph, labels)
    alone = GraphGPClassifier(filter="identity").fit(graph, labels)
    assert (model.predict() == y).mean() > (alone.predict() == y).mean() - 0.02


@pytest.mark.parametrize("dense", [True, False])
def test_whether_neighbours_are_alike_by_plain_loops(dense):
    graph, _ = graph_of(3, alike=0.8, told=1.0)
    X = np.maximum(graph.features, 0.0)
    shown = Graph(graph.adjacency, X if dense else sp.csr_array(X))
    domain = centred(shown, "raw")
    C = X - X.mean(axis=0)
    cosines = [
        C[i] @ C[j] / np.sqrt((C[i] @ C[i]) * (C[j] @ C[j]))
        for i, j in zip(*sp.triu(graph.adjacency, 1).nonzero(), strict=True)
    ]
    found = paired_cosines(
        *(domain.rows.take(end) for end in sp.triu(graph.adjacency, 1).nonzero())
    )
    assert found == pytest.approx(np.array(cosines))
    expected = np.mean(cosines) > 2 * np.std(cosines, ddof=1) / np.sqrt(len(cosines))
    assert neighbours_are_alike(domain) == expected


@pytest.mark.parametrize(("alike", "first"), [(0.9, "far"), (0.5, "alone"), (0.1, "alone")])
def test_what_comes_first_is_seen_without_labels(alike, first):
    graph, _ = graph_of(0, alike=alike)
    assert first in candidates(centred(graph), 10, DEFAULT)[0].name


def test_no_edges_and_no_features():
    graph, _ = graph_of(0, alike=0.9)
    unlinked = Graph(sp.csr_array((300, 300)), graph.features)
    assert not neighbours_are_alike(centred(unlinked))
    bare = Graph(graph.adjacency)
    assert neighbours_are_alike(centred(bare))


def test_without_a_second_label_the_first_recipe_is_taken():
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier().fit(graph, some_labels(y, 1))
    assert chosen(model) == model.selection_[0].name
    assert all(score.log_loss is None and score.gain is None for score in model.selection_)


def test_a_graph_without_features():
    graph, y = graph_of(0, alike=0.9)
    bare = Graph(graph.adjacency)
    model = GraphGPClassifier().fit(bare, some_labels(y, 10))
    assert "neighbours" in chosen(model)
    assert (model.predict() == y).mean() > 0.75


def test_a_table_whose_classes_are_curved():
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, 2 * np.pi, 400), np.repeat([0, 1], 200)
    X = (1.0 + y)[:, None] * np.c_[np.cos(angle), np.sin(angle)] + rng.normal(0, 0.1, (400, 2))
    model = GraphGPClassifier(random_state=0).fit(X, some_labels(y, 15))
    assert chosen(model).endswith("smooth")
    assert (model.predict() == y).mean() > 0.9


@pytest.mark.parametrize("filter", ["auto", "pagerank", PageRank(0.1, averaged=True), "diffusion"])
def test_new_rows_of_a_table_do_not_hear_of_each_other(filter):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.normal(size=(80, 3)) + 2 * y[:, None]
    model = GraphGPClassifier(filter=filter, random_state=0).fit(X, y)
    new = rng.normal(size=(6, 3)) + 1
    together = model.predict_proba(new)
    one_by_one = np.vstack([model.predict_proba(row[None]) for row in new])
    assert one_by_one == pytest.approx(together, abs=1e-9)
    # Rows that are known already see what they saw.
    domain, _ = model._asked(X[:5], None)
    assert domain.graph.n_fitted_nodes == 80
    known, seen = (model.prior_.at(d, np.arange(80)) for d in (domain, model.model_.domain()))
    parts = zip(getattr(known, "parts", [known]), getattr(seen, "parts", [seen]), strict=True)
    for with_new, without in parts:
        a, b = (inputs.rows.take(np.arange(80)).values for inputs in (with_new, without))
        assert np.asarray(a) == pytest.approx(np.asarray(b))


def test_kinds_of_edges_are_told_apart():
    graph, y = graph_of(0, alike=0.95)
    noise, _ = graph_of(1, alike=0.5)
    both = Graph({"same": graph.adjacency, "noise": noise.adjacency}, graph.features)
    names = [recipe.name for recipe in candidates(centred(both), 10, DEFAULT)]
    assert "one function per kind of edges" in names
    model = GraphGPClassifier(random_state=0).fit(both, some_labels(y, 20))
    assert (model.predict() == y).mean() > 0.9


def test_many_labels_are_sampled_for_the_choice_and_all_fitted(monkeypatch):
    monkeypatch.setattr("nodegp.model.selection._ENOUGH", 40)
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier(random_state=0).fit(graph, some_labels(y, 60))
    assert len(model.labelled_) == 120
    assert model.loo_proba_.shape == (120, 2)
    assert chosen(model)
    again = GraphGPClassifier(random_state=0).fit(graph, some_labels(y, 60))
    assert again.selection_ == model.selection_


def test_a_kernel_of_ones_own_is_kept():
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier(kernel=Linear(3.0, fixed=("variance",))).fit(
        graph, some_labels(y, 10)
    )
    assert len(model.selection_) == 3
    kernels = model.kernel_ if isinstance(model.kernel_, tuple) else [model.kernel_]
    assert all(float(next(iter(k.parameters().values()))) > 0 for k in kernels)


def test_auto_with_the_papers_kernel():
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier(filter="auto", recipe="paper", random_state=0)
    model.fit(graph, some_labels(y, 10))
    assert len(model.selection_) == 3
    assert type(model.likelihood_).__name__ == "RobustMax"


def test_scores_are_kept_in_the_file(tmp_path):
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier().fit(graph, some_labels(y, 5))
    model.save(tmp_path / "model.nodegp", include_graph=True)
    loaded = nodegp.load(tmp_path / "model.nodegp")
    assert loaded.selection_ == model.selection_
    assert loaded.predict_proba() == pytest.approx(model.predict_proba(), rel=1e-9)


def test_progress_names_the_recipes(capsys):
    graph, y = graph_of(0, alike=0.9)
    GraphGPClassifier(verbose=1).fit(graph, some_labels(y, 5))
    said = capsys.readouterr().err
    assert "leave-one-out log loss" in said
    assert "taken: " in said


def test_the_fewer_the_labels_the_further():
    far = [teleport(n) for n in (0.5, 1, 3, 5, 10, 20, 60, 1000)]
    assert far == sorted(far)
    assert far[0] == 0.02
    assert [teleport(n) for n in (1, 3, 5, 10, 20)] == [0.02, 0.03, 0.04, 0.06, 0.085]
    assert far[-1] == 0.085
    assert [far_neighbours(n).order for n in (1, 5, 20, 1000)] == [14, 10, 7, 7]
    assert [far_neighbours(n).hub_discount for n in (1, 20, 28, 40, 100)] == [0.5, 0.5, 0.3, 0.1, 0]
    assert [prior_variance(n) for n in (1, 20, 28, 1000)] == pytest.approx([1.75, 1.75, 2.45, 3.0])
    assert [bias_variance(n) for n in (1, 5, 20, 1000)] == pytest.approx(
        [0.0332, 0.1329, 0.6, 0.6], rel=1e-3
    )


def test_with_a_handful_of_labels_there_is_nothing_to_compare_by():
    graph, y = graph_of(0, alike=0.9)
    nodes = np.flatnonzero(y == y[0])[:9]
    few = np.full(len(y), -1)
    few[nodes] = y[nodes]
    other = np.flatnonzero(y != y[0])[0]
    few[other] = y[other]  # its class has no second label
    assert [score.chosen for score in GraphGPClassifier().fit(graph, few).selection_] == [True]
    few[np.flatnonzero(y == y[other])[1]] = y[other]
    assert len(GraphGPClassifier().fit(graph, few).selection_) > 1


@pytest.mark.parametrize(
    "filter",
    [
        Identity(),
        PageRank(0.1),
        SumOfFilters((Identity(), PageRank(0.1))),
        SumOfFilters((PageRank(0.1),)),
    ],
    ids=["identity", "pagerank", "both", "a sum of one"],
)
def test_the_default_kernel_has_the_same_variance_for_every_filter(filter):
    graph, _ = graph_of(0, alike=0.9)
    kernels = kernels_for(filter, graph, is_learnt=False)
    variances = [v for kernel in kernels for v in kernel.parameters().values()]
    assert sum(variances) == pytest.approx(2.35)
    assert not any(kernel.free_parameters() for kernel in kernels)
    assert all(kernel.free_parameters() for kernel in kernels_for(filter, graph, is_learnt=True))


def kernels_for(filter, graph, is_learnt):
    """The default kernels, one for each function."""
    found = default_kernel(filter, graph, is_learnt)
    return found if isinstance(found, tuple) else (found,)


def test_of_relations_too():
    graph, _ = graph_of(0, alike=0.9)
    both = Graph({"a": graph.adjacency, "b": graph.adjacency}, graph.features)
    assert len(default_kernel(Relations(), both, is_learnt=True)) == 3
    hops = SumOfFilters((Propagation(1), Propagation(2)))
    kernels = default_kernel(hops, graph, is_learnt=True)
    variances = [float(v) for kernel in kernels for v in kernel.parameters().values()]
    assert variances == pytest.approx([0.875, 0.6, 0.875])


def test_comparing_by_hand():
    names = [Recipe(Identity(), name=name) for name in "abcd"]
    first = np.array([-1.0, -2.0, -1.0, -2.0])
    unsure = first + np.array([4.0, -3.0, 4.0, -3.0])  # better on average, but not always
    clear = first + np.array([0.1, 0.2, 0.1, 0.2])  # by less, but always
    tried = [Trial(0.1, first, -5.0), Trial(0.1, unsure, -1.0), Trial(None, clear, -9.0)]
    scores = compare(names, [*tried, Trial(0.2, None, None)])
    assert [score.chosen for score in scores] == [False, False, True, False]
    assert scores[1].gain == pytest.approx(0.5)
    assert scores[1].gain_error == pytest.approx(3.5 * (4 / 3) ** 0.5 / 2)
    assert scores[2].log_loss == pytest.approx(1.35)
    assert [score.elbo for score in scores] == [-5.0, -1.0, -9.0, None]
    assert scores[3] == ("d", 0.2, None, None, None, None, False)


def test_squared_error_leaves_each_label_out():
    rng = np.random.default_rng(0)
    factors = torch.from_numpy(rng.normal(size=(7, 4)))
    K, y = factors @ factors.T, np.array([0, 1, 1, 2, 0, 1, 3])
    K_noisy = K + 0.3 * K.diagonal().mean() * torch.eye(7)
    errors = []
    for n in range(7):
        rest = [j for j in range(7) if j != n]
        if not (y[rest] == y[n]).any():
            continue  # nothing could tell of its class
        weights = torch.linalg.solve(K_noisy[np.ix_(rest, rest)], K[rest, n]).numpy()
        errors.append(sum(((y[n] == c) - weights @ (y[rest] == c)) ** 2 for c in range(4)))
    assert len(errors) == 5
    assert squared_error(K, y) == pytest.approx(np.mean(errors))


def test_what_least_squares_find_worse_is_not_tried():
    graph, y = graph_of(0, alike=0.95, told=0.5)
    model = GraphGPClassifier(random_state=0).fit(graph, some_labels(y, 20))
    first, *others = model.selection_
    assert first.log_loss is not None
    behind = [score for score in others if score.log_loss is None]
    assert behind, "features tell little here"
    assert all(score.squared_error >= first.squared_error for score in behind)
    tried = [score for score in others if score.log_loss is not None]
    assert all(
        score.squared_error is None or score.squared_error < first.squared_error for score in tried
    )
    # A kernel with something left to learn is not judged by where it starts.
    model = GraphGPClassifier(kernel=Linear(), random_state=0).fit(graph, some_labels(y, 20))
    assert all(score.squared_error is None for score in model.selection_)
    assert all(score.log_loss is not None for score in model.selection_)
