"""Where should `inducing="auto"` switch from labelled nodes to points, and to how many?

Random labels of Pubmed, its public test nodes left out: seconds to fit (hyper-parameters learnt),
ELBO, accuracy and log loss on 3,000 other nodes. Run: python benchmarks/inducing.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import nodegp
from nodegp import metrics
from nodegp.inducing import Labelled, Points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", default="500,1000,2000")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data = nodegp.load_dataset("pubmed")
    pool = np.setdiff1d(np.arange(data.graph.n_nodes), data.splits["test"])
    choices = {
        "labelled": Labelled(),
        "100 points": Points(100, optimise=False),
        "300 points": Points(300, optimise=False),
        "300 points, optimised": Points(300),
        "600 points": Points(600, optimise=False),
    }
    print("labels  inducing, seconds, elbo, accuracy, log loss")
    for n_labels in map(int, args.labels.split(",")):
        shuffled = np.random.default_rng(args.seed).permutation(pool)
        train, test = shuffled[:n_labels], shuffled[n_labels : n_labels + 3000]
        y = np.full(data.graph.n_nodes, -1)
        y[train] = data.y[train]
        for name, inducing in choices.items():
            model = nodegp.GraphGPClassifier(
                recipe="paper", preprocessing="raw", inducing=inducing, random_state=0
            )
            started = time.perf_counter()
            model.fit(data.graph, y)
            seconds = time.perf_counter() - started
            proba = model.predict_proba(data.graph, test)
            print(
                f"{n_labels:6}  {name:22} {seconds:8.1f} {model.elbo_:9.1f} "
                f"{metrics.accuracy(data.y[test], proba):8.4f} "
                f"{metrics.log_loss(data.y[test], proba):8.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
