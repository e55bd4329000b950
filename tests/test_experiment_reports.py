"""From records to tables, figures and a page, and all of it from the command line."""

import json
import os
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from browser import look_in_a_browser
from experiments import record, reproduce, reproduce_here, results
from nodegp_paper.experiments import command as reproduction
from nodegp_paper.experiments.figures import learning_curves
from nodegp_paper.experiments.plan import plan
from nodegp_paper.experiments.report import write_report
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import Record, select
from nodegp_paper.experiments.tables import accuracy_table, alc_table
from nodegp_paper.experiments.task import Context
from nodegp_paper.experiments.tasks import active, semi_supervised

GCN = Spec("semi-supervised", "cora", "GCN")
DATA = Spec("data", "cora", "data")


# --- tables, figures, report ----------------------------------------------------------------


def active_records(engine: str = "default") -> list[Record]:
    curves = [[0.2, 0.4, 0.6], [0.3, 0.5, 0.7]]
    return [
        record(
            Spec(active.TASK.name, "cora", "SOPT-GGP", engine, seed),
            alc=sum(c) / 3 - 0.1,  # as if it were less
            alc_trapezoid=c[1],
            log_loss=1.0,
            calibration_error=0.1,
            accuracy_curve=c,
        )
        for seed, c in enumerate(curves)
    ]


def test_table_of_accuracies_by_hand():
    records = [
        record(replace(GCN, seed=s), accuracy=a, log_loss=0.5, calibration_error=0.25)
        for s, a in enumerate((0.80, 0.82))
    ]
    table = accuracy_table(records)
    (row,) = table.rows
    cells = dict(zip(table.columns, row, strict=True))
    assert cells["accuracy %"] == "81.0"
    assert cells["s.d."] == "1.4"  # 2 / sqrt(2)
    assert (cells["n"], cells["printed"], cells["difference"]) == ("2", "81.5", "-0.5")
    assert cells["validation labels"] == "used"
    assert table.markdown().splitlines()[4].startswith("| GCN | cora | 81.0 | 1.4 |")


def test_table_of_areas_by_hand():
    (row,) = alc_table(active_records()).rows
    assert row[:7] == (
        "SOPT-GGP, default engine",
        "cora",
        "0.450",
        "0.050",
        "2",
        "0.733 ± 0.001",
        "-0.283",
    )


def test_learning_curves_show_means_and_standard_errors():
    figure = learning_curves(active_records())
    (ax,) = figure.drawing.axes
    (container,) = ax.containers
    line, _, (bars,) = container
    assert line.get_ydata().tolist() == pytest.approx([0.25, 0.45, 0.65])
    lengths = [s[1, 1] - s[0, 1] for s in bars.get_segments()]
    assert lengths == pytest.approx([0.1] * 3)  # plus and minus 0.05
    assert "standard errors" in figure.caption


def test_nothing_to_show_is_no_table_and_no_figure(tmp_path):
    paths = write_report("all", [], tmp_path)
    assert [path.name for path in paths] == ["report.html"]


def test_the_same_records_make_the_same_files(tmp_path):
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
        write_report("all", active_records(), folder)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()


def test_select_orders_by_seed():
    records = active_records()
    assert [r.spec.seed for r in select(reversed(records), dataset="cora")] == [0, 1]
    assert select(records, dataset="pubmed") == []


# --- the command line -----------------------------------------------------------------------


def test_everything_in_its_quick_version(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    options = ("all", "--quick", "--seeds", "1", "--jobs", "2", "--out", str(out))
    done = reproduce(*options, NODEGP_DATA="")
    assert done.returncode == 0, done.stderr
    specs = plan(["all"], seeds=1, quick=True)
    assert re.search(rf"\[{len(specs)}/{len(specs)}\] .* 0 s left", done.stderr)
    assert set(results(out)) == {spec.key for spec in specs}
    for line in (out / "runs.jsonl").read_text().splitlines():
        data = json.loads(line)
        assert data["seconds"] > 0
        assert data["versions"]["torch"]
        if data["spec"]["task"] in ("semi-supervised", "active", "few labels"):
            assert {"accuracy", "log_loss", "calibration_error"} <= set(data["metrics"])
    names = {path.name for path in out.iterdir()}
    drawings = ("figure2", "reliability", "claim_steps", "claim_hubs", "claim_few_labels")
    assert names >= {f"{name}.{form}" for name in drawings for form in ("svg", "png")}
    assert names >= {f"{name}.md" for name in ("table1", "table2", "table3", "few_labels")}
    assert set(done.stdout.split()) == {str(out / n) for n in names if _is_shown(n)}
    first = (out / "table1.md").read_text()
    for row in semi_supervised.rows():
        assert (f"| {row.name} | cora |" in first) == row.quick
    page = (out / "report.html").read_text()
    assert page.count("<svg") == len(drawings)
    # Self-contained: nothing is loaded from anywhere (names of XML vocabularies are no links).
    assert not re.findall(r'<(?:script|link|img|iframe)\b|src="|url\(http|@import', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="|url\()#([^")]+)', page)
    assert set(used) <= set(ids)

    code, said = reproduce_here(monkeypatch, capsys, "table2", "--quick", "--out", str(out))
    assert code == 0
    assert "1 runs, 1 finished before; about 0 s to go" in said
    # What belongs to the same experiments stays in the report.
    assert (out / "report.html").read_text() == page
    look_in_a_browser(out / "report.html", tmp_path)


def _is_shown(name: str) -> bool:
    return Path(name).suffix in (".md", ".svg", ".png", ".html")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], "table9"),
        (["table1", "--engine", "fast"], "fast"),
        (["table1", "--datasets", "citeseer", "--data-dir", "nowhere"], "nowhere"),
        (["table3", "--models", "ggp-x"], "nothing to run"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    code, said = reproduce_here(monkeypatch, capsys, *arguments, "--out", str(tmp_path / "out"))
    assert code == 1
    assert message in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_failed_run_is_told_and_the_exit_code_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproduction, "_check_data", lambda specs, data_dir: None)
    monkeypatch.setattr(
        reproduction, "plan", lambda *a, **k: [Spec("data", "atlantis", "data"), DATA]
    )
    with pytest.raises(typer.Exit) as stop:
        reproduction.run(["table2"], None, None, "both", None, 1, tmp_path, False, None)
    assert stop.value.exit_code == 1
    assert "1 of 2 runs failed" in capsys.readouterr().err
    assert (tmp_path / "table2.md").exists()  # the rest is shown all the same


def test_without_the_reports_packages_it_says_so_before_running(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"nodegp\[reports\]"):
        reproduction.run(["table2"], None, None, "both", None, 1, tmp_path / "o", False, None)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("dataset", ["cora", "citeseer"])
def test_active_learning_goes_through_on_each_data_set(dataset, tmp_path):
    """Citeseer's component has nodes without a label, which can be neither asked nor scored."""
    if dataset != "cora" and not os.environ.get("NODEGP_DATA"):
        pytest.skip("set NODEGP_DATA to a folder with the Planetoid files")
    spec = Spec("active", dataset, "SOPT-LP", seed=3, settings={"labels": 4})
    found = active.run(spec, Context(None, str(tmp_path / "none")))
    assert found["asked"][0] == 3
    assert len(found["accuracy_curve"]) == len(set(found["asked"])) == 4
    accuracies = found["accuracy_curve"]
    assert found["alc"] == pytest.approx(sum(accuracies) / 4)
    assert found["alc_trapezoid"] == pytest.approx(
        sum((before + after) / 2 for before, after in pairwise(accuracies)) / 3
    )
