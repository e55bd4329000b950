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
from nodegp.inducing import LabelledProjector
from nodegp.likelihoods import Likelihood, RobustMax
from nodegp.prior import Domain, Inputs, Prior
from nodegp_paper.baselines.base import Labels

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
    prior: Prior,
    inputs: Inputs,
    y: np.ndarray,
    likelihood: Likelihood,
    n_latents: int,
    rng: np.random.Generator,
) -> inference.Fit:
    """The posterior of labels ``y`` at some inputs, with the prior's free parameters learnt."""
    template = torch.zeros((), dtype=torch.float64)
    problem = inference.Problem(
        prior=prior,
        likelihood=likelihood,
        projector=LabelledProjector(prior, inputs, template),
        y=torch.from_numpy(y),
        confidence=torch.ones(len(y), dtype=torch.float64),
        n_latents=n_latents,
        rng=rng,
    )
    found = inference.Dual().fit(problem, lambda line: None)
    if not found.converged:
        warnings.warn(
            f"the Gaussian process did not converge in {found.n_iter} iterations "
            f"(elbo {found.elbo:.4f}); {found.advice}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found


def classify(
    prior: Prior, labels: Labels, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[np.ndarray, inference.Fit]:
    """Class probabilities of all nodes, of this shape, and the fit that they come from."""
    # A class without labels has no latent of its own, and no chance.
    seen, targets = np.unique(labels.targets, return_inverse=True)
    fitted = fit(prior, Nodes(labels.nodes), targets, RobustMax(), len(seen), rng)
    proba = np.zeros(shape)
    step = max(_BLOCK // (len(seen) * len(targets)), 1)
    for start in range(0, len(proba), step):
        nodes = np.arange(start, min(start + step, len(proba)))
        with torch.no_grad():
            marginals = fitted.posterior.marginals(Nodes(nodes))
            found = fitted.likelihood.predict(*marginals)
        proba[np.ix_(nodes, seen)] = found.numpy()
    return proba, fitted
