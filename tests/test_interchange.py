"""Objects of other libraries: in, and out again unchanged."""

from __future__ import annotations

import sys
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from helpers import hide, random_graph, smooth_classes
from nodegp import Graph

GRAPH = random_graph()
SHOWN = np.arange(0, 24, 2)
Y = hide(smooth_classes(GRAPH), SHOWN)


def same(a: Graph, b: Graph) -> bool:
    """Whether two graphs agree in every array, types and sparsity included."""
    if (a.adjacency != b.adjacency).nnz or a.adjacency.shape != b.adjacency.shape:
        return False
    for one, other in ((a.features, b.features), (a.ids, b.ids)):
        if type(one) is not type(other):
            return False
        if sp.issparse(one):
            one, other = one.toarray(), other.toarray()
        if one is not None and (one.dtype.kind != other.dtype.kind or not (one == other).all()):
            return False
    return a.features is None or a.features.dtype == b.features.dtype


@st.composite
def graphs(draw, with_ids: bool = True) -> Graph:
    """Weighted graphs of up to 8 nodes, with and without features and ids."""
    n = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    weights = rng.choice([0, 0, 1, 0.1, 2.5], size=(n, n))
    features = draw(st.sampled_from(["none", "float64", "float32", "sparse"]))
    X = rng.normal(size=(n, 3)) * rng.integers(0, 2, size=(n, 3))
    made = {"none": None, "sparse": sp.csr_array(X)}
    ids = draw(st.sampled_from([rng.permutation(n) * 7, [f"é{i}" for i in range(n)]]))
    return Graph(
        weights,
        made[features] if features in made else X.astype(features),
        ids if with_ids or draw(st.booleans()) else None,
    )


# --- edges ------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.5, 1.0, 2.0]))),
    st.sampled_from(["pairs", "array", "columns"]),
    st.sampled_from(["numbers", "strings", "large numbers", "tuples", "mixed"]),
)
def test_edges_in_any_form_keep_the_largest_weight(edges, form, naming):
    names = {
        "numbers": None,
        "strings": list("fedcba"),
        "large numbers": [2**60 - n for n in range(6)],
        "tuples": [(n, "x") for n in range(6)],
        "mixed": [0, "0", 1, "1", (2,), None],
    }[naming]
    expected = np.zeros((6, 6))
    for i, j, w in edges:
        if i != j:
            expected[i, j] = expected[j, i] = max(expected[i, j], w)
    pairs = [(i, j) if names is None else (names[i], names[j]) for i, j, _ in edges]
    if form == "array" and naming not in ("tuples", "mixed"):  # which no array of pairs can hold
        given_edges = np.array(pairs).reshape(-1, 2) if pairs else np.zeros((0, 2), dtype=int)
    elif form == "columns":
        given_edges = ([a for a, _ in pairs], [b for _, b in pairs])
    else:
        given_edges = pairs
    weights = [w for *_, w in edges]
    graph = Graph.from_edges(given_edges, weights, ids=names, n_nodes=6)
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    assert (graph.ids is None) == (names is None)
    if names is not None:
        assert graph.ids.tolist() == names


def test_the_number_of_nodes_follows_from_what_is_given():
    assert Graph.from_edges([(0, 3)]).n_nodes == 4
    assert Graph.from_edges([(0, 3)], n_nodes=9).n_nodes == 9
    assert Graph.from_edges([(0, 3)], features=np.eye(5)).n_nodes == 5
    assert Graph.from_edges([]).n_nodes == 0
    narrow = np.array([[10, 30]], dtype=np.int32)
    assert Graph.from_edges(narrow, ids=np.array([30, 10, 20], dtype=np.uint64)).n_edges == 1
    assert Graph.from_edges(narrow, ids=[30, 10, 20]).positions([10]) == [1]


@pytest.mark.parametrize(
    ("edges", "settings", "message"),
    [
        (
            [("a", "z"), ("y", "b")],
            {"ids": ["a", "b"]},
            r"2 ids that no node has, first: \['y', 'z'\]",
        ),
        ([(1, 2)], {"ids": ["1", "2"]}, r"2 ids that no node has, first: \[1, 2\]"),
        ([("a", "b")], {}, "pass ids="),
        ([(0.5, 1.0)], {}, "node numbers"),
        ([(0, 3)], {"n_nodes": 3}, "0 to 3.*3 nodes"),
        ([(-1, 0)], {}, "-1"),
        ([(0, 1, 2.0)], {}, "weights="),
        (np.zeros((2, 5), dtype=int), {}, r"\(2, 5\).*tuple"),
        (([0, 1], [1]), {}, "2 sources and 1 targets"),
        ([(0, 1)], {"weights": [1, 2]}, r"shape \(2,\) for 1 edges"),
        ([(0, 1)], {"weights": [-1]}, "negative"),
        ([(0, 1)], {"ids": ["a"], "n_nodes": 2}, "leave it out"),
        ([("a", "a")], {"ids": ["a", "a"]}, "different"),
    ],
)
def test_bad_edges(edges, settings, message):
    with pytest.raises(ValueError, match=message):
        Graph.from_edges(edges, **settings)


# --- networkx ---------------------------------------------------------------------------------


@given(graphs())
def test_networkx_and_back(graph):
    G = graph.to_networkx()
    assert list(G) == graph.ids.tolist()
    back = Graph.from_networkx(G)
    assert same(back, graph)
    assert nx.utils.graphs_equal(nx.Graph(G.edges), nx.Graph(back.to_networkx().edges))


def test_without_ids_the_numbers_are_the_names():
    G = Graph.from_edges([(0, 2)], [0.5]).to_networkx()
    assert list(G.edges(data=True)) == [(0, 2, {"weight": 0.5})]
    assert list(G) == [0, 1, 2]


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_directed_and_parallel_edges_follow_the_one_rule(kind):
    G = kind()
    G.add_weighted_edges_from([("b", "a", 1.0), ("a", "b", 3.0), ("b", "a", 2.0), ("c", "c", 9.0)])
    G.add_edge("c", "a")
    graph = Graph.from_networkx(G)
    assert graph.ids.tolist() == ["b", "a", "c"]
    expected = [[0, 3, 0], [3, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    plain = Graph.from_networkx(G, weight=None)
    np.testing.assert_array_equal(plain.adjacency.toarray(), np.minimum(expected, 1))


def test_features_are_those_named():
    G = nx.path_graph(3)
    for n in G:
        G.nodes[n].update(age=n, tall=n > 1, vector=[n, -n], x=0.5, label="a")
    with pytest.warns(UserWarning, match=r"\['age', 'x'\] are not used.*features=\['age', 'x'\]"):
        graph = Graph.from_networkx(G)
    assert graph.features is None  # x is a number here: a position, perhaps
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Graph.from_networkx(G, []).features is None
    ages = Graph.from_networkx(G, ["age", "tall"]).features
    np.testing.assert_array_equal(ages, [[0, 0], [1, 0], [2, 1]])
    vectors = Graph.from_networkx(G, "vector").features
    np.testing.assert_array_equal(vectors, [[0, 0], [1, -1], [2, -2]])
    assert Graph.from_networkx(G, sp.eye_array(3, format="csr")).n_features == 3
    with pytest.raises(ValueError, match=r"'height'.*attributes there are: age, label"):
        Graph.from_networkx(G, ["height"])
    with pytest.raises(ValueError, match=r"label='a'.*not a number"):
        Graph.from_networkx(G, ["age", "label"])
    G.nodes[1]["vector"] = [1]
    with pytest.raises(ValueError, match=r"one length.*\[1, 2\]"):
        Graph.from_networkx(G, "vector")


def test_a_weight_that_is_no_number_is_named():
    G = nx.Graph()
    G.add_edge("a", "b", weight="heavy")
    with pytest.raises(ValueError, match=r"'a' - 'b' has weight='heavy'"):
        Graph.from_networkx(G)


def test_names_that_are_tuples_stay_so():
    grid = Graph.from_networkx(nx.grid_2d_graph(2, 3))
    assert grid.ids[1] == (0, 1)
    assert grid.positions([(1, 2), (0, 0)]).tolist() == [5, 0]
    assert set(grid.to_networkx()) == set(nx.grid_2d_graph(2, 3))


# --- PyTorch Geometric ------------------------------------------------------------------------


@given(graphs(with_ids=False))
def test_pyg_and_back(graph):
    data = graph.to_pyg()
    assert data.num_nodes == graph.n_nodes
    assert data.is_undirected()
    assert data.validate()
    assert same(Graph.from_pyg(data), graph)


def test_pyg_data_comes_back_as_it_was():
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    x, weight = torch.randn(4, 2), torch.tensor([0.1, 0.1, 3.0, 3.0])
    back = Graph.from_pyg(Data(x=x, edge_index=index, edge_weight=weight)).to_pyg()
    assert torch.equal(back.x, x)
    assert torch.equal(back.edge_index, index)
    assert torch.equal(back.edge_weight, weight)
    assert "edge_weight" not in Graph.from_pyg(Data(x=x, edge_index=index)).to_pyg()


def test_pyg_weights_and_sparse_forms():
    index, x = torch.tensor([[0, 1], [1, 2]]), torch.eye(3)
    column = Graph.from_pyg(Data(x=x, edge_index=index, edge_attr=torch.tensor([[2.0], [3.0]])))
    assert column.adjacency[[0, 1], [1, 2]].tolist() == [2.0, 3.0]
    several = Graph.from_pyg(Data(x=x, edge_index=index, edge_attr=torch.ones(2, 4) * 7))
    assert several.adjacency.max() == 1.0
    for sparse in (x.to_sparse_coo(), x.to_sparse_csr(), x.to_sparse_csc()):
        graph = Graph.from_pyg(Data(x=sparse, edge_index=index))
        assert sp.issparse(graph.features)
        np.testing.assert_array_equal(graph.features.toarray(), np.eye(3))
    adjacency = torch.sparse_coo_tensor(index, torch.tensor([2.0, 3.0]), (3, 3))
    assert same(Graph.from_pyg(Data(x=x, adj_t=adjacency.to_sparse_csr())), column)


def test_to_pyg_takes_labels_and_splits():
    data = GRAPH.to_pyg(Y, {"train": SHOWN, "test": np.arange(24) % 2 == 1})
    np.testing.assert_array_equal(data.y, Y)
    assert data.train_mask.nonzero().ravel().tolist() == SHOWN.tolist()
    assert (data.test_mask == ~data.train_mask).all()
    with pytest.raises(ValueError, match="class names as numbers"):
        GRAPH.to_pyg(["a"] * 24)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (HeteroData(), TypeError, "to_homogeneous"),
        (Data(x=torch.eye(2)), ValueError, "edge_index"),
        (Data(x=torch.eye(2), edge_index=torch.tensor([[0], [5]])), ValueError, "2 nodes"),
        ([1, 2], TypeError, r"dataset\[0\]"),
    ],
)
def test_data_that_is_no_graph(data, error, message):
    with pytest.raises(error, match=message):
        Graph.from_pyg(data)


@pytest.mark.parametrize(
    ("library", "extra", "convert"),
    [("networkx", "interop", Graph.to_networkx), ("torch_geometric", "baselines", Graph.to_pyg)],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, library, extra, convert):
    for module in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError, match=rf"'nodegp\[{extra}\]', or in a checkout.*'\.\[{extra}\]'"
    ):
        convert(GRAPH)


# --- dataframes -------------------------------------------------------------------------------

KINDS = {
    "pandas": pd.DataFrame,
    "pandas-strings": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas-filtered": lambda columns: pd.concat([pd.DataFrame(columns)] * 2).iloc[
        len(columns["paper"] if "paper" in columns else columns["from"]) :
    ],
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "pyarrow-chunks": lambda columns: pa.concat_tables(
        [pa.table(columns).slice(0, 1), pa.table(columns).slice(1)]
    ),
}
NODES = {"paper": ["p", "q", "r"], "size": [1, 2, 3], "new": [True, False, True]}
NODES["share"] = [0.5, 0.25, 0.0]
EDGES = {"from": ["r", "p"], "to": ["p", "q"], "times": [4, 2]}
COLUMNS = {"id": "paper", "source": "from", "target": "to"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("naming", ["text", "category", "numbers"])
def test_tables_of_every_kind_give_the_same_graph(kind, naming):
    nodes, edges = dict(NODES), dict(EDGES)
    ids = ["p", "q", "r"]
    if naming == "numbers":
        number = {"p": 70, "q": -5, "r": 2**40}
        ids = [number[name] for name in ids]
        nodes["paper"] = ids
        edges |= {end: [number[name] for name in edges[end]] for end in ("from", "to")}
    nodes, edges = KINDS[kind](nodes), KINDS[kind](edges)
    if naming == "category" and kind.startswith("pandas"):
        nodes["paper"] = nodes["paper"].astype("category")
    elif naming == "category" and kind == "polars":
        edges = edges.with_columns(pl.col("from").cast(pl.Categorical))
    graph = Graph.from_dataframes(nodes, edges, **COLUMNS, weight="times")
    assert graph.ids.tolist() == ids
    assert graph.ids.dtype.kind == ("i" if naming == "numbers" else "O")
    assert not graph.is_prepared
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 2, 4], [2, 0, 0], [4, 0, 0]])
    np.testing.assert_array_equal(graph.features, [[1, 1, 0.5], [2, 0, 0.25], [3, 1, 0]])
    chosen = Graph.from_dataframes(nodes, edges, **COLUMNS, features=["share"])
    np.testing.assert_array_equal(chosen.features, [[0.5], [0.25], [0]])
    assert Graph.from_dataframes(nodes, edges, **COLUMNS, features=[]).features is None


def test_an_index_of_pandas_is_an_id_when_named_and_never_a_feature():
    nodes = pd.DataFrame({"size": [1.0, 2.0]}, index=pd.Index([10, 20], name="paper"))
    edges = pd.DataFrame({"from": [10.0], "to": [20.0]})  # floats, as after a merge
    graph = Graph.from_dataframes(nodes, edges, **COLUMNS)
    assert graph.ids.tolist() == [10, 20]
    assert graph.n_edges == 1
    np.testing.assert_array_equal(graph.features, [[1], [2]])
    nodes = nodes.reset_index()
    nodes.index = pd.Index([7, 8], name="row")
    np.testing.assert_array_equal(
        Graph.from_dataframes(nodes, edges, **COLUMNS).features, [[1], [2]]
    )


@pytest.mark.parametrize("date", [np.datetime64("NaT"), np.datetime64("2020-01-01")])
def test_dates_beside_booleans_do_not_end_the_process(date):
    """pyarrow 26 has a segmentation fault there."""
    mixed = pd.Series([date, np.True_, date], dtype=object)
    nodes = pd.DataFrame({"paper": NODES["paper"], "seen": mixed})
    with pytest.raises(
        ValueError, match="'seen' of the nodes table has a datetime64 beside a bool"
    ):
        Graph.from_dataframes(nodes, KINDS["pandas"](EDGES), **COLUMNS)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_embeddings_are_lists_of_one_length(kind):
    vectors = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    nodes = {"paper": NODES["paper"], "size": [7, 8, 9], "vector": vectors}
    graph = Graph.from_dataframes(KINDS[kind](nodes), KINDS[kind](EDGES), **COLUMNS)
    np.testing.assert_array_equal(graph.features, [[7, 1, 2], [8, 3, 4], [9, 5, 6]])
    nodes["vector"] = [[1.0, 2.0], [3.0, 4.0, 5.0], [6.0]]
    with pytest.raises(
        ValueError, match=r"'vector' of the nodes table has lists of different lengths"
    ):
        Graph.from_dataframes(KINDS[kind](nodes), KINDS[kind](EDGES), **COLUMNS)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    ("nodes", "edges", "settings", "message"),
    [
        (
            {},
            {},
            {"id": "papers"},
            "nodes table has no column 'papers' for ids; it has 'paper', 'size'",
        ),
        ({}, {}, {"weight": "w"}, "the edges table has no column 'w' for weights"),
        (
            {"topic": ["a", "b", "c"]},
            {},
            {},
            r"'topic' of the nodes table holds text.*features=.*text=",
        ),
        (
            {"size": [1.0, None, 2.0]},
            {},
            {},
            "'size' of the nodes table has no value in row 2; fill it",
        ),
        ({"size": [1.0, 2.0, np.inf]}, {}, {}, "'size' of .*infinite.*row 3"),
        ({"paper": ["p", None, "r"]}, {}, {}, "'paper' of the nodes table has no id in row 2"),
        (
            {"paper": ["p", "p", "r"]},
            {"to": ["p", "r"]},
            {},
            r"1 ids that were there before: 'p' in row 2",
        ),
        ({"paper": [0.5, 1.0, 2.0]}, {}, {}, "ids are whole numbers or text"),
        ({"paper": [1, 2, 3]}, {}, {}, r"2 of 2 edges of the edges table .*: 'r', 'p', 'q'"),
        ({}, {"to": ["z", "q"]}, {}, r"1 of 2 edges .* that no node has: 'z'"),
        (
            {},
            {"times": ["many", "few"]},
            {"weight": "times"},
            "'times' of the edges table holds text, not numbers",
        ),
    ],
)
def test_bad_tables(kind, nodes, edges, settings, message):
    with pytest.raises(ValueError, match=message):
        Graph.from_dataframes(
            KINDS[kind](NODES | nodes), KINDS[kind](EDGES | edges), **(COLUMNS | settings)
        )


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_graph_may_have_no_edges(kind):
    edges = KINDS[kind]({"from": [], "to": [], "times": []})
    graph = Graph.from_dataframes(KINDS[kind](NODES), edges, **COLUMNS, weight="times")
    assert (graph.n_nodes, graph.n_edges) == (3, 0)


def test_what_is_no_table_is_refused():
    with pytest.raises(
        TypeError, match="nodes must be a file's name or a pandas, polars or pyarrow"
    ):
        Graph.from_dataframes([1, 2], pa.table(EDGES), **COLUMNS)
    mixed = pd.DataFrame(NODES | {"size": [1, "two", 3]})
    with pytest.raises(ValueError, match="the nodes table cannot be read"):
        Graph.from_dataframes(mixed, pd.DataFrame(EDGES), **COLUMNS)
