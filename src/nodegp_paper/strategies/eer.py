"""Expected error reduction on harmonic functions (Zhu, Lafferty and Ghahramani 2003).

The class probabilities f are harmonic: one at the labels, and at every other node the weighted
mean of its neighbours. The risk is the expected number of wrong nodes, ``sum_j 1 - max_c f_jc``.
An answer c at node k changes f to ``f_j + (e_c - f_k) C_jk / C_kk``, with C the covariance of
the same Gaussian field as in :mod:`nodegp.active.design`; so the risk after each possible answer is
known without solving again. The next node is the one with the lowest risk, averaged over its
answers by f_k. No model is needed, and none is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from nodegp.active.acquisition import Situation
from nodegp.active.design import FieldDesign, Part, Worth, refined, shortlist
from nodegp.active.large import LargeField, conjugate_gradients
from nodegp.budget import blocks, budget
from nodegp_paper.strategies.known import known_classes

__all__ = ["EER"]

_TOLERANCE = 1e-10


@dataclass(frozen=True)
class EER(FieldDesign):
    """Ask where the expected number of wrong nodes falls the most.

    Every candidate costs O(N C), a question therefore O(N^2 C). In a component too large for
    that only a shortlist is scored, by the expected change of f: its other nodes cannot be chosen.

    **Disconnected graphs.** In a component without a label all classes are equally likely, and
    one answer, wherever, is taken to decide all of it; so it is asked for at its centre.

    **Batches.** A node that was chosen is taken to be known, and its answer to be what is
    expected, which leaves f as it is: nothing can be gained through it any more.
    """

    name = "eer"
    score_means = "expected fall in the number of wrong nodes, on harmonic functions"

    def lacks(self, situation: Situation) -> str:
        _, codes = known_classes(situation)
        return "" if len(np.unique(codes)) > 1 else "labels of two classes"

    def worth(self, situation: Situation) -> Worth:
        if lacking := self.lacks(situation):
            raise ValueError(f"eer needs {lacking} to score nodes by")
        proba = _harmonic(situation.graph.adjacency, *known_classes(situation))
        return partial(_worth, proba, situation.labelled)


def _worth(proba: np.ndarray, labelled: np.ndarray, part: Part, open_: np.ndarray) -> np.ndarray:
    """The expected fall of the risk by each node of a part."""
    n, n_classes = len(part.nodes), proba.shape[1]
    if not labelled[part.nodes].any():
        if part.labelled:  # by a batch: the answer will have decided all of it
            return np.zeros(n)
        return refined(partial(_central, n * (1.0 - 1.0 / n_classes)))(part, open_)
    places = np.flatnonzero(open_)
    proba = proba[part.nodes]
    if isinstance(part, LargeField):
        change = (1.0 - (proba**2).sum(axis=1)) * part.sums() / part.variances()
        places = shortlist(change, open_)
        part.refine(places)
    gains = np.full(n, -np.inf)
    for rows in blocks(len(places), n * n_classes, budget.tile):
        block = places[rows]
        gains[block] = _gains(proba, part.columns(block), block)
    return gains


def _central(worth: float, part: Part) -> np.ndarray:
    """All nodes would do; the second factor only puts the central ones first."""
    variances = part.variances()
    return worth * (1.0 - 1e-6 * variances / variances.max())


def _gains(proba: np.ndarray, columns: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Expected fall of the risk for each of the places, whose columns of C are given."""
    share = columns / columns[np.arange(len(places)), places][:, None]  # (b, n): C_jk / C_kk
    # f_j - share f_k, to which an answer c adds the share at c; it is never negative.
    after = proba.T[:, None] - share * proba[places].T[:, :, None]  # (C, b, n)
    highest = after.max(axis=0)
    after += share
    np.maximum(after, highest, out=after)
    return (after.sum(axis=2).T * proba[places]).sum(axis=1) - proba.max(axis=1).sum()


def _harmonic(adjacency: sp.csr_array, nodes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Class probabilities, (N, C): L_uu f_u = A_ul Y_l; uniform where no label reaches."""
    n_nodes, n_classes = adjacency.shape[0], int(codes.max()) + 1
    one_hot = np.zeros((n_nodes, n_classes))
    one_hot[nodes, codes] = 1.0
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    laplacian = sp.csr_array(sp.diags_array(degrees) - adjacency)
    right = adjacency @ one_hot
    right[nodes] = 0.0
    proba = one_hot + conjugate_gradients(
        laplacian, np.where(degrees > 0, degrees, 1.0), right, nodes.tolist(), _TOLERANCE
    )
    proba = np.maximum(proba, 0.0)
    total = proba.sum(axis=1, keepdims=True)
    return np.where(total > 0.5, proba / np.where(total > 0, total, 1.0), 1.0 / n_classes)
