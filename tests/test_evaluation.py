"""Labels hidden and predicted: leave-one-out, folds, and labels from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import FIXED_RBF, hide, random_graph, smooth_classes
from nodegp import GraphGPClassifier, evaluation
from nodegp_paper.baselines import REGISTRY

GRAPH = random_graph(40, seed=1)
TRUTH = smooth_classes(GRAPH)
SHOWN = np.arange(0, 40, 2)
Y = hide(TRUTH, SHOWN)
MODEL = GraphGPClassifier(kernel=FIXED_RBF, random_state=0)


def test_leave_one_out_is_the_models_own():
    model = GraphGPClassifier(kernel=FIXED_RBF).fit(GRAPH, Y)
    found = evaluation.leave_one_out(model)
    assert found.nodes.tolist() == SHOWN.tolist()
    assert found.y.tolist() == TRUTH[SHOWN].tolist()
    right = (model.loo_proba_.argmax(1) == TRUTH[SHOWN]).mean()
    assert found.accuracy == right
    assert found.confusion.sum() == len(SHOWN)
    assert np.trace(found.confusion) == right * len(SHOWN)
    assert found.scores()["n"] == len(SHOWN)


def test_folds_are_refits_with_labels_hidden():
    found = evaluation.cross_validate(MODEL, GRAPH, Y, folds=4)
    seen = []
    for train, test in evaluation._folds(found.y, 4, 0):
        hidden = hide(TRUTH, SHOWN[train])
        model = GraphGPClassifier(kernel=FIXED_RBF, random_state=0)
        model.fit(GRAPH, hidden, classes=[0, 1, 2])
        assert np.allclose(found.proba[test], model.predict_proba(GRAPH, SHOWN[test]))
        seen += test.tolist()
    assert sorted(seen) == list(range(len(SHOWN)))
    assert not hasattr(MODEL, "posterior_")  # a copy was fitted


@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=40),
    st.integers(2, 4),
    st.integers(0, 3),
)
def test_folds_are_even_in_size_and_class(targets, folds, seed):
    y = np.array(targets)
    parts = list(evaluation._folds(y, folds, seed))
    sizes = [len(test) for _, test in parts]
    assert max(sizes) - min(sizes) <= 1
    for c in set(targets):
        counts = [int((y[test] == c).sum()) for _, test in parts]
        assert max(counts) - min(counts) <= 1
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(len(y)))


def test_baselines_and_strings():
    names = np.array(["ant", "bee", "cat"])[TRUTH].astype(object)
    names[Y < 0] = None
    found = evaluation.cross_validate(REGISTRY["lp"](), GRAPH, names, folds=3)
    assert found.classes.tolist() == ["ant", "bee", "cat"]
    assert found.proba.sum(1) == pytest.approx(1.0)


def test_a_class_with_one_label_stays_a_class():
    y = np.where(Y == 2, 1, Y)
    y[0] = 7
    found = evaluation.cross_validate(MODEL, GRAPH, y, folds=5)
    assert found.classes.tolist() == [0, 1, 7]
    assert (found.proba[found.y == 2] > 0).all()
    lone = evaluation.cross_validate(MODEL, GRAPH, hide(np.arange(40), SHOWN[:4]), folds=2)
    assert lone.proba.shape == (4, 4)


def test_against_labels_from_elsewhere():
    model = GraphGPClassifier(kernel=FIXED_RBF).fit(GRAPH, Y)
    rest = np.setdiff1d(np.arange(40), SHOWN)
    found = evaluation.against(model, hide(TRUTH, rest))
    assert found.nodes.tolist() == rest.tolist()
    assert found.accuracy == model.score(GRAPH, hide(TRUTH, rest))
    with pytest.raises(ValueError, match="not among the model's classes"):
        evaluation.against(model, hide(TRUTH + 5, rest))
    with pytest.raises(ValueError, match="no labels"):
        evaluation.against(model, np.full(40, -1))


def test_too_many_folds_and_progress():
    with pytest.raises(ValueError, match=r"2\.\.20"):
        evaluation.cross_validate(MODEL, GRAPH, Y, folds=21)
    done: list[int] = []
    evaluation.cross_validate(MODEL, GRAPH, Y, folds=2, progress=done.append)
    assert done == [1, 2]
