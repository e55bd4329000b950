"""Should `calibrate=True` be the default? Random splits that leave the public test nodes out.

For each data set and number of labels per class: accuracy, log loss, Brier score and calibration
error with and without the leave-one-out temperature, means over paired splits with the standard
error of the paired difference. Run: python benchmarks/calibration.py [--splits 20]
"""

from __future__ import annotations

import argparse

import numpy as np

import nodegp
from nodegp import metrics
from nodegp.datasets import Dataset
from nodegp.model.calibration import fit_temperatures, tempered
from nodegp_paper.datasets import random_split


def compare(data: Dataset, per_class: int, n_splits: int, likelihood: str) -> list[str]:
    """One table row per metric: plain, tempered, difference and its standard error."""
    features = "raw" if data.name == "pubmed" else "auto"
    rows, temperatures = [], []
    for seed in range(n_splits):
        split = random_split(data, per_class, seed)
        y = np.full(data.graph.n_nodes, -1)
        y[split["train"]] = data.y[split["train"]]
        model = nodegp.GraphGPClassifier(
            recipe="paper",
            likelihood=likelihood,
            preprocessing=features,
            calibrate=False,
            random_state=seed,
        ).fit(data.graph, y)
        plain = model.predict_proba(data.graph, split["test"])
        labels = data.y[model.labelled_]
        sure = np.ones(len(labels))
        temperature = fit_temperatures(model.loo_proba_[None], labels, sure).by_all
        temperatures.append(temperature)
        truth = data.y[split["test"]]
        rows.append([_scores(truth, p) for p in (plain, tempered(plain, temperature))])
    scores = np.array(rows)  # (splits, 2, metrics)
    lines = []
    for i, name in enumerate(("accuracy", "log loss", "Brier", "calibration error")):
        before, after = scores[:, 0, i], scores[:, 1, i]
        error = (after - before).std(ddof=1) / np.sqrt(n_splits)
        lines.append(
            f"{data.name:9} {per_class:3} {likelihood:9} {name:18} {before.mean():.4f} "
            f"{after.mean():.4f} {(after - before).mean():+.4f} +- {error:.4f}"
        )
    lines.append(f"{'':24}temperature {np.mean(temperatures):.2f} ({n_splits} splits)")
    return lines


def _scores(y: np.ndarray, proba: np.ndarray) -> list[float]:
    return [
        metrics.accuracy(y, proba),
        metrics.log_loss(y, proba),
        metrics.brier(y, proba),
        metrics.expected_calibration_error(y, proba),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--datasets", default="cora,citeseer,pubmed")
    parser.add_argument("--per-class", default="5,20")
    parser.add_argument("--likelihoods", default="robustmax,softmax")
    args = parser.parse_args()
    print("data set  per class likelihood metric, plain, tempered, difference +- standard error")
    for name in args.datasets.split(","):
        data = nodegp.load_dataset(name)
        for per_class in map(int, args.per_class.split(",")):
            for likelihood in args.likelihoods.split(","):
                for line in compare(data, per_class, args.splits, likelihood):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
