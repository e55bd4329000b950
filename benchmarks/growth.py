"""How time and memory grow with labels, nodes and degree, one case per process.

`python benchmarks/growth.py CASE SIZE` prints one JSON line: seconds (median over --repeats) and
the process's peak memory. `run.py` runs them all and fits the exponents.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nodegp
from nodegp.kernels import Polynomial
from nodegp_paper.datasets import hub_graph, synthetic

# The paper's kernel at a fixed offset: the same work at every size.
KERNEL = Polynomial(3, 1.0, 1.0, fixed=("variance", "offset"))


def labelled(size: int) -> Callable[[], object]:
    """Fit with `size` labels and one latent per label (no sparse approximation)."""
    data = synthetic(20_000, labels_per_class=size // 5, seed=0)
    return lambda: _fit(data, inducing="labelled")


def points(size: int) -> Callable[[], object]:
    """Fit with `size` labels through 300 inducing points left at their k-means start."""
    data = synthetic(max(2 * size, 20_000), labels_per_class=size // 5, seed=0)
    inducing = nodegp.inducing.Points(300, optimise=False)
    return lambda: _fit(data, inducing=inducing)


def nodes(size: int) -> Callable[[], object]:
    """Predict all of `size` nodes from 200 labels, 100 dense features, degrees up to 1,000."""
    data = synthetic(size, seed=0)
    # Labelled nodes of the mean degree: their neighbourhoods, which every node is compared with,
    # hold as many nodes at any size, and only the number of nodes grows.
    typical = np.flatnonzero(np.diff(data.graph.adjacency.indptr) == 10)
    y = np.full(size, -1)
    for c in range(data.n_classes):
        chosen = typical[data.y[typical] == c][:40]
        y[chosen] = c
    model = nodegp.GraphGPClassifier(kernel=KERNEL, recipe="paper", inducing="labelled").fit(
        data.graph, y
    )
    return lambda: model.predict_proba(data.graph)


def hub(size: int) -> Callable[[], object]:
    """Predict one node of degree `size`."""
    data = hub_graph(size, n_features=100, label_hub=False, seed=0)
    model = _fit(data, inducing="labelled")
    return lambda: model.predict_proba(data.graph, [0])


CASES = {"labelled": labelled, "points": points, "nodes": nodes, "hub": hub}


def _fit(data: nodegp.datasets.Dataset, **settings: object) -> nodegp.GraphGPClassifier:
    model = nodegp.GraphGPClassifier(kernel=KERNEL, recipe="paper", random_state=0, **settings)
    return model.fit(data.graph, data.labels("train"))


def peak_gib() -> float:
    """The most memory this process has held. The kernel's own count for it, since getrusage's
    also has what the parent held when it started this one."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("size", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    run = CASES[args.case](args.size)
    seconds = []
    for _ in range(args.repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    print(
        json.dumps(
            {
                "case": args.case,
                "size": args.size,
                "seconds": statistics.median(seconds),
                "spread": float(np.ptp(seconds)),
                "repeats": args.repeats,
                "peak_gib": peak_gib(),
            }
        )
    )


if __name__ == "__main__":
    main()
