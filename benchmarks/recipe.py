"""What the default recipe was chosen by: random splits that leave the public test nodes out.

    python benchmarks/recipe.py variants --splits 6
    python benchmarks/recipe.py criteria --splits 6

`variants` changes one part of the recipe at a time. `criteria` fits a list of filters to the same
labels and asks by which number to choose among them without a validation set. Citeseer and Pubmed
are fetched, or read from NODEGP_DATA.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import nodegp
from nodegp import metrics
from nodegp.datasets import Dataset
from nodegp.filters import (
    Diffusion,
    Filter,
    Identity,
    PageRank,
    Propagation,
    RegularisedLaplacian,
    SumOfFilters,
)
from nodegp.kernels import Constant, Cosine, Kernel, Linear
from nodegp.model.recipe import (
    bias_variance,
    default_kernel,
    far_neighbours,
    prior_variance,
    teleport,
)
from nodegp_paper.datasets import random_split

PER_CLASS = (1, 3, 10, 20)
Model = nodegp.GraphGPClassifier


def far(share: float, hub_discount: float = 0.5) -> PageRank:
    return PageRank(share, hub_discount=hub_discount, fixed=("strength",))


def recipe(filter: Filter, data: Dataset, per_class: int, **settings: object) -> Model:
    variances_ = prior_variance(per_class), bias_variance(per_class)
    kernel = default_kernel(filter, data.graph, False, *variances_)
    return Model(filter=filter, random_state=0, **({"kernel": kernel} | settings))


def usual(data: Dataset, per_class: int, **settings: object) -> Model:
    return recipe(
        SumOfFilters((Identity(), far_neighbours(per_class))), data, per_class, **settings
    )


def variances(of_features: float, of_bias: float, own_share: float = 0.15) -> tuple[Kernel, ...]:
    """The usual kernel with others."""
    shares = own_share, 1.0 - own_share
    own, other = (Cosine(share * of_features, fixed=("variance",)) for share in shares)
    bias = Constant(of_bias, fixed=("variance",))
    return own + bias, other


VARIANTS: dict[str, Callable[[Dataset, int], Model]] = {
    "the recipe": usual,
    "selection as well": lambda data, n: Model(random_state=0),
    "hyper-parameters learnt": lambda data, n: usual(data, n, kernel=None),
    "without own features": lambda data, n: recipe(far(teleport(n)), data, n),
    "teleport 0.05": lambda data, n: recipe(SumOfFilters((Identity(), far(0.05))), data, n),
    "teleport 0.1": lambda data, n: recipe(SumOfFilters((Identity(), far(0.1))), data, n),
    "teleport 0.2": lambda data, n: recipe(SumOfFilters((Identity(), far(0.2))), data, n),
    "hubs not discounted": lambda data, n: recipe(
        SumOfFilters((Identity(), far(teleport(n), 0.0))), data, n
    ),
    "variance 1": lambda data, n: usual(data, n, kernel=variances(1.0, bias_variance(n) / 2)),
    "variance 4": lambda data, n: usual(data, n, kernel=variances(4.0, 2 * bias_variance(n))),
    "bias always 0.6": lambda data, n: usual(data, n, kernel=variances(1.75, 0.6)),
    "bias always 0.01": lambda data, n: usual(data, n, kernel=variances(1.75, 0.01)),
    "features without roots": lambda data, n: usual(
        data, n, preprocessing="l2" if data.name == "pubmed" else "tfidf"
    ),
    "not centred": lambda data, n: usual(data, n, preprocessing=nodegp.Preprocessing(center=False)),
    "rows as long as they are": lambda data, n: recipe(
        far(teleport(n)), data, n, kernel=Linear(50.0) + Constant(1.0)
    ),
    "robust-max": lambda data, n: usual(data, n, likelihood="robustmax"),
    "no temperature": lambda data, n: usual(data, n, calibrate=False),
    "paper": lambda data, n: Model(
        recipe="paper", preprocessing="raw" if data.name == "pubmed" else "auto", random_state=0
    ),
}

FILTERS: dict[str, Filter] = {
    "own features and teleport 0.05": SumOfFilters((Identity(), far(0.05))),
    "own features and teleport 0.1": SumOfFilters((Identity(), far(0.1))),
    "own features and teleport 0.2": SumOfFilters((Identity(), far(0.2))),
    "teleport 0.05": far(0.05),
    "teleport 0.1": far(0.1),
    "features alone": Identity(),
    "own features and two hops": SumOfFilters(
        (Identity(), Propagation(1, self_loops=False), Propagation(2, self_loops=False))
    ),
    "diffusion": Diffusion(5.0, fixed=("time",)),
    "regularised Laplacian": RegularisedLaplacian(10.0, fixed=("scale",)),
}


def splits(data: Dataset, per_class: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Labels to fit to and nodes to score on."""
    for seed in range(count):
        split = random_split(data, per_class, seed)
        y = np.full(data.graph.n_nodes, -1)
        y[split["train"]] = data.y[split["train"]]
        yield y, split["test"]


def variants(data: Dataset, count: int) -> None:
    """A row for each variant: accuracy and log loss, with standard errors."""
    for name, build in VARIANTS.items():
        cells = []
        for per_class in PER_CLASS:
            scores = []
            for y, test in splits(data, per_class, count):
                proba = build(data, per_class).fit(data.graph, y).predict_proba(data.graph, test)
                truth = data.y[test]
                scores.append(
                    [100 * metrics.accuracy(truth, proba), metrics.log_loss(truth, proba)]
                )
            mean = np.mean(scores, axis=0)
            error = np.std(scores, axis=0, ddof=1) / count**0.5
            cells.append(f"{mean[0]:.1f} ± {error[0]:.1f}, {mean[1]:.3f}")
        print(f"| {data.name} | {name} | " + " | ".join(cells) + " |", flush=True)


def criteria(data: Dataset, count: int) -> None:
    """For each way to choose: accuracy, log loss, and how often within a point of the best."""
    for per_class in PER_CLASS[1:]:
        results = []
        for y, test in splits(data, per_class, count):
            row = []
            for filter in FILTERS.values():
                model = recipe(filter, data, per_class).fit(data.graph, y)
                proba, truth = model.predict_proba(data.graph, test), data.y[test]
                accuracy = 100 * metrics.accuracy(truth, proba)
                row.append((model, accuracy, metrics.log_loss(truth, proba)))
            results.append(row)
        for name, choose in CRITERIA.items():
            picked = [row[choose([model for model, *_ in row])] for row in results]
            best = [max(accuracy for _, accuracy, _ in row) for row in results]
            close = np.mean([a >= b - 1.0 for (_, a, _), b in zip(picked, best, strict=True)])
            accuracy, loss = (np.mean([pick[j] for pick in picked]) for j in (1, 2))
            print(
                f"| {data.name} | {per_class} | {name} | {accuracy:.1f} | {loss:.3f} "
                f"| {close:.0%} |",
                flush=True,
            )


def loo_gain(models: list[Model], standard_errors: float) -> int:
    """The best leave-one-out log loss among those that beat the first by so many errors."""
    scores = [model.model_.label_scores() for model in models]
    differences = np.array([score - scores[0] for score in scores])
    gains = differences.mean(axis=1)
    errors = differences.std(axis=1, ddof=1) / differences.shape[1] ** 0.5
    return int(np.where(gains > standard_errors * errors, gains, 0.0).argmax())


CRITERIA: dict[str, Callable[[list[Model]], int]] = {
    "always the first": lambda models: 0,
    "ELBO": lambda models: int(np.argmax([model.elbo_ for model in models])),
    "leave-one-out": lambda models: loo_gain(models, 0.0),
    "leave-one-out, one standard error": lambda models: loo_gain(models, 1.0),
    "leave-one-out, two standard errors": lambda models: loo_gain(models, 2.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["variants", "criteria"])
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--datasets", default="cora,citeseer,pubmed")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.datasets.split(","):
        {"variants": variants, "criteria": criteria}[args.what](
            nodegp.load_dataset(name), args.splits
        )


if __name__ == "__main__":
    main()
