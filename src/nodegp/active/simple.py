"""Strategies of a line: at random, by degree, and uncertainty sampling (Lewis and Gale 1994).

Entropy and margin work with any model that has ``predict_proba``. But for random choice, a batch
takes neighbours of a chosen node only when no others are left, because what one answer tells of its
neighbours need not be asked twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from nodegp.active.acquisition import Acquisition, Situation

__all__ = ["Degree", "Entropy", "Margin", "Random"]


@dataclass(frozen=True)
class Random(Acquisition):
    """Any candidate with equal chance: the paper's RAND."""

    name = "random"
    score_means = "a random number; every node has the same chance"

    def scores(self, situation: Situation) -> np.ndarray:
        return situation.rng.random(situation.graph.n_nodes)


@dataclass(frozen=True)
class Degree(Acquisition):
    """The node with the largest degree, weights counted; a batch avoids neighbours."""

    name = "degree"
    score_means = "sum of the weights of the node's edges"
    keeps_apart = True

    def scores(self, situation: Situation) -> np.ndarray:
        return situation.graph.degrees


@dataclass(frozen=True)
class Entropy(Acquisition):
    """The node whose predicted class has the highest entropy."""

    name = "entropy"
    score_means = "entropy of the predicted class, in nats"
    needs_model = keeps_apart = True

    def scores(self, situation: Situation) -> np.ndarray:
        return entr(_probabilities(self, situation)).sum(axis=1)


@dataclass(frozen=True)
class Margin(Acquisition):
    """The node whose two most probable classes are closest (Scheffer et al. 2001)."""

    name = "margin"
    score_means = "1 less the gap between the probabilities of the two likeliest classes"
    needs_model = keeps_apart = True

    def scores(self, situation: Situation) -> np.ndarray:
        proba = _probabilities(self, situation)
        if proba.shape[1] < 2:
            return np.zeros(len(proba))
        top = np.partition(proba, -2, axis=1)
        return 1.0 - (top[:, -1] - top[:, -2])


def _probabilities(strategy: Acquisition, situation: Situation) -> np.ndarray:
    """What the model says of every node, (N, C)."""
    if situation.model is None:
        raise ValueError(f"{strategy.name} needs a fitted model to score nodes by")
    proba = np.asarray(situation.model.predict_proba(situation.graph), dtype=np.float64)
    if proba.ndim != 2 or len(proba) != situation.graph.n_nodes:
        raise ValueError(
            f"the model's predict_proba gave shape {proba.shape} for a graph of "
            f"{situation.graph.n_nodes} nodes; it must give one row per node"
        )
    return proba
