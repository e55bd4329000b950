"""A user's two tables and a question, all through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import nodegp
from tables import FIT, NAMES, rows_of, run, run_json, write_csv

pytestmark = pytest.mark.usefixtures("in_folder")  # `folder`, with tables and a fitted model


def test_the_example_can_be_learnt_but_not_to_perfection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("example papers")
    line = done.stdout.splitlines()[-1]  # what to do next
    run(line.removeprefix("nodegp "))
    scores = run_json("evaluate topics.nodegp --labels papers/answers.csv")["nodegp"]
    assert scores["n"] == 260
    assert 0.8 < scores["accuracy"] < 0.95
    assert "made up" in (tmp_path / "papers" / "README.txt").read_text()


def test_the_example_writes_over_nothing_unless_told(tmp_path):
    folder = tmp_path / "new" / "papers"
    paths = run_json(f"example {folder}")["files"]
    first = [Path(path).read_bytes() for path in paths]
    with pytest.raises(ValueError, match=r"has papers\.csv, .*README\.txt already.*--force"):
        run(f"example {folder} --seed 1")
    assert [Path(path).read_bytes() for path in paths] == first
    run(f"example {folder} --seed 1 --force")
    assert Path(paths[0]).read_bytes() != first[0]
    run(f"example {folder} --force")
    assert [Path(path).read_bytes() for path in paths] == first
    with pytest.raises(NotADirectoryError, match=r"papers\.csv is a file; name a folder"):
        run(f"example {paths[0]}")


def test_fit_says_what_came_in_and_what_came_out():
    done = run(FIT.replace("model.nodegp", "other.nodegp"))
    for words in ("nodes", "40", "labelled", "20 (50.0 %", "leave-one-out", "written to other"):
        assert words in done.stdout
    found = run_json(FIT.replace("model.nodegp", "other.nodegp"))
    assert found["input"]["nodes"] == 40
    assert found["model"]["labels"] == 20
    assert found["model"]["classes"] == NAMES.tolist()
    assert run(FIT.replace("model.nodegp", "other.nodegp") + " --quiet").stdout == ""


def test_a_fit_can_be_repeated_to_the_byte(folder):
    run(FIT.replace("model.nodegp", "again.nodegp"))
    assert (folder / "again.nodegp").read_bytes() == (folder / "model.nodegp").read_bytes()


def test_info():
    done = run("info model.nodegp")
    assert "40 nodes" in done.stdout
    found = run_json("info model.nodegp")
    assert found["labels"] == 20
    kinds = [row["kind"] for row in rows_of("nodes.csv")]
    assert found["label_counts"] == {name: kinds.count(name) for name in NAMES}


def test_labels_from_a_file_of_their_own(folder):
    write_csv(
        folder / "some.csv", [["node", "kind"], *[[f"n{i:03d}", NAMES[i % 3]] for i in range(9)]]
    )
    line = "fit --nodes nodes.csv --edges edges.csv --id node --labels some.csv --label kind"
    found = run_json(line + " -o apart.nodegp")
    assert found["model"]["labels"] == 9
    assert found["input"]["features"] == 3  # the nodes' own label column is no feature


def test_predictions_are_the_models_own(folder):
    run("predict model.nodegp -o out.csv")
    rows = rows_of("out.csv")
    model = nodegp.load("model.nodegp")
    proba = model.predict_proba()
    assert [row["node"] for row in rows] == model.graph_.ids.tolist()
    for c, name in enumerate(NAMES):
        column = [float(row[f"p({name})"]) for row in rows]
        assert column == pytest.approx(proba[:, c])
    assert [row["label"] for row in rows] == model.predict().tolist()
    assert all(float(row["information"]) <= float(row["entropy"]) + 1e-12 for row in rows)
    run("predict model.nodegp -o out.parquet")
    assert pq.read_table("out.parquet").column("label").to_pylist() == model.predict().tolist()
    run("predict model.nodegp -o out.tsv.gz")
    assert (folder / "out.tsv.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert run_json("predict model.nodegp")[0]["node"] == "n000"


def test_new_nodes_are_joined_to_the_graph(folder):
    """A copy of a node, with its edges, is predicted as the node would be with the copy there."""
    nodes, edges = rows_of("nodes.csv"), rows_of("edges.csv")
    graph = nodegp.load("model.nodegp").graph_
    linked = [e["to"] for e in edges if e["from"] == "n000"]
    linked += [e["from"] for e in edges if e["to"] == "n000"]
    head = ["node", "a", "b", "c"]
    write_csv(folder / "new.csv", [head, ["fresh", *[nodes[0][k] for k in "abc"]]])
    write_csv(folder / "links.csv", [["x", "y"], *[["fresh", other] for other in linked]])
    found = run_json("predict model.nodegp --nodes new.csv --edges links.csv --id node")
    assert [row["node"] for row in found] == ["fresh"]
    model, n = nodegp.load("model.nodegp"), graph.n_nodes
    both = sp.lil_array((n + 1, n + 1))
    both[:n, :n] = graph.adjacency
    both[n, :n] = graph.adjacency[[0]].toarray()
    features = np.vstack([graph.features, graph.features[:1]])
    grown = nodegp.Graph(both, features, [*graph.ids, "fresh"], graph.is_prepared)
    node, copy = model.predict_proba(grown, [0, n])
    assert [found[0][f"p({name})"] for name in NAMES] == pytest.approx(copy, abs=1e-9)
    assert copy == pytest.approx(node, abs=1e-6)


def test_predict_streams(folder, monkeypatch):
    """In small blocks, the same file."""
    run("predict model.nodegp -o whole.csv")
    monkeypatch.setattr("nodegp.app.predictions.BLOCK_ROWS", 7)
    run("predict model.nodegp -o blocks.csv")
    whole, blocks = rows_of("whole.csv"), rows_of("blocks.csv")
    assert [row["node"] for row in whole] == [row["node"] for row in blocks]
    for one, other in zip(whole, blocks, strict=True):
        assert float(one["probability"]) == pytest.approx(float(other["probability"]), abs=1e-9)


def test_evaluate_three_ways(folder):
    loo = run_json("evaluate model.nodegp")["nodegp"]
    assert loo["how"] == "leave-one-out"
    assert loo["n"] == 20
    folds = run_json("evaluate model.nodegp --folds 4")["nodegp"]
    assert folds["how"] == "4 folds"
    unseen = run_json("evaluate model.nodegp --labels truth.csv --quiet")["nodegp"]
    assert unseen["n"] == 20  # the other half were fitted to
    truth = {row["node"]: row["kind"] for row in rows_of("truth.csv")}
    model = nodegp.load("model.nodegp")
    right = [truth[model.graph_.ids[n]] == model.predict()[n] for n in range(20, 40)]
    assert unseen["accuracy"] == np.mean(right)
    assert np.sum(unseen["confusion"]) == 20


def test_evaluate_against_others_with_a_report(folder):
    done = run("evaluate model.nodegp --compare lp,logistic --folds 3 --report page.html")
    for words in ("3 folds", "nodegp", "lp", "logistic", "Confusion", "Reliability"):
        assert words in done.stdout
    page = (folder / "page.html").read_text()
    assert "<svg" in page
    assert "logistic" in page
    assert "src=" not in page  # self-contained
    assert "--labels" not in page
    found = run_json("evaluate model.nodegp --compare lp --labels truth.csv -q")
    assert set(found) == {"nodegp", "lp"}


def test_python_models_work_if_they_carry_their_graph(folder):
    data = nodegp.load("model.nodegp")
    bare = nodegp.Graph(data.graph_.adjacency, data.graph_.features)  # no ids
    y = np.where(np.isin(np.arange(40), data.labelled_), np.arange(40) % 2, -1)
    model = nodegp.GraphGPClassifier().fit(bare, y)
    model.save("python.nodegp", include_graph=True)
    assert run_json("predict python.nodegp")[3]["id"] == 3
    assert run_json("query python.nodegp -n 2")["ask"][0]["id"] >= 20
    model.save("bare.nodegp")
    with pytest.raises(ValueError, match="without its graph"):
        run("info bare.nodegp")
    nodegp.GraphGPRegressor().fit(bare, y.astype(float)).save("r.nodegp", include_graph=True)
    with pytest.raises(ValueError, match="works with classifiers"):
        run("info r.nodegp")


def test_json_and_a_file_go_together(folder):
    assert run_json("predict model.nodegp -o both.csv") == {"predictions": 40, "file": "both.csv"}
    assert len(rows_of("both.csv")) == 40


def test_new_tables_find_the_models_id_column(folder):
    write_csv(folder / "turned.csv", [["a", "b", "c", "node"], [1.0, 2.0, 3.0, "fresh"]])
    assert run_json("predict model.nodegp --nodes turned.csv")[0]["node"] == "fresh"


def test_methods_that_need_features_are_left_out_where_there_are_none(folder):
    rows = [[row["node"], row["kind"]] for row in rows_of("nodes.csv")]
    write_csv(folder / "plain.csv", [["node", "kind"], *rows])
    run("fit --nodes plain.csv --edges edges.csv --label kind -o plain.nodegp")
    done = run("evaluate plain.nodegp --labels truth.csv --compare lp,logistic --json")
    assert set(json.loads(done.stdout)) == {"nodegp", "lp"}
    assert "logistic is left out" in done.stderr
