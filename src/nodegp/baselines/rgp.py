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

from nodegp.baselines.base import Baseline, Labels, check_number
from nodegp.baselines.latent import classify
from nodegp.component import Component
from nodegp.covariance import covariance
from nodegp.features import Preprocessor
from nodegp.filters import Bags
from nodegp.graph import Graph
from nodegp.kernels import RBF, Kernel
from nodegp.linalg import cholesky, sparse_matmul, threads_for
from nodegp.seeds import generator

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

    needs_features = True

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
        start = EdgePrecision(self.precision, fixed=() if self.learn else ("precision",))
        with threads_for(graph.n_nodes):
            prior = ConditionedOnEdges(graph, kernel, labels.nodes)
            shape = graph.n_nodes, len(self.classes_)
            proba, fit = classify(prior, start, labels, shape, generator(self.random_state))
        self.precision_ = float(fit.posterior.kernel.parameters()["precision"])
        self.elbo_ = fit.elbo
        return proba


@dataclass(frozen=True)
class EdgePrecision(Component):
    """The hyper-parameter of :class:`ConditionedOnEdges`."""

    positive: ClassVar = ("precision",)
    precision: float = 1.0


class ConditionedOnEdges:
    """(K^-1 + precision L)^-1, cheap to have again at another precision.

    With K = C C^T and C^T L C = V diag(w) V^T it is B diag(1 / (1 + precision w)) B^T, B = C V.
    """

    def __init__(self, graph: Graph, kernel: Kernel, labelled: np.ndarray):
        rows = Preprocessor.fit(graph.features).rows_of(graph.features, graph.n_nodes)
        bags = Bags(None, rows).in_memory()
        with torch.no_grad():
            C, _ = cholesky(covariance(kernel, bags, bags), "covariance of the nodes")
            laplacian = sp.csr_array(sp.diags_array(graph.degrees) - graph.adjacency)
            w, V = torch.linalg.eigh(C.mT @ sparse_matmul(laplacian, C))
            self._roughness = w.clamp_min(0.0)
            self._basis = C @ V  # (N, N)
        self._labelled = self._basis[torch.from_numpy(labelled)]

    def of_labels(self, parameters: EdgePrecision) -> Tensor:
        return (self._labelled * self._kept(parameters)) @ self._labelled.mT

    def with_labels(self, parameters: EdgePrecision, nodes: np.ndarray) -> Tensor:
        return (self._basis[torch.from_numpy(nodes)] * self._kept(parameters)) @ self._labelled.mT

    def variance(self, parameters: EdgePrecision, nodes: np.ndarray) -> Tensor:
        return self._basis[torch.from_numpy(nodes)].square() @ self._kept(parameters)

    def _kept(self, parameters: EdgePrecision) -> Tensor:
        """The share of each direction's variance that the edges leave."""
        return 1.0 / (1.0 + parameters.precision * self._roughness)
