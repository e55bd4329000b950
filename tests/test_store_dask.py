"""Stored graphs on Dask: the same files by other hands, also where one of them is lost."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nodegp
from nodegp.app.stored import StoredProject
from nodegp.cli.app import app
from nodegp.disk import hops, on_disk, using
from nodegp.disk.cluster import Cluster, connected
from nodegp.operators import operator_of
from nodegp.preprocessing import Preprocessing
from stores import POLYNOMIALS, awkward_graph, filtered, in_memory, stored

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def client():
    with connected("local:2") as client:
        yield client


@pytest.mark.parametrize(("n_columns", "n_blocks"), [(11, 1), (40, 2)])
def test_filtered_features_are_equal_to_the_bit(client, tmp_path, n_columns, n_blocks):
    graph, _ = awkward_graph(n_columns=n_columns)
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    operator = operator_of(on_disk(store), False)
    with using(client) as workers:
        assert (workers.n_places, workers.n_threads) == (2, 2)
        matrix = filtered(store, preprocessor, POLYNOMIALS[0])
        matrix.make(operator, lambda done, total: None)
    assert np.array_equal(matrix[:], in_memory(graph, preprocessor, POLYNOMIALS[0]))
    # A block for each worker, or one whose parts they share where that would be too narrow.
    assert len(list((store.path / "work").glob("filtered-*/b*"))) == n_blocks
    assert operator.passes == 6.0 * n_blocks


def test_a_model_and_its_predictions(client, tmp_path):
    graph, classes = awkward_graph(ids=True)
    store = stored(graph, tmp_path / "store")
    pairs = {f"node {n}": int(classes[n]) for n in range(0, 900, 15)}
    with using(client):
        model = nodegp.GraphGPClassifier(random_state=0).fit(store, pairs)
        project = StoredProject(on_disk(store), model)
        project.predict(tmp_path / "out")
    here = stored(graph, tmp_path / "here")
    expected = nodegp.GraphGPClassifier(random_state=0).fit(here, pairs).predict_proba()
    assert np.array_equal(model.predict_proba(), expected)
    assert len(list((tmp_path / "out").glob("*.parquet"))) == store.n_parts


def slow_level(job, level, part):
    time.sleep(0.02)
    hops_level(job, level, part)


hops_level = hops.make_level


def test_a_worker_that_is_killed_costs_its_tasks_only(tmp_path, monkeypatch):
    graph, _ = awkward_graph(n_columns=40)
    store = stored(graph, tmp_path / "store")
    preprocessor = Preprocessing("standardise").fit(graph.features)
    monkeypatch.setattr(hops, "make_level", slow_level)
    with connected("local:2") as client, using(client):
        victim = next(iter(client.run(os.getpid).values()))
        matrix = filtered(store, preprocessor, POLYNOMIALS[0])
        killed = []

        def progress(done, total):
            if done == 3 and not killed:
                killed.append(victim)
                threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()

        matrix.make(operator_of(on_disk(store), False), progress)
        assert killed
        assert victim not in client.run(os.getpid).values()
    assert np.array_equal(matrix[:], in_memory(graph, preprocessor, POLYNOMIALS[0]))


def test_workers_that_do_not_see_the_store_are_named(client, tmp_path, monkeypatch):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    monkeypatch.setattr("nodegp.disk.cluster.sees", lambda path: False)
    matrix = filtered(store, Preprocessing("standardise").fit(graph.features), POLYNOMIALS[0])
    with using(client), pytest.raises(ValueError, match=r"2 of 2 Dask workers, such as tcp.* see"):
        matrix.make(operator_of(on_disk(store), False), lambda done, total: None)


def test_a_task_that_fails_says_why(client):
    with pytest.raises(ZeroDivisionError):
        Cluster(client, 1 << 30).run(divmod, [(1, 0)])


def test_no_scheduler_is_said_in_words():
    said = pytest.raises(ValueError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9")
    with said, connected("tcp://127.0.0.1:9"):
        pass


def test_the_command_line_takes_the_address_of_a_scheduler(client, tmp_path):
    graph, classes = awkward_graph(ids=True)
    store = stored(graph, tmp_path / "store")
    rows = "".join(f"node {n},class {classes[n]}\n" for n in range(0, 900, 15))
    (tmp_path / "labels.csv").write_text("id,label\n" + rows)
    where = ["--store", store.path, "--cluster", client.scheduler.address]
    model, out = tmp_path / "model.nodegp", tmp_path / "out"
    fit = ["fit", *where, "--labels", tmp_path / "labels.csv", "-o", model]
    predict = ["predict", model, *where, "-o", out]
    for command in (fit, predict):
        done = CliRunner().invoke(app, [str(word) for word in command])
        assert done.exception is None, repr(done.exception)
    assert len(list(out.glob("*.parquet"))) == store.n_parts
    found = np.concatenate([pq.read_table(path)["p(class 1)"] for path in sorted(out.glob("p*"))])
    loaded = nodegp.load(model, store)
    # Parts at a time, and all at once: products of other shapes are rounded otherwise.
    np.testing.assert_allclose(found, loaded.predict_frame()["p(class 1)"], atol=1e-6)


def test_workers_that_do_not_see_where_predictions_go_are_named(client, tmp_path, monkeypatch):
    graph, classes = awkward_graph(ids=True)
    store = stored(graph, tmp_path / "store")
    pairs = {f"node {n}": int(classes[n]) for n in range(0, 900, 15)}
    model = nodegp.GraphGPClassifier(filter="identity", random_state=0).fit(store, pairs)
    monkeypatch.setattr(
        "nodegp.disk.cluster.sees", lambda path: not path.endswith("predictions.json")
    )
    out = tmp_path / "out"
    said = rf"2 of 2 Dask workers, .* do not see {out}, or may not write there: put the folder"
    with using(client), pytest.raises(ValueError, match=said):
        StoredProject(on_disk(store), model).predict(out)
    assert not list(out.glob("*.parquet"))
    assert not list((store.path / "work").glob(".model-*"))
