"""A user's two tables and a question, all through the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import nodegp
from tables import FIT, NAMES, rows_of, run, run_json, write_csv, write_tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    write_tables(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        run(FIT)
    return place


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


# --- example --------------------------------------------------------------------------------------


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


# --- fit and info ---------------------------------------------------------------------------------


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


# --- predict --------------------------------------------------------------------------------------


def test_predictions_are_the_models_own(folder):
    run("predict model.nodegp -o out.csv")
    rows = rows_of("out.csv")
    model = nodegp.load("model.nodegp")
    proba = model.predict_proba()
    assert [row["id"] for row in rows] == model.graph_.ids.tolist()
    for c, name in enumerate(NAMES):
        column = [float(row[f"p({name})"]) for row in rows]
        assert column == pytest.approx(proba[:, c])
    assert [row["label"] for row in rows] == model.predict().tolist()
    assert all(float(row["information"]) <= float(row["entropy"]) + 1e-12 for row in rows)
    run("predict model.nodegp -o out.parquet")
    assert pq.read_table("out.parquet").column("label").to_pylist() == model.predict().tolist()
    run("predict model.nodegp -o out.tsv.gz")
    assert (folder / "out.tsv.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert run_json("predict model.nodegp")[0]["id"] == "n000"


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
    assert [row["id"] for row in found] == ["fresh"]
    model = nodegp.load("model.nodegp")
    expected = model.predict_proba(graph, [0])[0]
    assert [found[0][f"p({name})"] for name in NAMES] == pytest.approx(expected, abs=1e-6)


def test_predict_streams(folder, monkeypatch):
    """In small blocks, the same file."""
    run("predict model.nodegp -o whole.csv")
    monkeypatch.setattr("nodegp.app.predictions.BLOCK_ROWS", 7)
    run("predict model.nodegp -o blocks.csv")
    whole, blocks = rows_of("whole.csv"), rows_of("blocks.csv")
    assert [row["id"] for row in whole] == [row["id"] for row in blocks]
    for one, other in zip(whole, blocks, strict=True):
        assert float(one["probability"]) == pytest.approx(float(other["probability"]), abs=1e-9)


# --- evaluate -------------------------------------------------------------------------------------


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


# --- query and update -----------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", nodegp.active.strategies())
def test_questions_go_out_and_answers_come_in(strategy, folder):
    run(f"query model.nodegp -n 4 --strategy {strategy} -o ask.csv")
    rows = rows_of("ask.csv")
    assert len(rows) == 4
    labelled = nodegp.load("model.nodegp").labelled_
    known = set(nodegp.load("model.nodegp").graph_.ids[labelled].tolist())
    assert not known & {row["node"] for row in rows}
    assert {row["kind"] for row in rows} == {""}
    assert "score" in rows[0]
    truth = {row["node"]: row["kind"] for row in rows_of("truth.csv")}
    for row in rows[:3]:  # the expert did not know the last one
        row["kind"] = truth[row["node"]]
    write_csv(folder / "answered.csv", [list(rows[0]), *[list(row.values()) for row in rows]])
    found = run_json("update model.nodegp --labels answered.csv -o updated.nodegp")
    assert found["new_labels"] == 3
    assert found["model"]["labels"] == 23
    assert 0 <= found["moved"] <= 1
    updated = nodegp.load("updated.nodegp")
    position = updated.graph_.ids.tolist().index(rows[0]["node"])
    assert updated.labels_[updated.labelled_.tolist().index(position)] == rows[0]["kind"]


def test_cold_start_to_first_fit(folder):
    done = run("query --nodes nodes.csv --edges edges.csv --id node -n 6 -o first.csv")
    assert "nodegp fit --labels" in done.stdout
    rows = rows_of("first.csv")
    truth = {row["node"]: row["kind"] for row in rows_of("truth.csv")}
    write_csv(
        folder / "first.csv", [["node", "label"], *[[r["node"], truth[r["node"]]] for r in rows]]
    )
    line = "fit --nodes nodes.csv --edges edges.csv --id node --features a,b,c --labels first.csv"
    assert run_json(line + " -o cold.nodegp")["model"]["labels"] == 6


def test_cold_start_by_categories(folder):
    """Neighbours by a column that only looks like numbers: 0 is as far from 1 as from 9."""
    rows = [[f"n{i:03d}", (0, 1, 9)[i % 3]] for i in range(30)]
    write_csv(folder / "codes.csv", [["node", "zip"], *rows])
    done = run("query --nodes codes.csv --id node --knn 3 --categorical zip -n 3 -o codes_ask.csv")
    assert "1 categorical column (3 categories)" in done.stdout
    assert {int(row["node"][1:]) % 3 for row in rows_of("codes_ask.csv")} == {0, 1, 2}


def test_cold_start_by_a_matrix(folder):
    np.save(folder / "matrix.npy", np.repeat(np.eye(2), 5, axis=0))
    write_csv(folder / "bare_nodes.csv", [["node"], *[[f"n{i}"] for i in range(10)]])
    line = "--nodes bare_nodes.csv --id node --knn 2 --features-npy matrix.npy"
    run(f"query {line} -n 2 -o matrix_ask.csv")
    assert {int(row["node"][1:]) // 5 for row in rows_of("matrix_ask.csv")} == {0, 1}


def test_one_of_a_kind_is_not_many(folder):
    rows = [[f"n{i:03d}", "yes" if i % 2 else "no", i % 5] for i in range(12)]
    write_csv(folder / "single.csv", [["node", "kind", "a"], *rows])
    done = run("fit --nodes single.csv --id node --label kind --knn 2 -o single.nodegp")
    assert "1 numeric column," in done.stdout
    write_csv(folder / "single_new.csv", [["node", "a"], ["fresh", 2]])
    done = run("predict single.nodegp --nodes single_new.csv -o single_out.csv")
    assert done.stdout == "1 prediction written to single_out.csv\n"


def test_update_writes_over_the_model(folder):
    run(FIT.replace("model.nodegp", "mine.nodegp"))
    write_csv(folder / "one.csv", [["node", "kind"], ["n039", "ant"], ["n000", "bee"]])
    done = run("update mine.nodegp --labels one.csv")
    assert "1 new" in done.stdout
    assert "predictions changed" in done.stdout
    assert len(nodegp.load("mine.nodegp").labelled_) == 21


# --- explain --------------------------------------------------------------------------------------


def test_explain_adds_up():
    found = run_json("explain model.nodegp n030 -n 5")
    labels = sum(row["share"] for row in found["labels"])
    assert labels + found["other_labels"] + found["common"] == pytest.approx(found["latent_mean"])
    near = sum(row["share"] for row in found["neighbours"])
    assert near + found["other_neighbours"] == pytest.approx(found["latent_mean"])
    by_class = sum(found["labels_by_class"].values())
    assert by_class + found["common"] == pytest.approx(found["latent_mean"])


def test_explain_tells_a_stranger_what_the_signs_mean(folder):
    run(FIT.replace("model.nodegp", "near.nodegp") + " --filter mean")
    done = run("explain near.nodegp n030 --class bee")
    assert "+ speaks for bee, - against it" in done.stdout
    assert "n030 (itself)" in done.stdout
    model = nodegp.load("near.nodegp")
    proba, found = model.predict_proba(nodes=["n030"])[0], model.explain("n030")
    others = [0, 2] if proba[0] > proba[2] else [2, 0]
    score, rival = found.latent_mean[1], NAMES[others[0]]
    assert f"score  {score:+.3f}" in done.stdout
    assert f"rival  {rival}, probability {proba[others[0]]:.3f}" in done.stdout
    sums = [line.split() for line in done.stdout.splitlines() if line.startswith("sum ")]
    assert sums == [["sum", f"{score:+.3f}"]] * 2  # by labels, and by neighbours
    run(FIT.replace("model.nodegp", "far.nodegp") + " --filter pagerank")
    assert "No neighbour has a share of its own" in run("explain far.nodegp n030").stdout


def test_explain_shows_names_with_brackets_as_they_are(folder):
    rows = [[i, "[red]x[/]" if i % 2 else "y", i % 5] for i in range(10)]
    write_csv(folder / "brackets.csv", [["node", "kind", "a"], *rows])
    run("fit --nodes brackets.csv --label kind --knn 2 -o brackets.nodegp")
    shown = run("explain brackets.nodegp 3 --class '[red]x[/]'").stdout
    assert "speaks for [red]x[/]" in shown


# --- what can go wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit --nodes nodes.csv --edges edges.csv -o x", "--label COLUMN"),
        ("fit --nodes nodes.csv --label kind -o x", "give --edges FILE, or --knn NUMBER"),
        ("fit --nodes nodes.csv --edges edges.csv --knn 3 --label kind -o x", "--edges or --knn"),
        ("query --nodes nodes.csv --id node", "give --edges FILE, or --knn NUMBER"),
        ("query --nodes nodes.csv --edges edges.csv --knn 3", "--edges or --knn"),
        ("fit --nodes missing.csv --edges edges.csv --label kind -o x", "missing.csv"),
        ("fit --nodes nodes.csv --edges edges.csv --label kimd -o x", "Did you mean 'kind'"),
        ("fit --nodes nodes.csv --edges edges.csv --label kind -o no/where", "no folder 'no'"),
        ("predict nodes.csv", "not a nodegp model"),
        ("predict model.nodegp -o out.xyz", "cannot tell the format"),
        ("predict model.nodegp --edges edges.csv", "give the new nodes too"),
        ("predict model.nodegp --knn 3", "--knn without --nodes"),
        ("predict model.nodegp --nodes nodes.csv --edges edges.csv --knn 3", "--edges or --knn"),
        ("explain model.nodegp nobody", "no node 'nobody'"),
        ("explain model.nodegp n030 --class dog", "no class 'dog'"),
        ("query", "give a model file"),
        (
            "query model.nodegp --edges edges.csv",
            "--edges without --nodes: the model has its graph",
        ),
        ("evaluate model.nodegp --id node", "--id without --labels"),
        ("query model.nodegp --strategy best", "strategy must be one of"),
        ("evaluate model.nodegp --folds 3 --labels truth.csv", "not both"),
        ("evaluate model.nodegp --compare magic", "no 'magic'"),
        ("update model.nodegp --labels edges.csv", "edges.csv"),
    ],
)
def test_bad_input_is_said_in_a_sentence_and_writes_nothing(line, message, folder):
    before = {path.name for path in folder.iterdir()}
    with pytest.raises((ValueError, OSError), match=message):
        run(line)
    assert {path.name for path in folder.iterdir()} == before


def test_errors_name_the_option_that_mends_them(folder):
    write_csv(folder / "wide.csv", [["node", "x", "y"], ["n030", "ant", "bee"]])
    with pytest.raises(ValueError, match="which of its columns holds the labels: --label"):
        run("update model.nodegp --labels wide.csv")
    np.save(folder / "rows.npy", np.eye(40))
    run(FIT.replace("model.nodegp", "rows.nodegp") + " --features-npy rows.npy")
    with pytest.raises(ValueError, match="give one for these nodes too, with --features-npy"):
        run("predict rows.nodegp --nodes nodes.csv")


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


# --- slips of the hand ----------------------------------------------------------------------------


def test_whole_numbers_with_a_point_are_whole_numbers(folder):
    """pandas writes a column of whole numbers with a gap as 1.0, 2.0, and nothing."""
    rows = [[f"n{i:03d}", float(i % 3), f"{i % 7}.5"] for i in range(20)] + [["n020", "", "1"]]
    write_csv(folder / "float.csv", [["node", "kind", "x"], *rows])
    line = "fit --nodes float.csv --id node --label kind --knn 3 -o float.nodegp"
    assert run_json(line)["model"]["classes"] == [0, 1, 2]
    write_csv(folder / "more.csv", [["node", "kind"], ["n020", "2"]])
    assert run_json("update float.nodegp --labels more.csv")["model"]["classes"] == [0, 1, 2]
    write_csv(
        folder / "code.csv", [["node", "kind", "x"], *[[a, f"00{b:g}", c] for a, b, c in rows[:9]]]
    )
    found = run_json(line.replace("float.csv", "code.csv"))
    assert found["model"]["classes"] == ["000", "001", "002"]  # a code, not a number


def test_a_mistyped_answer_is_no_new_class(folder):
    write_csv(folder / "typo.csv", [["node", "kind"], ["n030", "bea"]])
    before = (folder / "model.nodegp").read_bytes()
    with pytest.raises(ValueError, match="did you mean 'bee'"):
        run("update model.nodegp --labels typo.csv")
    assert (folder / "model.nodegp").read_bytes() == before
    found = run_json("update model.nodegp --labels typo.csv --new-classes -o typo.nodegp")
    assert found["model"]["classes"] == ["ant", "bea", "bee", "cat"]


def test_answers_that_say_nothing_new(folder):
    write_csv(folder / "old.csv", [["node", "kind"], ["n000", rows_of("truth.csv")[0]["kind"]]])
    with pytest.raises(ValueError, match="nothing new"):
        run("update model.nodegp --labels old.csv")


def test_files_without_a_header(folder):
    edges = [[row["from"], row["to"]] for row in rows_of("edges.csv")]
    write_csv(folder / "bare.csv", edges)
    line = FIT.replace("edges.csv", "bare.csv").replace("model.nodegp", "bare.nodegp")
    assert run_json(line)["input"]["edges"] == len(edges)
    write_csv(folder / "bare.csv", [["n000", "n999"], *edges])  # an edge, though a wrong one
    with pytest.raises(ValueError, match="n999"):
        run(line)
    write_csv(folder / "labels.csv", [["n000", "ant"], ["n001", "bee"]])
    with pytest.raises(ValueError, match="no header: its first line is for node 'n000'"):
        run("update model.nodegp --labels labels.csv")


def test_remarks_on_what_looks_wrong(folder):
    rows = [[f"n{i:03d}", ("NA", "Ant", "ant", "bee")[min(i % 5, 3)], i % 7] for i in range(20)]
    write_csv(folder / "odd.csv", [["node", "kind", "x"], *rows, ["n020", "dog", 1]])
    line = "fit --nodes odd.csv --id node --label kind --knn 3 -o odd.nodegp"
    done = run(line)
    for words in ("'NA' is taken for a class", "upper and lower case", "a single label of dog"):
        assert words in done.stderr
    many = [[f"n{i:03d}", f"c{i}", i % 7] for i in range(30)]
    write_csv(folder / "odd.csv", [["node", "kind", "x"], *many])
    assert "is this the right column" in run_json(line)["input"]["remarks"][0]


def test_json_and_a_file_go_together(folder):
    assert run_json("predict model.nodegp -o both.csv") == {"predictions": 40, "file": "both.csv"}
    assert len(rows_of("both.csv")) == 40


def test_new_tables_find_the_models_id_column(folder):
    write_csv(folder / "turned.csv", [["a", "b", "c", "node"], [1.0, 2.0, 3.0, "fresh"]])
    assert run_json("predict model.nodegp --nodes turned.csv")[0]["id"] == "fresh"
