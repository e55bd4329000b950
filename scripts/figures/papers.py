"""The made-up papers of `nodegp example` as a map: before and after 20 labels, and what to ask."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from figures.svg import CARD, COLOURS, INK, NOTHING, PALE, SOFT, circle, figure, line, mixed, text

N_LABELS = 20
_SIDE, _MARGIN = 400, 30


def measure() -> dict[str, Any]:
    """Fit the papers with 20 labels, and place them on a map."""
    import csv

    import networkx
    import numpy as np

    import nodegp
    from nodegp.active import suggest
    from nodegp.app.example import write_example
    from nodegp.io import TableSource, read_tables

    with tempfile.TemporaryDirectory() as folder:
        nodes, edges, answers, _ = write_example(Path(folder))
        source = TableSource(nodes, edges, id="paper", label="topic", text=["title"])
        graph = read_tables(source).graph
        with Path(answers).open(newline="", encoding="utf-8") as file:
            topics = {row["paper"]: row["topic"] for row in csv.DictReader(file)}
    truth = np.array([topics[str(id)] for id in graph.ids])
    asked = suggest(graph, N_LABELS, "sopt").nodes
    y = np.full(graph.n_nodes, None, object)
    y[asked] = truth[asked]
    model = nodegp.GraphGPClassifier().fit(graph, y)
    proba, classes = model.predict_proba(graph), model.classes_.tolist()
    rest = np.setdiff1d(np.arange(graph.n_nodes), asked)
    next_asked = suggest(graph, 10, "hybrid", y=y, model=model).nodes
    places = networkx.spring_layout(graph.to_networkx(), k=0.105, iterations=200, seed=4)
    xy = np.array([places[id] for id in graph.ids])
    xy -= np.median(xy, axis=0)
    xy *= (np.linalg.norm(xy, axis=1, keepdims=True) + 1e-9) ** -0.35  # room in the middle
    pairs = graph.adjacency.tocoo()
    return {
        "command": "python scripts/build_figures.py --measure papers",
        "classes": classes,
        "places": np.round((xy - xy.min(0)) / (xy.max(0) - xy.min(0)), 3).tolist(),
        "edges": [[int(i), int(j)] for i, j in zip(pairs.row, pairs.col, strict=True) if i < j],
        "asked": sorted(map(int, asked)),
        "next": sorted(map(int, next_asked)),
        "predicted": proba.argmax(1).tolist(),
        "probability": np.round(proba.max(1), 2).tolist(),
        "right": round(float(np.mean(model.classes_[proba.argmax(1)][rest] == truth[rest])), 3),
    }


def before_and_after(found: dict[str, Any]) -> str:
    """The hero of the README: 20 labels, then every node."""
    width, height = 2 * _SIDE + 3 * _MARGIN, _SIDE + 125
    left, right = _MARGIN, 2 * _MARGIN + _SIDE
    said = (
        f"after: {100 * found['right']:.0f} % of the other {len(found['places']) - N_LABELS} right"
    )
    shapes = [
        text(left + _SIDE / 2, 34, f"before: {N_LABELS} labels", 19, weight="bold"),
        text(right + _SIDE / 2, 34, said, 19, weight="bold"),
        *_map(found, left, _labels(found)),
        *_map(found, right, _predictions(found)),
        *_legend(found["classes"], width, height - 22, "pale: uncertain"),
    ]
    alternative = (
        f"A graph of 300 papers, drawn twice. Left, {N_LABELS} of them have the colour of their "
        "topic and the others are grey; right, all have the colour of the topic predicted."
    )
    return figure(width, height, alternative, shapes)


def questions(found: dict[str, Any]) -> str:
    """Which nodes are worth asking about next."""
    width, height = _SIDE + 280, _SIDE + 60
    marks = _predictions(found)
    for node in found["next"]:
        fill, radius, _, _, opacity = marks[node]
        marks[node] = (fill, radius + 3, INK, 3.0, opacity)
    shapes = _map(found, _MARGIN, marks, 28)
    x = _SIDE + 2 * _MARGIN
    for row, name in enumerate(found["classes"]):
        shapes += [circle(x, 150 + 30 * row, 8, COLOURS[row]), _said(x, 150 + 30 * row, name)]
    for row, (fill, outline, wide, words) in enumerate(
        ((SOFT, INK, 1.5, "labelled"), (CARD, INK, 3.0, "next question"))
    ):
        y = 150 + 30 * (len(found["classes"]) + row + 0.5)
        shapes += [circle(x, y, 8, fill, outline, wide), _said(x, y, words)]
    alternative = (
        "The graph of 300 papers in the colours of their predicted topics. Ten nodes with a thick "
        "outline, spread over the graph and mostly pale, are the ones to ask about next."
    )
    return figure(width, height, alternative, shapes)


Mark = tuple[str, float, str, float, float]  # fill, radius, outline, its width, opacity


def _labels(found: dict[str, Any]) -> list[Mark]:
    marks: list[Mark] = [(NOTHING, 4.5, "none", 1.0, 1.0)] * len(found["places"])
    for node in found["asked"]:
        marks[node] = (COLOURS[found["predicted"][node]], 8.0, INK, 1.5, 1.0)
    return marks


def _predictions(found: dict[str, Any]) -> list[Mark]:
    chance = 1.0 / len(found["classes"])
    marks: list[Mark] = []
    for best, probability in zip(found["predicted"], found["probability"], strict=True):
        sure = max(probability - chance, 0.0) / (1.0 - chance)
        marks.append((COLOURS[best], 5.0, "none", 1.0, 0.15 + 0.85 * sure))
    for node in found["asked"]:
        marks[node] = (COLOURS[found["predicted"][node]], 8.0, INK, 1.5, 1.0)
    return marks


def _map(found: dict[str, Any], left: float, marks: list[Mark], top: float = 58) -> list[str]:
    places = [(left + 8 + (_SIDE - 16) * x, top + (_SIDE - 16) * y) for x, y in found["places"]]
    shapes = [line((*places[a], *places[b]), "#dbe2e6", 0.8) for a, b in found["edges"]]
    order = sorted(range(len(places)), key=lambda node: marks[node][1])  # large ones on top
    for node in order:
        fill, radius, outline, wide, opacity = marks[node]
        (x, y), edge = places[node], outline
        if edge == "none" and opacity < 0.5:
            edge = PALE
        shapes.append(circle(x, y, radius, mixed(CARD, fill, opacity), edge, wide))
    return shapes


def _legend(names: list[str], width: float, y: float, more: str) -> list[str]:
    step = 140
    x = (width - step * len(names) - 190) / 2 + 10
    shapes = []
    for colour, name in zip(COLOURS, names, strict=False):
        shapes += [circle(x, y - 5, 8, colour), _said(x, y - 5, name)]
        x += step
    return [*shapes, text(x, y, more, 15, SOFT, "start")]


def _said(x: float, y: float, words: str) -> str:
    return text(x + 16, y + 5, words, 15, SOFT, "start")
