"""Models written to a file and read back: the same to the bit, or a clear error."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.numpy import load_file, save_file
from sklearn.exceptions import NotFittedError

import nodegp
from helpers import FIXED_RBF, hide, one_hop, random_graph, smooth_classes, smooth_scores
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.inducing import Points
from nodegp.inference import Adam
from nodegp.kernels import RBF, ArcCosine, Constant, Cosine, Linear, Matern, Polynomial
from nodegp.persistence import ModelFileError, _checksum

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
    for name in ("elbo_", "n_iter_", "converged_", "features_", "kernel_", "likelihood_"):
        assert getattr(model, name) == getattr(again, name)


def round_trip(model, path, **settings):
    model.save(path, **settings)
    return nodegp.load(path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
@pytest.mark.parametrize("inducing", ["labelled", Points(5)], ids=["labelled", "points"])
def test_every_kernel_and_inducing_choice(kernel, inducing, tmp_path):
    model = one_hop(kernel=kernel, inducing=inducing, max_iter=2, random_state=0)
    model.set_params(likelihood="softmax")
    model.fit(GRAPH, Y)
    again = round_trip(model, tmp_path / "m.nodegp")
    assert again.get_params() == model.get_params()
    assert_same(model, again, GRAPH)
    assert_same(model, again, grown(GRAPH))


@pytest.mark.parametrize(
    ("model", "graph", "y"),
    [
        (GraphGPClassifier(FIXED_RBF), GRAPH, STRINGS),
        (GraphGPClassifier(FIXED_RBF, unlabelled=np.int64(-1)), GRAPH, Y),
        (GraphGPClassifier(FIXED_RBF), GRAPH, Y == 0),
        (GraphGPClassifier(FIXED_RBF, calibrate="loo"), GRAPH, Y),
        (GraphGPClassifier(features="tfidf", center=True), SPARSE, Y),
        (GraphGPClassifier(features="l2"), SPARSE, Y),
        (GraphGPClassifier(features="standardise", inducing="points"), SPARSE, Y),
        (GraphGPClassifier(), Graph(GRAPH.adjacency), Y),
        (GraphGPClassifier(FIXED_RBF, filter="identity", dtype="float32"), GRAPH, Y),
        (GraphGPClassifier(FIXED_RBF, engine=Adam(max_iter=20, tol=0)), GRAPH, Y),
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
    model = GraphGPClassifier(FIXED_RBF).fit(X, Y)
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, X[:5])
    np.testing.assert_array_equal(model.predict_proba(), again.predict_proba())


@pytest.mark.parametrize("graph", [GRAPH, SPARSE, Graph(GRAPH.adjacency)])
def test_the_graph_is_kept_on_request(graph, tmp_path):
    model = GraphGPClassifier(Linear()).fit(graph, Y)
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
    model = GraphGPClassifier(kernel, likelihood="softmax").fit(GRAPH, Y)
    assert_same(model, round_trip(model, tmp_path / "m"), GRAPH)


def test_random_streams_are_not_saved(tmp_path):
    model = GraphGPClassifier(FIXED_RBF, random_state=np.random.default_rng(0)).fit(GRAPH, Y)
    assert round_trip(model, tmp_path / "m").random_state is None


# --- the file ---------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.nodegp"
    GraphGPClassifier(FIXED_RBF).fit(GRAPH, STRINGS).save(path, include_graph=True)
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
    assert description["version"] == 1


ODD_NAMES = ["", "a", "é", "日本", "😀", "two\nlines", 'q"uote', "\x00\x01", "\ud800"]


@pytest.mark.parametrize("dtype", [object, str])
def test_names_of_every_kind_are_kept(tmp_path, dtype):
    names = [f"{name}{n}" for n in range(-(-GRAPH.n_nodes // 9)) for name in ODD_NAMES]
    ids = np.array(names[: GRAPH.n_nodes], dtype=dtype)
    graph = Graph(GRAPH.adjacency, GRAPH.features, ids)
    model = GraphGPClassifier(FIXED_RBF).fit(graph, STRINGS)
    again = round_trip(model, tmp_path / "m", include_graph=True)
    assert again.graph_.ids.tolist() == ids.tolist()
    assert (again.graph_.ids.dtype == object) == (dtype is object)


def test_many_names_do_not_crowd_the_description(tmp_path):
    """The header of a safetensors file has a limit, which a million ids as JSON would pass."""
    ids = [f"{n:0>5000}" for n in range(GRAPH.n_nodes)]
    path = tmp_path / "m"
    model = GraphGPClassifier(FIXED_RBF).fit(Graph(GRAPH.adjacency, GRAPH.features, ids), Y)
    assert round_trip(model, path, include_graph=True).graph_.ids.tolist() == ids
    assert int.from_bytes(path.read_bytes()[:8], "little") < 20_000


def test_names_as_the_first_version_wrote_them(saved):
    """Text used to be lists in the description."""
    before = nodegp.load(saved)

    def change(description):
        names = before.classes_.tolist()
        description["arrays"]["classes_"] = {"strings": names, "object": False}

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
    description["checksum"] = _checksum(description, load_file(path))
    save_file(load_file(path), path, metadata={"nodegp": json.dumps(description)})


def test_a_rewritten_file_is_read(saved):
    before = nodegp.load(saved).predict_proba()
    rewritten(saved, lambda description: None)
    np.testing.assert_array_equal(nodegp.load(saved).predict_proba(), before)


def test_a_newer_version(saved):
    rewritten(saved, lambda description: description.update(version=99))
    with pytest.raises(ModelFileError, match=r"version 99.*Update nodegp"):
        nodegp.load(saved)


DAMAGES = {
    "no version": lambda d: d.pop("version"),
    "no components": lambda d: d.pop("components"),
    "no preprocessor": lambda d: d.pop("preprocessor"),
    "odd version": lambda d: d.update(version="one"),
    "odd estimator": lambda d: d.update(estimator="Nonsense"),
    "odd kernel": lambda d: d["components"]["kernel_"].update(type="Nonsense"),
    "odd setting": lambda d: d["components"]["kernel_"].update(nonsense=1),
    "lost array": lambda d: d["arrays"]["labelled_"].update(array="nonsense"),
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
        GraphGPClassifier(FIXED_RBF).fit(GRAPH, Y).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_saving_over_an_old_file_replaces_it(saved):
    model = GraphGPClassifier(FIXED_RBF, likelihood="softmax").fit(GRAPH, Y)
    model.save(str(saved))
    assert_same(model, nodegp.load(str(saved)), GRAPH)


@pytest.mark.parametrize("kind", [GraphGPClassifier, GraphGPRegressor])
def test_an_unfitted_model_cannot_be_saved(kind, tmp_path):
    with pytest.raises((ValueError, NotFittedError), match=r"[Ff]it"):
        kind().save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist(tmp_path):
    model = GraphGPClassifier(FIXED_RBF).fit(GRAPH, Y)
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "no" / "such" / "folder")
