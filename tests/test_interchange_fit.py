"""Other libraries' graphs straight into ``fit``, and predictions as dataframes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Data

import nodegp
from helpers import FIXED_RBF, hide, random_graph, smooth_classes, smooth_scores
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor, interchange
from nodegp.interchange import as_graph, prediction_table
from nodegp_paper.baselines import LabelPropagation
from packages import run_code

PLAIN = random_graph()
GRAPH = Graph(PLAIN.adjacency, PLAIN.features, [f"node {n}" for n in range(24)])
TRUTH = smooth_classes(GRAPH)
SHOWN = np.arange(0, 24, 2)
Y = hide(TRUTH, SHOWN)
MODELS = {
    "gp": GraphGPClassifier(kernel=FIXED_RBF, random_state=0),
    "baseline": LabelPropagation(),
}


def as_networkx(y=TRUTH) -> nx.Graph:
    G = GRAPH.to_networkx()
    for name, label in zip(G, y, strict=True):
        if label != -1:
            G.nodes[name]["topic"] = int(label)
    return G


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    """A model with what it says of the Graph, to compare with."""
    model = clone(MODELS[request.param]).fit(GRAPH, Y)
    return model, model.predict_proba()


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (GRAPH.to_networkx(), Y),
        (as_networkx(Y), "topic"),
        (GRAPH.to_networkx(), {f"node {n}": int(TRUTH[n]) for n in SHOWN}),
        (GRAPH.to_pyg(), Y),
        (GRAPH.to_pyg(TRUTH, {"train": SHOWN}), None),
        (GRAPH.to_pyg(Y), None),
        (GRAPH.to_pyg(np.where(Y == -1, np.nan, Y)), None),
    ],
    ids=["networkx", "attribute", "dict", "pyg", "pyg-mask", "pyg-y", "pyg-nan"],
)
def test_fit_takes_them_directly(X, y, fitted):
    model, expected = fitted
    other = clone(model).fit(X, y)
    assert isinstance(other.graph_, Graph)
    np.testing.assert_array_equal(other.labelled_, SHOWN)
    np.testing.assert_array_equal(other.classes_, [0, 1, 2])
    for answer in (other.predict_proba(), other.predict_proba(X), model.predict_proba(X)):
        np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-12)
    assert other.score(X, TRUTH) == model.score(GRAPH, TRUTH)
    np.testing.assert_array_equal(other.predict(X, [3, 1]), model.predict(GRAPH, [3, 1]))


def test_whole_numbers_stay_so_and_strings_too():
    by_name = clone(MODELS["gp"]).fit(as_networkx(Y), "topic")
    assert by_name.classes_.dtype.kind == "i"
    names = np.array(["ant", "bee", "cat"])[TRUTH]
    G = GRAPH.to_networkx()
    by_name.fit(G, {f"node {n}": names[n] for n in SHOWN})
    assert by_name.classes_.tolist() == ["ant", "bee", "cat"]
    assert by_name.score(G, dict(zip(G, names, strict=True))) > 0.5


def test_numbers_that_are_not_used_are_named_but_for_the_labels():
    G = as_networkx()
    for n, name in enumerate(G):
        G.nodes[name]["amount"] = n
    with pytest.warns(UserWarning, match=r"numbers \['amount'\] are not used as features"):
        clone(MODELS["gp"]).fit(G, "topic")


def test_a_regressor_takes_them_too():
    targets = smooth_scores(GRAPH, 1)[:, 0]
    expected = GraphGPRegressor(kernel=FIXED_RBF).fit(GRAPH, hide(targets, SHOWN, np.nan))
    data = GRAPH.to_pyg(targets, {"train": SHOWN})
    G = GRAPH.to_networkx()
    by_dict = {f"node {n}": targets[n] for n in SHOWN}
    for X, y in ((data, None), (G, by_dict)):
        model = GraphGPRegressor(kernel=FIXED_RBF).fit(X, y)
        np.testing.assert_allclose(model.predict(X), expected.predict(), atol=1e-12)
        assert model.score(X, targets) == pytest.approx(expected.score(GRAPH, targets))


def test_a_library_is_added_by_one_entry(monkeypatch):
    class Pairs:
        """A graph of some other library."""

        def __init__(self, graph, topics):
            self.graph, self.topics = graph, topics

    Pairs.__module__ = "pairs.core"
    conversion = interchange.Conversion(
        lambda pairs: pairs.graph,
        lambda pairs, y: [pairs.topics.get(n) for n in range(24)] if y is None else None,
    )
    monkeypatch.setitem(interchange.CONVERSIONS, "pairs", conversion)
    pairs = Pairs(GRAPH, {int(n): int(Y[n]) for n in SHOWN})
    expected = clone(MODELS["gp"]).fit(GRAPH, hide(Y, SHOWN))
    for y in (None, hide(Y, SHOWN)):
        model = clone(MODELS["gp"]).fit(pairs, y)
        np.testing.assert_allclose(model.predict_proba(pairs), expected.predict_proba())


def test_each_call_converts_once(monkeypatch):
    calls = []
    original = interchange.CONVERSIONS["networkx"]
    counted = original._replace(graph=lambda G: (calls.append(1), original.graph(G))[1])
    monkeypatch.setitem(interchange.CONVERSIONS, "networkx", counted)
    G = as_networkx()
    model = clone(MODELS["gp"]).fit(G, "topic")
    assert len(calls) == 1
    for method in ("predict_proba", "predict", "predict_latent", "predict_frame"):
        calls.clear()
        getattr(model, method)(G)
        assert len(calls) == 1, method
    calls.clear()
    model.score(G, "topic")
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (as_networkx(), "topics", "no node has the attribute 'topics'; .*topic, x"),
        (as_networkx(), {"node 99": 1}, r"1 nodes that are not in the graph.*'node 99'"),
        (as_networkx(), None, "requires y"),
        (GRAPH.to_pyg(), None, "has no y"),
        (Data(**GRAPH.to_pyg(Y).to_dict(), train_mask=torch.ones(24, 2) > 0), None, r"\[:, 0\]"),
        (Data(**GRAPH.to_pyg().to_dict() | {"y": torch.ones(24, 5)}), None, r"\(24, 5\)"),
    ],
    ids=["attribute", "node", "none", "no-y", "two-masks", "multi-label"],
)
@pytest.mark.parametrize("model", MODELS)
def test_labels_that_are_not_there(model, X, y, message):
    with pytest.raises(ValueError, match=message):
        clone(MODELS[model]).fit(X, y)


def test_without_y_there_is_nothing_to_score(fitted):
    with pytest.raises(ValueError, match="score against"):
        fitted[0].score(GRAPH.to_pyg(TRUTH), None)


def test_only_their_own_types_are_recognised():
    assert as_graph(GRAPH) is GRAPH
    for other in (np.eye(3), pd.DataFrame({"a": [1]}), [(0, 1)], None):
        assert as_graph(other) is other

    class Mine(nx.Graph):
        """Subclasses count."""

    assert as_graph(Mine([(0, 1)])).n_edges == 1


def test_nothing_is_imported_that_is_not_used(tmp_path):
    code = """
import sys
import nodegp
graph = nodegp.Graph.from_edges([("a", "b"), ("b", "c")], ids=["a", "b", "c"])
names = ("torch", "torch_geometric", "polars")  # torch and pyarrow load others themselves
before = [name for name in names if name in sys.modules]
nodegp.GraphGPClassifier().fit(graph, ["x", None, "y"]).predict_frame()
print(before, [name for name in names[1:] if name in sys.modules])
"""
    assert run_code(code, cwd=tmp_path).strip() == "[] []"


# --- predictions as dataframes ------------------------------------------------------------------


def test_prediction_table_says_what_the_probabilities_say():
    proba = np.array([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0]])
    table = prediction_table([5, 9], ["ant", "bee", "cat"], proba, {"part": [0.5, 0.0]})
    assert table.column_names == [
        *("id", "label", "probability", "p(ant)", "p(bee)", "p(cat)", "entropy", "part")
    ]
    rows = table.to_pylist()
    assert [(row["id"], row["label"], row["probability"]) for row in rows] == [
        (5, "ant", 0.7),
        (9, "cat", 1.0),
    ]
    assert rows[0]["entropy"] == pytest.approx(-sum(p * np.log(p) for p in proba[0]))
    assert rows[1]["entropy"] == 0.0
    assert [row["part"] for row in rows] == [0.5, 0.0]
    with pytest.raises(ValueError, match="'entropy' already"):
        prediction_table([5, 9], ["ant", "bee", "cat"], proba, {"entropy": [0, 0]})


def test_blocks_of_predictions_make_the_whole_table():
    proba = np.random.default_rng(0).dirichlet(np.ones(3), size=10)
    whole = prediction_table(np.arange(10), np.arange(3), proba)
    blocks = [
        prediction_table(np.arange(10)[rows], np.arange(3), proba[rows])
        for rows in (slice(0, 4), slice(4, 4), slice(4, 10))
    ]
    assert pa.concat_tables(blocks).equals(whole)


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "polars"])
def test_predict_frame(kind):
    model = clone(MODELS["gp"]).fit(GRAPH, Y)
    frame = model.predict_frame(nodes=[4, 1], kind=kind)
    table = {"pyarrow": pa.Table, "pandas": pd.DataFrame, "polars": pl.DataFrame}[kind]
    assert isinstance(frame, table)
    columns = {name: np.asarray(frame[name]) for name in ("id", "label", "p(0)", "p(1)", "p(2)")}
    assert columns["id"].tolist() == ["node 4", "node 1"]
    assert columns["label"].tolist() == model.predict(nodes=[4, 1]).tolist()
    np.testing.assert_array_equal(
        np.column_stack([columns[f"p({c})"] for c in range(3)]), model.predict_proba(nodes=[4, 1])
    )
    with pytest.raises(ValueError, match="'pyarrow', 'pandas' or 'polars'"):
        model.predict_frame(kind="excel")


def test_ids_of_a_frame_without_names():
    model = clone(MODELS["gp"]).fit(PLAIN, Y)
    assert model.predict_frame()["id"].to_pylist() == list(range(24))
    on_table = clone(MODELS["gp"]).fit(PLAIN.features, Y)
    assert on_table.predict_frame(nodes=[5])["id"].to_pylist() == [5]
    new = on_table.predict_frame(PLAIN.features[:4], nodes=[3, 0])
    assert new["id"].to_pylist() == [3, 0]
    of_all = on_table.predict_proba(PLAIN.features[:4])
    np.testing.assert_allclose(new["p(1)"], of_all[[3, 0], 1])
    grid = nx.grid_2d_graph(2, 2)
    by_pair = GraphGPClassifier().fit(grid, {(0, 0): "a", (1, 1): "b"})
    assert by_pair.predict_frame()["id"].to_pylist()[1] == "(0, 1)"


def test_a_model_of_named_nodes_is_saved_and_read(tmp_path):
    model = clone(MODELS["gp"]).fit(as_networkx(Y), "topic")
    model.save(tmp_path / "named.nodegp", include_graph=True)
    assert nodegp.load(tmp_path / "named.nodegp").predict_frame().equals(model.predict_frame())
    by_pair = GraphGPClassifier().fit(nx.grid_2d_graph(2, 2), {(0, 0): "a", (1, 1): "b"})
    with pytest.raises(ValueError, match="tuple"):
        by_pair.save(tmp_path / "pairs.nodegp", include_graph=True)
