"""Which strategy of active learning? From one label to fifty, on the largest component.

The measure is that of the paper's Table 3: ALC, the area under the accuracy over all nodes still
unlabelled, with the default model. Choices among strategies, and of the prior
that they plan with, were made on starts drawn at random (--starts other); nodes 0 to 9 are the
paper's (--starts table), and --first 10 --count 20 are the twenty after them. Run:
python benchmarks/active.py [--starts other] [--first 0] [--count 10]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from nodegp import GraphGPClassifier, metrics
from nodegp.active import Acquisition, ActiveLearner, strategies
from nodegp.datasets import Dataset
from nodegp_paper.experiments.models import component_of
from nodegp_paper.metrics import area_under_learning_curve

N_LABELS = 50
TABLE = 10  # starts of the paper's table


def starts(data: Dataset, kind: str, first: int, count: int) -> np.ndarray:
    """Nodes in their order, or others at random."""
    if kind == "table":
        return np.arange(first, first + count)
    nodes = np.flatnonzero(data.y >= 0)
    nodes = nodes[nodes >= TABLE]
    return np.random.default_rng(12345).choice(nodes, count, replace=False)


def curve(data: Dataset, strategy: Acquisition, start: int) -> np.ndarray:
    """Accuracy on the nodes without a label, after each."""
    has_label = data.y >= 0
    learner = ActiveLearner(
        GraphGPClassifier(random_state=start),
        data.graph,
        strategy,
        data.y,
        initial=[start],
        candidates=has_label,
        classes=range(data.n_classes),
        random_state=start,
    )
    accuracies = []
    for step in learner.steps(N_LABELS):
        rest = np.flatnonzero(has_label & ~step.labelled)
        proba = step.model.predict_proba(data.graph, rest)
        accuracies.append(metrics.accuracy(data.y[rest], proba))
    return np.array(accuracies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="cora,citeseer")
    parser.add_argument("--strategies", default="hybrid,gp-vopt,gp-eer,sopt,vopt,margin,random")
    parser.add_argument("--starts", choices=("table", "other"), default="table")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=TABLE)
    parser.add_argument("--data-dir")
    args = parser.parse_args()
    print("data set  strategy   ALC +- error    after 5, 10, 20, 50 labels    seconds")
    for name in args.datasets.split(","):
        data = component_of(name, args.data_dir)
        chosen = starts(data, args.starts, args.first, args.count)
        for strategy in args.strategies.split(","):
            chooser, began = strategies()[strategy](), time.perf_counter()
            curves = np.array([curve(data, chooser, int(start)) for start in chosen])
            alc = np.array([area_under_learning_curve(one, "trapezoid") for one in curves])
            error = alc.std(ddof=1) / np.sqrt(len(alc)) if len(alc) > 1 else float("nan")
            at = "  ".join(f"{curves[:, n - 1].mean():.3f}" for n in (5, 10, 20, 50))
            print(
                f"{name:9} {strategy:9} {alc.mean():.4f} +- {error:.4f}   {at}   "
                f"{(time.perf_counter() - began) / len(alc):6.1f} a start",
                flush=True,
            )


if __name__ == "__main__":
    main()
