"""The default model: which views it has of a graph, how they are weighed, and what comes of it."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp

import nodegp
from helpers import hide
from nodegp import Graph, GraphGPClassifier
from nodegp.budget import budget
from nodegp.filters import Identity, PageRank, Propagation, Relations, SumOfFilters, View, Views
from nodegp.inducing import Points
from nodegp.kernels import RBF, Constant, Cosine, Linear, Sum
from nodegp.model import views
from nodegp.model.recipe import (
    DEFAULT,
    bias_variance,
    default_kernel,
    far_neighbours,
    prior_variance,
    teleport,
)
from nodegp.model.views import Candidate, averaged, candidates, label_covariances, planning_recipe
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain
from nodegp.prior.edges import ALIKE, BOTH, LINKS


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


def weights(model):
    """What each view has to say."""
    found = {score.name: score.weight for score in model.selection_}
    assert sum(found.values()) == pytest.approx(1.0)
    assert all(weight == 0 or weight >= views._SMALLEST for weight in found.values())
    return found


def accuracy(model, y):
    return (model.predict() == y).mean()


# --- what is looked at ---------------------------------------------------------------------------


def listed(graph, per_class=10):
    """Names and kinds of edges of the views of a graph."""
    looks = candidates(centred(graph), per_class)
    assert all(look.share > 0 for look in looks)
    return {look.view.name: look.view.relation for look in looks}


def test_views_of_words_with_edges():
    graph, _ = graph_of(0, alike=0.9)
    words = Graph(graph.adjacency, sp.csr_array(np.maximum(graph.features, 0)))
    assert listed(words) == {
        "own features": None,
        "far neighbours": None,
        "neighbours' neighbours": None,
        "links in common": LINKS,
        "nodes alike": ALIKE,
        "neighbours and nodes alike": BOTH,
    }
    # The share of a view is how often it was the best: each is listed with the same one everywhere.
    shares = {look.view.name: look.share for look in candidates(centred(words), 10)}
    assert shares["far neighbours"] == shares["neighbours and nodes alike"] == 0.3
    assert shares["own features"] == shares["links in common"] == 0.1


def test_a_table_may_be_curved_too():
    graph, _ = graph_of(0, alike=0.9)
    curved = {"own features, curved", "far neighbours, curved"}
    assert curved <= set(listed(graph))
    kernels = {look.view.name: look.kernel for look in candidates(centred(graph), 10)}
    assert {name for name, kernel in kernels.items() if isinstance(kernel, RBF)} == curved


def test_views_without_features_without_edges_and_without_both():
    graph, _ = graph_of(0, alike=0.9)
    assert listed(Graph(graph.adjacency)) == {"far links": None, "links in common": None}
    assert all(look.view.filter.centred for look in candidates(centred(Graph(graph.adjacency)), 3))
    unlinked = Graph(sp.csr_array((300, 300)), graph.features)
    assert set(listed(unlinked)) == {"own features", "own features, curved", "nodes alike"}
    assert set(listed(Graph(sp.csr_array((5, 5))))) == {"far links", "links in common"}


def test_views_of_kinds_of_edges():
    graph, _ = graph_of(0, alike=0.9)
    both = Graph({"b": graph.adjacency, "a": graph.adjacency}, graph.features)
    found = listed(both)
    assert found["far neighbours by 'a'"] == "a"
    assert found["far neighbours by 'b'"] == "b"
    assert len(found) == len(listed(graph)) + 2


def test_edges_that_were_drawn_by_likeness_are_not_counted_twice():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    model = GraphGPClassifier().fit(X, y)
    assert model.model_.graph.links_alike
    assert not {"links in common", "nodes alike", "neighbours and nodes alike"} & set(
        weights(model)
    )


def test_nodes_alike_are_not_looked_for_where_that_is_too_dear(monkeypatch):
    graph, y = graph_of(0, alike=0.9)
    monkeypatch.setattr(views, "_DEAREST", 1000)
    monkeypatch.setattr("nodegp.prior.edges.nearest_nodes", None)
    assert not {ALIKE, BOTH} & set(listed(graph).values())
    model = GraphGPClassifier().fit(graph, some_labels(y, 5))
    assert accuracy(model, y) > 0.9


# --- how they are summed -------------------------------------------------------------------------


def test_the_default_is_said_by_its_parts():
    data = nodegp.load_dataset("cora")
    model = GraphGPClassifier().fit(data.graph, data.labels("train"))
    found = weights(model)
    assert found["own features"] == 0, "too little to be worth its time"
    kept = {name: weight for name, weight in found.items() if weight > 0}
    assert {"far neighbours", "neighbours and nodes alike"} <= set(kept)
    assert [view.name for view in model.filter_.views] == list(kept)
    by_name = {view.name: view for view in model.filter_.views}
    assert by_name["far neighbours"].filter.teleport == teleport(20) == 0.085
    assert by_name["neighbours and nodes alike"].relation == BOTH
    assert type(model.likelihood_).__name__ == "Softmax"
    assert model.preprocessor_.centre is not None
    # Shares of the prior variance are the weights; the bias is in the first part, once.
    first, *others = model.kernel_
    assert isinstance(first, Sum)
    assert first.terms[1] == Constant(0.6, fixed=("variance",))
    variances = np.array([kernel.parameters()["variance"] for kernel in (first.terms[0], *others)])
    assert variances / variances.sum() == pytest.approx(list(kept.values()))
    assert (model.predict(nodes=data.splits["val"]) == data.y[data.splits["val"]]).mean() > 0.78
    paper = GraphGPClassifier(recipe="paper").fit(data.graph, data.labels("train"))
    assert paper.selection_ == []
    assert paper.preprocessor_.centre is None
    assert (paper.class_weights_ == 1).all()


def test_what_is_not_worth_its_time_is_left_out():
    looks = [
        Candidate(View(name, Identity()), Cosine(1.0, fixed=("variance",)), 1.0) for name in "abc"
    ]
    recipe, taken = averaged(looks, np.array([0.04, 0.26, 0.70]), 2.0, 0.5, DEFAULT)
    assert taken == pytest.approx([0, 0.26 / 0.96, 0.70 / 0.96])
    assert recipe.filter == Views((looks[1].view, looks[2].view))
    first, second = recipe.kernel
    assert first == Cosine(2 * taken[1], fixed=("variance",)) + Constant(0.5, fixed=("variance",))
    assert second == Cosine(2 * taken[2], fixed=("variance",))
    assert recipe.name == "auto"
    # With more views than weights are large, the largest stays.
    many = [looks[0]._replace(view=View(str(i), Identity())) for i in range(30)]
    even = np.full(30, 1 / 30)
    even[4] += 1e-3
    recipe, taken = averaged(many, even / even.sum(), 2.0, 0.5, DEFAULT)
    assert np.flatnonzero(taken).tolist() == [4]
    assert len(recipe.filter.views) == len(recipe.kernel) == 1


@pytest.mark.parametrize("dense", [True, False])
def test_covariances_of_views_have_variances_of_one_on_average(dense):
    graph, _ = graph_of(1, alike=0.8, n=60)
    if not dense:
        graph = Graph(graph.adjacency, sp.csr_array(np.maximum(graph.features, 0)))
    nodes = np.array([3, 50, 7, 31, 20])
    looks = candidates(centred(graph), 3)
    found = label_covariances(looks, centred(graph), nodes)
    assert found.shape == (len(looks), 5, 5)
    assert found.diagonal(dim1=1, dim2=2).mean(1).numpy() == pytest.approx(1.0)
    for view, covariance in zip(looks, found.numpy(), strict=True):
        assert covariance == pytest.approx(covariance.T)
        assert np.linalg.eigvalsh(covariance).min() > -1e-6, view.view.name
    same = label_covariances(looks, centred(graph), nodes[[2, 0, 1, 4, 3]])
    again = found[:, [2, 0, 1, 4, 3]][:, :, [2, 0, 1, 4, 3]].numpy()
    assert same.numpy() == pytest.approx(again, abs=1e-5)


def test_a_view_in_which_labels_see_nothing_is_no_error():
    graph = Graph(sp.csr_array((6, 6)))  # "links in common" of nodes without links
    found = label_covariances(candidates(centred(graph), 1), centred(graph), np.array([0, 3]))
    assert np.isfinite(found.numpy()).all()


# --- what they do on several graphs --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_alike_neighbours_are_used(seed):
    graph, y = graph_of(seed, alike=0.9, told=0.7)
    model = GraphGPClassifier(random_state=0).fit(graph, some_labels(y, 10, seed))
    alone = GraphGPClassifier(filter="identity").fit(graph, some_labels(y, 10, seed))
    found = weights(model)
    assert sum(share for name, share in found.items() if "neighbours" in name) > 0.8
    assert accuracy(model, y) > accuracy(alone, y) + 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("alike", "told"), [(0.5, 2.5), (0.05, 1.5)], ids=["noise", "differ"])
def test_edges_that_mislead_do_no_harm(alike, told, seed):
    graph, y = graph_of(seed, alike=alike, told=told)
    labels = some_labels(y, 20, seed)
    model = GraphGPClassifier(random_state=0).fit(graph, labels)
    alone = GraphGPClassifier(filter="identity").fit(graph, labels)
    assert accuracy(model, y) > accuracy(alone, y) - 0.02


@pytest.mark.parametrize("seed", range(3))
def test_edges_of_pure_noise_lose_their_say(seed):
    graph, y = graph_of(seed, alike=0.5, told=2.5)
    found = weights(GraphGPClassifier().fit(graph, some_labels(y, 20, seed)))
    shares = {look.view.name: look.share for look in candidates(centred(graph), 20)}
    own = {"own features", "own features, curved", "nodes alike"}
    before = sum(shares[name] for name in own) / sum(shares.values())
    assert sum(found[name] for name in own) > 1.5 * before
    assert found["links in common"] < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_where_neighbours_differ_theirs_are_asked(seed):
    """Features say little, and neighbours are of the other class: theirs are of one's own."""
    graph, y = graph_of(seed, alike=0.02, told=0.6)
    model = GraphGPClassifier().fit(graph, some_labels(y, 20, seed))
    alone = GraphGPClassifier(filter="identity").fit(graph, some_labels(y, 20, seed))
    found = weights(model)
    assert found["neighbours' neighbours"] + found["links in common"] > 0.3
    assert accuracy(model, y) > accuracy(alone, y) + 0.03


def test_with_one_label_of_each_class_every_view_has_its_share():
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier().fit(graph, some_labels(y, 1))
    assert all(score.log_loss is None for score in model.selection_)
    shares = np.array([look.share for look in candidates(centred(graph), 1)])
    assert list(weights(model).values()) == pytest.approx(shares / shares.sum())


def test_a_graph_without_features():
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier().fit(Graph(graph.adjacency), some_labels(y, 10))
    assert weights(model)["far links"] > 0.5
    assert accuracy(model, y) > 0.85


def test_a_table_whose_classes_are_curved():
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, 2 * np.pi, 400), np.repeat([0, 1], 200)
    X = (1.0 + y)[:, None] * np.c_[np.cos(angle), np.sin(angle)] + rng.normal(0, 0.1, (400, 2))
    model = GraphGPClassifier(random_state=0).fit(X, some_labels(y, 15))
    assert sum(share for name, share in weights(model).items() if "curved" in name) > 0.9
    assert accuracy(model, y) > 0.9


@pytest.mark.parametrize("filter", ["auto", "pagerank", PageRank(0.1, averaged=True), "diffusion"])
def test_new_rows_of_a_table_do_not_hear_of_each_other(filter):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.normal(size=(80, 3)) + 2 * y[:, None]
    model = GraphGPClassifier(filter=filter, random_state=0).fit(X, y)
    new = rng.normal(size=(6, 3)) + 1
    together = model.predict_proba(new)
    one_by_one = np.vstack([model.predict_proba(row[None]) for row in new])
    # The integral over a softmax is in single precision: the last digit of what goes in may turn
    # one of those.
    assert one_by_one == pytest.approx(together, abs=1e-7)
    # Rows that are known already see what they saw.
    domain, _ = model._asked(X[:5], None)
    assert domain.graph.n_fitted_nodes == 80
    known, seen = (model.prior_.at(d, np.arange(80)) for d in (domain, model.model_.domain()))
    parts = zip(getattr(known, "parts", [known]), getattr(seen, "parts", [seen]), strict=True)
    for with_new, without in parts:
        a, b = (inputs.rows.take(np.arange(80)).values for inputs in (with_new, without))
        assert np.asarray(a) == pytest.approx(np.asarray(b))


def test_kinds_of_edges_are_told_apart():
    graph, y = graph_of(0, alike=0.95, told=0.5)
    noise, _ = graph_of(1, alike=0.5)
    both = Graph({"same": graph.adjacency, "noise": noise.adjacency}, graph.features)
    model = GraphGPClassifier(random_state=0).fit(both, some_labels(y, 20))
    found = weights(model)
    assert found["far neighbours by 'same'"] > 5 * found["far neighbours by 'noise'"]
    assert accuracy(model, y) > 0.9


# --- settings of one's own, and what goes with the default ---------------------------------------


def test_many_labels_are_sampled_for_the_weights_and_all_fitted(monkeypatch):
    monkeypatch.setattr("nodegp.model.selection._ENOUGH", 40)
    sizes = []
    plain = views.label_covariances

    def counting(looks, domain, nodes, kernel=None):
        sizes.append(len(nodes))
        return plain(looks, domain, nodes, kernel)

    monkeypatch.setattr("nodegp.model.selection.label_covariances", counting)
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier(random_state=0).fit(graph, some_labels(y, 60))
    assert sizes == [40]
    assert len(model.labelled_) == 120
    assert model.loo_proba_.shape == (120, 2)
    again = GraphGPClassifier(random_state=0).fit(graph, some_labels(y, 60))
    assert again.selection_ == model.selection_


def one_best(model):
    """The view that has it all."""
    taken = [score for score in model.selection_ if score.weight > 0]
    assert [score.weight for score in taken] == [1.0]
    return taken[0].name


def test_with_a_kernel_of_ones_own_it_is_the_one_view_that_is_best():
    graph, y = graph_of(0, alike=0.9, told=0.7)
    model = GraphGPClassifier(kernel=Linear(3.0)).fit(graph, some_labels(y, 10))
    assert one_best(model) == "far neighbours"
    assert model.filter_ == far_neighbours(10)
    assert isinstance(model.kernel_, Linear)
    assert model.kernel_.variance != 3.0, "it is learnt"
    # Views that need edges of another kind are no filters on the graph: they are not listed.
    assert not {"links in common", "nodes alike"} & {score.name for score in model.selection_}
    model.update([0], [y[0]])
    assert isinstance(model.kernel_, Linear)
    assert one_best(model) == "far neighbours"


def test_many_labels_with_points_have_the_one_best_view_too():
    graph, y = graph_of(0, alike=0.9, told=0.7)
    model = GraphGPClassifier(inducing=Points(10), random_state=0).fit(graph, some_labels(y, 30))
    assert one_best(model) == "far neighbours"
    assert model.posterior_.n_inducing == 10
    assert accuracy(model, y) > 0.85
    assert model.loo_proba_.shape == (60, 2)


def test_auto_with_the_papers_kernel():
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier(filter="auto", recipe="paper", random_state=0)
    model.fit(graph, some_labels(y, 10))
    assert one_best(model)
    assert type(model.likelihood_).__name__ == "RobustMax"
    assert type(model.kernel_).__name__ == "Polynomial"


def test_scores_are_kept_in_the_file(tmp_path):
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier().fit(graph, some_labels(y, 5))
    model.save(tmp_path / "model.nodegp", include_graph=True)
    loaded = nodegp.load(tmp_path / "model.nodegp")
    assert loaded.selection_ == model.selection_
    assert np.array_equal(loaded.class_weights_, model.class_weights_)
    assert loaded.predict_proba() == pytest.approx(model.predict_proba(), rel=1e-9)


def test_progress_says_what_each_view_is_worth(capsys):
    graph, y = graph_of(0, alike=0.9)
    model = GraphGPClassifier(verbose=1).fit(graph, some_labels(y, 5))
    said = capsys.readouterr().err
    for score in model.selection_:
        assert f"{score.name}: weight {score.weight:.2f}, log loss of labels left out" in said
    GraphGPClassifier(verbose=1).fit(graph, some_labels(y, 1))
    assert "log loss of labels left out not known" in capsys.readouterr().err


def test_plans_look_no_further_for_fewer_labels_and_have_no_bias():
    graph, y = graph_of(0, alike=0.9)
    few, many = (GraphGPClassifier().fit(graph, some_labels(y, k)) for k in (2, 40))
    domain = few.model_.domain()
    plan = planning_recipe(domain, few.model_.recipe)
    looks = candidates(domain, 20)
    assert [view.name for view in plan.filter.views] == [look.view.name for look in looks]
    ranges = {v.filter.teleport for v in plan.filter.views if isinstance(v.filter, PageRank)}
    assert ranges == {0.1}
    shares = np.array([kernel.parameters()["variance"] for kernel in plan.kernel])
    assert shares == pytest.approx([look.share / sum(k.share for k in looks) for look in looks])
    assert not any(isinstance(kernel, Sum | Constant) for kernel in plan.kernel)
    priors = [model.model_.planning_prior(domain) for model in (few, many)]
    assert priors[0] == priors[1] == plan.prior(domain), "it does not follow the labels"
    fixed = GraphGPClassifier(filter="identity").fit(graph, some_labels(y, 2))
    assert fixed.model_.planning_prior(fixed.model_.domain()) is fixed.prior_


def test_a_view_is_one_filter():
    with pytest.raises(ValueError, match="View: filter must be one filter"):
        View("two", SumOfFilters((Identity(), PageRank(0.1))))
    with pytest.raises(ValueError, match="Views: views must be a tuple of views"):
        Views(())
    with pytest.raises(ValueError, match="Views: views must be a tuple of views"):
        Views((Identity(),))


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
    assert bias_variance(20, is_featureless=True) < 0.5 * bias_variance(20)


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


def test_covariances_that_were_kept_are_those_of_a_new_graph():
    graph, _ = graph_of(0, alike=0.9)
    again = Graph(graph.adjacency.copy(), graph.features.copy())
    domains = [
        Domain(each, Preprocessor.fit(each.features, "raw", center=False))
        for each in (graph, again)
    ]
    looks = candidates(domains[0], 5)
    label_covariances(looks, domains[0], np.array([3, 8, 40]))
    nodes = np.array([2, 3, 17, 40, 41])
    grown, fresh = (label_covariances(looks, domain, nodes) for domain in domains)
    assert grown.numpy() == pytest.approx(fresh.numpy(), rel=1e-9, abs=1e-12)


@dataclass(frozen=True, eq=True)
class Stretched(RBF):
    """A kernel with an array in it, so that `==` of two of them is no truth value."""

    along: np.ndarray = field(default_factory=lambda: np.ones(3))


def test_kernels_with_arrays_are_told_apart_between_fits():
    graph, y = graph_of(0, alike=0.8, n=60)
    shown, fits = some_labels(y, 5), []
    for along in (np.ones(3), np.ones(3)):
        model = GraphGPClassifier(kernel=Stretched(along=along)).fit(graph, shown)
        fits.append(model.predict_proba())
    np.testing.assert_array_equal(*fits)


def test_links_in_common_are_left_out_where_they_take_too_much(monkeypatch, capsys):
    """Their rows have an entry for each node: at a million nodes, gigabytes for a few labels."""
    graph, y = graph_of(0, alike=0.9)
    labels = some_labels(y, 10)
    monkeypatch.setattr(budget, "large", 4 * 20 * 300)
    there = GraphGPClassifier().fit(graph, labels)
    assert "links in common" in {score.name for score in there.selection_}
    monkeypatch.setattr(budget, "large", 4 * 20 * 300 - 1)
    left_out = GraphGPClassifier(verbose=1).fit(Graph(graph.adjacency, graph.features), labels)
    assert "links in common" not in {score.name for score in left_out.selection_}
    assert "links in common are left out" in capsys.readouterr().err
    assert left_out.score(graph, np.where(labels < 0, y, -1)) > 0.8
