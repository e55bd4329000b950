"""Coverage where it matters: V-optimality, weighted by how often the model expects to be wrong.

A label is worth the variance that it takes from other nodes (:mod:`nodegp.active.gpvopt`), but
there is no use in knowing better what is decided already. So the variance of node j counts by the
model's expected error there, e_j = 1 - max_c p_jc:

    argmax_k  sum_j e_j C_jk^2 / (C_kk + noise).

With few labels all errors are alike and this spreads over the graph; with more it turns by itself
to regions in doubt, and never to single odd nodes, from which others learn nothing.
"""

from __future__ import annotations

import numpy as np

from nodegp.active.acquisition import Situation
from nodegp.active.gpvopt import GPVOPT


class Hybrid(GPVOPT):
    """Ask where a label lowers the latent variance of the doubtful nodes the most.

    Parameters, batches and large graphs are as in :class:`GPVOPT`; in a batch the errors are
    those before its first answer. The model must be a :class:`nodegp.GraphGPClassifier`.
    """

    name = "hybrid"
    score_means = "fall in the model's latent variances, weighted by its expected errors"

    def weights(self, situation: Situation) -> np.ndarray:
        if not hasattr(situation.model, "predict_proba"):
            raise TypeError(f"{self.name} needs a classifier; for a GraphGPRegressor use gp-vopt")
        error = 1.0 - situation.model.predict_proba(situation.graph).max(axis=1)
        # With one class known so far there is no error to expect, and coverage is all there is.
        return error if error.any() else np.ones(len(error))
