"""More labels into a fitted model: the same place as a new fit, by a shorter way."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nodegp
from helpers import hide, one_hop, random_graph, smooth_classes, smooth_scores
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.filters import Identity, NeighbourMean, PageRank, Relations, SumOfFilters
from nodegp.inducing import Points
from nodegp.inference import Dual
from nodegp.kernels import RBF, Cosine, Linear, Polynomial
from nodegp.operators import operator_of
from nodegp.prior import FilteredFeatures, build, lengths
from nodegp_paper.inference import Adam

GRAPH = random_graph(40)
TRUTH = smooth_classes(GRAPH)
NAMES = np.array(["ant", "bee", "cat"])
FIRST, MORE = np.arange(0, 24, 2), np.arange(1, 16, 3)


def classifier(**settings) -> GraphGPClassifier:
    return one_hop(**{"kernel": RBF(), "random_state": 0, **settings})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"likelihood": "softmax"},
        # Moved points end in one optimum of several; left alone, they are the same for both.
        {"inducing": Points(8, optimise=False), "likelihood": "softmax"},
        {"kernel": Polynomial(3, 1.0, 5.0, fixed=("variance",)), "filter": "identity"},
        {"calibrate": None},
    ],
)
def test_an_update_ends_where_a_new_fit_does(settings):
    updated = classifier(**settings).fit(GRAPH, hide(TRUTH, FIRST))
    returned = updated.update(MORE, TRUTH[MORE])
    assert returned is updated
    fresh = classifier(**settings).fit(GRAPH, hide(TRUTH, np.union1d(FIRST, MORE)))
    assert updated.labelled_.tolist() == fresh.labelled_.tolist()
    assert updated.labels_.tolist() == fresh.labels_.tolist()
    assert updated.elbo_ == pytest.approx(fresh.elbo_, abs=0.02)
    assert np.allclose(updated.predict_proba(), fresh.predict_proba(), atol=0.02)
    assert np.allclose(updated.loo_proba_, fresh.loo_proba_, atol=0.03)


def test_warm_sites_are_the_converged_ones():
    """Nothing new: the first look at the sites must find them converged already."""
    model = classifier(kernel=RBF(1.0, 1.0, fixed=("variance", "lengthscale")))
    model.fit(GRAPH, hide(TRUTH, FIRST))
    model.update(FIRST[:1], TRUTH[FIRST[:1]])
    assert len(model.elbo_trace_) <= 2


def test_adam_can_be_updated_too():
    model = classifier(engine=Adam(max_iter=300, tol=0)).fit(GRAPH, hide(TRUTH, FIRST))
    start = model.kernel_.parameters()
    model.update(MORE, TRUTH[MORE])
    assert set(MORE) <= set(model.labelled_)
    assert model.kernel_.parameters() != start


def test_regression_in_new_units():
    y = smooth_scores(GRAPH, 1)[:, 0] * 100 + 1000
    known = np.full(40, np.nan)
    known[FIRST] = y[FIRST]
    updated = GraphGPRegressor().fit(GRAPH, known).update(MORE, y[MORE])
    known[MORE] = y[MORE]
    fresh = GraphGPRegressor().fit(GRAPH, known)
    assert updated.target_mean_ == fresh.target_mean_
    assert updated.predict() == pytest.approx(fresh.predict(), abs=2.0)


def test_labels_are_replaced_and_taken_back():
    model = classifier().fit(GRAPH, hide(NAMES[TRUTH], FIRST, None))
    other = NAMES[(TRUTH[0] + 1) % 3]
    model.update([0, 2], [other, None])
    assert 2 not in model.labelled_
    assert model.labels_[model.labelled_.tolist().index(0)] == other
    model.update([4, 4], ["ant", "bee"])  # said twice: the last counts
    assert model.labels_[model.labelled_.tolist().index(4)] == "bee"


def test_a_new_class_can_come_in():
    y = np.where(TRUTH == 2, 0, TRUTH)
    model = classifier().fit(GRAPH, hide(y, FIRST))
    assert model.classes_.tolist() == [0, 1]
    model.update(np.flatnonzero(TRUTH == 2)[:2], [2, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba().shape == (40, 3)


def test_confidence_is_kept_and_given():
    confidence = np.full(40, 0.9)
    model = classifier().fit(GRAPH, hide(TRUTH, FIRST), label_confidence=confidence)
    model.update(MORE[:2], TRUTH[MORE[:2]], label_confidence=[0.6, 1.0])
    by_node = dict(zip(model.labelled_.tolist(), model.label_confidence_.tolist(), strict=True))
    assert by_node[int(MORE[0])] == 0.6
    assert by_node[0] == 0.9


def test_a_saved_model_can_be_updated(tmp_path):
    model = classifier().fit(GRAPH, hide(NAMES[TRUTH], FIRST, None))
    model.save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model").update(MORE, NAMES[TRUTH[MORE]])
    model.update(MORE, NAMES[TRUTH[MORE]])
    assert np.array_equal(loaded.predict_proba(), model.predict_proba())
    model.save(tmp_path / "bare")
    with pytest.raises(ValueError, match="saved without its graph"):
        nodegp.load(tmp_path / "bare").update([1], ["ant"])


@pytest.mark.parametrize(
    ("nodes", "labels", "settings", "message"),
    [
        ([1, 3], [0], {}, "1 labels for 2 nodes"),
        ([99], [0], {}, "0..39"),
        ([1], ["ant"], {}, "not of one type"),
        ([1], [0], {"label_confidence": [1.5]}, "in \\(0, 1\\]"),
        (FIRST, [-1] * len(FIRST), {}, "no label would be left"),
    ],
)
def test_bad_updates_change_nothing(nodes, labels, settings, message):
    model = classifier().fit(GRAPH, hide(TRUTH, FIRST))
    before = model.predict_proba()
    with pytest.raises(ValueError, match=message):
        model.update(nodes, labels, **settings)
    assert model.labelled_.tolist() == FIRST.tolist()
    assert np.array_equal(model.predict_proba(), before)


def test_a_prior_stays_where_it_was_set(tmp_path):
    """An update shrinks towards the values of the first set-up, not towards what was learnt."""
    recipe = nodegp.Recipe(NeighbourMean(), RBF(1.0, 5.0), hyperprior_std=0.3)
    model = GraphGPClassifier(recipe).fit(GRAPH, hide(TRUTH, FIRST))
    model.save(tmp_path / "model", include_graph=True)
    updated = nodegp.load(tmp_path / "model").update(MORE, TRUTH[MORE])
    fresh = GraphGPClassifier(recipe).fit(GRAPH, hide(TRUTH, np.union1d(FIRST, MORE)))
    for name, value in fresh.kernel_.parameters().items():
        assert updated.kernel_.parameters()[name] == pytest.approx(value, rel=0.05)


# --- what is kept for a graph never holds a label that is gone -----------------------------------

KINDS = np.random.default_rng(8).integers(3, size=130)
TIGHT = Dual(tol=1e-8, max_steps=2000)


def words_graph(kind: str) -> Graph:
    """Neighbours tend to be of one class, and share its words. A new object each time."""
    rng = np.random.default_rng(9)
    linked = rng.random((130, 130)) < np.where(KINDS[:, None] == KINDS, 0.06, 0.01)
    edges = sp.csr_array(np.triu(linked, 1).astype(float))
    words = rng.poisson(0.15 + 0.5 * (np.arange(60) % 3 == KINDS[:, None])).astype(float)
    if kind == "no features":
        return Graph(edges)
    if kind == "few columns":
        return Graph(edges, words[:, :3] + rng.normal(size=(130, 3)))
    if kind == "kinds of edges":
        far = sp.csr_array(sp.random_array((130, 130), density=0.02, rng=rng))
        return Graph({"near": edges, "far": far}, sp.csr_array(words))
    return Graph(edges, sp.csr_array(words))


# Nodes and what is said of them: labels that are new, changed, taken back, and given again.
REVISIONS = [
    ([40, 41, 42], None),
    ([40], [(KINDS[40] + 1) % 3]),
    ([3, 41], [-1, -1]),
    ([41, 100, 129], None),
    ([3], [(KINDS[3] + 2) % 3]),
    ([40, 3, 100], [KINDS[40], KINDS[3], -1]),
    ([5], [-1]),
    ([7, 77], [-1, KINDS[77]]),  # as many labels as before
]


def revised_against_fresh(kind: str, kernel=None, filter=None, sketch: int = 0) -> None:
    """After each revision the model is the one that a fresh graph and a new fit give."""
    graph, y = words_graph(kind), np.where(np.arange(130) < 36, KINDS, -1)
    model = GraphGPClassifier(kernel=kernel, filter=filter, engine=TIGHT).fit(graph, y)
    assert filtered(model)
    assert {part.sketch for part in filtered(model)} == {sketch}
    assert not model.prior_.free_parameters()
    for nodes, labels in [([], []), *REVISIONS]:
        said = KINDS[nodes] if labels is None else np.array(labels, dtype=int)
        y[nodes] = said
        if len(nodes):
            model.update(nodes, said)
        fresh = GraphGPClassifier(kernel=model.kernel_, filter=model.filter_, engine=TIGHT)
        fresh.fit(words_graph(kind), y)
        assert fresh.prior_ == model.prior_
        assert fresh.labelled_.tolist() == model.labelled_.tolist()
        assert fresh.labels_.tolist() == model.labels_.tolist()
        for a, b in zip(model.predict_latent(), fresh.predict_latent(), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        expected = fresh.predict_proba()
        np.testing.assert_allclose(model.predict_proba(), expected, atol=1e-6)
        if filter is None:  # what labels left out are told depends on what there was to choose from
            fresh = GraphGPClassifier(engine=TIGHT).fit(words_graph(kind), y)
        np.testing.assert_allclose(model.loo_proba_, fresh.loo_proba_, atol=1e-6)
        if kernel is None:
            # With views that are weighed anew, too: as if the earlier labels had never been.
            anew = GraphGPClassifier(engine=TIGHT).fit(words_graph(kind), y)
            assert names_and_weights(anew) == names_and_weights(model)
            np.testing.assert_allclose(model.predict_proba(), anew.predict_proba(), atol=1e-6)
            np.testing.assert_allclose(model.loo_proba_, anew.loo_proba_, atol=1e-6)
            np.testing.assert_allclose(model.class_weights_, anew.class_weights_, atol=1e-6)
            assert model.temperature_ == pytest.approx(anew.temperature_, rel=1e-5)
        few = [0, 41, 129]
        np.testing.assert_allclose(model.predict_proba(nodes=few), expected[few], atol=1e-6)
        a, b = (each.predict_latent(nodes=few, cov=True)[1] for each in (model, fresh))
        np.testing.assert_allclose(a, b, atol=1e-6)


def names_and_weights(model) -> dict[str, float]:
    return {score.name: pytest.approx(score.weight, abs=1e-6) for score in model.selection_}


def filtered(model) -> list[FilteredFeatures]:
    parts = getattr(model.prior_, "parts", (model.prior_,))
    return [part for part in parts if isinstance(part, FilteredFeatures)]


FAR = PageRank(0.1, fixed=("strength",))
COSINE = Cosine(1.75, fixed=("variance",))
LINEAR = Linear(2.0, fixed=("variance",))


@pytest.fixture
def sketched(monkeypatch):
    """Lengths are estimated on small graphs too."""
    monkeypatch.setattr(build, "sketch_width", lambda n_nodes, n_columns: lengths.WIDTH)


@pytest.mark.parametrize("kind", ["words", "no features"])
def test_the_default_recipe_follows_every_revision(kind):
    revised_against_fresh(kind)


@pytest.mark.parametrize("kind", ["words", "no features"])
def test_so_it_does_with_lengths_that_are_estimated(kind, sketched):
    revised_against_fresh(kind, sketch=lengths.WIDTH)


@pytest.mark.parametrize(
    ("kind", "kernel", "filter"),
    [
        # Fewer columns than labels: then all rows are kept, not inner products with labels.
        ("few columns", COSINE, FAR),
        ("few columns", RBF(1.5, 0.5).learn(), FAR),
        ("few columns", (LINEAR, LINEAR), SumOfFilters((Identity(), FAR))),
        ("words", RBF(1.5, 0.5).learn(), FAR),
        ("kinds of edges", (COSINE, COSINE, COSINE), Relations(FAR)),
    ],
    ids=["cosine", "rbf", "linear", "words", "relations"],
)
def test_other_priors_follow_every_revision(kind, kernel, filter):
    revised_against_fresh(kind, kernel, filter)


@pytest.mark.parametrize("kind", ["few columns", "kinds of edges"])
def test_so_they_do_with_lengths_that_are_estimated(kind, sketched):
    kernel, filter = (COSINE, FAR) if kind == "few columns" else ((COSINE,) * 3, Relations(FAR))
    revised_against_fresh(kind, kernel, filter, sketch=lengths.WIDTH)


@pytest.mark.parametrize("kind", ["words", "no features"])
def test_a_label_more_is_a_column_more(kind):
    graph, y = words_graph(kind), np.where(np.arange(130) < 36, KINDS, -1)
    model = GraphGPClassifier(kernel=COSINE, filter=FAR).fit(graph, y)
    operator, order = operator_of(graph, FAR.self_loops), FAR.polynomial().order
    model.predict_proba()
    costs = []
    for nodes, labels in [([40], [0]), ([40], [1]), ([40, 5], [-1, -1]), ([40, 41], [0, 1])]:
        before = operator.products
        model.update(nodes, labels).predict_proba()
        costs.append(operator.products - before)
    # Of a new label the row is made, and its column; 40 has a row already when it comes again.
    assert costs == [2 * order, 0, 0, 3 * order]
