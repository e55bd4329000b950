"""What the default's views and their weights were chosen by, on twelve graphs.

    python benchmarks/views.py --splits 4
    python benchmarks/views.py --splits 4 --graphs cora,chameleon --only "the default,no weighing"
    python benchmarks/views.py --at-random --only "the default,no factors of classes"

One thing at a time is changed in the default: a view is left out, or a number. Labels per class are
min(k, half the class) for k = 3, 10, 20, and never public test nodes; as many drawn from all nodes
with ``--at-random``. The nine graphs that are
not Planetoid's are read from a folder `zoo` beside NODEGP_DATA (docs/zoo.md).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import nodegp
from nodegp import metrics
from nodegp.model import calibration, classifier, frequencies, selection, views, weighing
from nodegp_paper.datasets import capped_split, without_small_classes
from nodegp_paper.experiments.tasks.zoo import GRAPHS

PER_CLASS = (3, 10, 20)
Change = Callable[[], object]


@contextmanager
def changed(module: object, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def without(*names: str) -> object:
    """The default without some of its views."""

    def fewer(domain: object, per_class: float) -> list[views.Candidate]:
        every = views.candidates(domain, per_class)  # type: ignore[arg-type]
        return [look for look in every if look.view.name not in names] or every

    return changed(selection, "candidates", fewer)


def only(name: str) -> object:
    def one(domain: object, per_class: float) -> list[views.Candidate]:
        every = views.candidates(domain, per_class)  # type: ignore[arg-type]
        return [look for look in every if look.view.name == name] or every[:1]

    return changed(selection, "candidates", one)


def unadjusted(
    shown: np.ndarray, said: np.ndarray, y: np.ndarray, confidence: np.ndarray
) -> np.ndarray:
    labelled = np.bincount(y, confidence, len(shown))
    return labelled / labelled.sum()


def no_factors(said: np.ndarray, y: np.ndarray, *_: object) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(said.shape[2]), np.ones(said.shape[1:])


def near_one(proba: np.ndarray) -> calibration.TemperaturePrior:
    return calibration.TemperaturePrior(0.0, 1.0)


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


VARIANTS: dict[str, Change] = {
    "the default": as_it_is,
    "no weighing": lambda: changed(weighing, "_POWER", 1e-9),
    "weighing at full power": lambda: changed(weighing, "_POWER", 1.0),
    "one amplitude": lambda: changed(weighing, "AMPLITUDES", (1.0, 1.0)),
    "labels' own class shares": lambda: changed(classifier, "class_shares", unadjusted),
    "no factors of classes": lambda: changed(classifier, "class_factors", no_factors),
    "temperature near one": lambda: changed(classifier, "usual_temperature", near_one),
    "wider factors of classes": lambda: changed(frequencies, "_STRAYS", 0.25),
    "labels' own class shares count twice": lambda: changed(frequencies, "_OWN_SHARES_COUNT", 30.0),
    "usual temperature higher": lambda: changed(calibration, "_BELOW", 0.64),
    "no far neighbours": lambda: without("far neighbours", "far links"),
    "no neighbours' neighbours": lambda: without("neighbours' neighbours"),
    "no links in common": lambda: without("links in common"),
    "no nodes alike": lambda: without("nodes alike"),
    "no neighbours and nodes alike": lambda: without("neighbours and nodes alike"),
    "weights from 0.1": lambda: changed(views, "_SMALLEST", 0.1),
    "weights from 0.15": lambda: changed(views, "_SMALLEST", 0.15),
    "weights from 0.2": lambda: changed(views, "_SMALLEST", 0.2),
    "weights from 0.3": lambda: changed(views, "_SMALLEST", 0.3),
    "own features only": lambda: only("own features"),
    "far neighbours only": lambda: only("far neighbours"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first split")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--only", default=",".join(VARIANTS))
    parser.add_argument("--at-random", action="store_true", help="draw labels from all nodes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [name for name in VARIANTS if name in options.only.split(",")]
    results = {name: [] for name in names}
    seeds = range(options.first, options.first + options.splits)
    for graph in options.graphs.split(","):
        data = without_small_classes(nodegp.load_dataset(graph))
        for per_class in PER_CLASS:
            for name in names:
                with VARIANTS[name]():  # type: ignore[attr-defined]
                    rows = [score(data, per_class, seed, options.at_random) for seed in seeds]
                results[name].append(np.mean(rows, axis=0))
        print(f"# {graph} done", flush=True)
    print("| variant | accuracy at 3, 10, 20 | log loss | worst loss of accuracy |")
    print("|---|---|---|---|")
    first = np.array(results[names[0]])
    for name in names:
        found = np.array(results[name])
        by_k = [found[k :: len(PER_CLASS)].mean(axis=0) for k in range(len(PER_CLASS))]
        accuracy = ", ".join(f"{100 * part[0]:.2f}" for part in by_k)
        loss = ", ".join(f"{part[1]:.4f}" for part in by_k)
        worst = 100 * (first[:, 0] - found[:, 0])
        case = int(worst.argmax())
        graph = options.graphs.split(",")[case // len(PER_CLASS)]
        where = f"{worst[case]:.1f} ({graph}, {PER_CLASS[case % len(PER_CLASS)]})"
        print(f"| {name} | {accuracy} | {loss} | {'' if name == names[0] else where} |")


def score(
    data: nodegp.datasets.Dataset, per_class: int, seed: int, at_random: bool = False
) -> tuple[float, float]:
    nodes = capped_split(data, per_class, seed)
    train, test = nodes["train"], nodes["test"]
    if at_random:
        every = np.random.default_rng(seed).permutation(np.concatenate([train, test]))
        train, test = every[: len(train)], every[len(train) :]
    y = np.full(data.graph.n_nodes, -1)
    y[train] = data.y[train]
    classes = np.arange(data.n_classes)
    model = nodegp.GraphGPClassifier().fit(data.graph, y, classes=classes)
    proba, truth = model.predict_proba(nodes=test), data.y[test]
    return metrics.accuracy(truth, proba), metrics.log_loss(truth, proba)


if __name__ == "__main__":
    main()
