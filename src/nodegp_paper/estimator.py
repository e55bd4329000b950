"""What the laboratory's classifiers share: reading graphs and labels, and scikit-learn's habits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nodegp.estimators.conventions import labelled_accuracy
from nodegp.graph import Graph
from nodegp.interchange import as_graph
from nodegp.labels import as_labels, encode, is_labelled, require_classes

__all__ = ["Labels", "NodeClassifier"]


class Labels(NamedTuple):
    """The labelled nodes and the position of each one's class."""

    nodes: np.ndarray
    targets: np.ndarray


class NodeClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier of the nodes of a graph.

    Its ``fit`` learns on a copy and takes over what that has learnt, so that one that fails leaves
    the estimator as it was.
    """

    unlabelled: Any  # the value in y that means no label, besides None and NaN
    random_state: Any

    # Set by fit.
    classes_: np.ndarray
    labelled_: np.ndarray
    graph_: Graph

    @abstractmethod
    def predict_proba(self, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities, shape (nodes, classes), in the order of ``classes_``."""

    def predict(self, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """The most probable class of each node."""
        return self.classes_[self.predict_proba(graph, nodes).argmax(axis=1)]

    def score(self, graph: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the nodes that have a label in ``y``."""
        check_is_fitted(self)
        return labelled_accuracy(self, self.graph_ if graph is None else graph, y, sample_weight)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "graph_")

    def _checked_graph(self, graph: Any) -> Graph:
        graph = as_graph(graph)
        if not isinstance(graph, Graph):
            raise TypeError(
                f"{type(self).__name__} works on a nodegp.Graph, got a {type(graph).__name__}; "
                "make one with nodegp.Graph(adjacency, features)"
            )
        return graph

    def _learn_classes(self, y: Any, graph: Graph, classes: Any) -> Labels:
        """Set the classes, and return the labels in their terms."""
        y, labelled = self._labels(y, "y", graph)
        require_classes(y[labelled])
        self.classes_, targets = encode(y[labelled], classes)
        return Labels(labelled, targets)

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
