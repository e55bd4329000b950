"""What does the low-rank form of a filter on the function cost, and what does it give?

PageRank(0.1) with a cubic and an RBF kernel, hyper-parameters learnt, on random splits of 20 labels
per class that leave the public test nodes out: share of the prior left out (of variances, and of
differences between nodes), accuracy and log loss on other nodes, seconds to fit and to predict.
Beside it the same filter on the features and, on a small part of Cora, the exact form.
Run: python benchmarks/lowrank.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

import nodegp
from nodegp import Graph, metrics
from nodegp.filters import Filter, PageRank
from nodegp.kernels import RBF, Kernel, Polynomial

KERNELS: dict[str, Kernel] = {"cubic": Polynomial(3, 1.0, 1.0), "RBF": RBF(100.0, 1.0)}
HELD = ("strength",)


def filters(ranks: list[int]) -> dict[str, Filter]:
    found: dict[str, Filter] = {"features": PageRank(0.1, fixed=HELD)}
    for rank in ranks:
        found[f"rank {rank}"] = PageRank(0.1, on="function", rank=rank, fixed=HELD)
    return found


def measure(
    graph: Graph, y: np.ndarray, train: np.ndarray, test: np.ndarray, kernel: Kernel, filter: Filter
) -> tuple[list[float], np.ndarray]:
    """Error (two kinds), accuracy, log loss, seconds to fit and to predict; the probabilities."""
    shown = np.full(graph.n_nodes, -1)
    shown[train] = y[train]
    model = nodegp.GraphGPClassifier(
        kernel, filter=filter, likelihood="softmax", center=False, random_state=0
    )
    started = time.perf_counter()
    model.fit(graph, shown)
    fitted = time.perf_counter()
    proba = model.predict_proba(graph, test)
    seconds = [fitted - started, time.perf_counter() - fitted]
    is_low_rank = getattr(filter, "rank", None) is not None
    error = list(model.low_rank_error()) if is_low_rank else [0.0, 0.0]
    scores = [metrics.accuracy(y[test], proba), metrics.log_loss(y[test], proba)]
    return error + scores + seconds, proba


def whole_graphs(names: list[str], ranks: list[int], n_splits: int) -> None:
    print("data, kernel, form: error of variances, of differences, accuracy (+- s.e.), log loss, ")
    print("seconds to fit, to predict")
    for name in names:
        data = nodegp.load_dataset(name)
        for kind, kernel in KERNELS.items():
            for form, filter in filters(ranks).items():
                runs = []
                for seed in range(n_splits):
                    split = data.random_split(20, seed)
                    nodes = split["train"], split["test"]
                    runs.append(measure(data.graph, data.y, *nodes, kernel, filter)[0])
                mean, spread = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1)
                print(
                    f"{name:9}{kind:6} {form:10} {mean[0]:6.3f} {mean[1]:6.3f}   {mean[2]:.4f} "
                    f"+- {spread[2] / np.sqrt(n_splits):.4f}   {mean[3]:.4f} {mean[4]:7.1f} "
                    f"{mean[5]:6.2f}",
                    flush=True,
                )


def small_graph(n_nodes: int = 500, n_labels: int = 60) -> None:
    """Against the exact form, on the nodes around the best linked one of Cora."""
    data = nodegp.load_dataset("cora")
    start = int(data.graph.degrees.argmax())
    around = breadth_first_order(data.graph.adjacency, start, return_predecessors=False)[:n_nodes]
    graph, y = data.graph.subgraph(around), data.y[around]
    free = np.flatnonzero(~np.isin(around, data.splits["test"]))
    shuffled = np.random.default_rng(0).permutation(free)
    train, test = np.sort(shuffled[:n_labels]), np.sort(shuffled[n_labels:])
    print(f"{n_nodes} nodes of Cora, {n_labels} labels; last: mean difference of probabilities")
    for kind, kernel in KERNELS.items():
        forms = {"exact": PageRank(0.1, on="function", fixed=HELD)} | filters([60, 120, 250, 500])
        exact = None
        for form, filter in forms.items():
            numbers, proba = measure(graph, y, train, test, kernel, filter)
            exact = proba if exact is None else exact
            error, score, seconds = numbers[:2], numbers[2:4], numbers[4:]
            print(
                f"{kind:6} {form:10} {error[0]:6.3f} {error[1]:6.3f}   {score[0]:.4f} "
                f"{score[1]:.4f} {seconds[0]:7.1f} {seconds[1]:6.2f}   "
                f"{np.abs(proba - exact).mean():.4f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="cora,citeseer")
    parser.add_argument("--ranks", default="300,600")
    parser.add_argument("--splits", type=int, default=3)
    args = parser.parse_args()
    small_graph()
    whole_graphs(args.data.split(","), [int(r) for r in args.ranks.split(",")], args.splits)


if __name__ == "__main__":
    main()
