"""Questions to an expert through the command line: cold starts, answers, and the updated model."""

from __future__ import annotations

import numpy as np
import pytest

import nodegp
from tables import FIT, rows_of, run, run_json, write_csv

pytestmark = pytest.mark.usefixtures("in_folder")  # `folder`, with tables and a fitted model


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


def test_predictions_are_not_taken_for_labels():
    run("predict model.nodegp -o guesses.csv")
    for line in ("update model.nodegp -o self.nodegp", "evaluate model.nodegp"):
        with pytest.raises(ValueError, match="looks like predictions of nodegp"):
            run(f"{line} --labels guesses.csv")
    run("evaluate model.nodegp --labels guesses.csv --label label")  # who insists has it
