"""A reliability diagram: accuracy against confidence."""

from __future__ import annotations

from typing import Any

from figures.svg import COLOURS, INK, PALE, SOFT, Frame, bar, circle, figure, line, path, text

SPLITS, PER_CLASS, BINS = 5, 20, 10
MODELS = {"nodegp": "nodegp", "GCN": "GCN, early stopping on 500 labels"}
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_FEWEST = 20  # nodes of a bin that is shown


def measure() -> dict[str, Any]:
    """Five random splits of Cora outside its public test nodes, pooled."""
    from dataclasses import replace

    import numpy as np

    import nodegp
    from nodegp_paper.baselines import GCN
    from nodegp_paper.datasets import random_split

    data = nodegp.load_dataset("cora")
    sure: dict[str, list[Any]] = {name: [] for name in MODELS}
    right: dict[str, list[Any]] = {name: [] for name in MODELS}
    for seed in range(SPLITS):
        split = replace(data, splits=random_split(data, PER_CLASS, seed, n_val=500))
        test, y = split.splits["test"], split.labels("train")
        ours = nodegp.GraphGPClassifier().fit(split.graph, y)
        theirs = GCN(random_state=seed).fit(split.graph, y, y_val=split.labels("val"))
        for name, model in (("nodegp", ours), ("GCN", theirs)):
            proba = model.predict_proba(split.graph)[test]
            sure[name].append(proba.max(1))
            right[name].append(proba.argmax(1) == split.y[test])
    result: dict[str, Any] = {"command": "python scripts/build_figures.py --measure reliability"}
    for name in MODELS:
        confidence, hit = np.concatenate(sure[name]), np.concatenate(right[name])
        place = np.minimum((confidence * BINS).astype(int), BINS - 1)
        result[name] = [
            [round(float(v), 3) for v in (confidence[place == b].mean(), hit[place == b].mean())]
            + [int((place == b).sum())]
            for b in range(BINS)
            if (place == b).sum() >= _FEWEST
        ]
    return result


def drawing(found: dict[str, Any]) -> str:
    width, height = 640, 420
    frame = Frame(70, 340, 280, 280, (0, 1), (0, 1))
    ticks = {value: f"{value:g}" for value in _TICKS}
    shapes = frame.axes(ticks, ticks, "confidence", "accuracy")
    shapes.append(line((*frame.at(0, 0), *frame.at(1, 1)), PALE, 1.5, "6 5"))
    names = [name for name in MODELS if name in found]
    for rank, name in reversed(list(enumerate(names))):
        points = [frame.at(x, y) for x, y, _ in found[name]]
        shapes.append(path(points, COLOURS[(0, 4)[rank]], 3.5 if rank == 0 else 2.5))
        shapes += [circle(x, y, 5, COLOURS[(0, 4)[rank]]) for x, y in points]
    total = sum(count for *_, count in found[names[0]])
    for row, words in enumerate(
        (
            "Cora, 20 labels per class,",
            f"{SPLITS} random splits, {total:,} test nodes",
        )
    ):
        shapes.append(text(380, 90 + 22 * row, words, 15, INK, "start"))
    for row, name in enumerate(names):
        y = 160 + 34 * row
        shapes.append(bar(380, y - 10, 24, 5, COLOURS[(0, 4)[row]]))
        for part, words in enumerate(MODELS[name].split(", ")):
            shapes.append(text(414, y - 3 + 20 * part, words, 15, SOFT, "start"))
    shapes += [
        line((380, 250, 404, 250), PALE, 1.5, "6 5"),
        text(414, 255, "perfect calibration", 15, SOFT, "start"),
        text(380, 292, "above the line: underconfident", 14, SOFT, "start"),
        text(380, 312, "below it: overconfident", 14, SOFT, "start"),
    ]
    alternative = (
        "Accuracy of predictions against the model's confidence, on Cora. nodegp "
        "follows the diagonal; a GCN without a temperature is right more often than it claims."
    )
    return figure(width, height, alternative, shapes)
