"""Expected error reduction (Roy and McCallum 2001) with a Gaussian process.

For each of some candidates k and each answer c the model says what would become of its latent
values, without a fit: the answer is a Gaussian site at h_k, from the likelihood at the marginals
of today, and the posterior covariance carries it to every other node,

    m_j + C_jk g / (1 + lambda C_kk),    v_j - C_jk^2 lambda / (1 + lambda C_kk).

Asked about is the node with the lowest expected number of wrong nodes, averaged over its answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from nodegp.active.acquisition import Situation
from nodegp.active.gpvopt import Hybrid
from nodegp.active.latent import PosteriorModel, posterior_model
from nodegp.graph import Graph
from nodegp.likelihoods import Likelihood, Softmax
from nodegp.model import Recipe
from nodegp.prior import Domain

__all__ = ["GPEER", "SHORTLIST", "ClassifierModel", "expected_gains"]

SHORTLIST = 64


class ClassifierModel(PosteriorModel, Protocol):
    """What more this strategy asks: of the fitted model of a classifier."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def temperature(self) -> float: ...

    def predict_proba(self, domain: Domain, nodes: np.ndarray) -> np.ndarray:
        """Class probabilities, (nodes, C)."""


@dataclass(frozen=True)
class GPEER(Hybrid):
    """Ask where the model expects to make fewer mistakes afterwards.

    Scored are the ``SHORTLIST`` best candidates of :class:`Hybrid`, each at O(N C^2); no other
    can be chosen. The model must be a :class:`nodegp.GraphGPClassifier` with softmax likelihood.
    In a batch the candidates after the first are the next best.
    """

    name = "gp-eer"
    score_means = "expected fall in the number of nodes that the model gets wrong"

    def lacks(self, situation: Situation) -> str:
        classes = getattr(situation.model, "classes_", None)
        if classes is not None and len(classes) < 2:
            return "two classes"
        return super().lacks(situation)

    def picks(self, situation: Situation, n: int) -> list[tuple[int, float]]:
        coverage = self.scores(situation)
        coverage[~situation.candidates] = -np.inf
        count = min(max(SHORTLIST, n), int(situation.candidates.sum()))
        shortlist = np.sort(np.argsort(-coverage, kind="stable")[:count])
        model = posterior_model(situation.model, self.name)
        gains = expected_gains(model, situation.graph, shortlist)  # type: ignore[arg-type]
        order = np.argsort(-gains, kind="stable")[:n]
        return [(int(shortlist[i]), float(gains[i])) for i in order]


@torch.no_grad()
def expected_gains(model: ClassifierModel, graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """Expected fall of the number of wrong nodes by asking about each of these."""
    likelihood = model.recipe.likelihood
    if not isinstance(likelihood, Softmax):
        raise TypeError("gp-eer needs a model with likelihood='softmax'; use hybrid")
    domain, everyone = model.domain(graph), np.arange(graph.n_nodes)
    mean, var = model.marginals(domain, everyone)  # (N, L)
    across = model.across(domain, nodes, everyone)
    proba = torch.from_numpy(model.predict_proba(domain, nodes))
    # Single precision, and latents first: all of this is to compare one answer with another.
    now, left = mean.mT.float().contiguous()[:, None], var.mT.float().contiguous()[:, None]
    wrong = 1.0 - _highest(now, left, model.temperature)[0]
    gains = []
    for place, node in enumerate(nodes.tolist()):
        gradient, precision = _site(likelihood, mean[node], var[node])  # (L, C, 1)
        carried = across[:, place, None].float()  # (L, 1, N)
        after = 1.0 - _highest(
            now + carried * gradient, left - carried.square() * precision, model.temperature
        )
        after[:, node] = 0.0
        gains.append(float(wrong.sum() - proba[place] @ after.sum(1).double()))
    return np.array(gains)


def _site(likelihood: Likelihood, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
    """g and lambda of each answer at a node, both over 1 + lambda C_kk: (L, C, 1)."""
    n_classes = len(mean)
    expectation = likelihood.expectation(
        torch.arange(n_classes),
        mean.expand(n_classes, -1),
        var.expand(n_classes, -1),
        torch.ones(n_classes, dtype=mean.dtype),
    )
    precision = -2.0 * expectation.variance_gradient  # (C, L)
    gradient, precision = (
        (part / (1.0 + precision * var)).mT[:, :, None].float()
        for part in (expectation.mean_gradient, precision)
    )
    return gradient, precision


def _highest(mean: Tensor, var: Tensor, temperature: float) -> Tensor:
    """Probability of the likeliest class, by MacKay's (1992) approximation; latents come first."""
    flattened = mean / var.clamp_min(0.0).mul(np.pi / 8.0).add_(1.0).sqrt_().mul_(temperature)
    flattened -= flattened.amax(0)
    return 1.0 / flattened.exp_().sum(0)
