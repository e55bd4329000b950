"""Filtered features from disk: equal to the bit, whatever was killed or damaged on the way."""

from __future__ import annotations

import errno
import os
import signal
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from forks import Forks
from nodegp import disk
from nodegp.disk import hops, on_disk, using
from nodegp.disk.filtered import block_width
from nodegp.disk.work import DamagedWorkError
from nodegp.disk.workers import Threads
from nodegp.operators import operator_of
from nodegp.preprocessing import Preprocessing
from nodegp.store import open_store
from stores import POLYNOMIALS, awkward_graph, filtered, in_memory, made, stored


@pytest.mark.parametrize("polynomial", POLYNOMIALS)
@pytest.mark.parametrize("memory", [1 << 30, 900 * 36])
def test_equal_to_the_bit(tmp_path, polynomial, memory):
    graph, _ = awkward_graph(weighted=True)
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    expected = in_memory(graph, preprocessor, polynomial)
    for threads in (1, 2):
        with using(threads, memory=memory):
            features = made(store, preprocessor, polynomial)
        assert np.array_equal(features[:], expected)
        assert np.array_equal(features[np.array([800, 3, 3, 20])], expected[[800, 3, 3, 20]])
        assert np.array_equal(features[5:700], expected[5:700])
        work = store.path / "work"
        left = [path.name for path in work.glob("filtered-*/*/*")]
        assert all(name.startswith("result.") for name in left)
        for path in work.glob("filtered-*/*/*"):
            path.unlink()


def test_double_precision_and_a_memory_for_one_column(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("l2").fit(graph.features)
    expected = in_memory(graph, preprocessor, POLYNOMIALS[3], np.float64)
    with using(2, memory=900 * 40):
        features = made(store, preprocessor, POLYNOMIALS[3], torch.float64)
    assert len(list((store.path / "work").glob("filtered-*/b*"))) > 3
    assert np.array_equal(features[:], expected)


def test_too_little_memory_is_refused_with_what_to_do(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    with pytest.raises(ValueError, match=r"one column of 900 nodes .* --memory"):
        block_width(store, 11, 4, Threads(1, memory=900 * 20))


def test_edges_are_read_once_for_a_filter(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    operator = operator_of(on_disk(store), False)
    made(store, preprocessor, POLYNOMIALS[0])
    assert (operator.passes, operator.products) == (6.0, 66)
    made(store, preprocessor, POLYNOMIALS[0])
    assert operator.passes == 6.0


# Works until it is killed, so many parts of hops later and a delay after that, or is done for 0.
LEVELS = """
import os, signal, sys, threading, time
import nodegp.disk.hops as hops
from nodegp.disk import on_disk, using
from nodegp.operators import operator_of
from nodegp.preprocessing import Preprocessing
from nodegp.store import open_store
from stores import POLYNOMIALS, filtered
import numpy as np

store = open_store(sys.argv[1])
features = np.concatenate([store.features_of(part) for part in range(store.n_parts)])
preprocessor = Preprocessing("standardise").fit(features)
whole = hops.make_level

def noted(line):
    with open(sys.argv[2], "a") as log:
        log.write(line)

def work(n_more, delay):
    begun = []

    def slowly(job, level, part):
        begun.append(part)
        if n_more and len(begun) == n_more:
            kill = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL))
            kill.start()
        if n_more and len(begun) > n_more + 8:
            time.sleep(60)  # the kill is late: this is where it comes
        noted(f"begun {job.start} {level} {part}\\n")
        time.sleep(0.002)
        whole(job, level, part)
        noted(f"made {job.start} {level} {part}\\n")

    hops.make_level = slowly
    with using(2, memory=int(sys.argv[3])):
        matrix = filtered(store, preprocessor, POLYNOMIALS[0])
        matrix.make(operator_of(on_disk(store), False), lambda done, total: None)
"""
KILLED_MEMORY = 900 * 60
N_KILLS = 10


def test_killed_ten_times_it_goes_on_and_is_equal_to_the_bit(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    expected = in_memory(graph, preprocessor, POLYNOMIALS[0])
    width = block_width(store, 11, 4, Threads(2, KILLED_MEMORY))
    total = -(-11 // width) * POLYNOMIALS[0].order * store.n_parts
    assert total > 20 * N_KILLS
    log, rng, endings, at = tmp_path / "log", np.random.default_rng(0), [], []
    log.touch()

    def n_made():
        return log.read_text().count("made")

    with Forks(LEVELS, store.path, log, KILLED_MEMORY) as workers:
        # One moment in each tenth of the work, but for the last few parts.
        for moment in (np.arange(N_KILLS) + rng.uniform(0.1, 0.9, N_KILLS)) / N_KILLS:
            n_more = max(int(moment * (total - 20)) - n_made(), 1)
            endings.append(workers.run(n_more, rng.uniform(0.0, 0.004)).returncode)
            at.append(n_made() / total)
        last = workers.run(0, 0.0)
    assert endings == [-signal.SIGKILL] * N_KILLS
    assert last.returncode == 0, last.stderr
    assert np.histogram(at, 5, (0.0, 1.0))[0].min() >= 1  # spread over the run
    matrix = filtered(store, preprocessor, POLYNOMIALS[0])
    assert matrix.is_made
    operator = operator_of(on_disk(store), False)
    matrix.make(operator, lambda done, total: None)
    assert operator.passes == 0.0
    assert np.array_equal(matrix[:], expected)
    # What was whole was not made again: each kill costs what was in the hands of two threads.
    begun, finished = (
        [line for line in log.read_text().splitlines() if line.startswith(word)]
        for word in ("begun", "made")
    )
    assert len(finished) == len(set(finished))
    assert total <= len(begun) <= total + 2 * N_KILLS


def test_damaged_work_is_made_again_or_refused_by_name(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    expected = made(store, preprocessor, POLYNOMIALS[0])[:]
    files = sorted((store.path / "work").glob("filtered-*/b*/result.*"))
    assert len(files) == store.n_parts
    files[0].write_bytes(files[0].read_bytes()[:-64])  # cut short: seen when it is opened
    files[1].write_bytes(files[2].read_bytes())  # another part's
    older = stored(awkward_graph(seed=1)[0], tmp_path / "older")  # of another graph
    made(older, preprocessor, POLYNOMIALS[0])
    source = next((older.path / "work").glob("filtered-*/b*/result.00004"))
    files[4].write_bytes(source.read_bytes())
    assert not filtered(store, preprocessor, POLYNOMIALS[0]).is_made
    assert np.array_equal(made(store, preprocessor, POLYNOMIALS[0])[:], expected)
    content = bytearray(files[3].read_bytes())
    content[300] ^= 1  # one bit: seen when it is read
    files[3].write_bytes(content)
    with pytest.raises(DamagedWorkError, match=r"result.00003 is damaged; remove .*"):
        made(store, preprocessor, POLYNOMIALS[0]).part(3)
    files[3].unlink()
    assert np.array_equal(made(store, preprocessor, POLYNOMIALS[0])[:], expected)


def test_damaged_rows_of_the_operator_are_made_again(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    made(store, preprocessor, POLYNOMIALS[0])
    files = sorted((store.path / "work").glob("operator-*/*"))
    assert len(files) == store.n_parts
    whole = files[1].read_bytes()
    content = bytearray(whole)
    content[-80] ^= 64  # among the weights
    files[1].write_bytes(content)
    for path in (store.path / "work").glob("filtered-*/b*/*"):
        path.unlink()
    disk.graph._opened.cache_clear()  # as another process would find it
    again = made(open_store(store.path), preprocessor, POLYNOMIALS[0])
    assert np.array_equal(again[:], in_memory(graph, preprocessor, POLYNOMIALS[0]))
    assert files[1].read_bytes() == whole


def test_files_that_stay_are_on_disk_before_they_have_their_names(tmp_path, monkeypatch):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    done, replace, fsync = [], os.replace, os.fsync

    def noted_fsync(handle):
        done.append("fsync")
        fsync(handle)

    def noted_replace(source, target):
        done.append(Path(target).parent.name.split("-")[0] + "/" + Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    with using(1):
        made(store, Preprocessing("standardise").fit(graph.features), POLYNOMIALS[0])
    named = [(before, name) for before, name in pairwise(done) if name != "fsync"]
    stay = [before for before, name in named if "/result." in name or name[:9] == "operator/"]
    passing = [before for before, name in named if name.startswith(("b00000/h", "b00000/x"))]
    assert len(stay) == 2 * store.n_parts
    assert set(stay) == {"fsync"}
    assert len(passing) == 6 * store.n_parts
    assert "fsync" not in passing[store.n_parts :]


def test_a_level_that_was_damaged_by_a_crash_is_made_again(tmp_path, monkeypatch):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    expected = in_memory(graph, preprocessor, POLYNOMIALS[0])
    whole = hops.make_level

    def stop(job, level, part):
        if level == 2 and part == 5:
            raise OSError("the machine stops")
        whole(job, level, part)

    monkeypatch.setattr(hops, "make_level", stop)
    with using(1), pytest.raises(OSError, match="stops"):
        made(store, preprocessor, POLYNOMIALS[0])
    monkeypatch.setattr(hops, "make_level", whole)
    folder = next((store.path / "work").glob("filtered-*/b*"))
    for name in ("h0003.00004", "x.00002"):
        content = bytearray((folder / name).read_bytes())
        content[400] ^= 4
        (folder / name).write_bytes(content)
    assert np.array_equal(made(store, preprocessor, POLYNOMIALS[0])[:], expected)


def test_less_memory_than_it_was_begun_with(tmp_path, monkeypatch):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    whole = hops.make_level
    monkeypatch.setattr(hops, "make_level", lambda job, level, part: 1 / 0)
    with using(1), pytest.raises(ZeroDivisionError):
        made(store, preprocessor, POLYNOMIALS[1])
    monkeypatch.setattr(hops, "make_level", whole)
    with using(1, memory=900 * 40):
        features = made(store, preprocessor, POLYNOMIALS[1])
    assert np.array_equal(features[:], in_memory(graph, preprocessor, POLYNOMIALS[1]))


def test_a_full_disk_is_said_in_a_sentence(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    full = OSError(errno.ENOSPC, "no space left on device")
    raised = pytest.raises(OSError, match="is full; make room and run the same again")
    with using(1), patch("nodegp.disk.work.os.replace", side_effect=full), raised:
        made(store, preprocessor, POLYNOMIALS[1])
    assert not list((store.path / "work").rglob(".x*"))
    features = made(store, preprocessor, POLYNOMIALS[1])
    assert np.array_equal(features[:], in_memory(graph, preprocessor, POLYNOMIALS[1]))


def test_threads_where_the_system_does_not_say_which_cores_are_ours(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert Threads().n_threads == os.cpu_count()
