"""The graph convolutional network of Kipf and Welling (ICLR 2017).

*Semi-Supervised Classification with Graph Convolutional Networks*. The gradients of its two layers
are written out: at this size most of the time would otherwise go into recording them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from nodegp.baselines.base import Baseline, Labels, check_number
from nodegp.baselines.sparse import SparseMatrix, normalised_adjacency, row_normalised
from nodegp.graph import Graph
from nodegp.linalg import threads_for


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
        self._check_parameters()
        rng = torch.Generator().manual_seed(int(self._generator().integers(2**63)))
        adjacency, features = normalised_adjacency(graph), row_normalised(graph.features)
        with _threads(features), torch.no_grad():
            weights = Weights(
                glorot(graph.n_features, self.hidden, rng),
                glorot(self.hidden, len(self.classes_), rng),
            )
            self._train(weights, adjacency, features, labels, validation, rng)
            proba = _probabilities(weights, Field.of_all(adjacency, features))
        self.weights_ = tuple(weight.numpy() for weight in weights)
        self.n_features_in_ = graph.n_features
        return proba

    def _train(
        self,
        weights: Weights,
        adjacency: sp.csr_array,
        features: sp.csr_array,
        labels: Labels,
        validation: Labels | None,
        rng: torch.Generator,
    ) -> None:
        """Change the weights in place, epoch by epoch."""
        field = Field.of(adjacency, features, labels.nodes)
        targets = torch.from_numpy(labels.targets)
        held_out = None
        if validation is not None:
            held_out = Field.of(adjacency, features, validation.nodes)
            held_out_targets = torch.from_numpy(validation.targets)
        groups: list[dict[str, Any]] = [
            {"params": [weights.first], "weight_decay": self.weight_decay},
            {"params": [weights.second]},
        ]
        optimiser = torch.optim.Adam(groups, lr=self.learning_rate, fused=True)
        self.validation_loss_: list[float] = []
        for epoch in range(self.epochs):
            inputs = dropped(field.features.values, self.dropout, rng)
            kept = dropped(torch.ones(field.n_hidden, self.hidden), self.dropout, rng)
            weights.first.grad, weights.second.grad = gradients(
                weights, field, targets, inputs, kept
            )
            optimiser.step()
            self.n_iter_ = epoch + 1
            if held_out is not None:
                loss = F.cross_entropy(forward(weights, held_out), held_out_targets)
                penalty = 0.5 * self.weight_decay * weights.first.square().sum()
                self.validation_loss_.append(float(loss + penalty))
                if self._has_risen():
                    break

    def _has_risen(self) -> bool:
        """The authors' rule: the last loss is above the mean of those before it."""
        if self.patience is None or len(self.validation_loss_) < self.patience + 2:
            return False
        *_, last = self.validation_loss_
        return last > float(np.mean(self.validation_loss_[-self.patience - 1 : -1]))

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        if graph.n_features != self.n_features_in_:
            raise ValueError(
                f"GCN was fitted on {self.n_features_in_} features and this graph has "
                f"{graph.n_features}"
            )
        adjacency, features = normalised_adjacency(graph), row_normalised(graph.features)
        with _threads(features), torch.no_grad():
            weights = Weights(*(torch.from_numpy(weight) for weight in self.weights_))
            return _probabilities(weights, Field.of_all(adjacency, features))

    def _check_parameters(self) -> None:
        check_number("hidden", self.hidden, 1, whole=True)
        check_number("dropout", self.dropout, 0, 1)
        check_number("weight_decay", self.weight_decay, 0)
        check_number("learning_rate", self.learning_rate, 0)
        check_number("epochs", self.epochs, 1, whole=True)
        if self.patience is not None:
            check_number("patience", self.patience, 1, whole=True)


class Weights(NamedTuple):
    first: Tensor  # (D, hidden)
    second: Tensor  # (hidden, C)


@dataclass(frozen=True)
class Field:
    """What the outputs at some nodes depend on: two hops around them, and nothing else.

    A few labels see a small part of the graph, so an epoch costs a fraction of a pass over it.
    """

    outer: SparseMatrix  # rows of Â at the nodes, columns at their neighbourhood
    inner: SparseMatrix  # rows of Â at that neighbourhood, columns at the next one
    features: SparseMatrix  # rows of X at the latter

    @classmethod
    def of(
        cls,
        adjacency: sp.csr_array,
        features: sp.csr_array,
        nodes: np.ndarray,
        dtype: torch.dtype = torch.float32,
    ) -> Field:
        outer = adjacency[nodes]
        near = np.unique(outer.indices)
        inner = adjacency[near]
        far = np.unique(inner.indices)
        parts = outer[:, near], inner[:, far], features[far]
        return cls(*(SparseMatrix(part, dtype) for part in parts))

    @classmethod
    def of_all(cls, adjacency: sp.csr_array, features: sp.csr_array) -> Field:
        whole = SparseMatrix(adjacency)
        return cls(whole, whole, SparseMatrix(features))

    @property
    def n_hidden(self) -> int:
        return self.inner.shape[0]


def forward(weights: Weights, field: Field) -> Tensor:
    """The logits, without dropout."""
    hidden = field.inner.product(field.features.product(weights.first)).relu_()
    return field.outer.product(hidden @ weights.second)


def gradients(
    weights: Weights, field: Field, targets: Tensor, inputs: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the mean cross-entropy, without weight decay.

    ``inputs`` are the stored values of X and ``kept`` the factors of the hidden units, both after
    dropout.
    """
    before = field.inner.product(field.features.product(weights.first, inputs))
    gate = kept * (before > 0)  # relu and dropout are one factor, forwards and backwards
    hidden = before.mul_(gate)
    error = field.outer.product(hidden @ weights.second).softmax(dim=1)
    error[torch.arange(len(targets)), targets] -= 1.0
    error /= len(targets)
    back = field.outer.transposed_product(error)
    back_hidden = (back @ weights.second.T).mul_(gate)
    back_inputs = field.inner.transposed_product(back_hidden)
    return field.features.transposed_product(back_inputs, inputs), hidden.T @ back


def dropped(values: Tensor, rate: float, rng: torch.Generator) -> Tensor:
    """The values with a share of them set to zero, and the rest scaled up to make up for it."""
    steps = min(round(rate * 2**16), 2**16 - 1)
    if steps == 0:
        return values
    # Sixteen random bits decide over each value: four values to a number drawn.
    drawn = torch.empty((values.numel() + 3) // 4, dtype=torch.int64)
    drawn.random_(-(2**63), None, generator=rng)
    level = drawn.view(torch.int16)[: values.numel()].view(values.shape)
    return (values * (level >= steps - 2**15)).mul_(2**16 / (2**16 - steps))


def glorot(n_in: int, n_out: int, rng: torch.Generator) -> Tensor:
    """Glorot and Bengio's uniform start."""
    limit = (6.0 / (n_in + n_out)) ** 0.5
    return torch.empty(n_in, n_out).uniform_(-limit, limit, generator=rng)


def _probabilities(weights: Weights, field: Field) -> np.ndarray:
    return forward(weights, field).double().softmax(dim=1).numpy()


def _threads(features: sp.csr_array) -> Any:
    # Ten thousand stored features cost about what one row and column of a factorisation does.
    return threads_for(features.nnz // 10_000)
