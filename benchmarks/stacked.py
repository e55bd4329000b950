"""Does stacking help? One, two and three layers against ordinary graph GPs, on random splits.

Splits of 20 labels per class that leave the public test nodes out, the same ones for every model.
For each: accuracy, log loss, and processor seconds of one thread for a fit and its prediction,
means with standard errors; and the paired difference in accuracy to the ordinary model with the
same filter. Run: python benchmarks/stacked.py [--splits 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import nodegp
from nodegp import metrics
from nodegp.datasets import Dataset
from nodegp.filters import PageRank
from nodegp.kernels import Linear
from nodegp_paper.datasets import random_split
from nodegp_paper.stacked import StackedGraphGPClassifier

FIXED = PageRank(fixed=("strength",))
REFERENCE = "one GP, pagerank fixed"


def _shallow(seed: int, **settings: Any) -> nodegp.GraphGPClassifier:
    return nodegp.GraphGPClassifier(
        # Features as the stacked models have them.
        kernel=Linear(10.0),
        likelihood="softmax",
        random_state=seed,
        **settings,
    )


def _stacked(seed: int, n_layers: int, filter: Any) -> StackedGraphGPClassifier:
    return StackedGraphGPClassifier(n_layers, filter=filter, random_state=seed)


MODELS: dict[str, Callable[[int], Any]] = {
    "paper's GGP": lambda seed: nodegp.GraphGPClassifier(recipe="paper", random_state=seed),
    "one GP, pagerank learnt": lambda seed: _shallow(seed, filter="pagerank"),
    REFERENCE: lambda seed: _shallow(seed, filter=FIXED),
    "one GP, pagerank fixed, not calibrated": lambda seed: _shallow(
        seed, filter=FIXED, calibrate=False
    ),
    "1 layer": lambda seed: _stacked(seed, 1, filter="pagerank"),
    "2 layers, pagerank in each": lambda seed: _stacked(seed, 2, filter="pagerank"),
    "2 layers, pagerank in the first": lambda seed: _stacked(
        seed, 2, filter=("pagerank", "identity")
    ),
    "3 layers, pagerank in each": lambda seed: _stacked(seed, 3, filter="pagerank"),
}


def measure(data: Dataset, model: Any, seed: int) -> tuple[float, float, float]:
    """Accuracy, log loss and seconds on one split."""
    split = random_split(data, 20, seed)
    y = np.full(data.graph.n_nodes, -1)
    y[split["train"]] = data.y[split["train"]]
    started = time.process_time()
    proba = model.fit(data.graph, y).predict_proba(data.graph, split["test"])
    seconds = time.process_time() - started
    truth = data.y[split["test"]]
    return metrics.accuracy(truth, proba), metrics.log_loss(truth, proba), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--datasets", default="cora,citeseer")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| data set | model | accuracy | difference | log loss | seconds |")
    print("|---|---|---|---|---|---|")
    for name in args.datasets.split(","):
        data = nodegp.load_dataset(name)
        scores = {}
        # The filtered features are kept with the graph, and whoever comes first would pay for them.
        measure(data, _shallow(0, filter=FIXED), 0)
        for model in sorted(MODELS, key=lambda label: label != REFERENCE):
            rows = [measure(data, MODELS[model](seed), seed) for seed in range(args.splits)]
            scores[model] = np.array(rows)  # (splits, 3)
            gap = scores[model][:, 0] - scores[REFERENCE][:, 0]
            print(
                f"| {data.name} | {model} | {_written(100 * scores[model][:, 0], 1)} | "
                f"{_written(100 * gap, 1)} | {_written(scores[model][:, 1], 3)} | "
                f"{scores[model][:, 2].mean():.1f} |",
                flush=True,
            )


def _written(values: np.ndarray, digits: int) -> str:
    """A mean with its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    main()
