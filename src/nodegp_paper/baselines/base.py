"""What all baselines share: checking what comes in, and answering from class probabilities.

A method adds its parameters and :meth:`Baseline._learn`, which turns a graph and some labels into
probabilities for every node. It sees classes as positions, never as users write them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nodegp.estimators.conventions import all_or_nothing, labelled_accuracy
from nodegp.graph import Graph
from nodegp.interchange import as_graph, node_labels
from nodegp.labels import as_labels, encode, is_labelled, require_classes


class Labels(NamedTuple):
    """The labelled nodes and the position of each one's class."""

    nodes: np.ndarray
    targets: np.ndarray


class Baseline(ClassifierMixin, BaseEstimator, ABC):
    """A method that classifies the nodes of a graph from a few labels.

    Every method has the parameters ``unlabelled`` (the value in y that means no label, besides
    None and NaN) and ``random_state`` (int, Generator, RandomState or None).

    Attributes
    ----------
    classes_ : the classes, sorted
    labelled_ : numbers of the labelled nodes
    graph_ : the graph fitted on
    proba_ : (N, C) class probabilities of its nodes
    """

    needs_features: ClassVar[bool] = False
    # Whether fit takes y_val. Comparing such a method with one that needs no validation labels
    # is only fair if those labels are counted.
    uses_validation: ClassVar[bool] = False
    # Whether a fitted model can answer for a graph that it was not fitted on.
    inductive: ClassVar[bool] = False

    # Parameters, which each method sets in its own __init__ as scikit-learn wants it.
    unlabelled: Any
    random_state: Any

    # Set by fit.
    classes_: np.ndarray
    labelled_: np.ndarray
    graph_: Graph
    proba_: np.ndarray

    # --- what a method adds -----------------------------------------------------------------

    @abstractmethod
    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        """Learn from the labels; return class probabilities, (N, C).

        ``classes_`` is set by then. Parameters are checked here too.
        """

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        """Class probabilities on another graph; inductive methods have it."""
        raise NotImplementedError

    # --- fitting ----------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, graph: Any, y: Any = None, *, classes: Any = None, y_val: Any = None) -> Self:
        """Fit to a graph whose nodes are partly labelled.

        Parameters
        ----------
        graph : Graph, networkx graph or PyTorch Geometric Data
        y : one entry per node
            Class labels, numbers or strings; ``unlabelled``, None or NaN where there is none. Or a
            dict id -> label (node number -> label if the Graph has no ids). On a networkx graph
            also the name of a node attribute. A Data has its own: ``data.y`` at the nodes of its
            ``train_mask``, or at all if it has none.
        classes : sequence, optional
            All classes there are, if some have no label yet.
        y_val : one entry per node, optional
            Validation labels, in the same form, for a method that uses them.
        """
        name = type(self).__name__
        y = node_labels(graph, y, self.unlabelled)
        if y_val is not None:
            y_val = node_labels(graph, y_val, self.unlabelled)
        graph = self._checked(graph)
        y, labelled = self._labels(y, "y", graph)
        require_classes(y[labelled])
        self.classes_, targets = encode(y[labelled], classes)
        validation = None
        if y_val is not None:
            if not self.uses_validation:
                raise ValueError(f"{name} has no use for validation labels; leave y_val out")
            y_val, held_out = self._labels(y_val, "y_val", graph)
            unknown = self._unknown(y_val[held_out])
            if unknown:
                raise ValueError(
                    f"y_val has classes {unknown[:5]} that no label in y has; list all classes "
                    "in classes="
                )
            validation = Labels(held_out, encode(y_val[held_out], self.classes_)[1])
        self.proba_ = self._learn(graph, Labels(labelled, targets), validation)
        if not np.isfinite(self.proba_).all():
            raise ValueError(
                f"{name} came to probabilities that are not finite: its training diverged. Lower "
                "its learning rate, or scale the features or weights"
            )
        self.labelled_, self.graph_ = labelled, graph
        self.n_features_in_ = graph.n_features
        return self

    def _labels(self, y: Any, what: str, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
        """A label vector as an array, and the numbers of the nodes that have a label."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires {what} to be passed, but it is None")
        y = column_or_1d(as_labels(y), dtype=None)
        if len(y) != graph.n_nodes:
            raise ValueError(
                f"{what} has {len(y)} entries for {graph.n_nodes} nodes; give one per node, with "
                f"{self.unlabelled!r} where there is no label"
            )
        labelled = np.flatnonzero(is_labelled(y, self.unlabelled))
        if not len(labelled):
            raise ValueError(
                f"{what} has no labels at all: every entry is {self.unlabelled!r}, None or NaN. "
                "Label at least one node."
            )
        return y, labelled

    def _unknown(self, labels: np.ndarray) -> list:
        """Those among the labels that are not among the classes."""
        known = set(self.classes_.tolist())
        return [label for label in dict.fromkeys(labels.tolist()) if label not in known]

    def _checked(self, graph: Any) -> Graph:
        name = type(self).__name__
        graph = as_graph(graph)
        if not isinstance(graph, Graph):
            raise TypeError(
                f"{name} works on a nodegp.Graph, got a {type(graph).__name__}; make one with "
                "nodegp.Graph(adjacency, features)"
            )
        if self.needs_features and not graph.n_features:
            raise ValueError(
                f"{name} needs node features and this graph has none; pass them to Graph "
                "(an identity matrix if there is nothing to say of the nodes)"
            )
        return graph

    # --- predicting -------------------------------------------------------------------------

    def predict_proba(self, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities, shape (nodes, classes), in the order of ``classes_``.

        Parameters
        ----------
        graph : as in :meth:`fit`, default the graph fitted on
            Another one only where the method is ``inductive``.
        nodes : node numbers, ids that are text, or a mask, optional
            Which nodes to answer for; all by default.
        """
        check_is_fitted(self, "proba_")
        proba = self.proba_
        if graph is not None and graph is not self.graph_:
            graph = self._checked(graph)
            if self.inductive:
                self._check_features(graph)
                proba = self._proba_elsewhere(graph)
            elif not _same(graph, self.graph_):
                raise ValueError(
                    f"{type(self).__name__} answers only for the graph it was fitted on, and this "
                    "is another one; fit it on this graph"
                )
        return proba[(self.graph_ if graph is None else graph).numbers(nodes)]

    def _check_features(self, graph: Graph) -> None:
        if graph.n_features != self.n_features_in_:
            raise ValueError(
                f"{type(self).__name__} was fitted on {self.n_features_in_} features and this "
                f"graph has {graph.n_features}"
            )

    def predict(self, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """The most probable class of each node."""
        return self.classes_[self.predict_proba(graph, nodes).argmax(axis=1)]

    def score(self, graph: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the nodes that have a label in ``y``."""
        check_is_fitted(self, "proba_")
        return labelled_accuracy(self, self.graph_ if graph is None else graph, y, sample_weight)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "proba_")


def check_number(
    name: str, value: Any, least: float, below: float = np.inf, *, whole: bool = False
) -> None:
    """Refuse a parameter that is not a number in [least, below)."""
    kind: Any = Integral if whole else Real
    what = "whole number" if whole else "number"
    if isinstance(value, bool) or not isinstance(value, kind) or not least <= value < below:
        limit = "" if below == np.inf else f" and below {below:g}"
        raise ValueError(f"{name} must be a {what} of at least {least:g}{limit}, got {value!r}")


def _same(a: Graph, b: Graph) -> bool:
    """Whether two graphs hold the same edges and features (a copy, or the data read again)."""
    return _equal(a.adjacency, b.adjacency) and _equal(a.features, b.features)


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if a is None or b is None or a.shape != b.shape:
        return False
    if sp.issparse(a) or sp.issparse(b):
        return (sp.csr_array(a) != sp.csr_array(b)).nnz == 0
    return np.array_equal(a, b)
