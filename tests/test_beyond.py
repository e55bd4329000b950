"""`nodegp reproduce beyond`: who gets which labels, what is compared with what, and the files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from experiments import CONTEXT, NODES, reproduce, small_dataset
from nodegp import metrics
from nodegp.active import strategies
from nodegp.model.calibration import tempered
from nodegp_paper.experiments.figures import paired_differences
from nodegp_paper.experiments.models import fitted, uses_validation
from nodegp_paper.experiments.plan import TARGETS, expected_seconds, plan
from nodegp_paper.experiments.report import write_report
from nodegp_paper.experiments.results import entries, percent, root_mean_with_interval
from nodegp_paper.experiments.scoring import assessed, fitted_temperature
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import Record, Store
from nodegp_paper.experiments.tables import (
    active_table,
    calibration_table,
    few_labels_beyond_table,
    public_table,
    seconds_table,
    splits_table,
)
from nodegp_paper.experiments.tasks import active, splits, timing
from nodegp_paper.experiments.tasks.splits import MODELS

DATA = small_dataset("cora", **NODES)
GRAPH = DATA.graph


def record(task: str, model: str, seed: int = 0, settings: dict | None = None, **found) -> Record:
    return Record(Spec(task, "cora", model, "", seed, settings or {}), found, 1.5, {"nodegp": "1"})


def split_record(model: str, seed: int, accuracy: float, **found) -> Record:
    defaults = {"log_loss": 0.5, "brier": 0.3, "calibration_error": 0.1}
    rest = {"debiased_calibration_error": 0.01, "reliability": curve()}
    if model.startswith(("nodegp", "GGP")):
        rest |= {"coverage": 0.9, "set_size": 1.5}
    found = defaults | rest | {"accuracy": accuracy} | found
    return record(splits.RANDOM.name, model, seed, {"per_class": 20, "val": 500}, **found)


def curve() -> dict:
    return {"confidence": [0.4, None], "accuracy": [0.6, None], "count": [20, 0]}


def cells(table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


# --- the plan -------------------------------------------------------------------------------------


def test_the_plan_has_the_runs_that_were_asked_for():
    counts: dict[tuple, int] = {}
    for spec in plan(["beyond"]):
        size = spec.settings.get("per_class") if spec.task == splits.FEW.name else None
        key = spec.task, spec.dataset, spec.model, size
        counts[key] = counts.get(key, 0) + 1
        assert expected_seconds(spec) > 0
    for dataset in ("cora", "citeseer", "pubmed"):
        for model in MODELS:
            more = model.endswith("-X")
            assert counts[splits.RANDOM.name, dataset, model, None] == (10 if more else 100)
            assert counts[splits.PUBLIC.name, dataset, model, None] >= 1
            assert counts[timing.TASK.name, dataset, model, None] == 1
            for size in (1, 3, 5, 10):
                assert counts.get((splits.FEW.name, dataset, model, size), 0) == (0 if more else 20)
        for learner in active.LEARNERS:
            expected = 0 if dataset == "pubmed" else 10
            assert counts.get((active.BEYOND.name, dataset, learner, None), 0) == expected
    assert not {spec.key for spec in plan(["all"])} & {spec.key for spec in plan(["beyond"])}


def test_the_plan_is_narrowed():
    specs = plan(["beyond"], ["cora"], ["NODEGP", "appnp"], seeds=2)
    assert {spec.dataset for spec in specs} == {"cora"}
    models = {spec.model for spec in specs if spec.task != active.BEYOND.name}
    assert models == {"nodegp", "APPNP"}
    learners = {spec.model for spec in specs if spec.task == active.BEYOND.name}
    assert learners == {name for name in active.LEARNERS if name.endswith("nodegp")}
    assert {spec.seed for spec in specs} == {0, 1}
    assert plan(["table1"], models=["appnp"]) == []  # no row of the paper's


def test_every_pair_has_a_strategy_and_a_model():
    for strategy, model in active.PAIRS:
        assert strategy in strategies()
        assert model in ("nodegp", "GGP")
    assert len(set(active.LEARNERS)) == len(active.PAIRS)


# --- who gets which labels ------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_each_model_has_the_labels_that_are_its_own_to_use(name):
    model = fitted(name, DATA, NODES, 0, epochs=3)
    expected = np.arange(30) if name.endswith("-X") else np.arange(18)
    np.testing.assert_array_equal(model.labelled_, expected)
    stops_by_them = len(getattr(model, "validation_loss_", [])) > 0
    assert stops_by_them == uses_validation(name) == (name in ("GCN", "APPNP"))
    if stops_by_them:
        assert model.n_iter_ == 3
        alone = fitted(name, DATA, {"train": NODES["train"]}, 0, epochs=4)
        assert (alone.n_iter_, alone.validation_loss_) == (4, [])


def test_every_model_sees_the_same_split(monkeypatch):
    seen = []
    monkeypatch.setattr(splits, "assessed", lambda name, data, nodes, *_: seen.append(nodes) or {})
    for name in ("nodegp", "GCN", "GGP-X"):
        spec = Spec(splits.RANDOM.name, "cora", name, "", 7, splits.SETTINGS)
        splits.run(spec, CONTEXT)
    for nodes in seen[1:]:
        for part in ("train", "val", "test"):
            np.testing.assert_array_equal(nodes[part], seen[0][part])
    assert [len(seen[0][part]) for part in ("train", "val", "test")] == [140, 500, 1000]
    splits.run(Spec(splits.FEW.name, "cora", "GCN", "", 7, {"per_class": 3, "val": 0}), CONTEXT)
    assert "val" not in seen[-1]
    assert len(seen[-1]["train"]) == 21


def test_the_temperature_is_the_one_with_the_least_loss():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=80)
    y = np.array([rng.choice(3, p=p) for p in tempered(proba, 2.5)])
    grid = np.exp(np.linspace(-4.0, 4.0, 4001))
    best = grid[np.argmin([metrics.log_loss(y, tempered(proba, t)) for t in grid])]
    assert fitted_temperature(proba, y) == pytest.approx(best, rel=5e-3)


def test_what_is_measured_is_what_the_model_says():
    y = DATA.y[NODES["test"]]
    for name in ("nodegp", "GCN"):
        found = assessed(name, DATA, NODES, 0, 5)
        model = fitted(name, DATA, NODES, 0, 5)
        proba = model.predict_proba(GRAPH, NODES["test"])
        assert found["log_loss"] == pytest.approx(metrics.log_loss(y, proba))
        right = [str(int(p.argmax() == label)) for p, label in zip(proba, y, strict=True)]
        assert found["right"] == "".join(right)
        assert found["accuracy"] == pytest.approx(right.count("1") / 30)
        if name == "GCN":
            cooled = tempered(proba, found["temperature"])
            assert found["tempered"]["brier"] == pytest.approx(metrics.brier(y, cooled))
            assert "coverage" not in found
        else:
            sets = model.predict_set(GRAPH, NODES["test"], coverage=0.9)
            held = [bool(row[label]) for row, label in zip(sets, y, strict=True)]
            assert found["coverage"] == pytest.approx(sum(held) / 30)
            assert found["set_size"] == pytest.approx(sum(int(row.sum()) for row in sets) / 30)
            assert "tempered" not in found


def test_seconds_are_measured_in_turns_and_on_fresh_graphs(monkeypatch):
    fits, clock = [], [0.0]

    class Model:
        def predict_proba(self, graph):
            clock[0] += 1.0

    def fake(name, data, nodes, seed, epochs):
        fits.append((name, data.graph))
        clock[0] += 8.0 if name == "GCN" else 2.0 + seed
        return Model()

    monkeypatch.setattr(timing, "fitted", fake)
    monkeypatch.setattr(timing, "load", lambda *_: DATA)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    found = timing.run(Spec(timing.TASK.name, "cora", "LP", "", 0, {"rounds": 3}), CONTEXT)
    assert [name for name, _ in fits] == ["GCN", "LP"] * 4  # the first of each is not counted
    assert len({id(graph) for _, graph in fits}) == 8
    assert all(graph is not GRAPH for _, graph in fits)
    assert found["fit_rounds"] == [2.0, 3.0, 4.0]
    assert (found["fit"], found["fit_gcn"], found["fit_predict"]) == (3.0, 8.0, 4.0)
    assert found["fit_times_faster"] == pytest.approx(8 / 3)
    assert found["fit_predict_times_faster"] == pytest.approx(9 / 4)


# --- tables and figures ---------------------------------------------------------------------------


def test_differences_are_between_runs_on_the_same_split():
    records = [split_record("nodegp", seed, a) for seed, a in enumerate((0.80, 0.70, 0.90))]
    records += [split_record("GCN", seed, a) for seed, a in ((0, 0.78), (2, 0.89), (5, 0.10))]
    records += [split_record("GGP-X", 0, 0.5), split_record("nodegp-X", 0, 0.75)]
    (gcn,) = (entry for entry in entries(records, list(MODELS)) if entry.name == "GCN")
    assert gcn.differences(percent) == pytest.approx([-2.0, -1.0])
    rows = cells(splits_table(records))
    assert rows["nodegp"]["accuracy %"] == "80.0 ± 5.8"  # 10 / sqrt(3)
    assert rows["nodegp"]["difference to nodegp"] == ""
    assert rows["GCN"]["difference to nodegp"] == "-1.5 ± 0.5"
    assert rows["GCN"]["labels"] == "20 per class, 500 for early stopping"
    assert rows["GGP-X"]["difference to nodegp"] == "-25.0"  # to nodegp-X, and of one split
    assert rows["GGP-X"]["labels"] == "20 per class and 500"


def test_the_public_table_pairs_the_test_nodes():
    def run(model, seed, right):
        hits = right.count("1") / len(right)
        return record(
            splits.PUBLIC.name,
            model,
            seed,
            right=right,
            accuracy=hits,
            log_loss=1.0,
            calibration_error=0,
        )

    records = [run("nodegp", 0, "1110"), run("GCN", 0, "1000"), run("GCN", 1, "0010")]
    row = cells(public_table(records))["GCN"]
    assert row["accuracy %"] == "25.0 ± 14.4"  # of 50, 0, 50 and 0
    # nodegp has 100, 100, 100, 0: differences -50, -100, -50, 0 with a deviation of 40.8
    assert row["difference to nodegp"] == "-50.0 ± 20.4"
    assert (row["s.d. of restarts"], row["restarts"]) == ("0.0", "2")


def test_the_calibration_table_has_tempered_rows():
    inner = split_record("GCN", 0, 0.8, log_loss=0.25).metrics
    records = [split_record("nodegp", 0, 0.8)]
    records += [split_record("GCN", 0, 0.8, log_loss=0.75, tempered=inner)]
    rows = cells(calibration_table(records))
    assert list(rows) == ["nodegp", "GCN", "GCN, temperature"]
    assert rows["GCN, temperature"]["log loss"] == "0.250"
    assert rows["GCN, temperature"]["difference to nodegp"] == "-0.250"
    assert rows["nodegp"]["debiased (95 % interval)"] == "0.100 (0.100 to 0.100)"


def test_the_root_of_the_mean_and_its_interval():
    rng = np.random.default_rng(0)
    squares = 0.04 + rng.normal(scale=0.01, size=100)
    middle, low, high = root_mean_with_interval(squares.tolist())
    assert middle == pytest.approx(np.sqrt(squares.mean()))
    half = 1.96 * squares.std() / 10
    assert low**2 == pytest.approx(squares.mean() - half, abs=2e-4)
    assert high**2 == pytest.approx(squares.mean() + half, abs=2e-4)
    assert root_mean_with_interval([-0.02, -0.01]) == (0.0, 0.0, 0.0)  # chance, and no gap


def test_few_labels_by_size():
    records = [
        record(splits.FEW.name, model, seed, {"per_class": n, "val": 0}, accuracy=a + seed / 10)
        for model, n, a in (("nodegp", 1, 0.5), ("nodegp", 3, 0.6), ("LP", 1, 0.3), ("LP", 3, 0.7))
        for seed in (0, 1)
    ]
    table = few_labels_beyond_table(records)
    assert table.columns[2:] == ("1 per class", "difference", "3 per class", "difference")
    expected = ("LP", "cora", "35.0 ± 5.0", "-20.0 ± 0.0", "75.0 ± 5.0", "+10.0 ± 0.0")
    assert table.rows[1] == expected


def test_learners_are_compared_with_the_first():
    first, second = active.LEARNERS[:2]
    found = {"accuracy": 0.8, "log_loss": 0.5, "calibration_error": 0.1}
    records = [
        record(
            active.BEYOND.name, learner, seed, accuracy_curve=[alc - 0.1, alc, alc + 0.1], **found
        )
        for learner, alcs in ((first, (0.7, 0.8)), (second, (0.71, 0.83)))
        for seed, alc in enumerate(alcs)
    ]
    rows = cells(active_table(records))
    assert rows[first][f"difference to {first}"] == ""
    assert rows[second][f"difference to {first}"] == "+0.020 ± 0.010"
    assert rows[second]["ALC"] == "0.770 ± 0.060"


def test_every_dot_of_the_figure_is_a_split():
    records = [split_record("nodegp", seed, 0.8) for seed in range(3)]
    records += [split_record("LP", seed, 0.7 + 0.01 * seed) for seed in range(3)]
    (ax,) = paired_differences(records).drawing.axes
    (dots,) = [c for c in ax.collections if len(c.get_offsets()) == 3]
    assert dots.get_offsets()[:, 0].tolist() == pytest.approx([-10.0, -9.0, -8.0])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["LP"]


def test_only_the_quick_version_says_that_it_is(tmp_path):
    records = [split_record(model, seed, 0.8) for model in ("nodegp", "LP") for seed in (0, 1)]
    write_report("beyond", records, tmp_path)
    assert "not to compare" not in (tmp_path / "beyond.html").read_text()


def test_nothing_to_show_is_an_empty_page(tmp_path):
    assert not any(target.show([]) for target in TARGETS)
    assert [path.name for path in write_report("beyond", [], tmp_path)] == ["beyond.html"]


def test_a_table_of_seconds():
    found = {"fit": 0.5, "fit_predict": 0.75, "fit_times_faster": 4.0, "fit_rounds": [0.5]}
    records = [record(timing.TASK.name, "nodegp", **found, fit_predict_times_faster=3.0)]
    assert seconds_table(records).rows == [("nodegp", "cora", "0.50", "0.75", "4", "3", "1")]


# --- the command ----------------------------------------------------------------------------------


def test_the_quick_version_of_two_models(tmp_path):
    options = ["--quick", "--models", "nodegp,gcn", "--seeds", "1", "--out", str(tmp_path)]
    done = reproduce("beyond", *options, NODEGP_DATA="")
    assert done.returncode == 0, done.stderr
    specs = plan(["beyond"], models=["nodegp", "GCN"], seeds=1, quick=True)
    assert set(Store(tmp_path).records()) == {spec.key for spec in specs}
    alone = [spec for spec in specs if spec.task == timing.TASK.name]
    # What measures seconds comes last, when nothing else is running.
    last = done.stderr.splitlines()[-len(alone) - 1 :]
    assert last[0].startswith(f"{len(alone)} runs;")
    assert all(re.search(r"seconds cora \w+ seed 0: a fit [\d.]+ s", line) for line in last[1:])
    written = {Path(line).stem for line in done.stdout.split()}
    assert written == {
        "beyond_splits",
        "beyond_differences",
        "beyond_public",
        "beyond_few_labels",
        "beyond_few_labels_curves",
        "beyond_calibration",
        "beyond_reliability",
        "beyond_sets",
        "beyond_active",
        "beyond_learning",
        "beyond_seconds",
        "beyond",
    }
    page = (tmp_path / "beyond.html").read_text()
    assert page.count("<svg") == 4
    assert "not to compare" in page  # networks cut short must not look like a result
    assert not re.findall(r'<(?:script|link|img|iframe)\b|src="|url\(http|@import', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert not (tmp_path / "report.html").exists()  # nothing of the paper's was asked for


def test_specs_of_the_quick_version_are_other_runs():
    quick, full = ({spec.key for spec in plan(["beyond"], quick=q)} for q in (True, False))
    assert not quick & full
