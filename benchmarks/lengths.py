"""How well random columns estimate the lengths of filtered rows, and what it does to predictions.

    python benchmarks/lengths.py [--datasets cora,citeseer,pubmed] [--splits 10]

The default model with 20 labels per class, on random splits without the public test nodes; exact
lengths against estimates by so many columns. Errors are of lengths of far neighbours' features,
over all nodes.
Citeseer and Pubmed are fetched, or read from NODEGP_DATA.
"""

from __future__ import annotations

import argparse
import warnings
from unittest.mock import patch

import numpy as np

import nodegp
from nodegp import metrics
from nodegp.datasets import Dataset
from nodegp.model.recipe import far_neighbours
from nodegp.prior import Domain
from nodegp_paper.datasets import random_split


def errors(domain: Domain, width: int) -> np.ndarray:
    """Relative errors of the lengths of far neighbours' features, at nodes that have any."""
    polynomial = far_neighbours(20).polynomial()
    exact = domain.squared_lengths(polynomial)
    estimate = (domain.sketches(polynomial, width).astype(float) ** 2).sum(axis=1)
    has_any = exact > 1e-9 * exact.mean()
    return np.abs(np.sqrt(estimate[has_any] / exact[has_any]) - 1.0)


def measure(data: Dataset, widths: list[int], n_splits: int) -> None:
    scores: dict[int, list[tuple[float, float]]] = {width: [] for width in widths}
    for seed in range(n_splits):
        split = random_split(data, 20, seed)
        y = np.full(data.graph.n_nodes, -1)
        y[split["train"]] = data.y[split["train"]]
        for width in widths:
            with patch("nodegp.prior.build.sketch_width", return_value=width):
                model = nodegp.GraphGPClassifier(random_state=0).fit(data.graph, y)
            proba = model.predict_proba(data.graph)[split["test"]]
            truth = data.y[split["test"]]
            found = 100 * metrics.accuracy(truth, proba), metrics.log_loss(truth, proba)
            scores[width].append(found)
    domain = model.model_.domain()
    exact = np.array(scores[0])
    for width in widths:
        values = np.array(scores[width])
        off = errors(domain, width) if width else np.zeros(1)
        gain = values - exact
        spread = gain.std(axis=0, ddof=1) / n_splits**0.5
        print(
            f"| {data.name} | {width or 'exact'} | {off.mean():.1%} | {off.max():.0%} "
            f"| {values[:, 0].mean():.2f} | {gain[:, 0].mean():+.2f} ± {spread[0]:.2f} "
            f"| {values[:, 1].mean():.4f} | {gain[:, 1].mean():+.4f} ± {spread[1]:.4f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--datasets", default="cora,citeseer,pubmed")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--widths", default="64,128,256")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data set | columns | mean error | worst | accuracy | change | log loss | change |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.datasets.split(","):
        widths = [0, *map(int, args.widths.split(","))]
        measure(nodegp.load_dataset(name), widths, args.splits)


if __name__ == "__main__":
    main()
