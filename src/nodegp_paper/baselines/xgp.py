"""The mixed-graph Gaussian process (XGP): Silva, Chu and Ghahramani (NIPS 2007).

*Hidden Common Cause Relations in Relational Learning*. A link tells of a hidden cause that acts on
both ends, so what the features do not explain is correlated between linked nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.filters import Identity
from nodegp.graph import Graph
from nodegp.kernels import RBF, Kernel
from nodegp.linalg import threads_for
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain, FilteredFunction, Inputs
from nodegp.seeds import generator
from nodegp_paper.baselines.base import Baseline, Labels
from nodegp_paper.baselines.latent import NodePrior, Nodes, classify

__all__ = [
    "Causes",
    "CommonCauses",
    "MixedGraphGP",
    "clique_causes",
    "edge_causes",
    "maximal_cliques",
]

CAUSES = ("cliques", "edges")
_PATIENCE = 100  # cliques looked at, for each node and edge, before the search is given up


class MixedGraphGP(Baseline):
    """A function of the features plus errors with common causes.

    The latent value of a node is g = f(x) + e. The errors have variance one: a share v of it is
    due to the causes that act on the node, the rest is its own,

        Cov(g) = K + v U + (1 - v) I,

    where U_ij is the number of causes that i and j share, over the square root of the numbers
    that each has. There is one hidden cause to every maximal clique of the graph, and so zero
    between nodes that are not linked: information passes no further than from a node to its
    neighbours, which is little where labels are few. v is learnt by the ELBO. With two classes
    and a probit this is the paper's model; ours compares one such g for each class, and the
    package's own inference takes the place of expectation propagation.

    Maximal cliques are found in less than a second on citation graphs. Where they are too many,
    which is refused, ``causes="edges"`` gives each edge a cause. Edge weights count there: they
    are the causes' variances. A clique is one or is not, so weights play no part in it.

    We have no settings of the authors' for such data. The features are prepared as for the
    package's own models. On random splits of Cora, Citeseer and Pubmed without the public test
    nodes, Gaussian and cubic kernels of variance one were equal, and a linear one three points
    worse on Cora. So was a Gaussian whose variance is learnt: few labels are linked, and the ELBO
    then does without errors. Cliques and edges were within half a point of each other.

    Nothing is N x N here.

    Parameters
    ----------
    kernel : Kernel, optional
        On the features; by default ``RBF(1, 1)`` with nothing learnt. What is free in another one
        is learnt with v.
    causes : "cliques" or "edges"
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : ignored
        Nothing is random; here so that all baselines can be made alike.

    Attributes
    ----------
    share_ : v
    kernel_ : with what was learnt
    elbo_ : of the fit
    """

    name = "XGP"
    needs_features = True
    deterministic = True

    def __init__(
        self,
        kernel: Kernel | None = None,
        causes: str = "cliques",
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.causes = causes
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        if self.causes not in CAUSES:
            raise ValueError(f"causes must be one of {list(CAUSES)}, got {self.causes!r}")
        kernel = RBF().learn() if self.kernel is None else self.kernel
        acting = clique_causes(graph) if self.causes == "cliques" else edge_causes(graph)
        domain = Domain(graph, Preprocessor.fit(graph.features))
        with threads_for(len(labels.nodes)):
            prior = CommonCauses(FilteredFunction(kernel, Identity()), Causes(domain, acting))
            rng = generator(self.random_state)
            proba, fit = classify(prior, domain, labels, len(self.classes_), rng)
        learnt = fit.posterior.prior
        assert isinstance(learnt, CommonCauses)
        self.share_, self.kernel_ = float(learnt.share), learnt.features.kernel
        self.elbo_ = fit.elbo
        return proba


@dataclass(frozen=True, eq=False)
class Causes:
    """Where the prior is: a graph's nodes, and the causes ``acting`` on each, (N, causes) with
    rows of length one: the root of U."""

    domain: Domain
    acting: sp.csr_array


@dataclass(frozen=True)
class CommonCauses(NodePrior):
    """K + v U + (1 - v) I, with the odds v / (1 - v) for a hyper-parameter."""

    positive: ClassVar = ("odds",)
    features: FilteredFunction
    causes: Causes
    odds: float = 1.0

    @property
    def share(self) -> Any:
        return self.odds / (1.0 + self.odds)

    def cov(self, a: Inputs, b: Inputs) -> Tensor:
        K = self.features.cov(*(self._rows(inputs) for inputs in (a, b)))
        return self._with_errors(K, *self._shared(a, b))

    def var(self, a: Inputs) -> Tensor:
        return self.features.var(self._rows(a)) + 1.0

    def cached_cov(self, a: Inputs, b: Inputs) -> Callable[[Self], Tensor]:
        left = self._rows(a)
        cache = self.features.cached_cov(left, left if a is b else self._rows(b))
        shared = self._shared(a, b)
        return lambda prior: prior._with_errors(cache(prior.features), *shared)

    def _with_errors(self, K: Tensor, U: Tensor, own: Tensor) -> Tensor:
        return K + self.share * U + (1.0 - self.share) * own

    def _rows(self, inputs: Inputs) -> Inputs:
        return self.features.at(self.causes.domain, Nodes.of(inputs).numbers)

    def _shared(self, a: Inputs, b: Inputs) -> tuple[Tensor, Tensor]:
        """U and the identity between nodes."""
        left, right = (Nodes.of(inputs).numbers for inputs in (a, b))
        acting = self.causes.acting
        U = (acting[left] @ sp.csr_array(acting[right].T)).toarray()
        own = (left[:, None] == right).astype(np.float64)
        return torch.from_numpy(U), torch.from_numpy(own)


def edge_causes(graph: Graph) -> sp.csr_array:
    """One cause to an edge, of the edge's weight, and one to a node without any; (N, causes)."""
    edges = sp.coo_array(sp.triu(graph.adjacency, 1))
    alone = np.flatnonzero(np.diff(graph.adjacency.indptr) == 0)
    cause = np.arange(edges.nnz)
    entries = np.concatenate([np.sqrt(edges.data), np.sqrt(edges.data), np.ones(len(alone))])
    nodes = np.concatenate([edges.row, edges.col, alone])
    causes = np.concatenate([cause, cause, edges.nnz + np.arange(len(alone))])
    shape = graph.n_nodes, edges.nnz + len(alone)
    return _unit_rows(sp.csr_array((entries, (nodes, causes)), shape=shape))


def clique_causes(graph: Graph) -> sp.csr_array:
    """One cause to a maximal clique, and so one to a node without edges; (N, causes)."""
    cliques = list(maximal_cliques(graph))
    nodes = np.concatenate([np.array(clique) for clique in cliques])
    causes = np.repeat(np.arange(len(cliques)), [len(clique) for clique in cliques])
    shape = graph.n_nodes, len(cliques)
    return _unit_rows(sp.csr_array((np.ones(len(nodes)), (nodes, causes)), shape=shape))


def maximal_cliques(graph: Graph) -> Iterator[list[int]]:
    """Sets of nodes that are all linked to one another and are part of no larger such set.

    Bron and Kerbosch's search with pivots. Every clique is found from its node of lowest degree,
    which keeps the sets small around hubs.
    """
    ends = graph.adjacency.indptr
    near = [set(graph.adjacency.indices[a:b].tolist()) for a, b in pairwise(ends)]
    left = _PATIENCE * (graph.n_nodes + graph.n_edges)
    done: set[int] = set()
    for node in np.argsort(np.diff(ends), kind="stable").tolist():
        # A clique so far, the nodes that may join it, and those that could but were dealt with.
        open_ends = [([node], near[node] - done, near[node] & done)]
        while open_ends:
            clique, joining, before = open_ends.pop()
            left -= 1
            if left < 0:
                raise ValueError(
                    f"this graph of {graph.n_nodes:,} nodes and {graph.n_edges:,} edges has too "
                    "many cliques to find them all; use causes='edges'"
                )
            if not joining and not before:
                yield clique
            if not joining:
                continue
            # A clique of the pivot's neighbours alone is not maximal, so they need not come next.
            overlap = {other: len(joining & near[other]) for other in joining | before}
            pivot = max(overlap, key=overlap.__getitem__)
            for other in sorted(joining - near[pivot]):
                open_ends.append(([*clique, other], joining & near[other], before & near[other]))
                joining, before = joining - {other}, before | {other}
        done.add(node)


def _unit_rows(matrix: sp.csr_array) -> sp.csr_array:
    lengths = np.sqrt(np.asarray((matrix * matrix).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / lengths) @ matrix)
