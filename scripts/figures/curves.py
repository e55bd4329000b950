"""Accuracy against labels per class on three graphs: nodegp beside a GCN, APPNP and LP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from figures.svg import COLOURS, SOFT, Frame, circle, figure, line, path, text

GRAPHS = {
    "cora": "Cora (homophily 0.81)",
    "polblogs": "Polblogs (0.91, no features)",
    "wisconsin": "Wisconsin (0.18)",
}
MODELS = {"nodegp": "nodegp", "APPNP": "APPNP", "GCN": "GCN", "LP": "label propagation"}
COMMAND = (
    "nodegp reproduce zoo-splits --datasets cora,polblogs,wisconsin "
    "--models nodegp,lp,gcn,appnp --seeds 5 --out curves"
)
_TICKS = (20, 40, 60, 80, 100)


def measure(runs: Path) -> dict[str, Any]:
    """Mean accuracies and their standard errors from the runs of the command."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for entry in map(json.loads, runs.read_text(encoding="utf-8").splitlines()):
        spec = entry["spec"]
        if spec["task"] == "zoo" and spec["model"] in MODELS and spec["dataset"] in GRAPHS:
            of_graph = found.setdefault(spec["dataset"], {}).setdefault(spec["model"], {})
            labels = str(spec["settings"]["per_class"])
            of_graph.setdefault(labels, []).append(100 * entry["metrics"]["accuracy"])
    curves = {
        graph: {
            model: {labels: _summary(values) for labels, values in sorted(by_labels.items())}
            for model, by_labels in sorted(models.items())
        }
        for graph, models in sorted(found.items())
    }
    counts = {len(v) for ms in found.values() for m in ms.values() for v in m.values()}
    return {"command": COMMAND, "splits": sorted(counts), "accuracy": curves}


def _summary(values: list[float]) -> list[float]:
    mean = sum(values) / len(values)
    spread = (sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)) ** 0.5
    return [round(mean, 2), round(spread / len(values) ** 0.5, 2)]


def drawing(found: dict[str, Any]) -> str:
    width, height = 980, 400
    shapes = [text(16, 28, "accuracy, %", 14, SOFT, "start")]
    for position, (graph, title) in enumerate(GRAPHS.items()):
        frame = Frame(60 + 310 * position, 300, 255, 225, (0, 21), (20, 100))
        shapes.append(text(frame.left + frame.width / 2, 54, title, 17, weight="bold"))
        shapes += frame.axes(
            {3: "3", 10: "10", 20: "20"}, {t: str(t) for t in _TICKS}, "labels per class"
        )
        for rank, model in reversed(list(enumerate(MODELS))):
            shapes += _curve(frame, found["accuracy"][graph][model], COLOURS[rank], rank == 0)
    x = 175.0
    for rank, name in enumerate(MODELS.values()):
        shapes += [
            line((x, 377, x + 30, 377), COLOURS[rank], 4.0 if rank == 0 else 2.5),
            circle(x + 15, 377, 5, COLOURS[rank]),
            text(x + 40, 382, name, 15, SOFT, "start"),
        ]
        x += 160
    alternative = (
        "Accuracy against 3, 10 and 20 labels per class on Cora, Polblogs and Wisconsin, for "
        "nodegp, APPNP, GCN and label propagation with the same labels."
    )
    return figure(width, height, alternative, shapes)


def _curve(frame: Frame, points: dict[str, list[float]], colour: str, is_ours: bool) -> list[str]:
    ordered = sorted((int(labels), *values) for labels, values in points.items())
    shapes = [path((frame.at(x, mean) for x, mean, _ in ordered), colour, 4.0 if is_ours else 2.5)]
    for x, mean, error in ordered:
        across, up = frame.at(x, mean)
        top, low = frame.at(x, mean + error)[1], frame.at(x, mean - error)[1]
        shapes += [line((across, top, across, low), colour, 2.0), circle(across, up, 5, colour)]
    return shapes
