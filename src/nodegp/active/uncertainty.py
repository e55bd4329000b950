"""Uncertainty sampling (Lewis and Gale 1994): the node whose class the model is least sure of.

Works with any model that has ``predict_proba``. A batch takes neighbours of a chosen node only
when no others are left, because what one answer tells of its neighbours need not be asked twice.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.special import entr

from nodegp.active.acquisition import Acquisition, Situation


class Uncertainty(Acquisition):
    """A score from a model's class probabilities."""

    keeps_apart = True

    @abstractmethod
    def of(self, proba: np.ndarray) -> np.ndarray:
        """How uncertain each row of class probabilities is."""

    def lacks(self, situation: Situation) -> str:
        return "a fitted model" if situation.model is None else ""

    def scores(self, situation: Situation) -> np.ndarray:
        if situation.model is None:
            raise ValueError(f"{self.name} needs a fitted model to score nodes by")
        proba = np.asarray(situation.model.predict_proba(situation.graph), dtype=np.float64)
        if proba.ndim != 2 or len(proba) != situation.graph.n_nodes:
            raise ValueError(
                f"the model's predict_proba gave shape {proba.shape} for a graph of "
                f"{situation.graph.n_nodes} nodes; it must give one row per node"
            )
        return self.of(proba)


class Entropy(Uncertainty):
    """The node whose predicted class has the highest entropy."""

    name = "entropy"
    score_means = "entropy of the predicted class, in nats"

    def of(self, proba: np.ndarray) -> np.ndarray:
        return entr(proba).sum(axis=1)


class Margin(Uncertainty):
    """The node whose two likeliest classes are closest (Scheffer et al. 2001)."""

    name = "margin"
    score_means = "1 less the gap between the probabilities of the two likeliest classes"

    def of(self, proba: np.ndarray) -> np.ndarray:
        if proba.shape[1] < 2:
            return np.zeros(len(proba))
        top = np.partition(proba, -2, axis=1)
        return 1.0 - (top[:, -1] - top[:, -2])
