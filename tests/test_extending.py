"""CONTRIBUTING followed to the letter: one of each kind, in a module outside the package.

Each is written in one place and found everywhere: by its name, in saved models, in queries, in
tables, in comparisons.
"""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import nodegp
from helpers import hide, random_graph, smooth_classes
from nodegp import active, evaluation
from nodegp.component import Component

MODULE = '''
"""What somebody adds to nodegp: a kernel, a filter, a likelihood, and the rest."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.json
import scipy.sparse as sp
import torch

from nodegp.active import Acquisition
from nodegp.filters import Filter
from nodegp.inference import Dual
from nodegp.io.formats import FORMATS, Format
from nodegp.kernels import Kernel
from nodegp.likelihoods import Softmax
from nodegp_paper.baselines import REGISTRY, Baseline


@dataclass(frozen=True)
class Quartic(Kernel):
    """k(x, x') = variance (1 + <x, x'>)^4."""

    positive: ClassVar = ("variance",)
    variance: float = 1.0

    def __call__(self, tile):
        return self.variance * (1.0 + tile.inner) ** 4


@dataclass(frozen=True)
class NeighboursOnly(Filter):
    """h_n is the mean of f over the neighbours of n, without n itself."""

    alias: ClassVar = "neighbours-only"

    def weights(self, graph, nodes):
        rows = sp.csr_array(graph.adjacency[nodes])
        lonely = np.diff(rows.indptr) == 0
        own = sp.csr_array(
            (lonely[lonely].astype(float), nodes[lonely], np.r_[0, np.cumsum(lonely)]),
            shape=rows.shape,
        )
        rows = sp.csr_array(rows + own)
        return sp.csr_array(sp.diags_array(1.0 / rows.sum(axis=1)) @ rows)


@dataclass(frozen=True)
class Tempered(Softmax):
    """A softmax that is twice as sure."""

    alias: ClassVar = "twice-as-sure"

    def class_probabilities(self, h):
        return torch.softmax(2.0 * h, -1)


@dataclass(frozen=True)
class Impatient(Dual):
    """One iteration and no more."""

    alias: ClassVar = "impatient"
    max_iter: int = 1


@dataclass(frozen=True)
class LastFirst(Acquisition):
    """The node with the highest number."""

    name: ClassVar = "last-first"
    score_means: ClassVar = "the node's number"

    def scores(self, situation):
        return np.arange(situation.graph.n_nodes, dtype=float)


class JsonLines(Format):
    """An object on every line."""

    def columns(self, path):
        schema = pa.json.read_json(path).schema
        return tuple(schema.names), schema

    def read(self, path, columns, text, names):
        return pa.json.read_json(path).select(list(columns))

    def writer(self, file, schema):
        return _Writer(file)


class _Writer:
    def __init__(self, file):
        self.file = file

    def write_table(self, table):
        import json

        for row in table.to_pylist():
            self.file.write(json.dumps(row).encode() + b"\\n")

    def close(self):
        pass


FORMATS[".jsonl"] = JsonLines()


class Majority(Baseline):
    """Everybody is what most labels are."""

    name = "Majority"
    needs_features = False
    deterministic = True

    def __init__(self, unlabelled=-1, random_state=None):
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph, labels, *rest):
        counts = np.bincount(labels.targets, minlength=len(self.classes_))
        return np.tile(counts / counts.sum(), (graph.n_nodes, 1))


REGISTRY["majority"] = Majority
'''

GRAPH = random_graph(40, p=0.15)
TRUTH = smooth_classes(GRAPH)
Y = hide(TRUTH, np.arange(0, 40, 2))


@pytest.fixture(scope="module", autouse=True)
def added(tmp_path_factory):
    """The module, imported; whatever it added is gone afterwards."""
    from nodegp.io.formats import FORMATS
    from nodegp_paper.baselines import REGISTRY

    folder = tmp_path_factory.mktemp("added")
    (folder / "nodegp_additions.py").write_text(MODULE)
    registries = (Component.registry, active.STRATEGIES, FORMATS, REGISTRY)
    before = [dict(registry) for registry in registries]
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("nodegp_additions")
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("nodegp_additions", None)
        for registry, content in zip(registries, before, strict=True):
            registry.clear()
            registry.update(content)


@pytest.mark.parametrize(
    "settings",
    [
        {"filter": "neighbours-only"},
        {"likelihood": "twice-as-sure"},
        {"engine": "impatient"},
    ],
)
def test_parts_are_found_by_their_alias_and_saved(settings, tmp_path):
    model = nodegp.GraphGPClassifier(**settings).fit(GRAPH, Y)
    model.save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(), model.predict_proba())
    assert loaded.recipe_ == model.recipe_


def test_a_kernel_is_a_class_and_nothing_else(added, tmp_path):
    model = nodegp.GraphGPClassifier(kernel=added.Quartic(), filter="mean").fit(GRAPH, Y)
    assert model.kernel_.variance != 1.0  # it was learnt
    model.save(tmp_path / "model", include_graph=True)
    np.testing.assert_array_equal(
        nodegp.load(tmp_path / "model").predict_proba(), model.predict_proba()
    )


def test_a_strategy_is_found_by_its_name():
    choice = active.suggest(GRAPH, 3, "last-first", y=Y)
    assert choice.nodes.tolist() == [39, 37, 35]
    assert choice.score_means == "the node's number"


def test_a_table_format_is_read_and_written_wherever_a_file_is_named(tmp_path):
    from nodegp.app import Project

    nodes = tmp_path / "nodes.jsonl"
    rows = zip(range(40), GRAPH.features[:, 0], Y, strict=True)
    nodes.write_text(
        "".join(
            f'{{"id": "n{i}", "x": {x}, "kind": "{"" if y < 0 else "abc"[y]}"}}\n'
            for i, x, y in rows
        )
    )
    edges = tmp_path / "edges.csv"
    pairs = np.argwhere(np.triu(GRAPH.adjacency.toarray()))
    edges.write_text("from,to\n" + "".join(f"n{a},n{b}\n" for a, b in pairs))
    project = Project.from_tables(nodes=nodes, edges=edges, id="id", label="kind")
    project.fit()
    assert len(project.model.labelled_) == 20


def test_a_baseline_is_one_entry(added):
    from nodegp import plugins

    rival = plugins.baselines()["majority"](random_state=0, unlabelled=-1)
    scores = evaluation.cross_validate(rival, GRAPH, Y, 4).scores()
    counts = np.bincount(Y[Y >= 0])
    assert scores["accuracy"] <= counts.max() / counts.sum() + 0.3
    np.testing.assert_allclose(rival.fit(GRAPH, Y).predict_proba(GRAPH)[0], counts / counts.sum())
