"""A preparation that is killed goes on; two at once, a full disk and changed tables are told."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import nodegp
from forks import Forks
from nodegp.store import store_graph
from nodegp.store.building import Building
from nodegp_paper.datasets.large import LargeGraph
from stores import contents, filling_disk, graph_of, tables, write

# Kills itself at a moment when something is to be made durable: in the middle of a file, or of a
# line of the journal.
KILLED = """
import os, signal
import nodegp.store.arrays, nodegp.ingest.node_ids, nodegp.ingest.edges, nodegp.ingest.labels
import nodegp
nodegp.ingest.node_ids._CHUNK = 8
nodegp.ingest.edges._ROWS = 16
nodegp.ingest.labels._ROWS = 8
nodegp.ingest.preparation._BYTES_OF_ENTRY = 1 << 20

def work(kill_at, folder, options):
    left = [kill_at]

    def fsync(handle):  # the disk is not waited for: a kill takes nothing from the system's memory
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = fsync
    sources = folder + "/n", folder + "/e", folder + "/s"
    nodegp.prepare(*sources, weight="w", part_entries=30, **options)
    print("all", left[0])
"""
NEVER = 10**9


@pytest.fixture(scope="module")
def preparations():
    with Forks(KILLED) as forks:
        yield forks


def moments(preparations: Forks, folder: Path, options: dict[str, Any]) -> int:
    """How often something is made durable in a preparation that nobody stops."""
    done = preparations.run(NEVER, str(folder), options)
    assert done.returncode == 0, done.stderr
    return NEVER - int(done.stdout.split()[1])


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"text": ["t"], "svd": 3}, {"label": "t"}])
def test_killed_at_any_moment_it_goes_on_to_the_same_store(preparations, tmp_path, options):
    nodes, edges = tables(ids="text", weighted=True)
    if options:
        words = np.random.default_rng(1).integers(0, 9, (len(nodes), 4))
        nodes["t"] = [" ".join(f"word{n}" for n in row) for row in words]
        nodes.loc[::5, "t"] = None
    for frame, name in ((nodes, "n"), (edges, "e")):
        write(tmp_path / name, frame, "csv", 3)
    n_moments = moments(preparations, tmp_path, options)
    expected = contents(tmp_path / "s")
    rng = np.random.default_rng(0)
    n_kills = int(os.environ.get("NODEGP_STORE_KILLS", "10"))
    for first in sorted(rng.choice(n_moments - 1, min(n_kills, n_moments - 1), replace=False) + 1):
        for path in sorted((tmp_path / "s").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        outcomes = [
            preparations.run(kill_at, str(tmp_path), options)
            for kill_at in (int(first), 3, NEVER)  # twice, and then not at all
        ]
        assert outcomes[0].returncode == -signal.SIGKILL
        assert outcomes[-1].returncode == 0, outcomes[-1].stderr
        assert contents(tmp_path / "s") == expected, f"killed at {first} of {n_moments}"
    assert ("labels/codes.npy" in expected) == ("label" in options)


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    """Killed while features are written: neither ids nor edges are read again."""
    nodes, edges = tables()
    sources = write(tmp_path / "n", nodes), write(tmp_path / "e", edges)
    real = Building.record

    def record(self, stage, files=None, **data):
        if stage == "features of a part" and data["part"] == 2:
            raise KeyboardInterrupt
        real(self, stage, files, **data)

    monkeypatch.setattr(Building, "record", record)
    with pytest.raises(KeyboardInterrupt):
        nodegp.prepare(*sources, tmp_path / "s", part_entries=30)
    monkeypatch.setattr(Building, "record", real)
    with pytest.raises(ValueError, match="preparation was not finished"):
        nodegp.open_store(tmp_path / "s")
    lines = []
    monkeypatch.setattr("nodegp.ingest.node_ids.ids_of", None)
    monkeypatch.setattr("nodegp.ingest.edges.ids_of", None)
    monkeypatch.setattr("nodegp.store.runs.SortedRuns.flush", None)
    store = nodegp.prepare(*sources, tmp_path / "s", part_entries=30, progress=lines.append)
    assert "going on with" in lines[0]
    same = store_graph(graph_of(nodes, edges), tmp_path / "same", part_entries=30)
    assert store.manifest.boundaries == same.manifest.boundaries
    assert np.array_equal(store.features_at(None), same.features_at(None))


def test_changed_tables_begin_anew(tmp_path, monkeypatch):
    nodes, edges = tables()
    sources = write(tmp_path / "n", nodes), write(tmp_path / "e", edges)

    def stop(*rows):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("nodegp.ingest.preparation.finish_store", stop)
        with pytest.raises(KeyboardInterrupt):
            nodegp.prepare(*sources, tmp_path / "s")
    edges[:50].to_parquet(tmp_path / "e" / "0.parquet")
    lines = []
    store = nodegp.prepare(*sources, tmp_path / "s", progress=lines.append)
    assert "other tables or settings: starting again" in lines[0]
    assert store.n_edges == graph_of(nodes, edges[:50]).n_edges


def test_a_torn_line_of_the_journal_is_left_out(tmp_path):
    settings = {"a": 1}
    with Building(tmp_path / "s", settings) as building:
        building.record("one", number=1)
        building.record("two", number=2)
    path = tmp_path / "s" / "building" / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    with Building(tmp_path / "s", settings) as building:
        assert building.last("two") is None
        assert building.last("one") == {"stage": "one", "number": 1}
        building.record("three")
    with Building(tmp_path / "s", settings) as building:
        assert building.last("three") is not None


# --- two at once --------------------------------------------------------------------------------

HOLDING = """
import sys
from pathlib import Path
from nodegp.store.building import Building
with Building(Path(sys.argv[1]), {}):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_of_two_processes_is_refused(tmp_path):
    nodes, edges = tables()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path / "s")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError, match=r"another process is writing .*; wait for it"):
            nodegp.prepare(nodes, edges, tmp_path / "s")
        holder.kill()
        holder.communicate()
    assert nodegp.prepare(nodes, edges, tmp_path / "s").n_nodes == 40  # its lock went with it


# --- a full disk --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_before", [True, False])
def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch, is_before):
    nodes, edges = tables()
    sources = write(tmp_path / "n", nodes), write(tmp_path / "e", edges)
    fsync = filling_disk(11 if is_before else 24)
    with monkeypatch.context() as context:
        context.setattr(os, "fsync", fsync)
        with pytest.raises(OSError, match=r"^the disk of .* is full; make room and run the same"):
            nodegp.prepare(*sources, tmp_path / "s", part_entries=30)
    assert not list((tmp_path / "s").rglob(".*.????????????????"))  # nothing half is left
    store = nodegp.prepare(*sources, tmp_path / "s", part_entries=30)
    same = store_graph(graph_of(nodes, edges), tmp_path / "same", part_entries=30)
    assert store.manifest.boundaries == same.manifest.boundaries


def test_an_error_that_is_no_full_disk_stays_what_it_is(tmp_path, monkeypatch):
    def fsync(handle):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output error"):
        nodegp.prepare(*tables(), tmp_path / "s")


# --- the generator ------------------------------------------------------------------------------


def test_a_large_graph_is_the_same_however_it_is_cut(tmp_path):
    drawn = LargeGraph(2_000, 20_000, n_features=6, seed=3)
    store = drawn.write(tmp_path / "a", part_entries=4_000)
    one = drawn.write(tmp_path / "b")
    assert store.n_parts > 5
    assert one.n_parts == 1
    pairs = np.concatenate([np.stack(drawn.edges(0)), np.stack(drawn.edges(0))[::-1]], axis=1)
    expected = {(int(i), int(j)) for i, j in pairs.T}
    for stored in (store, one):
        parts = [stored.edges(part).tocoo() for part in range(stored.n_parts)]
        starts = stored.boundaries[:-1]
        found = {
            (int(i) + start, int(j))
            for part, start in zip(parts, starts.tolist(), strict=True)
            for i, j in zip(part.row, part.col, strict=True)
        }
        assert found == expected
    assert np.array_equal(store.positions([5, 1999]), [5, 1999])


def test_a_large_graph_has_hubs_and_speaks_of_classes(tmp_path):
    drawn = LargeGraph(5_000, 50_000, n_features=32)
    store = drawn.write(tmp_path / "a")
    classes = drawn.classes(np.arange(5_000))
    assert np.bincount(classes).tolist() == [1_000] * 5
    edges = store.edges(0).tocoo()
    assert np.mean(classes[edges.row] == classes[edges.col]) == pytest.approx(0.68, abs=0.02)
    assert store.degrees.max() > 15 * store.degrees.mean()
    features = store.features_of(0)
    means = np.stack([features[classes == c].mean(axis=0) for c in range(5)])
    guess = ((features[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert 0.3 < np.mean(guess == classes) < 0.9  # says something, and not all


def test_a_large_graph_goes_on_where_it_stopped(tmp_path, monkeypatch):
    drawn = LargeGraph(500, 5_000, n_features=2)
    expected = drawn.write(tmp_path / "a", part_entries=1_000)
    real, n_left = os.fsync, [9]

    def fsync(handle):
        n_left[0] -= 1
        if n_left[0] == 0:
            raise KeyboardInterrupt
        real(handle)

    with monkeypatch.context() as context:
        context.setattr(os, "fsync", fsync)
        with pytest.raises(KeyboardInterrupt):
            drawn.write(tmp_path / "b", part_entries=1_000)
    store = drawn.write(tmp_path / "b", part_entries=1_000)
    assert store.fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    "settings",
    [{"n_classes": 1}, {"n_classes": 11}, {"homophily": 2}, {"tail": 0.5}, {"n_drawn": -1},
     {"n_nodes": 2**31}],
)  # fmt: skip
def test_large_graphs_that_cannot_be(settings):
    with pytest.raises(ValueError, match="got LargeGraph"):
        LargeGraph(**{"n_nodes": 10, "n_drawn": 10} | settings)


def test_frames_are_read_as_files_are(tmp_path):
    nodes, edges = tables()
    written = write(tmp_path / "n", nodes), write(tmp_path / "e", edges)
    first = nodegp.prepare(*written, tmp_path / "a")
    second = nodegp.prepare(nodes, pd.DataFrame(edges), tmp_path / "b")
    assert first.fingerprint == second.fingerprint
