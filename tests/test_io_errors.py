"""Bad files: one or two sentences with the file's name, and what to do where that is known."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodegp.io import TableSource, read_tables

NODES = b"id,x,topic\n1,0.5,u\n2,1.5,\n3,3.5,v\n"
EDGES = b"s,t,w\n1,2,1\n2,3,0.5\n"


def refused(folder, match, error=ValueError, nodes="nodes.csv", edges="edges.csv", **options):
    """Check that reading fails with such an error, of one line and no more than two sentences."""
    with pytest.raises(error, match=match) as caught:
        read_tables(TableSource(folder / nodes, folder / edges, **{"label": "topic", **options}))
    message = str(caught.value).replace(str(folder), "")
    assert "\n" not in message
    assert len(message) < 400
    return message


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nodes.csv").write_bytes(NODES)
    (tmp_path / "edges.csv").write_bytes(EDGES)
    return tmp_path


def parquet(columns):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


PARQUET = parquet({"id": [1, 2, 3], "topic": ["u", None, "v"]})
GARBAGE = np.random.default_rng(0).bytes(5000)

BAD_NODES = {
    "empty": ("n.csv", b"", r"n\.csv is empty"),
    "empty lines": ("n.csv", b"\n\r\n\n", "only empty lines"),
    "header alone": ("n.csv", b"id,x,topic\n", "a header but no rows"),
    "garbage": ("n.csv", GARBAGE, r"n\.csv is not a text file"),
    "half of utf-16": ("n.csv", NODES.decode().encode("utf-16")[:-1], "text in its encoding"),
    "an archive": ("n.csv", b"PK\3\4 and so on", r"name must end in \.xlsx"),
    "comments alone": ("n.txt", b"# nothing\n\n", "only empty lines"),
    "not Excel": ("n.xlsx", NODES, r"n\.xlsx is not an Excel file, or is damaged"),
    "not JSON": ("n.json", NODES, r"n\.json is not JSON, or is damaged: see line 1"),
    "half of JSON": ("n.jsonl", b'{"id": 1}\n\n{"id": \n', "not JSON, or is damaged: see line 3"),
    "JSON of no table": ("n.json", b'{"a": 1}', "holds no table: that is a list of records"),
    "JSON of another encoding": ("n.json", b'[{"id": "\xe9"}]', "not text in its encoding"),
    "numbers below zero": (
        "n.json",
        b'[{"id": 1, "topic": "u", "v": [1, -2]}, {"id": 2, "v": [3]}]',
        r"'v' .*numbers of features, and -2 in one of them",
    ),
    "open quote": ("n.csv", b'id,x,topic\n1,2,"u\n2,3,v\n', r"line break in row 1; is a quote"),
    "short line": ("n.csv", NODES + b"4,5\n", r"line 5 of .*n\.csv has 2 fields.* has 3"),
    "long line": ("n.csv", NODES + b"4,5,6,7\n", r"line 5 of .*n\.csv has 4 fields.* has 3"),
    "repeated ids": (
        "n.csv",
        NODES + b"4,1,u\n3,1,u\n1,1,u\n",
        r"2 ids .*: 3 in row 5, 1 in row 6",
    ),
    "no id": ("n.csv", NODES + b",1,u\n", r"'id' of .*n\.csv has no id in row 4"),
    "spaces for an id": ("n.csv", NODES + b"  ,1,u\n", "has no id in row 4"),
    "no labels": ("n.csv", b"id,topic\n1,\n2,\n", "'topic' of .* is empty: no node has a label"),
    "fractions": ("n.csv", b"id,topic\n1,0.5\n2,1.5\n", "'topic' .*fractions"),
    "infinity": (
        "n.csv",
        b"id,x,topic\n1,1,u\n2,-inf,u\n",
        "'x' .*far too large number in row 2",
    ),
    "columns of one name": ("n.csv", b"id,x,x,topic\n1,2,3,u\n", "more than one column named 'x'"),
    "not gzip": ("n.csv.gz", NODES, "not a gzip file"),
    "half a gzip file": ("n.csv.gz", gzip.compress(NODES * 99)[:60], "gzip file, or is damaged"),
    "gzip by another name": ("n.csv", gzip.compress(NODES), r"ends in \.gz"),
    "not Parquet": ("n.parquet", NODES, "not a Parquet file"),
    "half a Parquet file": ("n.parquet", PARQUET[:200], "not a Parquet file, or is damaged"),
    "Parquet by another name": ("n.csv", PARQUET, r"ends in \.parquet"),
    "another kind": ("n.docx", NODES, r"n\.docx is of no kind"),
    "ids that are fractions": ("n.parquet", parquet({"id": [0.5], "topic": ["u"]}), "fractions"),
    "ids that are lists": (
        "n.parquet",
        parquet({"id": [[1]], "topic": ["u"]}),
        "'id' .*holds list",
    ),
    "a gap among ids": ("n.parquet", parquet({"id": [1, None], "topic": ["u"] * 2}), "in row 2"),
    "ragged lists": (
        "n.parquet",
        parquet({"id": [1, 2], "v": [[1.0], [1.0, 2.0]], "topic": ["u"] * 2}),
        "'v' .*lists of different lengths",
    ),
    "a gap in a list": (
        "n.parquet",
        parquet({"id": [1, 2], "v": [[1.0, None], [1.0, 2.0]], "topic": ["u"] * 2}),
        "'v' .*a gap, NaN, infinity",
    ),
}


@pytest.mark.parametrize("case", BAD_NODES)
def test_bad_nodes(folder, case):
    name, content, match = BAD_NODES[case]
    (folder / name).write_bytes(content)
    assert name in refused(folder, match, nodes=name)


BAD_EDGES = {
    "empty": (b"", {}, "is empty"),
    "one column": (b"s\n1\n", {}, "one column, 's'; edges need two"),
    "spaces": (b"1 2\n2 3\n", {}, "one column, '1 2'"),
    "unknown ids": (
        EDGES + b"9,2,1\n3,8,1\n",
        {},
        r"2 of 4 edges .*\(first in row 3\) name .*: '9', '8'\. Add",
    ),
    "a gap": (EDGES + b",2,1\n", {}, "'s' .*no id in row 3"),
    "negative weight": (
        EDGES + b"1,3,-2\n",
        {"weight": "w"},
        "'w' .*negative weight, -2, in row 3",
    ),
    "no weight": (EDGES + b"1,3,\n", {"weight": "w"}, "'w' .*no weight in row 3"),
    "weight NaN": (EDGES + b"1,3,nan\n", {"weight": "w"}, "'w' .*no weight in row 3"),
    "text for a weight": (EDGES + b"1,3,big\n", {"weight": 3}, "'w' .*text.*'big' in row 3"),
    "infinite weight": (
        EDGES + b"1,3,inf\n",
        {"weight": "w"},
        "'w' .*too large number in row 3",
    ),
    "one column twice": (EDGES, {"edge_columns": ("s", 1)}, "two different columns"),
    "three columns": (EDGES, {"edge_columns": ("s", "t", "w")}, "must be two columns"),
    "position 0": (EDGES, {"edge_columns": (0, 1)}, "no column 0 .*count from 1"),
    "position 9": (EDGES, {"edge_columns": (1, 9)}, "no column 9 .*has 3 columns"),
    "misspelt": (EDGES, {"weight": "W"}, "no column 'W' for weights; it has 's', 't', 'w'"),
}


@pytest.mark.parametrize("case", BAD_EDGES)
def test_bad_edges(folder, case):
    content, options, match = BAD_EDGES[case]
    (folder / "edges.csv").write_bytes(content)
    refused(folder, match, **options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"label": "topik"}, r"no column 'topik' for labels; it has .*Did you mean 'topic'\?"),
        ({"id": "topic"}, "cannot be both id and label"),
        ({"text": ["topic"]}, "'topic' .*named twice, as the label and as text"),
        ({"features": ["x"], "text": ["x"]}, "named twice, as a feature and as text"),
        ({"features": ["nothing"]}, "no column 'nothing' for features"),
        ({"text": ["x"]}, "no word that two nodes share"),
        ({"labels": "nowhere.csv"}, r"there is no file .*nowhere\.csv"),
        ({"features_npy": "nowhere.npy"}, r"there is no file .*nowhere\.npy"),
    ],
)
def test_bad_options(folder, options, match):
    for name in ("labels", "features_npy"):
        options = {k: folder / v if k == name else v for k, v in options.items()}
    refused(folder, match, error=(ValueError, FileNotFoundError), **options)


def test_missing_files(folder):
    refused(folder, r"there is no file .*none\.csv", FileNotFoundError, nodes="none.csv")
    (folder / "sub.csv").mkdir()
    refused(folder, "is a folder", nodes="sub.csv")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({}, ValueError, "give edges, or knn"),
        ({"edges": "e.csv", "knn": 5}, ValueError, "not both"),
        ({"knn": 0}, ValueError, "at least 1, got 0"),
        ({"knn": 5, "text": "abstract"}, TypeError, "text must be a list of columns"),
    ],
)
def test_a_source_that_makes_no_sense(options, error, match):
    with pytest.raises(error, match=match):
        TableSource("nodes.csv", **options)


def broken_csr():
    """A file of scipy's form whose column numbers lie outside: converting it would crash."""
    indptr, indices = np.array([0, 1, 2, 2]), np.array([0, 99])
    parts = {"data": np.ones(2), "indices": indices, "indptr": indptr, "shape": np.array([3, 3])}
    return parts | {"format": np.array(b"csr")}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (np.ones((4, 2)), "has 4 rows but the nodes file has 3"),
        (np.ones(3), r"has shape \(3,\)"),
        (np.array([[1, 2], [np.nan, 1], [1, 2]]), "in row 2 that is NaN, infinite or far"),
        (np.array([[1.0], [1.0], [1e200]]), "in row 3 that is NaN, infinite or far too large"),
        (np.ones((3, 2), complex), "holds complex128"),
        (np.array([[None]] * 3), "Python objects, which are never loaded"),
        (b"\x93NUMPY nonsense", "not an array saved by numpy.save"),
        (NODES, "not an array saved by numpy.save"),
    ],
)
def test_bad_npy(folder, content, match):
    path = folder / "x.npy"
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    assert "x.npy" in refused(folder, match, features_npy=path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (sp.csr_array(np.ones((4, 2))), "has 4 rows but the nodes file has 3"),
        (
            sp.csr_array(np.array([[1, 2], [np.inf, 1], [1, 2]])),
            "in row 2 that is NaN, infinite or far",
        ),
        (sp.csr_array(np.ones((3, 2), complex)), "holds complex128"),
        (broken_csr(), "not a matrix saved by scipy"),
        (broken_csr() | {"data": np.array([{}, {}])}, "Python objects, which are never loaded"),
        ({"a": np.ones(3)}, "not a matrix saved by scipy"),
        (b"PK\x03\x04 nonsense", "not a matrix saved by scipy"),
    ],
)
def test_bad_npz(folder, content, match):
    path = folder / "x.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    else:
        sp.save_npz(path, content)
    assert "x.npz" in refused(folder, match, features_npz=path)


changes = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(min_size=0, max_size=4)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.filterwarnings("ignore:.* it is read as")
@given(changes=changes, which=st.sampled_from(["nodes.csv", "edges.csv", "nodes.parquet"]))
def test_damaged_files_give_a_graph_or_a_message(folder, changes, which):
    content = {"nodes.csv": NODES, "edges.csv": EDGES, "nodes.parquet": PARQUET}[which]
    for place, cut, put in changes:
        place %= len(content) + 1
        content = content[:place] + put + content[place + cut :]
    (folder / "nodes.csv").write_bytes(NODES)
    (folder / "edges.csv").write_bytes(EDGES)
    (folder / which).write_bytes(content)
    nodes = which if which.startswith("nodes") else "nodes.csv"
    source = TableSource(folder / nodes, folder / "edges.csv", id=1, label="topic", weight=3)
    try:
        loaded, message = read_tables(source), None
    except (ValueError, OSError) as error:
        loaded, message = None, str(error)
    if loaded is None:
        assert str(folder) in message
        assert "\n" not in message
    else:
        assert len(loaded.labels) == loaded.graph.n_nodes
        assert dict(loaded.summary.rows())["nodes"] == str(loaded.graph.n_nodes)
