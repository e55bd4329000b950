"""The models of the experiments by the names that tables have for them, and fitting them.

A name is that of one of our own models, or of a baseline in its registry. One that ends in "-X"
trains on the validation labels too. The paper's settings come from the authors' public code where
it has them; what was assumed is said in every report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from nodegp.datasets import Dataset, load_dataset
from nodegp.estimators import GraphGPClassifier
from nodegp.inducing import Labelled, Points
from nodegp.inference import Dual
from nodegp.kernels import Linear, Polynomial
from nodegp.preprocessing import Preprocessing
from nodegp_paper.baselines import REGISTRY
from nodegp_paper.inference import Adam

__all__ = [
    "LINEAR_GGP",
    "Nodes",
    "PaperRecipe",
    "component_of",
    "estimator",
    "fitted",
    "ggp",
    "is_baseline",
    "labels_at",
    "linear_ggp",
    "load",
    "reference",
    "trains_on_validation",
    "uses_validation",
]

LINEAR_GGP = "GGP (linear)"
# As a user has them: no choice but this one, whatever the data.
_VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"recipe": "paper"},
    "features": {"filter": "identity"},
}
Nodes = Mapping[str, np.ndarray]  # "train", "test" and perhaps "val"


# --- names ----------------------------------------------------------------------------------------


def is_baseline(name: str) -> bool:
    return name.lower() in REGISTRY


def trains_on_validation(name: str) -> bool:
    return name.endswith("-X")


def uses_validation(name: str) -> bool:
    """Whether validation labels, where there are any, decide when its training stops, or how."""
    return is_baseline(name) and REGISTRY[name.lower()].uses_validation


def reference(name: str) -> str:
    """The model of ours that has the same labels to train on."""
    return "nodegp-X" if trains_on_validation(name) else "nodegp"


# --- data -----------------------------------------------------------------------------------------


@lru_cache(maxsize=3)
def load(dataset: str, data_dir: str | None) -> Dataset:
    """A data set, read once in each process."""
    return load_dataset(dataset, data_dir)


def component_of(name: str, data_dir: str | None) -> Dataset:
    """A data set's largest connected component, as the active-learning experiments use it."""
    data = load_dataset(name, data_dir)
    nodes = data.graph.largest_component()
    return Dataset(data.name, data.graph.subgraph(nodes), data.y[nodes], {}, data.class_names)


def labels_at(data: Dataset, nodes: np.ndarray) -> np.ndarray:
    """The labels of these nodes, and -1 for all others."""
    y = np.full(data.graph.n_nodes, -1)
    y[nodes] = data.y[nodes]
    return y


# --- fitting --------------------------------------------------------------------------------------


def fitted(
    name: str,
    data: Dataset,
    nodes: Nodes,
    seed: int,
    epochs: int | None = None,
    recipe: dict[str, Any] | None = None,
    checkpoint: str | None = None,
) -> Any:
    """The model, fitted to the labels that are its own to use; a network in so many epochs."""
    train = nodes["train"]
    if trains_on_validation(name):
        train = np.concatenate([train, nodes["val"]])
    model = estimator(name, data.name, len(train), seed, recipe, checkpoint)
    settings = {}
    if uses_validation(name):
        if "val" in nodes:
            settings["y_val"] = labels_at(data, nodes["val"])
        if epochs is not None:
            limits = {"epochs", "fixed_epochs"} & set(model.get_params())
            model.set_params(**dict.fromkeys(limits, epochs))
    return model.fit(data.graph, labels_at(data, train), **settings)


def estimator(
    name: str,
    dataset: str,
    n_labels: int,
    seed: int,
    recipe: dict[str, Any] | None = None,
    checkpoint: str | None = None,
) -> Any:
    """The model of this name, to be fitted; of a GGP, with the paper's engine or with ours."""
    if is_baseline(name):
        return REGISTRY[name.lower()](random_state=seed)
    if name == LINEAR_GGP:
        return linear_ggp(dataset, seed, recipe)
    if name.removesuffix("-X") == "GGP":
        return ggp(dataset, n_labels, seed, recipe, checkpoint)
    return GraphGPClassifier(random_state=seed, **_VARIANTS.get(name, {}))


@dataclass(frozen=True)
class PaperRecipe:
    """The numbers of the paper's engine that a quick run may cut."""

    steps: int
    learning_rate: float
    check_every: int = 200


def ggp(
    dataset: str,
    n_labels: int,
    seed: int,
    recipe: dict[str, Any] | None = None,
    checkpoint: str | None = None,
) -> GraphGPClassifier:
    """A GGP with the cubic kernel; with a :class:`PaperRecipe` by the paper's engine."""
    if recipe is None:
        return GraphGPClassifier(
            "paper",
            kernel=Polynomial(3, 1.0, 5.0, fixed=("variance",)),
            preprocessing=_preprocessing_of(dataset),
            inducing=Labelled(),
            engine=Dual(),
            random_state=seed,
        )
    offset = abs(np.random.default_rng(seed).normal(5.0, 1.0))
    return GraphGPClassifier(
        "paper",
        kernel=Polynomial(3, 1.0, float(offset), fixed=("variance",)),
        preprocessing=_preprocessing_of(dataset),
        inducing=Points(n_labels),
        engine=_paper_engine(recipe, checkpoint),
        random_state=seed,
    )


def linear_ggp(dataset: str, seed: int, recipe: dict[str, Any] | None = None) -> GraphGPClassifier:
    """The GGP of the active-learning experiments: linear, centred, no hyper-parameters."""
    kernel = Linear(1.0, fixed=("variance",))
    # With one inducing point per label by the paper's engine: there are few.
    return GraphGPClassifier(
        "paper",
        kernel=kernel,
        preprocessing=Preprocessing(_preprocessing_of(dataset), center=True),
        inducing=Labelled() if recipe is None else Points(),
        engine=Dual() if recipe is None else _paper_engine(recipe, None),
        random_state=seed,
    )


def _preprocessing_of(dataset: str) -> str:
    """Pubmed's features are TF-IDF already."""
    return "raw" if dataset == "pubmed" else "tfidf"


def _paper_engine(recipe: dict[str, Any], checkpoint: str | None) -> Adam:
    return Adam(
        max_iter=recipe["steps"],
        tol=0,  # all the steps, and no early stopping
        learning_rate=recipe["learning_rate"],
        check_every=recipe["check_every"],
        checkpoint=checkpoint,
        dtype="float32",
    )
