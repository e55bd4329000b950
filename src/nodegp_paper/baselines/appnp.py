"""Predictions that are propagated: Gasteiger, Bojchevski and Günnemann (ICLR 2019).

*Predict then Propagate: Graph Neural Networks meet Personalized PageRank*, in its fast form, APPNP:
a network sees each node by itself, and its answers then spread over the graph. The gradients are
written out: with ten steps over the graph, much of the time would otherwise go into recording them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nodegp.graph import Graph
from nodegp.seeds import generator
from nodegp_paper.baselines.base import Baseline, Labels, check_number
from nodegp_paper.baselines.network import check_settings, dropped, glorot, threads
from nodegp_paper.baselines.sparse import SparseMatrix, normalised_adjacency, row_normalised
from nodegp_paper.tensors import torch_generator

__all__ = ["APPNP", "Best", "Dropout", "Propagation", "Weights", "forward", "gradients"]


class APPNP(Baseline):
    """softmax(Z_K) with Z_0 = H = relu(X W1) W2 and Z_k+1 = (1 - a) Â Z_k + a H (Eq. 5 and 6).

    Â = D^-1/2 (A + I) D^-1/2, and a is the chance to return to where the walk began, so that far
    nodes count without drowning the near ones.

    The defaults are the paper's (Section 5), and where it leaves something open, those of the
    authors' first code, https://github.com/gasteigerjo/ppnp: rows of X sum to one, Glorot's uniform
    start, no biases, dropout on the stored entries of X, on the hidden layer and, anew in each
    step, on Â; weight decay on W1 only (half its squared norm, added to the loss), Adam.

    ``y_val`` is used to stop and to choose the epoch whose weights are kept, and for nothing else.

    Parameters
    ----------
    hidden : int
        Units of the hidden layer.
    teleport : float
        a, in [0, 1).
    steps : int
        K, how far predictions spread.
    dropout : float
        The chance to be dropped, in [0, 1), rounded to a multiple of 2^-16.
    weight_decay, learning_rate : float
    epochs : int
        Each is one step on all labels; at most so many with ``y_val``.
    fixed_epochs : int
        How many without ``y_val``, of which the paper says nothing.
    patience : int or None
        With ``y_val``: stop after so many epochs in which neither validation accuracy nor
        validation loss (weight decay included) was as good as ever. The weights with the best
        accuracy are kept, among equals those with the least loss. None never stops.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : int, Generator or RandomState, optional

    Attributes
    ----------
    weights_ : W1 and W2, as arrays
    n_iter_ : epochs that were run
    best_epoch_ : the one whose weights were kept; without ``y_val`` the last
    validation_loss_ : after each epoch; empty without ``y_val``
    """

    name = "APPNP"
    needs_features = True
    uses_validation = True
    inductive = True

    def __init__(
        self,
        hidden: int = 64,
        teleport: float = 0.1,
        steps: int = 10,
        dropout: float = 0.5,
        weight_decay: float = 5e-3,
        learning_rate: float = 0.01,
        epochs: int = 10_000,
        fixed_epochs: int = 200,
        patience: int | None = 100,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.hidden = hidden
        self.teleport = teleport
        self.steps = steps
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.fixed_epochs = fixed_epochs
        self.patience = patience
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        check_settings(self)
        check_number("fixed_epochs", self.fixed_epochs, 1, whole=True)
        check_number("teleport", self.teleport, 0, 1)
        check_number("steps", self.steps, 0, whole=True)
        rng = torch_generator(generator(self.random_state))
        rows = row_normalised(graph.features)
        propagation, features = self._propagation(graph), SparseMatrix(rows)
        with threads(rows), torch.no_grad():
            weights = Weights(
                glorot(graph.n_features, self.hidden, rng),
                glorot(self.hidden, len(self.classes_), rng),
            )
            weights = self._train(weights, propagation, features, labels, validation, rng)
            proba = _probabilities(weights, propagation, features)
        self.weights_ = tuple(weight.numpy() for weight in weights)
        return proba

    def _train(
        self,
        weights: Weights,
        propagation: Propagation,
        features: SparseMatrix,
        labels: Labels,
        validation: Labels | None,
        rng: torch.Generator,
    ) -> Weights:
        """Change the weights epoch by epoch; returns those to keep."""
        groups: list[dict[str, Any]] = [
            {"params": [weights.first], "weight_decay": self.weight_decay},
            {"params": [weights.second]},
        ]
        optimiser = torch.optim.Adam(groups, lr=self.learning_rate, fused=True)
        ones = torch.ones(features.shape[0], self.hidden)
        everywhere = propagation.adjacency.values.expand(self.steps, -1)
        best = Best()
        self.validation_loss_: list[float] = []
        for epoch in range(1, (self.fixed_epochs if validation is None else self.epochs) + 1):
            drawn = (dropped(v, self.dropout, rng) for v in (features.values, ones, everywhere))
            weights.first.grad, weights.second.grad = gradients(
                weights, propagation, features, labels, Dropout(*drawn)
            )
            optimiser.step()
            self.n_iter_ = epoch
            if validation is None:
                continue
            accuracy, loss = _scores(forward(weights, propagation, features), validation)
            loss += 0.5 * self.weight_decay * float(weights.first.square().sum())
            self.validation_loss_.append(loss)
            best.see(epoch, accuracy, loss, weights)
            if self.patience is not None and epoch - best.last_gain >= self.patience:
                break
        self.best_epoch_ = self.n_iter_ if validation is None else best.epoch
        return weights if validation is None else best.weights

    def _propagation(self, graph: Graph) -> Propagation:
        return Propagation(SparseMatrix(normalised_adjacency(graph)), self.teleport, self.steps)

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        rows = row_normalised(graph.features)
        with threads(rows), torch.no_grad():
            weights = Weights(*(torch.from_numpy(weight) for weight in self.weights_))
            return _probabilities(weights, self._propagation(graph), SparseMatrix(rows))


class Weights(NamedTuple):
    first: Tensor  # (D, hidden)
    second: Tensor  # (hidden, C)


class Dropout(NamedTuple):
    """What is left of each part in one epoch."""

    inputs: Tensor  # the stored values of X
    hidden: Tensor  # (N, hidden), a factor of each unit
    edges: Tensor  # (steps, entries), the values of the adjacency in each step


class Propagation(NamedTuple):
    adjacency: SparseMatrix  # normalised, with self-loops
    teleport: float
    steps: int

    def of(self, local: Tensor, edges: Tensor | None = None) -> Tensor:
        """What has become of the nodes' own answers after all steps."""
        logits, back = local, self.teleport * local
        for values in self._values(edges):
            logits = self.adjacency.product(logits, values).add_(back)
        return logits

    def transposed(self, error: Tensor, edges: Tensor) -> Tensor:
        """The gradient at the nodes' own answers from that at the last ones."""
        own = torch.zeros_like(error)
        for values in reversed(self._values(edges)):
            own.add_(error, alpha=self.teleport)
            error = self.adjacency.transposed_product(error, values)
        return own.add_(error)

    def _values(self, edges: Tensor | None) -> Sequence[Tensor]:
        """(1 - a) Â in each step, by its values."""
        if edges is None:
            return [(1.0 - self.teleport) * self.adjacency.values] * self.steps
        return ((1.0 - self.teleport) * edges).unbind()


def forward(weights: Weights, propagation: Propagation, features: SparseMatrix) -> Tensor:
    """The logits of all nodes, without dropout."""
    return propagation.of(features.product(weights.first).relu_() @ weights.second)


def gradients(
    weights: Weights,
    propagation: Propagation,
    features: SparseMatrix,
    labels: Labels,
    drawn: Dropout,
) -> tuple[Tensor, Tensor]:
    """Gradients of the mean cross-entropy at the labels, without weight decay."""
    before = features.product(weights.first, drawn.inputs)
    gate = drawn.hidden * (before > 0)  # relu and dropout are one factor, forwards and backwards
    hidden = before.mul_(gate)
    logits = propagation.of(hidden @ weights.second, drawn.edges)
    nodes, targets = torch.from_numpy(labels.nodes), torch.from_numpy(labels.targets)
    at_labels = logits[nodes].softmax(dim=1)
    at_labels[torch.arange(len(targets)), targets] -= 1.0
    error = torch.zeros_like(logits)
    error[nodes] = at_labels / len(targets)
    back = propagation.transposed(error, drawn.edges)
    back_hidden = (back @ weights.second.T).mul_(gate)
    return features.transposed_product(back_hidden, drawn.inputs), hidden.T @ back


class Best:
    """The weights to keep so far, and when there was last a reason to go on: the authors' rule."""

    def __init__(self) -> None:
        self.epoch = self.last_gain = 0
        self._best = (-np.inf, -np.inf)  # accuracy and loss of the weights kept, the latter negated
        self._least_loss = np.inf

    def see(self, epoch: int, accuracy: float, loss: float, weights: Weights) -> None:
        if accuracy >= self._best[0] or loss <= self._least_loss:
            self.last_gain = epoch
        self._least_loss = min(self._least_loss, loss)
        if epoch == 1 or (accuracy, -loss) > self._best:
            self._best, self.epoch = (accuracy, -loss), epoch
            self.weights = Weights(*(weight.clone() for weight in weights))


def _scores(logits: Tensor, labels: Labels) -> tuple[float, float]:
    """Accuracy and mean cross-entropy at the labels."""
    targets = torch.from_numpy(labels.targets)
    at_labels = logits[torch.from_numpy(labels.nodes)]
    right = (at_labels.argmax(dim=1) == targets).double().mean()
    return float(right), float(F.cross_entropy(at_labels, targets))


def _probabilities(
    weights: Weights, propagation: Propagation, features: SparseMatrix
) -> np.ndarray:
    return forward(weights, propagation, features).double().softmax(dim=1).numpy()
