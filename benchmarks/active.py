"""Which strategy of active learning? From one label to fifty, on the largest component.

The measure is that of the paper's Table 3: ALC, the mean of the accuracies over all nodes still
unlabelled, after each label. Strategies are compared with one model, whose recipe is the same for
every data set and has nothing learnt but q. Choices among strategies were made on starts drawn at
random (--starts other); nodes 0 to 9 are the paper's (--starts table). Run:
python benchmarks/active.py [--starts other] [--count 10]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from nodegp import Graph, GraphGPClassifier, metrics
from nodegp.active import STRATEGIES, Acquisition, ActiveLearner
from nodegp.covariance import variance
from nodegp.datasets import Dataset
from nodegp.experiments.models import component_of
from nodegp.features import Preprocessor
from nodegp.filters import PageRank
from nodegp.kernels import Linear

N_LABELS = 50
VARIANCE = 0.3  # mean over all nodes; a small one trusts single labels less
TABLE = 10  # starts of the paper's table


def recipe(graph: Graph) -> GraphGPClassifier:
    """Linear on centred features carried far, with a small prior variance, and no bias.

    A bias would take the classes that a strategy happens to ask about for the frequent ones.
    """
    far = PageRank(0.1, fixed=("strength",))
    rows = Preprocessor.fit(graph.features, "auto", center=True).rows_of(
        graph.features, graph.n_nodes
    )
    size = float(variance(Linear(1.0), far.bags(graph, rows, np.arange(graph.n_nodes))).mean())
    kernel = Linear(VARIANCE / size, fixed=("variance",))
    return GraphGPClassifier(kernel, far, "softmax", center=True, calibrate=None)


def starts(data: Dataset, kind: str, count: int) -> np.ndarray:
    """The first nodes, or others at random."""
    if kind == "table":
        return np.arange(min(count, TABLE))
    others = np.flatnonzero(data.y >= 0)
    others = others[others >= TABLE]
    return np.random.default_rng(12345).choice(others, count, replace=False)


def curve(data: Dataset, model: GraphGPClassifier, strategy: Acquisition, start: int) -> np.ndarray:
    """Accuracy on the nodes without a label, after each."""
    known = data.y >= 0
    learner = ActiveLearner(
        model,
        data.graph,
        strategy,
        data.y,
        initial=[start],
        candidates=known,
        classes=range(data.n_classes),
        random_state=start,
    )
    found = []
    for step in learner.steps(N_LABELS):
        rest = np.flatnonzero(known & ~step.labelled)
        found.append(metrics.accuracy(data.y[rest], step.model.predict_proba(data.graph, rest)))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="cora,citeseer")
    parser.add_argument("--strategies", default="hybrid,gp-vopt,sopt,vopt,margin,random")
    parser.add_argument("--models", default="recipe", help="recipe, default (the preset), or both")
    parser.add_argument("--starts", choices=("table", "other"), default="table")
    parser.add_argument("--count", type=int, default=TABLE)
    parser.add_argument("--data-dir")
    args = parser.parse_args()
    print("data set  model    strategy   ALC +- error    after 5, 10, 20, 50 labels    seconds")
    for name in args.datasets.split(","):
        data = component_of(name, args.data_dir)
        for kind in args.models.split(","):
            model = recipe(data.graph) if kind == "recipe" else GraphGPClassifier(random_state=0)
            for strategy in args.strategies.split(","):
                chooser, began = STRATEGIES[strategy](), time.perf_counter()
                curves = np.array(
                    [
                        curve(data, model, chooser, int(start))
                        for start in starts(data, args.starts, args.count)
                    ]
                )
                alc = np.array([metrics.area_under_learning_curve(one) for one in curves])
                error = alc.std(ddof=1) / np.sqrt(len(alc)) if len(alc) > 1 else float("nan")
                at = "  ".join(f"{curves[:, n - 1].mean():.3f}" for n in (5, 10, 20, 50))
                print(
                    f"{name:9} {kind:8} {strategy:9} {alc.mean():.4f} +- {error:.4f}   {at}   "
                    f"{(time.perf_counter() - began) / len(alc):6.1f} a start",
                    flush=True,
                )


if __name__ == "__main__":
    main()
