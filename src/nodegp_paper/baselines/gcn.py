"""The graph convolutional network of Kipf and Welling (ICLR 2017).

*Semi-Supervised Classification with Graph Convolutional Networks*. The gradients of its two layers
are written out: at this size most of the time would otherwise go into recording them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.graph import Graph
from nodegp.seeds import generator
from nodegp_paper.baselines.base import Baseline, Labels
from nodegp_paper.baselines.network import (
    Training,
    check_settings,
    dropped,
    glorot,
    threads,
    train_with_adam,
)
from nodegp_paper.baselines.sparse import Field, normalised_adjacency, row_normalised
from nodegp_paper.tensors import torch_generator

__all__ = ["GCN", "Weights", "forward", "gradients"]


class GCN(Baseline):
    """Two graph convolutions: softmax(Â relu(Â X W1) W2), Â = D^-1/2 (A + I) D^-1/2 (Eq. 9).

    The defaults are the paper's (Section 5.2), and where it leaves something open, those of the
    authors' code, https://github.com/tkipf/gcn: rows of X sum to one, Glorot's uniform start, no
    biases, dropout on the stored entries of X and on the hidden layer, weight decay on W1 only
    (half its squared norm, added to the loss), Adam.

    ``y_val`` is used for early stopping and for nothing else; without it, all epochs are run.

    Parameters
    ----------
    hidden : int
        Units of the hidden layer.
    dropout : float
        The chance to be dropped, in [0, 1), rounded to a multiple of 2^-16.
    weight_decay, learning_rate : float
    epochs : int
        Each is one step on all labels.
    patience : int or None
        With ``y_val``: stop once the validation loss (weight decay included) is above its mean
        over this many epochs before. None never stops. The last weights are kept, not the best.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : int, Generator or RandomState, optional

    Attributes
    ----------
    weights_ : W1 and W2, as arrays
    n_iter_ : epochs that were run
    validation_loss_ : after each epoch; empty without ``y_val``
    """

    name = "GCN"
    needs_features = True
    uses_validation = True
    inductive = True

    def __init__(
        self,
        hidden: int = 16,
        dropout: float = 0.5,
        weight_decay: float = 5e-4,
        learning_rate: float = 0.01,
        epochs: int = 200,
        patience: int | None = 10,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.hidden = hidden
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.patience = patience
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        check_settings(self)
        rng = torch_generator(generator(self.random_state))
        adjacency, features = normalised_adjacency(graph), row_normalised(graph.features)
        with threads(features), torch.no_grad():
            weights = Weights(
                glorot(graph.n_features, self.hidden, rng),
                glorot(self.hidden, len(self.classes_), rng),
            )
            training = self._train(weights, adjacency, features, labels, validation, rng)
            proba = _probabilities(weights, Field.of_all(adjacency, features))
        self.weights_ = tuple(weight.numpy() for weight in weights)
        self.n_iter_, self.validation_loss_ = training
        return proba

    def _train(
        self,
        weights: Weights,
        adjacency: sp.csr_array,
        features: sp.csr_array,
        labels: Labels,
        validation: Labels | None,
        rng: torch.Generator,
    ) -> Training:
        """Change the weights in place, epoch by epoch."""
        field = Field.of(adjacency, features, labels.nodes)
        targets = torch.from_numpy(labels.targets)
        held_out = None
        if validation is not None:
            held_out = partial(forward, weights, Field.of(adjacency, features, validation.nodes))

        def backward() -> None:
            inputs = dropped(field.features.values, self.dropout, rng)
            hidden_factors = dropped(torch.ones(len(field.near), self.hidden), self.dropout, rng)
            weights.first.grad, weights.second.grad = gradients(
                weights, field, targets, inputs, hidden_factors
            )

        return train_with_adam(
            self, [weights.first], [weights.second], backward, held_out, validation
        )

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        adjacency, features = normalised_adjacency(graph), row_normalised(graph.features)
        with threads(features), torch.no_grad():
            weights = Weights(*(torch.from_numpy(weight) for weight in self.weights_))
            return _probabilities(weights, Field.of_all(adjacency, features))


class Weights(NamedTuple):
    first: Tensor  # (D, hidden)
    second: Tensor  # (hidden, C)


def forward(weights: Weights, field: Field) -> Tensor:
    """The logits, without dropout."""
    hidden = field.inner.product(field.features.product(weights.first)).relu_()
    return field.outer.product(hidden @ weights.second)


def gradients(
    weights: Weights, field: Field, targets: Tensor, inputs: Tensor, hidden_factors: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the mean cross-entropy, without weight decay.

    ``inputs`` are the stored values of X and ``hidden_factors`` those of the hidden units, both
    after dropout.
    """
    before = field.inner.product(field.features.product(weights.first, inputs))
    gate = hidden_factors * (before > 0)  # relu and dropout are one factor, forwards and backwards
    hidden = before.mul_(gate)
    error = field.outer.product(hidden @ weights.second).softmax(dim=1)
    error[torch.arange(len(targets)), targets] -= 1.0
    error /= len(targets)
    back = field.outer.transposed_product(error)
    back_hidden = (back @ weights.second.T).mul_(gate)
    back_inputs = field.inner.transposed_product(back_hidden)
    return field.features.transposed_product(back_inputs, inputs), hidden.T @ back


def _probabilities(weights: Weights, field: Field) -> np.ndarray:
    return forward(weights, field).double().softmax(dim=1).numpy()
