"""The default model on graphs of every kind that it promises to take: what it reaches there, and
that all one can do with a model can be done."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import nodegp
from helpers import hide
from nodegp import Graph, GraphGPClassifier
from nodegp.active import suggest
from nodegp.evaluation import leave_one_out
from nodegp.inference import Dual
from nodegp.model.calibration import weighted
from nodegp.prior import Domain, build, edges, lengths

TIGHT = Dual(tol=1e-8, max_steps=2000)


def linked(y, rng, degree=5.0, alike=0.9):
    """Edges of a stochastic block model: a share ``alike`` of them is within classes."""
    n, same = len(y), y[:, None] == y
    within = degree * alike / np.maximum(same.sum(1), 1)
    across = degree * (1 - alike) / np.maximum((~same).sum(1), 1)
    chance = np.where(same, within[:, None], across[:, None])
    return sp.csr_array(np.triu(rng.random((n, n)) < chance, 1).astype(float))


def words(y, rng, told=2.0, n_words=60):
    """Counts of words, some of which each class has more often."""
    own = np.arange(n_words) % (y.max() + 1) == y[:, None]
    return sp.csr_array(rng.poisson(np.where(own, 0.15 * told, 0.15)).astype(float))


class Case(NamedTuple):
    """A graph with its classes, the labelled nodes, and the accuracy that is asked for."""

    graph: Graph
    y: np.ndarray
    shown: np.ndarray
    at_least: float


def first_of_each(y, per_class):
    return np.sort(np.concatenate([np.flatnonzero(y == c)[:per_class] for c in np.unique(y)]))


def structure_only():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], 100))
    return Case(Graph(linked(y, rng, 8.0)), y, first_of_each(y, 3), 0.9)


def features_only():
    rng = np.random.default_rng(1)
    y = rng.permutation(np.repeat([0, 1, 2], 60))
    return Case(Graph(sp.csr_array((180, 180)), words(y, rng, 3.0)), y, first_of_each(y, 8), 0.75)


def heterophily():
    rng = np.random.default_rng(2)
    y = rng.permutation(np.repeat([0, 1], 100))
    graph = Graph(linked(y, rng, 6.0, alike=0.05), words(y, rng, 1.6))
    return Case(graph, y, first_of_each(y, 10), 0.8)


def many_classes():
    rng = np.random.default_rng(3)
    y = rng.permutation(np.repeat(np.arange(20), 12))
    graph = Graph(linked(y, rng, 5.0, 0.85), words(y, rng, 5.0, 80))
    return Case(graph, y, first_of_each(y, 3), 0.8)


def two_noisy_classes():
    """Little can be known; what is known is used."""
    rng = np.random.default_rng(4)
    y = rng.permutation(np.repeat([0, 1], 120))
    graph = Graph(linked(y, rng, 6.0, alike=0.7), words(y, rng, 1.4))
    return Case(graph, y, first_of_each(y, 20), 0.6)


def one_label_in_all():
    rng = np.random.default_rng(5)
    y = rng.permutation(np.repeat([0, 1], 50))
    return Case(Graph(linked(y, rng), words(y, rng)), y, np.array([7]), 0.0)


def a_class_with_a_single_label():
    rng = np.random.default_rng(6)
    y = rng.permutation(np.repeat([0, 1, 2], 60))
    few = np.r_[first_of_each(y, 6)[y[first_of_each(y, 6)] != 2], np.flatnonzero(y == 2)[:1]]
    return Case(Graph(linked(y, rng, 6.0), words(y, rng, 3.0)), y, np.sort(few), 0.8)


CASES = {
    make.__name__.replace("_", " "): make
    for make in (
        structure_only,
        features_only,
        heterophily,
        many_classes,
        two_noisy_classes,
        one_label_in_all,
        a_class_with_a_single_label,
    )
}


@pytest.fixture(params=CASES, scope="module")
def case(request) -> Case:
    return CASES[request.param]()


def fit_of(case: Case, **settings) -> GraphGPClassifier:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "every label is")
        model = GraphGPClassifier(random_state=0, **settings)
        return model.fit(case.graph, hide(case.y, case.shown))


@pytest.fixture(scope="module")
def model(case) -> GraphGPClassifier:
    return fit_of(case, engine=TIGHT)


def rest(case):
    return np.setdiff1d(np.arange(len(case.y)), case.shown)


def test_it_predicts_what_can_be_known(case, model):
    proba = model.predict_proba()
    assert proba.shape == (len(case.y), len(model.classes_))
    assert proba.sum(axis=1) == pytest.approx(1.0)
    hidden = rest(case)
    assert (model.predict(nodes=hidden) == case.y[hidden]).mean() >= case.at_least
    assert model.selection_
    assert sum(score.weight for score in model.selection_) == pytest.approx(1.0)


def test_it_is_no_surer_than_guessing_allows(case, model):
    """A log loss above that of equal probabilities is the mark of one that is sure and wrong."""
    hidden = rest(case)
    if len(model.classes_) < 2:  # there is nothing else to say
        assert (model.predict_proba(nodes=hidden) == 1).all()
        return
    proba = model.predict_proba(nodes=hidden)
    loss = -np.log(proba[np.arange(len(hidden)), case.y[hidden]]).mean()
    assert loss < np.log(len(model.classes_)) + 0.02


def test_an_update_is_a_new_fit(case):
    model, more = fit_of(case, engine=TIGHT), rest(case)[:5]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "every label is")
        model.update(more, case.y[more])
    shown = np.union1d(case.shown, more)
    # On a graph of its own: nothing is there from before.
    relations = case.graph.relations or case.graph.adjacency
    same = Graph(relations, case.graph.features)
    fresh = fit_of(case._replace(graph=same, shown=shown), engine=TIGHT)
    assert [score.name for score in model.selection_] == [s.name for s in fresh.selection_]
    for a, b in zip(model.selection_, fresh.selection_, strict=True):
        assert a.weight == pytest.approx(b.weight, abs=1e-6)
    assert model.predict_proba() == pytest.approx(fresh.predict_proba(), abs=1e-6)
    assert model.loo_proba_ == pytest.approx(fresh.loo_proba_, abs=1e-6)
    assert model.class_weights_ == pytest.approx(fresh.class_weights_, abs=1e-6)


@pytest.mark.parametrize("include_graph", [True, False])
def test_a_file_holds_it_to_the_last_bit(case, model, include_graph, tmp_path):
    model.save(tmp_path / "model", include_graph=include_graph)
    loaded = nodegp.load(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that graph is known, whether it is in the file or not
        again = loaded.predict_proba(None if include_graph else case.graph)
    np.testing.assert_array_equal(again, model.predict_proba())
    np.testing.assert_array_equal(loaded.loo_proba_, model.loo_proba_)
    np.testing.assert_array_equal(loaded.class_weights_, model.class_weights_)
    assert loaded.selection_ == model.selection_
    if include_graph:
        more = rest(case)[:3]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "every label is")
            updated = fit_of(case, engine=TIGHT).update(more, case.y[more])
            loaded.update(more, case.y[more])
        assert loaded.predict_proba() == pytest.approx(updated.predict_proba(), abs=1e-6)


def test_it_explains_itself(case, model):
    node = int(rest(case)[3])
    explanation = model.explain(node)
    mean, _ = model.predict_latent(nodes=[node])
    assert explanation.labelled.tolist() == case.shown.tolist()
    assert explanation.latent_mean == pytest.approx(mean[0], abs=1e-5)
    # Either way all parts add up, and nothing is left over.
    assert explanation.rest == pytest.approx(0.0, abs=1e-4)
    by_label = explanation.from_labels.sum(axis=0) + explanation.common
    assert by_label == pytest.approx(mean[0], abs=1e-4)
    by_neighbour = explanation.from_neighbours.sum(axis=0) + explanation.anywhere
    assert by_neighbour == pytest.approx(mean[0], abs=1e-5)
    assert len(set(explanation.neighbours.tolist())) == len(explanation.neighbours)


def test_sets_hold_the_likeliest_and_grow_with_what_they_promise(case, model):
    proba = model.predict_proba()
    small, large = (model.predict_set(coverage=c) for c in (0.5, 0.95))
    assert (large >= small).all()
    assert small[np.arange(len(proba)), proba.argmax(axis=1)].all()


@pytest.mark.parametrize("name", ["hybrid", "gp-vopt", "entropy", "sopt"])
def test_it_asks_questions(case, model, name):
    asked = suggest(case.graph, 4, name, y=hide(case.y, case.shown), model=model, random_state=0)
    assert len(set(asked.nodes.tolist())) == 4
    assert not set(asked.nodes.tolist()) & set(case.shown.tolist())


def grown(case, n_new=3):
    """With copies of some nodes at its end: same features, linked to the same nodes."""
    A, X, n = case.graph.adjacency, case.graph.features, case.graph.n_nodes
    copied = rest(case)[:n_new]
    bigger = sp.block_array([[A, None], [A[copied], sp.csr_array((n_new, n_new))]])
    return Graph(bigger, None if X is None else sp.vstack([X, X[copied]]).tocsr()), copied, n


def test_new_nodes_of_a_graph_that_grew(case, model):
    graph, copied, n = grown(case)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proba = model.predict_proba(graph)
    # A node and its copy have the same features and neighbours; but if others have room for one
    # of the two among the nodes that are most like them, it is the first.
    assert proba[n:] == pytest.approx(proba[copied], abs=0.05)
    assert proba.shape[0] == n + len(copied)
    if len(model.classes_) > 1 and case.at_least >= 0.75:
        assert (proba[:n].argmax(1) == model.predict_proba().argmax(1)).mean() > 0.9


def test_a_stranger_is_told_that_links_are_left_out(case, model):
    X = case.graph.features
    strange = Graph(case.graph.adjacency[::-1][:, ::-1], None if X is None else X[::-1])
    by_links = any(
        score.name == "links in common" and score.weight > 0 for score in model.selection_
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        proba = model.predict_proba(strange)
    assert any("links are left out here" in str(each.message) for each in said) == by_links
    assert np.isfinite(proba).all()
    # Without features nodes are known by their places alone, and another graph has the same.
    if not by_links and X is not None:  # then the same nodes in another order are the same nodes
        assert proba[::-1] == pytest.approx(model.predict_proba(), abs=1e-6)


def test_the_order_of_nodes_does_not_matter(case, model):
    order = np.random.default_rng(0).permutation(len(case.y))
    place = np.argsort(order)  # of each node in the new order
    moved = Case(case.graph.subgraph(order), case.y[order], np.sort(place[case.shown]), 0.0)
    other = fit_of(moved, engine=TIGHT)
    assert other.predict_proba()[place] == pytest.approx(model.predict_proba(), abs=1e-6)
    assert other.temperature_ == pytest.approx(model.temperature_, rel=1e-5)
    for a, b in zip(model.selection_, other.selection_, strict=True):
        assert a.weight == pytest.approx(b.weight, abs=1e-6)


def test_the_names_of_classes_do_not_matter(case, model):
    names = np.random.default_rng(1).permutation(case.y.max() + 1)
    other = fit_of(case._replace(y=names[case.y]), engine=TIGHT)
    columns = np.searchsorted(other.classes_, names[model.classes_])
    # Expectations over many classes are means over points, which others have under other names.
    tolerance = 1e-6 if len(model.classes_) <= 3 else 0.03
    assert other.predict_proba()[:, columns] == pytest.approx(model.predict_proba(), abs=tolerance)
    for a, b in zip(model.selection_, other.selection_, strict=True):
        assert a.weight == pytest.approx(b.weight, abs=1e-6)


# --- what belongs to one of them -----------------------------------------------------------------


def test_no_features_and_few_labels_are_no_coin_toss():
    """A filter that is not centred says little but a node's degree there."""
    reached = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.repeat([0, 1], 100))
        shown = np.concatenate([rng.choice(np.flatnonzero(y == c), 3, False) for c in (0, 1)])
        case = Case(Graph(linked(y, rng, 8.0)), y, np.sort(shown), 0.0)
        reached.append((fit_of(case).predict() == y).mean())
    assert min(reached) > 0.9


def test_of_noise_labels_show_that_it_is_noise():
    """Neither edges nor features have to do with the classes. A few labels do not show that, and
    answers are surer than they should be; with more of them they come down to guessing."""
    mean_losses = []
    for per_class in (10, 20, 40):
        losses = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            y = rng.permutation(np.repeat([0, 1], 100))
            graph = Graph(linked(rng.permutation(y), rng, 5.0), words(rng.permutation(y), rng))
            case = Case(graph, y, first_of_each(y, per_class), 0.0)
            hidden, model = rest(case), fit_of(case)
            proba = model.predict_proba(nodes=hidden)
            losses.append(-np.log(proba[np.arange(len(hidden)), y[hidden]]).mean())
        mean_losses.append(np.mean(losses))
    assert max(mean_losses) < np.log(2) + 0.1
    assert mean_losses[-1] < np.log(2) + 0.03


@pytest.mark.parametrize("drawn", ["balanced", "at random"])
@pytest.mark.parametrize("told", ["much", "little"])
def test_what_is_said_of_labels_left_out_is_the_truth(drawn, told):
    """Averaged over draws, accuracy and log loss of labels left out are those of other nodes, also
    where classes are of unequal size and labels balanced."""
    alike, per_word = {"much": (0.85, 2.5), "little": (0.5, 1.3)}[told]
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], [200, 120, 80]))
    graph = Graph(linked(y, rng, 5.0, alike), words(y, rng, per_word))
    said, true = [], []
    for seed in range(30):
        draws = np.random.default_rng(seed)
        if drawn == "balanced":
            picks = [draws.choice(np.flatnonzero(y == c), 8, False) for c in range(3)]
            shown = np.sort(np.concatenate(picks))
        else:
            shown = np.sort(draws.choice(len(y), 24, False))
        model = fit_of(Case(graph, y, shown, 0.0))
        if len(model.classes_) < 3:
            continue
        own, hidden = leave_one_out(model), np.setdiff1d(np.arange(len(y)), shown)
        proba = model.predict_proba(nodes=hidden)
        right = (proba.argmax(axis=1) == y[hidden]).mean()
        loss = -np.log(proba[np.arange(len(hidden)), y[hidden]]).mean()
        said.append((own.accuracy, own.log_loss))
        true.append((right, loss))
    gap = np.mean(said, axis=0) - np.mean(true, axis=0)
    assert abs(gap[0]) < 0.06
    # Weights of views and temperature have seen the labels, which is kind where they say little.
    assert abs(gap[1]) < (0.1 if told == "much" else 0.15)


def test_nodes_alike_come_from_the_file(tmp_path, monkeypatch):
    """They are found once; a model that was loaded does not look for them again."""
    case = a_class_with_a_single_label()
    model = fit_of(case)
    assert {view.relation for view in model.filter_.views} & {edges.ALIKE, edges.BOTH}
    model.save(tmp_path / "model", include_graph=True)
    before = model.predict_proba()

    plain, n_nodes = edges.nearest_nodes, case.graph.n_nodes

    def refuse(rows):
        assert len(rows) < n_nodes, "looked for nodes alike again"
        return plain(rows)  # of the node of which nothing is known, that a file is tried on

    monkeypatch.setattr(edges, "nearest_nodes", refuse)
    loaded = nodegp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(), before)
    more = rest(case)[:2]
    loaded.update(more, case.y[more])
    suggest(loaded.graph_, 2, "hybrid", y=hide(case.y, case.shown), model=loaded)


@pytest.mark.parametrize("make", [structure_only, heterophily, two_noisy_classes])
def test_with_lengths_that_are_estimated(make, tmp_path, monkeypatch):
    """As on large graphs: to nearly the last digit the same from a file, and after an update."""
    monkeypatch.setattr(build, "sketch_width", lambda n_nodes, n_columns: lengths.WIDTH)
    case = make()
    model, more = fit_of(case, engine=TIGHT), rest(case)[:3]
    assert any(getattr(part, "sketch", 0) for part in getattr(model.prior_, "parts", ()))
    model.save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model")
    assert loaded.predict_proba() == pytest.approx(model.predict_proba(), abs=1e-6)
    shown = np.union1d(case.shown, more)
    fresh = fit_of(case._replace(shown=shown), engine=TIGHT).predict_proba()
    for each in (model, loaded):
        assert each.update(more, case.y[more]).predict_proba() == pytest.approx(fresh, abs=1e-6)


@pytest.mark.parametrize("make", [structure_only, heterophily])
def test_what_needs_no_label_is_worked_out_once(make, monkeypatch):
    """A second fit, with other labels, finds neither nodes alike nor lengths of rows again."""
    case = make()
    lengths_of = Domain.squared_lengths
    fit_of(case)

    def refuse(*args):
        raise AssertionError("this was known")

    def known(domain, polynomial):
        assert domain.known_scale(polynomial, 0) is not None
        return lengths_of(domain, polynomial)

    monkeypatch.setattr(edges, "nearest_nodes", refuse)
    monkeypatch.setattr(Domain, "squared_lengths", known)
    others = rest(case)[: len(case.shown)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GraphGPClassifier().fit(case.graph, hide(case.y, others)).predict_proba()


def test_class_weights_follow_predictions_and_not_an_experts_balance():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [320, 80]))
    graph = Graph(linked(y, rng, 6.0), words(y, rng, 3.0))
    model = fit_of(Case(graph, y, first_of_each(y, 15), 0.0))
    large, small = model.class_weights_
    assert large > 1.1
    assert small < 0.9
    plain = weighted(model.predict_proba(), 1 / model.class_weights_)
    hidden = rest(Case(graph, y, first_of_each(y, 15), 0.0))
    with_them, without = (
        -np.log(each[hidden, y[hidden]]).mean() for each in (model.predict_proba(), plain)
    )
    assert with_them < without
