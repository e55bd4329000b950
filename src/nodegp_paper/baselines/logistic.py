"""Logistic regression on the features alone: the floor that a graph has to lift."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from nodegp.graph import Graph
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain
from nodegp_paper.baselines.base import Baseline, Labels, check_number

__all__ = ["Classifier", "FeatureLogistic"]


class FeatureLogistic(Baseline):
    """Logistic regression (multinomial, L2) on each node's own features; edges play no part.

    Features are prepared as our own model prepares them, so that the two see the same: "auto" is
    TF-IDF with rows of length one for sparse counts, rows of length one for other sparse
    features, and standardised columns for the rest. On random splits that leave out the public
    test nodes, no other of the preparations, and no larger ``C``, was better by more than two
    points on any of Cora, Citeseer and Pubmed.

    Parameters
    ----------
    preprocessing : {"auto", "tfidf", "l2", "standardise", "raw"}
    C : float
        The inverse strength of the L2 penalty; scikit-learn's default.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : ignored
        Here so that all baselines can be made alike.

    Attributes
    ----------
    classifier_ : the :class:`Classifier`
    """

    name = "Logistic"
    needs_features = True
    inductive = True
    deterministic = True

    def __init__(
        self,
        preprocessing: str = "auto",
        C: float = 1.0,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.preprocessing = preprocessing
        self.C = C
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        self._preprocessor = Preprocessor.fit(graph.features, self.preprocessing)
        rows = self._rows(graph)
        self.classifier_ = Classifier(len(self.classes_), self.C)
        self.classifier_.fit(rows[labels.nodes], labels.targets)
        return self.classifier_.proba(rows)

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        return self.classifier_.proba(self._rows(graph))

    def _rows(self, graph: Graph) -> Any:
        """Prepared features. Not centred, so that sparse stays sparse: the intercepts do that."""
        return Domain(graph, self._preprocessor).rows.materialise().uncentred()


class Classifier:
    """scikit-learn's logistic regression, for any number of classes with and without labels.

    A class without labels gets probability zero; if only one has labels, it gets probability one.
    """

    def __init__(self, n_classes: int, C: float = 1.0, one_vs_rest: bool = False):
        check_number("C", C, np.finfo(float).tiny)
        self.n_classes = n_classes
        model = LogisticRegression(C=C, max_iter=10_000)
        self._model = OneVsRestClassifier(model) if one_vs_rest else model

    def fit(self, rows: Any, targets: np.ndarray) -> None:
        self._present = np.unique(targets)
        if len(self._present) > 1:
            self._model.fit(rows, targets)

    def proba(self, rows: Any) -> np.ndarray:
        proba = np.zeros((rows.shape[0], self.n_classes))
        several = len(self._present) > 1
        proba[:, self._present] = self._model.predict_proba(rows) if several else 1.0
        return proba
