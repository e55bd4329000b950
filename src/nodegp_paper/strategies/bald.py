"""BALD (Houlsby et al. 2011) and, for a batch, BatchBALD (Kirsch et al. 2019).

The score is the mutual information of a node's label and the model's latents: how much of the
uncertainty the model could learn from, leaving out what no label would resolve. The worth of a
batch is the information of all its labels together,

    I(y_1..y_b; h) = H(y_1..y_b) - sum_i E_h H(y_i | h),

so that two nodes that would tell the same are not asked about at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.special import entr, xlogy

from nodegp.active.acquisition import Acquisition, Situation, best

__all__ = ["BALD"]


@dataclass(frozen=True)
class BALD(Acquisition):
    """Ask about the labels that tell most of the latents, jointly over a batch.

    Parameters
    ----------
    pool : int
        A batch is looked for among this many candidates, those with the most information one by
        one: the joint distribution of all is too large to draw from, and the information of a
        node given others is at most what it is alone.
    n_samples : int
        Joint draws of the latents.
    n_outcomes : int
        At most so many combinations of answers are kept. Up to there a batch's entropy is summed
        over all of them, from there on over a random sample. The largest arrays have
        ``n_outcomes * max(n_samples, pool * classes)`` entries.

    Notes
    -----
    The model must offer ``predict_information(graph, nodes)`` and, for a batch,
    ``sample_proba(graph, nodes, n_samples, random_state)``, as ``GraphGPClassifier`` does.
    """

    name = "bald"
    score_means = (
        "information of label and latents in nats, beyond that of the nodes before it in the batch"
    )
    needs_model = True

    pool: int = 200
    n_samples: int = 500
    n_outcomes: int = 1024

    def __post_init__(self) -> None:
        for item in fields(self):
            if (value := getattr(self, item.name)) < 1:
                raise ValueError(f"{item.name} must be at least 1, got {value}")

    def scores(self, situation: Situation) -> np.ndarray:
        """The information of each candidate alone; minus infinity for other nodes."""
        model = situation.model
        if not hasattr(model, "predict_information"):
            raise TypeError(
                f"bald needs a model with latents (GraphGPClassifier), got "
                f"{type(model).__name__}; use entropy or margin"
            )
        nodes = np.flatnonzero(situation.candidates)
        scores = np.full(situation.graph.n_nodes, -np.inf)
        scores[nodes] = model.predict_information(situation.graph, nodes)[1]
        return scores

    def picks(self, situation: Situation, n: int) -> list[tuple[int, float]]:
        scores = self.scores(situation)
        first = best(scores, situation.candidates)
        picked = [(first, float(scores[first]))]
        if n == 1:
            return picked
        order = np.argsort(-scores, kind="stable")[: situation.candidates.sum()]
        pool = order[: max(self.pool, n)]
        model, rng = situation.model, situation.rng
        proba = model.sample_proba(situation.graph, pool, self.n_samples, rng)  # (S, P, C)
        joint = _Joint(np.asarray(proba, dtype=np.float64), self.n_outcomes, rng)
        open_ = pool != first
        joint.add(int(np.argmin(open_)))
        while len(picked) < n:
            gains = joint.gains()
            place = best(gains, open_)
            picked.append((int(pool[place]), float(gains[place])))
            joint.add(place)
            open_[place] = False
        return picked


class _Joint:
    """The distribution of the answers to a batch, given draws of the latents.

    ``outcomes`` has a row per combination of answers: its probability under each draw. A sum over
    all combinations, or over a sample of them, is ``sum_k weights_k (...)_k``.
    """

    def __init__(self, proba: np.ndarray, n_outcomes: int, rng: np.random.Generator):
        self._proba, self._most, self._rng = proba, n_outcomes, rng
        self._noise = entr(proba).sum(axis=2).mean(axis=0)  # (P,) E_h H(y_i | h)
        self._outcomes = np.ones((1, len(proba)))  # (K, S)
        self._weights = np.ones(1)

    def gains(self) -> np.ndarray:
        """I(batch and i; h) - I(batch; h) for every node i of the pool."""
        n_draws, n_pool, n_classes = self._proba.shape
        with_i = self._outcomes @ self._proba.reshape(n_draws, -1) / n_draws  # (K, P C)
        terms = xlogy(with_i, with_i).reshape(-1, n_pool, n_classes).sum(axis=2)
        alone = self._outcomes.mean(axis=1)
        # The entropy of the batch is taken over the same sample, so that its error cancels.
        entropy = -self._weights @ terms + self._weights @ xlogy(alone, alone)
        return entropy - self._noise

    def add(self, i: int) -> None:
        """Put node i of the pool into the batch."""
        of_i = self._proba[:, i].T  # (C, S)
        self._outcomes = (self._outcomes[:, None] * of_i).reshape(-1, of_i.shape[1])
        self._weights = np.repeat(self._weights, len(of_i))
        if len(self._weights) <= self._most:
            return
        probability = self._outcomes.mean(axis=1)
        mass = self._weights * probability
        drawn = self._rng.choice(len(mass), self._most, p=mass / mass.sum())
        self._outcomes = self._outcomes[drawn]
        self._weights = mass.sum() / (self._most * probability[drawn])
