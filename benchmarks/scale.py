"""Graphs from disk: how fast against scipy in memory, and what 100 million edges take.

`python benchmarks/scale.py propagation FOLDER` draws 20 million edges and carries 16 columns over
ten hops of them: by scipy in memory on one core, from disk with one thread and with two, and on
Dask with two workers. All must be equal to the bit.
`python benchmarks/scale.py answers FOLDER` fits one recipe to the same labels on that store and on
a graph of the same edges in memory, and compares filtered features of all nodes and probabilities
of 100,000; then both get 20 more labels and are compared again.
`python benchmarks/scale.py posterior FOLDER` times predictions of 5 classes from 1,000 labels and
128 columns.
`python benchmarks/scale.py whole FOLDER` writes tables of 10 million nodes and 100 million edges,
and prepares, fits and predicts on the command line, with the anonymous memory of all its processes
watched. With `--order 10` the model is one filter of that order.
Each prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import scipy.sparse as sp
import torch

import nodegp
from nodegp.budget import bytes_of
from nodegp.disk import on_disk, using
from nodegp.disk.cluster import connected
from nodegp.disk.filtered import FilteredMatrix
from nodegp.disk.hops import Recursion, forget
from nodegp.disk.preprocess import fit_preprocessor
from nodegp.linalg import torch_sparse
from nodegp.operators import operator_of
from nodegp.preprocessing import Preprocessing
from nodegp_paper.datasets.large import LargeGraph

TERMS = (0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.04, 0.03, 0.02, 0.01, 0.01)
LIMITS = {"seconds": 1800, "disk": 40e9, "memory": 4 << 30}


def _drawn(folder: Path, n_nodes: int, n_edges: int) -> tuple[LargeGraph, Any]:
    """The graph of these benchmarks, and its store, which is kept for the next."""
    large = LargeGraph(n_nodes, n_edges, n_features=16)
    path = folder / f"store-{n_nodes}-{n_edges}"
    return large, nodegp.open_store(path) if path.exists() else large.write(path)


def propagation(folder: Path, n_nodes: int, n_edges: int, repeats: int) -> dict[str, Any]:
    _, store = _drawn(folder, n_nodes, n_edges)
    path = store.path
    preprocessor = fit_preprocessor(Preprocessing("standardise"), store)
    recursion = Recursion(TERMS, False)
    operator: Any = operator_of(on_disk(store), False)

    def from_disk() -> np.ndarray:
        shutil.rmtree(next((path / "work").glob("filtered-*"), path / "none"), ignore_errors=True)
        matrix = FilteredMatrix(store, preprocessor, recursion, torch.float32)
        matrix.make(operator, lambda done, total: None)
        forget()
        return matrix

    seconds: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = work()
        seconds.setdefault(name, []).append(time.perf_counter() - started)
        print(f"{name}: {seconds[name][-1]:.1f} s", file=sys.stderr, flush=True)
        return result

    with using(1, memory=64 << 30):
        expected = from_disk()[:]  # which also writes the operator's rows
    parts = operator.parts(torch.float32)
    rows = [parts.scipy_rows(part) for part in range(store.n_parts)]
    S = sp.csr_array(sp.vstack(rows, format="csr"))
    del rows
    x = np.concatenate([_prepared(store, preprocessor, part) for part in range(store.n_parts)])
    results: dict[str, Any] = {"nodes": store.n_nodes, "edges": store.n_edges}
    for _ in range(repeats):
        in_memory = timed("scipy in memory", lambda: _clenshaw(S, x))
        for threads in (1, 2):
            with using(threads, memory=64 << 30):
                found = timed(f"disk, {threads} threads", from_disk)
            results[f"equal, {threads} threads"] = bool(np.array_equal(found[:], expected))
    results["largest difference from scipy"] = float(np.abs(in_memory - expected).max())
    results["equal, torch in memory"] = bool(np.array_equal(_clenshaw_torch(S, x), expected))
    with connected("local:2") as client, using(client, memory=64 << 30):
        client.run(operator_of, on_disk(store), False)  # workers import what they need
        for _ in range(repeats):
            found = timed("Dask, 2 workers", from_disk)
    results["equal, Dask"] = bool(np.array_equal(found[:], expected))
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    alone = medians["scipy in memory"]
    ratios = {name: value / alone for name, value in medians.items()}
    return results | {"seconds": medians, "ratios": ratios}


def _prepared(store: Any, preprocessor: Any, part: int) -> np.ndarray:
    raw = store.features_of(part)
    scale, centre = preprocessor.scale, preprocessor.centre
    mean = (centre / np.where(scale > 0, scale, 1.0)).astype(np.float32)
    return (raw - mean) * scale.astype(np.float32)


def _clenshaw(S: sp.csr_array, x: np.ndarray) -> np.ndarray:
    """The same recursion with scipy's products, and passes over memory as few as can be."""
    *others, last = (np.float32(term) for term in TERMS)
    previous, current = None, last * x
    for k in reversed(range(len(others))):
        following = S @ current
        if k:
            following *= np.float32(2.0)
        if previous is not None:
            following -= previous
        following += others[k] * x
        previous, current = current, following
    return current


def _clenshaw_torch(S: sp.csr_array, x: np.ndarray) -> np.ndarray:
    """The same with the steps of :mod:`nodegp.propagation`."""
    matrix, source = torch_sparse(S, torch.float32), torch.from_numpy(x)
    *others, last = TERMS
    previous, current = None, last * source
    for k in reversed(range(len(others))):
        times = 2.0 if k else 1.0
        if previous is None:
            following = torch.empty_like(source)
            torch.addmm(following, matrix, current, beta=0.0, alpha=times, out=following)
        else:
            following = previous.addmm_(matrix, current, beta=-1.0, alpha=times)
        previous, current = current, following.add_(source, alpha=others[k])
    return current.numpy()


def answers(folder: Path, n_nodes: int, n_edges: int, memory: str) -> dict[str, Any]:
    """The same model from disk and in memory, and by how much their answers differ."""
    large, store = _drawn(folder, n_nodes, n_edges)
    rng = np.random.default_rng(0)
    drawn = rng.choice(n_nodes, 520, replace=False)
    labelled, new = drawn[:500], drawn[500:]
    asked = np.sort(rng.choice(n_nodes, min(100_000, n_nodes), replace=False))
    pagerank = nodegp.filters.PageRank(0.1, order=10, fixed=("strength",))
    parts = {"filter": pagerank, "kernel": nodegp.kernels.Cosine(), "random_state": 0}
    result: dict[str, Any] = {
        "nodes": store.n_nodes,
        "edges": store.n_edges,
        "compared": len(asked),
    }

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        found = work()
        result[f"{name}, seconds"] = round(time.perf_counter() - started, 1)
        print(f"{name}: {result[f'{name}, seconds']} s", file=sys.stderr, flush=True)
        return found

    y = np.full(n_nodes, -1)
    y[labelled] = large.classes(labelled)
    rows = [store.edges(part) for part in range(store.n_parts)]
    features = np.concatenate([store.features_of(part) for part in range(store.n_parts)])
    graph = nodegp.Graph(sp.csr_array(sp.vstack(rows, format="csr")), features)
    del rows, features
    with using(2, memory=bytes_of(memory)):
        disk = nodegp.GraphGPClassifier(**parts)
        timed("fit from disk", lambda: disk.fit(store, (labelled, y[labelled])))
        ours = [timed("predict from disk", lambda: disk.predict_proba(nodes=asked))]
        in_memory = nodegp.GraphGPClassifier(**parts)
        timed("fit in memory", lambda: in_memory.fit(graph, y))
        theirs = [timed("predict in memory", lambda: in_memory.predict_proba(nodes=asked))]
        polynomial = disk.filter_.polynomial()
        filtered = [model.model_.domain().whole(polynomial) for model in (disk, in_memory)]
        result["filtered features are equal"] = bool(np.array_equal(filtered[0][:], filtered[1]))
        for model, found in ((disk, ours), (in_memory, theirs)):
            model.update(new, large.classes(new))
            found.append(model.predict_proba(nodes=asked))
    names = ("largest difference of probabilities", "the same after an update")
    for name, mine, other in zip(names, ours, theirs, strict=True):
        result[name] = float(np.abs(mine - other).max())
    result["accuracy"] = float(np.mean(ours[1].argmax(axis=1) == large.classes(asked)))
    return result


def posterior(folder: Path, n_nodes: int = 200_000) -> dict[str, Any]:
    large = LargeGraph(n_nodes, 5 * n_nodes, n_features=128, feature_noise=0.5)
    path = folder / "store-posterior"
    store = nodegp.open_store(path) if path.exists() else large.write(path)
    labelled = np.random.default_rng(0).choice(n_nodes, 1000, replace=False)
    pagerank = nodegp.filters.PageRank(0.1, order=10, fixed=("strength",))
    views = (nodegp.filters.Identity(), pagerank, nodegp.filters.Propagation(2))
    model = nodegp.GraphGPClassifier(filter=nodegp.filters.SumOfFilters(views), random_state=0)
    model.fit(store, (labelled, large.classes(labelled)))
    fitted, domain = model.model_, model.model_.domain()
    result = {"weights": 3 * 128 + 1}
    for name, work in (
        ("posterior", lambda nodes: fitted.marginals(domain, nodes)),
        ("probabilities", lambda nodes: fitted.predict_proba(domain, nodes)),
        ("table", lambda nodes: fitted.predictive(fitted.marginals(domain, nodes))),
    ):
        work(np.arange(100))
        started = time.process_time()
        work(np.arange(n_nodes))
        seconds = time.process_time() - started
        result[f"microseconds of CPU a node, {name}"] = round(1e6 * seconds / n_nodes, 1)
    return result


class MemoryWatch:
    """The largest anonymous memory of this process's children together."""

    def __init__(self) -> None:
        self.largest, self._is_over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(0.1):
            total = 0
            for child in psutil.Process().children(recursive=True):
                try:
                    status = Path(f"/proc/{child.pid}/status").read_text()
                except OSError:
                    continue
                for line in status.splitlines():
                    if line.startswith("RssAnon:"):
                        total += int(line.split()[1]) * 1024
            self.largest = max(self.largest, total)

    def stop(self) -> int:
        self._is_over.set()
        self._thread.join()
        return self.largest


def whole(folder: Path, n_nodes: int, n_edges: int, memory: str, order: int) -> dict[str, Any]:
    # Some are drawn twice: a few more are drawn.
    large = LargeGraph(n_nodes, round(1.02 * n_edges), n_features=64, feature_noise=2.0, tail=1.3)
    tables = folder / "tables"
    if not (tables / "done").exists():
        _write_tables(large, tables)
    store, model, out = folder / "store", folder / "model.nodegp", folder / "predictions"
    for path in (store, out):
        shutil.rmtree(path, ignore_errors=True)
    labelled = np.random.default_rng(0).choice(n_nodes, 500, replace=False)
    labels = folder / "labels.csv"
    classes = large.classes(labelled)
    rows = (f"{n},class {c}\n" for n, c in zip(labelled, classes, strict=True))
    labels.write_text("id,label\n" + "".join(rows))
    result: dict[str, Any] = {"disk": 0}
    commands = {
        "prepare": [
            "prepare",
            "--nodes",
            tables / "nodes",
            "--edges",
            tables / "edges",
            "-o",
            store,
        ],
        "fit": ["fit", "--store", store, "--labels", labels, "-o", model],
        "predict": ["predict", model, "--store", store, "-o", out],
    }
    for name, words in commands.items():
        watch, started = MemoryWatch(), time.perf_counter()
        program = ["-m", "nodegp"]
        if order and name == "fit":
            program, words = [__file__], ["fit", folder, "--order", order]
        line = [sys.executable, *program, *map(str, words), "--memory", memory]
        subprocess.run(line, check=True)
        result[f"{name} seconds"] = round(time.perf_counter() - started, 1)
        result[f"{name} RssAnon GiB"] = round(watch.stop() / 2**30, 2)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        inputs = sum(path.stat().st_size for path in tables.rglob("*") if path.is_file())
        result["disk"] = max(result["disk"], size - inputs)
        print(json.dumps(result), file=sys.stderr, flush=True)
    opened = nodegp.open_store(store)
    result |= {"nodes": opened.n_nodes, "edges": opened.n_edges}
    result["seconds"] = round(sum(result[f"{name} seconds"] for name in commands), 1)
    result["memory"] = max(result[f"{name} RssAnon GiB"] for name in commands)
    result["is within limits"] = (
        result["seconds"] <= LIMITS["seconds"]
        and result["disk"] <= LIMITS["disk"]
        and result["memory"] * 2**30 <= LIMITS["memory"]
    )
    return result


def fit_filter(folder: Path, order: int, memory: str) -> dict[str, Any]:
    """A model of one filter of some order, whose range is given, on what `whole` has prepared."""
    import pandas as pd

    labels = pd.read_csv(folder / "labels.csv")
    pagerank = nodegp.filters.PageRank(0.1, order=order, fixed=("strength",))
    model = nodegp.GraphGPClassifier(filter=pagerank, random_state=0, verbose=1)
    with using(2, memory=bytes_of(memory)):
        pairs = labels["id"].to_numpy(), labels["label"].to_numpy()
        model.fit(nodegp.open_store(folder / "store"), pairs)
    model.save(folder / "model.nodegp")
    return {}


def _write_tables(large: LargeGraph, folder: Path) -> None:
    """Parquet tables of nodes, with their features, and of edges."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in ("nodes", "edges"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    step = 1 << 19
    for number, start in enumerate(range(0, large.n_nodes, step)):
        rows = large.features(start, min(start + step, large.n_nodes))
        columns = {"id": pa.array(np.arange(start, start + len(rows)))}
        columns |= {f"f{c}": pa.array(rows[:, c]) for c in range(rows.shape[1])}
        pq.write_table(
            pa.table(columns), folder / "nodes" / f"{number:05d}.parquet", compression="none"
        )
    for block in range(-(-large.n_drawn // (1 << 20))):
        source, target = large.edges(block)
        table = pa.table({"source": source, "target": target})
        pq.write_table(table, folder / "edges" / f"{block:05d}.parquet")
    (folder / "done").touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=["propagation", "answers", "posterior", "whole", "fit"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--edges", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="3500MiB")
    parser.add_argument(
        "--order",
        type=int,
        default=0,
        help="`whole` with one filter of this order, not the default",
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.case == "propagation":
        sizes = options.nodes or 2_000_000, options.edges or 20_000_000
        result = propagation(options.folder, *sizes, options.repeats)
    elif options.case == "answers":
        sizes = options.nodes or 2_000_000, options.edges or 20_000_000
        result = answers(options.folder, *sizes, options.memory)
    elif options.case == "fit":
        result = fit_filter(options.folder, options.order, options.memory)
    elif options.case == "posterior":
        result = posterior(options.folder, options.nodes or 200_000)
    else:
        sizes = options.nodes or 10_000_000, options.edges or 100_000_000
        result = whole(options.folder, *sizes, options.memory, options.order)
    print(json.dumps({"case": options.case} | result))


if __name__ == "__main__":
    main()
