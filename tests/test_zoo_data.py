"""The nine graphs of the zoo: golden facts, where they are looked for, and how they are split."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nodegp.datasets import Dataset, load_dataset
from nodegp.graph import Graph
from nodegp_paper.data import FACTS as LISTED
from nodegp_paper.datasets import (
    ZOO_NAMES,
    capped_split,
    labels_per_class,
    random_split,
    without_small_classes,
)
from nodegp_paper.datasets import zoo as zoo_module
from nodegp_paper.datasets.zoo import ZooFileChanged, ZooFileMissing, load_zoo, zoo_file
from zoo_files import needs_zoo

# Nodes, edges, classes, columns, non-zeros; class sizes; isolated nodes, largest component; and the
# share of edges within a class.
FACTS = {
    "acm": ((3025, 13128, 3, 1870, 253300), (1061, 965, 999), (561, 2006), 0.82),
    "amazon-photo": (
        (7650, 119081, 8, 745, 1979909),
        (369, 1686, 703, 915, 882, 823, 1941, 331),
        (115, 7487),
        0.83,
    ),
    "blogcatalog": (
        (5196, 171743, 6, 8189, 369435),
        (885, 777, 921, 858, 892, 863),
        (0, 5196),
        0.40,
    ),
    "chameleon": ((2277, 31371, 5, 3132, 49057), (456, 455, 456, 455, 455), (0, 2277), 0.23),
    "citeseer-full": (
        (4230, 5337, 6, 602, 19391),
        (628, 740, 778, 831, 558, 695),
        (0, 1681),
        0.95,
    ),
    "cornell": ((183, 277, 5, 1702, 15266), (33, 1, 18, 101, 30), (0, 183), 0.30),
    "dblp": ((17716, 52867, 4, 1639, 92192), (7920, 5645, 1982, 2169), (0, 16191), 0.83),
    "polblogs": ((1490, 16715, 2, 0, 0), (758, 732), (266, 1222), 0.91),
    "wisconsin": ((251, 450, 5, 1703, 24057), (10, 70, 118, 32, 21), (0, 251), 0.18),
}
BINARY = ("acm", "amazon-photo", "chameleon", "cornell", "wisconsin")


@needs_zoo
@pytest.mark.parametrize("name", ZOO_NAMES)
def test_golden_facts(name):
    counts, class_sizes, (isolated, largest), within = FACTS[name]
    data = load_dataset(name.upper())
    graph = data.graph
    nonzeros = 0 if graph.features is None else graph.features.nnz
    facts = (graph.n_nodes, graph.n_edges, data.n_classes, graph.n_features)
    assert (*facts, nonzeros) == counts
    assert LISTED[name] == facts
    assert tuple(np.bincount(data.y)) == class_sizes
    assert data.splits == {}
    assert int((graph.degrees == 0).sum()) == isolated
    assert len(graph.largest_component()) == largest
    ends = graph.adjacency.tocoo()
    assert set(ends.data.tolist()) == {1.0}
    assert (data.y[ends.row] == data.y[ends.col]).mean() == pytest.approx(within, abs=0.005)
    assert (graph.features is None) == (name == "polblogs")
    if graph.features is not None:
        assert (set(graph.features.data.tolist()) == {1.0}) == (name in BINARY)


# --- where they are looked for --------------------------------------------------------------------


def stored(monkeypatch, path, **changes) -> None:
    """A file of four nodes that is known as acm."""
    arrays = {
        "edges": np.array([[0, 1], [2, 1]]),
        "n_nodes": np.array(4),
        "labels": np.array([2, 5, 5, 2]),
        "features_data": np.array([1.0]),
        "features_indices": np.array([1, 0, 2]),
        "features_indptr": np.array([0, 1, 3, 3, 3]),
        "features_shape": np.array([4, 3]),
    } | changes
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(zoo_module.SHA256, "acm", digest)


@pytest.mark.parametrize("place", ["data/acm.npz", "data/zoo/acm.npz", "zoo/acm.npz"])
@pytest.mark.parametrize("by", ["data_dir", "variable"])
def test_a_graph_is_found_in_the_folder_or_in_zoo_inside_or_beside_it(
    place, by, tmp_path, monkeypatch
):
    stored(monkeypatch, tmp_path / place)
    folder = tmp_path / "data"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("NODEGP_DATA", str(folder) if by == "variable" else "elsewhere")
    data = load_dataset("acm", folder if by == "data_dir" else None)
    assert zoo_file("acm", folder) == tmp_path / place
    assert data.y.tolist() == [0, 1, 1, 0]
    assert data.class_names == ("class 2", "class 5")
    links = data.graph.adjacency.toarray()
    np.testing.assert_array_equal(links, [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    one_value = [[0, 1, 0], [1, 0, 1], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_array_equal(data.graph.features.toarray(), one_value)


def test_values_and_missing_features_are_as_stored(tmp_path, monkeypatch):
    path = tmp_path / "acm.npz"
    stored(monkeypatch, path, features_data=np.array([0.5, 0.0, 2.0]))
    features = load_zoo("acm", tmp_path).graph.features
    np.testing.assert_array_equal(
        features.toarray(), [[0, 0.5, 0], [0, 0, 2], [0, 0, 0], [0, 0, 0]]
    )
    assert features.nnz == 2
    stored(monkeypatch, path, features_data=None)
    assert load_zoo("acm", tmp_path).graph.features is None


def test_what_is_not_there_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("NODEGP_DATA", raising=False)
    for folder in (None, tmp_path):
        with pytest.raises(ZooFileMissing) as error:
            load_dataset("dblp", folder)
        text = str(error.value)
        assert "'dblp'" in text
        assert "put dblp.npz into a folder" in text
        assert "NODEGP_DATA" in text
        assert text.endswith(".")
        assert text.count(". ") == 0  # one sentence
    assert repr(str(tmp_path / "zoo")) in text
    with pytest.raises(ValueError, match="no such graph as 'karate'"):
        load_zoo("karate")


def test_another_file_of_the_same_name_is_refused(tmp_path, monkeypatch):
    stored(monkeypatch, tmp_path / "acm.npz")
    shutil.copy(tmp_path / "acm.npz", tmp_path / "dblp.npz")
    with pytest.raises(ZooFileChanged, match=r"dblp\.npz' is not the file .* SHA-256"):
        load_dataset("dblp", tmp_path)


# --- how they are split ---------------------------------------------------------------------------


@st.composite
def datasets(draw):
    """Classes of any sizes, nodes without a label, and perhaps public test nodes."""
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=5))
    y = np.repeat(np.arange(-1, len(sizes)), [draw(st.integers(0, 5)), *sizes])
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    rng.shuffle(y)
    splits = {}
    if draw(st.booleans()):
        # Not so many of a class that fewer than two of six are left.
        kept = [np.flatnonzero(y == c)[:4] for c in range(len(sizes))]
        others = np.setdiff1d(np.arange(len(y)), np.concatenate(kept))
        splits["test"] = np.sort(rng.choice(others, len(others) // 2, replace=False))
    names = tuple("abcde"[: len(sizes)])
    return Dataset("toy", Graph(sp.csr_array((len(y), len(y)))), y.astype(np.int64), splits, names)


@given(datasets(), st.integers(1, 20), st.integers(0, 50), st.integers(0, 40))
def test_the_split_rule(whole, per_class, seed, n_val):
    data = without_small_classes(whole)
    sizes = {c: int((whole.y == c).sum()) for c in range(whole.n_classes)}
    large = [c for c, size in sizes.items() if size >= 6]
    assert data.class_names == tuple(whole.class_names[c] for c in large)
    expected = [large.index(c) if c in large else -1 for c in whole.y.tolist()]
    assert data.y.tolist() == expected
    if not large:
        return
    public = set(whole.splits.get("test", np.empty(0)).tolist())
    plain, more = capped_split(data, per_class, seed), capped_split(data, per_class, seed, n_val)
    np.testing.assert_array_equal(plain["train"], more["train"])
    free = {node for node in np.flatnonzero(data.y >= 0).tolist() if node not in public}
    train, test, val = (set(more.get(part, ())) for part in ("train", "test", "val"))
    for c in range(len(large)):
        to_draw_from = [node for node in free if data.y[node] == c]
        drawn = [node for node in train if data.y[node] == c]
        assert len(drawn) == min(per_class, len(to_draw_from) // 2) >= 1
    # Everything else is scored, but for the validation nodes.
    assert set(plain["test"]) == free - train
    assert test | val == free - train
    assert not test & val
    assert len(val) == min(n_val, len(free - train) // 2)
    assert sum(labels_per_class(data, per_class)) == len(train)


def test_the_split_follows_its_seed_and_is_that_of_random_split():
    y = np.repeat(np.arange(2), [12, 40])
    data = Dataset("toy", Graph(sp.csr_array((52, 52))), y, {}, ("a", "b"))
    assert labels_per_class(data, 10) == [6, 10]
    a, b = capped_split(data, 10, 3), capped_split(data, 10, 4)
    assert a["train"].tolist() != b["train"].tolist()
    again = random_split(data, [6, 10], 3, exclude=None)
    np.testing.assert_array_equal(a["train"], again["train"])
    np.testing.assert_array_equal(a["test"], again["test"])
    with pytest.raises(ValueError, match="per_class has 1 numbers and there are 2 classes"):
        random_split(data, [6], 3, exclude=None)


@needs_zoo
def test_cornell_has_a_class_of_one_that_is_dropped():
    data = without_small_classes(load_dataset("cornell"))
    assert data.n_classes == 4
    assert (data.y < 0).sum() == 1
    assert data.graph.n_nodes == 183
    assert labels_per_class(data, 20) == [16, 9, 20, 15]


def test_the_public_test_nodes_of_cora_are_left_alone():
    data = without_small_classes(load_dataset("cora"))
    split = capped_split(data, 20, 0, 500)
    assert [len(split[part]) for part in ("train", "val", "test")] == [140, 500, 1068]
    for nodes in split.values():
        assert not np.intersect1d(nodes, data.splits["test"]).size
