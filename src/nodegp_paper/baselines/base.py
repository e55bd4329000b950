"""What all baselines share: checking what comes in, and answering from class probabilities.

A method adds its parameters and :meth:`Baseline._learn`, which turns a graph and some labels into
probabilities for every node. It sees classes as positions, never as users write them.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from nodegp.graph import Graph
from nodegp.interchange import node_labels
from nodegp.labels import encode
from nodegp_paper.estimator import Labels, NodeClassifier

__all__ = ["Baseline", "Labels", "check_number"]


class Baseline(NodeClassifier):
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

    name: ClassVar[str]  # what tables call it; in the registry in lower case
    needs_features: ClassVar[bool] = False
    # Whether fit takes y_val. Comparing such a method with one that needs no validation labels
    # is only fair if those labels are counted.
    uses_validation: ClassVar[bool] = False
    # Whether a fitted model can answer for a graph that it was not fitted on.
    inductive: ClassVar[bool] = False
    # Whether it gives the same answer with every seed, so that one run of it is enough.
    deterministic: ClassVar[bool] = False

    proba_: np.ndarray  # set by fit

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

    def fit(self, graph: Any, y: Any = None, *, classes: Any = None, y_val: Any = None) -> Self:
        """Fit to a graph with labels for some of its nodes.

        Parameters
        ----------
        graph : Graph, networkx graph or PyTorch Geometric Data
        y : one entry per node
            Class labels, numbers or strings; ``unlabelled``, None or NaN for nodes without a label.
            Or a dict id -> label (node number -> label if the Graph has no ids), or on a networkx
            graph the name of a node attribute. For a Data it may be left out: then it is ``data.y``
            at the nodes of ``train_mask``, or at all nodes if there is no mask.
        classes : sequence, optional
            All classes, if some have no label yet.
        y_val : one entry per node, optional
            Validation labels, in the same form, for a method that uses them.
        """
        learner = copy(self)
        learner._fit(graph, y, classes, y_val)
        self.__dict__.update(vars(learner))
        return self

    def _fit(self, graph: Any, y: Any, classes: Any, y_val: Any) -> None:
        y = node_labels(graph, y)
        if y_val is not None:
            y_val = node_labels(graph, y_val)
        graph = self._checked_graph(graph)
        labels = self._learn_classes(y, graph, classes)
        validation = None if y_val is None else self._validation(y_val, graph)
        self.proba_ = self._learn(graph, labels, validation)
        if not np.isfinite(self.proba_).all():
            raise ValueError(
                f"{type(self).__name__} came to probabilities that are not finite: its training "
                "diverged. Lower its learning rate, or scale the features or weights"
            )
        self.labelled_, self.graph_ = labels.nodes, graph
        self.n_features_in_ = graph.n_features

    def _validation(self, y_val: Any, graph: Graph) -> Labels:
        if not self.uses_validation:
            raise ValueError(
                f"{type(self).__name__} has no use for validation labels; leave y_val out"
            )
        y_val, held_out = self._labels(y_val, "y_val", graph)
        fitted = set(self.classes_.tolist())
        unknown = [c for c in dict.fromkeys(y_val[held_out].tolist()) if c not in fitted]
        if unknown:
            raise ValueError(
                f"y_val has classes {unknown[:5]} that no label in y has; list all classes in "
                "classes="
            )
        return Labels(held_out, encode(y_val[held_out], self.classes_)[1])

    def _checked_graph(self, graph: Any) -> Graph:
        graph = super()._checked_graph(graph)
        if self.needs_features and not graph.n_features:
            raise ValueError(
                f"{type(self).__name__} needs node features and this graph has none; pass them to "
                "Graph (an identity matrix if there is nothing to say of the nodes)"
            )
        return graph

    # --- predicting -------------------------------------------------------------------------

    def predict_proba(self, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities, shape (nodes, classes), in the order of ``classes_``.

        Parameters
        ----------
        graph : as in :meth:`fit`, default the graph fitted on
            Another graph only if the method is ``inductive``.
        nodes : node numbers, ids that are text, or a mask, optional
            The nodes to predict; all by default.
        """
        check_is_fitted(self)
        proba = self.proba_
        if graph is not None and graph is not self.graph_:
            graph = self._checked_graph(graph)
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
