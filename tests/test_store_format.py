"""Stored graphs: what is read back is what was written, and what is damaged is refused by name."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import nodegp
from nodegp import Graph
from nodegp.store import StoreError, index_dtype, open_store, store_graph
from nodegp.store.keys import Texts, integer_keys, padded, same_texts, text_keys
from nodegp.store.lookup import IdIndex, write_index
from stores import assert_same


def random_graph(seed=0, n_nodes=60, weighted=True, features="dense", ids="text") -> Graph:
    rng = np.random.default_rng(seed)
    adjacency = sp.random_array((n_nodes, n_nodes), density=0.1, rng=rng, format="csr")
    if not weighted:
        adjacency.data[:] = 1.0
    matrix = {
        None: None,
        "dense": rng.standard_normal((n_nodes, 4)).astype(np.float32),
        "double": rng.standard_normal((n_nodes, 3)),
        "sparse": sp.random_array((n_nodes, 9), density=0.3, rng=rng, format="csr"),
    }[features]
    names = {
        None: None,
        "text": [f"node-{n * 7}é" for n in rng.permutation(n_nodes)],
        "near": rng.permutation(n_nodes) - 5,
        "far": rng.integers(-(2**62), 2**62, n_nodes),
    }[ids]
    return Graph(adjacency, matrix, names)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("features", [None, "dense", "double", "sparse"])
@pytest.mark.parametrize("ids", [None, "text", "near", "far"])
def test_a_stored_graph_is_the_graph(tmp_path, weighted, features, ids):
    graph = random_graph(1, weighted=weighted, features=features, ids=ids)
    store = store_graph(graph, tmp_path / "store", part_entries=50)
    assert store.n_parts > 3
    assert store.is_weighted == weighted
    assert_same(store, graph)
    assert_same(nodegp.open_store(tmp_path / "store", verify=True), graph)
    nodes = np.array([7, 0, 59, 7, 23])
    if features is not None:
        rows = store.features_at(nodes)
        expected = graph.features[nodes]
        assert (abs(rows - expected) > 0).sum() == 0
        assert store.features_at([]).shape == (0, store.n_features)
    if ids is not None:
        assert graph.ids is not None
        chosen = graph.ids[nodes].tolist()
        assert np.array_equal(store.positions(chosen), nodes)
        assert store.ids_at(nodes).tolist() == chosen
        for graph_or_store in (graph, store):
            with pytest.raises(ValueError, match=r"2 ids are not in the graph, first: \['no"):
                graph_or_store.positions(["nobody", *chosen, 2**70])


def test_numbers_are_those_of_a_graph(tmp_path):
    graph = random_graph()
    store = store_graph(graph, tmp_path / "store", part_entries=50)
    assert graph.ids is not None
    mask = np.arange(60) % 7 == 0
    for nodes in (None, [3, 1], mask, graph.ids[[4, 2]].tolist(), "node-7é"):
        assert np.array_equal(store.numbers(nodes), graph.numbers(nodes))
    for bad in ([60], [0.5], [True], ["nobody"]):
        with pytest.raises(ValueError, match=r"node|ids") as mine:
            store.numbers(bad)
        with pytest.raises(ValueError, match=r"node|ids") as theirs:
            graph.numbers(bad)
        assert str(mine.value) == str(theirs.value)
    plain = store_graph(random_graph(ids=None), tmp_path / "plain")
    with pytest.raises(ValueError, match="no ids"):
        plain.positions(["a"])
    with pytest.raises(ValueError, match="no ids"):
        plain.ids_of(0)


def test_parts_hold_a_hub_and_nothing_at_all(tmp_path):
    """A node with more neighbours than a part may have entries, and nodes without any."""
    star = sp.coo_array((np.ones(40), (np.full(40, 25), np.arange(40))), shape=(60, 60))
    graph = Graph(star, np.ones((60, 2)))
    store = store_graph(graph, tmp_path / "store", part_entries=10)
    assert_same(store, graph)
    sizes = [store.edges(part).nnz for part in range(store.n_parts)]
    assert max(sizes) == 39
    assert sizes[int(store.part_of(25))] == 39
    lonely = Graph(sp.csr_array((2_000_000, 2_000_000)))
    store = store_graph(lonely, tmp_path / "lonely")
    assert store.n_parts > 1
    assert [store.edges(part).nnz for part in range(store.n_parts)] == [0] * store.n_parts
    nobody = store_graph(Graph(sp.csr_array((0, 0))), tmp_path / "nobody")
    assert (nobody.n_nodes, nobody.n_parts, len(nobody.degrees)) == (0, 0, 0)


def test_a_store_goes_to_another_process_by_its_path(tmp_path):
    store = store_graph(random_graph(), tmp_path / "store", part_entries=50)
    assert len(store.degrees) == 60
    sent = pickle.dumps(store)
    assert_same(pickle.loads(sent), random_graph())
    assert "degrees" not in pickle.loads(sent).__dict__


def test_the_same_graph_has_the_same_fingerprint(tmp_path):
    stores = [
        store_graph(random_graph(seed), tmp_path / str(n), part_entries=50)
        for n, seed in enumerate((1, 1, 2))
    ]
    first, same, other = (store.fingerprint for store in stores)
    assert first == same
    assert first != other


def test_column_statistics(tmp_path):
    for kind in ("double", "sparse"):
        graph = random_graph(features=kind)
        store = store_graph(graph, tmp_path / kind, part_entries=50)
        dense = graph.features.toarray() if kind == "sparse" else graph.features
        found = store.column_statistics
        assert found["count"].tolist() == [60] * store.n_features
        np.testing.assert_allclose(found["sum"], dense.sum(axis=0))
        np.testing.assert_allclose(found["squares"], (dense**2).sum(axis=0))
        np.testing.assert_allclose(found["deviations"], 60 * dense.var(axis=0))
        assert np.array_equal(found["min"], dense.min(axis=0))
        assert np.array_equal(found["max"], dense.max(axis=0))
        assert np.array_equal(found["nnz"], np.count_nonzero(dense, axis=0))
    far = Graph(sp.csr_array((1000, 1000)), 1e9 + np.arange(1000.0)[:, None] % 2)
    found = store_graph(far, tmp_path / "far", part_entries=1).column_statistics
    np.testing.assert_allclose(found["deviations"], 250.0)  # nothing is lost beside 1e21


# --- what is damaged is refused by name ---------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Of a store whose parts are all of one size."""
    n = 64
    ring = sp.coo_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    features = np.arange(n * 3.0).reshape(n, 3)
    store_graph(Graph(ring, features, [f"{i:02d}" for i in range(n)]), tmp_path / "s", 16)
    return tmp_path / "s"


FILES = [
    "degrees.npy",
    "columns.npz",
    "edges/00002.indptr.npy",
    "edges/00002.indices.npy",
    "features/00002.npy",
    "ids/00002.offsets.npy",
    "ids/00002.text.npy",
    "ids/keys.npy",
    "ids/nodes.npy",
]


@pytest.mark.parametrize("name", FILES)
def test_missing_and_truncated_files_are_named(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-8])
    with pytest.raises(StoreError, match=rf"{name} has [\d,]+ bytes and not"):
        open_store(folder)
    (folder / name).unlink()
    with pytest.raises(StoreError, match=f"{name} is missing"):
        open_store(folder)
    (folder / name).write_bytes(content)
    assert open_store(folder, verify=True).n_nodes == 64


@pytest.mark.parametrize("kind", ["indices.npy", "npy", "text.npy"])
def test_files_in_each_others_place_are_named(folder, kind):
    home = {"indices.npy": "edges", "npy": "features", "text.npy": "ids"}[kind]
    first, second = (folder / home / f"0000{part}.{kind}" for part in (1, 2))
    assert first.stat().st_size == second.stat().st_size
    first.rename(folder / "aside")
    second.rename(first)
    (folder / "aside").rename(second)
    with pytest.raises(StoreError, match=f"{first.name} is not the file that was prepared"):
        open_store(folder)


@pytest.mark.parametrize("name", ["edges/00002.indices.npy", "features/00002.npy"])
def test_files_of_an_older_preparation_are_named(folder, tmp_path, name):
    """Of the same part and size: a copy that was not finished, say."""
    n = 64
    ring = sp.coo_array((np.ones(n), (np.arange(n), (np.arange(n) + 3) % n)), shape=(n, n))
    older = Graph(ring, np.arange(n * 3.0).reshape(n, 3) / 2, [f"{i:02d}" for i in range(n)])
    store_graph(older, tmp_path / "older", 16)
    content = (tmp_path / "older" / name).read_bytes()
    assert len(content) == (folder / name).stat().st_size
    (folder / name).write_bytes(content)
    with pytest.raises(StoreError, match=f"{name} is not the file that was prepared; copy the"):
        open_store(folder)


def test_a_change_in_the_middle_is_found_by_a_look_at_everything(tmp_path):
    graph = random_graph(n_nodes=3000, features="double", ids=None)
    store_graph(graph, tmp_path / "s")
    path = tmp_path / "s/features/00000.npy"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    open_store(tmp_path / "s")
    with pytest.raises(StoreError, match=r"features/00000\.npy is not the file"):
        open_store(tmp_path / "s", verify=True)


def test_what_is_no_store_is_refused(folder, tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        open_store(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="is a file"):
        open_store(folder / "manifest.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=r"no manifest\.json"):
        open_store(tmp_path / "empty")


def change(folder, **values):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 0}, "store of version 0, and this nodegp reads versions up to 2"),
        ({"version": 3}, "store of version 3"),
        ({"format": "zip"}, "not of a stored graph"),
        ({"n_nodes": "64"}, "n_nodes is '64'"),
        ({"n_nodes": 63}, "parts that are not all of the nodes"),
        ({"boundaries": [0, 8, 8, 64]}, "parts that are not all of the nodes"),
        ({"boundaries": [0, 64, 128]}, "parts that are not all"),
        ({"n_edges": 1}, "both directions"),
        ({"ids": {"kind": "colour", "index": "sorted"}}, "colour"),
        ({"features": {"kind": "dense"}}, "damaged"),
        ({"weighted": True}, "does not list edges/00000.weights.npy"),
        ({"surprise": 1}, "damaged"),
    ],
)
def test_manifests_that_are_wrong(folder, values, message):
    change(folder, **values)
    with pytest.raises(StoreError, match=message):
        open_store(folder)


def test_a_manifest_that_is_no_json(folder):
    (folder / "manifest.json").write_bytes(b"{")
    with pytest.raises(StoreError, match=r"manifest\.json is not of a stored graph"):
        open_store(folder)


def test_a_file_that_goes_while_it_is_read(folder):
    store = open_store(folder)
    (folder / "edges/00001.indptr.npy").unlink()
    with pytest.raises(StoreError, match=r"00001.indptr\.npy is missing"):
        store.edges(1)
    shutil.copy(folder / "edges/00002.indices.npy", folder / "edges/00001.indptr.npy")
    with pytest.raises(StoreError, match=r"00001.indptr.npy holds int32 of shape \(16,\)"):
        store.edges(1)
    (folder / "features/00001.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(StoreError, match=r"00001\.npy cannot be read"):
        store.features_of(1)


def test_a_store_is_not_put_where_something_is(folder, tmp_path):
    with pytest.raises(FileExistsError, match="force=True"):
        store_graph(random_graph(), folder)
    assert_same(store_graph(random_graph(), folder, force=True), random_graph())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("dear")
    for force in (True, False):
        with pytest.raises(FileExistsError, match=r"not empty; name another folder$"):
            store_graph(random_graph(), tmp_path / "full", force=force)
    with pytest.raises(NotADirectoryError, match="is a file"):
        store_graph(random_graph(), tmp_path / "full" / "letter")
    with pytest.raises(ValueError, match="whole numbers of 64 bits or text"):
        store_graph(Graph(np.zeros((2, 2)), ids=[0.5, 1.5]), tmp_path / "fractions")


# --- keys and types -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_nodes", "dtype"),
    [(0, np.int32), (2**31 - 1, np.int32), (2**31, np.int64), (2**40, np.int64)],
)
def test_numbers_of_nodes_are_wide_enough(n_nodes, dtype):
    assert index_dtype(n_nodes) is dtype
    assert max(n_nodes - 1, 0) <= np.iinfo(index_dtype(n_nodes)).max


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=40), unique=True, max_size=30))
def test_texts_come_back_and_have_keys_of_their_own(names):
    texts = Texts.of(names)
    assert texts.tolist() == names
    keys = text_keys(texts)
    assert len(set(keys.tolist())) == len(names)
    for place, name in enumerate(names):
        assert texts[place] == name
        # Whatever stands before and after it.
        assert text_keys(Texts.of([name]))[0] == keys[place]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.text("ab", max_size=20), st.text("ab", max_size=20)), max_size=9))
def test_texts_are_compared(pairs):
    """In words of eight bytes, whatever stands around them."""
    asked, known = (Texts.of([pair[side] for pair in pairs]) for side in range(2))
    rows = np.arange(len(pairs))[::-1]
    starts, stops = known.offsets[:-1][rows], known.offsets[1:][rows]
    found = same_texts(asked, rows, padded(known.content), starts, stops)
    assert found.tolist() == [pairs[row][0] == pairs[row][1] for row in rows]


def test_whole_numbers_never_share_a_key():
    rng = np.random.default_rng(0)
    numbers = np.unique(np.append(rng.integers(-(2**63), 2**63 - 1, 9999), np.arange(-999, 999)))
    assert len(np.unique(integer_keys(numbers))) == len(numbers)


def test_texts_that_share_a_key_are_told_apart(tmp_path, monkeypatch):
    """Were all keys the same, every text would still be found, and no other."""
    same = lambda texts: np.zeros(len(texts), np.uint64)  # noqa: E731
    monkeypatch.setattr("nodegp.store.lookup.text_keys", same)
    names = [f"n{n}" for n in range(7)]
    (tmp_path / "ids").mkdir()
    said, _ = write_index(tmp_path, Texts.of(names))
    index = IdIndex.open(tmp_path, said)

    def is_same(nodes, texts, rows):
        return np.array([names[n] == texts[row] for n, row in zip(nodes, rows, strict=True)])

    asked = ["n6", "n0", "x", "n3"]
    assert index.find_texts(Texts.of(asked), is_same).tolist() == [6, 0, -1, 3]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=30), st.data())
@settings(max_examples=100, deadline=None)
def test_whole_numbers_are_found(tmp_path_factory, numbers, data):
    folder = tmp_path_factory.mktemp("index")
    (folder / "ids").mkdir()
    said, _ = write_index(folder, np.array(numbers))
    asked = data.draw(st.lists(st.sampled_from(numbers) | st.integers(-(2**63), 2**63 - 1)))
    where = {number: place for place, number in enumerate(numbers)}
    found = IdIndex.open(folder, said).find_integers(np.array(asked, np.int64))
    assert found.tolist() == [where.get(number, -1) for number in asked]
