"""``nodegp.prepare``: the store of some tables is the graph of the same tables, to the bit."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nodegp
from nodegp.store import open_store, store_graph
from nodegp.store.runs import MOST_NODES, SortedRuns, edge_keys, rows_of_keys
from stores import assert_same, graph_of, tables, write


@pytest.mark.parametrize("kind", ["parquet", "csv", "txt"])
@pytest.mark.parametrize("ids", ["integer", "far", "text"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_store_is_the_graph_of_the_same_tables(tmp_path, kind, ids, weighted):
    nodes, edges = tables(ids=ids, weighted=weighted)
    store = nodegp.prepare(
        write(tmp_path / "n", nodes, kind, 3), write(tmp_path / "e", edges, kind, 4),
        tmp_path / "store", weight="w" if weighted else None, part_entries=30,
    )  # fmt: skip
    graph = graph_of(nodes, edges, "w" if weighted else None)
    assert_same(store, graph)
    assert store.n_parts > 3
    assert store.feature_names == ("x0", "x1", "x2")
    assert graph.ids is not None
    assert np.array_equal(store.positions(graph.ids[[5, 3]].tolist()), [5, 3])
    assert not (tmp_path / "store" / "building").exists()
    # To the byte what a graph in memory is stored as, whatever way it came.
    same = store_graph(graph, tmp_path / "same", part_entries=30)
    records = [
        {name: one.sha256 for name, one in s.manifest.files.items() if not name.startswith("feat")}
        for s in (store, same)
    ]
    assert records[0] == records[1]


names = {
    "whole numbers": st.integers(-9, 30),
    "far apart": st.integers(-(2**63), 2**63 - 1),
    "text": st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1),
}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_small_tables(tmp_path_factory, data):
    """Duplicates in both directions, loops, weights of zero, hubs, nodes without edges."""
    folder = tmp_path_factory.mktemp("any")
    kind = names[data.draw(st.sampled_from(list(names)))]
    ids = data.draw(st.lists(kind, unique=True, min_size=1, max_size=12))
    one = st.sampled_from(ids)
    weight = st.sampled_from([0.0, 0.25, 1.0, 3.0])
    rows = data.draw(st.lists(st.tuples(one, one, weight), max_size=40))
    is_weighted = data.draw(st.booleans())
    values = data.draw(
        st.lists(st.floats(-1e9, 1e9, width=32), min_size=len(ids), max_size=len(ids))
    )
    nodes = pa.table({"name": ids, "x": pa.array(values, pa.float32())})
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    kinds = [nodes.schema.field("name").type] * 2 + [pa.float64()]
    edges = pa.table(
        {
            name: pa.array(values, kind)
            for name, values, kind in zip(("from", "to", "w"), columns, kinds, strict=True)
        }
    )
    for table, name in ((nodes, "n"), (edges, "e")):
        pa.parquet.write_table(table, folder / f"{name}.parquet", row_group_size=3)
    weight_column = "w" if is_weighted else None
    store = nodegp.prepare(
        folder / "n.parquet", folder / "e.parquet", folder / "s", id="name", features=["x"],
        weight=weight_column, part_entries=data.draw(st.integers(1, 20)),
    )  # fmt: skip
    assert_same(store, graph_of(nodes, edges, weight_column, features=["x"]))
    assert store.feature_dtype == np.float32


def test_ids_that_are_numbers_in_one_table_and_text_in_another(tmp_path):
    nodes, edges = tables(ids="integer")
    as_text = edges.astype({"from": str, "to": str})
    expected = graph_of(nodes, edges)
    write(tmp_path / "n", nodes)
    store = nodegp.prepare(tmp_path / "n", write(tmp_path / "e", as_text), tmp_path / "a")
    assert_same(store, expected)
    texts = nodes.astype({"name": str})
    store = nodegp.prepare(
        write(tmp_path / "t", texts), write(tmp_path / "f", edges), tmp_path / "b"
    )
    assert_same(store, graph_of(texts, as_text))
    far = pd.DataFrame({"name": [2**63 - 1, -(2**63), 7]})
    ends = pd.DataFrame({"from": [str(2**63 - 1)], "to": [str(-(2**63))]})
    store = nodegp.prepare(write(tmp_path / "u", far), write(tmp_path / "g", ends), tmp_path / "c")
    assert store.n_edges == 1
    for odd in (str(2**63), "007", "+7", "1" + "0" * 18 + "0", "seven"):
        with pytest.raises(ValueError, match="1 of 1 edges"):
            nodegp.prepare(
                tmp_path / "u", pd.DataFrame({"from": [odd], "to": ["7"]}), tmp_path / "d"
            )


def test_a_column_of_numbers_that_turns_out_to_be_text(tmp_path):
    """As in a table that is read whole: one id such as 007 makes all of them text."""
    nodes = pd.DataFrame({"name": ["1", "2", "007"], "x": [1.5, 2.0, 3.0]})
    edges = pd.DataFrame({"from": ["1", "007"], "to": ["2", "1"]})
    write(tmp_path / "n", nodes, "csv", 3)
    store = nodegp.prepare(tmp_path / "n", write(tmp_path / "e", edges, "csv", 2), tmp_path / "s")
    assert store.ids_of(0).tolist() == ["1", "2", "007"]
    assert store.n_edges == 2


def test_lists_and_precision(tmp_path):
    nodes = pa.table(
        {
            "name": pa.array(range(30)),
            "v": pa.array(np.random.default_rng(0).standard_normal((30, 4)).tolist(),
                          pa.list_(pa.float32(), 4)),
            "n": pa.array(np.arange(30) % 7, pa.int8()),
        }
    )  # fmt: skip
    pa.parquet.write_table(nodes, tmp_path / "n.parquet")
    edges = pd.DataFrame({"from": [1, 2], "to": [3, 4]})
    store = nodegp.prepare(tmp_path / "n.parquet", edges, tmp_path / "s")
    assert_same(store, graph_of(nodes, edges))
    assert store.feature_dtype == np.float32
    assert store.feature_names == ("v[0]", "v[1]", "v[2]", "v[3]", "n")


def test_what_is_left_out_is_said(tmp_path):
    nodes, edges = tables()
    nodes["topic"], nodes["user_id"], nodes["y"] = "a", np.arange(40) * 3, 1
    store = nodegp.prepare(nodes, edges, tmp_path / "s", exclude=["y"])
    assert store.feature_names == ("x0", "x1", "x2")
    assert store.manifest.source["left_out"] == {"topic": "text", "user_id": "named like an id"}
    store = nodegp.prepare(nodes, edges, tmp_path / "t", features=["user_id"])
    assert store.feature_names == ("user_id",)
    store = nodegp.prepare(nodes, edges, tmp_path / "u", features=[])
    assert not store.has_features


def test_what_came_in_is_counted(tmp_path):
    nodes = pd.DataFrame({"name": ["a", "b", "c"]})
    rows = [
        ("a", "b", 1),
        ("b", "a", 2),
        ("a", "b", 1),
        ("c", "c", 1),
        ("c", "z", 1),
        ("b", "c", 0),
    ]
    edges = pd.DataFrame(rows, columns=["from", "to", "w"])
    store = nodegp.prepare(
        nodes, edges, tmp_path / "s", weight="w", ignore_unknown=True, features=[]
    )
    assert store.manifest.source["edge_rows"] == {
        "rows": 6, "used": 3, "unknown": 1, "self_loops": 1, "zero_weights": 1
    }  # fmt: skip
    assert store.n_edges == 1
    assert store.edges(0).toarray().tolist() == [[0, 2, 0], [2, 0, 0], [0, 0, 0]]


def test_a_first_line_that_is_an_edge(tmp_path):
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "1.csv").write_text("a,b\nb,c\n")
    (tmp_path / "e" / "2.csv").write_text("from,to\nc,d\n")
    (tmp_path / "n.csv").write_text("name,x\na,1\nb,2\nc,4\nd,4\n")
    store = nodegp.prepare(tmp_path / "n.csv", tmp_path / "e", tmp_path / "s")
    assert store.n_edges == 3


def test_comments_tabs_and_decimal_commas(tmp_path):
    (tmp_path / "e.txt").write_text("# a graph\n# of two\n1\t2\n2   3\n".replace("   ", "\t"))
    (tmp_path / "f.txt").write_text("# a graph\n1   2\n2 3\n")
    (tmp_path / "n.csv").write_text("name;x;z\n1;0,5;1\n2;1,25;2\n3;-3;2\n")
    for name in ("e", "f"):
        store = nodegp.prepare(tmp_path / "n.csv", tmp_path / f"{name}.txt", tmp_path / name)
        assert store.n_edges == 2
        assert store.features_of(0).tolist() == [[0.5, 1], [1.25, 2], [-3, 2]]


def test_compressed_files(tmp_path):
    nodes, edges = tables()
    nodes.to_csv(tmp_path / "n.csv.gz", index=False)
    edges.to_csv(tmp_path / "e.tsv.gz", index=False, sep="\t")
    store = nodegp.prepare(tmp_path / "n.csv.gz", tmp_path / "e.tsv.gz", tmp_path / "s")
    assert_same(store, graph_of(nodes, edges))


@pytest.mark.parametrize("ids", [[5, 9, 5, 9, 5], [5, 2**60, 5, 2**60, 5], ["b", "a"] * 2 + ["b"]])
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_ids_that_are_there_twice(tmp_path, monkeypatch, ids, chunk):
    """Wherever they stand: in one chunk of ids, or in several."""
    monkeypatch.setattr("nodegp.ingest.node_ids._CHUNK", chunk)
    first, second = (repr(name) for name in ids[2:4])
    message = rf"has 3 ids that were there before: {first} in row 3, {second} in row 4, {first} in"
    with pytest.raises(ValueError, match=message):
        nodegp.prepare(
            pd.DataFrame({"name": ids}), pd.DataFrame({"a": ids, "b": ids}), tmp_path / "s"
        )


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_runs_and_ranges_of_any_size_give_the_same(tmp_path_factory, data):
    """Sorting on disk is sorting, with the largest of what equal keys carry."""
    folder = tmp_path_factory.mktemp("runs")
    number = st.sampled_from([0, 1, 2, 3, 700, 2**31, 2**32 - 1])
    rows = data.draw(st.lists(st.tuples(number, number, st.integers(1, 9)), max_size=60))
    runs = SortedRuns(folder, carries=True, is_largest=True)
    for row in rows:
        entry = [np.array([value]) for value in row]
        runs.add(edge_keys(*entry[:2]), entry[2].astype(float))
        if data.draw(st.booleans()):
            runs.flush()
    runs.flush()
    start = data.draw(number)
    found = {}
    for first, stop, (keys, weights) in runs.ranges(data.draw(st.integers(1, 50)), start):
        lengths, columns = rows_of_keys(keys, first, first, MOST_NODES)  # of no row
        assert len(lengths) == 0
        assert columns.dtype == np.int64
        for key, weight in zip(keys.tolist(), weights.tolist(), strict=True):
            assert first <= key >> 32 < stop
            found[key >> 32, key & (2**32 - 1)] = weight
    expected: dict[tuple[int, int], int] = {}
    for i, j, weight in rows:
        if i >= start:
            expected[i, j] = max(weight, expected.get((i, j), 0))
    assert found == expected
    assert list(found) == sorted(found)


# --- errors -------------------------------------------------------------------------------------


def bad(change, message, error=ValueError, **options):
    return pytest.param(change, message, error, options, id=message[:40])


@pytest.mark.parametrize(
    ("change", "message", "error", "options"),
    [
        bad({"to": ["a", "z"]}, r"1 of 2 edges \(first in row 2 of .*\) name ids that no node has: "
            r"'z'\. Add them, or pass --ignore-unknown .* look like 'a', 'b', 'c'\."),
        bad({"to": ["y", "z"]}, "more than half", ignore_unknown=True),
        bad({"name": ["a", "b", "a"]}, "has 1 ids that were there before: 'a' in row 3"),
        bad({"name": ["a", None, "c"]}, "has no id in row 2"),
        bad({"x": [1.0, None, 2.0]}, "column 'x' of .* has no value in row 2; fill it"),
        bad({"x": [1.0, np.inf, 2.0]}, "infinite or far too large number in row 2"),
        bad({"w": [1.0, -2.0]}, "negative weight, -2, in row 2", weight="w"),
        bad({"w": [1.0, None]}, "has no weight in row 2", weight="w"),
        bad({}, "no column 'no' for ids", id="no"),
        bad({}, "no column 'no' for edges", source="no"),
        bad({}, "no column 'no' for weights", weight="no"),
        bad({}, "two different columns", source="to", target="to"),
        bad({"x": ["red", "blue", "red"]}, "no categories; name it in --text", features=["x"]),
        bad({}, "svd reduces wide sparse features, and there are none", svd=8),
        bad({}, "svd must be at least 1", svd=0),
        bad({"t": ["we met", "we ate", "no"]}, "reduce them with --svd 128", text=["t"]),
        bad({}, "memory must be at least 64MiB", memory="1MB"),
        bad({}, "'lots' is no size of memory", memory="lots"),
        bad({}, "part_entries must be at least 1", part_entries=0),
        bad({}, "features must be a list", TypeError, features="x"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_errors(tmp_path, change, message, error, options, kind):
    nodes = {"name": ["a", "b", "c"], "x": [1.0, 2.0, 3.5]}
    edges = {"from": ["a", "b"], "to": ["b", "c"]}
    for name, values in change.items():
        (edges if name in ("from", "to", "w") else nodes)[name] = values
    folders = [
        write(tmp_path / name, pd.DataFrame(table), kind)
        for name, table in (("n", nodes), ("e", edges))
    ]
    with pytest.raises(error, match=message):
        nodegp.prepare(*folders, tmp_path / "s", **options)
    assert not (tmp_path / "s" / "manifest.json").exists()


def test_errors_of_files_and_folders(tmp_path):
    nodes, edges = tables()
    write(tmp_path / "n", nodes)
    write(tmp_path / "e", edges)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        nodegp.prepare(tmp_path / "x", tmp_path / "e", tmp_path / "s")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").write_text("")
    (tmp_path / "empty" / "readme.md").write_text("")
    with pytest.raises(ValueError, match="has no file of a table"):
        nodegp.prepare(tmp_path / "n", tmp_path / "empty", tmp_path / "s")
    nodes.rename(columns={"x1": "y1"}).to_parquet(tmp_path / "n" / "9.parquet")
    with pytest.raises(ValueError, match=r"9\.parquet has no column 'x1', which .*0\.parquet has"):
        nodegp.prepare(tmp_path / "n", tmp_path / "e", tmp_path / "s")
    (tmp_path / "n" / "9.parquet").write_bytes(b"PAR1 and more")
    with pytest.raises(ValueError, match=r"9\.parquet is not a Parquet file, or is damaged"):
        nodegp.prepare(tmp_path / "n", tmp_path / "e", tmp_path / "s")
    pd.DataFrame({"name": []}).to_csv(tmp_path / "nobody.csv", index=False)
    with pytest.raises(ValueError, match="has no rows"):
        nodegp.prepare(tmp_path / "nobody.csv", tmp_path / "e", tmp_path / "s")
    with pytest.raises(FileNotFoundError, match="no folder"):
        nodegp.prepare(nodes, edges, tmp_path / "no" / "s")


def test_a_cell_that_is_no_number_is_named(tmp_path, monkeypatch):
    lines = [f"{n},{n % 5}.5\n" for n in range(20_000)]
    lines[12_000] = "12000,oops\n"
    (tmp_path / "n.csv").write_text("name,x\n" + "".join(lines))
    edges = pd.DataFrame({"from": [1], "to": [2]})
    store = nodegp.prepare(tmp_path / "n.csv", edges, tmp_path / "s")
    found = store.manifest.source["left_out"]["x"]
    assert found == "text, as 'oops' in row 12001 is no number"
    monkeypatch.setattr("nodegp.io.delimited._SMALL_BLOCK", 1 << 12)  # now it comes after the look
    with pytest.raises(ValueError, match=r"column 'x' of .*n\.csv cannot be read: .*oops"):
        nodegp.prepare(tmp_path / "n.csv", edges, tmp_path / "t")


def test_a_store_that_is_there_is_kept(tmp_path):
    nodes, edges = tables()
    first = nodegp.prepare(nodes, edges, tmp_path / "s")
    with pytest.raises(FileExistsError, match=r"stored graph already; .* --force"):
        nodegp.prepare(nodes, edges, tmp_path / "s")
    assert open_store(tmp_path / "s", verify=True).fingerprint == first.fingerprint
    other = nodegp.prepare(nodes[:20], edges[:0], tmp_path / "s", force=True)
    assert (other.n_nodes, other.n_edges) == (20, 0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    with pytest.raises(FileExistsError, match="not empty"):
        nodegp.prepare(nodes, edges, tmp_path / "mine", force=True)
    assert json.loads((tmp_path / "s" / "manifest.json").read_text())["n_nodes"] == 20
