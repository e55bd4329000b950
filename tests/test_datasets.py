"""Golden facts of the data sets, the restricted unpickler, and what a Dataset promises."""

from __future__ import annotations

import os
import pickle
import zipfile
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from nodegp import plugins
from nodegp.datasets import Dataset, load_cora, load_dataset
from nodegp.datasets.papers import make_papers
from nodegp.graph import Graph
from nodegp_paper.datasets import load_planetoid, random_split
from nodegp_paper.datasets import planetoid as planetoid_module
from packages import run_code

needs_files = pytest.mark.skipif(
    not os.environ.get("NODEGP_DATA"),
    reason="set NODEGP_DATA to a folder with the 24 Planetoid files ind.cora.x ... to run this",
)

# nodes, edges, features, non-zeros, class sizes, split sizes, isolated, largest component
FACTS = {
    "cora": (
        (2708, 5278, 1433, 49216),
        (351, 217, 418, 818, 426, 298, 180),
        (140, 500, 1000),
        0,
        2485,
    ),
    "citeseer": (
        (3327, 4552, 3703, 105165),
        (249, 590, 668, 701, 596, 508),
        (120, 500, 1000),
        48,
        2120,
    ),
    "pubmed": ((19717, 44324, 500, 988031), (4103, 7739, 7875), (60, 500, 1000), 0, 19717),
}


def load(name, source):
    return load_cora() if source == "bundled" else load_planetoid(name)


@pytest.mark.parametrize(
    ("name", "source"),
    [("cora", "bundled")] + [pytest.param(name, "planetoid", marks=needs_files) for name in FACTS],
)
def test_golden_facts(name, source):
    data = load(name, source)
    (n_nodes, n_edges, n_features, nonzeros), class_sizes, split_sizes, isolated, largest = FACTS[
        name
    ]
    graph, adjacency = data.graph, data.graph.adjacency
    assert data.name == name
    assert (graph.n_nodes, graph.n_edges, graph.n_features) == (n_nodes, n_edges, n_features)
    assert graph.features.nnz == nonzeros
    assert np.all(graph.features.data != 0)
    assert np.bincount(data.y[data.y >= 0]).tolist() == list(class_sizes)
    assert len(data.class_names) == data.n_classes == len(class_sizes)
    assert len(set(data.class_names)) == data.n_classes

    assert (adjacency != adjacency.T).nnz == 0
    assert adjacency.diagonal().sum() == 0
    assert np.all(adjacency.data == 1)
    assert np.sum(graph.degrees == 0) == isolated
    _, component = connected_components(adjacency, directed=False)
    assert np.bincount(component).max() == largest

    assert tuple(len(data.splits[k]) for k in ("train", "val", "test")) == split_sizes
    for a, b in combinations(data.splits.values(), 2):
        assert not set(a.tolist()) & set(b.tolist())
    train_y = data.y[data.splits["train"]]
    assert np.all(np.bincount(train_y, minlength=data.n_classes) == 20)
    for nodes in data.splits.values():
        assert np.all(data.y[nodes] >= 0)
        assert len(np.unique(nodes)) == len(nodes)


@needs_files
def test_bundled_cora_is_the_planetoid_cora():
    ours, theirs = load_cora(), load_planetoid("cora")
    for a, b in (
        (ours.graph.features, theirs.graph.features),
        (ours.graph.adjacency, theirs.graph.adjacency),
    ):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        assert np.array_equal(a.indptr, b.indptr)
        assert np.array_equal(a.indices, b.indices)
        assert np.array_equal(a.data, b.data)
    assert np.array_equal(ours.y, theirs.y)
    assert ours.class_names == theirs.class_names
    assert ours.splits.keys() == theirs.splits.keys()
    for name in ours.splits:
        assert np.array_equal(ours.splits[name], theirs.splits[name])


@needs_files
def test_citeseer_nodes_without_a_row():
    data = load_dataset("citeseer")
    unlabelled = np.flatnonzero(data.y == -1)
    assert len(unlabelled) == 15
    assert not np.isin(unlabelled, data.splits["test"]).any()
    assert data.graph.features[unlabelled].nnz == 0
    assert unlabelled.min() > data.splits["test"].min()


@needs_files
def test_features_as_published():
    assert set(load_dataset("citeseer").graph.features.data) == {1.0}
    pubmed = load_dataset("PubMed").graph.features  # TF-IDF already
    assert pubmed.data.min() > 0
    assert 1 < pubmed.data.max() < 1.5


@needs_files
def test_cora_with_a_folder_given_reads_the_planetoid_files():
    assert load_dataset("cora", os.environ["NODEGP_DATA"]).graph.ids is None


def test_bundled_cora_names_papers_and_classes():
    data = load_dataset("Cora")
    assert data.graph.ids[0] == 1110563
    assert len(np.unique(data.graph.ids)) == 2708
    assert data.class_names[0] == "Theory"
    assert data.class_names[1] == "Reinforcement Learning"
    assert set(data.graph.features.data) == {1.0}


def test_bundled_cora_holds_plain_arrays():
    path = files("nodegp.datasets").joinpath("cora.npz")
    with path.open("rb") as stream:
        assert zipfile.ZipFile(stream).testzip() is None
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        assert all(stored[name].dtype.kind in "iuU" for name in stored.files)
    assert len(path.read_bytes()) < 120_000


def test_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match=r"'corra'.*cora, citeseer, pubmed"):
        load_dataset("corra")
    with pytest.raises(ValueError, match="cora, citeseer, pubmed"):
        load_planetoid("karate")
    with pytest.raises(ValueError, match="cora, citeseer, pubmed"):
        load_dataset(None)


def test_a_package_adds_data_sets_by_an_entry_point(monkeypatch, tmp_path):
    toy = Dataset("toy", Graph(sp.eye_array(2)), np.array([0, 1]), {}, ("a", "b"))
    folders = []

    def load_toy(data_dir):
        folders.append(data_dir)
        return toy

    class Entry:
        name = value = "toy"

        def load(self):
            return {"toy": load_toy}

    entries = {"nodegp.datasets": [Entry()]}
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries.get(group, []))
    assert load_dataset("Toy") is toy
    assert load_dataset("toy", tmp_path) is toy
    assert folders == [None, tmp_path]
    assert load_dataset("cora").graph.n_nodes == 2708
    with pytest.raises(ValueError, match=r"'citeseer'; choose one of cora, toy\."):
        load_dataset("citeseer")
    with pytest.raises(ValueError, match="read from no folder; leave out data_dir"):
        load_dataset("cora", tmp_path)


def test_loading_needs_neither_torch_nor_scikit_learn():
    code = (
        "import sys, nodegp.datasets as d; d.load_dataset('cora');"
        "assert not {'torch', 'sklearn'} & set(sys.modules)"
    )
    run_code(code)


# --- the Planetoid reader ---


def test_missing_files_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("NODEGP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"NODEGP_DATA.*kimiyoung/planetoid and tkipf/gcn"):
        load_planetoid("citeseer")
    with pytest.raises(FileNotFoundError, match=r"lacks ind\.citeseer\.x"):
        load_dataset("citeseer", tmp_path)
    monkeypatch.setenv("NODEGP_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"which NODEGP_DATA names, lacks ind\.pubmed\.x"):
        load_dataset("pubmed")


def test_changed_file_is_refused(tmp_path):
    for part in planetoid_module.PARTS:
        (tmp_path / f"ind.pubmed.{part}").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"not the published file.*SHA-256"):
        load_dataset("pubmed", tmp_path)


def test_every_file_has_a_checksum():
    expected = {f"ind.{name}.{part}" for name in FACTS for part in planetoid_module.PARTS}
    assert set(planetoid_module.SHA256) == expected
    assert len(set(planetoid_module.SHA256.values())) == 24


class Malicious:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("wrap", [lambda bad: bad, lambda bad: {0: [1, bad]}])
def test_malicious_pickle_is_refused_and_not_executed(tmp_path, protocol, wrap):
    target = tmp_path / "executed"
    for bad in (
        Malicious(os.mkdir, str(target)),
        Malicious(eval, f"__import__('os').mkdir({str(target)!r})"),
        Malicious(getattr, "text", "upper"),
    ):
        content = pickle.dumps(wrap(bad), protocol=protocol)
        with pytest.raises(planetoid_module.UnsafePickle, match="not loaded"):
            planetoid_module.unpickle(content, "ind.cora.x")
        assert not target.exists()
    # the same pickle does harm to the ordinary unpickler, so the test tests something
    pickle.loads(pickle.dumps(Malicious(os.mkdir, str(target)), protocol=protocol))
    assert target.exists()


@pytest.mark.parametrize(
    "name",
    ["numpy.load", "numpy.core.multiarray.fromfile", "scipy.sparse.csr.np", "__builtin__.eval"],
)
def test_other_names_of_allowed_modules_are_refused(name):
    module, _, attribute = name.rpartition(".")
    with pytest.raises(planetoid_module.UnsafePickle, match=name):
        planetoid_module.unpickle(f"c{module}\n{attribute}\n.".encode())


# --- what a Dataset promises ---


@pytest.fixture(scope="module")
def cora():
    return load_cora()


def test_labels_of_some_splits(cora):
    train, both = cora.labels("train"), cora.labels("train", "val")
    assert train.shape == (2708,)
    assert np.sum(train >= 0) == 140
    assert np.sum(both >= 0) == 640
    assert np.array_equal(both[:640], cora.y[:640])
    with pytest.raises(ValueError, match=r"'valid'.*'train', 'val', 'test'"):
        cora.labels("valid")
    with pytest.raises(ValueError, match="at least one split"):
        cora.labels()
    train[:] = 0  # a copy: the data set does not change
    assert np.array_equal(cora.labels("val"), load_cora().labels("val"))


def test_random_split_stays_clear_of_the_public_test_set(cora):
    for seed in range(5):
        split = random_split(cora, 20, seed)
        assert np.bincount(cora.y[split["train"]]).tolist() == [20] * 7
        assert len(split["test"]) == 1000
        assert not set(split["train"].tolist()) & set(split["test"].tolist())
        for nodes in split.values():
            assert not np.isin(nodes, cora.splits["test"]).any()


def test_random_split_follows_its_seed(cora):
    a, b, c = (random_split(cora, 20, seed) for seed in (1, 1, 2))
    assert np.array_equal(a["train"], b["train"])
    assert np.array_equal(a["test"], b["test"])
    assert not np.array_equal(a["train"], c["train"])


def test_random_split_options(cora):
    assert len(random_split(cora, 5, 0, n_test=10)["test"]) == 10
    everything = random_split(cora, 5, 0, exclude=None, n_test=10**6)
    assert len(everything["train"]) + len(everything["test"]) == 2708
    with pytest.raises(ValueError, match="fewer than per_class=500"):
        random_split(cora, 500, 0)
    with pytest.raises(ValueError, match="per_class is 0"):
        random_split(cora, 0, 0)
    with pytest.raises(ValueError, match="no split named"):
        random_split(cora, 5, 0, exclude="tset")


def test_random_split_with_validation_nodes_leaves_the_others_as_they_are(cora):
    plain, more = random_split(cora, 20, 3), random_split(cora, 20, 3, n_val=500)
    assert set(plain) == {"train", "test"}
    for name, nodes in plain.items():
        np.testing.assert_array_equal(more[name], nodes)
    assert len(more["val"]) == len(set(more["val"].tolist())) == 500
    taken = np.concatenate([plain["train"], plain["test"], cora.splits["test"]])
    assert not np.isin(more["val"], taken).any()
    assert (cora.y[more["val"]] >= 0).all()
    with pytest.raises(ValueError, match="fewer than n_val=600"):
        random_split(cora, 20, 3, n_val=600)


def test_random_split_never_draws_unlabelled_nodes():
    y = np.array([0, 0, 0, 1, 1, 1, -1, -1])
    data = Dataset("toy", Graph(sp.eye_array(8)), y, {"test": np.array([0])}, ("a", "b"))
    for seed in range(10):
        split = random_split(data, 1, seed)
        assert sorted([*split["train"], *split["test"]]) == [1, 2, 3, 4, 5]


def test_dataset_is_checked_and_frozen(cora):
    with pytest.raises(AttributeError):
        cora.name = "other"
    with pytest.raises(ValueError, match="one label per node"):
        Dataset("toy", Graph(sp.eye_array(3)), np.zeros(2, int), {}, ("a",))
    with pytest.raises(ValueError, match="1 class names"):
        Dataset("toy", Graph(sp.eye_array(3)), np.array([0, 1, 0]), {}, ("a",))
    assert "2,708 nodes" in repr(cora)


# --- made-up papers ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_made_up_papers_are_readable_and_mostly_cite_their_own_topic(seed):
    papers, cites, answers = make_papers(seed).values()
    topics = dict(zip(answers["paper"], answers["topic"], strict=True))
    assert list(topics) == papers["paper"]
    assert len(set(papers["title"])) == len(topics) == 300
    assert all(title[0].isupper() and "{" not in title for title in papers["title"])
    labels = {p: t for p, t in zip(papers["paper"], papers["topic"], strict=True) if t is not None}
    assert len(labels) == 40
    assert set(labels.values()) == {"language", "networks", "statistics", "vision"}
    assert labels.items() <= topics.items()
    pairs = list(zip(cites["citing"], cites["cited"], strict=True))
    assert len(set(pairs)) == len(pairs)
    month = dict(zip(papers["paper"], papers["published"], strict=True))
    assert all(month[one] >= month[other] and one != other for one, other in pairs)
    assert 0.6 < np.mean([topics[one] == topics[other] for one, other in pairs]) < 0.8


def test_made_up_papers_follow_their_seed():
    assert make_papers(3) == make_papers(3)
    assert make_papers(3) != make_papers(4)
