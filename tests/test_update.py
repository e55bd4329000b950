"""More labels into a fitted model: the same place as a new fit, by a shorter way."""

from __future__ import annotations

import numpy as np
import pytest

import nodegp
from helpers import hide, one_hop, random_graph, smooth_classes, smooth_scores
from nodegp import GraphGPClassifier, GraphGPRegressor
from nodegp.inducing import Points
from nodegp.inference import Adam, Dual
from nodegp.kernels import RBF, Polynomial

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
    settings = {"kernel": RBF(1.0, 5.0), "likelihood": "softmax", "engine": Dual(prior=0.3)}
    model = classifier(**settings).fit(GRAPH, hide(TRUTH, FIRST))
    model.save(tmp_path / "model", include_graph=True)
    updated = nodegp.load(tmp_path / "model").update(MORE, TRUTH[MORE])
    fresh = classifier(**settings).fit(GRAPH, hide(TRUTH, np.union1d(FIRST, MORE)))
    for name, value in fresh.kernel_.parameters().items():
        assert updated.kernel_.parameters()[name] == pytest.approx(value, rel=0.05)
