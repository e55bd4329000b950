"""How well random columns estimate the lengths of filtered rows, and what it does to predictions.

    python benchmarks/lengths.py [--datasets cora,citeseer,pubmed] [--splits 10]

Own features and far neighbours, with 20 labels per class, on random splits without the public test
nodes; exact lengths against estimates by so many columns. Errors are of lengths, over all nodes.
Citeseer and Pubmed are fetched, or read from NODEGP_DATA.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from unittest.mock import patch

import numpy as np

import nodegp
from nodegp import metrics
from nodegp.datasets import Dataset
from nodegp.filters import Identity, SumOfFilters
from nodegp.labels import Observations
from nodegp.model import Settings, fit_classifier
from nodegp.model.recipe import DEFAULT, default_kernel, far_neighbours
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain, FilteredFeatures, Prior, SumPrior
from nodegp_paper.datasets import random_split

SETTINGS = Settings(random_state=0)


def errors(domain: Domain, prior: Prior, width: int) -> np.ndarray:
    """Relative errors of the lengths of the last part's rows, at nodes that have any."""
    part = prior.parts[-1] if isinstance(prior, SumPrior) else prior
    assert isinstance(part, FilteredFeatures)
    exact = domain.squared_lengths(part.filter.polynomial())
    estimate = (domain.sketches(part.filter.polynomial(), width).astype(float) ** 2).sum(axis=1)
    has_any = exact > 1e-9 * exact.mean()
    return np.abs(np.sqrt(estimate[has_any] / exact[has_any]) - 1.0)


def measure(data: Dataset, widths: list[int], n_splits: int) -> None:
    kind = "sqrt" if data.name == "pubmed" else "sqrt-tfidf"
    domain = Domain(data.graph, Preprocessor.fit(data.graph.features, kind, center=True))
    both = SumOfFilters((Identity(), far_neighbours(20)))
    kernel = default_kernel(both, data.graph, is_learnt=False)
    first = replace(DEFAULT, filter=both, kernel=kernel)
    everyone = np.arange(domain.n_nodes)
    scores: dict[int, list[tuple[float, float]]] = {width: [] for width in widths}
    for seed in range(n_splits):
        split = random_split(data, 20, seed)
        train, test = np.sort(split["train"]), split["test"]
        labels = Observations(train, data.y[train], np.ones(len(train)))
        for width in widths:
            with patch("nodegp.prior.build.sketch_width", return_value=width):
                model = fit_classifier(domain, labels, first, SETTINGS)
            proba = model.predict_proba(domain, everyone)[test]
            truth = data.y[test]
            found = 100 * metrics.accuracy(truth, proba), metrics.log_loss(truth, proba)
            scores[width].append(found)
    exact = np.array(scores[0])
    for width in widths:
        values = np.array(scores[width])
        off = errors(domain, first.prior(domain), width) if width else np.zeros(1)
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
