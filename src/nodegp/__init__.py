"""Bayesian semi-supervised learning on graphs with Gaussian processes.

The public names, and nothing else. Each is imported on first use (PEP 562), so that
`import nodegp` costs milliseconds and loads neither torch nor scipy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodegp import active as active
    from nodegp import app as app
    from nodegp import budget as budget
    from nodegp import datasets as datasets
    from nodegp import disk as disk
    from nodegp import evaluation as evaluation
    from nodegp import filters as filters
    from nodegp import inducing as inducing
    from nodegp import inference as inference
    from nodegp import kernels as kernels
    from nodegp import likelihoods as likelihoods
    from nodegp import metrics as metrics
    from nodegp import model as model
    from nodegp import operators as operators
    from nodegp import posterior as posterior
    from nodegp import preprocessing as preprocessing
    from nodegp import prior as prior
    from nodegp import propagation as propagation
    from nodegp.datasets import load_dataset as load_dataset
    from nodegp.estimators import GraphGPClassifier as GraphGPClassifier
    from nodegp.estimators import GraphGPRegressor as GraphGPRegressor
    from nodegp.graph import Graph as Graph
    from nodegp.ingest import prepare as prepare
    from nodegp.model import Recipe as Recipe
    from nodegp.neighbours import Table as Table
    from nodegp.persistence import load as load
    from nodegp.preprocessing import Preprocessing as Preprocessing
    from nodegp.store import open_store as open_store

    __version__: str

# Public name -> the module it lives in; the modules that are public themselves are below.
_HOME = {
    "Graph": "nodegp.graph",
    "GraphGPClassifier": "nodegp.estimators",
    "GraphGPRegressor": "nodegp.estimators",
    "Preprocessing": "nodegp.preprocessing",
    "Recipe": "nodegp.model",
    "Table": "nodegp.neighbours",
    "load": "nodegp.persistence",
    "load_dataset": "nodegp.datasets",
    "open_store": "nodegp.store",
    "prepare": "nodegp.ingest",
}

_MODULES = [
    "active",
    "app",
    "budget",
    "datasets",
    "disk",
    "evaluation",
    "filters",
    "inducing",
    "inference",
    "kernels",
    "likelihoods",
    "metrics",
    "model",
    "operators",
    "posterior",
    "preprocessing",
    "prior",
    "propagation",
]

__all__ = sorted([*_HOME, *_MODULES, "__version__"])


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
