"""`nodegp reproduce zoo`: who gets which labels, ranks and regret, and the files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from experiments import CONTEXT, NODES, reproduce, reproduce_here, small_dataset
from nodegp import GraphGPClassifier, metrics
from nodegp.active import strategies
from nodegp.datasets import Dataset, load_dataset
from nodegp.evaluation import leave_one_out
from nodegp.graph import Graph
from nodegp_paper.experiments.models import fitted, labels_at
from nodegp_paper.experiments.plan import TARGETS, expected_seconds, plan
from nodegp_paper.experiments.report import write_report
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import Record, Store
from nodegp_paper.experiments.tables import zoo_active_table
from nodegp_paper.experiments.tasks import active, zoo, zoo_loo
from nodegp_paper.experiments.tasks.zoo import METHODS
from nodegp_paper.experiments.zoo_results import Zoo, covers
from nodegp_paper.experiments.zoo_tables import (
    accuracy_table,
    calibration_table,
    data_table,
    leave_one_out_table,
    log_loss_table,
    seconds_table,
    sets_table,
    summary_table,
)
from nodegp_paper.metrics import debiased_calibration_error
from zoo_files import needs_zoo

DATA = small_dataset("acm")
GRAPH = DATA.graph
BARE = Dataset("polblogs", Graph(GRAPH.adjacency), DATA.y, {}, DATA.class_names)


def record(
    method: str, seed: int, accuracy: float, graph: str = "acm", per_class: int = 3, **found
) -> Record:
    defaults = {
        "log_loss": 0.5,
        "uniform_log_loss": 1.0,
        "debiased_calibration_error": 0.01,
        "fit_predict": 0.25,
    }
    if method == "nodegp":
        defaults |= {"coverage": 0.9, "set_size": 1.5}
    spec = Spec("zoo", graph, method, "", seed, {"per_class": per_class})
    return Record(spec, defaults | {"accuracy": accuracy} | found, 1.5, {"nodegp": "1"})


def cells(table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


# --- the plan -------------------------------------------------------------------------------------


def test_the_plan_has_the_runs_that_were_asked_for():
    seeds: dict[tuple, list[int]] = {}
    for spec in plan(["zoo"]):
        key = spec.task, spec.dataset, spec.model, *sorted(spec.settings.items())
        seeds.setdefault(key, []).append(spec.seed)
        assert expected_seconds(spec) > 0
    assert len(zoo.GRAPHS) == 12
    for graph in zoo.GRAPHS:
        for method in METHODS:
            more = [("val", 500)] if method.endswith("+val") else []
            network = method.startswith(("GCN", "APPNP"))
            lacks = graph == "polblogs" and method in ("Logistic", "features")
            for per_class in (3, 10, 20):
                found = seeds.get(("zoo", graph, method, ("per_class", per_class), *more), [])
                assert found == ([] if lacks else list(range(10 if network else 20)))
        for per_class in (5, 20):
            for draw in ("balanced", "random"):
                key = ("draw", draw), ("per_class", per_class)
                assert seeds["zoo, leave-one-out", graph, "nodegp", *key] == list(range(100))
    asked = {key[1:3] for key in seeds if key[0] == "zoo, active"}
    assert asked == {(g, learner) for g in active.ZOO_GRAPHS for learner in active.ZOO_LEARNERS}
    assert len(active.ZOO_GRAPHS) == 5
    for learner in active.ZOO_LEARNERS:
        assert learner.split(": ")[0] in strategies()


def test_each_table_is_asked_for_by_itself():
    tasks = {name: {s.task for s in plan([name])} for name in ("zoo-splits", "zoo-active")}
    assert tasks == {"zoo-splits": {"zoo", "zoo, data"}, "zoo-active": {"zoo, active"}}
    specs = plan(["zoo-loo"], ["cornell"], seeds=3)
    assert {(s.task, s.dataset) for s in specs} == {("zoo, leave-one-out", "cornell")}
    assert len(specs) == 3 * 4
    specs = plan(["zoo-splits"], ["acm"], ["GCN+VAL", "paper"], seeds=1)
    assert {s.model for s in specs if s.task == "zoo"} == {"GCN+val", "paper"}


def test_graphs_of_the_zoo_are_for_the_zoo():
    with pytest.raises(ValueError, match=r"'acm'; choose among cora, citeseer, pubmed$"):
        plan(["all"], ["acm"])
    both = plan(["table2", "zoo-splits"], ["acm", "cora"], ["LP"], seeds=1)
    assert {s.dataset for s in both if s.task == "data"} == {"cora"}
    assert {s.dataset for s in both if s.task == "zoo"} == {"acm", "cora"}


def test_the_quick_version_needs_no_files():
    specs = plan(["zoo"], quick=True)
    assert {spec.dataset for spec in specs} == {"cora"}
    assert {spec.task for spec in specs} == {"zoo", "zoo, data", "zoo, active", zoo_loo.TASK.name}
    networks = [s for s in specs if s.model.startswith(("GCN", "APPNP"))]
    assert {s.settings.get("epochs") for s in networks} == {20}


# --- who gets which labels ------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_the_labels_that_are_its_own_to_use(name):
    method = METHODS[name]
    nodes = NODES if method.has_validation else {k: NODES[k] for k in ("train", "test")}
    model = fitted(method.model, DATA, nodes, 0, epochs=3)
    np.testing.assert_array_equal(model.labelled_, NODES["train"])
    assert (len(getattr(model, "validation_loss_", [])) > 0) == name.endswith("+val")


def test_the_models_are_those_that_a_user_has():
    plain, paper, features = (
        fitted(name, DATA, NODES, 0) for name in ("nodegp", "paper", "features")
    )
    assert plain.get_params() == GraphGPClassifier(random_state=0).get_params()
    assert paper.get_params() == GraphGPClassifier("paper", random_state=0).get_params()
    given = GraphGPClassifier(filter="identity", random_state=0)
    assert features.get_params() == given.get_params()


def test_every_method_sees_the_same_split(monkeypatch):
    seen = {}
    monkeypatch.setattr(zoo, "assess", lambda method, data, nodes, *_: seen.update({method: nodes}))
    for method in METHODS.values():
        settings = {"per_class": 10} | ({"val": 500} if method.has_validation else {})
        zoo.run(Spec("zoo", "cora", method.name, "", 7, settings), CONTEXT)
    first = seen[METHODS["nodegp"]]
    public = load_dataset("cora").splits["test"]
    for method, nodes in seen.items():
        np.testing.assert_array_equal(nodes["train"], first["train"])
        assert ("val" in nodes) == method.has_validation
        expected = np.setdiff1d(first["test"], nodes.get("val", []))
        np.testing.assert_array_equal(nodes["test"], expected)
        assert not np.intersect1d(np.concatenate(list(nodes.values())), public).size
    assert len(first["train"]) == 70
    assert len(first["test"]) == 2708 - 1000 - 70


def test_what_is_measured_is_what_the_model_says():
    y = DATA.y[NODES["test"]]
    for name in ("nodegp", "LP", "GCN+val"):
        found = zoo.assess(METHODS[name], DATA, NODES, 0, 5)
        model = fitted(METHODS[name].model, DATA, NODES, 0, 5)
        proba = model.predict_proba(GRAPH, NODES["test"])
        assert found["accuracy"] == pytest.approx((proba.argmax(axis=1) == y).mean())
        assert found["log_loss"] == pytest.approx(metrics.log_loss(y, proba))
        error = debiased_calibration_error(y, proba)
        assert found["debiased_calibration_error"] == pytest.approx(error)
        assert found["uniform_log_loss"] == pytest.approx(np.log(3))
        assert found["fit_predict"] > 0
        if name == "nodegp":
            sets = model.predict_set(GRAPH, NODES["test"], coverage=0.9)
            assert found["coverage"] == pytest.approx(sets[np.arange(30), y].mean())
            assert found["set_size"] == pytest.approx(sets.sum(axis=1).mean())
        else:
            assert "coverage" not in found


def test_without_features_networks_have_a_column_to_each_node():
    with_columns = zoo.assess(METHODS["GCN"], BARE, NODES, 0, 5)
    identity = Dataset("x", Graph(GRAPH.adjacency, np.eye(60)), DATA.y, {}, DATA.class_names)
    same = zoo.assess(METHODS["GCN"], identity, NODES, 0, 5)
    assert with_columns["log_loss"] == pytest.approx(same["log_loss"], rel=1e-5)
    for name in ("nodegp", "LP", "paper"):
        assert zoo.assess(METHODS[name], BARE, NODES, 0)["log_loss"] > 0
    assert {m for m in METHODS if zoo.cannot_run(m, "polblogs")} == {"Logistic", "features"}


def test_leave_one_out_is_set_against_the_truth(monkeypatch):
    monkeypatch.setattr(zoo_loo, "graph_of", lambda *_: DATA)
    for draw in zoo_loo.DRAWS:
        train, rest = zoo_loo.drawn(DATA, 5, draw, 1)
        assert len(train) == sum(min(5, int((DATA.y == c).sum()) // 2) for c in range(3))
        np.testing.assert_array_equal(np.sort(np.concatenate([train, rest])), np.arange(60))
        found = zoo_loo.run(
            Spec(zoo_loo.TASK.name, "acm", "nodegp", "", 1, {"per_class": 5, "draw": draw}), CONTEXT
        )
        model = GraphGPClassifier(random_state=1)
        model.fit(GRAPH, labels_at(DATA, train), classes=range(3))
        own = leave_one_out(model)
        assert found["loo_accuracy"] == pytest.approx(own.accuracy)
        assert found["loo_log_loss"] == pytest.approx(own.log_loss)
        proba = model.predict_proba(GRAPH, rest)
        assert found["accuracy"] == pytest.approx((proba.argmax(axis=1) == DATA.y[rest]).mean())
        assert found["log_loss"] == pytest.approx(metrics.log_loss(DATA.y[rest], proba))
    assert zoo_loo.drawn(DATA, 5, "balanced", 1)[0].tolist() != train.tolist()


# --- ranks, regret and tables ---------------------------------------------------------------------


def example() -> list[Record]:
    """nodegp is best on acm; on polblogs LP is, and by more than chance at ten labels per class."""
    records = []
    for graph, per_class, scores in (
        ("acm", 3, {"nodegp": (0.80, 0.82), "LP": (0.70, 0.70), "Logistic": (0.60, 0.62)}),
        ("polblogs", 3, {"nodegp": (0.50, 0.60), "LP": (0.58, 0.56)}),
        ("polblogs", 10, {"nodegp": (0.80, 0.82), "LP": (0.90, 0.91)}),
    ):
        for method, values in scores.items():
            loss = 1.1 if (method, graph) == ("LP", "acm") else 0.5 + 0.1 * (method != "nodegp")
            records += [
                record(method, seed, value, graph, per_class, log_loss=loss)
                for seed, value in enumerate(values)
            ]
    # More labels, and a split that the others do not have.
    return [*records, record("GCN+val", 0, 0.99), record("GCN+val", 7, 0.97)]


def test_regret_is_against_the_best_with_the_same_labels_on_the_same_splits():
    found = Zoo.of(example())
    assert found.rivals == ["nodegp", "LP", "Logistic"]
    assert found.methods[-1] == "GCN+val"
    assert found.cases == [("acm", 3), ("polblogs", 3), ("polblogs", 10)]
    none = found.regret("nodegp", ("acm", 3))
    assert (none.points, none.best, none.counts) == (0.0, "nodegp", False)
    # 8 and -4 points: 2 on average, within two standard errors of 6.
    chance = found.regret("nodegp", ("polblogs", 3))
    assert (chance.points, chance.error) == (pytest.approx(2.0), pytest.approx(6.0))
    assert not chance.counts
    worst = found.worst_regret("nodegp")
    assert (worst.case, worst.best, worst.counts) == (("polblogs", 10), "LP", True)
    assert (worst.points, worst.error) == (pytest.approx(9.5), pytest.approx(0.5))
    assert found.regret("Logistic", ("polblogs", 3)) is None


def test_a_regret_of_a_method_with_fewer_splits_is_on_those():
    records = [record("nodegp", seed, value) for seed, value in enumerate((0.5, 0.9, 0.9))]
    records += [record("GCN", 0, 0.6)]
    regret = Zoo.of(records).regret("nodegp", ("acm", 3))
    assert regret.points == pytest.approx(10.0)
    assert regret.error is None
    assert Zoo.of(records).ranks(("acm", 3)) == {"nodegp": 2.0, "GCN": 1.0}


def test_ranks():
    found = Zoo.of(example())
    assert found.ranks(("acm", 3)) == {"nodegp": 1.0, "LP": 2.0, "Logistic": 3.0}
    assert found.ranks(("polblogs", 3)) == {"nodegp": 2.0, "LP": 1.0}
    assert found.mean_rank("nodegp") == pytest.approx(5 / 3)
    equal = Zoo.of([record("nodegp", 0, 0.5), record("LP", 0, 0.5)])
    assert equal.ranks(("acm", 3)) == {"nodegp": 1.5, "LP": 1.5}
    assert equal.regret("nodegp", ("acm", 3)).best == "nodegp"


def test_the_table_of_accuracies():
    rows = cells(accuracy_table(example(), 3))
    assert list(rows) == ["acm", "polblogs", "mean of 1", "mean rank", "largest regret", "where"]
    assert rows["acm"]["nodegp"] == "81.0 ± 1.0"
    assert rows["acm"]["GCN+val"] == "98.0 ± 1.0"
    assert rows["acm"]["regret of nodegp"] == "0"
    assert rows["polblogs"]["Logistic"] == "no features"
    assert rows["polblogs"]["GCN+val"] == ""  # it could run, and did not
    assert rows["polblogs"]["regret of nodegp"] == "2.0 ± 6.0 (LP)"
    assert rows["mean of 1"]["nodegp"] == "81.0"  # where all methods are
    assert rows["mean rank"]["nodegp"] == "1.50"
    assert rows["mean rank"]["GCN+val"] == rows["largest regret"]["GCN+val"] == ""
    assert rows["largest regret"]["Logistic"] == "20.0 ± 0.0"
    assert rows["where"]["nodegp"] == "polblogs, 3: LP"
    assert accuracy_table(example(), 20) is None


def test_the_table_of_log_losses():
    rows = cells(log_loss_table(example(), 3))
    assert rows["acm"]["uniform"] == "1.000"
    assert rows["acm"]["LP"] == "1.100 ± 0.000"
    assert rows["above uniform"]["LP"] == "1 of 2"
    assert rows["above uniform"]["nodegp"] == "0 of 2"
    assert (rows["lowest on"]["nodegp"], rows["lowest on"]["LP"]) == ("2", "0")


def test_the_tables_of_calibration_sets_and_seconds():
    records = [record("nodegp", seed, 0.8, coverage=c) for seed, c in enumerate((0.8, 0.9))]
    records += [
        record("nodegp", seed, 0.8, debiased_calibration_error=value, per_class=10, coverage=0.96)
        for seed, value in enumerate((0.009, 0.001))
    ]
    records += [record("LP", 0, 0.7, debiased_calibration_error=-0.01, per_class=10)]
    rows = cells(calibration_table(records, 10))
    assert (rows["acm"]["nodegp"], rows["acm"]["LP"]) == ("0.071", "0.000")
    assert rows["at most 0.06"] == {"graph": "at most 0.06", "nodegp": "0 of 1", "LP": "1 of 1"}
    assert rows["at most 0.10"]["nodegp"] == "1 of 1"
    rows = cells(sets_table(records))
    assert rows["acm"]["3: coverage %"] == "85.0 ± 5.0"
    assert rows["acm"]["10: classes"] == "1.50 ± 0.00"
    assert rows["as promised on"]["3: coverage %"] == "1 of 1"  # 90 is within two errors
    assert rows["as promised on"]["10: coverage %"] == "0 of 1"
    assert cells(seconds_table(records))["acm"] == {"graph": "acm", "nodegp": "0.25", "LP": "0.25"}


@pytest.mark.parametrize(
    ("percents", "promised"),
    [([87.0, 87.0], True), ([94.5, 94.5], False), ([80.0, 90.0], True), ([85.0], False)],
)
def test_what_sets_promise(percents, promised):
    assert covers(percents) == promised


def test_the_summary():
    rows = cells(summary_table(example()))
    assert rows["nodegp"]["largest regret"] == "9.5 ± 0.5"
    assert rows["nodegp"]["where"] == "polblogs, 10: LP"
    assert rows["nodegp"]["regrets that count"] == "1"
    assert rows["nodegp"]["lowest"] == "3"
    assert rows["LP"]["worst loss less uniform"] == "+0.100"
    assert rows["LP"]["on"] == "acm, 3"
    assert rows["nodegp"]["accuracy %"] == "81.0"
    assert rows["nodegp"]["calibration error"] == "0.100"
    assert rows["GCN+val"]["mean rank"] == rows["GCN+val"]["regrets that count"] == ""


def test_the_table_of_leave_one_out():
    def draw(graph, kind, seed, own, true, loss=0.5):
        spec = Spec("zoo, leave-one-out", graph, "nodegp", "", seed, {"per_class": 5, "draw": kind})
        found = {"loo_accuracy": own, "accuracy": true, "loo_log_loss": loss, "log_loss": 0.5}
        return Record(spec, found, 1.0, {})

    records = [
        draw("acm", "balanced", 0, 0.5, 0.7),
        draw("acm", "balanced", 1, 0.6, 0.7),
        draw("cora", "balanced", 0, 0.7, 0.72),
        draw("acm", "random", 0, 0.7, 0.7, 0.65),
    ]
    table = leave_one_out_table(records)
    by_place = {row[:2]: row[2:] for row in table.rows}
    few, as_many = "5 per class", "as many as 5, at random"
    expected = ("55.0", "70.0", "-15.0 ± 5.0", "0.500", "0.500", "+0.000 ± 0.000", "2")
    assert by_place["acm", few] == expected
    assert by_place["acm", as_many][5] == "+0.150"
    assert ("honest on 1 of 2", few) in by_place
    assert ("honest on 0 of 1", as_many) in by_place


def test_the_table_of_strategies():
    first, second = active.ZOO_LEARNERS[:2]
    found = {"accuracy": 0.8, "log_loss": 0.5, "calibration_error": 0.1}
    records = [
        Record(
            Spec(active.ZOO.name, "polblogs", learner, "", seed),
            found | {"accuracy_curve": [alc - 0.1, alc, alc + 0.1]},
            1.0,
            {},
        )
        for learner, alcs in ((first, (0.7, 0.8)), (second, (0.71, 0.83)))
        for seed, alc in enumerate(alcs)
    ]
    rows = cells(zoo_active_table(records))
    assert rows[second][f"difference to {first}"] == "+0.020 ± 0.010"
    assert rows[first]["ALC"] == "0.750 ± 0.050"


def test_the_table_of_graphs_counts_what_is_dropped(monkeypatch):
    y = np.repeat([0, 1, 2], [30, 27, 3])
    whole = Dataset("acm", GRAPH, y, {}, ("a", "b", "c"))
    monkeypatch.setattr(zoo, "load_dataset", lambda *_: whole)
    zoo.graph_of.cache_clear()
    try:
        spec = Spec(zoo.DATA.name, "acm", "data")
        row = cells(data_table([Record(spec, zoo.run_data(spec, CONTEXT), 1.0, {})]))["acm"]
    finally:
        zoo.graph_of.cache_clear()
    assert (row["nodes"], row["classes"], row["dropped"]) == ("60", "3", "1")
    assert row["smallest class"] == "27"


# --- the page -------------------------------------------------------------------------------------


def test_the_page_says_what_was_run(tmp_path):
    written = write_report("zoo", example(), tmp_path)
    assert {"zoo.md", "zoo.html"} <= {path.name for path in written}
    text = (tmp_path / "zoo.md").read_text()
    assert text.startswith("# The zoo")
    assert "- zoo: nodegp, LP, Logistic, GCN+val on acm, polblogs; 3, 10 labels per class;" in text
    assert "16 runs" in text
    whole = len(plan(["zoo"]))
    # Those of GCN+val have other settings than planned ones.
    assert f"A part of the experiment, 14 of {whole:,} runs" in text
    assert "not to compare" not in text
    for path in written:
        if path.stem.startswith("zoo_"):
            assert path.read_text().strip() in text
    page = (tmp_path / "zoo.html").read_text()
    assert "What was run" in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_nothing_to_show_is_an_empty_page(tmp_path):
    assert not any(target.show([]) for target in TARGETS if target.page == "zoo")
    assert {path.name for path in write_report("zoo", [], tmp_path)} == {"zoo.md", "zoo.html"}


# --- the command ----------------------------------------------------------------------------------


@needs_zoo
def test_the_quick_version_on_a_small_graph(tmp_path, monkeypatch, capsys):
    options = ("zoo", "--quick", "--datasets", "cornell", "--seeds", "1", "--out", str(tmp_path))
    done = reproduce(*options)
    assert done.returncode == 0, done.stderr
    specs = plan(["zoo"], ["cornell"], seeds=1, quick=True)
    assert set(Store(tmp_path).records()) == {spec.key for spec in specs}
    assert {Path(line).name for line in done.stdout.split()} == {
        "zoo_data.md",
        "zoo_summary.md",
        "zoo_accuracy_3.md",
        "zoo_log_loss_3.md",
        "zoo_calibration_3.md",
        "zoo_sets.md",
        "zoo_seconds.md",
        "zoo_active.md",
        "zoo_leave_one_out.md",
        "zoo.md",
        "zoo.html",
    }
    text = (tmp_path / "zoo.md").read_text()
    assert "| cornell | 183 | 277 | 1,702 | 5 | 1 | 18 |" in text
    assert "not to compare" in text  # networks cut short must not look like a result
    code, said = reproduce_here(monkeypatch, capsys, *options)  # all of it is there
    assert code == 0
    assert f"{len(specs)} runs, {len(specs)} finished before" in said


def test_without_the_files_the_command_says_so_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NODEGP_DATA", str(tmp_path))
    options = ("zoo-loo", "--datasets", "acm", "--out", str(tmp_path / "out"))
    code, said = reproduce_here(monkeypatch, capsys, *options)
    assert code == 1
    assert said.startswith("nodegp: The graph 'acm' is not to be had")
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()
