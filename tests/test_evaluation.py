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
    right = model.loo_proba_.argmax(1) == TRUTH[SHOWN]
    # Labels count by how many nodes they stand for; none counts twice in a table of counts.
    weights = model.class_weights_[TRUTH[SHOWN]]
    assert len(set(weights)) > 1
    assert found.accuracy == pytest.approx((weights * right).sum() / weights.sum())
    assert found.weights.mean() == pytest.approx(1.0)
    assert found.confusion.sum() == len(SHOWN)
    assert np.trace(found.confusion) == right.sum()
    assert found.scores()["n"] == len(SHOWN)


@given(seed=st.integers(0, 1000), n=st.integers(2, 25))
def test_nodes_that_stand_for_more_count_for_more(seed, n):
    """Whole weights are copies."""
    rng = np.random.default_rng(seed)
    proba, y = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    sets, times = rng.random((n, 3)) < 0.6, rng.integers(1, 5, n)
    nodes, classes = np.arange(n), np.arange(3)
    each = evaluation.Evaluation("w", classes, nodes, y, proba, sets, times / times.mean())
    copy = np.repeat(nodes, times)
    copied = evaluation.Evaluation("c", classes, copy, y[copy], proba[copy], sets[copy])
    for name in ("accuracy", "log_loss", "brier", "calibration_error", "set_coverage"):
        assert getattr(each, name) == pytest.approx(getattr(copied, name)), name
    share = each.accuracy
    counted = times.sum() ** 2 / (times**2).sum()  # of a weighted mean
    assert each.accuracy_error == pytest.approx(np.sqrt(share * (1 - share) / counted))
    sure = each.answered(0.5)
    if sure is not None:
        kept = proba.max(1) >= 0.5
        assert sure.weights == pytest.approx(each.weights[kept])
        assert sure.accuracy == pytest.approx(copied.answered(0.5).accuracy)


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
