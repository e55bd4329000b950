"""A user's two tables and a question, all through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nodegp
from nodegp.cli import show
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
    model = nodegp.load("model.nodegp")
    expected = model.predict_proba(graph, [0])[0]
    assert [found[0][f"p({name})"] for name in NAMES] == pytest.approx(expected, abs=1e-6)


def test_predict_streams(folder, monkeypatch):
    """In small blocks, the same file."""
    run("predict model.nodegp -o whole.csv")
    monkeypatch.setattr("nodegp.app.predictions.BLOCK_ROWS", 7)
    run("predict model.nodegp -o blocks.csv")
    whole, blocks = rows_of("whole.csv"), rows_of("blocks.csv")
    assert [row["node"] for row in whole] == [row["node"] for row in blocks]
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
    assert "1 categorical column (zip; 3 categories)" in done.stdout
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
    assert "1 numeric column (" in done.stdout
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
    near += found["other_neighbours"] + found["anywhere"]
    assert near == pytest.approx(found["latent_mean"])


def test_explain_tells_a_stranger_what_spoke_for_what(folder):
    run(FIT.replace("model.nodegp", "near.nodegp") + " --filter mean")
    line = "explain near.nodegp n030 --class bee -n 4"
    text, found = run(line).stdout, run_json(line)
    assert "What made the score of bee: + speaks for it, - against it" in text
    assert "n030 (itself)" in text
    assert f"next   {found['rival']['class']}, probability" in text
    assert {row["label"] for row in found["labels"]} <= {"bee"}
    assert "bee" not in {row["label"] for row in found["against"]}
    # A label is listed for what it says of its own class, and only where it speaks for it.
    assert all(row["share"] > 0 for row in found["against"])
    # Features are mixed before a kernel that is not linear sees them: neighbours are shown, though.
    model = nodegp.load("near.nodegp")
    mixed = nodegp.GraphGPClassifier(kernel=nodegp.kernels.RBF(), filter="pagerank")
    labels = dict(zip(model.graph_.ids[model.labelled_], model.labels_, strict=True))
    mixed.fit(model.graph_, labels).save("mixed.nodegp", include_graph=True)
    assert "Nodes linked to it" in run("explain mixed.nodegp n030").stdout


def test_explain_shows_names_with_brackets_as_they_are(folder):
    rows = [[i, "[red]x[/]" if i % 2 else "y", i % 5] for i in range(10)]
    write_csv(folder / "brackets.csv", [["node", "kind", "a"], *rows])
    run("fit --nodes brackets.csv --label kind --knn 2 -o brackets.nodegp")
    shown = run("explain brackets.nodegp 3 --class '[red]x[/]'").stdout
    assert "the score of [red]x[/]" in shown


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
    assert run_json("predict model.nodegp --nodes turned.csv")[0]["node"] == "fresh"


# --- amounts, and long waits ----------------------------------------------------------------------


def test_a_target_of_amounts_is_refused_at_once(folder):
    amounts = [["node", "visits"], *[[f"n{i:03d}", 100 + 7 * i] for i in range(30)]]
    write_csv(folder / "visits.csv", amounts)
    line = "fit --nodes nodes.csv --edges edges.csv --labels visits.csv --label visits -o v.nodegp"
    with pytest.raises(ValueError, match=r"30 different numbers.*GraphGPRegressor.*--classes-any"):
        run(line)
    assert not (folder / "v.nodegp").exists()
    run(f"{line} --classes-anyway")
    assert (folder / "v.nodegp").exists()
    for visits in amounts[1:]:
        visits[1] = visits[1] % 3  # few numbers are classes
    write_csv(folder / "visits.csv", amounts)
    run(line)


def test_a_likelihood_of_amounts_names_who_has_it():
    with pytest.raises(ValueError, match=r"--likelihood must be .*'gaussian'.*GraphGPRegressor"):
        run(f"{FIT} --likelihood gaussian")


def test_long_waits_are_told_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(show, "_PATIENCE", 0.01)
    terminal = show.Terminal()
    with terminal.stage("fitting"):
        time.sleep(0.1)
    with terminal.stage("scoring", 7):
        terminal.advance(3)
        time.sleep(0.1)
    terminal.advance()  # of no stage
    lines = capsys.readouterr().err.splitlines()
    assert "nodegp: fitting: 0 s so far" in lines
    assert "nodegp: scoring: 3 of 7, 0 s so far" in lines
    with show.Terminal(quiet=True).stage("fitting"):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


# --- what people are shown ------------------------------------------------------------------------


@pytest.fixture
def titled(folder):
    """The same nodes with a title, a remark and a year."""
    rows = [
        [*row.values(), f"Title {n}", "" if n % 2 else f"remark {n}", 1990 + n % 7]
        for n, row in enumerate(rows_of("nodes.csv"))
    ]
    heads = [*rows_of("nodes.csv")[0], "title", "remark", "year"]
    write_csv(folder / "titled.csv", [heads, *rows])
    run("fit --nodes titled.csv --edges edges.csv --label kind -o titled.nodegp")


def test_questions_show_what_the_expert_needs(titled):
    (asked,) = run_json("query titled.nodegp -n 1")["ask"]
    place = int(asked["node"][1:])
    assert (asked["title"], asked["kind"]) == (f"Title {place}", "")
    graph, labels = nodegp.load("titled.nodegp").graph_, rows_of("titled.csv")
    around = [labels[j]["kind"] for j in graph.adjacency[[place]].indices]
    for name in NAMES:
        assert (f"{name} {around.count(name)}" in asked["neighbours"]) == (name in around)
    assert (f"{around.count('')} without a label" in asked["neighbours"]) == ("" in around)
    assert "title" not in run_json("query titled.nodegp -n 1 --show remark")["ask"][0]
    line = "query --nodes titled.csv --edges edges.csv -n 1 --show year"
    assert 1990 <= int(run_json(line)["ask"][0]["year"]) < 1997


def test_predictions_and_explanations_show_it_too(titled, folder):
    run("predict titled.nodegp --show title,remark -o shown.csv")
    row = rows_of("shown.csv")[4]
    assert list(row)[:4] == ["node", "title", "remark", "label"]
    assert (row["title"], row["remark"]) == ("Title 4", "remark 4")
    assert rows_of("shown.csv")[5]["remark"] == ""
    text, found = run("explain titled.nodegp n004").stdout, run_json("explain titled.nodegp n004")
    assert found["shown"] == {"title": "Title 4", "remark": "remark 4"}
    assert "Title 4" in text
    assert all(one["shown"]["title"] in text for one in found["labels"])
    with pytest.raises(
        ValueError, match=r"remembers no column 'year', but 'title', 'remark'; .*--show"
    ):
        run("predict titled.nodegp --show year")
    with pytest.raises(ValueError, match="--show is for nodes that the model knows"):
        run("predict titled.nodegp --nodes titled.csv --show title")


def test_a_column_called_like_one_of_ours_keeps_its_values(folder):
    rows = [[f"n{i:03d}", NAMES[i % 3], i % 5, f"mine {i}"] for i in range(12)]
    write_csv(folder / "clash.csv", [["node", "kind", "a", "label"], *rows])
    run("fit --nodes clash.csv --label kind --knn 2 -o clash.nodegp")
    run("predict clash.nodegp --show label -o clash_out.csv")
    row = rows_of("clash_out.csv")[3]
    assert row["label (given)"] == "mine 3"
    assert row["label"] in NAMES


# --- what people have -----------------------------------------------------------------------------


def test_a_graph_in_one_file(folder):
    G = networkx.Graph([(row["from"], row["to"]) for row in rows_of("edges.csv")])
    for row in rows_of("nodes.csv"):
        numbers = {name: float(row[name]) for name in "abc"}
        G.add_node(row["node"], **numbers, **({"kind": row["kind"]} if row["kind"] else {}))
    networkx.write_graphml(G, "whole.graphml")
    whole = run_json("fit --graph whole.graphml --label kind -o whole.nodegp")
    tables = run_json(FIT.replace("model.nodegp", "other.nodegp"))
    assert whole["input"]["classes"] == tables["input"]["classes"]
    assert whole["model"]["elbo"] == pytest.approx(tables["model"]["elbo"], rel=1e-6)
    asked = run_json("query --graph whole.graphml -n 2")
    assert {row["id"] for row in asked["ask"]} < set(G)
    for line, match in (
        ("fit --label kind -o no.nodegp", "give --nodes FILE, or --graph"),
        ("fit --graph whole.graphml --edges edges.csv --label kind -o no.nodegp", "of its own"),
        ("fit --graph nodes.csv --label kind -o no.nodegp", "no kind that can be read as a graph"),
        ("fit --graph none.gml --label kind -o no.nodegp", r"there is no file none\.gml"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=match):
            run(line)


def test_features_of_another_file_by_id(folder):
    rows = rows_of("nodes.csv")
    write_csv(folder / "kinds.csv", [["node", "kind"], *([r["node"], r["kind"]] for r in rows)])
    vectors = {row["node"]: [float(row[name]) for name in "abc"] for row in rows[::-1]}
    (folder / "vectors.json").write_text(json.dumps(vectors))
    line = FIT.replace("nodes.csv", "kinds.csv").replace("model.nodegp", "keyed.nodegp")
    came_in = run_json(f"{line} --features-table vectors.json")["input"]
    assert came_in["sources"] == ["embedding 'features' (3 numbers), l2"]
    write_csv(folder / "new.csv", [["node"], ["fresh"]])
    (folder / "new.json").write_text(json.dumps({"fresh": vectors["n003"], "other": [0, 0, 1]}))
    predict = "predict keyed.nodegp --nodes new.csv"
    assert run_json(f"{predict} --features-table new.json")[0]["node"] == "fresh"
    with pytest.raises(ValueError, match="no column 'features'"):
        run(predict)


def test_a_wrong_column_of_ids_is_no_reason_to_drop_all_edges(folder):
    rows = [[n, row["node"], row["kind"], row["a"]] for n, row in enumerate(rows_of("nodes.csv"))]
    write_csv(folder / "numbered.csv", [["number", "node", "kind", "a"], *rows])
    line = "fit --nodes numbered.csv --edges edges.csv --label kind --ignore-unknown -o no.nodegp"
    with pytest.raises(ValueError, match=r"values of column 'node' of numbered.csv: use --id node"):
        run(line)


def test_what_is_guessed_of_a_file_is_told_in_one_line(folder):
    lines = (folder / "truth.csv").read_text().replace("ant", "fourmi é").replace(",", ";")
    (folder / "windows.csv").write_bytes(lines.encode("cp1252"))
    command = [sys.executable, "-m", "nodegp", "update", "model.nodegp", "--labels", "windows.csv"]
    command += ["--new-classes", "--out", "windows.nodegp"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (told,) = [line for line in done.stderr.splitlines() if "windows.csv" in line]
    assert told.startswith("nodegp: windows.csv is not UTF-8 text; it is read as Windows-1252.")
    assert "fourmi é" in nodegp.load("windows.nodegp").classes_


@pytest.mark.parametrize("command", [FIT, "info model.nodegp", "query model.nodegp -n 2", "demo"])
def test_people_read_words_that_they_know(command):
    inside = ("terms[", "parts[", "variance", "evidence bound")
    text = run(command).stdout
    assert not any(word in text for word in inside)
    more = run(f"{command} --verbose").stdout
    assert any(word in more for word in inside)
    if not command.startswith("query"):
        assert "(fixed)" in more


# --- slips of strangers ---------------------------------------------------------------------------


def test_predictions_are_not_taken_for_labels():
    run("predict model.nodegp -o guesses.csv")
    for line in ("update model.nodegp -o self.nodegp", "evaluate model.nodegp"):
        with pytest.raises(ValueError, match="looks like predictions of nodegp"):
            run(f"{line} --labels guesses.csv")
    run("evaluate model.nodegp --labels guesses.csv --label label")  # who insists has it


def test_booleans_are_the_same_however_a_program_writes_them(folder):
    rows = [[f"n{i:03d}", "" if i > 9 else ("TRUE", "False")[i % 2], i % 5] for i in range(20)]
    write_csv(folder / "bool.csv", [["node", "gov", "a"], *rows])
    fitted = run_json("fit --nodes bool.csv --label gov --knn 2 -o bool.nodegp")
    assert fitted["model"]["classes"] == ["False", "True"]
    answers = pa.table({"node": ["n012", "n013"], "gov": [True, False]})
    pq.write_table(answers, folder / "bool.parquet")
    assert run_json("update bool.nodegp --labels bool.parquet")["new_labels"] == 2


def test_a_cold_start_shows_what_there_is_to_read(titled):
    (asked,) = run_json("query --nodes titled.csv --edges edges.csv -n 1")["ask"]
    assert asked["title"] == f"Title {int(asked['node'][1:])}"


def test_a_graph_without_features_says_what_could_be_one(titled):
    line = "fit --nodes titled.csv --edges edges.csv --label kind -o bare.nodegp"
    done = run(f"{line} --exclude a,b,c,year")
    assert "--text title" in done.stderr
    assert "the edges alone" in done.stdout


def test_ids_that_are_written_otherwise_are_told_of_though_they_are_to_be_ignored(folder):
    write_csv(folder / "upper.csv", [["node", "kind"], ["N021", "ant"], ["N022", "bee"]])
    words = r"more than half, which is not ignored.*only in upper and lower case"
    with pytest.raises(ValueError, match=words):
        run("update model.nodegp --labels upper.csv -o x.nodegp --ignore-unknown")
    write_csv(folder / "other.csv", [["node", "a", "b"], ["n021", 1, 2]])
    with pytest.raises(ValueError, match="has no column 'kind'"):
        run("update model.nodegp --labels other.csv -o x.nodegp")


def test_methods_that_need_features_are_left_out_where_there_are_none(folder):
    rows = [[row["node"], row["kind"]] for row in rows_of("nodes.csv")]
    write_csv(folder / "plain.csv", [["node", "kind"], *rows])
    run("fit --nodes plain.csv --edges edges.csv --label kind -o plain.nodegp")
    done = run("evaluate plain.nodegp --labels truth.csv --compare lp,logistic --json")
    assert set(json.loads(done.stdout)) == {"nodegp", "lp"}
    assert "logistic is left out" in done.stderr


def test_features_by_ids_that_are_written_otherwise(folder):
    bags = {
        row["node"].upper(): [1, 2, 3][: 1 + n % 3] for n, row in enumerate(rows_of("nodes.csv"))
    }
    (folder / "upper.json").write_text(json.dumps(bags))
    with pytest.raises(ValueError, match=r"40 of 40 nodes .*only in upper and lower case"):
        run(FIT.replace("model.nodegp", "u.nodegp") + " --features-table upper.json")
