"""Embeddings that predict contexts, as Planetoid trains them.

The context of a node is the nodes near it on walks and the nodes of its class. The gradients are
written out: they touch few rows of tables with one row to a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.linalg import sparse_matmul
from nodegp_paper.baselines.base import Labels

__all__ = [
    "Contexts",
    "Embeddings",
    "FeatureEmbeddings",
    "FreeEmbeddings",
    "context_step",
    "label_contexts",
    "walk_contexts",
]


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
    n_elsewhere = (len(order) - size[own])[:, None]
    other = (rng.random((n_pairs, negatives)) * n_elsewhere).astype(np.int64)
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
