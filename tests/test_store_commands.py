"""Stored graphs on the command line: fit, predict, update, explain and evaluate with --store."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nodegp
from forks import Forks
from nodegp.app.frontend import OptionError
from nodegp.app.stored import StoredProject, memory_of, working
from nodegp.cli.app import app
from nodegp.disk import on_disk
from nodegp.files import lock
from nodegp.operators import operator_of
from stores import awkward_graph, filling_disk, stored


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A stored graph, tables of labels, and a model that the command line fitted."""
    path = tmp_path_factory.mktemp("stored")
    graph, classes = awkward_graph(ids=True)
    stored(graph, path / "store")
    order = np.random.default_rng(0).permutation(len(classes))
    for name, nodes in (("labels", order[:60]), ("more", order[60:70]), ("test", order[50:400])):
        lines = "".join(f"node {n},class {classes[n]}\n" for n in nodes)
        (path / f"{name}.csv").write_text("id,label\n" + lines)
    run_cli("fit", *at(path), "--labels", path / "labels.csv", "-o", path / "model.nodegp")
    return path


class Failed:
    """A command that ended in an error."""

    def __init__(self, error):
        self.stderr = str(error)


def run_cli(*words, fails=False):
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "120"})
    if fails:
        assert isinstance(done.exception, ValueError | OSError), done.output
        return Failed(done.exception)
    assert done.exception is None, repr(done.exception)
    return done


def at(folder):
    return "--store", folder / "store"


def test_fit_says_what_it_takes_and_what_it_leaves_out(folder, tmp_path):
    command = ["fit", *at(folder), "--labels", folder / "labels.csv", "-o", tmp_path / "model"]
    result = run_cli(*command, "--filter", "cosine", "--dry-run", "--memory", "1GiB")
    assert "passes over edges  10" in result.stdout
    assert "GiB of 1.00 allowed" in result.stdout
    assert not (tmp_path / "model").exists()
    plan = json.loads(run_cli(*command, "--dry-run", "--json").stdout)["plan"]
    assert plan["passes"] == 0  # there already, since the model of the fixture
    assert all(step["is_made"] for step in plan["filters"])
    result = run_cli(*command)
    assert "links in common and nodes alike, which take all pairs of nodes" in result.stderr
    assert "60 in 3 classes" in result.stdout


def test_predictions_are_a_file_for_each_part(folder, tmp_path):
    out = tmp_path / "predictions"
    run_cli("predict", folder / "model.nodegp", *at(folder), "-o", out, "--coverage", "0.9")
    store = nodegp.open_store(folder / "store")
    files = sorted(path for path in out.iterdir() if not path.name.startswith("."))
    assert [path.name for path in files] == [f"part-{n:05d}.parquet" for n in range(store.n_parts)]
    tables = [pq.read_table(path) for path in files]
    ids = [name for table in tables for name in table["id"].to_pylist()]
    assert ids == [f"node {n}" for n in range(900)]
    model = nodegp.load(folder / "model.nodegp", store)
    expected = model.predict_frame(coverage=0.9)
    assert tables[0].column_names == expected.column_names
    for name in ("probability", "entropy", "information", "p(class 1)"):
        found = np.concatenate([table[name].to_numpy() for table in tables])
        assert np.allclose(found, expected[name].to_numpy(), atol=1e-9)
    for name in ("label", "set"):
        found = [value for table in tables for value in table[name].to_pylist()]
        assert found == expected[name].to_pylist()
    assert not list((folder / "store" / "work").glob(".model*"))


SLOW_PREDICTIONS = """
import sys, time
import nodegp.app.stored as stored
import nodegp.estimators
from nodegp.disk import using

whole = stored.predict_part

def slowly(address, part, *fixed):
    time.sleep(0.01)
    whole(address, part, *fixed)
    with open(sys.argv[1], "a") as log:
        log.write(f"{part}\\n")

stored.predict_part = slowly

def work(model, store, out):
    project = stored.StoredProject.open(model, store)
    with using(1):
        project.predict(out)
"""


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


def test_killed_predictions_go_on_where_they_were(folder, tmp_path):
    model, out, log = folder / "model.nodegp", tmp_path / "out", tmp_path / "log"
    run_cli("predict", model, *at(folder), "-o", tmp_path / "whole")
    n_parts = nodegp.open_store(folder / "store").n_parts
    log.touch()
    with Forks(SLOW_PREDICTIONS, log) as forks:
        for share in (0.2, 0.6):
            process = forks.start(str(model), str(folder / "store"), str(out))
            deadline = time.monotonic() + 60
            while len(log.read_text().splitlines()) < share * n_parts:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            process.stdout.close()
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert 0.6 * n_parts <= len(before) < n_parts
    lines = log.read_text().splitlines()
    assert len(lines) == len(set(lines))  # no part that was whole was made twice
    result = run_cli("predict", model, *at(folder), "-o", out)
    assert f"{len(before)} of {n_parts} files exist already" in result.stderr
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert contents(out) == contents(tmp_path / "whole")
    left = list((folder / "store" / "work").glob(".model-*"))
    assert len(left) == 2  # of the processes that were killed
    os.utime(left[0], (0, 0))
    os.utime(left[1], (0, 0))
    with left[1].open("rb") as held:
        lock(held.fileno())  # as one that still works
        run_cli("predict", model, *at(folder), "-o", out)
    assert list((folder / "store" / "work").glob(".model-*")) == left[1:]
    left[1].unlink()


HOLDING = """
import sys
from pathlib import Path
from nodegp.app.prediction_folder import prediction_folder
with prediction_folder(Path(sys.argv[1]), force=False):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_of_two_predictions_into_a_folder_is_refused(folder, tmp_path):
    model, out = folder / "model.nodegp", tmp_path / "out"
    run_cli("predict", model, *at(folder), "-o", out)
    before = contents(out)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        unfinished = out / f".part-00001.parquet.{'0' * 16}"
        unfinished.touch()
        for more in ((), ("--force",), ("--coverage", "0.9")):
            result = run_cli("predict", model, *at(folder), "-o", out, *more, fails=True)
            assert result.stderr == (
                f"another process is writing {out}; wait for it, or name another folder"
            )
        assert contents(out) == before
        assert unfinished.exists()  # it may be what the other is writing
        assert not list((folder / "store" / "work").glob(".model-*"))
        holder.kill()
        holder.communicate()
    run_cli("predict", model, *at(folder), "-o", out)  # its lock went with it
    assert not unfinished.exists()


@pytest.mark.parametrize("n_written", [0, 1, 4])
def test_a_full_disk_is_one_sentence_and_predictions_go_on(
    folder, tmp_path, monkeypatch, n_written
):
    command = ["predict", folder / "model.nodegp", *at(folder), "-o", tmp_path / "out"]
    fsync = filling_disk(n_written)
    with monkeypatch.context() as context:
        context.setattr(os, "fsync", fsync)
        said = run_cli(*command, fails=True).stderr
    assert said.startswith("the disk of ")
    assert said.endswith(" is full; make room and run the same again, which goes on where it was")
    assert not list(tmp_path.rglob(".part*"))
    assert not list((folder / "store" / "work").glob(".model-*"))
    run_cli(*command)
    assert len(contents(tmp_path / "out")) == nodegp.open_store(folder / "store").n_parts


def test_a_file_system_without_locks(folder, tmp_path, monkeypatch):
    def lock(handle):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("nodegp.files.lock", lock)
    run_cli("predict", folder / "model.nodegp", *at(folder), "-o", tmp_path / "out")


def test_predictions_of_another_model_or_that_are_damaged_are_made_again(folder, tmp_path):
    model, out, other = folder / "model.nodegp", tmp_path / "out", tmp_path / "other.nodegp"
    run_cli("predict", model, *at(folder), "-o", out)
    first = contents(out)
    (out / "part-00003.parquet").write_bytes(b"PAR1")
    (out / "part-00005.parquet").unlink()
    result = run_cli("predict", model, *at(folder), "-o", out)
    n_parts = len(first)
    assert f"{n_parts - 2} of {n_parts} files exist already" in result.stderr
    assert contents(out) == first
    more = ["--labels", folder / "more.csv", "-o", other]
    run_cli("update", model, *at(folder), *more)
    for command in (["predict", other], ["predict", model, "--coverage", "0.9"]):
        before = contents(out)
        result = run_cli(*command, *at(folder), "-o", out)
        assert "already" not in result.stderr
        assert all(before[name] != content for name, content in contents(out).items())


def test_predictions_are_not_written_among_other_files(folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    command = ["predict", folder / "model.nodegp", *at(folder), "-o", tmp_path]
    assert "has other files, such as thesis.txt" in run_cli(*command, fails=True).stderr
    run_cli(*command, "--force")
    run_cli(*command, "--force")  # over its own
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_predictions_pass_over_no_edge(folder, tmp_path):
    project = StoredProject.open(folder / "model.nodegp", folder / "store")
    project.predict(tmp_path / "out")
    operators = [operator_of(project.graph, loops) for loops in (False, True)]
    assert [operator.passes for operator in operators] == [0.0, 0.0]


def test_update_evaluate_and_explain(folder, tmp_path):
    model = tmp_path / "model.nodegp"
    base = ["update", folder / "model.nodegp", *at(folder), "-o", model]
    result = run_cli(*base, "--labels", folder / "more.csv")
    assert "10 new, 0 replaced" in result.stdout
    again = run_cli("update", model, *at(folder), "--labels", folder / "more.csv", fails=True)
    assert "says nothing new" in again.stderr
    result = run_cli("evaluate", model, *at(folder), "--labels", folder / "test.csv", "--json")
    scores = json.loads(result.stdout)["nodegp"]
    assert scores["n"] == 330  # without those fitted to
    assert scores["accuracy"] > 0.8
    result = json.loads(run_cli("explain", model, "node 11", *at(folder), "--json").stdout)
    shares = sum(one["share"] for one in result["neighbours"]) + result["other_neighbours"]
    assert np.isclose(shares + result["anywhere"], result["latent_mean"])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("fit --store S --labels L -o m --nodes n.csv", "--nodes and --store"),
        ("fit --store S --label topic -o m", "prepared without labels: say where"),
        ("fit --store S --labels L -o m --memory lots", "--memory is an amount such as 4GiB"),
        ("fit --store S --labels L -o m --memory 20K", "give more with --memory"),
        pytest.param(
            *("fit --store S --labels L -o m --cluster local:x", "local:2"),
            marks=pytest.mark.skipif(find_spec("dask") is None, reason="needs the extra `dask`"),
        ),
        ("fit --nodes n.csv --edges e.csv --label a -o m --memory 4G", "--memory without --store"),
        ("fit --store nowhere --labels L -o m", "nowhere"),
        ("predict M --store S", "--out FOLDER"),
        ("evaluate M --store S", "--labels FILE"),
        ("evaluate M --store S --labels L --folds 3", "--folds and --store"),
        ("explain M who --store S", "there is no node 'who'; ids look like node 0"),
        ("predict M -o out.csv", "--store"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(folder, tmp_path, command, said):
    names = {"S": folder / "store", "L": folder / "labels.csv", "M": folder / "model.nodegp"}
    names |= {"m": tmp_path / "m", "nowhere": tmp_path / "nowhere"}
    result = run_cli(*(names.get(word, word) for word in command.split()), fails=True)
    assert said in result.stderr


def test_a_model_of_another_store_is_refused(folder, tmp_path):
    other, _ = awkward_graph(seed=5, ids=True)
    stored(other, tmp_path / "store")
    command = [
        "predict",
        folder / "model.nodegp",
        "--store",
        tmp_path / "store",
        "-o",
        tmp_path / "o",
    ]
    assert "fitted on another graph" in run_cli(*command, fails=True).stderr


def test_amounts_of_memory():
    assert memory_of("4GiB") == memory_of("4G") == memory_of("4gb") == 4 << 30
    assert memory_of("512MiB") == 512 << 20
    assert memory_of("1000") == 1000
    for text in ("", "GiB", "-1G", "4 parsecs"):
        with pytest.raises(OptionError, match="memory"):
            memory_of(text)


def test_ids_that_are_numbers(tmp_path):
    graph, classes = awkward_graph()
    graph = nodegp.Graph(graph.adjacency, graph.features, np.arange(900)[::-1] * 3)
    stored(graph, tmp_path / "store")
    lines = "".join(f"{3 * (899 - n)},{classes[n]}\n" for n in range(0, 900, 12))
    (tmp_path / "labels.csv").write_text("id,label\n" + lines)
    project = StoredProject.at(tmp_path / "store")
    with working("1GiB"):
        project.fit(tmp_path / "labels.csv")
    assert np.array_equal(project.model.labelled_, np.arange(0, 900, 12))
    assert project.model.classes_.tolist() == [0, 1, 2]
    assert project.graph is on_disk(project.graph.store)
