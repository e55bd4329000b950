"""Models of stored graphs: the answers of memory, and no second pass over the edges."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import nodegp
from nodegp.disk import on_disk, using
from nodegp.disk.preprocess import fit_preprocessor
from nodegp.filters import Diffusion, NeighbourMean, PageRank, Propagation
from nodegp.graph import Graph
from nodegp.kernels import RBF, Cosine, Linear, Tile
from nodegp.model.plan import plan_filters
from nodegp.operators import operator_of
from nodegp.preprocessing import Preprocessing
from nodegp.prior import Domain, StoredDomain, domain_of, make_prior
from stores import awkward_graph, stored


@pytest.fixture(params=[(900, 11, 150, 40), (30_000, 20, 20_000, 4_000)], ids=["double", "single"])
def both(request, tmp_path):
    """The same graph in memory and stored, and the classes; one in single precision."""
    n_nodes, n_columns, entries, rows = request.param
    graph, classes = awkward_graph(n_nodes, n_columns, ids=True)
    return graph, stored(graph, tmp_path / "store", entries, rows), classes


def labels_of(classes, count=60, seed=0):
    nodes = np.sort(np.random.default_rng(seed).choice(len(classes), count, replace=False))
    return nodes, {f"node {n}": f"class {classes[n]}" for n in nodes}


def vector(classes, nodes):
    y = np.full(len(classes), None, dtype=object)
    y[nodes] = [f"class {c}" for c in classes[nodes]]
    return y


def passes(store):
    return sum(operator_of(on_disk(store), loops).passes for loops in (False, True))


def test_the_default_gives_what_memory_gives_for_the_same_recipe(both):
    graph, store, classes = both
    nodes, pairs = labels_of(classes)
    model = nodegp.GraphGPClassifier(random_state=0).fit(store, pairs)
    names = {score.name for score in model.selection_}
    assert names == {"own features", "far neighbours", "neighbours' neighbours"}
    fixed = nodegp.GraphGPClassifier(model.recipe_, random_state=0)
    in_memory = fixed.fit(graph, vector(classes, nodes)).predict_proba()
    assert np.abs(model.predict_proba() - in_memory).max() < 1e-6
    some = np.array([3, len(classes) - 1, 7])
    assert np.abs(model.predict_proba(nodes=some) - in_memory[some]).max() < 1e-6
    assert (model.predict() == [f"class {c}" for c in classes]).mean() > 0.8


@pytest.mark.parametrize(
    ("filter", "kernel"),
    [
        (PageRank(0.1, order=6, fixed=("strength",)), Cosine()),
        (PageRank(0.1, order=6, fixed=("strength",)), RBF()),
        (PageRank(0.1, order=4), None),  # learnt
        (Diffusion(2.0, averaged=True, order=5, fixed=("time",)), Linear()),
        (Propagation(2, hub_discount=0.5), None),
        ("identity", None),
        (NeighbourMean(), RBF()),
    ],
    ids=["pagerank", "curved", "learnt", "averaged", "discounted", "own features", "function"],
)
def test_every_filter_and_kernel(tmp_path, filter, kernel):
    graph, classes = awkward_graph(ids=True)
    store = stored(graph, tmp_path / "store")
    nodes, pairs = labels_of(classes)
    parts = {"filter": filter, "kernel": kernel, "random_state": 0}
    disk = nodegp.GraphGPClassifier(**parts).fit(store, pairs)
    memory = nodegp.GraphGPClassifier(**parts).fit(graph, vector(classes, nodes))
    assert np.abs(disk.predict_proba() - memory.predict_proba()).max() < 1e-6


def test_predictions_refits_and_updates_pass_over_no_edge(both):
    _, store, classes = both
    _, pairs = labels_of(classes)
    model = nodegp.GraphGPClassifier(random_state=0).fit(store, pairs)
    before = passes(store)
    assert before == 9.0  # seven hops and two
    model.predict_proba()
    _, others = labels_of(classes, seed=1)
    nodegp.GraphGPClassifier(random_state=0).fit(store, others)
    model.update(["node 5", "node 6"], ["class 0", "class 1"])
    model.predict_proba()
    assert passes(store) == before
    again = nodegp.open_store(store.path)  # as another process would
    nodegp.GraphGPClassifier(random_state=0).fit(again, pairs).predict_proba()
    assert passes(again) == 0.0


def test_a_learnt_filter_is_planned_and_is_there_for_predictions(both):
    graph, store, classes = both
    _, pairs = labels_of(classes)
    filter, stored_graph = PageRank(0.1, order=4), on_disk(store)
    preprocessor = fit_preprocessor(Preprocessing(), store)
    prior = make_prior(filter, Cosine(), domain_of(stored_graph, preprocessor))
    with using(1, memory=500 * graph.n_nodes):  # a few columns at a time
        plan = plan_filters(stored_graph, preprocessor, [("range", prior)], len(pairs))
        learning, kept = plan.steps
        assert (learning.is_kept, learning.itemsize, kept.is_kept) == (False, 8, True)
        assert 4 * 8 * learning.width <= 0.6 * 500
        parts = {"filter": filter, "kernel": Cosine(), "random_state": 0}
        model = nodegp.GraphGPClassifier(**parts).fit(store, pairs)
        assert passes(store) == plan.passes == learning.passes + kept.passes
        model.predict_proba()
        assert passes(store) == plan.passes
        of_all = plan_filters(stored_graph, preprocessor, [("range", model.prior_)], 60, 100)
    assert of_all.passes == 0


def test_one_column_of_all_nodes_is_all_that_is_held(tmp_path):
    graph, _ = awkward_graph(30_000, 20)
    features = on_disk(stored(graph, tmp_path / "store", 20_000, 4_000)).features
    features[:10]
    tracemalloc.start()
    column = features[:, 3:4]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(column, graph.features[:, 3:4].astype(column.dtype))
    part = 4_000 * 20 * column.itemsize
    assert peak < column.nbytes + 3 * part < features.shape[0] * 20 * column.itemsize


def test_updates_and_explanations_are_those_of_memory(both):
    graph, store, classes = both
    nodes, pairs = labels_of(classes)
    disk = nodegp.GraphGPClassifier(random_state=0).fit(store, pairs)
    recipe = disk.recipe_
    disk = nodegp.GraphGPClassifier(recipe, random_state=0).fit(store, pairs)
    memory = nodegp.GraphGPClassifier(recipe, random_state=0).fit(graph, vector(classes, nodes))
    for model in (disk, memory):
        model.update(["node 5", "node 8"], ["class 0", "class 1"])
    assert np.abs(disk.predict_proba() - memory.predict_proba()).max() < 1e-6
    ours, theirs = disk.explain("node 8"), memory.explain("node 8")
    assert np.allclose(ours.from_labels, theirs.from_labels, atol=1e-5)
    shares = dict(zip(ours.neighbours.tolist(), ours.from_neighbours, strict=True))
    for node, share in zip(theirs.neighbours.tolist(), theirs.from_neighbours, strict=True):
        assert np.allclose(shares[node], share, atol=1e-5)


@pytest.mark.parametrize("kernel", [Cosine(), RBF()])
def test_many_entries_have_the_precision_of_memory(tmp_path, kernel):
    """Distances are summed in double precision, whatever the size, of rows in single, which are in
    one file for all kernels; inner products in single: the same sums, equal to the bit."""
    graph, classes = awkward_graph(30_000, 20, ids=True)
    store = stored(graph, tmp_path / "store", 20_000, 4_000)
    nodes, pairs = labels_of(classes)
    filter = PageRank(0.1, order=4, fixed=("strength",))
    parts = {"filter": filter, "kernel": kernel, "random_state": 0}
    disk = nodegp.GraphGPClassifier(**parts).fit(store, pairs)
    memory = nodegp.GraphGPClassifier(**parts).fit(graph, vector(classes, nodes))
    bound = 0.0 if isinstance(kernel, Cosine) else 1e-6
    for model in (disk, memory):
        model.predict_proba(nodes=[0])
    for _ in range(2):
        assert np.abs(disk.predict_proba() - memory.predict_proba()).max() <= bound
        for model in (disk, memory):
            model.update(["node 5", "node 8"], ["class 0", "class 1"])
    domain = domain_of(on_disk(store), disk.model_.preprocessor)
    used = disk.prior_.where(domain).matrix(filter.polynomial())
    assert used.is_made
    assert used.itemsize == 4
    plan = plan_filters(on_disk(store), disk.model_.preprocessor, [("a", disk.prior_)], 60)
    assert [step.itemsize for step in plan.steps] == [used.itemsize]
    assert plan.passes == 0


def test_a_saved_model_has_no_graph_and_knows_its_store(both, tmp_path):
    _, store, classes = both
    _, pairs = labels_of(classes)
    model = nodegp.GraphGPClassifier(random_state=0).fit(store, pairs)
    path = tmp_path / "model.nodegp"
    model.save(path, include_graph=True)
    assert path.stat().st_size < 1 << 20
    expected = model.predict_proba(nodes=[1, 2, 3])
    assert np.array_equal(nodegp.load(path).predict_proba(store, nodes=[1, 2, 3]), expected)
    loaded = nodegp.load(path, store)
    assert np.array_equal(loaded.predict_proba(nodes=[1, 2, 3]), expected)
    loaded.update(["node 1"], ["class 0"])
    other, _ = awkward_graph(900, 11, seed=3, ids=True)
    with pytest.raises(ValueError, match="fitted on another graph"):
        nodegp.load(path, stored(other, tmp_path / "other"))


def test_labels_are_pairs(tmp_path):
    graph, classes = awkward_graph(ids=True)
    store = stored(graph, tmp_path / "store")
    _, pairs = labels_of(classes)
    ways = [pairs, list(pairs.items()), (list(pairs), list(pairs.values()))]
    found = [
        nodegp.GraphGPClassifier("auto", filter="identity").fit(store, way).predict_proba()
        for way in ways
    ]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    with pytest.raises(ValueError, match="1 ids are not in the graph, first: \\['who'\\]"):
        nodegp.GraphGPClassifier().fit(store, {"who": 1})
    with pytest.raises(ValueError, match="labels of a stored graph are pairs"):
        nodegp.GraphGPClassifier().fit(store, np.zeros(900))
    with pytest.raises(ValueError, match="two labels for a node"):
        nodegp.GraphGPClassifier().fit(store, [("node 1", 0), ("node 1", 1)])
    sure = nodegp.GraphGPClassifier(filter="identity").fit(
        store, pairs, label_confidence=dict.fromkeys(pairs, 0.6)
    )
    assert sure.label_confidence_.tolist() == [0.6] * 60


def test_numbers_of_nodes_where_there_are_no_ids(tmp_path):
    graph, classes = awkward_graph()
    store = stored(graph, tmp_path / "store")
    nodes, _ = labels_of(classes)
    model = nodegp.GraphGPClassifier(filter="identity").fit(store, (nodes, classes[nodes]))
    assert np.array_equal(model.labelled_, nodes)


@pytest.mark.parametrize(
    "kind", ["auto", "standardise", "l2", "sqrt", "tfidf", "sqrt-tfidf", "raw"]
)
@pytest.mark.parametrize("counts", [False, True])
def test_preprocessing_is_that_of_memory(tmp_path, kind, counts):
    graph, _ = awkward_graph()
    features = np.abs(graph.features)
    if counts:
        features = np.where(features > 6.0, np.floor(features), 0.0).astype(np.float32)
    store = stored(Graph(graph.adjacency, features), tmp_path / "store")
    for center in (False, True):
        wished = Preprocessing(kind, center)
        ours, theirs = fit_preprocessor(wished, store), wished.fit(features)
        assert (ours.kind, ours.unit_rows) == (theirs.kind, theirs.unit_rows)
        for a, b in ((ours.scale, theirs.scale), (ours.centre, theirs.centre)):
            assert (a is None) == (b is None)
            assert a is None or np.allclose(a, b, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kernel", [Cosine(), Linear(), RBF()])
@pytest.mark.parametrize(
    "filter", [PageRank(0.1, order=5, fixed=("strength",)), Propagation(2), NeighbourMean()]
)
def test_the_prior_is_that_of_a_dense_filter(tmp_path, kernel, filter):
    """The oracle: F X written out, and the kernel of its rows; or F K F^T."""
    graph, _ = awkward_graph(200, 6)
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    domain = domain_of(on_disk(store), preprocessor)
    assert isinstance(domain, StoredDomain)
    prior = make_prior(filter, kernel, domain)
    nodes, others = np.array([0, 7, 30, 110, 199]), np.arange(100, 190)
    expected = make_prior(filter, kernel, Domain(graph, preprocessor))
    at = {"ours": (prior, domain), "theirs": (expected, Domain(graph, preprocessor))}
    found = {}
    for name, (own, where) in at.items():
        a, b = own.at(where, nodes), own.at(where, others)
        cross = own.cross(b, a.materialise())
        found[name] = [own.cov(a, b), own.var(a), own.var(b), cross.block(slice(0, 90))]
        found[name].append(cross.variances())
    for ours, theirs in zip(found["ours"], found["theirs"], strict=True):
        assert torch.allclose(ours.double(), theirs.double(), atol=1e-9)
    weights = filter.weights(graph, np.arange(200))
    rows = preprocessor.transform(graph.features, np.arange(200)).values.numpy()
    if not isinstance(filter, NeighbourMean):
        X = torch.from_numpy(weights.toarray() @ rows)
        squares = (X**2).sum(1)
        K = kernel(Tile(X @ X.mT, squares[:, None], squares[None, :]))
    else:
        X = torch.from_numpy(rows)
        squares = (X**2).sum(1)
        K = kernel(Tile(X @ X.mT, squares[:, None], squares[None, :]))
        F = torch.from_numpy(weights.toarray())
        K = F @ K @ F.mT
    assert torch.allclose(found["ours"][0], K[nodes][:, others], atol=1e-9)


def test_edges_that_take_all_pairs_are_refused(tmp_path):
    graph, _ = awkward_graph(ids=True)
    store = stored(graph, tmp_path / "store")
    domain = domain_of(on_disk(store), fit_preprocessor(Preprocessing(), store))
    with pytest.raises(ValueError, match="take all pairs of nodes"):
        domain.relation("@alike")


@pytest.mark.parametrize("kind", ["sparse", "none"])
def test_without_dense_features_labels_are_carried(tmp_path, kind):
    graph, classes = awkward_graph(n_columns=40, ids=True)
    features = None
    if kind == "sparse":
        features = sp.csr_array(np.where(graph.features > 5.5, np.round(graph.features), 0.0))
    graph = Graph(graph.adjacency, features, graph.ids)
    store = stored(graph, tmp_path / "store")
    nodes, pairs = labels_of(classes)
    disk = nodegp.GraphGPClassifier(random_state=0).fit(store, pairs)
    memory = nodegp.GraphGPClassifier(disk.recipe_, random_state=0)
    memory.fit(graph, vector(classes, nodes))
    assert np.abs(disk.predict_proba() - memory.predict_proba()).max() < 1e-6
    assert passes(store) > 0
    with using(memory=1 << 19), pytest.raises(ValueError, match=r"GiB of memory, and .* allowed"):
        nodegp.GraphGPClassifier().fit(store, pairs)


def test_a_filter_on_the_function_is_refused_where_its_neighbours_are_too_many(tmp_path):
    graph, classes = awkward_graph(ids=True)
    store = stored(graph, tmp_path / "store")
    nodes = np.arange(10, 30)  # without the hub, whose neighbours are half of all
    pairs = {f"node {n}": int(classes[n]) for n in nodes}
    parts = {"filter": NeighbourMean(), "calibrate": False, "random_state": 0}
    model = nodegp.GraphGPClassifier(**parts)
    touched = np.count_nonzero(NeighbourMean().weights(graph, nodes).sum(axis=0))
    with (
        using(1, memory=8 * 11 * touched - 1),
        pytest.raises(
            ValueError, match=rf"here {touched} rows of .* GiB, and .* allowed; filter the features"
        ),
    ):
        model.fit(store, pairs)
    with using(1, memory=8 * 11 * touched):
        model.fit(store, pairs)
        model.predict_proba(nodes=nodes)
        with pytest.raises(ValueError, match=r"take more than .* ask about fewer nodes at a time"):
            model.predict_proba()


@pytest.mark.parametrize("kind", ["dense", "sparse", "none"])
def test_fit_says_which_views_it_leaves_out(tmp_path, capsys, kind):
    graph, classes = awkward_graph(n_columns=40, ids=True)
    features = graph.features if kind == "dense" else None
    if kind == "sparse":
        features = sp.csr_array(np.where(graph.features > 5.5, np.round(graph.features), 0.0))
    graph = Graph(graph.adjacency, features, graph.ids)
    nodes, pairs = labels_of(classes)
    parts = {"random_state": 0, "verbose": 1}
    nodegp.GraphGPClassifier(**parts).fit(stored(graph, tmp_path / "store"), pairs)
    said = capsys.readouterr().err
    assert ("left out: links in common and nodes alike" in said) == (kind != "none")
    assert ("curved ones" in said) == (kind == "dense")
    nodegp.GraphGPClassifier(**parts).fit(graph, vector(classes, nodes))
    assert "too large" not in capsys.readouterr().err


def test_a_regressor(tmp_path):
    graph, classes = awkward_graph(ids=True)
    store = stored(graph, tmp_path / "store")
    nodes, _ = labels_of(classes)
    parts = {"filter": PageRank(0.1, order=5, fixed=("strength",)), "random_state": 0}
    disk = nodegp.GraphGPRegressor(**parts)
    disk.fit(store, {f"node {n}": float(classes[n]) for n in nodes})
    y = np.full(len(classes), np.nan)
    y[nodes] = classes[nodes]
    memory = nodegp.GraphGPRegressor(**parts).fit(graph, y)
    assert np.abs(disk.predict() - memory.predict()).max() < 1e-6
