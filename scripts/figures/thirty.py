"""The model in pictures, on a graph of thirty nodes: filter, prior, posterior."""

from __future__ import annotations

from typing import Any

from figures.svg import CARD, COLOURS, GRID, INK, PALE, SOFT, circle, figure, line, mixed, text

N_NODES, N_GROUPS = 30, 3
SEED = 39
SHOWN = 0  # the node that the first two figures look from
LABELLED = (2, 7, 12, 17, 22, 27)
_PANEL, _MARGIN, _TOP = 420, 30, 64
POSITIVE, NEGATIVE = COLOURS[0], COLOURS[4]


def measure() -> dict[str, Any]:
    """Three groups of ten nodes, with features and edges that mostly agree with them."""
    import networkx
    import numpy as np
    import torch

    import nodegp
    from nodegp.filters import Identity, NeighbourMean, PageRank
    from nodegp.kernels import Cosine
    from nodegp.preprocessing import Preprocessor
    from nodegp.prior import Domain, make_prior

    rng = np.random.default_rng(SEED)
    group = np.repeat(np.arange(N_GROUPS), N_NODES // N_GROUPS)
    alike = group[:, None] == group[None, :]
    drawn = np.triu(rng.random((N_NODES, N_NODES)) < np.where(alike, 0.28, 0.03), 1)
    features = np.eye(N_GROUPS)[group] + 0.7 * rng.standard_normal((N_NODES, N_GROUPS))
    features -= features.mean(axis=0)  # as the default does
    graph = nodegp.Graph((drawn | drawn.T).astype(float), features)
    far = PageRank(0.085, order=7, fixed=("strength",))
    every = np.arange(N_NODES)
    domain = Domain(graph, Preprocessor.fit(features, "raw", n_nodes=N_NODES))

    def row(filter: Any) -> list[float]:
        weights = filter.weights(graph, np.array([SHOWN]))
        return np.round(weights.toarray()[0] / weights.sum(), 4).tolist()

    def correlations(filter: Any) -> list[float]:
        prior = make_prior(filter, Cosine(1.0), domain)
        with torch.no_grad():
            found = prior.cov(prior.at(domain, np.array([SHOWN])), prior.at(domain, every))
        return np.round(found[0].numpy(), 3).tolist()

    y = np.full(N_NODES, -1)
    y[list(LABELLED)] = group[list(LABELLED)]
    model = nodegp.GraphGPClassifier(filter=far).fit(graph, y)
    proba = model.predict_proba(graph)
    entropy, information = model.predict_information(graph)
    xy = np.array(list(networkx.spring_layout(graph.to_networkx(), seed=5, k=0.42).values()))
    pairs = graph.adjacency.tocoo()
    return {
        "command": "python scripts/build_figures.py --measure thirty",
        "places": np.round((xy - xy.min(0)) / (xy.max(0) - xy.min(0)), 3).tolist(),
        "edges": [[int(i), int(j)] for i, j in zip(pairs.row, pairs.col, strict=True) if i < j],
        "group": group.tolist(),
        "mean": row(NeighbourMean()),
        "pagerank": row(far),
        "features alone": correlations(Identity()),
        "filtered": correlations(far),
        "predicted": proba.argmax(1).tolist(),
        "probability": np.round(proba.max(1), 3).tolist(),
        "entropy": np.round(entropy, 3).tolist(),
        "information": np.round(information, 3).tolist(),
        "right": int((proba.argmax(1) == group).sum()),
    }


def filter_drawing(found: dict[str, Any]) -> str:
    """What a node's row is made of."""
    return _two(
        found,
        ("paper: mean over one hop", _weights(found["mean"])),
        ("default: personalised PageRank", _weights(found["pagerank"])),
        "size and colour: weight in the filtered features of the outlined node",
        "A graph of thirty nodes, twice, seen from one of them. Left, only its neighbours count, "
        "all alike; right, all nodes in reach count, near ones more.",
    )


def prior_drawing(found: dict[str, Any]) -> str:
    """Which nodes are believed to be alike, before any label."""
    return _two(
        found,
        ("features alone", _correlations(found["features alone"])),
        ("filtered features", _correlations(found["filtered"])),
        "prior correlation with the outlined node: blue positive, orange negative",
        "The same graph, twice, in colours of prior correlation with one node. Left, by features "
        "alone, they are scattered; right, after the filter, they follow the groups.",
    )


def posterior_drawing(found: dict[str, Any]) -> str:
    """What six labels make of it."""
    proba, classes = [], []
    for node in range(N_NODES):
        sure = (found["probability"][node] - 1 / N_GROUPS) * N_GROUPS / (N_GROUPS - 1)
        colour = COLOURS[(0, 1, 2)[found["predicted"][node]]]
        outline = INK if node in LABELLED else PALE
        classes.append((mixed(CARD, colour, 0.15 + 0.85 * sure), 13.0, outline))
    most = max(found["information"])
    for node in range(N_NODES):
        share = found["information"][node] / most
        outline = INK if node in LABELLED else PALE
        proba.append((mixed(CARD, COLOURS[3], share), 6.0 + 9.0 * share, outline))
    return _two(
        found,
        ("most probable class (pale: uncertain)", classes),
        ("epistemic uncertainty", proba),
        "dark outline: labelled node; right: larger and darker means more uncertain",
        "The same graph after six labels. Left, every node has the colour of its likeliest class; "
        "right, nodes far from labels and between groups have the largest epistemic uncertainty.",
    )


Mark = tuple[str, float, str]  # fill, radius, outline


def _weights(row: list[float]) -> list[Mark]:
    most = max(row)
    return [
        (mixed(CARD, POSITIVE, (w / most) ** 0.5), 6.0 + 10.0 * (w / most) ** 0.5, _edge(node))
        for node, w in enumerate(row)
    ]


def _correlations(row: list[float]) -> list[Mark]:
    return [
        (mixed(CARD, POSITIVE if c > 0 else NEGATIVE, min(abs(c), 1.0)), 12.0, _edge(node))
        for node, c in enumerate(row)
    ]


def _edge(node: int) -> str:
    return INK if node == SHOWN else PALE


def _two(
    found: dict[str, Any],
    left: tuple[str, list[Mark]],
    right: tuple[str, list[Mark]],
    said: str,
    alternative: str,
) -> str:
    width, height = 2 * _PANEL + 3 * _MARGIN, _PANEL + _TOP + 30
    shapes = []
    for position, (title, marks) in enumerate((left, right)):
        x0 = _MARGIN + position * (_PANEL + _MARGIN)
        shapes.append(text(x0 + _PANEL / 2, 34, title, 18, weight="bold"))
        shapes += _panel(found, x0, marks)
    shapes.append(line((width / 2, 60, width / 2, height - 50), GRID, 1.5))
    shapes.append(text(width / 2, height - 16, said, 15, SOFT))
    return figure(width, height, alternative, shapes)


def _panel(found: dict[str, Any], x0: float, marks: list[Mark]) -> list[str]:
    room = _PANEL - 40
    places = [(x0 + 20 + room * x, _TOP + (room - 20) * y) for x, y in found["places"]]
    shapes = [line((*places[a], *places[b]), "#b9c4ca", 1.5) for a, b in found["edges"]]
    for (x, y), (fill, radius, outline) in zip(places, marks, strict=True):
        shapes.append(circle(x, y, radius, fill, outline, 3.0 if outline == INK else 1.5))
    return shapes
