"""Bad input to the estimators: errors that say what was wrong and what to do."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from helpers import FIXED_RBF, hide, random_graph, smooth_classes, smooth_scores
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor, Table
from nodegp.inference import Dual
from nodegp.kernels import Linear, Polynomial
from nodegp.likelihoods import Gaussian, RobustMax
from nodegp_paper.inference import Adam

GRAPH = random_graph()
TRUTH = smooth_classes(GRAPH)
SHOWN = np.arange(0, 24, 2)
Y = hide(TRUTH, SHOWN)
TARGETS = np.where(np.isin(np.arange(24), SHOWN), smooth_scores(GRAPH, 1)[:, 0], np.nan)


def classifier(**settings) -> GraphGPClassifier:
    return GraphGPClassifier(**{"kernel": FIXED_RBF, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def fitted() -> GraphGPClassifier:
    return classifier().fit(GRAPH, Y)


# --- errors that help -------------------------------------------------------------------------

BROKEN = GRAPH.features.copy()
BROKEN[3, 1] = np.nan
ENDLESS = GRAPH.features.copy()
ENDLESS[3, 1] = np.inf
HUGE = Graph(GRAPH.adjacency, 1e110 * GRAPH.features)


@pytest.mark.parametrize(
    ("settings", "X", "y", "message"),
    [
        ({}, BROKEN, Y, "NaN"),
        ({}, ENDLESS, Y, "infinity"),
        ({}, GRAPH, Y[:10], "10 entries for 24 nodes"),
        ({}, GRAPH, np.full(24, -1), "no labels"),
        ({}, GRAPH, None, "requires y"),
        ({}, GRAPH, np.where(Y == -1, np.nan, Y + 0.5), "continuous"),
        ({}, GRAPH, np.zeros((24, 2)), "1d"),
        ({}, GRAPH, np.array([1, "a", None] * 8, dtype=object), "type"),
        ({"filter": "nonsense"}, GRAPH, Y, "filter must be one of.*nonsense"),
        ({"likelihood": "nonsense"}, GRAPH, Y, "likelihood must be one of.*nonsense"),
        ({"likelihood": "bernoulli"}, GRAPH, Y, "two classes"),
        ({"likelihood": Gaussian()}, GRAPH, Y, "likelihood"),
        ({"engine": "nonsense"}, GRAPH, Y, "engine must be one of.*nonsense"),
        ({"preprocessing": "nonsense"}, GRAPH, Y, "preprocessing must be one of.*nonsense"),
        ({"inducing": "nonsense"}, GRAPH, Y, "inducing must be.*nonsense"),
        ({"preprocessing": 3}, GRAPH, Y, "preprocessing must be a Preprocessing.*3"),
        ({"recipe": Linear()}, GRAPH, Y, "recipe must be.*Linear"),
        ({"calibrate": "nonsense"}, GRAPH, Y, "calibrate must be.*nonsense"),
        ({"recipe": "nonsense"}, GRAPH, Y, "recipe must be.*nonsense"),
        ({"kernel": "nonsense"}, GRAPH, Y, "kernel must be.*nonsense"),
        (
            {"preprocessing": "raw", "kernel": Polynomial(3)},
            HUGE,
            Y,
            "overflow.*[Ss]cale the features",
        ),
        (
            {"preprocessing": "raw", "kernel": Polynomial(3), "inducing": "points"},
            HUGE,
            Y,
            "overflow.*[Ss]cale the features",
        ),
    ],
)
def test_bad_input_is_refused_with_advice(settings, X, y, message):
    model = classifier(**settings)
    before = copy.deepcopy(model.get_params())
    given = copy.deepcopy(y)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y)
    assert model.get_params() == before
    np.testing.assert_array_equal(given, y)


@pytest.mark.parametrize("engine", [Dual, Adam])
@pytest.mark.parametrize("settings", [{"dtype": "nonsense"}, {"max_iter": 0}, {"tol": -1.0}])
def test_an_engine_refuses_settings_that_make_no_sense(engine, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        engine(**settings)


@pytest.mark.parametrize("bad", [0, 2.5, "many"])
def test_a_table_refuses_numbers_of_neighbours_that_make_no_sense(bad):
    with pytest.raises(ValueError, match="n_neighbors must be a whole number"):
        Table(GRAPH.features, n_neighbors=bad)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({}, np.full(24, np.nan), "no labels"),
        ({}, np.where(np.arange(24) == 3, np.inf, TARGETS), "infinity"),
        ({"likelihood": "softmax"}, TARGETS, "use GraphGPClassifier"),
        ({"recipe": "paper"}, TARGETS, "recipe must be 'auto' or a Recipe.*paper"),
        ({"likelihood": RobustMax()}, TARGETS, "likelihood"),
    ],
)
def test_bad_regression_is_refused_with_advice(settings, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GraphGPRegressor(**settings).fit(GRAPH, y)


@pytest.mark.parametrize("bad", [BROKEN, ENDLESS, BROKEN.astype(np.float16), sp.csr_array(BROKEN)])
def test_graphs_refuse_features_that_are_not_finite(bad):
    with pytest.raises(ValueError, match="NaN or infinite"):
        Graph(GRAPH.adjacency, bad)


@pytest.mark.parametrize(
    ("X", "nodes", "message"),
    [
        (Graph(GRAPH.adjacency, GRAPH.features[:, :2]), None, "2 features.*3"),
        (Graph(GRAPH.adjacency), None, "3 features.*none"),
        (GRAPH.features, None, "fitted on a Graph"),
        (GRAPH, [24], r"0\.\.23.*24"),
        (GRAPH, [-1], r"0\.\.23"),
        (GRAPH, [0.5], "node numbers"),
        (GRAPH, np.ones(5, bool), "mask"),
    ],
)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_latent", "sample_latent"])
def test_bad_questions_are_refused_with_advice(fitted, X, nodes, message, method):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(fitted, method)(X, nodes=nodes)


def test_a_table_of_the_wrong_width():
    model = classifier().fit(GRAPH.features, Y)
    with pytest.raises(ValueError, match=r"2 features.*3"):
        model.predict(GRAPH.features[:, :2])


def test_score_warns_of_classes_never_seen(fitted):
    with pytest.warns(UserWarning, match=r"\[9\].*count as wrong"):
        assert fitted.score(GRAPH, np.where(Y == 0, 9, -1)) == 0.0
    with pytest.raises(ValueError, match="no labels"):
        fitted.score(GRAPH, np.full(24, -1))
    with pytest.raises(ValueError, match="5 entries for 24"):
        fitted.score(GRAPH, Y[:5])


@pytest.mark.parametrize("kind", [GraphGPClassifier, GraphGPRegressor])
@pytest.mark.parametrize("length", [5, 40])
def test_score_of_a_table_wants_one_label_per_row(kind, length):
    model = kind(kernel=FIXED_RBF).fit(GRAPH.features, TRUTH)
    with pytest.raises(ValueError, match=f"{length}.*24|24.*{length}"):
        model.score(GRAPH.features, np.arange(length) % 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.predict(GRAPH),
        lambda m: m.predict_latent(GRAPH),
        lambda m: m.sample_latent(GRAPH),
        lambda m: m.score(GRAPH, Y),
    ],
    ids=["predict", "predict_latent", "sample_latent", "score"],
)
@pytest.mark.parametrize("kind", [GraphGPClassifier, GraphGPRegressor])
def test_asking_before_fitting(kind, call):
    with pytest.raises(NotFittedError):
        call(kind())
