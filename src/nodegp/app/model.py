"""What a user chooses of a model, and what there is to say of one that was fitted.

The one place where the application makes a classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nodegp.app.results import Result
from nodegp.estimators import GraphGPClassifier
from nodegp.evaluation import leave_one_out
from nodegp.graph import Graph
from nodegp.prior import kernels_of

__all__ = ["DEFAULT", "ModelInfo", "ModelOptions", "describe"]


@dataclass(frozen=True)
class ModelOptions:
    """The choices of a fit; None is the library's own."""

    recipe: str = "auto"
    likelihood: str | None = None
    filter: str | None = None
    calibrate: bool | None = None
    engine: str = "dual"
    seed: int = 0

    @property
    def counts(self) -> str:
        """How an encoder of tables weights words and other counts."""
        return "tfidf" if self.recipe == "paper" else "sqrt-tfidf"

    def classifier(self, unlabelled: Any = -1, *, encoded: bool = False) -> GraphGPClassifier:
        """A classifier to fit; features that a table's encoder has made are taken as they are."""
        return GraphGPClassifier(
            self.recipe,
            likelihood=self.likelihood,
            filter=self.filter,
            preprocessing="raw" if encoded else None,
            engine=self.engine,
            calibrate=self.calibrate,
            unlabelled=unlabelled,
            random_state=self.seed,
        )


DEFAULT = ModelOptions()


@dataclass(frozen=True, eq=False)
class ModelInfo(Result):
    """A fitted model in numbers."""

    classes: np.ndarray
    labels: int
    label_counts: dict[str, int]
    nodes: int
    edges: int
    features: int
    recipe: str | None  # what was chosen, if there was a choice
    selection: list[dict[str, Any]]  # how each recipe did
    filter: str
    kernel: str
    likelihood: str
    hyperparameters: dict[str, Any]
    temperature: float
    elbo: float
    converged: bool
    leave_one_out: dict[str, Any]  # scores
    seconds: float | None = None  # of the fit, if it was seen
    aside = ("seconds",)


def describe(model: GraphGPClassifier, graph: Graph, seconds: float | None = None) -> ModelInfo:
    """The numbers of a fitted model."""
    return ModelInfo(
        classes=model.classes_,
        labels=len(model.labelled_),
        label_counts={str(name): int((model.labels_ == name).sum()) for name in model.classes_},
        nodes=graph.n_nodes,
        edges=graph.n_edges,
        features=graph.n_features,
        recipe=next((score.name for score in model.selection_ if score.chosen), None),
        selection=[score._asdict() for score in model.selection_],
        filter=type(model.filter_).__name__,
        kernel=" + ".join(type(kernel).__name__ for kernel in kernels_of(model.prior_)),
        likelihood=type(model.likelihood_).__name__,
        hyperparameters=model.prior_.parameters() | model.likelihood_.parameters(),
        temperature=model.temperature_,
        elbo=model.elbo_,
        converged=model.converged_,
        leave_one_out=leave_one_out(model).scores(),
        seconds=seconds,
    )
