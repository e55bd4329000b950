"""Gaussian-process classification for a prior that is stated over the nodes of one graph.

The package's own priors are made from a kernel and a filter. Earlier models state the covariance
of the nodes' latent values outright; this hands such a one to the same inference, with the same
likelihood: the class is that of the largest latent value.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from nodegp import inference
from nodegp.inducing import Labelled
from nodegp.likelihoods import Likelihood, RobustMax
from nodegp.prior import Domain, Inputs, Prior
from nodegp_paper.baselines.base import Labels

__all__ = ["NodePrior", "Nodes", "classify", "fit"]

_BLOCK = 1 << 22  # entries of the largest array over (latents, labels, nodes)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes as inputs of a prior that knows them by their numbers."""

    numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, inputs: Inputs) -> Nodes:
        if not isinstance(inputs, Nodes):
            raise TypeError(f"inputs of a prior of another kind: {type(inputs).__name__}")
        return inputs

    def take(self, index: np.ndarray) -> Nodes:
        return Nodes(self.numbers[index])

    def materialise(self) -> Nodes:
        return self


@dataclass(frozen=True)
class NodePrior(Prior):
    """A prior over the nodes of the one graph that it was made for."""

    def at(self, domain: Domain, nodes: np.ndarray) -> Nodes:
        return Nodes(nodes)


def fit(
    prior: NodePrior,
    domain: Domain,
    nodes: np.ndarray,
    y: np.ndarray,
    likelihood: Likelihood,
    n_latents: int,
    rng: np.random.Generator,
) -> inference.Fit:
    """The posterior of labels ``y`` at some nodes, with the prior's free parameters learnt."""
    template = torch.zeros((), dtype=torch.float64)
    problem = inference.Problem(
        prior=prior,
        likelihood=likelihood,
        projector=Labelled().prepare(prior, domain, nodes, template, rng),
        y=torch.from_numpy(y),
        confidence=torch.ones(len(y), dtype=torch.float64),
        n_latents=n_latents,
        rng=rng,
    )
    result = inference.Dual().fit(problem, lambda line: None)
    if not result.converged:
        warnings.warn(
            f"the Gaussian process did not converge in {result.n_iter} iterations "
            f"(elbo {result.elbo:.4f}); {result.advice}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return result


def classify(
    prior: NodePrior, domain: Domain, labels: Labels, n_classes: int, rng: np.random.Generator
) -> tuple[np.ndarray, inference.Fit]:
    """Class probabilities of all nodes, (N, C), and the fit that they come from."""
    # A class without labels has no latent of its own, and no chance.
    seen, targets = np.unique(labels.targets, return_inverse=True)
    fitted = fit(prior, domain, labels.nodes, targets, RobustMax(), len(seen), rng)
    proba = np.zeros((domain.n_nodes, n_classes))
    step = max(_BLOCK // (len(seen) * len(targets)), 1)
    for start in range(0, len(proba), step):
        nodes = np.arange(start, min(start + step, len(proba)))
        with torch.no_grad():
            marginals = fitted.posterior.marginals(Nodes(nodes))
            among_seen = fitted.likelihood.predict(*marginals)
        proba[np.ix_(nodes, seen)] = among_seen.numpy()
    return proba, fitted
