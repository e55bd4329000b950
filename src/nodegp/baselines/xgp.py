"""The mixed-graph Gaussian process (XGP): Silva, Chu and Ghahramani (NIPS 2007).

*Hidden Common Cause Relations in Relational Learning*. A link tells of a hidden cause that acts on
both ends, so what the features do not explain is correlated between linked nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.baselines.base import Baseline, Labels
from nodegp.baselines.latent import classify
from nodegp.component import Component
from nodegp.covariance import CovarianceCache, covariance, variance
from nodegp.features import LazyRows, Preprocessor
from nodegp.filters import Bags
from nodegp.graph import Graph
from nodegp.kernels import RBF, Kernel
from nodegp.linalg import threads_for
from nodegp.seeds import generator

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

    needs_features = True

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
        start = Errors(RBF().learn() if self.kernel is None else self.kernel)
        acting = clique_causes(graph) if self.causes == "cliques" else edge_causes(graph)
        rows = Preprocessor.fit(graph.features).rows_of(graph.features, graph.n_nodes)
        with threads_for(len(labels.nodes)):
            prior = CommonCauses(start.kernel, rows, acting, labels.nodes)
            shape = graph.n_nodes, len(self.classes_)
            proba, fit = classify(prior, start, labels, shape, generator(self.random_state))
        found: Any = fit.posterior.kernel
        self.share_, self.kernel_, self.elbo_ = float(found.share), found.kernel, fit.elbo
        return proba


@dataclass(frozen=True)
class Errors(Component):
    """The hyper-parameters of :class:`CommonCauses`: the kernel's, and the odds v / (1 - v)."""

    positive: ClassVar = ("odds",)
    kernel: Kernel
    odds: float = 1.0

    @property
    def share(self) -> Any:
        return self.odds / (1.0 + self.odds)


class CommonCauses:
    """K + v U + (1 - v) I. The ``acting`` causes are (N, causes), rows of length one: U's root."""

    def __init__(self, kernel: Kernel, rows: LazyRows, acting: sp.csr_array, labelled: np.ndarray):
        self._rows, self._acting, self._labelled = rows, acting, labelled
        self._acting_on_labels = sp.csr_array(acting[labelled].T)
        self._label_bags = Bags(None, rows.take(labelled))
        self._K = CovarianceCache(kernel, self._label_bags, self._label_bags)
        self._U = self._shared(labelled)

    def of_labels(self, errors: Errors) -> Tensor:
        own = torch.eye(len(self._labelled), dtype=torch.float64)
        return self._K(errors.kernel) + errors.share * self._U + (1.0 - errors.share) * own

    def with_labels(self, errors: Errors, nodes: np.ndarray) -> Tensor:
        K = covariance(errors.kernel, Bags(None, self._rows.select(nodes)), self._label_bags)
        own = torch.from_numpy((nodes[:, None] == self._labelled).astype(np.float64))
        return K + errors.share * self._shared(nodes) + (1.0 - errors.share) * own

    def variance(self, errors: Errors, nodes: np.ndarray) -> Tensor:
        return variance(errors.kernel, Bags(None, self._rows.select(nodes))) + 1.0

    def _shared(self, nodes: np.ndarray) -> Tensor:
        """Rows of U at these nodes, columns at the labelled ones."""
        return torch.from_numpy((self._acting[nodes] @ self._acting_on_labels).toarray())


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
