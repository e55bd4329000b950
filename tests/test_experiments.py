"""The runner loses nothing, and the command goes all the way to its files."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from nodegp.experiments import published, table1, table3
from nodegp.experiments.figures import learning_curves
from nodegp.experiments.plan import TARGETS, expected_seconds, plan
from nodegp.experiments.report import write_report
from nodegp.experiments.runner import TASKS, plain, run_all, seconds_text
from nodegp.experiments.spec import Spec
from nodegp.experiments.store import Record, Store, select
from nodegp.experiments.tables import accuracy_table, alc_table

LP = Spec("semi-supervised", "cora", "LP")
GCN = Spec("semi-supervised", "cora", "GCN")
DATA = Spec("data", "cora", "data")


class Quiet:
    """Progress that only remembers."""

    def __init__(self):
        self.events = []

    def begin(self, n_runs, n_finished, seconds):
        self.events.append(("begin", n_runs, n_finished))

    def finished(self, record, seconds_left):
        self.events.append(("finished", record.spec))

    def failed(self, spec, error):
        self.events.append(("failed", spec, error))


def record(spec: Spec, **metrics) -> Record:
    return Record(spec, metrics, 1.5, {"nodegp": "1"})


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nodegp", "reproduce", *arguments]


def results(folder: Path) -> dict[str, dict]:
    return {key: r.metrics for key, r in Store(folder).records().items()}


# --- specs and plans ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"task": "active"},
        {"dataset": "pubmed"},
        {"model": "GCN"},
        {"engine": "paper"},
        {"seed": 1},
        {"settings": {"labels": 3}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_change_of_a_spec_is_another_run(change):
    assert replace(LP, **change).key != LP.key
    assert Spec.from_dict(json.loads(json.dumps(LP.to_dict()))).key == LP.key


def test_every_task_has_a_module_that_runs_it():
    from importlib import import_module

    assert {spec.task for spec in plan(["all", "beyond"])} == set(TASKS)
    for module in TASKS.values():
        assert callable(import_module(module).run)


def test_the_whole_plan_has_the_restarts_that_were_asked_for():
    specs = plan(["all"])
    assert len({spec.key for spec in specs}) == len(specs)
    counts = {}
    for spec in specs:
        counts.setdefault((spec.task, spec.model, spec.engine, spec.dataset), set()).add(spec.seed)
    for dataset in published.DATASETS:
        assert len(counts["semi-supervised", "GGP", "paper", dataset]) == 10
        assert len(counts["semi-supervised", "GGP", "default", dataset]) == 3
        assert len(counts["semi-supervised", "GGP-X", "paper", dataset]) == 2
        assert len(counts["semi-supervised", "GCN", "", dataset]) == 10
    for dataset in published.ACTIVE_DATASETS:
        for row in published.ALC:
            for engine in ("paper", "default") if row.endswith("GGP") else ("",):
                assert len(counts["active", row, engine, dataset]) == 10
    assert not [spec for spec in specs if spec.task == "active" and spec.dataset == "pubmed"]
    assert all(expected_seconds(spec) > 0 for spec in specs)


def test_plans_are_narrowed():
    specs = plan(["table1"], ["Cora"], ["ggp", "lp"], ["default"], seeds=2)
    assert {(s.dataset, s.model, s.engine, s.seed) for s in specs} == {
        ("cora", "GGP", "default", 0),
        ("cora", "GGP", "default", 1),
        ("cora", "LP", "", 0),  # nothing in it is random
    }
    assert plan(["table3"]) == plan(["figure2"])
    assert {s.key for t in TARGETS for s in plan([t])} == {s.key for s in plan(["all"])}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"targets": ["table9"]}, "table9"),
        ({"targets": ["all"], "datasets": ["imdb"]}, "imdb"),
        ({"targets": ["all"], "models": ["gat"]}, "gat"),
        ({"targets": ["all"], "engines": ["fast"]}, "fast"),
        ({"targets": ["all"], "seeds": 0}, "seeds"),
    ],
)
def test_bad_plans_say_what_there_is(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan(**arguments)


# --- the store ------------------------------------------------------------------------------


def test_store_gives_back_what_it_was_given(tmp_path):
    store = Store(tmp_path / "out")
    assert store.records() == {}
    with store.writer() as writer:
        writer.add(record(LP, accuracy=0.5, curve=[0.1, None]))
        assert list(store.records()) == [LP.key]  # there at once, not when the file is closed
        writer.add(record(GCN, accuracy=0.25))
    assert store.records()[GCN.key] == record(GCN, accuracy=0.25)
    for line in store.path.read_text().splitlines():
        assert {"key", "spec", "metrics", "seconds", "versions"} <= set(json.loads(line))


@pytest.mark.parametrize("kept", [1, 4, 8, 40, -1])
def test_a_line_that_was_cut_short_is_not_a_run(kept, tmp_path):
    store = Store(tmp_path)
    with store.writer() as writer:
        writer.add(record(LP, accuracy=0.5))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole + whole.rstrip()[:kept])
    assert list(store.records()) == [LP.key]
    with store.writer() as writer:
        writer.add(record(GCN, accuracy=0.25))
    assert set(store.records()) == {LP.key, GCN.key}


def test_a_foreign_line_is_an_error_that_names_it(tmp_path):
    (tmp_path / "runs.jsonl").write_text('{"accuracy": 1}\n')
    with pytest.raises(ValueError, match=r"line 1 of .*runs\.jsonl"):
        Store(tmp_path).records()


def test_one_writer_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    with (
        Store(tmp_path).writer(),
        pytest.raises(ValueError, match="another process"),
        Store(tmp_path).writer(),
    ):
        pass
    with Store(tmp_path).writer():  # free again
        pass


def test_nan_is_not_json(tmp_path):
    assert plain({"a": [float("nan"), 1.0]}) == {"a": [None, 1.0]}
    with pytest.raises(ValueError, match="JSON"), Store(tmp_path).writer() as writer:
        writer.add(record(LP, accuracy=float("nan")))


def test_seconds_for_people():
    assert [seconds_text(s) for s in (3.2, 600, 7200)] == ["3 s", "10 min", "2.0 h"]


# --- the runner -----------------------------------------------------------------------------


def test_finished_runs_are_kept_and_changed_ones_redone(tmp_path):
    progress = Quiet()
    records, failed = run_all([LP, DATA], tmp_path, progress)
    assert failed == []
    assert progress.events[0] == ("begin", 2, 0)
    first = (tmp_path / "runs.jsonl").read_bytes()

    again = Quiet()
    assert run_all([LP, DATA], tmp_path, again)[0].keys() == records.keys()
    assert again.events == [("begin", 2, 2)]
    assert (tmp_path / "runs.jsonl").read_bytes() == first

    changed = replace(LP, settings={"note": 1})
    after = Quiet()
    records, _ = run_all([changed, DATA], tmp_path, after)
    assert after.events == [("begin", 2, 1), ("finished", changed)]
    assert (tmp_path / "runs.jsonl").read_bytes().startswith(first)  # it only grows
    assert records[changed.key].metrics == records[LP.key].metrics


def test_one_failure_does_not_end_the_others(tmp_path):
    bad = Spec("data", "atlantis", "data")
    progress = Quiet()
    records, failed = run_all([bad, DATA], tmp_path, progress)
    assert failed == [bad]
    assert list(records) == [DATA.key]
    assert "atlantis" in next(e[2] for e in progress.events if e[0] == "failed")
    assert run_all([bad], tmp_path, Quiet())[1] == [bad]  # tried again, not remembered


def test_jobs_do_not_change_the_numbers(tmp_path):
    specs = plan(["table1"], ["cora"], ["GGP", "GCN"], quick=True)
    for jobs in (1, 2):
        run_all(specs, tmp_path / str(jobs), Quiet(), jobs=jobs)
    assert results(tmp_path / "1") == results(tmp_path / "2")
    assert len(results(tmp_path / "1")) == len(specs)


def test_jobs_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="jobs"):
        run_all([LP], tmp_path, Quiet(), jobs=0)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_killed_and_started_again_it_ends_where_an_uninterrupted_run_does(tmp_path):
    arguments = ("table1", "--quick", "--models", "ggp", "--engine", "paper", "--seeds", "3")
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    process = subprocess.Popen(command(*arguments, "--out", str(cut)), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    try:
        while not results(cut) and time.monotonic() < deadline:
            time.sleep(0.05)
        workers = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = results(cut)
    assert 1 <= len(before) < 3
    # The workers notice that nobody is left to work for.
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []

    for folder in (cut, whole):
        done = subprocess.run(
            command(*arguments, "--out", str(folder)), capture_output=True, text=True, check=True
        )
    assert "3 runs;" in done.stderr
    assert results(cut) == results(whole)
    assert before.items() <= results(cut).items()
    assert not any((cut / "checkpoints").glob("*"))  # tidied up


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_a_worker_that_dies_is_told_and_nothing_is_lost(tmp_path):
    arguments = ("table1", "--quick", "--models", "ggp", "--engine", "paper", "--seeds", "9")
    process = subprocess.Popen(
        command(*arguments, "--out", str(tmp_path)), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not results(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    for child in psutil.Process(process.pid).children(recursive=True):
        if "spawn_main" in " ".join(child.cmdline()):
            child.kill()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "a worker process ended" in told.splitlines()[-1]
    assert "Traceback" not in told
    assert results(tmp_path)


def test_a_checkpoint_left_behind_is_used_and_changes_nothing(tmp_path):
    spec = plan(["table1"], ["cora"], ["GGP"], ["paper"], seeds=1, quick=True)[0]
    half = replace(spec, settings={"recipe": spec.settings["recipe"] | {"steps": 50}})
    from nodegp.experiments.runner import Context

    folder = tmp_path / "out"
    # What a run that was killed after half of its steps leaves behind.
    file = folder / "checkpoints" / spec.key
    table1.run(half, Context(None, str(file)))
    assert file.is_file()
    records, _ = run_all([spec], folder, Quiet())
    fresh = table1.run(spec, Context(None, str(tmp_path / "other")))
    assert records[spec.key].metrics == fresh
    assert not file.exists()


# --- tables, figures, report ----------------------------------------------------------------


def active_records(engine: str = "default") -> list[Record]:
    curves = [[0.2, 0.4, 0.6], [0.3, 0.5, 0.7]]
    return [
        record(
            Spec(table3.TASK, "cora", "SOPT-GGP", engine, seed),
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
    found = dict(zip(table.columns, row, strict=True))
    assert found["accuracy %"] == "81.0"
    assert found["s.d."] == "1.4"  # 2 / sqrt(2)
    assert (found["n"], found["printed"], found["difference"]) == ("2", "81.5", "-0.5")
    assert found["validation labels"] == "used"
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
    paths = write_report([], tmp_path)
    assert [path.name for path in paths] == ["report.html"]


def test_the_same_records_make_the_same_files(tmp_path):
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
        write_report(active_records(), folder)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()


def test_select_orders_by_seed():
    records = active_records()
    assert [r.spec.seed for r in select(reversed(records), dataset="cora")] == [0, 1]
    assert select(records, dataset="pubmed") == []


# --- the command line -----------------------------------------------------------------------


def test_everything_in_its_quick_version(tmp_path):
    out = tmp_path / "out"
    done = subprocess.run(
        command("all", "--quick", "--jobs", "2", "--out", str(out)),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"NODEGP_DATA": ""},
    )
    specs = plan(["all"], quick=True)
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
    for row in table1.ROWS:
        assert (f"| {row.name} | cora |" in first) == row.quick
    page = (out / "report.html").read_text()
    assert page.count("<svg") == len(drawings)
    # Self-contained: nothing is loaded from anywhere (names of XML vocabularies are no links).
    assert not re.findall(r'<(?:script|link|img|iframe)\b|src="|url\(http|@import', page)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="|url\()#([^")]+)', page)
    assert set(used) <= set(ids)

    again = subprocess.run(
        command("table2", "--quick", "--out", str(out)), capture_output=True, text=True, check=True
    )
    assert "1 runs, 1 finished before; about 0 s to go" in again.stderr
    # What belongs to the same experiments stays in the report.
    assert (out / "report.html").read_text() == page
    _look_in_a_browser(out / "report.html", tmp_path)


def _is_shown(name: str) -> bool:
    return Path(name).suffix in (".md", ".svg", ".png", ".html")


def _look_in_a_browser(page: Path, tmp_path: Path) -> None:
    """The page fits its window, at desktop and phone width, and every drawing has a size."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return  # looked at by hand; the rest of this test needs none
    probe = """<script>addEventListener("load", () => {
      const svgs = [...document.querySelectorAll("figure svg")];
      document.title = JSON.stringify([document.documentElement.scrollWidth, innerWidth,
        svgs.every(s => s.getBoundingClientRect().height > 100)]);
    });</script>"""
    copy = tmp_path / "probe.html"
    copy.write_text(page.read_text().replace("</head>", probe + "</head>"))
    for width in (1280, 500):  # headless windows are no narrower than 500
        dom = subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                f"--user-data-dir={tmp_path / f'profile{width}'}",
                f"--window-size={width},900",
                "--dump-dom",
                copy.as_uri(),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        found = re.search(r"<title>(.*?)</title>", dom).group(1)
        scroll_width, inner_width, drawn = json.loads(found)
        assert scroll_width <= inner_width
        assert drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], "table9"),
        (["table1", "--engine", "fast"], "fast"),
        (["table1", "--datasets", "citeseer", "--data-dir", "nowhere"], "nowhere"),
        (["table3", "--models", "ggp-x"], "nothing to run"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path):
    done = subprocess.run(
        command(*arguments, "--out", str(tmp_path / "out")), capture_output=True, text=True
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_failed_run_is_told_and_the_exit_code_says_so(tmp_path, monkeypatch, capsys):
    import typer

    from nodegp.cli import reproduce

    monkeypatch.setattr(reproduce, "_check_data", lambda specs, data_dir: None)
    monkeypatch.setattr(reproduce, "plan", lambda *a, **k: [Spec("data", "atlantis", "data"), DATA])
    with pytest.raises(typer.Exit) as stop:
        reproduce.run(["table2"], None, None, "both", None, 1, tmp_path, False, None)
    assert stop.value.exit_code == 1
    assert "1 of 2 runs failed" in capsys.readouterr().err
    assert (tmp_path / "table2.md").exists()  # the rest is shown all the same


def test_without_the_reports_packages_it_says_so_before_running(tmp_path, monkeypatch):
    from nodegp.cli import reproduce

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"nodegp\[reports\]"):
        reproduce.run(["table2"], None, None, "both", None, 1, tmp_path / "o", False, None)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("dataset", ["cora", "citeseer"])
def test_active_learning_goes_through_on_each_data_set(dataset, tmp_path):
    """Citeseer's component has nodes without a label, which can be neither asked nor scored."""
    if dataset != "cora" and not os.environ.get("NODEGP_DATA"):
        pytest.skip("set NODEGP_DATA to a folder with the Planetoid files")
    from nodegp.experiments.runner import Context

    spec = Spec("active", dataset, "SOPT-LP", seed=3, settings={"labels": 4})
    found = table3.run(spec, Context(None, str(tmp_path / "none")))
    assert found["asked"][0] == 3
    assert len(found["accuracy_curve"]) == len(set(found["asked"])) == 4
    accuracies = found["accuracy_curve"]
    assert found["alc"] == pytest.approx(sum(accuracies) / 4)
    assert found["alc_trapezoid"] == pytest.approx(
        sum((before + after) / 2 for before, after in pairwise(accuracies)) / 3
    )
