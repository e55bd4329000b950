"""Files in formats of others: what is read, and how a damaged file is refused."""

from __future__ import annotations

import gzip
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import planetoid_fakes
from nodegp import Graph, GraphGPClassifier
from nodegp.datasets import load_cora
from nodegp_paper.datasets import from_pyg, random_split, read_graph
from nodegp_paper.datasets import planetoid as planetoid_module

GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="t" for="node" attr.name="topic" attr.type="string"/>
  <key id="s" for="node" attr.name="size" attr.type="double"><default>2.5</default></key>
  <key id="w" for="edge" attr.name="weight" attr.type="double"/>
  <graph edgedefault="directed">
    <node id="n1"><data key="t">stars</data><data key="s">1</data></node>
    <node id="n2"/>
    <node id="n3"><data key="t">moons</data></node>
    <edge source="n1" target="n2"><data key="w">0.5</data></edge>
    <edge source="n3" target="n2"/>
  </graph>
</graphml>
"""
CONTENT = "p1\t1\t0\t2\tmoons\np2\t0\t0\t0\tstars\np3\t0\t1\t0\tmoons\n"
CITES = "p2\tp1\np1\tp2\np3\tp3\np3\tp2\n"


def benchmark_arrays(**changes) -> dict:
    """A data set of four nodes in a path, as gnn-benchmark keeps it."""
    path = sp.csr_array(np.diag([1.0, 1, 1], 1))
    words = sp.csr_array(np.array([[0, 1.0], [2, 0], [0, 0], [3, 4]]))
    arrays = {"labels": np.array([1, 0, 2, 1]), "node_names": np.array(["a", "b", "c", "d"])}
    for prefix, matrix in (("adj", path), ("attr", words)):
        parts = {part: getattr(matrix, part) for part in ("data", "indices", "indptr")}
        arrays |= {f"{prefix}_{part}": value for part, value in parts.items()}
        arrays[f"{prefix}_shape"] = np.array(matrix.shape)
    arrays["class_names"] = np.array(["x", "y", "z"])
    arrays["metadata"] = np.array({"name": "four"}, dtype=object)
    arrays |= changes
    return {name: value for name, value in arrays.items() if value is not None}


def write_linqs(folder, content=CONTENT, cites=CITES):
    (folder / "small.content").write_bytes(content.encode())
    (folder / "small.cites").write_bytes(cites.encode())
    return folder / "small.content"


# --- GraphML ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the nodes' numbers")
@pytest.mark.parametrize("ending", [".graphml", ".GraphML", ".graphml.gz"])
def test_graphml(tmp_path, ending):
    path = tmp_path / f"sky{ending}"
    path.write_bytes(gzip.compress(GRAPHML.encode()) if ending.endswith("gz") else GRAPHML.encode())
    data = read_graph(path, label="topic", features=["size"])
    assert data.name == "sky"
    assert data.graph.ids.tolist() == ["n1", "n2", "n3"]
    expected = [[0, 0.5, 0], [0.5, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(data.graph.adjacency.toarray(), expected)
    np.testing.assert_array_equal(data.graph.features, [[1], [2.5], [2.5]])  # with the default
    assert data.class_names == ("moons", "stars")
    assert data.y.tolist() == [1, -1, 0]
    plain = read_graph(path)
    assert (plain.graph.n_features, plain.class_names, plain.y.max()) == (0, (), -1)


def test_graphml_written_by_networkx(tmp_path):
    club = nx.karate_club_graph()
    nx.write_graphml(club, tmp_path / "karate.graphml")
    data = read_graph(tmp_path / "karate.graphml", label="club")
    assert data.graph.ids.tolist() == [str(n) for n in club]
    assert (data.graph.adjacency != Graph.from_networkx(club).adjacency).nnz == 0
    assert [data.class_names[c] for c in data.y] == [club.nodes[n]["club"] for n in club]
    split = random_split(data, 4, seed=0, exclude=None)
    y = np.full(34, -1)
    y[split["train"]] = data.y[split["train"]]
    assert GraphGPClassifier().fit(data.graph, y).score(data.graph, data.y) > 0.8


@pytest.mark.filterwarnings("ignore:the nodes' numbers")
@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        (GRAPHML[:-40], {}, r"bad\.graphml', line 11: this is not XML"),
        ("", {}, "line 1"),
        ("<html/>", {}, "no GraphML"),
        (GRAPHML.replace('key="w"', 'key="q"'), {}, "no GraphML"),
        (GRAPHML.replace(">0.5<", ">half<"), {}, "no GraphML"),
        (GRAPHML.replace(">0.5<", ">-1<"), {}, r"bad\.graphml'.*negative"),
        (GRAPHML, {"label": "subject"}, r"bad\.graphml'.*'subject'.*size, topic"),
        (GRAPHML, {"features": ["topic"]}, r"bad\.graphml'.*'topic'"),
        ("<!DOCTYPE z [<!ENTITY a '" + "ha" * 999 + "'>]><z>&a;</z>", {}, "GraphML"),
    ],
)
def test_bad_graphml(tmp_path, text, settings, message):
    (tmp_path / "bad.graphml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_graph(tmp_path / "bad.graphml", **settings)


# --- .npz ---------------------------------------------------------------------------------------


def test_gnn_benchmark_archive(tmp_path):
    np.savez(tmp_path / "four.npz", **benchmark_arrays())
    data = read_graph(tmp_path / "four.npz")
    assert (data.name, data.class_names) == ("four", ("x", "y", "z"))
    assert data.y.tolist() == [1, 0, 2, 1]
    assert data.graph.ids.tolist() == ["a", "b", "c", "d"]
    path = np.diag([1.0, 1, 1], 1)
    np.testing.assert_array_equal(data.graph.adjacency.toarray(), path + path.T)
    np.testing.assert_array_equal(data.graph.features.toarray(), [[0, 1], [2, 0], [0, 0], [3, 4]])


class Trap:
    """Whoever unpickles this knows it."""

    def __reduce__(self):
        return pytest.fail, ("something was unpickled",)


def test_python_objects_are_left_alone(tmp_path):
    trap = np.array([Trap(), None, None, None], dtype=object)
    arrays = benchmark_arrays(node_names=trap, class_names=trap, metadata=trap)
    np.savez(tmp_path / "trap.npz", **arrays)
    data = read_graph(tmp_path / "trap.npz")
    assert data.graph.ids is None
    assert data.class_names == ("0", "1", "2")
    np.savez(tmp_path / "trap.npz", **benchmark_arrays(adj_data=trap))
    with pytest.raises(ValueError, match=r"trap\.npz'.*lacks adj_data \(or has Python objects"):
        read_graph(tmp_path / "trap.npz")


def test_dense_features_and_a_matrix_of_scipy(tmp_path):
    sparse = {f"attr_{part}": None for part in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "dense.npz", **benchmark_arrays(**sparse, attr_matrix=np.eye(4)))
    np.testing.assert_array_equal(read_graph(tmp_path / "dense.npz").graph.features, np.eye(4))
    path = np.diag([1.0, 2, 3], 1)
    for form in ("csr", "csc", "coo"):
        sp.save_npz(tmp_path / "matrix.npz", sp.coo_array(path).asformat(form))
        data = read_graph(tmp_path / "matrix.npz")
        np.testing.assert_array_equal(data.graph.adjacency.toarray(), path + path.T)
        assert (data.graph.features, data.n_classes) == (None, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adj_shape": None}, "lacks adj_shape"),
        ({"adj_shape": np.array([4, 5])}, "square"),
        ({"adj_shape": np.array([10**12, 10**12])}, "cannot be read"),
        ({"adj_shape": np.array(["a", "b"])}, "cannot be read"),
        ({"adj_indices": np.array([1, 2, 99])}, "cannot be read"),
        ({"adj_indices": np.array([1, 2, -7])}, "cannot be read"),
        ({"adj_indptr": np.array([0, 3, 1, 3, 3])}, "cannot be read"),
        ({"adj_data": np.array([1.0, np.nan, 1])}, "NaN"),
        ({"attr_shape": np.array([3, 2])}, "cannot be read"),
        ({"labels": np.array([0, 1])}, r"4 nodes.*shape \(2,\)"),
        ({"labels": np.array([0.5, 1, 1, 1])}, "float64"),
        ({"labels": np.array([0, 0, 0, 10**9])}, "range from 0 to 1000000000"),
        ({"labels": None, "labels_data": np.ones(4)}, "one class per node"),
        ({"node_names": np.array(list("aabc"))}, "repeated"),
    ],
)
def test_bad_archives(tmp_path, changes, message):
    np.savez(tmp_path / "bad.npz", **benchmark_arrays(**changes))
    with pytest.raises(ValueError, match=r"bad\.npz'.*" + message):
        read_graph(tmp_path / "bad.npz")


# --- LINQS --------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["small.content", "small.cites", ""])
@pytest.mark.parametrize("style", ["tabs", "spaces", "windows"])
def test_linqs(tmp_path, which, style):
    change = {"tabs": lambda t: t, "spaces": lambda t: t.replace("\t", " ")}.get(
        style, lambda t: "\ufeff" + t.replace("\n", "\r\n") + "\r\n"
    )
    write_linqs(tmp_path, change(CONTENT), change(CITES))
    data = read_graph(tmp_path / which)
    assert (data.name, data.class_names) == ("small", ("moons", "stars"))
    assert data.graph.ids.tolist() == ["p1", "p2", "p3"]
    assert data.y.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(data.graph.features.toarray(), [[1, 0, 2], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(data.graph.adjacency.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_linqs_cora_is_the_bundled_one(tmp_path):
    cora = load_cora()
    words = cora.graph.features.toarray().astype(int)
    lines = [
        "\t".join(map(str, [cora.graph.ids[n], *words[n], cora.class_names[cora.y[n]]]))
        for n in range(0, 300)
    ]
    part = cora.graph.subgraph(np.arange(300))
    edges = sp.triu(part.adjacency).tocoo()
    cites = [f"{part.ids[i]}\t{part.ids[j]}" for i, j in zip(edges.row, edges.col, strict=True)]
    data = read_graph(write_linqs(tmp_path, "\n".join(lines), "\n".join(cites)))
    assert data.graph.ids.dtype == np.int64
    np.testing.assert_array_equal(data.graph.ids, part.ids)
    assert (data.graph.adjacency != part.adjacency).nnz == 0
    assert (data.graph.features != part.features).nnz == 0
    names = [cora.class_names[c] for c in cora.y[:300]]
    assert [data.class_names[c] for c in data.y] == names


def test_citations_of_papers_unknown_are_left_out_and_told(tmp_path):
    path = write_linqs(tmp_path, cites=CITES + "p1\tghost\nghost\tp2\n")
    with pytest.warns(UserWarning, match=r"1 ids that have no line in \.content.*'ghost'"):
        data = read_graph(path)
    assert data.graph.n_edges == 2


@pytest.mark.parametrize(
    ("content", "cites", "message"),
    [
        (CONTENT + "p4\t1\t0\tmoons\n", CITES, r"content', line 4: 4 fields, .* 3 words"),
        (CONTENT.replace("2\tmoons", "two\tmoons"), CITES, "content', line 1: .*numbers only"),
        (CONTENT.replace("2\tmoons", "nan\tmoons"), CITES, "content', line 1: .*numbers only"),
        (CONTENT + "\n" + CONTENT, CITES, "content', line 5: the id 'p1' stands there again"),
        (CONTENT, CITES + "p1\n", "cites', line 5: 1 fields"),
        ("", CITES, "empty"),
        ("p1\n", CITES, "line 1: 1 fields"),
    ],
)
def test_bad_linqs(tmp_path, content, cites, message):
    with pytest.raises(ValueError, match=message):
        read_graph(write_linqs(tmp_path, content, cites))


def test_linqs_needs_both_files_in_text(tmp_path):
    path = write_linqs(tmp_path)
    path.write_bytes(b"\x80\x81\xff\n")
    with pytest.raises(ValueError, match="not a text file"):
        read_graph(path)
    (tmp_path / "small.cites").unlink()
    with pytest.raises(FileNotFoundError, match=r"'small\.cites' beside it"):
        read_graph(path)


# --- folders, endings, damage -------------------------------------------------------------------


def test_a_planetoid_folder(tmp_path, monkeypatch):
    files = planetoid_fakes.tiny_files("cora") | planetoid_fakes.tiny_files("pubmed")
    monkeypatch.setattr(planetoid_module, "SHA256", planetoid_fakes.sha256(files))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"several data sets: cora, pubmed.*name="):
        read_graph(tmp_path)
    assert read_graph(tmp_path, name="pubmed").name == "pubmed"
    for name in planetoid_fakes.tiny_files("cora"):
        (tmp_path / name).unlink()
    assert read_graph(tmp_path).splits["train"].tolist() == [0, 1]


def test_paths_that_say_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_graph(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="no data set in it"):
        read_graph(tmp_path)
    (tmp_path / "graph.xyz").touch()
    with pytest.raises(ValueError, match=r"GraphML.*npz.*LINQS"):
        read_graph(tmp_path / "graph.xyz")
    with pytest.raises(ValueError, match="leave them out"):
        read_graph(tmp_path / "graph.xyz", label="topic")
    with pytest.raises(ValueError, match="leave it out"):
        read_graph(tmp_path / "graph.xyz", name="cora")


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    np.savez_compressed(folder / "a.npz", **benchmark_arrays())
    (folder / "a.graphml").write_text(GRAPHML)
    (folder / "a.graphml.gz").write_bytes(gzip.compress(GRAPHML.encode()))
    (folder / "a.content").write_text(CONTENT)
    (folder / "a.cites").write_text(CITES)
    return folder, {path.name: path.read_bytes() for path in folder.iterdir()}


def outcome(path):
    """The data set, or the error if it is one that users are meant to see."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read_graph(path)
        except ValueError as error:
            return error


@settings(max_examples=200)
@given(
    st.sampled_from(["a.npz", "a.graphml", "a.graphml.gz", "a.content", "a.cites"]),
    st.sampled_from(["cut", "flip", "swap", "junk"]),
    st.floats(0, 1),
    st.binary(min_size=1, max_size=8),
)
def test_damage_gives_a_data_set_or_one_clear_error(whole_files, name, how, where, junk):
    folder, contents = whole_files
    for other, content in contents.items():
        (folder / other).write_bytes(content)
    content = contents[name]
    at = int(where * len(content))
    damaged = {
        "cut": content[:at],
        "flip": content[:at] + junk + content[at + len(junk) :],
        "swap": content[at:] + content[:at],
        "junk": content[:at] + junk + content[at:],
    }[how]
    (folder / name).write_bytes(damaged)
    result = outcome(folder / name)
    if isinstance(result, Exception):
        assert str(folder / "a.") in str(result)
        assert "\n" not in str(result)
    else:
        assert result.y.shape == (result.graph.n_nodes,)


# --- PyTorch Geometric --------------------------------------------------------------------------


def test_pyg_masks_become_splits():
    y = torch.tensor([2, 0, 2, -1])
    masks = {
        "train_mask": torch.tensor([[1, 0], [1, 0], [0, 1], [0, 0]]) > 0,
        "test_mask": torch.tensor([0, 0, 1, 0]) > 0,
    }
    edges = torch.tensor([[0, 1, 2], [1, 2, 3]])
    data = from_pyg(Data(x=torch.eye(4), edge_index=edges, y=y, **masks), name="mine")
    assert (data.name, data.class_names) == ("mine", ("0", "1", "2"))
    assert data.y.tolist() == [2, 0, 2, -1]
    assert {name: nodes.tolist() for name, nodes in data.splits.items()} == {
        "train": [0, 1],
        "test": [2],
    }
    second = from_pyg(Data(x=torch.eye(4), edge_index=edges, y=y, **masks), split=1)
    assert second.splits["train"].tolist() == [2]
    column = from_pyg(
        Data(edge_index=edges, y=torch.tensor([[0.0], [1], [np.nan], [1]]), num_nodes=4)
    )
    assert column.y.tolist() == [0, 1, -1, 1]
    with pytest.raises(ValueError, match="numbered from 0"):
        from_pyg(Data(edge_index=edges, y=torch.tensor([0.5, 1, 1, 1]), num_nodes=4))


def test_a_data_set_to_pyg_and_back():
    cora = load_cora()
    back = from_pyg(cora.graph.to_pyg(cora.y, cora.splits), name="cora")
    np.testing.assert_array_equal(back.y, cora.y)
    np.testing.assert_array_equal(back.graph.ids, cora.graph.ids)
    assert (back.graph.adjacency != cora.graph.adjacency).nnz == 0
    assert (back.graph.features != cora.graph.features).nnz == 0
    for name, nodes in cora.splits.items():
        np.testing.assert_array_equal(back.splits[name], np.sort(nodes))
