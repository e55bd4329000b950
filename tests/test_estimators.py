"""What users type: labels of all kinds, predictions, invariances, and errors that help."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import nodegp
from helpers import FIXED_RBF, hide, random_graph, smooth_classes, smooth_scores
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.filters import Identity, PageRank, SumOfFilters
from nodegp.inducing import Points
from nodegp.inference import Dual
from nodegp.kernels import RBF, Linear, Matern, Polynomial
from nodegp.likelihoods import RobustMax, Softmax
from nodegp.model.calibration import averaged, mixed, tempered, weighted
from nodegp.model.groups import growth
from nodegp.preprocessing import Preprocessing
from nodegp_paper.inference import Adam

GRAPH = random_graph()
TRUTH = smooth_classes(GRAPH)
SHOWN = np.arange(0, 24, 2)
Y = hide(TRUTH, SHOWN)
NAMES = np.array(["ant", "bee", "cat"])
TARGETS = np.where(np.isin(np.arange(24), SHOWN), smooth_scores(GRAPH, 1)[:, 0], np.nan)


def classifier(**settings) -> GraphGPClassifier:
    return GraphGPClassifier(**{"kernel": FIXED_RBF, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def fitted() -> GraphGPClassifier:
    return classifier().fit(GRAPH, Y)


# --- labels -----------------------------------------------------------------------------------


def with_gaps(gap):
    y = NAMES[TRUTH].astype(object)
    y[Y == -1] = gap
    return y


@pytest.mark.parametrize(
    ("y", "settings"),
    [
        (Y.tolist(), {}),
        (Y.astype(np.int8), {}),
        (Y.astype(float), {}),
        (np.where(Y == -1, np.nan, Y), {}),
        (np.where(Y == -1, 99, Y), {"unlabelled": 99}),
        (with_gaps(None), {}),
        (with_gaps(None).tolist(), {}),
        (with_gaps(np.nan), {}),
        (with_gaps(np.nan).tolist(), {}),
        (with_gaps("?"), {"unlabelled": "?"}),
        (with_gaps("?").astype(str), {"unlabelled": "?"}),
        (with_gaps(""), {"unlabelled": ""}),
    ],
    ids=[
        "list",
        "int8",
        "float",
        "nan",
        "99",
        "strings-None",
        "strings-None-list",
        "strings-nan",
        "strings-nan-list",
        "strings-?",
        "strings-?-unicode",
        "strings-empty",
    ],
)
def test_labels_of_every_kind_mean_the_same(y, settings, fitted):
    model = classifier(**settings).fit(GRAPH, y)
    np.testing.assert_array_equal(model.labelled_, SHOWN)
    np.testing.assert_array_equal(model.predict_proba(GRAPH), fitted.predict_proba(GRAPH))
    strings = isinstance(np.asarray(y, dtype=object)[0], str)
    expected = NAMES if strings else np.arange(3)
    np.testing.assert_array_equal(model.classes_, expected)
    np.testing.assert_array_equal(model.predict(GRAPH), expected[fitted.predict(GRAPH)])
    assert model.score(GRAPH, y) == fitted.score(GRAPH, Y)


def test_minus_one_can_be_a_class():
    y = np.where(TRUTH == 0, -1, TRUTH)
    model = classifier(unlabelled=None).fit(GRAPH, y)
    assert model.classes_.tolist() == [-1, 1, 2]
    assert len(model.labelled_) == 24


def test_boolean_labels():
    model = classifier().fit(GRAPH, TRUTH == 0)
    assert model.classes_.tolist() == [False, True]


def test_score_is_over_the_labelled_nodes_only(fitted):
    asked = hide(TRUTH, np.arange(1, 24, 2))
    right = fitted.predict(GRAPH)[1::2] == TRUTH[1::2]
    assert fitted.score(GRAPH, asked) == pytest.approx(right.mean())
    weight = np.arange(24.0)
    weighted = np.average(right, weights=weight[1::2])
    assert fitted.score(GRAPH, asked, sample_weight=weight) == pytest.approx(weighted)


def test_relabelled_classes_are_relabelled_answers(fitted):
    order = np.array([2, 0, 1])  # new label of each old one
    settings = {"engine": Dual(tol=1e-6), "likelihood": "robustmax"}
    model = classifier(**settings).fit(GRAPH, np.where(Y == -1, -1, order[Y]))
    same = classifier(**settings).fit(GRAPH, Y)
    np.testing.assert_allclose(model.predict_proba()[:, order], same.predict_proba(), atol=1e-4)


def test_classes_may_list_one_that_has_no_label():
    y = np.where(Y == 2, -1, Y)
    model = classifier(likelihood="softmax").fit(GRAPH, y, classes=[0, 1, 2, 7])
    assert model.classes_.tolist() == [0, 1, 2, 7]
    proba = model.predict_proba()
    assert proba.shape == (24, 4)
    np.testing.assert_allclose(proba.sum(1), 1)
    np.testing.assert_allclose(proba[:, 2], proba[:, 3], atol=0.05)
    assert (proba[:, 3] > 0).all()
    with pytest.raises(ValueError, match="not among classes"):
        classifier().fit(GRAPH, Y, classes=[0, 1])


@pytest.mark.parametrize("likelihood", ["robustmax", "softmax", "bernoulli"])
@pytest.mark.parametrize("calibrate", [False, True])
def test_one_class_only_is_certain(likelihood, calibrate):
    y = np.where(np.isin(np.arange(24), SHOWN), "only", None)
    model = GraphGPClassifier(likelihood=likelihood, calibrate=calibrate)
    with pytest.warns(UserWarning, match="every label is 'only'.*classes="):
        model.fit(GRAPH, y)
    np.testing.assert_array_equal(model.predict_proba(), np.ones((24, 1)))
    assert set(model.predict()) == {"only"}
    np.testing.assert_array_equal(model.loo_proba_, np.ones((12, 1)))


@pytest.mark.parametrize("likelihood", ["robustmax", "softmax", "bernoulli"])
def test_one_label_only(likelihood):
    y = hide(TRUTH, np.array([3]))
    model = GraphGPClassifier(likelihood=likelihood).fit(GRAPH, y, classes=[0, 1])
    proba = model.predict_proba()
    np.testing.assert_allclose(proba.sum(1), 1)
    assert proba[3, TRUTH[3]] > 0.5


# --- predictions ------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["robustmax", "softmax", "bernoulli"])
def test_probabilities_are_distributions(likelihood):
    y = hide(TRUTH % 2, SHOWN)
    model = classifier(likelihood=likelihood).fit(GRAPH, y)
    for proba in (model.predict_proba(GRAPH), model.loo_proba_):
        assert ((proba >= 0) & (proba <= 1)).all()
        np.testing.assert_allclose(proba.sum(1), 1, atol=1e-12)
    np.testing.assert_array_equal(
        model.predict(GRAPH), model.classes_[model.predict_proba(GRAPH).argmax(1)]
    )
    assert model.score(GRAPH, hide(TRUTH % 2, SHOWN)) > 0.8


@pytest.mark.parametrize(
    "nodes", [[3, 20, 3, 0], [5], np.arange(24) % 5 == 0, [], np.zeros(24, bool)]
)
def test_some_nodes_are_rows_of_the_whole(fitted, nodes):
    rows = np.asarray(nodes, dtype=None if len(nodes) else int)
    np.testing.assert_allclose(
        fitted.predict_proba(GRAPH, nodes=nodes), fitted.predict_proba(GRAPH)[rows], atol=1e-12
    )
    np.testing.assert_array_equal(fitted.predict(GRAPH, nodes=nodes), fitted.predict(GRAPH)[rows])
    mean, var = fitted.predict_latent(GRAPH, nodes=nodes)
    whole_mean, whole_var = fitted.predict_latent(GRAPH)
    np.testing.assert_allclose(mean, whole_mean[rows], atol=1e-12)
    np.testing.assert_allclose(var, whole_var[rows], atol=1e-12)


def test_the_graph_fitted_on_is_the_default(fitted):
    np.testing.assert_array_equal(fitted.predict_proba(), fitted.predict_proba(GRAPH))


def test_latent_variance_is_the_diagonal_of_the_covariance(fitted):
    mean, cov = fitted.predict_latent(GRAPH, cov=True)
    same, var = fitted.predict_latent(GRAPH)
    assert cov.shape == (3, 24, 24)
    np.testing.assert_allclose(mean, same, atol=1e-10)
    np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2).T, var, atol=1e-9)


@pytest.mark.parametrize("calibrate", [True, False])
def test_what_users_do_to_an_answer_does_not_change_the_next(calibrate):
    graph = random_graph(30, seed=3)
    model = GraphGPClassifier(calibrate=calibrate)
    model.fit(graph, hide(smooth_classes(graph), np.arange(12)))
    mean, variance = model.predict_latent()
    proba = model.predict_proba()
    before = mean.copy(), variance.copy(), proba.copy()
    mean += 1.0
    variance *= 2.0
    proba[:] = 0.0
    after = (*model.predict_latent(), model.predict_proba())
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_latent_samples_follow_the_joint_posterior(fitted):
    n, nodes = 20_000, [0, 1, 5]
    draws = fitted.sample_latent(GRAPH, nodes, n_samples=n, random_state=1)
    mean, cov = fitted.predict_latent(GRAPH, nodes, cov=True)
    assert draws.shape == (n, 3, 3)
    for latent in range(3):
        var = np.diag(cov[latent])
        error = draws[..., latent].mean(0) - mean[:, latent]
        assert (np.abs(error) < 5 * np.sqrt(var / n)).all()
        assert np.abs(np.cov(draws[..., latent].T) - cov[latent]).max() < 8 * var.max() / np.sqrt(n)
    again = fitted.sample_latent(GRAPH, nodes, n_samples=n, random_state=1)
    np.testing.assert_array_equal(draws, again)


def test_calibration_sets_a_temperature_that_the_loo_likes_better():
    plain, calibrated = (
        classifier(calibrate=c, likelihood="robustmax").fit(GRAPH, Y) for c in (False, True)
    )
    assert plain.temperature_ == 1.0
    assert calibrated.temperature_ > 0
    rows = np.arange(len(SHOWN))
    before, least = plain.loo_proba_, calibrated.model_.least_proba
    after = mixed(tempered(before, calibrated.temperature_ / growth(Y[SHOWN])), least)
    # All labels together like it; what is said of one has the temperature of the others.
    assert calibrated.temperature_ != 1.0
    assert np.log(after[rows, Y[SHOWN]]).mean() > np.log(before[rows, Y[SHOWN]]).mean()
    assert not np.allclose(calibrated.loo_proba_, weighted(after, calibrated.class_weights_))
    assert (plain.class_weights_ == 1).all()
    spread = calibrated.model_.temperature_spread
    calm = averaged(plain.predict_proba(), calibrated.temperature_, spread)
    weights = calibrated.class_weights_ * calibrated.model_.class_factors
    expected = mixed(weighted(calm, weights), least)
    np.testing.assert_allclose(calibrated.predict_proba(), expected, rtol=1e-9)


def test_the_papers_recipe_is_the_papers_model():
    model = GraphGPClassifier(recipe="paper").fit(GRAPH, Y)
    assert isinstance(model.kernel_, Polynomial)
    assert (model.kernel_.degree, model.kernel_.variance) == (3, 1.0)
    assert isinstance(model.likelihood_, RobustMax)
    assert model.likelihood_.epsilon == 1e-3
    own = GraphGPClassifier(recipe="paper", likelihood="softmax", kernel=RBF()).fit(GRAPH, Y)
    assert isinstance(own.likelihood_, Softmax)
    assert isinstance(own.kernel_, RBF)


# --- invariances ------------------------------------------------------------------------------


def permuted(graph: Graph, order: np.ndarray) -> Graph:
    return Graph(graph.adjacency[order][:, order], graph.features[order])


@pytest.mark.parametrize("inducing", ["labelled", Points(24, optimise=False)])
def test_permuted_nodes_get_permuted_answers(inducing):
    order = np.random.default_rng(0).permutation(24)
    settings = {"inducing": inducing, "likelihood": "softmax", "engine": Dual(tol=1e-8)}
    model = classifier(**settings).fit(GRAPH, Y)
    moved = classifier(**settings).fit(permuted(GRAPH, order), Y[order])
    np.testing.assert_allclose(moved.predict_proba(), model.predict_proba()[order], atol=1e-6)
    assert moved.elbo_ == pytest.approx(model.elbo_, rel=1e-7)


@pytest.mark.parametrize("kernel", [RBF(), Matern(0.5)], ids=["rbf", "matern"])
def test_points_far_apart_get_the_same_answers_in_any_order(kernel):
    """Rounding alone is longer than the lengthscale here: a node must still be like itself."""
    graph = Graph(GRAPH.adjacency, 1e100 * np.abs(GRAPH.features))
    order = np.random.default_rng(0).permutation(24)
    settings = {
        "kernel": (kernel, kernel),
        "filter": SumOfFilters((Identity(), PageRank())),
        "preprocessing": "raw",
    }
    model = classifier(**settings).fit(graph, Y)
    moved = classifier(**settings).fit(permuted(graph, order), Y[order])
    proba = model.predict_proba()
    np.testing.assert_allclose(moved.predict_proba(), proba[order], atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(nodes=[1, 2]), proba[[1, 2]], atol=1e-9)


def test_a_large_jitter_is_told(recwarn):
    settings = {
        "kernel": Linear(),
        "filter": "identity",
        "preprocessing": Preprocessing("raw", center=False),
        "inducing": Points(24),
    }
    classifier(**settings).fit(GRAPH, Y)
    assert not [w for w in recwarn if "jitter" in str(w.message)]
    features = GRAPH.features.copy()
    features[0] *= 1e4
    with pytest.warns(UserWarning, match=r"a jitter of .* times their median.*preprocessing='l2'"):
        classifier(**settings).fit(Graph(GRAPH.adjacency, features), Y)


def grown(graph: Graph, copies: list[int]) -> Graph:
    """The graph with copies of some nodes added: same features, same neighbours."""
    n, k = graph.n_nodes, len(copies)
    A = np.zeros((n + k, n + k))
    A[:n, :n] = graph.adjacency.toarray()
    A[n:, :n] = graph.adjacency[copies].toarray()
    return Graph(A, np.vstack([graph.features, graph.features[copies]]))


@pytest.mark.parametrize("inducing", ["labelled", "points"])
def test_copies_of_nodes_get_their_answers(inducing):
    # By the mean over neighbourhoods: one that reaches further hears of the copies in between.
    model = classifier(inducing=inducing, filter="mean").fit(GRAPH, Y)
    copies = [1, 2, 3, 10]
    known, new = (
        model.predict_latent(GRAPH, copies),
        model.predict_latent(grown(GRAPH, copies), [24, 25, 26, 27]),
    )
    for a, b in zip(known, new, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_new_links_leave_untouched_nodes_alone(fitted):
    bigger = grown(GRAPH, [1])
    touched = set(GRAPH.adjacency[[1]].indices)
    alone = [n for n in range(24) if n not in touched]
    np.testing.assert_allclose(
        fitted.predict_proba(bigger, alone), fitted.predict_proba(GRAPH, alone), atol=1e-12
    )


def test_a_new_isolated_node_is_judged_by_its_features(fitted):
    A = sp.block_diag([GRAPH.adjacency, sp.csr_array((1, 1))])
    lonely = Graph(A, np.vstack([GRAPH.features, GRAPH.features[5]]))
    unlinked = Graph(np.zeros((1, 1)), GRAPH.features[[5]])
    np.testing.assert_allclose(
        fitted.predict_proba(lonely, [24]), fitted.predict_proba(unlinked), atol=1e-12
    )


def test_same_seed_same_answers():
    runs = [GraphGPClassifier(inducing=Points(5), random_state=3).fit(GRAPH, Y) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].predict_proba(), runs[1].predict_proba())
    assert runs[0].elbo_ == runs[1].elbo_
    batches = [
        classifier(engine=Adam(max_iter=20, batch_size=4, tol=0)).fit(GRAPH, Y) for _ in range(2)
    ]
    np.testing.assert_array_equal(batches[0].predict_proba(), batches[1].predict_proba())


def test_refitting_forgets_the_first_fit():
    model = classifier().fit(random_graph(10), np.arange(10) % 2)
    model.fit(GRAPH, Y)
    np.testing.assert_array_equal(model.predict_proba(), classifier().fit(GRAPH, Y).predict_proba())


# --- graphs of every kind ---------------------------------------------------------------------


def test_a_graph_without_features():
    halves = np.zeros((12, 12))
    halves[:6, :6] = halves[6:, 6:] = 1
    halves[5, 6] = halves[6, 5] = 1
    y = np.full(12, -1)
    y[[0, 11]] = 0, 1
    model = GraphGPClassifier().fit(Graph(halves), y)
    assert model.preprocessing_ == "one-hot"
    assert model.predict().tolist() == [0] * 6 + [1] * 6
    wider = Graph(sp.block_diag([halves, sp.csr_array((1, 1))]))
    np.testing.assert_allclose(model.predict_proba(wider)[:12], model.predict_proba(), atol=1e-12)


def test_a_graph_without_edges():
    graph = Graph(sp.csr_array((24, 24)), GRAPH.features)
    by_mean, by_identity = (
        classifier(filter=f).fit(graph, Y).predict_proba() for f in ("mean", Identity())
    )
    np.testing.assert_allclose(by_mean, by_identity, atol=1e-9)


@pytest.mark.parametrize("features", ["auto", "tfidf", "l2", "standardise", "raw"])
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3), RBF()])
def test_empty_rows_and_isolated_nodes(features, kernel):
    counts = np.random.default_rng(0).poisson(0.4, size=(24, 12)).astype(float)
    counts[[0, 1, 2]] = 0
    A = GRAPH.adjacency.toarray()
    A[[0, 1]] = A[:, [0, 1]] = 0  # 0 and 1 have neither features nor neighbours
    model = GraphGPClassifier(kernel=kernel, preprocessing=features, likelihood="softmax")
    proba = model.fit(Graph(A, sp.csr_array(counts)), Y).predict_proba()
    assert np.isfinite(proba).all()
    assert np.isfinite(model.loo_proba_).all()
    np.testing.assert_allclose(proba.sum(1), 1)


def test_a_table_and_new_rows_of_it():
    model = classifier().fit(nodegp.Table(GRAPH.features, n_neighbors=4), Y)
    alone = model.predict_proba(GRAPH.features[[7]] + 0.1)
    together = model.predict_proba(np.vstack([GRAPH.features + 0.1, GRAPH.features[:3]]))
    np.testing.assert_allclose(alone[0], together[7], atol=1e-10)
    np.testing.assert_allclose(
        model.predict_proba(GRAPH.features + 0.1, nodes=[7]), alone, atol=1e-10
    )


def test_the_bundled_citation_graph():
    data = nodegp.load_dataset("cora")
    model = GraphGPClassifier(preprocessing="tfidf").fit(data.graph, data.labels("train"))
    assert model.score(data.graph, data.labels("test")) > 0.80
    assert model.predict_proba(data.graph).shape == (2708, 7)


# --- confidence -------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["robustmax", "softmax", "bernoulli"])
def test_a_wrong_label_hurts_less_when_it_is_unsure(likelihood):
    truth = (smooth_scores(GRAPH, 1)[:, 0] > 0).astype(int)
    y = truth.copy()
    y[4] = 1 - truth[4]
    right = []
    for sure in (1.0, 0.8, 0.6):
        confidence = np.ones(24)
        confidence[4] = sure
        model = classifier(likelihood=likelihood).fit(GRAPH, y, label_confidence=confidence)
        right.append(model.predict_proba()[4, truth[4]])
    assert right[0] < right[1] < right[2]


def test_confidence_of_unlabelled_nodes_is_ignored(fitted):
    confidence = np.where(Y == -1, np.nan, 1.0)
    model = classifier().fit(GRAPH, Y, label_confidence=confidence)
    np.testing.assert_array_equal(model.predict_proba(), fitted.predict_proba())


@pytest.mark.parametrize(
    "confidence", [np.zeros(24), np.full(24, 1.1), np.full(24, np.nan), np.ones(5), 0.5]
)
def test_bad_confidence_is_refused(confidence):
    with pytest.raises(ValueError, match="label_confidence"):
        classifier().fit(GRAPH, Y, label_confidence=confidence)


# --- regression -------------------------------------------------------------------------------


def test_regression_in_the_targets_own_units():
    model = GraphGPRegressor(random_state=0).fit(GRAPH, TARGETS)
    scaled = GraphGPRegressor(random_state=0).fit(GRAPH, 100 + 7 * TARGETS)
    mean, std = model.predict(GRAPH, return_std=True)
    far_mean, far_std = scaled.predict(GRAPH, return_std=True)
    np.testing.assert_allclose(far_mean, 100 + 7 * mean, rtol=1e-6)
    np.testing.assert_allclose(far_std, 7 * std, rtol=1e-5)
    np.testing.assert_allclose(scaled.loo_mean_, 100 + 7 * model.loo_mean_, rtol=1e-6)
    np.testing.assert_allclose(scaled.loo_std_, 7 * model.loo_std_, rtol=1e-5)
    assert model.loo_mean_.shape == (12,)
    assert (model.loo_std_ > std[SHOWN]).all()
    assert model.score(GRAPH, smooth_scores(GRAPH, 1)[:, 0]) > 0.5


def test_regression_score_skips_unlabelled_nodes():
    model = GraphGPRegressor(kernel=FIXED_RBF).fit(GRAPH, TARGETS)
    from sklearn.metrics import r2_score

    expected = r2_score(TARGETS[SHOWN], model.predict(GRAPH)[SHOWN])
    assert model.score(GRAPH, TARGETS) == pytest.approx(expected)


def test_regression_with_another_mark_for_unlabelled():
    marked = np.where(np.isnan(TARGETS), -999.0, TARGETS)
    model = GraphGPRegressor(kernel=FIXED_RBF, unlabelled=-999.0).fit(GRAPH, marked)
    same = GraphGPRegressor(kernel=FIXED_RBF).fit(GRAPH, TARGETS)
    np.testing.assert_array_equal(model.predict(), same.predict())


@pytest.mark.parametrize("y", [np.full(24, 3.0), hide(np.full(24, 3.0), np.array([2]), np.nan)])
def test_constant_targets(y):
    mean, std = GraphGPRegressor(kernel=FIXED_RBF).fit(GRAPH, y).predict(return_std=True)
    np.testing.assert_allclose(mean, 3.0, atol=1e-6)
    assert np.isfinite(std).all()


# --- parameters -------------------------------------------------------------------------------


def test_parameters_can_be_read_set_and_cloned():
    model = GraphGPClassifier(
        kernel=RBF(2.0) + Linear(), likelihood=Softmax(32), engine=Dual(tol=1e-3)
    )
    assert model.get_params()["kernel"] == RBF(2.0) + Linear()
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    model.set_params(kernel=Polynomial(2), inducing="points")
    assert (model.kernel, model.inducing) == (Polynomial(2), "points")
    assert copied.kernel == RBF(2.0) + Linear()
    repr(model)
    with pytest.raises(ValueError, match="nonsense"):
        model.set_params(nonsense=1)


def test_fit_changes_no_parameter_and_no_input():
    X, y = GRAPH.features.copy(), Y.copy()
    A = GRAPH.adjacency.copy()
    model = GraphGPClassifier(kernel=RBF(), engine=Dual(), likelihood=Softmax())
    before = copy.deepcopy(model.get_params())
    model.fit(GRAPH, Y).predict_proba(GRAPH)
    assert model.get_params() == before
    np.testing.assert_array_equal(GRAPH.features, X)
    np.testing.assert_array_equal(Y, y)
    assert (GRAPH.adjacency != A).nnz == 0


def test_progress_goes_to_standard_error(capsys):
    GraphGPClassifier(kernel=RBF(), verbose=1).fit(GRAPH, Y)
    said = capsys.readouterr()
    assert said.out == ""
    assert "elbo" in said.err
    assert "lengthscale" in said.err
