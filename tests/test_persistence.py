"""Models written to a file and read back: the same to the bit, or a clear error."""

from __future__ import annotations

import json
import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.numpy import load_file, save_file
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import nodegp
from helpers import FIXED_RBF, hide, one_hop, random_graph, smooth_classes, smooth_scores
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.filters import (
    Identity,
    PageRank,
    Propagation,
    Relations,
    SumOfFilters,
    View,
    Views,
)
from nodegp.inducing import Points
from nodegp.inference import Dual
from nodegp.kernels import RBF, ArcCosine, Constant, Cosine, Linear, Matern, Polynomial
from nodegp.operators import operator_of
from nodegp.persistence import ModelFileError, checksum
from nodegp.prior import Domain, FilteredFeatures, build, lengths
from nodegp.prior.edges import ALIKE, BOTH, LINKS
from nodegp_paper.inference import Adam

GRAPH = random_graph()
SHOWN = np.arange(0, 24, 2)
Y = hide(smooth_classes(GRAPH), SHOWN)
STRINGS = np.where(Y == -1, None, np.array(["ant", "bee", "cat"], dtype=object)[Y])
TARGETS = np.where(Y == -1, np.nan, smooth_scores(GRAPH, 1)[:, 0])
COUNTS = sp.csr_array(np.random.default_rng(0).poisson(0.3, size=(24, 15)).astype(float))
SPARSE = Graph(GRAPH.adjacency, COUNTS, ids=[f"n{i}" for i in range(24)])

KERNELS = {
    "sum": RBF() + Linear(0.5),
    "product": RBF(1.0, 2.0) * Polynomial(2),
    "scaled": 2.0 * Matern(2.5),
    "nested": 0.5 * (Linear() + Constant(2.0)) * ArcCosine(1) + Cosine(),
    "fixed": FIXED_RBF,
}


def grown(graph: Graph) -> Graph:
    """Two nodes more, one of them linked."""
    A = sp.lil_array((26, 26))
    A[:24, :24] = graph.adjacency
    A[24, 3] = 1.0
    if graph.features is None:
        return Graph(A)
    stack = sp.vstack if sp.issparse(graph.features) else np.vstack
    return Graph(A, stack([graph.features, graph.features[[0, 5]]]))


def assert_same(model, again, X):
    for a, b in zip(model.predict_latent(X), again.predict_latent(X), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
        np.testing.assert_array_equal(model.loo_proba_, again.loo_proba_)
        np.testing.assert_array_equal(model.classes_, again.classes_)
        assert model.classes_.dtype == again.classes_.dtype
    else:
        np.testing.assert_array_equal(model.loo_mean_, again.loo_mean_)
    for name in (
        "elbo_",
        "n_iter_",
        "converged_",
        "preprocessing_",
        "recipe_",
        "kernel_",
        "likelihood_",
    ):
        assert getattr(model, name) == getattr(again, name)


def round_trip(model, path, **settings):
    model.save(path, **settings)
    return nodegp.load(path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
@pytest.mark.parametrize("inducing", ["labelled", Points(5)], ids=["labelled", "points"])
def test_every_kernel_and_inducing_choice(kernel, inducing, tmp_path):
    model = one_hop(kernel=kernel, inducing=inducing, engine=Dual(max_iter=2), random_state=0)
    model.set_params(likelihood="softmax")
    model.fit(GRAPH, Y)
    again = round_trip(model, tmp_path / "m.nodegp")
    assert again.get_params() == model.get_params()
    assert_same(model, again, GRAPH)
    assert_same(model, again, grown(GRAPH))


@pytest.mark.parametrize(
    ("model", "graph", "y"),
    [
        (GraphGPClassifier(kernel=FIXED_RBF), GRAPH, STRINGS),
        (GraphGPClassifier(kernel=FIXED_RBF, unlabelled=np.int64(-1)), GRAPH, Y),
        (GraphGPClassifier(kernel=FIXED_RBF), GRAPH, Y == 0),
        (GraphGPClassifier(kernel=FIXED_RBF, calibrate=True), GRAPH, Y),
        (GraphGPClassifier(preprocessing="tfidf"), SPARSE, Y),
        (GraphGPClassifier(preprocessing="l2"), SPARSE, Y),
        (GraphGPClassifier(preprocessing="standardise", inducing="points"), SPARSE, Y),
        (GraphGPClassifier(), Graph(GRAPH.adjacency), Y),
        (
            GraphGPClassifier(kernel=FIXED_RBF, filter="identity", engine=Dual(dtype="float32")),
            GRAPH,
            Y,
        ),
        (GraphGPClassifier(kernel=FIXED_RBF, engine=Adam(max_iter=20, tol=0)), GRAPH, Y),
        (GraphGPRegressor(), GRAPH, TARGETS),
        (GraphGPRegressor(inducing="points", unlabelled=np.nan), GRAPH, TARGETS),
    ],
    ids=[
        "strings",
        "numpy-scalar",
        "booleans",
        "calibrated",
        "tfidf-centred",
        "l2",
        "sparse-points",
        "no-features",
        "float32",
        "adam",
        "regressor",
        "regressor-points",
    ],
)
def test_models_of_every_kind(model, graph, y, tmp_path):
    model.fit(graph, y)
    again = round_trip(model, tmp_path / "m.nodegp")
    assert type(again) is type(model)
    assert_same(model, again, graph)
    assert_same(model, again, grown(graph))
    twice = round_trip(again, tmp_path / "twice.nodegp")
    assert_same(model, twice, graph)


@pytest.mark.parametrize("X", [GRAPH.features, COUNTS], ids=["dense", "sparse"])
def test_a_model_of_a_table_keeps_its_rows(X, tmp_path):
    model = GraphGPClassifier(kernel=FIXED_RBF).fit(X, Y)
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, X[:5])
    np.testing.assert_array_equal(model.predict_proba(), again.predict_proba())


@pytest.mark.parametrize("graph", [GRAPH, SPARSE, Graph(GRAPH.adjacency)])
def test_the_graph_is_kept_on_request(graph, tmp_path):
    model = GraphGPClassifier(kernel=Linear()).fit(graph, Y)
    kept = round_trip(model, tmp_path / "with", include_graph=True)
    np.testing.assert_array_equal(kept.predict_proba(), model.predict_proba())
    assert (kept.graph_.adjacency != graph.adjacency).nnz == 0
    if graph.ids is not None:
        np.testing.assert_array_equal(kept.graph_.ids, graph.ids)
    bare = round_trip(model, tmp_path / "without")
    with pytest.raises(ValueError, match="include_graph"):
        bare.predict_proba()
    assert os.path.getsize(tmp_path / "without") < os.path.getsize(tmp_path / "with")


@pytest.mark.parametrize(
    "kernel",
    [RBF(lengthscale=np.float32(1.5)), Polynomial(np.int64(2)), RBF(variance=np.float64(2.0))],
    ids=["float32", "int64", "float64"],
)
def test_numpy_numbers_in_a_kernel_can_be_saved(kernel, tmp_path):
    model = GraphGPClassifier(kernel=kernel, likelihood="softmax").fit(GRAPH, Y)
    assert_same(model, round_trip(model, tmp_path / "m"), GRAPH)


def test_random_streams_are_not_saved(tmp_path):
    model = GraphGPClassifier(kernel=FIXED_RBF, random_state=np.random.default_rng(0)).fit(GRAPH, Y)
    assert round_trip(model, tmp_path / "m").random_state is None


# --- lengths of filtered rows ------------------------------------------------------------------


def wide_graph(n_nodes=90, features=True):
    """Words that neighbours share; more nodes than are made row by row."""
    rng = np.random.default_rng(3)
    A = sp.csr_array(sp.random_array((n_nodes, n_nodes), density=0.05, rng=rng))
    kinds = {"near": A, "far": sp.csr_array(A @ A)}
    words = sp.csr_array(rng.poisson(0.3, size=(n_nodes, 40)).astype(float))
    return Graph(kinds, words if features else None)


@pytest.fixture
def sketched(monkeypatch):
    """Lengths are estimated on small graphs too."""
    monkeypatch.setattr(build, "sketch_width", lambda n_nodes, n_columns: lengths.WIDTH)


def products(graph):
    """Columns that the operators of a graph and of its kinds of edges were multiplied with."""
    views = [graph, *(graph.relation(name) for name in graph.relations)]
    return sum(operator_of(view, loops).products for view in views for loops in (True, False))


MANY_HOPS = {
    "one filter": PageRank(0.1, fixed=("strength",)),
    "a learnt one": PageRank(0.1),
    "a sum": SumOfFilters((Identity(), PageRank(0.1, fixed=("strength",)))),
    "kinds of edges": Relations(),
}


def some_labels(n_nodes=90):
    return np.where(np.arange(n_nodes) % 4 == 0, np.arange(n_nodes) % 3, -1)


def assert_lengths_are_kept(model, tmp_path, sketch):
    """The same to the bit after loading, with nothing sent over the edges but label columns."""
    parts = getattr(model.prior_, "parts", (model.prior_,))
    filtered = [part for part in parts if isinstance(part, FilteredFeatures)]
    assert {part.sketch for part in filtered} == {sketch}
    n_columns = sum(part.filter.polynomial().order for part in filtered) * len(model.labelled_)
    model.predict_proba()  # which finds the lengths
    again = round_trip(model, tmp_path / "m", include_graph=True)
    assert products(again.graph_) == 0  # reading alone needs none
    assert_same(model, again, None)
    assert products(again.graph_) == n_columns
    # Nor are they lost when the model that was read is saved.
    twice = round_trip(again, tmp_path / "twice", include_graph=True)
    assert_same(model, twice, None)
    assert products(twice.graph_) == n_columns


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("filter", MANY_HOPS.values(), ids=list(MANY_HOPS))
@pytest.mark.parametrize("features", [True, False], ids=["features", "no features"])
def test_lengths_go_with_the_graph(filter, features, sketched, tmp_path):
    model = GraphGPClassifier(filter=filter, engine=Dual(max_iter=5))
    model.fit(wide_graph(features=features), some_labels())
    assert_lengths_are_kept(model, tmp_path, lengths.WIDTH)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("filter", MANY_HOPS.values(), ids=list(MANY_HOPS))
def test_exact_lengths_go_with_the_graph_too(filter, tmp_path):
    model = GraphGPClassifier(filter=filter, engine=Dual(max_iter=5)).fit(
        wide_graph(), some_labels()
    )
    assert_lengths_are_kept(model, tmp_path, 0)


def test_lengths_on_a_graph_that_is_large_enough_to_estimate_them(tmp_path):
    rng = np.random.default_rng(4)
    A = sp.csr_array(sp.random_array((9000, 9000), density=0.0005, rng=rng))
    words = sp.csr_array(sp.random_array((9000, 2000), density=0.003, rng=rng))
    words.data[:] = 1.0
    model = GraphGPClassifier(filter=MANY_HOPS["a sum"], engine=Dual(max_iter=1))
    y = np.where(np.arange(9000) % 600 == 0, np.arange(9000) // 600 % 3, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Graph({"one kind": A}, words), y)
    assert_lengths_are_kept(model, tmp_path, lengths.WIDTH)


@pytest.mark.parametrize("wrong", [np.zeros(0), np.full(90, np.nan), np.ones((90, 3))])
def test_lengths_that_cannot_be_those_of_the_graph_are_refused(wrong, tmp_path, monkeypatch):
    model = GraphGPClassifier(filter=MANY_HOPS["one filter"]).fit(wide_graph(), some_labels())
    monkeypatch.setattr(Domain, "known_scale", lambda domain, polynomial, width: wrong)
    model.save(tmp_path / "m", include_graph=True)
    monkeypatch.undo()
    told = r"lengths( of filtered rows are of another graph|\.0 has NaN)"
    with pytest.raises(ValueError, match=told):
        nodegp.load(tmp_path / "m")


def test_without_the_graph_lengths_stay_at_home_and_come_out_the_same(sketched, tmp_path):
    model = GraphGPClassifier(filter=MANY_HOPS["one filter"]).fit(wide_graph(), some_labels())
    before = model.predict_latent()
    again = round_trip(model, tmp_path / "m")
    assert not any(name.startswith("lengths") for name in load_file(tmp_path / "m"))
    for a, b in zip(again.predict_latent(wide_graph()), before, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_a_model_that_was_not_asked_has_no_lengths_to_keep(sketched, tmp_path):
    # Calibration asks: it looks at all nodes to see how common classes are.
    model = GraphGPClassifier(filter=MANY_HOPS["one filter"], calibrate=False)
    again = round_trip(model.fit(wide_graph(), some_labels()), tmp_path / "m", include_graph=True)
    assert not any(name.startswith("lengths") for name in load_file(tmp_path / "m"))
    assert_same(model, again, None)


# --- edges that follow from the features, and links ---------------------------------------------


VIEWS = Views(
    (
        View("far", PageRank(0.1, fixed=("strength",))),
        View("alike", PageRank(0.1, fixed=("strength",)), ALIKE),
        View("both", PageRank(0.1, fixed=("strength",)), BOTH),
        View("links", Propagation(1, self_loops=False, centred=True), LINKS),
    )
)
OF_VIEWS = {"filter": VIEWS, "kernel": (Cosine(0.5, fixed=("variance",)),) * 4}


def with_views(graph=SPARSE):
    return GraphGPClassifier(**OF_VIEWS).fit(graph, Y)


def test_nodes_alike_are_kept_with_the_graph(tmp_path):
    model = with_views()
    again = round_trip(model, tmp_path / "m", include_graph=True)
    arrays = load_file(tmp_path / "m")
    assert any(name.startswith("alike") for name in arrays)
    found, kept = (each.model_.domain().relation(ALIKE).graph for each in (model, again))
    assert (found.adjacency != kept.adjacency).nnz == 0
    for graph in (None, grown(SPARSE)):
        # Inner products with labels are kept from the fit, and summed in another order.
        for a, b in zip(model.predict_latent(graph), again.predict_latent(graph), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
    # Nothing of the kind where no view looks along them, or there is no graph to go with.
    round_trip(model, tmp_path / "bare")
    round_trip(one_hop().fit(SPARSE, Y), tmp_path / "plain", include_graph=True)
    for name in ("bare", "plain"):
        assert not any(key.startswith("alike") for key in load_file(tmp_path / name))


def test_nodes_alike_of_another_graph_are_refused(tmp_path):
    round_trip(with_views(), tmp_path / "m", include_graph=True)

    def change(description):
        description["alike"] = description["model"]["fields"]["graph"]["fields"]["features"]

    rewritten(tmp_path / "m", change)
    with pytest.raises(ModelFileError, match="cannot be read"):
        nodegp.load(tmp_path / "m")


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_model_without_its_graph_knows_its_nodes_again(has_ids, sparse, tmp_path):
    """By names, or by features: links that nodes have in common are counted as before."""
    X = COUNTS if sparse else COUNTS.toarray()
    graph = Graph(GRAPH.adjacency, X, SPARSE.ids if has_ids else None)
    model = with_views(graph)
    again = round_trip(model, tmp_path / "m")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(model, again, graph)
        assert_same(model, again, grown(graph))
        assert_same(model, round_trip(again, tmp_path / "twice"), graph)


def test_a_stranger_is_told_so_before_and_after(tmp_path):
    model = with_views()
    again = round_trip(model, tmp_path / "m")
    turned = SPARSE.subgraph(np.arange(24)[::-1])
    smaller = SPARSE.subgraph(np.arange(20))
    said = r"does not begin with the 24 nodes .* links are left out here\. Keep those nodes first"
    for stranger in (turned, smaller):
        answers = []
        for each in (model, again):
            with pytest.warns(UserWarning, match=said):
                answers.append(each.predict_proba(stranger))
        np.testing.assert_array_equal(*answers)
        assert np.isfinite(answers[0]).all()


# --- the file ---------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.nodegp"
    GraphGPClassifier(kernel=FIXED_RBF).fit(GRAPH, STRINGS).save(path, include_graph=True)
    return path


def test_the_file_is_arrays_and_json(saved, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for owner, name in ((torch, "load"), (np, "load")):
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    nodegp.load(saved)
    assert all(array.dtype != object for array in load_file(saved).values())
    header = json.loads(
        saved.read_bytes()[8 : 8 + int.from_bytes(saved.read_bytes()[:8], "little")]
    )
    description = json.loads(header["__metadata__"]["nodegp"])
    assert description["format"] == "nodegp-model"
    assert description["version"] == 5


ODD_NAMES = ["", "a", "é", "日本", "😀", "two\nlines", 'q"uote', "\x00\x01", "\ud800"]


@pytest.mark.parametrize("dtype", [object, str])
def test_names_of_every_kind_are_kept(tmp_path, dtype):
    names = [f"{name}{n}" for n in range(-(-GRAPH.n_nodes // 9)) for name in ODD_NAMES]
    ids = np.array(names[: GRAPH.n_nodes], dtype=dtype)
    graph = Graph(GRAPH.adjacency, GRAPH.features, ids)
    model = GraphGPClassifier(kernel=FIXED_RBF).fit(graph, STRINGS)
    again = round_trip(model, tmp_path / "m", include_graph=True)
    assert again.graph_.ids.tolist() == ids.tolist()
    assert (again.graph_.ids.dtype == object) == (dtype is object)


def test_many_names_do_not_crowd_the_description(tmp_path):
    """The header of a safetensors file has a limit, which a million ids as JSON would pass."""
    ids = [f"{n:0>5000}" for n in range(GRAPH.n_nodes)]
    path = tmp_path / "m"
    model = GraphGPClassifier(kernel=FIXED_RBF).fit(Graph(GRAPH.adjacency, GRAPH.features, ids), Y)
    assert round_trip(model, path, include_graph=True).graph_.ids.tolist() == ids
    assert int.from_bytes(path.read_bytes()[:8], "little") < 20_000


def test_names_in_the_description_are_read_too(saved):
    """Where text and numbers are mixed they are lists there."""
    before = nodegp.load(saved)

    def change(description):
        names = before.classes_.tolist()
        description["model"]["fields"]["classes"] = {"strings": names, "object": False}

    rewritten(saved, change)
    again = nodegp.load(saved)
    np.testing.assert_array_equal(again.classes_, before.classes_)
    np.testing.assert_array_equal(again.predict(), before.predict())


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.01, 0.3, 0.9, 0.999])
def test_a_file_cut_short(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelFileError, match=r"model\.nodegp"):
        nodegp.load(saved)


@pytest.mark.parametrize(
    "content", [b"", b"hello\n", b'{"a": 1}', np.random.default_rng(0).bytes(4000)]
)
def test_a_foreign_file(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"foreign.*not a nodegp model"):
        nodegp.load(path)


@pytest.mark.parametrize("metadata", [None, {"nodegp": "{}"}, {"nodegp": "not json"}])
def test_another_safetensors_file(tmp_path, metadata):
    path = tmp_path / "other"
    save_file({"weights": np.ones(3)}, path, metadata=metadata)
    with pytest.raises(ModelFileError, match=r"not a nodegp model|damaged"):
        nodegp.load(path)


def rewritten(path, change):
    """The file with its description changed, and the checksum that belongs to it."""
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    description = json.loads(json.loads(whole[8 : 8 + size])["__metadata__"]["nodegp"])
    del description["checksum"]
    change(description)
    description["checksum"] = checksum(description, load_file(path))
    save_file(load_file(path), path, metadata={"nodegp": json.dumps(description)})


def test_a_rewritten_file_is_read(saved):
    before = nodegp.load(saved).predict_proba()
    rewritten(saved, lambda description: None)
    np.testing.assert_array_equal(nodegp.load(saved).predict_proba(), before)


def test_a_newer_version(saved):
    rewritten(saved, lambda description: description.update(version=99))
    with pytest.raises(ModelFileError, match=r"version 99.*Update nodegp"):
        nodegp.load(saved)


def test_the_first_version_is_refused_with_what_to_do(tmp_path):
    """A file as nodegp 0.1 wrote it, down to the checksum."""
    description = {
        "format": "nodegp-model",
        "version": 1,
        "estimator": "GraphGPClassifier",
        "parameters": {"preprocessing": "auto", "device": None},
        "components": {"kernel_": FIXED_RBF.to_dict()},
        "scalars": {"elbo_": -13.2, "table_": False},
        "arrays": {"labelled_": {"array": "labelled_"}},
    }
    arrays = {"labelled_": np.arange(3), "posterior.mean": np.ones((2, 3))}
    description["checksum"] = checksum(description, arrays)
    save_file(arrays, tmp_path / "old.nodegp", metadata={"nodegp": json.dumps(description)})
    with pytest.raises(ModelFileError) as caught:
        nodegp.load(tmp_path / "old.nodegp")
    assert str(caught.value) == (
        f"{str(tmp_path / 'old.nodegp')!r} has format version 1, of an earlier nodegp, which this "
        "version does not read; fit the model again and save it."
    )


@pytest.mark.parametrize("version", [2, 3])
def test_so_is_every_version_before_this_one(saved, version):
    rewritten(saved, lambda description: description.update(version=version))
    with pytest.raises(ModelFileError) as caught:
        nodegp.load(saved)
    assert str(caught.value) == (
        f"{str(saved)!r} has format version {version}, of an earlier nodegp, which this version "
        "does not read; fit the model again and save it."
    )


def part(description, *names):
    """A part of the fitted model as the description has it."""
    here = description["model"]
    for name in names:
        here = here["fields"][name]
    return here


DAMAGES = {
    "no version": lambda d: d.pop("version"),
    "no model": lambda d: d.pop("model"),
    "no parameters": lambda d: d.pop("parameters"),
    "no prior": lambda d: part(d, "posterior")["fields"].pop("prior"),
    "no preprocessor": lambda d: part(d)["fields"].pop("preprocessor"),
    "odd version": lambda d: d.update(version="one"),
    "odd estimator": lambda d: d.update(estimator="Nonsense"),
    "odd model": lambda d: d.update(model=part(d, "observations")),
    "odd value": lambda d: part(d, "posterior").update(type="Nonsense"),
    "odd field": lambda d: part(d, "posterior")["fields"].update(nonsense=1),
    "odd kind": lambda d: part(d)["fields"].update(classes={"nonsense": 1}),
    "odd kernel": lambda d: part(d, "posterior", "prior")["component"]["kernel"].update(
        type="Nonsense"
    ),
    "odd setting": lambda d: part(d, "posterior", "prior")["component"]["kernel"].update(
        nonsense=1
    ),
    "odd marks": lambda d: part(d)["fields"].update(known_by=3),
    "lost array": lambda d: part(d, "observations", "nodes").update(array="nonsense"),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_damaged_description(saved, damage):
    rewritten(saved, DAMAGES[damage])
    with pytest.raises(ModelFileError, match=r"model\.nodegp"):
        nodegp.load(saved)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        nodegp.load(tmp_path / "nothing-here")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        GraphGPClassifier(kernel=FIXED_RBF).fit(GRAPH, Y).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_saving_over_an_old_file_replaces_it(saved):
    model = GraphGPClassifier(kernel=FIXED_RBF, likelihood="softmax").fit(GRAPH, Y)
    model.save(str(saved))
    assert_same(model, nodegp.load(str(saved)), GRAPH)


@pytest.mark.parametrize("kind", [GraphGPClassifier, GraphGPRegressor])
def test_an_unfitted_model_cannot_be_saved(kind, tmp_path):
    with pytest.raises((ValueError, NotFittedError), match=r"[Ff]it"):
        kind().save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist(tmp_path):
    model = GraphGPClassifier(kernel=FIXED_RBF).fit(GRAPH, Y)
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "no" / "such" / "folder")
