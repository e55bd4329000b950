"""Valid inputs to start from: a graph of thirty papers as a user would have it, and its models."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from fuzzing.running import Outcome
from fuzzing.sheets import Sheet

N_NODES = 30
_WORDS = {0: "kernel prior bayes", 1: "layer network deep", 2: "graph walk spectrum"}
_TOPICS = {0: "gp", 1: "nets", 2: "graphs"}


@dataclass(frozen=True)
class World:
    """Tables, matrices, and models fitted to them, by the name that files get before the dot."""

    sheets: dict[str, Sheet]
    matrices: dict[str, bytes]
    models: dict[str, bytes]


def tables(numbered: bool, topics_numbered: bool, seed: int = 0) -> dict[str, Sheet]:
    """Nodes, edges, answers to questions, and new nodes with their edges."""
    rng = random.Random(seed)

    def name(i: int) -> object:
        return 100 + i if numbered else f"päper {i:02d}"

    def topic(i: int) -> object:
        return i % 3 if topics_numbered else _TOPICS[i % 3]

    def described(ids: range, known: int) -> Sheet:
        words = [_WORDS[i % 3].split() for i in ids]
        return Sheet(
            ["paper", "topic", "x", "y", "year", "kind", "abstract"],
            [
                [name(i) for i in ids],
                [topic(i) if i < known else "" for i in ids],
                [i % 3 + rng.gauss(0, 1) for i in ids],
                [rng.gauss(0, 1) for _ in ids],
                [2000 + i % 7 for i in ids],
                [rng.choice(["long", "short"]) for _ in ids],
                [" ".join(rng.choices(w, k=4)) + " paper" for w in words],
            ],
        )

    def linked(ids: range, everyone: range) -> Sheet:
        pairs = [(i, rng.choice([j for j in everyone if j % 3 == i % 3 and j != i])) for i in ids]
        pairs += [(i, rng.choice(everyone)) for i in ids if rng.random() < 0.3]
        ends = [[name(i) for i, _ in pairs], [name(j) for _, j in pairs]]
        return Sheet(["from", "to", "w"], [*ends, [rng.uniform(0.5, 2.0) for _ in pairs]])

    old, new = range(N_NODES), range(N_NODES, N_NODES + 8)
    rest = range(15, N_NODES)
    return {
        "nodes": described(old, 15),
        "edges": linked(range(N_NODES - 1), old),
        "answers": Sheet(["paper", "topic"], [[name(i) for i in rest], [topic(i) for i in rest]]),
        "newnodes": described(new, 0),
        "newedges": linked(new, range(N_NODES + 8)),
    }


def matrices(seed: int = 0) -> dict[str, bytes]:
    """Dense and sparse features, for the known and for the new nodes."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, n in (("dense", N_NODES), ("newdense", 8)):
        file = io.BytesIO()
        np.save(file, rng.standard_normal((n, 4)))
        found[name] = file.getvalue()
    for name, n in (("sparse", N_NODES), ("newsparse", 8)):
        file = io.BytesIO()
        sp.save_npz(file, sp.csr_array((rng.random((n, 12)) < 0.3).astype(float)))
        found[name] = file.getvalue()
    return found


# The models of each world, by what their fit is told besides the tables.
FITS = {
    "plain": [],
    "words": ["--text", "abstract", "--categorical", "kind", "--likelihood", "softmax"],
    "dense": ["--features-npy", "dense.npy", "--features", "x", "--weight", "w"],
    "sparse": ["--features-npz", "sparse.npz", "--features", "kind"],
}


def build(folder: Path, run: Callable[[list[str], Path], Outcome]) -> list[World]:
    """All worlds: ids and topics as numbers and as text, with a model of each kind."""
    worlds = []
    others = _from_python(folder / "m.nodegp")
    for number, (numbered, topics) in enumerate(((True, True), (True, False), (False, False))):
        sheets, arrays = tables(numbered, topics, number), matrices(number)
        for name in ("nodes", "edges"):
            (folder / f"{name}.csv").write_bytes(sheets[name].written("csv"))
        (folder / "dense.npy").write_bytes(arrays["dense"])
        (folder / "sparse.npz").write_bytes(arrays["sparse"])
        models = {}
        start = ["fit", "--nodes", "nodes.csv", "--edges", "edges.csv", "--id", "paper"]
        for name, more in FITS.items():
            done = run([*start, "--label", "topic", "-o", "m.nodegp", "-q", *more], folder)
            if done.code:
                raise RuntimeError(f"a valid fit failed: {done.stderr}") from done.error
            models[name] = (folder / "m.nodegp").read_bytes()
        worlds.append(World(sheets, arrays, models | others))
    return worlds


def _from_python(path: Path) -> dict[str, bytes]:
    """Models that the command line has not made, and one that it cannot use."""
    import nodegp
    from nodegp.filters import Relations

    rng = np.random.default_rng(0)
    ring = sp.csr_array(np.roll(np.eye(12), 1, axis=1))
    graph = nodegp.Graph(ring, rng.standard_normal((12, 3)))
    y = np.array([0, 1] * 4 + [-1] * 4)
    kinds = nodegp.Graph({"a": ring, "b": ring @ ring}, graph.features)
    by_kind = {"likelihood": "softmax", "filter": Relations()}
    points = {"inducing": "points", "filter": "mean"}
    classifier = nodegp.GraphGPClassifier().fit(graph, y)
    regressor = nodegp.GraphGPRegressor().fit(graph, rng.standard_normal(12))
    found = {}
    for name, model, with_graph in (
        ("python", classifier, True),
        ("bare", classifier, False),
        ("regressor", regressor, True),
        ("paper", nodegp.GraphGPClassifier("paper").fit(graph, y), True),
        ("points", nodegp.GraphGPClassifier(**points).fit(graph, y), True),
        ("relations", nodegp.GraphGPClassifier(**by_kind).fit(kinds, y), True),
        ("featureless", nodegp.GraphGPClassifier().fit(nodegp.Graph(ring), y), True),
    ):
        model.save(path, include_graph=with_graph)
        found[name] = path.read_bytes()
    return found
