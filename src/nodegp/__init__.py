"""Bayesian semi-supervised learning on graphs with Gaussian processes.

The public names, and nothing else. Each is imported on first use (PEP 562), so that
`import nodegp` costs milliseconds and loads neither torch nor scipy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodegp import (
        active,
        app,
        budget,
        datasets,
        evaluation,
        filters,
        inducing,
        inference,
        kernels,
        likelihoods,
        metrics,
        model,
        operators,
        posterior,
        preprocessing,
        prior,
        propagation,
    )
    from nodegp.datasets import load_dataset
    from nodegp.estimators import GraphGPClassifier, GraphGPRegressor
    from nodegp.graph import Graph
    from nodegp.model import Recipe
    from nodegp.neighbours import Table
    from nodegp.persistence import load
    from nodegp.preprocessing import Preprocessing

    __version__: str

__all__ = [
    "Graph",
    "GraphGPClassifier",
    "GraphGPRegressor",
    "Preprocessing",
    "Recipe",
    "Table",
    "__version__",
    "active",
    "app",
    "budget",
    "datasets",
    "evaluation",
    "filters",
    "inducing",
    "inference",
    "kernels",
    "likelihoods",
    "load",
    "load_dataset",
    "metrics",
    "model",
    "operators",
    "posterior",
    "preprocessing",
    "prior",
    "propagation",
]

# Public name -> the module it lives in. A name in __all__ that is neither here nor
# __version__ is a submodule.
_HOME = {
    "Graph": "nodegp.graph",
    "GraphGPClassifier": "nodegp.estimators",
    "GraphGPRegressor": "nodegp.estimators",
    "Preprocessing": "nodegp.preprocessing",
    "Recipe": "nodegp.model",
    "Table": "nodegp.neighbours",
    "load": "nodegp.persistence",
    "load_dataset": "nodegp.datasets",
}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("nodegp")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"


# Hidden from type checkers: they would take it to mean that every name exists.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module 'nodegp' has no attribute {name!r}")
        if name == "__version__":
            value = _version()
        elif name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
        else:
            value = import_module(f"nodegp.{name}")
        globals()[name] = value  # the next access does not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
