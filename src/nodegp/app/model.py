"""What a user chooses of a model, and what there is to say of one that was fitted.

The one place where the application makes a classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nodegp.app.belief import belief, views_in_words
from nodegp.app.frontend import OptionError
from nodegp.component import aliases
from nodegp.estimators import GraphGPClassifier
from nodegp.evaluation import leave_one_out
from nodegp.filters import Filter
from nodegp.graph import Graph
from nodegp.io.summary import MANY_CLASSES
from nodegp.likelihoods import Likelihood
from nodegp.prior import kernels_of

__all__ = ["AMOUNTS", "DEFAULT", "ModelOptions", "describe", "refuse_amounts"]

AMOUNTS = "amounts are predicted in Python, by nodegp.GraphGPRegressor"


@dataclass(frozen=True)
class ModelOptions:
    """The choices of a fit; None is the library's own."""

    recipe: str = "auto"
    likelihood: str | None = None
    filter: str | None = None
    calibrate: bool | None = None
    engine: str = "dual"
    seed: int = 0

    def __post_init__(self) -> None:
        likelihoods = [name for name, kind in aliases(Likelihood).items() if kind.classifies]
        for option, names in {
            "recipe": ["auto", "paper"],
            "likelihood": likelihoods,
            "filter": ["auto", *aliases(Filter)],
        }.items():
            value = getattr(self, option)
            if value is not None and value not in names:
                hint = f"; {AMOUNTS}" if value in aliases(Likelihood) else ""
                listed = ", ".join(names)
                message = f"`{option}` must be one of {listed}, got {value!r}{hint}"
                raise OptionError(message, option)

    @property
    def counts(self) -> str:
        """How an encoder of tables weights words and other counts."""
        return "tfidf" if self.recipe == "paper" else "sqrt-tfidf"

    def classifier(self, unlabelled: Any = -1) -> GraphGPClassifier:
        """A classifier to fit."""
        chosen = {name: value for name, value in vars(self).items() if name != "seed"}
        return GraphGPClassifier(**chosen, unlabelled=unlabelled, random_state=self.seed)


DEFAULT = ModelOptions()


def refuse_amounts(classes: list[Any], n_labels: int) -> None:
    """Refuse labels that are numbers, most of them different: a fit to so many classes would take
    for ever, and tell nothing."""
    if len(classes) > max(MANY_CLASSES, n_labels / 5) and not isinstance(classes[0], str):
        raise OptionError(
            f"the labels are {len(classes):,} different numbers at {n_labels:,} nodes: amounts, by "
            f"the look of them, and not classes; {AMOUNTS}. If they are classes all the same, pass "
            "`classes_anyway`",
            "classes_anyway",
        )


def describe(model: GraphGPClassifier, graph: Graph) -> dict[str, Any]:
    """A fitted model in numbers.

    ``classes``, ``labels`` (how many) and ``label_counts`` by class; ``nodes``, ``edges`` and
    ``features`` of the graph; ``recipe``, its name, ``selection``, what each view of the graph is
    worth if there was a choice, and ``views``, the same in words; the names of ``filter``,
    ``kernel`` and
    ``likelihood``; ``hyperparameters`` by path, and which of them were ``learnt``; ``temperature``,
    ``elbo``, ``converged``; the scores of ``leave_one_out``, and ``belief``, what they come to.
    """
    selection = [score._asdict() for score in model.selection_]
    left_out = leave_one_out(model).scores()
    parts = (model.prior_, model.likelihood_)
    return {
        "classes": model.classes_,
        "labels": len(model.labelled_),
        "label_counts": {str(name): int((model.labels_ == name).sum()) for name in model.classes_},
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "features": graph.n_features,
        "recipe": model.recipe_.name,
        "selection": selection,
        "views": views_in_words(selection),
        "filter": type(model.filter_).__name__,
        "kernel": " + ".join(type(kernel).__name__ for kernel in kernels_of(model.prior_)),
        "likelihood": type(model.likelihood_).__name__,
        "hyperparameters": {k: v for part in parts for k, v in part.parameters().items()},
        "learnt": sorted(name for part in parts for name in part.free_parameters()),
        "temperature": model.temperature_,
        "elbo": model.elbo_,
        "converged": model.converged_,
        "leave_one_out": left_out,
        "belief": belief(left_out),
    }
