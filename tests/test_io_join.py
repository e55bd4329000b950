"""New rows joined to a known graph, and a model file that remembers its tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import nodegp
from nodegp import Graph, GraphGPClassifier
from nodegp.io import Encoder, TableSource, join_tables, read_tables
from nodegp.persistence import save

NODES = "id,x,colour,note,y\na,1,red,old cat,u\nb,2,blue,old dog,v\nc,4,red,cat dog,\nd,5,,cat,v\n"
EDGES = "s,t,w\na,b,1\nb,c,2\nc,d,1\n"
KINDS = {"features": ["x", "colour"], "text": ["note"]}


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_files(**contents):
        for name, content in contents.items():
            (tmp_path / f"{name}.csv").write_text(content)

    write_files(nodes=NODES, edges=EDGES)
    return write_files


def known(**settings):
    return read_tables(TableSource("nodes.csv", "edges.csv", label="y", weight="w", **settings))


def dense(features):
    return features.toarray() if sp.issparse(features) else features


@pytest.mark.parametrize(("name", "expected"), [("id", "f"), ("node", "g")])
def test_ids_in_the_usual_column_if_it_is_there(write, name, expected):
    loaded = known(**KINDS)
    write(more=f"first,x,colour,note,{name}\ng,4,red,cat,f\n")
    graph, _ = join_tables(loaded.graph, loaded.encoder, "more.csv", usual_id="id")
    assert graph.ids.tolist()[4:] == [expected]


def test_new_nodes_follow_the_known_ones(write):
    loaded = known(**KINDS)
    write(
        more="note,id,colour,x\ncat,f,red,4\nbird,e,green,5\n",
        links="s,t,w\nf,a,3\ne,f,1\nb,c,5\na,b,0.5\n",
    )
    graph, asked = join_tables(
        loaded.graph, loaded.encoder, "more.csv", "links.csv", id="id", weight="w"
    )
    assert graph.ids.tolist() == ["a", "b", "c", "d", "f", "e"]
    assert asked.tolist() == [4, 5]
    expected = np.zeros((6, 6))
    for i, j, w in [(0, 1, 1), (1, 2, 5), (2, 3, 1), (4, 0, 3), (5, 4, 1)]:
        expected[i, j] = expected[j, i] = w
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    old, new = dense(graph.features)[:4], dense(graph.features)[4:]
    np.testing.assert_array_equal(old, dense(loaded.graph.features))
    # Columns: x, blue, red, cat, dog, old. A colour or a word not met before leaves no trace.
    np.testing.assert_array_equal(new[:, 0], old[[2, 3], 0])
    np.testing.assert_array_equal(new[:, 1:3], [[0, old[0, 2]], [0, 0]])
    np.testing.assert_array_equal(new[0, 3:], old[3, 3:])
    np.testing.assert_array_equal(new[1, 3:], 0)


def test_all_rows_again_change_nothing(write):
    loaded = known(**KINDS)
    graph, asked = join_tables(loaded.graph, loaded.encoder, "nodes.csv", "edges.csv", weight="w")
    assert asked.tolist() == [0, 1, 2, 3]
    assert (graph.adjacency != loaded.graph.adjacency).nnz == 0
    np.testing.assert_array_equal(dense(graph.features), dense(loaded.graph.features))


@pytest.mark.parametrize("settings", [{}, KINDS], ids=["dense", "sparse"])
def test_rows_of_known_nodes_take_their_place(write, settings):
    loaded = known(**settings)
    write(more="id,x,colour,note\nz,2,red,cat\nc,1,red,old cat\n")
    graph, asked = join_tables(loaded.graph, loaded.encoder, "more.csv")
    assert graph.ids.tolist() == ["a", "b", "c", "d", "z"]
    assert asked.tolist() == [4, 2]
    features, before = dense(graph.features), dense(loaded.graph.features)
    np.testing.assert_array_equal(features[2], before[0])
    np.testing.assert_array_equal(features[[0, 1, 3]], before[[0, 1, 3]])
    assert graph.adjacency[[4]].nnz == 0


def test_gaps_in_new_rows(write):
    loaded = known()
    write(more="id,x\ne,\nf,\n")
    graph, asked = join_tables(loaded.graph, loaded.encoder, "more.csv")
    np.testing.assert_allclose(graph.features[asked], 0, atol=1e-15)  # the mean


def test_new_nodes_linked_to_the_nearest(write):
    loaded = read_tables(TableSource("nodes.csv", knn=1))
    write(more="id,x\ne,4.4\nf,1.1\n")
    graph, asked = join_tables(loaded.graph, loaded.encoder, "more.csv", knn=1)
    links = graph.adjacency[asked].toarray()
    np.testing.assert_array_equal(links, [[0, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]])


def test_ids_of_another_type_make_all_text(write):
    write(nodes="id,x\n1,1\n2,2\n", edges="s,t\n1,2\n", more="id,x\nnew,3\n", links="s,t\nnew,2\n")
    loaded = read_tables(TableSource("nodes.csv", "edges.csv"))
    assert loaded.graph.ids.tolist() == [1, 2]
    graph, _ = join_tables(loaded.graph, loaded.encoder, "more.csv", "links.csv")
    assert graph.ids.tolist() == ["1", "2", "new"]
    assert graph.adjacency[2, 1] == 1


def test_nodes_without_features_are_known_by_position(write):
    write(nodes="id,y\na,u\nb,v\nc,\n", edges="s,t\na,b\nb,c\n")
    loaded = read_tables(TableSource("nodes.csv", "edges.csv", label="y"))
    y, unlabelled = loaded.targets()
    model = GraphGPClassifier(preprocessing="raw", unlabelled=unlabelled).fit(loaded.graph, y)
    write(more="id\nd\n", links="s,t\nd,a\n")
    graph, asked = join_tables(loaded.graph, loaded.encoder, "more.csv", "links.csv")
    assert model.predict(graph, asked).tolist() == ["u"]
    with pytest.raises(ValueError, match="no features, so new nodes need edges"):
        join_tables(loaded.graph, loaded.encoder, "more.csv", knn=2)


@pytest.mark.parametrize(
    ("more", "links", "match"),
    [
        ("id,colour\ne,red\n", None, r"more\.csv has no column 'x'; the model needs"),
        ("id,x\ne,big\n", None, r"'x' of more\.csv holds text, not numbers: 'big' in row 1"),
        ("id,x\n", None, r"more\.csv has a header but no rows"),
        ("id,x\ne,1\ne,2\n", None, "'e' in row 2"),
        ("id,x\ne,1\n", "s,t\ne,nobody\n", "'nobody'"),
    ],
)
def test_bad_rows(write, more, links, match):
    loaded = known()
    write(more=more, links=links or "s,t\n")
    with pytest.raises(ValueError, match=match):
        join_tables(loaded.graph, loaded.encoder, "more.csv", "links.csv")


def test_other_graphs_cannot_be_joined(write):
    loaded = known()
    bare = Graph(loaded.graph.adjacency, loaded.graph.features)
    with pytest.raises(ValueError, match="has no ids"):
        join_tables(bare, loaded.encoder, "nodes.csv")
    other = Graph(loaded.graph.adjacency, np.ones((4, 7)), loaded.graph.ids)
    with pytest.raises(ValueError, match="not made by this encoder"):
        join_tables(other, loaded.encoder, "nodes.csv")


# --- model files ------------------------------------------------------------------------------


def test_a_model_file_carries_graph_and_encoder(write):
    loaded = known(**KINDS)
    y, unlabelled = loaded.targets()
    model = GraphGPClassifier(preprocessing="raw", unlabelled=unlabelled).fit(loaded.graph, y)
    tables = {"encoder": loaded.encoder.to_dict(), "id": "id"}
    save(model, "m.nodegp", include_graph=True, tables=tables)
    again = nodegp.load("m.nodegp")
    assert again.tables_ == json.loads(json.dumps(tables))
    assert again.graph_.ids.tolist() == list("abcd")
    write(more="id,x,colour,note\ne,2,red,cat\n", links="s,t\ne,a\n")
    encoder = Encoder.from_dict(again.tables_["encoder"])
    before, asked = join_tables(loaded.graph, loaded.encoder, "more.csv", "links.csv")
    after, _ = join_tables(again.graph_, encoder, "more.csv", "links.csv")
    np.testing.assert_array_equal(
        model.predict_proba(before, asked), again.predict_proba(after, asked)
    )
    again.save("twice.nodegp")
    assert nodegp.load("twice.nodegp").tables_ == again.tables_


def test_a_model_without_tables_says_nothing_of_them(write):
    loaded = known()
    model = GraphGPClassifier().fit(loaded.graph, np.array([0, 1, -1, 1]))
    save(model, "m.nodegp")
    assert not hasattr(nodegp.load("m.nodegp"), "tables_")
