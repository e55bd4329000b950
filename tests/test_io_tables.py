"""Tables to a graph: ids kept and matched, edges, labels, the summary."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegp.io import TableSource, read_labels, read_tables
from table_files import EDGES, NODES, linked, read

# --- ids --------------------------------------------------------------------------------------

WRITTEN = {
    "numbers": (["3", "-1", "20"], [3, -1, 20]),
    "leading zeros": (["007", "7"], ["007", "7"]),
    "a plus": (["+7", "8"], ["+7", "8"]),
    "beyond 64 bits": ([str(2**64), "7"], [str(2**64), "7"]),
    "up to 64 bits": ([str(2**63 - 1), str(2**63 - 2)], [2**63 - 1, 2**63 - 2]),
    "far apart": ([str(-(2**63)), str(2**63 - 1)], [-(2**63), 2**63 - 1]),
    "words for nothing": (["NA", "null", "nan"], ["NA", "null", "nan"]),
    "like a date": (["2020-01-01", "2020-01-02"], ["2020-01-01", "2020-01-02"]),
    "like a float": (["1.0", "1"], ["1.0", "1"]),
    "like a boolean": (["true", "false"], ["true", "false"]),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_ids_in_text_files_are_kept(files, case):
    written, expected = WRITTEN[case]
    files(nodes_csv="\n".join(["id", *written]), edges_csv=f"s,t\n{written[0]},{written[-1]}\n")
    graph = read().graph
    assert graph.ids.tolist() == expected
    assert (graph.adjacency.nnz, graph.adjacency[0, len(written) - 1]) == (2, 1.0)


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (pa.array([3, 1, 2], pa.int8()), pa.array([1, 2], pa.uint64())),
        (pa.array([3, 1, 2]), pa.array(["1", "2"])),
        (pa.array(["3", "1", "2"]), pa.array([1, 2])),
        (pa.array(["3", "1", "2"]), pa.array(["1", "2"], pa.large_string())),
        (pa.array(["3", "1", "2"]).dictionary_encode(), pa.array([1.0, 2.0])),
        (pa.array([3.0, 1.0, 2.0]), pa.array(["1", "2"]).dictionary_encode()),
    ],
)
def test_ids_of_different_types_are_matched(tmp_path, nodes, edges):
    pq.write_table(pa.table({"id": nodes}), tmp_path / "n.parquet")
    pq.write_table(pa.table({"s": edges, "t": edges[::-1]}), tmp_path / "e.parquet")
    graph = read(tmp_path / "n.parquet", tmp_path / "e.parquet").graph
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0, 0], [0, 0, 1], [0, 1, 0]])
    (tmp_path / "e.csv").write_text("s,t\n1,2\n")
    again = read(tmp_path / "n.parquet", tmp_path / "e.csv").graph
    assert (graph.adjacency != again.adjacency).nnz == 0
    kind = str if pa.types.is_string(nodes.type) or pa.types.is_dictionary(nodes.type) else int
    assert graph.ids.tolist() == [kind(v) for v in (3, 1, 2)]


names = st.lists(
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5)), unique=True, min_size=1
)


@given(ids=names, data=st.data())
def test_positions_of_numbers(ids, data):
    """The lookup of near numbers and the hash of scattered ones, against a dict."""
    from nodegp.io.ids import Index

    asked = data.draw(st.lists(st.one_of(st.sampled_from(ids), st.integers(-(2**63), 2**63 - 1))))
    where = {name: n for n, name in enumerate(ids)}
    found = Index(pa.array(ids, pa.int64())).find(pa.array(asked, pa.int64()))
    assert found.tolist() == [where.get(name, -1) for name in asked]


# --- edges ------------------------------------------------------------------------------------

rows = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from([0.0, 0.5, 1.0, 2.5])),
    max_size=25,
)


@given(rows=rows)
def test_edges_against_a_dictionary(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("edges")
    (folder / "n.csv").write_text("id\n" + "\n".join(f"p{n}" for n in range(5)) + "\n")
    (folder / "e.csv").write_text("w,b,a\n" + "".join(f"{w},p{b},p{a}\n" for a, b, w in rows))
    source = TableSource(
        folder / "n.csv",
        folder / "e.csv",
        edge_columns=("a", 2),
        weight="w",
        ignore_unknown=True,
    )
    known = [(a, b, w) for a, b, w in rows if a < 5 and b < 5]
    if 2 * len(known) < len(rows):
        with pytest.raises(ValueError, match=f"{len(rows) - len(known)} of {len(rows)} edges"):
            read_tables(source)
        return
    loaded = read_tables(source)
    largest: dict[frozenset, float] = {}
    for a, b, w in known:
        if a != b and w > 0:
            largest[frozenset((a, b))] = max(w, largest.get(frozenset((a, b)), 0))
    expected = np.zeros((5, 5))
    for (a, b), w in ((tuple(pair), w) for pair, w in largest.items()):
        expected[a, b] = expected[b, a] = w
    np.testing.assert_array_equal(loaded.graph.adjacency.toarray(), expected)
    summary, loops = loaded.summary, sum(a == b for a, b, _ in known)
    zeros = sum(a != b and w == 0 for a, b, w in known)
    assert summary.unknown_edges == len(rows) - len(known)
    assert (summary.self_loops, summary.zero_weights) == (loops, zeros)
    assert summary.repeated_edges == len(known) - loops - zeros - len(largest)
    assert summary.isolated_nodes == int((expected.sum(axis=1) == 0).sum())


@pytest.mark.parametrize("columns", [None, (1, 2), ("2", "1")])
def test_a_list_of_edges_without_a_header(files, columns):
    files(nodes_csv=NODES, edges_csv="a,b\nb,c\nd,d\n")
    loaded = read(edge_columns=columns)
    assert linked(loaded.graph) == [("a", "b"), ("b", "c")]
    assert loaded.summary.self_loops == 1
    files(edges_csv="a,a\nb,c\n")  # two columns of one name, were it a header
    assert linked(read(edge_columns=columns).graph) == [("b", "c")]


def test_columns_named_like_nodes_are_a_header_if_named(files):
    files(nodes_csv=NODES, edges_csv="a,b\nb,c\n")
    assert linked(read(edge_columns=("a", "b")).graph) == [("b", "c")]


def test_nearest_neighbours_in_place_of_edges(files):
    files(nodes_csv="id,x\na,0\nb,1\nc,10\nd,11.5\n")
    loaded = read_tables(TableSource("nodes.csv", knn=1))
    assert linked(loaded.graph) == [("a", "b"), ("c", "d")]
    assert loaded.summary.components == 2


# --- ids that no node has ---------------------------------------------------------------------

OLD_IDS = "id,new_id,topic\n" + "".join(f"{n},{n + 500},x\n" for n in range(1, 7))
NEW_EDGES = "s,t\n501,502\n503,504\n505,506\n999,501\n"


@pytest.mark.parametrize("ignore_unknown", [False, True])
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_ids_of_another_column_are_found_there(files, format, ignore_unknown):
    files(nodes_csv=OLD_IDS, edges_csv=NEW_EDGES, labels_csv="id,topic\n501,u\n502,v\n")
    nodes = "nodes.csv"
    if format == "parquet":
        nodes = pa.csv.read_csv("nodes.csv").append_column("v", pa.array([[1, 2]] * 6))
    hint = r"{} of these {} ids are values of column 'new_id' of .*: use --id new_id "
    with pytest.raises(ValueError, match=r"^4 of 4 edges of edges\.csv .*" + hint.format(6, 7)):
        read(nodes, label="topic", ignore_unknown=ignore_unknown)
    with pytest.raises(ValueError, match=r"^2 of 2 labels .*" + hint.format(2, 2)):
        read(nodes, labels="labels.csv", ignore_unknown=ignore_unknown)
    assert read(nodes, id="new_id", label="topic", ignore_unknown=True).graph.n_edges == 3


@pytest.mark.parametrize(
    ("written", "spelling"),
    [
        (["1025.0", "7.0"], r"'\.0' at the end, as '1025\.0' from '1025'"),
        (["01025", "007"], "zeros in front, as '01025' from '1025'"),
        (["Ab", "CD"], "upper and lower case, as 'Ab' from 'ab'"),
    ],
)
def test_ids_that_are_written_otherwise_are_told(files, written, spelling):
    plain = ["ab", "cd"] if written[0] == "Ab" else ["1025", "7"]
    files(nodes_csv="\n".join(["id", *plain, "3"]), edges_csv="s,t\n" + ",".join(written) + "\n")
    for ignore_unknown in (False, True):
        with pytest.raises(ValueError, match="2 of these 2 ids differ .* only in " + spelling):
            read(ignore_unknown=ignore_unknown)


def test_spaces_around_ids_of_typed_tables_are_told():
    nodes, edges = pa.table({"id": ["a", "b "]}), pa.table({"s": ["a "], "t": ["b"]})
    with pytest.raises(ValueError, match=r"2 of these 2 ids differ .*spaces around them, as 'a '"):
        read(nodes, edges)


def test_half_of_the_edges_may_be_of_unknown_ids_and_no_more(files):
    files(nodes_csv=NODES, edges_csv="s,t\na,b\nb,zz\n")
    assert read(ignore_unknown=True).summary.unknown_edges == 1
    files(edges_csv="s,t\na,b\nb,zz\nc,yy\n")
    with pytest.raises(ValueError, match=r"2 of 3 edges .*'zz', 'yy'\. That is more than half"):
        read(ignore_unknown=True)


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["3", "", "-1", "3"], [3, None, -1, 3]),
        (["03", "", "1", "x"], ["03", None, "1", "x"]),
        (["1.0", "", "2.0", "1"], [1, None, 2, 1]),
        (["NA", " ", "true", "NA"], ["NA", None, "true", "NA"]),
    ],
)
def test_labels_are_kept(files, written, expected):
    cells = zip("bacd", written, strict=True)
    files(nodes_csv="id,y\n" + "".join(f"{i},{y}\n" for i, y in cells), edges_csv=EDGES)
    loaded = read(label="y")
    assert loaded.labels.tolist() == expected
    y, unlabelled = loaded.targets()
    gap = [value is None if unlabelled is None else value == unlabelled for value in y.tolist()]
    assert gap == [value is None for value in expected]
    assert [v for v, g in zip(y.tolist(), gap, strict=True) if not g] == [
        v for v in expected if v is not None
    ]
    counts = {v: expected.count(v) for v in expected if v is not None}
    assert loaded.summary.classes == counts


def test_labels_from_a_file_of_their_own(files):
    files(nodes_csv=NODES, edges_csv=EDGES, labels_csv="paper,by,topic\nc,me,2\nb,you,\na,me,1\n")
    loaded = read(labels="labels.csv", label="topic")
    assert loaded.labels.tolist() == [None, 1, 2, None]
    assert loaded.summary.labelled == 2


def test_labels_elsewhere_do_not_leak_from_the_nodes(files):
    files(
        nodes_csv="id,x,label\na,1,0\nb,2,1\nc,4,1\n",
        edges_csv=EDGES,
        labels_csv="id,label\na,0\n",
    )
    loaded = read(labels="labels.csv")
    assert loaded.encoder.columns() == ["x"]
    assert loaded.labels.tolist() == [0, None, None]


def test_read_labels(files):
    files(labels_csv="who,score,label\n7,0.3,x\n3,0.2,\n5,0.1,y\n7,0.3,x\n")
    positions, values = read_labels("labels.csv", np.array([3, 5, 7]))
    assert (positions.tolist(), values.tolist()) == ([2, 1], ["x", "y"])
    positions, values = read_labels("labels.csv", ["3", "5", "7"], id="who", label=3)
    assert (positions.tolist(), values.tolist()) == ([2, 1], ["x", "y"])
    with pytest.raises(
        ValueError, match=r"2 of 3 labels of labels\.csv .*no node has: '7'\. Remove"
    ):
        read_labels("labels.csv", [3, 5])
    files(labels_csv="who,score,label\n7,0.3,x\n3,0.2,\n5,0.1,y\n")
    positions, values = read_labels("labels.csv", [3, 5], ignore_unknown=True)
    assert (positions.tolist(), values.tolist()) == ([1], ["y"])


def test_read_labels_in_the_usual_columns_if_they_are_there(files):
    files(labels_csv="by,paper,topic\nme,a,u\nyou,b,v\n")
    for id, label in ((None, None), ("paper", None), (2, "topic")):
        found = read_labels("labels.csv", ["a", "b"], id, label, usual=("paper", "topic"))
        assert [part.tolist() for part in found] == [[0, 1], ["u", "v"]]
    by_hand = read_labels("labels.csv", ["a", "b"], label="by", usual=("paper", "topic"))
    assert by_hand[1].tolist() == ["me", "you"]
    files(labels_csv="id,label\na,u\n")
    assert read_labels("labels.csv", ["a", "b"], usual=("paper", "topic"))[1].tolist() == ["u"]


def test_a_column_of_ids_is_not_taken_for_another_that_is_misspelt(files):
    files(labels_csv="papr,topic\na,u\n")
    with pytest.raises(ValueError, match="column 'papr', and none of the name 'paper'"):
        read_labels("labels.csv", ["a", "b"], usual=("paper", "topic"))
    for id in ("papr", 1):
        assert read_labels("labels.csv", ["a", "b"], id, usual=("paper", "topic"))[0].tolist() == [
            0
        ]


def test_a_label_without_an_id_is_found_in_its_row_of_the_file(files):
    """Rows without a label are skipped, and used to be left out of the count."""
    files(labels_csv="who,label\n1,\n,\n,u\n2,v\n")
    with pytest.raises(ValueError, match=r"'who' of labels\.csv has no id in row 3 \(1 rows"):
        read_labels("labels.csv", [1, 2])


def test_read_labels_in_the_type_of_the_classes(files):
    files(labels_csv="id,label\na,1\nb,2\n")
    assert read_labels("labels.csv", ["a", "b"])[1].tolist() == [1, 2]
    text = read_labels("labels.csv", ["a", "b"], classes=np.array(["1", "x"]))
    assert text[1].tolist() == ["1", "2"]
    files(labels_csv="id,label\na,1\nb,red\n")
    with pytest.raises(ValueError, match=r"labels that are text.*classes are numbers"):
        read_labels("labels.csv", ["a", "b"], classes=np.array([1, 2]))


# --- the summary ------------------------------------------------------------------------------


def test_the_summary_says_what_came_in(files):
    files(
        nodes_csv="id,x,same,gap,day,note,y\na,1,7,1,2020-01-01,u,p\nb,2,7,,2020-01-01,v,\n"
        "c,4,7,3,2020-01-01,w,q\nd,4,7,4,2020-01-02,w,p\n",
        edges_csv="s,t\na,b\nb,a\na,b\nc,c\na,nobody\n",
    )
    loaded = read(label="y", ignore_unknown=True)
    lines = dict(loaded.summary.rows())
    assert lines["nodes"] == "4"
    assert lines["edges"] == "1"
    assert lines["classes"] == "p 2, q 1"
    assert lines["labelled"] == "3 (75.0 % of the nodes)"
    assert lines["components"] == "3 (largest: 2 nodes)"
    assert lines["isolated nodes"] == "2"
    assert lines["repeated edges"].startswith("2 ")
    assert lines["self-loops"].startswith("1")
    assert lines["edges to unknown ids"].startswith("1")
    assert lines["columns dropped"] == "same (constant)"
    assert lines["columns left out"] == "day (date32[day]), note (text)"
    assert lines["missing numbers"].startswith("gap 1")
    again = json.loads(json.dumps(loaded.summary.to_dict()))
    assert again["classes"] == [{"label": "p", "count": 2}, {"label": "q", "count": 1}]
    assert again["labelled"] == 3


def test_rows_without_any_word_are_empty(files):
    files(nodes_csv="id,words\na,red fox\nb,\nc,red cat\nd,unheard\n", edges_csv="s,t\na,b\n")
    assert read(text=["words"]).summary.empty_rows == 2


def test_a_row_at_the_mean_is_not_empty(files):
    files(nodes_csv="id,x\na,1\nb,2\nc,3\n", edges_csv="s,t\na,b\n")
    loaded = read()
    assert loaded.graph.features[1, 0] == 0
    assert loaded.summary.empty_rows == 0


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("python_calamine", "nodes.xlsx", "excel"), ("networkx", "nodes.gml", "interop")],
)
def test_what_to_install_is_said(tmp_path, monkeypatch, package, name, extra):
    (tmp_path / name).write_text("x")
    monkeypatch.setitem(sys.modules, package, None)
    what = {"graph": tmp_path / name} if package == "networkx" else {"nodes": tmp_path / name}
    with pytest.raises(ImportError, match=rf"{name} needs .*: pip install 'nodegp\[{extra}\]'"):
        read_tables(TableSource(**what, knn=None if "graph" in what else 1))
