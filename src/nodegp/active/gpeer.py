"""Expected error reduction (Roy and McCallum 2001) with a Gaussian process.

For each of some candidates k and each answer c the model says what would become of its latent
values, without a fit: the answer is a Gaussian site at h_k, from the likelihood at the marginals
of today, and the posterior covariance carries it to every other node,

    m_j + C_jk g / (1 + lambda C_kk),    v_j - C_jk^2 lambda / (1 + lambda C_kk).

Asked about is the node with the lowest expected number of wrong nodes, averaged over its answers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nodegp.active.acquisition import Situation
from nodegp.active.hybrid import Hybrid
from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.likelihoods import Softmax

SHORTLIST = 64


class GPEER(Hybrid):
    """Ask where the model expects to make fewer mistakes afterwards.

    Scored are the ``SHORTLIST`` best candidates of :class:`Hybrid`, each at O(N C^2); no other
    can be chosen. The model must be a :class:`nodegp.GraphGPClassifier` with softmax likelihood.
    In a batch the candidates after the first are the next best.
    """

    name = "gp-eer"
    score_means = "expected fall in the number of nodes that the model gets wrong"

    def lacks(self, situation: Situation) -> str:
        known = getattr(situation.model, "classes_", None)
        if known is not None and len(known) < 2:
            return "two classes"
        return super().lacks(situation)

    def picks(self, situation: Situation, n: int) -> list[tuple[int, float]]:
        model, graph = situation.model, situation.graph
        coverage = self.scores(situation)
        coverage[~situation.candidates] = -np.inf
        count = min(max(SHORTLIST, n), int(situation.candidates.sum()))
        shortlist = np.sort(np.argsort(-coverage, kind="stable")[:count])
        gains = expected_gains(model, graph, shortlist)
        order = np.argsort(-gains, kind="stable")[:n]
        return [(int(shortlist[i]), float(gains[i])) for i in order]


@torch.no_grad()
def expected_gains(model: GraphGPClassifier, graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Expected fall of the number of wrong nodes by asking about each of these."""
    likelihood, temperature = model.likelihood_, model.temperature_
    if not isinstance(likelihood, Softmax):
        raise TypeError("gp-eer needs a model with likelihood='softmax'; use hybrid")
    everyone = np.arange(graph.n_nodes)
    mean, var = (torch.from_numpy(part) for part in model.predict_latent(graph))  # (N, L)
    across = model.model_.across(model.model_.domain(graph), nodes, everyone)
    proba = torch.from_numpy(model.predict_proba(graph, nodes))
    # Single precision, and latents first: all of this is to compare one answer with another.
    now, left = mean.mT.float().contiguous()[:, None], var.mT.float().contiguous()[:, None]
    wrong = 1.0 - _highest(now, left, temperature)[0]
    gains = []
    for place, node in enumerate(nodes.tolist()):
        gradient, precision = _site(likelihood, mean[node], var[node])  # (L, C, 1)
        carried = across[:, place, None].float()  # (L, 1, N)
        after = 1.0 - _highest(
            now + carried * gradient, left - carried.square() * precision, temperature
        )
        after[:, node] = 0.0
        gains.append(float(wrong.sum() - proba[place] @ after.sum(1).double()))
    return np.array(gains)


def _site(likelihood: Softmax, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
    """g and lambda of each answer at a node, both over 1 + lambda C_kk: (L, C, 1)."""
    n_classes = len(mean)
    found = likelihood.expectation(
        torch.arange(n_classes),
        mean.expand(n_classes, -1),
        var.expand(n_classes, -1),
        torch.ones(n_classes, dtype=mean.dtype),
    )
    precision = -2.0 * found.variance_gradient  # (C, L)
    kept = 1.0 + precision * var
    gradient, precision = (
        (part / kept).mT[:, :, None] for part in (found.mean_gradient, precision)
    )
    return gradient.float(), precision.float()


def _highest(mean: Tensor, var: Tensor, temperature: float) -> Tensor:
    """Probability of the likeliest class, by MacKay's (1992) approximation; latents come first."""
    flattened = mean / var.clamp_min(0.0).mul(np.pi / 8.0).add_(1.0).sqrt_().mul_(temperature)
    flattened -= flattened.amax(0)
    return 1.0 / flattened.exp_().sum(0)
