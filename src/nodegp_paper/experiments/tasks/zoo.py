"""The zoo: whether one default holds on twelve graphs, of which it was made on three.

Every method has the same labels: min(k, half the class) of each class. Scored are all other nodes
that have a label, but for the public test nodes of Cora, Citeseer and Pubmed, which are left alone.
Classes of fewer than six nodes are dropped; their nodes stay in the graph. Methods named "+val"
have validation labels besides, which are not scored.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.datasets import Dataset, load_dataset
from nodegp.graph import Graph
from nodegp_paper.baselines import REGISTRY
from nodegp_paper.datasets import ZOO_NAMES, capped_split, without_small_classes
from nodegp_paper.experiments.models import fitted, uses_validation
from nodegp_paper.experiments.published import DATASETS
from nodegp_paper.experiments.scoring import COVERAGE, scores
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import plain
from nodegp_paper.experiments.task import Context, Selection, Task
from nodegp_paper.experiments.tasks.splits import CUT
from nodegp_paper.metrics import debiased_calibration_error

__all__ = [
    "DATA",
    "GRAPHS",
    "METHODS",
    "N_VALIDATION",
    "OURS",
    "PER_CLASS",
    "SPLITS",
    "Method",
    "assess",
    "cannot_run",
    "graph_of",
]

GRAPHS = (*DATASETS, *ZOO_NAMES)
FEATURELESS = ("polblogs",)
PER_CLASS = (3, 10, 20)
N_VALIDATION = 500  # at most, and at most half of what is left
OURS = "nodegp"


@dataclass(frozen=True)
class Method:
    """A column of the tables."""

    name: str
    splits: int = 20  # with seeds 0, 1, 2 and so on
    needs_features: bool = False

    @property
    def model(self) -> str:
        """Whose fit it is."""
        return self.name.removesuffix("+val")

    @property
    def has_validation(self) -> bool:
        """Whether it has more labels than the others."""
        return self.name != self.model


METHODS = {
    method.name: method
    for method in (
        Method(OURS),
        Method("LP"),
        Method("Logistic", needs_features=True),
        Method("features", needs_features=True),
        Method("paper"),
        Method("GCN", 10),
        Method("APPNP", 10),
        Method("GCN+val", 10),
        Method("APPNP+val", 10),
    )
}


def cannot_run(method: str, graph: str) -> str:
    """Why a method has no runs on a graph; nothing if it has."""
    return "no features" if METHODS[method].needs_features and graph in FEATURELESS else ""


# --- which runs there are -------------------------------------------------------------------------


def specs(selection: Selection) -> list[Spec]:
    return [
        Spec("zoo", graph, method.name, "", seed, _settings(method, per_class, selection.quick))
        for graph in selection.datasets
        for method in METHODS.values()
        if method.name in selection.models and not cannot_run(method.name, graph)
        for per_class in (PER_CLASS[:1] if selection.quick else PER_CLASS)
        for seed in selection.seeds_of(method.splits, 2)
    ]


def _settings(method: Method, per_class: int, quick: bool) -> dict[str, int]:
    settings = {"per_class": per_class}
    if method.has_validation:
        settings["val"] = N_VALIDATION
    return settings | CUT if quick and uses_validation(method.model) else settings


# Of a run on one core with ten labels per class, where it takes more than a second or so: a first
# guess, so that short runs come first, refined by the runs themselves.
_SECONDS = {
    "paper": {"amazon-photo": 10.0},
    "APPNP": {"amazon-photo": 20.0, "blogcatalog": 20.0, "pubmed": 15.0, "dblp": 10.0},
    "APPNP+val": {
        **dict.fromkeys(GRAPHS, 6.0),
        **{"amazon-photo": 300.0, "blogcatalog": 250.0, "dblp": 80.0, "pubmed": 60.0, "acm": 25.0},
    },
}


def _seconds(spec: Spec) -> float:
    seconds = _SECONDS.get(spec.model, {}).get(spec.dataset, 0.5)
    return seconds * min(1.0, spec.settings.get("epochs", 200) / 200)


# --- one of them ----------------------------------------------------------------------------------


@lru_cache(maxsize=len(GRAPHS))
def graph_of(name: str, data_dir: str | None) -> Dataset:
    """A data set without its small classes, kept with what models prepare for its graph once."""
    return without_small_classes(load_dataset(name, data_dir))


def run(spec: Spec, context: Context) -> dict[str, Any]:
    data, sizes = graph_of(spec.dataset, context.data_dir), spec.settings
    nodes = capped_split(data, sizes["per_class"], spec.seed, sizes.get("val", 0))
    return assess(METHODS[spec.model], data, nodes, spec.seed, sizes.get("epochs"))


def assess(
    method: Method,
    data: Dataset,
    nodes: dict[str, np.ndarray],
    seed: int,
    epochs: int | None = None,
) -> dict[str, Any]:
    """Fit, predict all nodes, and score those that are to be scored."""
    data = _with_features(method, data)
    started = time.perf_counter()
    model = fitted(method.model, data, nodes, seed, epochs)
    proba = model.predict_proba(data.graph)
    seconds = time.perf_counter() - started
    test = nodes["test"]
    y = data.y[test]
    measured = scores(y, proba[test]) | {
        "debiased_calibration_error": debiased_calibration_error(y, proba[test]),
        "uniform_log_loss": float(np.log(data.n_classes)),
        "n_labels": len(nodes["train"]),
        "n_validation": len(nodes.get("val", ())),
        "fit_predict": seconds,
    }
    if method.name == OURS:
        sets = model.predict_set(data.graph, test, coverage=COVERAGE)
        measured["coverage"] = float(sets[np.arange(len(y)), y].mean())
        measured["set_size"] = float(sets.sum(axis=1).mean())
    return plain(measured)


def _with_features(method: Method, data: Dataset) -> Dataset:
    """With a column to each node for a network that needs features where there are none, as Kipf
    and Welling do (X = I)."""
    baseline = REGISTRY.get(method.model.lower())
    if data.graph.features is not None or baseline is None or not baseline.needs_features:
        return data
    identity = sp.csr_array(sp.eye_array(data.graph.n_nodes))
    return replace(data, graph=Graph(data.graph.adjacency, identity))


SPLITS = Task("zoo", specs, run, _seconds, datasets=GRAPHS)


# --- the graphs themselves ------------------------------------------------------------------------


def data_specs(selection: Selection) -> list[Spec]:
    return [Spec("zoo, data", graph, "data") for graph in selection.datasets]


def run_data(spec: Spec, context: Context) -> dict[str, Any]:
    """Count."""
    whole, data = (
        load_dataset(spec.dataset, context.data_dir),
        graph_of(spec.dataset, context.data_dir),
    )
    graph = data.graph
    ends = graph.adjacency.tocoo()
    known = (ends.row < ends.col) & (whole.y[ends.row] >= 0) & (whole.y[ends.col] >= 0)
    same = whole.y[ends.row[known]] == whole.y[ends.col[known]]
    return plain(
        {
            "nodes": graph.n_nodes,
            "edges": graph.n_edges,
            "features": graph.n_features,
            "classes": whole.n_classes,
            "classes_kept": data.n_classes,
            "smallest_class": int(np.bincount(data.y[data.y >= 0]).min()),
            "within_class": float(same.mean()),
            "isolated": int((graph.degrees == 0).sum()),
            "largest_component": len(graph.largest_component()),
        }
    )


DATA = Task("zoo, data", data_specs, run_data, lambda spec: 1.0, datasets=GRAPHS)
