"""The Chebyshev network of Defferrard, Bresson and Vandergheynst (NeurIPS 2016).

*Convolutional Neural Networks on Graphs with Fast Localized Spectral Filtering*, as Kipf and
Welling (ICLR 2017, Table 3) set it up for semi-supervised classification, to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from torch import Tensor

from nodegp.graph import Graph
from nodegp.seeds import generator
from nodegp_paper.baselines.base import Baseline, Labels, check_number
from nodegp_paper.baselines.network import (
    check_settings,
    dropped,
    glorot,
    threads,
    train_with_adam,
    undropped,
)
from nodegp_paper.baselines.sparse import SparseMatrix, row_normalised
from nodegp_paper.tensors import torch_generator

__all__ = ["ChebNet", "Weights", "filtered", "forward", "largest_eigenvalue", "scaled_laplacian"]

# Below this many nodes all eigenvalues are found faster than the largest is by iteration.
_FEW_NODES = 100


class ChebNet(Baseline):
    """Two layers of polynomial filters of the graph Laplacian: softmax(g2 * relu(g1 * X)).

    A filter is g * X = sum_k T_k(L) X W_k for k = 0..K (Kipf and Welling, Eq. 5), T_k the Chebyshev
    polynomials and L = 2 / lmax (I - D^-1/2 A D^-1/2) - I the normalised Laplacian with its
    eigenvalues scaled into [-1, 1]. A node sees K hops to a layer.

    All settings are those of Kipf and Welling's comparison: the sizes, dropout, weight decay (on
    the first layer) and stopping rule of :class:`GCN`, K = 3 or 2, no biases; from their code,
    https://github.com/tkipf/gcn, lmax is computed and not set to its bound of 2, and an isolated
    node has 1 on the diagonal of the Laplacian. Edge weights are part of A and D.

    The polynomials are never formed, K products with L take their place. torch-geometric has the
    layer, ChebConv, but it filters all D features before it mixes them: with a thousand features,
    a hundred times the work.

    ``y_val`` is used for early stopping and for nothing else; without it, all epochs are run.

    Parameters
    ----------
    order : int
        K, the highest power of the Laplacian.
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
    weights_ : W_0 .. W_K of the first layer, stacked into one array, and those of the second
    n_iter_ : epochs that were run
    validation_loss_ : after each epoch; empty without ``y_val``
    """

    name = "ChebNet"
    needs_features = True
    uses_validation = True
    inductive = True

    def __init__(
        self,
        order: int = 3,
        hidden: int = 16,
        dropout: float = 0.5,
        weight_decay: float = 5e-4,
        learning_rate: float = 0.01,
        epochs: int = 200,
        patience: int | None = 10,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.order = order
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
        check_number("order", self.order, 1, whole=True)
        rng = torch_generator(generator(self.random_state))
        scaled, rows = scaled_laplacian(graph), row_normalised(graph.features)
        laplacian, features = SparseMatrix(scaled), SparseMatrix(rows)
        with threads(rows):
            weights = Weights(
                self._start(graph.n_features, self.hidden, rng),
                self._start(self.hidden, len(self.classes_), rng),
            )
            targets = torch.from_numpy(labels.targets)
            drop = partial(dropped, rate=self.dropout, rng=rng)

            def logits_at(
                nodes: np.ndarray, drop: Callable[[Tensor], Tensor] = undropped
            ) -> Tensor:
                everywhere = forward(weights, laplacian, features, drop)
                return everywhere.index_select(0, torch.from_numpy(nodes))

            def backward() -> None:
                F.cross_entropy(logits_at(labels.nodes, drop), targets).backward()

            held_out = None if validation is None else partial(logits_at, validation.nodes)
            self.n_iter_, self.validation_loss_ = train_with_adam(
                self, [weights.first], [weights.second], backward, held_out, validation
            )
            proba = _probabilities(weights, laplacian, features)
        self.weights_ = tuple(weight.detach().numpy() for weight in weights)
        return proba

    def _start(self, n_in: int, n_out: int, rng: torch.Generator) -> Tensor:
        terms = [glorot(n_in, n_out, rng) for _ in range(self.order + 1)]
        return torch.stack(terms).requires_grad_()

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        rows = row_normalised(graph.features)
        laplacian, features = SparseMatrix(scaled_laplacian(graph)), SparseMatrix(rows)
        with threads(rows):
            weights = Weights(*(torch.from_numpy(weight) for weight in self.weights_))
            return _probabilities(weights, laplacian, features)


class Weights(NamedTuple):
    first: Tensor  # (K + 1, D, hidden)
    second: Tensor  # (K + 1, hidden, C)


def forward(
    weights: Weights,
    laplacian: SparseMatrix,
    features: SparseMatrix,
    drop: Callable[[Tensor], Tensor] = undropped,
) -> Tensor:
    """The logits of all nodes."""
    side_by_side = torch.cat(tuple(weights.first), dim=1)  # one pass over X for all W_k
    mixed = features.times(side_by_side, drop(features.values))
    hidden = drop(filtered(laplacian, mixed.chunk(len(weights.first), dim=1)).relu())
    return filtered(laplacian, [hidden @ weight for weight in weights.second])


def filtered(laplacian: SparseMatrix, terms: Sequence[Tensor]) -> Tensor:
    """sum_k T_k(L) Y_k, by Clenshaw's recurrence b_k = Y_k + 2 L b_k+1 - b_k+2."""
    first, *middle, following = terms
    after_next = torch.zeros_like(following)
    for term in reversed(middle):
        after_next, following = following, term + 2.0 * laplacian.times(following) - after_next
    return first + laplacian.times(following) - after_next


def scaled_laplacian(graph: Graph) -> sp.csr_array:
    """2 / lmax (I - D^-1/2 A D^-1/2) - I, whose eigenvalues are in [-1, 1]."""
    scale = sp.diags_array(1.0 / np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0)))
    identity = sp.eye_array(graph.n_nodes)
    laplacian = sp.csr_array(identity - scale @ graph.adjacency @ scale)
    return sp.csr_array(2.0 / largest_eigenvalue(laplacian) * laplacian - identity)


def largest_eigenvalue(laplacian: sp.csr_array) -> float:
    if laplacian.shape[0] < _FEW_NODES:
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    # A start of our own, since ARPACK's is random; no vector of ones, which may be in the kernel.
    start = np.random.default_rng(0).normal(size=laplacian.shape[0])
    try:
        eigenvalues = eigsh(laplacian, 1, which="LA", v0=start, return_eigenvectors=False)
    except ArpackNoConvergence:
        return 2.0  # its bound, so that the eigenvalues are in [-1, 1] all the same
    return float(eigenvalues[0])


@torch.no_grad()
def _probabilities(weights: Weights, laplacian: SparseMatrix, features: SparseMatrix) -> np.ndarray:
    return forward(weights, laplacian, features).double().softmax(dim=1).numpy()
