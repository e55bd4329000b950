"""Iterative classification: Lu and Getoor (ICML 2003), *Link-based Classification*.

One classifier sees a node's features, another sees the labels of its neighbours too. The first
guesses every label, the second goes over the nodes again and again until the guesses settle.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from nodegp.graph import Graph
from nodegp.seeds import generator
from nodegp_paper.baselines.base import Baseline, Labels, check_number

__all__ = ["ICA", "Linear", "aggregated"]

AGGREGATES = ("count", "proportion", "mode")


class ICA(Baseline):
    """Logistic regression on features and on the neighbours' labels, iterated.

    1. A classifier of the features alone, trained on the labels, guesses all other nodes.
    2. A classifier of the features and an aggregate of the neighbours' labels, guessed ones
       included, is trained on the labelled nodes.
    3. The latter goes over the unlabelled nodes in random order, each node seeing what the ones
       before it were just given, until no label changes or ``max_iter`` passes are done.

    The settings are those of the row in Kipf and Welling (ICLR 2017, Section 5.2) and of the
    authors' code for it, https://github.com/tkipf/ica: logistic regression for both classifiers,
    features as they are, ten passes, and with ``y_val`` the strength of the L2 penalty and the
    aggregate (count or proportion) chosen by accuracy there. They do not say from which penalties;
    ours are six, a factor of ten apart. Without ``y_val`` it is scikit-learn's default and counts,
    as their code has it. One order is drawn for all passes, as there. Unlike there, logistic
    regression has one softmax over all classes, not one classifier against the rest for each,
    scikit-learn's default having changed since. Sen and others (AI Magazine 2008) describe the
    same algorithm with a new order in each pass.

    Edge weights count: a neighbour adds its weight in place of one. Labelled nodes keep their
    label with certainty; the probabilities of the others are those of their last visit.

    Parameters
    ----------
    aggregate : "count", "proportion" or "mode"
        How neighbours' labels enter: the weight of each class around the node, its share, or a
        one for the heaviest class (of equal ones, the first). Of no effect with ``y_val``.
    C : float
        The inverse of the penalty. Of no effect with ``y_val``.
    max_iter : int
        Passes over the unlabelled nodes.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : int, Generator or RandomState, optional

    Attributes
    ----------
    aggregate_, C_ : what was used
    n_iter_ : passes that were made
    """

    name = "ICA"
    needs_features = True
    uses_validation = True
    _SEARCHED = tuple(product(("count", "proportion"), (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)))

    def __init__(
        self,
        aggregate: str = "count",
        C: float = 1.0,
        max_iter: int = 10,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.aggregate = aggregate
        self.C = C
        self.max_iter = max_iter
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        self._check_parameters()
        free = np.setdiff1d(np.arange(graph.n_nodes), labels.nodes)
        order = generator(self.random_state).permutation(free)
        settings = [(self.aggregate, self.C)] if validation is None else list(self._SEARCHED)
        best = -1.0
        for aggregate, C in settings:
            proba, passes = self._iterate(graph, labels, order, aggregate, float(C))
            accuracy = 0.0
            if validation is not None:
                guess = proba[validation.nodes].argmax(axis=1)
                accuracy = float((guess == validation.targets).mean())
            if accuracy > best:
                best, best_proba = accuracy, proba
                self.aggregate_, self.C_, self.n_iter_ = aggregate, C, passes
        return best_proba

    def _iterate(
        self, graph: Graph, labels: Labels, order: np.ndarray, aggregate: str, C: float
    ) -> tuple[np.ndarray, int]:
        """Probabilities of all nodes, and how many passes they took."""
        n_classes = len(self.classes_)
        adjacency = graph.adjacency
        features: Any = graph.features
        local = Linear.fit(features[labels.nodes], labels.targets, n_classes, C)
        proba = softmax(local.scores(features), axis=1)
        proba[labels.nodes] = np.eye(n_classes)[labels.targets]
        guess = proba.argmax(axis=1)
        around = adjacency @ np.eye(n_classes)[guess]  # (N, C) weight of each class

        seen = _stacked(features, aggregated(around, aggregate))
        relational = Linear.fit(seen[labels.nodes], labels.targets, n_classes, C)
        n_features = features.shape[1]
        # What the features say does not change; only the neighbours' part is made again.
        fixed = relational.part(0, n_features).scores(features)
        weights = relational.weights[n_features:]  # (C, C)
        passes, changed = 0, True
        while changed and passes < self.max_iter:
            passes, changed = passes + 1, False
            for node in order:
                scores = fixed[node] + aggregated(around[node], aggregate) @ weights
                proba[node] = scores
                new, old = int(scores.argmax()), guess[node]
                if new != old:
                    ends = slice(adjacency.indptr[node], adjacency.indptr[node + 1])
                    near, weight = adjacency.indices[ends], adjacency.data[ends]
                    around[near, old] -= weight
                    around[near, new] += weight
                    guess[node], changed = new, True
        proba[order] = softmax(proba[order], axis=1)  # scores until here
        return proba, passes

    def _check_parameters(self) -> None:
        if self.aggregate not in AGGREGATES:
            raise ValueError(f"aggregate must be one of {list(AGGREGATES)}, got {self.aggregate!r}")
        check_number("C", self.C, np.finfo(float).tiny)
        check_number("max_iter", self.max_iter, 1, whole=True)


class Linear(NamedTuple):
    """What logistic regression learnt, as scores of all classes."""

    weights: np.ndarray  # (D, C)
    bias: np.ndarray  # (C,), minus infinity for a class without labels

    @classmethod
    def fit(cls, features: Any, targets: np.ndarray, n_classes: int, C: float) -> Linear:
        seen = np.unique(targets)
        weights = np.zeros((features.shape[1], n_classes))
        bias = np.full(n_classes, -np.inf)
        bias[seen] = 0.0
        if len(seen) > 1:
            model = LogisticRegression(C=C, max_iter=1000).fit(features, targets)
            coefficients, offset = model.coef_, model.intercept_
            if len(seen) == 2:  # scikit-learn gives the second class alone
                coefficients = np.vstack([0.0 * coefficients, coefficients])
                offset = np.append(0.0, offset)
            weights[:, seen], bias[seen] = coefficients.T, offset
        return cls(weights, bias)

    def part(self, start: int, stop: int) -> Linear:
        """The same for some of the columns."""
        return Linear(self.weights[start:stop], self.bias)

    def scores(self, features: Any) -> np.ndarray:
        return features @ self.weights + self.bias


def aggregated(around: np.ndarray, aggregate: str) -> np.ndarray:
    """What a node is told of its neighbours, from the weight of each class among them (..., C)."""
    if aggregate == "count":
        return around
    if aggregate == "proportion":
        total = around.sum(axis=-1, keepdims=True)
        return around / np.where(total > 0, total, 1.0)
    heaviest = np.arange(around.shape[-1]) == around.argmax(axis=-1)[..., None]
    return (heaviest & (around > 0)).astype(float)


def _stacked(features: Any, aggregates: np.ndarray) -> Any:
    if sp.issparse(features):
        return sp.csr_array(sp.hstack([features, sp.csr_array(aggregates)]))
    return np.hstack([features, aggregates])
