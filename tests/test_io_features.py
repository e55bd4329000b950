"""Columns to features: each kind of source, how they are weighed, and the encoder's memory."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import nodegp
from nodegp import Graph, GraphGPClassifier
from nodegp.app import Project
from nodegp.io import Encoder, TableSource, join_tables, read_tables
from nodegp.prior import build

EDGES = "s,t\na,b\n"


@pytest.fixture
def read(tmp_path):
    (tmp_path / "edges.csv").write_text(EDGES)

    def read_nodes(nodes, **settings):
        if isinstance(nodes, str):
            path = tmp_path / "nodes.csv"
            path.write_text(nodes)
        else:
            path = tmp_path / "nodes.parquet"
            pq.write_table(pa.table(nodes), path)
        for name in ("npy", "npz"):
            if f"features_{name}" in settings:
                matrix = settings.pop(f"features_{name}")
                save = np.save if name == "npy" else sp.save_npz
                save(tmp_path / f"x.{name}", matrix)
                settings[f"features_{name}"] = tmp_path / f"x.{name}"
        return read_tables(TableSource(path, tmp_path / "edges.csv", **settings))

    return read_nodes


def dense(loaded):
    features = loaded.graph.features
    return features.toarray() if sp.issparse(features) else features


def standardised(*columns):
    """Zero mean, variance 1 / (number of columns)."""
    table = np.array(columns, dtype=float).T
    return (table - table.mean(axis=0)) / table.std(axis=0) / math.sqrt(table.shape[1])


# --- kinds ------------------------------------------------------------------------------------


def test_numbers_and_booleans_are_standardised(read):
    loaded = read("id,x,flag,n\na,1.5,true,3\nb,2.5,false,5\nc,9,true,7\n")
    expected = standardised([1.5, 2.5, 9], [1, 0, 1], [3, 5, 7])
    np.testing.assert_allclose(dense(loaded), expected)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(21, 2)], ids=str
)
def test_every_type_of_number(read, kind):
    x = pa.array([1, 2, 9], pa.int64()).cast(kind)
    np.testing.assert_allclose(
        dense(read({"id": ["a", "b", "c"], "x": x})), standardised([1, 2, 9]), rtol=1e-6
    )


@pytest.mark.parametrize("gap", [None, math.nan])
def test_gaps_get_the_mean_and_a_mark(read, gap):
    loaded = read({"id": list("abcd"), "x": [1.0, gap, 3.0, 8.0], "y": [1.0, 2.0, 2.0, 4.0]})
    expected = standardised([1, 4, 3, 8], [1, 2, 2, 4], [0, 1, 0, 0])
    np.testing.assert_allclose(dense(loaded), expected)
    assert loaded.summary.missing_values == {"x": 1}


def test_columns_that_say_nothing_are_dropped(read):
    loaded = read("id,x,same,none\na,1,3,\nb,2,3,\nc,4,3,\n", categorical=["same"])
    np.testing.assert_allclose(dense(loaded), standardised([1, 2, 4]))
    assert loaded.summary.dropped_columns == {"same": "constant"}
    assert loaded.summary.left_out == {"none": "empty"}


def test_categories_are_one_hot(read):
    loaded = read("id,x,c\na,1,red\nb,1,blue\nc,1,\nd,1,red\n", features=["c"])
    # Three of four rows have a category, and the mean squared length is one.
    one = math.sqrt(4 / 3)
    np.testing.assert_allclose(dense(loaded), [[0, one], [one, 0], [0, 0], [0, one]])


def test_numbers_can_be_categories_and_keep_their_zeros(read):
    loaded = read("id,code\na,07\nb,7\nc,07\n", categorical=["code"])
    np.testing.assert_allclose(dense(loaded), [[1, 0], [0, 1], [1, 0]])


def test_text_is_the_root_of_tfidf(read):
    loaded = read('id,t\na,"The cat, the DOG"\nb,the cat!\nc,a bird\n', text=["t"])
    # Words that two rows share, in the order of the alphabet: cat, the.
    idf = math.log(4 / 3) + 1
    first = np.sqrt([idf, 2 * idf]) / math.sqrt(idf + 2 * idf)
    expected = np.array([first, [math.sqrt(0.5)] * 2, [0, 0]]) * math.sqrt(3 / 2)
    np.testing.assert_allclose(dense(loaded), expected)


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2)],
    ids=str,
)
def test_lists_are_embeddings(read, kind):
    v = pa.array([[3, 4], None, [0, 2]], pa.list_(pa.float64())).cast(kind)
    try:
        loaded = read({"id": ["a", "b", "c"], "v": v})
    except pa.ArrowNotImplementedError as error:  # from the test's own writing of Parquet
        if "null components" not in str(error):
            raise
        pytest.skip(f"pyarrow {pa.__version__} cannot write lists of fixed length with gaps")
    expected = np.array([[0.6, 0.8], [0, 0], [0, 1]]) * math.sqrt(3 / 2)
    np.testing.assert_allclose(dense(loaded), expected, rtol=1e-6)


def test_matrices_follow_the_nodes(read):
    nodes = "id\nb\na\nc\n"
    np.testing.assert_allclose(
        dense(read(nodes, features_npy=np.array([[3, 4], [1, 0], [0, -2]]))),
        [[0.6, 0.8], [1, 0], [0, -1]],
    )
    fractions = sp.csr_array(np.array([[0.3, 0.4], [0.1, 0], [0, 0.2]]))
    loaded = read(nodes, features_npz=fractions)
    assert sp.issparse(loaded.graph.features)
    np.testing.assert_allclose(dense(loaded), [np.sqrt([3 / 7, 4 / 7]), [1, 0], [0, 1]])
    plain = read(nodes, features_npz=fractions, counts="tfidf")
    np.testing.assert_allclose(dense(plain), [[0.6, 0.8], [1, 0], [0, 1]])


def test_float32_stays_float32(read):
    assert dense(read("id\na\nb\n", features_npy=np.eye(2, dtype=np.float32))).dtype == np.float32


def test_sources_weigh_by_the_root_of_their_width(read):
    rng = np.random.default_rng(0)
    columns = {f"x{n}": rng.normal(n, 10.0**n, 50) for n in range(5)}
    words = [" ".join(rng.choice(["red", "green", "blue", "grey"], 3)) for _ in range(50)]
    ids = ["a", "b", *(f"n{n}" for n in range(48))]
    loaded = read(
        {"id": ids, **columns, "w": words, "c": rng.choice(["u", "v"], 50)},
        text=["w"],
        categorical=["c"],
        features_npy=rng.normal(3, 1, (50, 40)),
    )
    squares = dense(loaded) ** 2
    widths = [5, 2, 4, 40]
    shares = [part.sum() / 50 for part in np.split(squares, np.cumsum(widths)[:-1], axis=1)]
    np.testing.assert_allclose(shares, np.sqrt(widths) / np.sqrt(widths).sum())
    assert len(loaded.summary.sources) == 4


def test_only_columns_named_are_features(read):
    loaded = read("id,x,y,z\na,1,5,u\nb,2,6,v\nc,4,1,u\n", features=["y"])
    np.testing.assert_allclose(dense(loaded), standardised([5, 6, 1]))
    assert read("id,x\na,1\nb,2\n", features=[]).graph.features is None


# --- what a model makes of them ----------------------------------------------------------------


@pytest.mark.parametrize("form", ["npz", "columns", "text"])
def test_cora_as_tables_is_cora(tmp_path, form, monkeypatch):
    """However its words are written down, the model gets what the bundled graph gives it."""
    # Estimates of lengths depend on the order of the columns, which is each table's own.
    monkeypatch.setattr(build, "sketch_width", lambda n_nodes, n_columns: 0)
    data = nodegp.load_dataset("cora")
    graph, names = data.graph, np.array(data.class_names)
    y = data.labels("train")
    columns = {"paper": graph.ids, "topic": [names[v] if v >= 0 else None for v in y]}
    settings = {}
    if form == "npz":
        sp.save_npz(tmp_path / "words.npz", graph.features)
        settings["features_npz"] = tmp_path / "words.npz"
    elif form == "columns":
        columns |= {f"w{n}": column for n, column in enumerate(graph.features.toarray().T)}
    else:
        parts = np.split(graph.features.indices, graph.features.indptr[1:-1])
        columns["words"] = [" ".join(f"w{n}" for n in part) for part in parts]
        settings["text"] = ["words"]
    pq.write_table(pa.table(columns), tmp_path / "nodes.parquet")
    upper = sp.triu(graph.adjacency).tocoo()
    pq.write_table(
        pa.table({"from": graph.ids[upper.row], "to": graph.ids[upper.col]}),
        tmp_path / "edges.parquet",
    )
    loaded = read_tables(
        TableSource(
            tmp_path / "nodes.parquet",
            tmp_path / "edges.parquet",
            id="paper",
            label="topic",
            **settings,
        )
    )
    assert (loaded.graph.adjacency != graph.adjacency).nnz == 0
    labels, unlabelled = loaded.targets()
    # Robust-max, because the sampled expectations of softmax depend on the order of the classes.
    model = GraphGPClassifier(preprocessing="raw", likelihood="robustmax", unlabelled=unlabelled)
    model.fit(loaded.graph, labels)
    bundled = GraphGPClassifier(likelihood="robustmax").fit(graph, y)
    assert bundled.preprocessing_ == "sqrt-tfidf"
    test = data.splits["test"]
    proba, order = model.predict_proba(nodes=test), np.argsort(names)  # classes by name
    # A word of one paper alone has no place in the text's vocabulary, so not to the last digit.
    np.testing.assert_allclose(proba, bundled.predict_proba(nodes=test)[:, order], atol=3e-3)
    right = model.predict(nodes=test) == names[data.y[test]]
    assert right.mean() == pytest.approx(bundled.score(graph, data.labels("test")), abs=2e-3)


# --- the encoder ------------------------------------------------------------------------------


def mixed(read):
    rng = np.random.default_rng(1)
    return read(
        {
            "id": list("abcdefgh"),
            "x": [1.5, None, 3.25, 1 / 3, 5.0, 6.0, 7.0, 1e-17],
            "c": ["u", "v", None, "u", "w", "u", "v", "w"],
            "t": ["red fox", "red", "fox den", "", "den red", "none", "fox", "red den"],
            "v": rng.normal(size=(8, 3)).tolist(),
        },
        features=["x", "c", "v"],
        text=["t"],
        features_npy=rng.normal(size=(8, 4)),
        features_npz=sp.csr_array(rng.poisson(0.5, (8, 6)).astype(float)),
    )


def test_an_encoder_survives_json_exactly(read, tmp_path):
    loaded = mixed(read)
    again = Encoder.from_dict(json.loads(json.dumps(loaded.encoder.to_dict())))
    assert again.to_dict() == loaded.encoder.to_dict()
    for encoder in (loaded.encoder, again):
        graph, asked = join_tables(
            loaded.graph,
            encoder,
            tmp_path / "nodes.parquet",
            features_npy=tmp_path / "x.npy",
            features_npz=tmp_path / "x.npz",
        )
        assert asked.tolist() == list(range(8))
        assert (graph.features != loaded.graph.features).nnz == 0


def test_an_encoder_cannot_be_fed_another_kind(read, tmp_path):
    loaded = mixed(read)
    settings = {"features_npz": tmp_path / "x.npz"}
    with pytest.raises(ValueError, match=r"fitted with a dense matrix.*features_npy="):
        join_tables(loaded.graph, loaded.encoder, tmp_path / "nodes.parquet", **settings)
    np.save(tmp_path / "wide.npy", np.ones((8, 5)))
    with pytest.raises(ValueError, match=r"has 5 columns; the model was fitted with 4"):
        join_tables(
            loaded.graph,
            loaded.encoder,
            tmp_path / "nodes.parquet",
            features_npy=tmp_path / "wide.npy",
            **settings,
        )


# --- columns that name their rows -----------------------------------------------------------------

N = 40
_RNG = np.random.default_rng(3)
IDENTIFIERS = {
    "facebook_id": _RNG.integers(0, 5, N),  # by its name, whatever it holds
    "userId": _RNG.integers(0, 5, N),
    "Unnamed: 0": _RNG.integers(0, 5, N),
    "": np.arange(N),  # what pandas writes for an index
    "line": np.arange(N) * 3.5,
    "code": _RNG.integers(10**9).item() + _RNG.permutation(N) ** 2,
    "created": 1_600_000_000 + _RNG.permutation(N) * 86_400,
    "created_ms": 1_600_000_000_000 + _RNG.permutation(N) * 86_400_000,
}
MEASUREMENTS = {
    "age": _RNG.integers(18, 80, N),
    "weight": _RNG.normal(70, 10, N),
    "year": _RNG.integers(1990, 2020, N),
    "valid": _RNG.integers(0, 2, N),  # ends in id, and is no word for one
    "paid": _RNG.normal(size=N),
    "monkey": _RNG.normal(size=N),
}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_a_column_that_names_its_rows_is_no_feature(read, name):
    ids = ["a", "b", *(f"n{n}" for n in range(N - 2))]
    table = {"node": ids, "age": MEASUREMENTS["age"], name: IDENTIFIERS[name]}
    summary = (loaded := read(table, id="node")).summary
    assert loaded.graph.n_features == 1
    assert list(summary.identifiers) == [name]
    assert any("--features" in remark for remark in summary.remarks())
    assert f"{name} (" in dict(summary.rows())["columns left out"]
    if name:  # a user who names it has it
        assert read(table, id="node", features=["age", name]).graph.n_features == 2


def test_what_measures_something_is_a_feature_and_is_named(read):
    ids = ["a", "b", *(f"n{n}" for n in range(N - 2))]
    loaded = read({"node": ids, **MEASUREMENTS}, id="node")
    assert loaded.graph.n_features == len(MEASUREMENTS)
    assert all(name in loaded.summary.sources[0] for name in MEASUREMENTS)
    fewer = read({"node": ids, **MEASUREMENTS}, id="node", exclude=["age", "paid"])
    assert fewer.graph.n_features == len(MEASUREMENTS) - 2


def test_a_few_rows_may_all_differ(read):
    assert read("id,x\na,7\nb,2\nc,4\n").graph.n_features == 1


# --- features by id ---------------------------------------------------------------------------

BAGS = {"9": [], "c": [5, 0], "a": [2], "b": [0, 2, 7]}  # in another order, and of one more


def test_features_by_id_in_any_order(read, tmp_path):
    """Lists of numbers of features that a node has, as in the files of musae."""
    path, nodes = tmp_path / "x.json", "id,y\na,u\nb,v\nc,u\n"
    path.write_text(json.dumps(BAGS))
    loaded = read(nodes, label="y", features_table=path)
    has = np.array([[0, 1, 0, 0], [1, 1, 0, 1], [1, 0, 1, 0]])  # of 0, 2, 5 and 7
    np.testing.assert_array_equal(dense(loaded) != 0, has)
    assert loaded.summary.sources == ["lists 'features' (4 features), sqrt-tfidf"]
    np.testing.assert_allclose((dense(loaded) ** 2).sum(axis=1), 1)
    again = Encoder.from_dict(json.loads(json.dumps(loaded.encoder.to_dict())))
    (tmp_path / "new.csv").write_text("id\nn\n")
    path.write_text(json.dumps({"n": [7, 99]}))
    graph, asked = join_tables(loaded.graph, again, tmp_path / "new.csv", features_table=path)
    np.testing.assert_array_equal(graph.features[asked].toarray() != 0, [[False] * 3 + [True]])
    with pytest.raises(ValueError, match=r"no column 'features'; the model needs"):
        join_tables(loaded.graph, again, tmp_path / "new.csv")


def test_a_table_of_features_is_joined_by_id(read, tmp_path):
    nodes, path = "id,size,y\na,1,u\nb,2,v\nc,4,u\n", tmp_path / "x.csv"
    path.write_text("year;id;note\n3;c;good\n1;a;bad\n")
    loaded = read(nodes, label="y", features_table=path, features=["size", "year", "note"])
    beside = read("id,size,y,year,note\na,1,u,1,bad\nb,2,v,,\nc,4,u,3,good\n", label="y",
                  features=["size", "year", "note"])  # fmt: skip
    np.testing.assert_array_equal(dense(loaded), dense(beside))
    frame = pd.DataFrame({"who": ["c", "a"], "year": [3, 1], "note": ["good", "bad"]})
    framed = read(nodes, label="y", features_table=frame, features=["size", "year", "note"])
    np.testing.assert_array_equal(dense(framed), dense(beside))
    # The nodes may have another column of the name that ids have there.
    path.write_text("id,year\nc,3\na,1\n")
    renamed = read("name,id,y\na,7,u\nb,8,v\nc,9,u\n", id="name", label="y",
                   features=["id", "year"], features_table=path)  # fmt: skip
    assert renamed.encoder.columns() == ["id", "year"]
    assert renamed.graph.n_features == 3  # with the mark of a gap
    vectors = {"c": [0.5, 1], "b": [1, 0.25], "a": [0, 1]}
    (tmp_path / "x.json").write_text(json.dumps(vectors))
    embedded = read(nodes, label="y", features=["features"], features_table=tmp_path / "x.json")
    expected = np.array([vectors[name] for name in "abc"])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(dense(embedded), expected)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("id,x\nA,1\nB,2\nc,3\n", r"2 of 3 nodes of .* have no row in .*x\.csv: 'a', 'b'"),
        ("id,size\na,1\nb,2\n", r"both .* have a column 'size'; rename one"),
        ("id,x\na,1\nb,2\na,3\n", r"'id' of .*x\.csv has 1 ids that were there before"),
        ("a,1\nb,2\nc,3\n", r"x\.csv has no header: its first line is for node 'a'"),
    ],
)
def test_bad_tables_of_features(read, tmp_path, content, match):
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(ValueError, match=match):
        read("id,size\na,1\nb,2\nc,4\n", features_table=tmp_path / "x.csv")


# --- tables in memory -------------------------------------------------------------------------

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
PAPERS = {
    "paper": [f"p{n}" for n in range(8)],
    "year": [1998.0, 2001.0, None, 2003.0, 1999.0, 2002.0, 2000.0, 2004.0],
    "venue": ["a", "b", "a", None, "b", "a", "b", "a"],
    "title": ["deep nets", "graph bound", "deep graph", "nets bound", *["deep bound graph"] * 4],
    "topic": ["x", "y", None, "y", "x", "x", "y", None],
}
CITES = {"from": [f"p{n}" for n in range(7)], "to": [f"p{n + 1}" for n in range(7)]}


@pytest.mark.parametrize("kind", FRAMES)
def test_dataframes_give_what_files_give(tmp_path, kind):
    """A model of a graph of dataframes predicts as `nodegp fit` on files does, also when it is
    saved, and its features are not prepared a second time."""
    for name, columns in (("nodes", PAPERS), ("edges", CITES)):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    settings = {"text": ["title"], "features": ["year", "venue"], "id": "paper"}
    files = Project.from_tables(
        tmp_path / "nodes.parquet", tmp_path / "edges.parquet", label="topic", **settings
    )
    files.fit()
    nodes, edges = FRAMES[kind](PAPERS), FRAMES[kind](CITES)
    frames = Project.from_tables(nodes, edges, label="topic", **settings)
    frames.fit()
    expected = files.model.predict_proba()
    np.testing.assert_array_equal(frames.model.predict_proba(), expected)

    graph = Graph.from_dataframes(nodes, edges, source="from", target="to", **settings)
    assert graph.is_prepared
    model = GraphGPClassifier(unlabelled=None, random_state=0).fit(graph, PAPERS["topic"])
    assert model.preprocessing_ == "raw"
    np.testing.assert_array_equal(model.predict_proba(), expected)
    model.save(tmp_path / "m.nodegp", include_graph=True)
    again = nodegp.load(tmp_path / "m.nodegp")
    assert again.graph_.is_prepared
    assert again.graph_.subgraph([0, 1]).is_prepared
    refitted = again.fit(again.graph_, PAPERS["topic"])
    np.testing.assert_array_equal(refitted.predict_proba(), expected)

    later = FRAMES[kind]({name: values[:1] for name, values in PAPERS.items()} | {"paper": ["new"]})
    links = FRAMES[kind]({"from": ["new"], "to": ["p0"]})
    joined = frames.predict(nodes=later, edges=links).read()[0]
    assert joined["paper"].to_pylist() == ["new"]
    assert join_tables(graph, frames.loaded.encoder, later, links)[0].is_prepared
    answers = FRAMES[kind]({"paper": ["p2", "p7"], "topic": ["x", "y"]})
    assert frames.answer(answers)["new_labels"] == 2
    with pytest.raises(ValueError, match="'topic' of the labels table is empty"):
        frames.answer(FRAMES[kind]({"paper": ["p2"], "topic": [None]}))


def test_how_to_preprocess_is_still_the_users_to_say():
    graph = Graph.from_dataframes(
        pa.table(PAPERS), pa.table(CITES), id="paper", source="from", target="to",
        features=[], text=["title"],
    )  # fmt: skip
    model = GraphGPClassifier(preprocessing="l2", unlabelled=None).fit(graph, PAPERS["topic"])
    assert model.preprocessing_ == "l2"


def test_an_index_of_pandas_in_a_file_is_no_feature(tmp_path):
    frame = pd.DataFrame({"id": ["a", "b", "c"], "x": [1.0, 2.0, 4.0]}, index=[7, 5, 9])
    frame.to_parquet(tmp_path / "pandas.parquet")
    (tmp_path / "edges.csv").write_text("s,t\na,b\n")
    loaded = read_tables(TableSource(tmp_path / "pandas.parquet", tmp_path / "edges.csv"))
    assert loaded.encoder.columns() == ["x"]
    assert loaded.summary.left_out == {"__index_level_0__": "an index of pandas"}
