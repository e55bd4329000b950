"""What the model does not know, through the command line: abstaining and prediction sets."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import nodegp
from nodegp import evaluation
from tables import NAMES, fitted_folder, rows_of, run, run_json, write_csv

pytestmark = pytest.mark.usefixtures("in_folder")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fitted_folder(tmp_path_factory.mktemp("doubt"), "--recipe paper")


def model():
    return nodegp.load("model.nodegp")


def expected_sets(coverage: float) -> list[list[str]]:
    """The classes of each node's set, likeliest first, one by one."""
    mask, proba = model().predict_set(coverage=coverage), model().predict_proba()
    return [
        [str(NAMES[c]) for c in sorted(range(3), key=lambda c: -p[c]) if row[c]]
        for row, p in zip(mask, proba, strict=True)
    ]


# --- predict --------------------------------------------------------------------------------------


def test_no_label_where_the_model_is_not_sure():
    top = model().predict_proba().max(axis=1)
    level = float(np.median(top))
    done = run(f"predict model.nodegp --abstain-below {level!r} -o sure.csv")
    labels = [
        str(name) if p >= level else "" for name, p in zip(model().predict(), top, strict=True)
    ]
    assert 0 < labels.count("") < 40
    rows = rows_of("sure.csv")
    assert [row["label"] for row in rows] == labels
    assert [float(row["probability"]) for row in rows] == pytest.approx(top)  # these stay
    assert f"{labels.count('')} of 40 nodes left open" in done.stderr
    assert run(f"predict model.nodegp --abstain-below {level!r} -o sure.csv -q").output == ""
    found = run_json(f"predict model.nodegp --abstain-below {level!r} -o sure.parquet")
    assert found["abstained"] == labels.count("")
    assert pq.read_table("sure.parquet")["label"].to_pylist() == [name or None for name in labels]
    found = run_json(f"predict model.nodegp --abstain-below {level!r} -q")
    assert [row["label"] for row in found] == [name or None for name in labels]


def test_sets_of_classes():
    sets = expected_sets(0.8)
    sizes = [len(one) for one in sets]
    assert len(set(sizes)) > 1  # or this test would see little
    done = run("predict model.nodegp --coverage 0.8 -o sets.csv")
    assert [row["set"] for row in rows_of("sets.csv")] == ["|".join(one) for one in sets]
    assert f"sets hold {np.mean(sizes):.2f} classes on average\n" in done.stderr
    found = run_json("predict model.nodegp --coverage 0.8 -o sets.parquet")
    assert found["mean_set_size"] == pytest.approx(np.mean(sizes))
    assert pq.read_table("sets.parquet")["set"].to_pylist() == sets
    assert [row["set"] for row in run_json("predict model.nodegp --coverage 0.8 -q")] == sets
    assert "set" not in run_json("predict model.nodegp")[0]  # only where asked for


def test_counts_go_over_all_blocks(monkeypatch):
    whole = run("predict model.nodegp --coverage 0.8 --abstain-below 0.7 -o whole.csv").stderr
    monkeypatch.setattr("nodegp.app.predictions.BLOCK_ROWS", 7)
    blocks = run("predict model.nodegp --coverage 0.8 --abstain-below 0.7 -o blocks.csv").stderr
    assert blocks == whole
    assert [r["set"] for r in rows_of("blocks.csv")] == [r["set"] for r in rows_of("whole.csv")]


def test_classes_that_are_numbers(folder):
    rows = [[i, i % 2, i % 7, (i * i) % 5] for i in range(20)]
    write_csv(folder / "numbers.csv", [["node", "kind", "a", "b"], *rows])
    run("fit --nodes numbers.csv --label kind --knn 3 -o numbers.nodegp")
    run("predict numbers.nodegp --coverage 0.9 --abstain-below 0.9 -o numbers_out.csv")
    mask = nodegp.load("numbers.nodegp").predict_set()
    assert mask.all(axis=1).any()  # or this test would see nothing
    found = rows_of("numbers_out.csv")
    assert {row["set"] for row, both in zip(found, mask.all(1), strict=True) if both} <= {
        "0|1",
        "1|0",
    }
    assert {row["label"] for row in found} <= {"0", "1", ""}


def test_a_name_that_would_look_like_two(folder):
    rows = [[i, "a|b" if i % 2 else "c", i % 7] for i in range(12)]
    write_csv(folder / "bars.csv", [["node", "kind", "a"], *rows])
    run("fit --nodes bars.csv --label kind --knn 3 -o bars.nodegp")
    with pytest.raises(ValueError, match=r"names with '\|' in them.*\.parquet"):
        run("predict bars.nodegp --coverage 0.9 -o bars_out.csv")
    assert not (folder / "bars_out.csv").exists()
    run("predict bars.nodegp --coverage 0.9 -o bars_out.parquet")
    assert ["a|b"] in [one[:1] for one in pq.read_table("bars_out.parquet")["set"].to_pylist()]


def test_too_few_labels_for_the_coverage_are_said(folder):
    few = [["node", "kind"], *[[f"n{i:03d}", NAMES[i % 3]] for i in range(6)]]
    write_csv(folder / "few.csv", few)
    run("fit --nodes nodes.csv --edges edges.csv --id node --labels few.csv -o few.nodegp")
    done = run("predict few.nodegp --coverage 0.99 -o few_out.csv")
    assert "sets hold 3.00 classes on average, which is all: too few labels" in done.stderr


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--coverage 90", "--coverage must lie between 0 and 1, got 90; for 90 % write 0.9"),
        ("--coverage 0", "--coverage must lie between 0 and 1"),
        ("--coverage nan", "--coverage must lie between 0 and 1"),
        ("--abstain-below 1.5", "--abstain-below must lie between 0 and 1, got 1.5$"),
        ("--abstain-below -0.5", "--abstain-below must lie between 0 and 1"),
    ],
)
def test_shares_that_are_none(command, options, message):
    with pytest.raises(ValueError, match=message):
        run(f"{command} model.nodegp {options}")


# --- evaluate -------------------------------------------------------------------------------------


def truth() -> np.ndarray:
    """Everyone's class, as a position."""
    kinds = [row["kind"] for row in rows_of("truth.csv")]
    return np.searchsorted(NAMES, kinds)


def test_sets_on_labels_the_model_has_not_seen():
    found = run_json("evaluate model.nodegp --labels truth.csv --coverage 0.8 -q")["nodegp"]
    mask, y = model().predict_set(nodes=np.arange(20, 40), coverage=0.8), truth()[20:]
    held = [bool(row[c]) for row, c in zip(mask, y, strict=True)]
    assert found["set_coverage"] == np.mean(held)
    assert found["set_coverage_error"] == pytest.approx(
        np.sqrt(np.mean(held) * np.mean(~np.array(held)) / 20)
    )
    assert found["set_size"] == np.mean([row.sum() for row in mask])
    done = run("evaluate model.nodegp --labels truth.csv --coverage 0.8 --compare lp -q").stdout
    section = done.split("Prediction sets for a coverage of 0.8")[1].split("Confusion")[0]
    assert f"{np.mean(held):.3f}" in section
    assert "lp" not in section  # which has none


def test_a_labels_own_score_has_no_part_in_its_set():
    found = run_json("evaluate model.nodegp --coverage 0.7")["nodegp"]
    loo, y = model().loo_proba_, truth()[:20]
    held, size = [], []
    for i in range(20):
        others = sorted(loo[j, y[j]] for j in range(20) if j != i)
        threshold = others[5]  # the sixth of 19: 0.3 * (19 + 1)
        chosen = [c for c in range(3) if loo[i, c] >= threshold or c == loo[i].argmax()]
        held.append(y[i] in chosen)
        size.append(len(chosen))
    assert found["set_coverage"] == np.mean(held)
    assert found["set_size"] == np.mean(size)


def test_folds_make_sets_of_their_own():
    found = run_json("evaluate model.nodegp --folds 4 --coverage 0.8")["nodegp"]
    fitted, y, sets = model(), truth()[:20], np.zeros((20, 3), dtype=bool)
    for train, test in evaluation._folds(y, 4, 0):
        hidden = np.full(40, None, dtype=object)
        hidden[train] = NAMES[y[train]]
        again = clone(fitted).fit(fitted.graph_, hidden, classes=NAMES)
        sets[test] = again.predict_set(nodes=test, coverage=0.8)
    assert found["set_size"] == sets.sum() / 20
    assert found["set_coverage"] == sets[np.arange(20), y].mean()
    assert "set_size" not in run_json("evaluate model.nodegp --folds 4")["nodegp"]


def test_accuracy_of_the_nodes_that_get_an_answer(folder):
    loo, y = model().loo_proba_, truth()[:20]
    level = round(float(np.median(loo.max(axis=1))), 3)
    found = run_json(f"evaluate model.nodegp --abstain-below {level}")["nodegp"]
    right = [loo[i].argmax() == y[i] for i in range(20) if loo[i].max() >= level]
    assert 0 < len(right) < 20
    assert found["answered"] == len(right) / 20
    assert found["answered_accuracy"] == np.mean(right)
    nobody = run_json("evaluate model.nodegp --abstain-below 0.999999")["nodegp"]
    assert (nobody["answered"], nobody["answered_accuracy"]) == (0, None)
    line = f"evaluate model.nodegp --abstain-below {level} --coverage 0.8 --report doubt.html"
    title = f"Answers with a probability of at least {level}"
    assert title in run(line).stdout
    page = (folder / "doubt.html").read_text()
    assert title in page
    assert "Prediction sets for a coverage of 0.8" in page


# --- the same in Python ---------------------------------------------------------------------------


def test_frames_have_sets_and_abstain_too():
    frame = model().predict_frame(coverage=0.8, abstain_below=0.7)
    assert frame["set"].to_pylist() == expected_sets(0.8)
    top = model().predict_proba().max(axis=1)
    assert [name is None for name in frame["label"].to_pylist()] == (top < 0.7).tolist()
    assert model().predict_frame(nodes=[], coverage=0.8)["set"].to_pylist() == []
    with pytest.raises(ValueError, match="coverage is a share"):
        model().predict_frame(coverage=90)
    with pytest.raises(ValueError, match="abstain_below is a probability"):
        model().predict_frame(abstain_below=80)
