"""How much say a few columns should have beside a text: noise must not drown it, and what is worth
knowing must be heard.

    python benchmarks/sources.py [--splits 6] [--only cora,citeseer]

Beside the words of a citation graph stand one or five columns of noise, or one or four that tell of
the class. Weights of the two sources, as shares of the squared length, go with a power of their
numbers of columns. Random splits of 20 labels per class that leave the public test nodes out.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import scipy.sparse as sp

import nodegp
from nodegp.datasets import Dataset
from nodegp.graph import Graph
from nodegp.preprocessing import Preprocessor
from nodegp_paper.datasets import random_split

POWERS = {"alike": 0.0, "third root": 1 / 3, "square root": 1 / 2, "by columns": 1.0}


def beside(data: Dataset) -> dict[str, np.ndarray]:
    """Columns to set beside the words."""
    rng, n = np.random.default_rng(1), data.graph.n_nodes
    order = rng.permutation(data.n_classes)
    informative = [(data.y == c) + 0.5 * rng.normal(size=n) for c in range(min(4, data.n_classes))]
    return {
        "noise, 1 column": rng.normal(size=(n, 1)),
        "noise, 5 columns": rng.normal(size=(n, 5)),
        "class, 1 column": (order[data.y] + 0.7 * rng.normal(size=n))[:, None],
        "class, 4 columns": np.stack(informative, 1),
    }


def scores(data: Dataset, features: sp.csr_array, n_splits: int) -> tuple[float, float]:
    """Mean accuracy and log loss over the splits."""
    results, graph = [], Graph(data.graph.adjacency, features)
    for seed in range(n_splits):
        split = random_split(data, 20, seed)
        y = np.full(len(data.y), -1)
        y[split["train"]] = data.y[split["train"]]
        model = nodegp.GraphGPClassifier(preprocessing="raw", random_state=0).fit(graph, y)
        proba, truth = model.predict_proba(nodes=split["test"]), data.y[split["test"]]
        metrics = nodegp.metrics
        results.append((metrics.accuracy(truth, proba), metrics.log_loss(truth, proba)))
    accuracy, loss = np.mean(results, axis=0)
    return accuracy, loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--only", default="cora,citeseer")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.only.split(","):
        data = nodegp.load_dataset(name)
        raw, everyone = data.graph.features, np.arange(data.graph.n_nodes)
        words = Preprocessor.fit(raw, "sqrt-tfidf").transform(raw, everyone).values
        accuracy, loss = scores(data, words, args.splits)
        print(f"{name}, words alone: {accuracy:.1%}, log loss {loss:.3f}")
        for what, columns in beside(data).items():
            columns = (columns - columns.mean(0)) / columns.std(0)
            for rule, power in POWERS.items():
                sizes = np.array([words.shape[1], columns.shape[1]], float) ** power
                own, other = np.sqrt(sizes / sizes.sum())
                scaled = columns * other / np.sqrt(columns.shape[1])
                features = sp.csr_array(sp.hstack([words * own, sp.csr_array(scaled)]))
                accuracy, loss = scores(data, features, args.splits)
                print(f"  {what}, {rule}: {accuracy:.1%}, {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
