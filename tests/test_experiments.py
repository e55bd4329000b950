"""The runner loses nothing, and the command goes all the way to its files."""

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import time
from dataclasses import replace

import psutil
import pytest

from experiments import command, record, reproduce, results
from nodegp_paper.baselines import REGISTRY, LabelPropagation
from nodegp_paper.experiments import published
from nodegp_paper.experiments.plan import TARGETS, TASKS, expected_seconds, plan
from nodegp_paper.experiments.runner import run_all, seconds_text
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import Store, plain
from nodegp_paper.experiments.tables import accuracy_table
from nodegp_paper.experiments.task import Context
from nodegp_paper.experiments.tasks import semi_supervised

LP = Spec("semi-supervised", "cora", "LP")
GCN = Spec("semi-supervised", "cora", "GCN")
DATA = Spec("data", "cora", "data")
# Target, whether it is the quick version, its runs, and a digest of their keys.
KEYS = [
    ("all", False, 1230, "c5e5dceb6813aa2f"),
    ("all", True, 47, "e08f4ad7823e617f"),
    ("beyond", False, 3554, "3c6bcd3c0edb5815"),
    ("beyond", True, 66, "c8d4e4a66542567f"),
    ("zoo", False, 9932, "081d8c30120baad3"),
    ("zoo", True, 31, "9db13cc1a51d78aa"),
]


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


def test_every_task_has_runs_and_keeps_its_name():
    """Names of tasks are part of the keys of finished runs, and with others those would be lost."""
    assert {spec.task for spec in plan(["all", "beyond", "zoo"])} == set(TASKS)
    assert set(TASKS) == {
        "semi-supervised",
        "data",
        "active",
        "steps",
        "hubs",
        "few labels",
        "random splits",
        "few labels, beyond",
        "public splits",
        "active, beyond",
        "seconds",
        "zoo",
        "zoo, data",
        "zoo, active",
        "zoo, leave-one-out",
    }


@pytest.mark.parametrize(
    ("target", "quick", "n_runs", "digest"),
    KEYS,
    ids=[f"{target}-{'quick' if quick else 'full'}" for target, quick, *_ in KEYS],
)
def test_the_keys_of_finished_runs_stay_valid(target, quick, n_runs, digest):
    """A file of runs that took hours has to be found again by every later version."""
    keys = sorted(spec.key for spec in plan([target], quick=quick))
    assert len(keys) == n_runs
    assert hashlib.sha256("".join(keys).encode()).hexdigest()[:16] == digest


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
    for page in ("all", "beyond", "zoo"):
        names = {target.name for target in TARGETS if target.page == page}
        assert {s.key for t in names for s in plan([t])} == {s.key for s in plan([page])}


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


def test_a_baseline_in_the_registry_is_a_row_of_table_1(monkeypatch, tmp_path):
    class Majority(LabelPropagation):
        name = "Majority"

    assert plan(["table1"], models=["gcn"])
    with pytest.raises(ValueError, match="majority"):
        plan(["table1"], models=["majority"])
    monkeypatch.setitem(REGISTRY, "majority", Majority)
    specs = plan(["table1"], models=["majority"])
    assert [spec.dataset for spec in specs] == list(published.DATASETS)  # it is deterministic
    metrics = semi_supervised.run(specs[0], Context(None, str(tmp_path / "none")))
    (row,) = accuracy_table([record(specs[0], **metrics)]).rows
    assert row[:2] == ("Majority", "cora")


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


@pytest.mark.parametrize("length", [1, 4, 8, 40, -1])
def test_a_line_that_was_cut_short_is_not_a_run(length, tmp_path):
    store = Store(tmp_path)
    with store.writer() as writer:
        writer.add(record(LP, accuracy=0.5))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole + whole.rstrip()[:length])
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


@pytest.fixture
def quick_workers(monkeypatch):
    """Workers that are forked from a process that has the imports, instead of spawned; those of
    the command, below, are spawned."""
    ready = multiprocessing.get_context("forkserver")
    ready.set_forkserver_preload(["nodegp_paper.experiments.plan", "torch"])
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: ready)


@pytest.mark.usefixtures("quick_workers")
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


@pytest.mark.usefixtures("quick_workers")
def test_one_failure_does_not_end_the_others(tmp_path):
    bad = Spec("data", "atlantis", "data")
    progress = Quiet()
    records, failed = run_all([bad, DATA], tmp_path, progress)
    assert failed == [bad]
    assert list(records) == [DATA.key]
    assert "atlantis" in next(e[2] for e in progress.events if e[0] == "failed")
    assert run_all([bad], tmp_path, Quiet())[1] == [bad]  # tried again, not remembered


@pytest.mark.usefixtures("quick_workers")
def test_jobs_do_not_change_the_numbers(tmp_path):
    specs = plan(["table1"], ["cora"], ["GGP", "GCN"], seeds=1, quick=True)
    assert len(specs) == 3
    for jobs in (1, 2):
        run_all(specs, tmp_path / str(jobs), Quiet(), jobs=jobs)
    assert results(tmp_path / "1") == results(tmp_path / "2")
    assert len(results(tmp_path / "1")) == len(specs)


def test_jobs_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="jobs"):
        run_all([LP], tmp_path, Quiet(), jobs=0)


def assert_gone(workers):
    """The workers notice at once that nobody is left to work for."""
    _, alive = psutil.wait_procs(workers, timeout=2)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_killed_while_its_workers_start_it_leaves_none(tmp_path):
    """They used to import for seconds before they looked for their parent."""
    arguments = ("table1", "--quick", "--models", "ggp", "--jobs", "2", "--out", str(tmp_path))
    process = subprocess.Popen(command(*arguments), stderr=subprocess.DEVNULL)
    deadline, workers = time.monotonic() + 60, []
    try:
        while len(workers) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
            children = psutil.Process(process.pid).children(recursive=True)
            workers = [p for p in children if "spawn_main" in " ".join(p.cmdline())]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(workers) >= 2
    assert_gone(workers)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_killed_and_started_again_it_ends_where_an_uninterrupted_run_does(tmp_path):
    arguments = ("table1", "--quick", "--models", "ggp", "--engine", "paper", "--seeds", "3")
    cut = tmp_path / "cut"
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
    assert_gone(workers)
    assert (cut / ".lock").exists()
    left = [cut / ".runs.jsonl.0123456789abcdef", cut / "checkpoints" / ".x.0123456789abcdef"]
    left[1].parent.mkdir(exist_ok=True)
    # As a writer that was killed leaves them, and one that had just added a run.
    for path in (*left, cut / "checkpoints" / next(iter(before))):
        path.write_bytes(b"half")

    done = reproduce(*arguments, "--out", str(cut))
    assert done.returncode == 0, done.stderr
    assert f"3 runs, {len(before)} finished before" in done.stderr
    specs = plan(["table1"], models=["ggp"], engines=["paper"], seeds=3, quick=True)
    whole = {
        spec.key: semi_supervised.run(spec, Context(None, str(tmp_path / spec.key)))
        for spec in specs
    }
    assert results(cut) == whole
    assert before.items() <= results(cut).items()
    assert not any((cut / "checkpoints").glob("*"))  # tidied up
    assert not any(path.exists() for path in [*left, cut / ".lock"])


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


@pytest.mark.usefixtures("quick_workers")
def test_a_checkpoint_left_behind_is_used_and_changes_nothing(tmp_path):
    spec = plan(["table1"], ["cora"], ["GGP"], ["paper"], seeds=1, quick=True)[0]
    half = replace(spec, settings={"recipe": spec.settings["recipe"] | {"steps": 50}})
    folder = tmp_path / "out"
    # What a run that was killed after half of its steps leaves behind.
    file = folder / "checkpoints" / spec.key
    semi_supervised.run(half, Context(None, str(file)))
    assert file.is_file()
    records, _ = run_all([spec], folder, Quiet())
    fresh = semi_supervised.run(spec, Context(None, str(tmp_path / "other")))
    assert records[spec.key].metrics == fresh
    assert not file.exists()
