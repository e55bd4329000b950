"""Small problems and naive counterparts that several test modules share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nodegp import GraphGPClassifier
from nodegp.filters import NeighbourMean
from nodegp.graph import Graph
from nodegp.inducing import Labelled
from nodegp.inference import Problem
from nodegp.kernels import RBF, Kernel, Polynomial
from nodegp.likelihoods import Bernoulli, Gaussian, Likelihood, RobustMax, Softmax
from nodegp.preprocessing import Preprocessing, Preprocessor
from nodegp.prior import Domain, FilteredFunction

FIXED_RBF = RBF(1.5, 1.2).learn()

# One of each, none with a hyper-parameter left to learn.
FIXED_LIKELIHOODS: dict[str, Likelihood] = {
    "gaussian": Gaussian(0.2, fixed=("noise",)),
    "bernoulli": Bernoulli(),
    "softmax": Softmax(64),
    "robustmax": RobustMax(),
}


def one_hop(**settings: Any) -> GraphGPClassifier:
    """A classifier of the paper's parts, calibrated, with what a test wants different."""
    usual = {"filter": "mean", "likelihood": "robustmax"}
    usual["preprocessing"] = Preprocessing(center=False)
    if "kernel" not in settings:
        fixed = () if settings.get("likelihood") == "softmax" else ("variance",)
        usual["kernel"] = Polynomial(3, 1.0, 5.0, fixed=fixed)
    return GraphGPClassifier(**(usual | settings))


def random_graph(n_nodes: int = 24, n_features: int = 3, seed: int = 0, p: float = 0.12) -> Graph:
    """A graph with Gaussian features; some of its nodes are usually isolated."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < p, 1)
    return Graph((upper + upper.T).astype(float), rng.normal(size=(n_nodes, n_features)))


def weighted_graph(n_nodes: int = 24, n_features: int = 3, seed: int = 0) -> Graph:
    """A graph with unequal weights; some of its nodes are isolated."""
    graph = random_graph(n_nodes, n_features, seed)
    upper = np.triu(graph.adjacency.toarray())
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, upper.shape)
    return Graph(upper * weights, graph.features)


def laplacian(graph: Graph) -> np.ndarray:
    """D - W."""
    W = graph.adjacency.toarray()
    return np.diag(W.sum(axis=1)) - W


def neighbourhood_mean(graph: Graph) -> np.ndarray:
    """Eq. 10 written out: P = (I + D)^-1 (I + A)."""
    with_self = graph.adjacency.toarray() + np.eye(graph.n_nodes)
    return with_self / with_self.sum(axis=1, keepdims=True)


def rbf(a: np.ndarray, b: np.ndarray, variance: float, lengthscale: float) -> np.ndarray:
    squared = ((a[:, None] - b[None]) ** 2).sum(-1)
    return variance * np.exp(-0.5 * squared / lengthscale**2)


def smooth_scores(graph: Graph, n_classes: int, seed: int = 0) -> np.ndarray:
    """Linear functions of the neighbourhood's mean features, one column per class."""
    rng = np.random.default_rng(seed + 1000)
    directions = rng.normal(size=(graph.n_features, n_classes))
    return neighbourhood_mean(graph) @ graph.features @ directions


def smooth_classes(graph: Graph, n_classes: int = 3, seed: int = 0) -> np.ndarray:
    """A class for every node, with enough noise that they overlap."""
    scores = smooth_scores(graph, n_classes, seed)
    noise = np.random.default_rng(seed + 2000).normal(size=scores.shape)
    return (scores + 0.4 * scores.std() * noise).argmax(axis=1)


def hide(y: np.ndarray, shown: np.ndarray, unlabelled: object = -1) -> np.ndarray:
    """The labels at the nodes shown, and nothing elsewhere."""
    # None among strings would be the string "None", a class of its own.
    hidden = np.full(len(y), unlabelled, dtype=object if unlabelled is None else y.dtype)
    hidden[shown] = y[shown]
    return hidden


def raw_domain(graph: Graph) -> Domain:
    """A graph with its features as they are."""
    return Domain(graph, Preprocessor.fit(graph.features, "raw", n_nodes=graph.n_nodes))


def one_hop_prior(kernel: Kernel = FIXED_RBF) -> FilteredFunction:
    """The paper's: the mean over neighbourhoods."""
    return FilteredFunction(kernel, NeighbourMean())


def toy_problem(
    likelihood: Likelihood,
    inducing=None,
    kernel=FIXED_RBF,
    *,
    graph: Graph | None = None,
    n_labels: int = 12,
    nodes: np.ndarray | None = None,
    confidence: float = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Problem:
    """The problem that an engine is given, without an estimator around it."""
    graph = random_graph(seed=seed) if graph is None else graph
    rng = np.random.default_rng(seed)
    if nodes is None:
        nodes = np.sort(rng.choice(graph.n_nodes, n_labels, replace=False))
    like = torch.zeros((), dtype=dtype)
    if isinstance(likelihood, Gaussian):
        n_latents, y = 1, torch.from_numpy(smooth_scores(graph, 1, seed)[nodes, 0]).to(dtype)
    else:
        n_classes = 2 if isinstance(likelihood, Bernoulli) else 3
        n_latents = likelihood.n_latents(n_classes)
        y = torch.from_numpy(smooth_classes(graph, n_classes, seed)[nodes])
    inducing = Labelled() if inducing is None else inducing
    prior, draws = one_hop_prior(kernel), np.random.default_rng(seed)
    projector = inducing.prepare(prior, raw_domain(graph), nodes, like, draws)
    sure = torch.full((len(nodes),), confidence, dtype=dtype)
    return Problem(prior, likelihood, projector, y, sure, n_latents, rng)


def quiet(_: str) -> None:
    """A report that nobody reads."""
