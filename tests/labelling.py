"""What the tests of labelling share: a small graph to label, and commands with ids of their own."""

from __future__ import annotations

import itertools

import numpy as np

from nodegp import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.label.opening import Subject
from nodegp.label.session import Session

CLASSES = ["left", "right"]
_numbers = itertools.count()


def two_groups(n: int = 24, **changes) -> Subject:
    """Two rings of nodes, a bridge between them, and titles; node n // 2 begins the second."""
    half = n // 2
    ring = [(i, (i + 1) % half) for i in range(half)]
    edges = np.array([*ring, *((a + half, b + half) for a, b in ring), (0, half)])
    features = np.repeat(np.eye(2), half, axis=0) + 0.3 * np.random.default_rng(0).random((n, 2))
    graph = Graph.from_edges(edges, n_nodes=n, features=features)
    rings = ["first"] * half + ["second"] * half
    shown = {
        "title": np.array([f"node {i} of the {ring}" for i, ring in enumerate(rings)], object),
        "size": np.array([str(i) for i in range(n)], object),
    }
    parts = {"shown": shown, "ids": np.array([f"n{i}" for i in range(n)]), **changes}
    ids = parts.pop("ids")
    return Subject(graph, ids, list(CLASSES), GraphGPClassifier(random_state=0), **parts)


def truth(node: int, n: int = 24) -> str:
    return CLASSES[node >= n // 2]


def open_session(path, subject: Subject | None = None, **settings) -> Session:
    settings = {"random_share": 0.0} | settings
    return Session(subject or two_groups(), path, **settings)


def do(session: Session, kind: str, id: str | None = None, **data):
    return session.do(id or f"c{next(_numbers)}", kind, data)


def answer(session: Session, label: str | None = None, **data):
    """Answer the question, truly unless a label is given."""
    node = session.question.node
    return do(session, "answer", number=node, label=label or truth(node), **data)
