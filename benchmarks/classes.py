"""What does it cost that hundreds of classes share a precision for rivals?

The default model on made-up graphs, with a precision for each class and with one for all rivals of
a label's class: accuracy and log loss of the unlabelled nodes, leave-one-out log loss, and seconds
of fit and predictions. With --most the case that it is for, 500 classes with 1,000 labels, and the
peak of memory.
Run: python benchmarks/classes.py; python benchmarks/classes.py --most
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import NamedTuple
from unittest import mock

import numpy as np

from nodegp import Graph, GraphGPClassifier
from nodegp.inference import shared

WIDTH, LINKS = 64, 2


class Case(NamedTuple):
    classes: int
    labels: int  # per class
    noise: float  # of features, whose class means have variance one
    homophily: float
    splits: int
    nodes: int = 20  # per class


CASES = (
    Case(20, 3, 2.5, 0.6, 3),
    Case(20, 10, 3.0, 0.7, 3),
    Case(50, 3, 2.5, 0.6, 3),
    Case(50, 6, 3.5, 0.6, 3),
    Case(100, 3, 2.5, 0.6, 2),
    Case(100, 4, 4.0, 0.4, 2),
    Case(100, 6, 3.0, 0.7, 2),
    Case(200, 2, 2.5, 0.6, 1, nodes=10),
)
MOST = Case(500, 2, 2.0, 0.7, 1, nodes=10)


class Result(NamedTuple):
    accuracy: float
    log_loss: float
    leave_one_out: float
    seconds: float


def make(case: Case, seed: int) -> tuple[Graph, np.ndarray, np.ndarray]:
    """A graph, its classes, and those of labelled nodes, -1 elsewhere."""
    rng = np.random.default_rng(seed)
    n_nodes = case.classes * case.nodes
    y = rng.permutation(np.arange(n_nodes) % case.classes)
    means = rng.standard_normal((case.classes, WIDTH))
    features = means[y] + case.noise * rng.standard_normal((n_nodes, WIDTH))
    members = [np.flatnonzero(y == c) for c in range(case.classes)]
    source = np.repeat(np.arange(n_nodes), LINKS)
    alike = rng.random(len(source)) < case.homophily
    same = [members[y[node]][rng.integers(case.nodes)] for node in source]
    target = np.where(alike, same, rng.integers(n_nodes, size=len(source)))
    edges = np.stack([source, target], 1)[source != target]
    known = np.full(n_nodes, -1)
    for c, nodes in enumerate(members):
        known[rng.choice(nodes, case.labels, replace=False)] = c
    return Graph.from_edges(edges, n_nodes=n_nodes, features=features), y, known


def run(case: Case, seed: int, is_shared: bool) -> Result:
    graph, y, known = make(case, seed)
    with mock.patch.object(shared, "MANY_CLASSES", 0 if is_shared else 10**9):
        began = time.perf_counter()
        model = GraphGPClassifier(random_state=0).fit(graph, known)
        proba = model.predict_proba()
        seconds = time.perf_counter() - began
    hidden = known < 0
    loss = -np.log(proba[hidden, y[hidden]]).mean()
    right = (proba.argmax(1) == y)[hidden].mean()
    return Result(right, loss, -model.model_.label_scores().mean(), seconds)


def compare() -> None:
    print(
        "accuracy, log loss, leave-one-out loss, seconds: of each class, and the change if shared"
    )
    for case in CASES:
        pairs = [[run(case, seed, how) for how in (False, True)] for seed in range(case.splits)]
        each, together = np.array(pairs).mean(0)
        change = [
            f"{value:.4f} {new - value:+.4f}" for value, new in zip(each, together, strict=True)
        ]
        print(f"{case.classes} classes, {case.labels} labels: " + ", ".join(change), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", action="store_true")
    if not parser.parse_args().most:
        compare()
        return
    result = run(MOST, 0, is_shared=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"accuracy {result.accuracy:.3f}, {result.seconds:.0f} s, peak {peak:.2f} GiB")


if __name__ == "__main__":
    main()
