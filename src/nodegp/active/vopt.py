"""V-optimality (Ji and Han 2012).

On the same Gaussian field as :mod:`nodegp.active.sopt`, the next node is the one whose label
lowers the sum of all nodes' variances the most: ``argmax_k sum_j C_jk^2 / C_kk``.
"""

from __future__ import annotations

import numpy as np

from nodegp.active.design import FieldDesign, refined
from nodegp.active.field import Part


class VOPT(FieldDesign):
    """V-optimal design: like :class:`SOPT`, for the variances of nodes rather than of their sum.

    SOPT is drawn to nodes that matter to all others, this one to where the field is least
    known, which is often at the rim. Disconnected graphs, batches and large components are as
    there; a question costs O(N^2).
    """

    name = "vopt"
    score_means = "fall in the sum of the field's variances over all nodes"

    def worth(self, part: Part, open_: np.ndarray) -> np.ndarray:
        return refined(part, open_, lambda: part.squares() / part.variances())
