"""Sigma-optimality (Ma, Garnett and Schneider 2013), the paper's SOPT.

The labels are taken for a Gaussian field with precision L, the graph's Laplacian. The next node
is the one whose label lowers the variance of the sum over all nodes the most:
``argmax_k rowsum(C)_k / sqrt(C_kk)`` with ``C = L_uu^-1`` over the unlabelled nodes u.
"""

from __future__ import annotations

import numpy as np

from nodegp.active.design import FieldDesign, refined
from nodegp.active.field import Part


class SOPT(FieldDesign):
    """Sigma-optimal design: needs the graph and where the labels are, no model.

    Removing a labelled node from u is a rank-one change of C. C itself is never formed: with
    the Laplacian's pseudo-inverse at hand, of which one is kept per graph, a question costs
    O(N) for each label so far.

    **Disconnected graphs.** Each component is a field of its own. One without a label has a
    level that nothing determines; it is given the variance of one average edge, so that the
    first label in a component of n nodes is worth about n, and is asked for at the node with
    the smallest variance around that level. A large component is opened before a small one,
    and an isolated node, from which no other learns, comes near the end.

    **Batches** are chosen one node after the other, as if each were labelled at once: the
    answers do not matter here, so a batch is what single questions would have been.

    **Large components** are scored by estimate and a shortlist of them exactly: see
    :class:`nodegp.active.design.FieldDesign`.
    """

    name = "sopt"
    score_means = "root of the fall in the variance of the field's sum over all nodes"

    def worth(self, part: Part, open_: np.ndarray) -> np.ndarray:
        return refined(part, open_, lambda: part.sums() / np.sqrt(part.variances()))
