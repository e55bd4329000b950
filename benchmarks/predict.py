"""Predictions for all nodes: speed beside a GCN, distance from the bare products, and memory.

    python benchmarks/predict.py [--only gcn,products,memory,featureless] [--repeats 5]

`make bench` runs it. Times are medians, every repetition on a fresh Graph with nothing kept from
the one before, in a warm process, with the same threads on both sides. Each size of `products` and
`memory` has a process of its own, so that its peak is its own. Writes build/bench/predict.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from growth import peak_gib

import nodegp
from nodegp.datasets import Dataset
from nodegp.filters import Identity, SumOfFilters
from nodegp.graph import Graph
from nodegp.model.recipe import bias_variance, default_kernel, far_neighbours, prior_variance
from nodegp_paper.baselines.gcn import GCN
from nodegp_paper.datasets import synthetic

OUT = Path(__file__).resolve().parent.parent / "build" / "bench" / "predict.json"
SIZES = (10_000, 100_000, 1_000_000)


def text_graph(n_features: int = 5_000) -> Dataset:
    """20,000 nodes with 14 words each, 170,000 edges, 4 classes of 20 labels; 0: no words."""
    return synthetic(
        20_000,
        n_classes=4,
        mean_degree=17.4,
        n_features=n_features,
        sparse_features=n_features > 0,
        n_words=14,
        feature_noise=4.0,
        labels_per_class=20,
        seed=0,
    )


def fresh(graph: Graph) -> Graph:
    """The same graph with nothing known of it yet."""
    features = None if graph.features is None else graph.features.copy()
    return Graph(graph.adjacency.copy(), features)


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def once(data: Dataset) -> dict[str, float]:
    """Seconds of one round: the preparation that needs no label (nodes alike, lengths of filtered
    rows), a fit, all predictions, one more label with all again, a new fit after the default's
    filter has moved, a GCN."""
    y, more = data.labels("train"), data.splits["test"][:1]
    graph, model = fresh(data.graph), nodegp.GraphGPClassifier(random_state=0)
    per_class = (y >= 0).sum() / len(np.unique(y[y >= 0]))
    found = {
        "prepare": seconds(lambda: model.prepare(graph, per_class)),
        "fit": seconds(lambda: model.fit(graph, y)),
        "predict": seconds(lambda: model.predict_proba(graph)),
        "update": seconds(lambda: model.update(more, data.y[more]).predict_proba(graph)),
    }
    # Half of the labels: the default's filter reaches a step further, and all is carried anew.
    fewer = np.where(np.cumsum(y >= 0) % 2, y, -1)
    found["step"] = seconds(lambda: model.fit(graph, fewer).predict_proba(graph))
    other = fresh(data.graph)
    found["gcn"] = seconds(lambda: GCN(random_state=0).fit(other, y).predict_proba(other))
    return found | {"whole": found["fit"] + found["predict"]}


def beside_gcn(repeats: int) -> list[dict]:
    """Fit and probabilities of all nodes, and one more label and all again, against the GCN."""
    rows = []
    for name in ("cora", "citeseer", "pubmed", "text"):
        try:
            data = text_graph() if name == "text" else nodegp.load_dataset(name)
        except (FileNotFoundError, ValueError) as error:
            print(f"skipping {name}: {error}")
            continue
        rounds = [once(data) for _ in range(repeats + 1)][1:]  # the first one warms up
        median = {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}
        row = {"case": f"{name}: fit + predict all, beside GCN", **median}
        row["times as fast"] = median["gcn"] / median["whole"]
        row["update / GCN"] = median["update"] / median["gcn"]
        rows.append(say(row))
    return rows


def products(n_nodes: int, repeats: int) -> dict:
    """All predictions of a large graph with the default's filter, against the bare products of that
    filter with scipy."""
    data = synthetic(n_nodes, labels_per_class=40)
    y = data.labels("train")
    far = far_neighbours(40)
    filter = SumOfFilters((Identity(), far))
    kernel = default_kernel(filter, data.graph, False, prior_variance(40), bias_variance(40))
    model = nodegp.GraphGPClassifier(kernel=kernel, filter=filter, random_state=0).fit(
        data.graph, y
    )
    order, n_columns = far.order, min(int((y >= 0).sum()), data.graph.n_features)
    matrix = data.graph.adjacency.astype(np.float32)
    columns = np.random.default_rng(0).random((n_nodes, n_columns), dtype=np.float32)

    def bare() -> None:
        for _ in range(order):
            matrix @ columns

    ours, least = [], []
    model.predict_proba(data.graph)  # warms up
    for _ in range(repeats):
        graph = fresh(data.graph)
        ours.append(seconds(lambda graph=graph: model.predict_proba(graph)))
        least.append(seconds(bare))
    median, floor = statistics.median(ours), statistics.median(least)
    return {
        "case": f"predict {n_nodes:,} nodes",
        "seconds": median,
        "scipy products": floor,
        "ratio": median / floor,
        "order": order,
        "columns": n_columns,
    }


def memory(what: str) -> dict:
    """Peak memory of a fit with all predictions, in this process."""
    if what == "words":
        data = synthetic(
            100_000,
            mean_degree=20,
            n_features=20_000,
            sparse_features=True,
            feature_noise=4.0,
            labels_per_class=40,
        )
    else:
        data = synthetic(1_000_000, labels_per_class=40)
    started = time.perf_counter()
    model = nodegp.GraphGPClassifier(random_state=0).fit(data.graph, data.labels("train"))
    model.predict_proba(data.graph)
    return {
        "case": f"memory, {what}: {data.graph!r}",
        "seconds": time.perf_counter() - started,
        "peak GiB": peak_gib(),
    }


def featureless(repeats: int) -> dict:
    """A graph without features against one with words, of the same size."""
    medians = []
    for data in (text_graph(0), text_graph()):
        y, times = data.labels("train"), []
        for repetition in range(repeats + 1):
            graph = fresh(data.graph)
            model = nodegp.GraphGPClassifier(random_state=0).fit(graph, y)
            taken = seconds(lambda model=model, graph=graph: model.predict_proba(graph))
            if repetition:
                times.append(taken)
        medians.append(statistics.median(times))
    without, with_words = medians
    return {
        "case": "20,000 nodes without features: predict all",
        "seconds": without,
        "with words": with_words,
        "ratio": without / with_words,
    }


def apart(*arguments: str) -> dict:
    """A measurement in a process of its own."""
    command = [sys.executable, __file__, "--inside", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"case": " ".join(arguments), "failed": done.stderr[-500:]}
    found: dict = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def say(row: dict) -> dict:
    cells = (f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in row.items())
    print("   ".join(cells), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="gcn,products,memory,featureless")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--inside", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    if args.inside:
        what, value = args.inside[:2]
        run = {
            "products": lambda: products(int(value), args.repeats),
            "memory": lambda: memory(value),
        }
        print(json.dumps(run[what]()))
        return
    chosen, rows = args.only.split(","), []
    if "gcn" in chosen:
        rows += beside_gcn(args.repeats)
    if "products" in chosen:
        sizes = (size for size in SIZES if size <= args.largest)
        rows += [say(apart("products", str(size))) for size in sizes]
    if "memory" in chosen:
        rows += [say(apart("memory", what)) for what in ("words", "million")]
    if "featureless" in chosen:
        rows.append(say(featureless(args.repeats)))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1))
    print(f"\nwritten to {os.path.relpath(OUT)}")


if __name__ == "__main__":
    main()
