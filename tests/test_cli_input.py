"""What people bring to the command line: files of all kinds, and slips in them."""

from __future__ import annotations

import json
import os

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nodegp
from tables import FIT, rows_of, run, run_json, write_csv

pytestmark = pytest.mark.usefixtures("in_folder")  # `folder`, with tables and a fitted model


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
    for words in ("'NA' is read as a class", "upper and lower case", "only one label of dog"):
        assert words in done.stderr
    many = [[f"n{i:03d}", f"c{i}", i % 7] for i in range(30)]
    write_csv(folder / "odd.csv", [["node", "kind", "x"], *many])
    assert "is this the right column" in run_json(line)["input"]["remarks"][0]


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


def test_what_is_guessed_of_a_file_is_told_in_one_line(commands, folder):
    lines = (folder / "truth.csv").read_text().replace("ant", "fourmi é").replace(",", ";")
    (folder / "windows.csv").write_bytes(lines.encode("cp1252"))
    command = ["update", "model.nodegp", "--labels", "windows.csv"]
    command += ["--new-classes", "--out", "windows.nodegp"]
    done = commands.run(str(folder), dict(os.environ), *command)
    assert done.returncode == 0, done.stderr
    (told,) = [line for line in done.stderr.splitlines() if "windows.csv" in line]
    assert told.startswith("nodegp: windows.csv is not UTF-8 text; it is read as Windows-1252.")
    assert "fourmi é" in nodegp.load("windows.nodegp").classes_


def test_booleans_are_the_same_however_a_program_writes_them(folder):
    rows = [[f"n{i:03d}", "" if i > 9 else ("TRUE", "False")[i % 2], i % 5] for i in range(20)]
    write_csv(folder / "bool.csv", [["node", "gov", "a"], *rows])
    fitted = run_json("fit --nodes bool.csv --label gov --knn 2 -o bool.nodegp")
    assert fitted["model"]["classes"] == ["False", "True"]
    answers = pa.table({"node": ["n012", "n013"], "gov": [True, False]})
    pq.write_table(answers, folder / "bool.parquet")
    assert run_json("update bool.nodegp --labels bool.parquet")["new_labels"] == 2


def test_ids_that_are_written_otherwise_are_told_of_though_they_are_to_be_ignored(folder):
    write_csv(folder / "upper.csv", [["node", "kind"], ["N021", "ant"], ["N022", "bee"]])
    words = r"more than half, which is not ignored.*only in upper and lower case"
    with pytest.raises(ValueError, match=words):
        run("update model.nodegp --labels upper.csv -o x.nodegp --ignore-unknown")
    write_csv(folder / "other.csv", [["node", "a", "b"], ["n021", 1, 2]])
    with pytest.raises(ValueError, match="has no column 'kind'"):
        run("update model.nodegp --labels other.csv -o x.nodegp")


def test_features_by_ids_that_are_written_otherwise(folder):
    bags = {
        row["node"].upper(): [1, 2, 3][: 1 + n % 3] for n, row in enumerate(rows_of("nodes.csv"))
    }
    (folder / "upper.json").write_text(json.dumps(bags))
    with pytest.raises(ValueError, match=r"40 of 40 nodes .*only in upper and lower case"):
        run(FIT.replace("model.nodegp", "u.nodegp") + " --features-table upper.json")
