"""The benchmark of reading tables: Parquet files to a validated graph, against the floor.

The floor does only what nobody can leave out: pyarrow reads the two files, ids are looked up
among the nodes' and scipy builds the matrix. Both run by turns in one process, and each once
more in a process of its own for its peak memory. Writes build/bench/io.json, in the form of
run.py. `python benchmarks/io.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp
from growth import peak_gib
from run import OUT, Results

from nodegp.io import TableSource, read_tables

COLUMNS = 20
CASES = ("whole numbers", "scattered numbers", "text")


def write_files(folder: Path, case: str, n_nodes: int, n_edges: int) -> None:
    """Nodes with an id, a label for one in a hundred and numeric columns; random edges."""
    rng = np.random.default_rng(0)
    numbers = rng.permutation(n_nodes)
    if case == "scattered numbers":
        numbers = rng.permutation(10**12 + 7919 * np.arange(n_nodes))
    ids = pa.array(numbers)
    if case == "text":
        ids = pc.binary_join_element_wise("paper-", ids.cast(pa.string()), "")
    label = pa.array(rng.choice(["a", "b", "c"], n_nodes), mask=rng.random(n_nodes) > 0.01)
    columns = {f"x{n}": rng.normal(n, 1 + n, n_nodes) for n in range(COLUMNS)}
    pq.write_table(pa.table({"id": ids, "label": label, **columns}), folder / "nodes.parquet")
    ends = {name: ids.take(pa.array(rng.integers(0, n_nodes, n_edges))) for name in ("from", "to")}
    pq.write_table(pa.table(ends), folder / "edges.parquet")


def source(folder: Path) -> TableSource:
    return TableSource(folder / "nodes.parquet", folder / "edges.parquet", id="id", label="label")


def ours(folder: Path) -> object:
    return read_tables(source(folder))


def floor(folder: Path) -> object:
    nodes = pq.read_table(folder / "nodes.parquet")
    edges = pq.read_table(folder / "edges.parquet")
    ids = nodes["id"].combine_chunks()
    i, j = (pc.index_in(edges[end], value_set=ids).to_numpy() for end in ("from", "to"))
    shape = (len(ids), len(ids))
    return nodes, sp.csr_array((np.ones(len(i)), (i, j)), shape=shape)


RUNS: dict[str, Callable[[Path], object]] = {"ours": ours, "floor": floor}


def medians(folder: Path, repeats: int) -> dict[str, float]:
    """Seconds of both, by turns: a machine that slows down meanwhile does so for both."""
    seconds: dict[str, list[float]] = {name: [] for name in RUNS}
    for _ in range(repeats):
        for name, run in RUNS.items():
            started = time.perf_counter()
            result = run(folder)
            seconds[name].append(time.perf_counter() - started)
            del result
    return {name: float(np.median(values)) for name, values in seconds.items()}


def summary_seconds(folder: Path) -> float:
    """The summary walks over the graph, and is made only when asked for."""
    loaded = read_tables(source(folder))
    started = time.perf_counter()
    loaded.summary.rows()
    return time.perf_counter() - started


def peak_of(name: str, folder: Path) -> float:
    command = [sys.executable, __file__, "--alone", name, "--folder", str(folder)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=OUT / "io.json")
    parser.add_argument("--alone", choices=RUNS, help="run this once and print its peak in GiB")
    parser.add_argument("--folder", type=Path, help="where --alone finds its files")
    args = parser.parse_args()
    if args.alone:
        RUNS[args.alone](args.folder)
        print(json.dumps(peak_gib()))
        return
    results = Results(args.out)
    for case in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_files(folder, case, args.nodes, args.edges)
            seconds = medians(folder, args.repeats)
            summary = summary_seconds(folder)
            peaks = {name: peak_of(name, folder) for name in RUNS}
        title = f"{args.nodes:,} nodes, {args.edges:,} edges, {case}"
        peer = "read, look up, build the matrix"
        results.add(title, "time/floor", seconds["ours"], peer, seconds["floor"])
        results.add(title, "peak GiB", peaks["ours"], peer, peaks["floor"])
        results.add(f"{title}: summary", "seconds", summary)
    results.table()
    print(f"\nwritten to {os.path.relpath(args.out)}")


if __name__ == "__main__":
    main()
