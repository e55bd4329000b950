"""The relational Gaussian process (RGP): Chu, Sindhwani, Ghahramani and Keerthi (NIPS 2006).

*Relational Learning with Gaussian Processes*. A Gaussian process on the features, conditioned on
the edges: each is an observation that its two ends are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.filters import Identity
from nodegp.graph import Graph
from nodegp.kernels import RBF, Kernel
from nodegp.linalg import cholesky, sparse_matmul, threads_for
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain, FilteredFunction, Inputs
from nodegp.seeds import generator
from nodegp_paper.baselines.base import Baseline, Labels, check_number
from nodegp_paper.baselines.latent import NodePrior, Nodes, classify

__all__ = ["ConditionedOnEdges", "Directions", "RelationalGP"]

_LARGEST = 6_000  # nodes: a few matrices of 290 MB, and minutes for the eigenvectors


class RelationalGP(Baseline):
    """A prior on functions of the features that has already seen the edges.

    An edge's factor exp(-precision w_ij (f_i - f_j)^2 / 2) on a prior with covariance K leaves
    the covariance (K^-1 + precision L)^-1, with L = D - W the graph's Laplacian. This is then the
    prior of each class's latent function, and the package's own inference does the rest, with
    the precision learnt by the ELBO.

    The paper's factor for an edge is that f_i and f_j have the same sign, but for noise, and
    expectation propagation makes a Gaussian of each. Signs mean something for two classes and one
    function only, so ours is the Gaussian factor, equal for all edges. The resulting
    covariance is also that of Sindhwani, Niyogi and Belkin (ICML 2005). We have no settings of
    the authors' for such data. The features are prepared as for the package's own models, and
    of the kernels tried on random splits of Cora and Citeseer without the public test nodes
    (Gaussian, cubic, linear), the Gaussian and the cubic were equal and the linear one worse.

    By its definition it needs matrices over all pairs of nodes; beyond 6,000 nodes it is refused.

    Parameters
    ----------
    kernel : Kernel, optional
        On the features; by default the Gaussian ``RBF(1, 1)``. Its hyper-parameters stay as they
        are.
    precision : float
        Of an edge of weight one: where learning starts.
    learn : bool
        Whether the precision is learnt.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : ignored
        Nothing is random; here so that all baselines can be made alike.

    Attributes
    ----------
    precision_ : what was learnt
    elbo_ : of the fit
    """

    name = "RGP"
    needs_features = True
    deterministic = True

    def __init__(
        self,
        kernel: Kernel | None = None,
        precision: float = 1.0,
        learn: bool = True,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.precision = precision
        self.learn = learn
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        check_number("precision", self.precision, np.finfo(float).tiny)
        if graph.n_nodes > _LARGEST:
            raise ValueError(
                f"RelationalGP needs matrices over all pairs of nodes and takes at most "
                f"{_LARGEST:,} of them, this graph has {graph.n_nodes:,}; fit it on a part of the "
                "graph (Graph.subgraph)"
            )
        kernel = RBF() if self.kernel is None else self.kernel
        domain = Domain(graph, Preprocessor.fit(graph.features))
        with threads_for(graph.n_nodes):
            prior = ConditionedOnEdges(
                Directions.of(domain, kernel),
                self.precision,
                fixed=() if self.learn else ("precision",),
            )
            rng = generator(self.random_state)
            proba, fit = classify(prior, domain, labels, len(self.classes_), rng)
        self.precision_ = float(fit.posterior.prior.parameters()["precision"])
        self.elbo_ = fit.elbo
        return proba


@dataclass(frozen=True, eq=False)
class Directions:
    """With K = C C^T and C^T L C = V diag(w) V^T: B = C V, and w, how rough each direction is."""

    basis: Tensor  # (N, N)
    roughness: Tensor  # (N,)

    @classmethod
    @torch.no_grad()
    def of(cls, domain: Domain, kernel: Kernel) -> Directions:
        graph = domain.graph
        features = FilteredFunction(kernel, Identity())
        inputs = features.at(domain, np.arange(graph.n_nodes)).materialise()
        C, _ = cholesky(features.cov(inputs, inputs), "covariance of the nodes")
        laplacian = sp.csr_array(sp.diags_array(graph.degrees) - graph.adjacency)
        w, V = torch.linalg.eigh(C.mT @ sparse_matmul(laplacian, C))
        return cls(C @ V, w.clamp_min(0.0))


@dataclass(frozen=True)
class ConditionedOnEdges(NodePrior):
    """(K^-1 + precision L)^-1 = B diag(1 / (1 + precision w)) B^T, cheap to have again at another
    precision."""

    positive: ClassVar = ("precision",)
    directions: Directions
    precision: float = 1.0

    def cov(self, a: Inputs, b: Inputs) -> Tensor:
        left, right = (self.directions.basis[Nodes.of(inputs).numbers] for inputs in (a, b))
        return (left * self._left()) @ right.mT

    def var(self, a: Inputs) -> Tensor:
        return self.directions.basis[Nodes.of(a).numbers].square() @ self._left()

    def _left(self) -> Tensor:
        """The share of each direction's variance that the edges leave."""
        return 1.0 / (1.0 + self.precision * self.directions.roughness)
