"""Planetoid, of Yang, Cohen and Salakhutdinov (ICML 2016), transductive and inductive.

*Revisiting Semi-Supervised Learning with Graph Embeddings*: embeddings that predict the class of a
node and also its context, which is the nodes near it on walks and the nodes of its class. The
context's gradients are written out: they touch few rows of tables with one row to a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from nodegp.baselines.base import Baseline, Labels, check_number
from nodegp.baselines.gcn import glorot
from nodegp.baselines.walks import walk
from nodegp.graph import Graph
from nodegp.linalg import sparse_matmul, threads_for

_SPREAD = 0.01  # standard deviation of the tables of embeddings and contexts at the start


class PlanetoidT(Baseline):
    """Planetoid-T: every node has an embedding of its own, e, next to its features x.

    The class is predicted by softmax(W [softmax(W_x x), softmax(W_e e)]) with biases (Section 3.2,
    with one layer each); the loss is the cross-entropy of this and of both inner softmaxes, as in
    the authors' code, https://github.com/kimiyoung/planetoid. Training is plain gradient descent:
    first on contexts from labels, then on contexts from walks (both with negative sampling,
    Section 3.1), then on the classes.

    The defaults are those of the paper and of the authors' code for Citeseer. Both leave open how
    long to train (the code goes on without an end and keeps what does best on its test nodes), and
    for ``negatives`` the code would rather take a softmax over all nodes. So ``negatives``,
    ``passes`` and ``steps`` were chosen on random splits that leave out the public test nodes: on
    Cora 1, 2 and 5 negatives gave 73.8, 72.7 and 71.6 per cent, and 5, 10 and 20 passes 69.9, 74.6
    and 73.8.

    Features are divided by the root mean square of those that are not zero. Zeros and ones, as in
    Cora and Citeseer, stay as they are; others come to the size that these learning rates suit.

    Steps of a walk follow the weights of the edges, where the authors' code knows only edges
    without. A node without neighbours is in no walk; its features decide over it.

    Parameters
    ----------
    size : int
        Dimensions of the embeddings.
    walk_length : int
        Steps of a walk.
    window : int
        The furthest that two nodes of a walk can be apart to be each other's context.
    negatives : int
        Nodes of noise for each pair of a node and its context.
    label_steps, label_batch : int
        How many steps are taken on contexts from labels, and how many pairs there are to each.
    passes : float
        How often walks start from every node.
    walk_batch : int
        Walks to a step on contexts.
    steps, batch : int
        How many steps are taken on the classes, and how many labelled nodes there are to each.
    walk_rate : float
        Steps on contexts from walks for each step on the classes, in [0, 1].
    learning_rate, context_learning_rate : float
        The gradient of a step on contexts is a sum over its pairs, that of a step on classes is a
        mean.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : int, Generator or RandomState, optional

    Attributes
    ----------
    embeddings_ : (N, size)
    """

    needs_features = True

    def __init__(
        self,
        size: int = 50,
        walk_length: int = 10,
        window: int = 3,
        negatives: int = 1,
        label_steps: int = 2000,
        label_batch: int = 100,
        passes: float = 10.0,
        walk_batch: int = 200,
        steps: int = 1000,
        batch: int = 200,
        walk_rate: float = 0.0,
        learning_rate: float = 0.1,
        context_learning_rate: float = 1e-2,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.size = size
        self.walk_length = walk_length
        self.window = window
        self.negatives = negatives
        self.label_steps = label_steps
        self.label_batch = label_batch
        self.passes = passes
        self.walk_batch = walk_batch
        self.steps = steps
        self.batch = batch
        self.walk_rate = walk_rate
        self.learning_rate = learning_rate
        self.context_learning_rate = context_learning_rate
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        _check_parameters(self)
        rng, torch_rng = _generators(self)
        features = _scaled(graph, typical_size(graph))
        with threads_for(0):
            embeddings = FreeEmbeddings(_table(graph.n_nodes, self.size, torch_rng))
            network = _trained(self, graph, features, embeddings, labels, rng, torch_rng)
            self.embeddings_ = embeddings.table.numpy()
            return network.proba(features, embeddings.table)


class PlanetoidI(Baseline):
    """Planetoid-I: the embedding is a function of the features, e = relu(W_h x + b).

    So a fitted model can answer for nodes and graphs it has not seen (Section 3.3). All else is as
    in :class:`PlanetoidT`, with the defaults that the authors' code has for this variant, and
    ``negatives``, ``passes`` and ``steps`` chosen in the same way. Walks are learnt from during
    the steps on classes too, now and then.

    In the authors' experiments the features of test nodes are not seen in training. Here they are,
    if the nodes are in the graph that is fitted; to leave them out, fit on a subgraph.

    Parameters
    ----------
    size, walk_length, window, negatives, label_steps, label_batch, passes, walk_batch, steps, \
batch, walk_rate, learning_rate, context_learning_rate, unlabelled, random_state
        As for :class:`PlanetoidT`.
    """

    needs_features = True
    inductive = True

    def __init__(
        self,
        size: int = 50,
        walk_length: int = 10,
        window: int = 3,
        negatives: int = 1,
        label_steps: int = 10_000,
        label_batch: int = 20,
        passes: float = 5.0,
        walk_batch: int = 20,
        steps: int = 1000,
        batch: int = 200,
        walk_rate: float = 0.1,
        learning_rate: float = 0.1,
        context_learning_rate: float = 1e-3,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.size = size
        self.walk_length = walk_length
        self.window = window
        self.negatives = negatives
        self.label_steps = label_steps
        self.label_batch = label_batch
        self.passes = passes
        self.walk_batch = walk_batch
        self.steps = steps
        self.batch = batch
        self.walk_rate = walk_rate
        self.learning_rate = learning_rate
        self.context_learning_rate = context_learning_rate
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        _check_parameters(self)
        rng, torch_rng = _generators(self)
        self._unit = typical_size(graph)
        features = _scaled(graph, self._unit)
        with threads_for(0):
            weight = glorot(features.shape[1], self.size, torch_rng)
            embeddings = FeatureEmbeddings(features, weight, torch.zeros(self.size))
            self._network = _trained(self, graph, features, embeddings, labels, rng, torch_rng)
            self._embeddings = embeddings.on(features[:0])
        self.n_features_in_ = graph.n_features
        return self._proba_elsewhere(graph)

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        if graph.n_features != self.n_features_in_:
            raise ValueError(
                f"PlanetoidI was fitted on {self.n_features_in_} features and this graph has "
                f"{graph.n_features}"
            )
        features = _scaled(graph, self._unit)
        with threads_for(0):
            embeddings = self._embeddings.on(features).rows(np.arange(graph.n_nodes))
            return self._network.proba(features, embeddings)


# --- embeddings ---------------------------------------------------------------------------------


class Embeddings(Protocol):
    def rows(self, nodes: np.ndarray) -> Tensor:
        """The embeddings of these nodes."""

    def descend(self, nodes: np.ndarray, rows: Tensor, gradient: Tensor, rate: float) -> None:
        """Take a step against the gradient with respect to these rows; no node comes twice."""


@dataclass(frozen=True)
class FreeEmbeddings:
    """One row to a node."""

    table: Tensor  # (N, size)

    def rows(self, nodes: np.ndarray) -> Tensor:
        return self.table[nodes]

    def descend(self, nodes: np.ndarray, rows: Tensor, gradient: Tensor, rate: float) -> None:
        self.table[nodes] -= rate * gradient


@dataclass(frozen=True)
class FeatureEmbeddings:
    """One hidden layer on the features."""

    features: sp.csr_array  # (N, D)
    weight: Tensor  # (D, size)
    bias: Tensor

    def rows(self, nodes: np.ndarray) -> Tensor:
        return (sparse_matmul(self.features[nodes], self.weight) + self.bias).relu_()

    def descend(self, nodes: np.ndarray, rows: Tensor, gradient: Tensor, rate: float) -> None:
        gradient = gradient * (rows > 0)  # of what came before relu
        by_weight = torch.from_numpy(self.features[nodes].T @ gradient.numpy())
        self.weight.sub_(by_weight, alpha=rate)
        self.bias.sub_(gradient.sum(dim=0), alpha=rate)

    def on(self, features: sp.csr_array) -> FeatureEmbeddings:
        """The same function of other features."""
        return FeatureEmbeddings(features, self.weight, self.bias)


# --- contexts -----------------------------------------------------------------------------------


class Contexts(NamedTuple):
    """Pairs of a node and its context, each with contexts of noise.

    ``sources`` are positions among ``nodes``; the first column of ``contexts`` is true.
    """

    nodes: np.ndarray
    sources: np.ndarray  # (pairs,)
    contexts: np.ndarray  # (pairs, 1 + negatives)


def label_contexts(
    labels: Labels, n_pairs: int, negatives: int, rng: np.random.Generator
) -> Contexts:
    """A labelled node and one of its class (itself, perhaps); noise is of other classes."""
    order = np.argsort(labels.targets, kind="stable")
    size = np.bincount(labels.targets)
    first = np.cumsum(size) - size  # of each class, in that order
    source = rng.integers(len(order), size=n_pairs)
    own = labels.targets[source]
    same = first[own] + (rng.random(n_pairs) * size[own]).astype(np.int64)
    others = (len(order) - size[own])[:, None]
    other = (rng.random((n_pairs, negatives)) * others).astype(np.int64)
    other += np.where(other >= first[own, None], size[own, None], 0)  # past those of the class
    contexts = labels.nodes[order[np.column_stack([same, other])]]
    return Contexts(labels.nodes, source, contexts)


def walk_contexts(
    walks: np.ndarray, window: int, n_nodes: int, negatives: int, rng: np.random.Generator
) -> Contexts:
    """All pairs of nodes that are at most ``window`` apart on a walk (a node is its own context
    too); noise is any node."""
    nodes, position = np.unique(walks, return_inverse=True)
    position = position.reshape(walks.shape)
    place, offset = np.divmod(np.arange(walks.shape[1] * (2 * window + 1)), 2 * window + 1)
    other = place + offset - window
    inside = (other >= 0) & (other < walks.shape[1])
    sources, true = position[:, place[inside]].ravel(), walks[:, other[inside]].ravel()
    noise = rng.integers(n_nodes, size=(len(true), negatives))
    return Contexts(nodes, sources, np.column_stack([true, noise]))


def context_step(embeddings: Embeddings, table: Tensor, batch: Contexts, rate: float) -> None:
    """A step down the sum over pairs of -log sigmoid(gamma w_c^T e_i), gamma = 1 or -1.

    ``table`` holds w, one row to a context.
    """
    sources, contexts = torch.from_numpy(batch.sources), torch.from_numpy(batch.contexts)
    rows = embeddings.rows(batch.nodes)
    left, right = rows[sources], table[contexts]  # (pairs, size) and (pairs, contexts, size)
    score = torch.bmm(right, left[:, :, None])[:, :, 0]
    slope = score.sigmoid_()  # of the loss, by the score
    slope[:, 0] -= 1.0
    gradient = torch.zeros_like(rows).index_add_(
        0, sources, torch.bmm(slope[:, None, :], right)[:, 0]
    )
    change = (slope[:, :, None] * left[:, None, :]).view(-1, table.shape[1])
    table.index_add_(0, contexts.view(-1), change, alpha=-rate)
    embeddings.descend(batch.nodes, rows, gradient, rate)


# --- classes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """From features and embeddings to classes, of which only those with labels are trained."""

    from_features: Tensor  # (D, C)
    from_embeddings: Tensor  # (size, C)
    from_both: Tensor  # (2C, C)
    biases: Tensor  # (3, C), of these three
    classes: np.ndarray  # those with labels
    n_classes: int

    @classmethod
    def start(
        cls, n_features: int, size: int, classes: np.ndarray, n_classes: int, rng: torch.Generator
    ) -> Network:
        width = len(classes)
        return cls(
            glorot(n_features, width, rng),
            glorot(size, width, rng),
            glorot(2 * width, width, rng),
            torch.zeros(3, width),
            classes,
            n_classes,
        )

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        return self.from_features, self.from_embeddings, self.from_both, self.biases

    def logits(self, features: sp.csr_array, embeddings: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of the classes by the features, by the embeddings, and by both (Section 3.2)."""
        by_features = sparse_matmul(features, self.from_features) + self.biases[0]
        by_embeddings = embeddings @ self.from_embeddings + self.biases[1]
        inner = torch.cat([by_features.softmax(dim=1), by_embeddings.softmax(dim=1)], dim=1)
        return by_features, by_embeddings, inner @ self.from_both + self.biases[2]

    def gradients(
        self, features: sp.csr_array, embeddings: Tensor, targets: Tensor
    ) -> tuple[Tensor, ...]:
        """Of the three cross-entropies' sum, by the embeddings and by the parameters."""
        variables = [x.detach().requires_grad_() for x in (embeddings, *self.parameters)]
        rows, by_features, by_embeddings, by_both, biases = variables
        network = replace(
            self,
            from_features=by_features,
            from_embeddings=by_embeddings,
            from_both=by_both,
            biases=biases,
        )
        found = network.logits(features, rows)
        loss = sum((F.cross_entropy(logits, targets) for logits in found), torch.zeros(()))
        return torch.autograd.grad(loss, variables)

    def proba(self, features: sp.csr_array, embeddings: Tensor) -> np.ndarray:
        logits = self.logits(features, embeddings)[-1]
        proba = np.zeros((len(logits), self.n_classes))
        proba[:, self.classes] = logits.double().softmax(dim=1).numpy()
        return proba


def class_step(
    network: Network,
    embeddings: Embeddings,
    features: sp.csr_array,
    labels: Labels,
    rate: float,
) -> None:
    """A step down the mean loss over these labels; ``features`` are those of all nodes."""
    rows, targets = embeddings.rows(labels.nodes), torch.from_numpy(labels.targets)
    gradient, *gradients = network.gradients(features[labels.nodes], rows, targets)
    for parameter, by_parameter in zip(network.parameters, gradients, strict=True):
        parameter.sub_(by_parameter, alpha=rate)
    embeddings.descend(labels.nodes, rows, gradient, rate)


# --- training -----------------------------------------------------------------------------------


def _trained(
    model: Any,
    graph: Graph,
    features: sp.csr_array,
    embeddings: Embeddings,
    labels: Labels,
    rng: np.random.Generator,
    torch_rng: torch.Generator,
) -> Network:
    """The network after training; the embeddings are changed in place."""
    classes, targets = np.unique(labels.targets, return_inverse=True)
    labels = Labels(labels.nodes, targets)
    n_classes = len(model.classes_)
    network = Network.start(features.shape[1], model.size, classes, n_classes, torch_rng)
    table = _table(graph.n_nodes, model.size, torch_rng)
    if len(classes) > 1:  # or there would be nothing to tell apart
        for _ in range(model.label_steps):
            batch = label_contexts(labels, model.label_batch, model.negatives, rng)
            context_step(embeddings, table, batch, model.context_learning_rate)
    from_walks = _walk_batches(model, graph, rng)
    connected = np.count_nonzero(np.diff(graph.adjacency.indptr))
    walk_steps = int(np.ceil(model.passes * connected / model.walk_batch))
    shuffled = _batches(len(targets), model.batch, rng)
    for step in range(walk_steps + model.steps):
        classes_too = step >= walk_steps
        # A rate below one is met as in the authors' code: now and then there is a whole step.
        if connected and (not classes_too or rng.random() < model.walk_rate):
            context_step(embeddings, table, next(from_walks), model.context_learning_rate)
        if classes_too:
            chosen = next(shuffled)
            some = Labels(labels.nodes[chosen], labels.targets[chosen])
            class_step(network, embeddings, features, some, model.learning_rate)
    return network


def _walk_batches(model: Any, graph: Graph, rng: np.random.Generator) -> Iterator[Contexts]:
    """Contexts of walks from every node with neighbours, over and over."""
    connected = np.flatnonzero(np.diff(graph.adjacency.indptr))
    while True:
        walks = walk(graph, rng.permutation(connected), model.walk_length + 1, rng)
        for start in range(0, len(walks), model.walk_batch):
            some = walks[start : start + model.walk_batch]
            yield walk_contexts(some, model.window, graph.n_nodes, model.negatives, rng)


def _batches(n: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The numbers below n in random order, some at a time, over and over."""
    while True:
        order = rng.permutation(n)
        for start in range(0, n, size):
            yield order[start : start + size]


def _table(n_rows: int, size: int, rng: torch.Generator) -> Tensor:
    return _SPREAD * torch.randn(n_rows, size, generator=rng)


def typical_size(graph: Graph) -> float:
    """The root mean square of the features that are not zero: one, if they are zeros and ones."""
    values = sp.csr_array(graph.features).data
    values = values[values != 0].astype(np.float64)
    return float(np.sqrt(np.mean(values**2))) if len(values) else 1.0


def _scaled(graph: Graph, unit: float) -> sp.csr_array:
    return (sp.csr_array(graph.features) / unit).astype(np.float32)


def _generators(model: Baseline) -> tuple[np.random.Generator, torch.Generator]:
    rng = model._generator()
    return rng, torch.Generator().manual_seed(int(rng.integers(2**63)))


def _check_parameters(model: Any) -> None:
    for name in ("size", "walk_length", "window", "label_batch", "walk_batch", "batch"):
        check_number(name, getattr(model, name), 1, whole=True)
    for name in ("negatives", "label_steps", "steps"):
        check_number(name, getattr(model, name), 0, whole=True)
    for name in ("passes", "learning_rate", "context_learning_rate"):
        check_number(name, getattr(model, name), 0)
    check_number("walk_rate", model.walk_rate, 0, np.nextafter(1.0, 2.0))
