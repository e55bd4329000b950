"""The diffusion-convolutional network of Atwood and Towsley (NeurIPS 2016).

*Diffusion-Convolutional Neural Networks*, the one for classifying nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.graph import Graph
from nodegp.seeds import generator
from nodegp_paper.baselines.base import Baseline, Labels, check_number
from nodegp_paper.baselines.network import Training, check_training, glorot, threads, train
from nodegp_paper.baselines.sparse import SparseMatrix
from nodegp_paper.tensors import torch_generator

__all__ = ["DCNN", "Diffusion", "Weights", "forward", "hinge_loss"]

# Nodes answered for at a time: their diffused features are most of the memory.
_BLOCK = 2048


class DCNN(Baseline):
    """What walks of each length see, weighed by hop and feature: softmax(V tanh(W * P^j X) + b).

    P = D^-1 A is the transition matrix of a random walk, j = 0..H the hops; W has one weight for
    each hop and feature, the same at every node, and V joins all (H + 1) D activations of a node
    to its classes.

    The defaults are the paper's: two hops (Table 1), tanh, the multi-class hinge loss (of the
    probabilities: 1 - p of the right class + the largest other p, above zero), AdaGrad with a
    learning rate of 0.05, early stopping on a window of validation losses. From the authors' code,
    https://github.com/jcatw/dcnn: features as they are, steps on ten labels at a time, W starts at
    N(0, 0.01^2) and V by Glorot, a window of five.

    Our choices:

    - P is the paper's. Their code divides columns, by the degree plus one; on random splits without
      the public test nodes, five of Cora and five of Pubmed, that lost 2 and 1 points.
    - 100 epochs. Their code has 10, with a third of the nodes as labels; with 20 labels to a class
      that is few steps, and 100 were 1 point worse on those of Cora and 5 better on Pubmed's.
    - The stopping rule is :class:`GCN`'s, which differs from theirs only on ties and on the first
      epoch that it may stop at. A node without edges sees nothing beyond hop 0.

    Edge weights are part of P. Only rows of P^j X at labelled nodes are formed, and they stay
    sparse; predictions go in blocks.

    Parameters
    ----------
    hops : int
        H, the longest walk.
    learning_rate : float
    batch_size : int
        Labels to a step.
    epochs : int
        Each goes over all labels once.
    patience : int or None
        With ``y_val``: stop once the validation loss is above its mean over this many epochs
        before. None never stops. The last weights are kept, not the best.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : int, Generator or RandomState, optional

    Attributes
    ----------
    weights_ : W by hop and feature, V and b, as arrays
    n_iter_ : epochs that were run
    validation_loss_ : after each epoch; empty without ``y_val``
    """

    name = "DCNN"
    needs_features = True
    uses_validation = True
    inductive = True

    def __init__(
        self,
        hops: int = 2,
        learning_rate: float = 0.05,
        batch_size: int = 10,
        epochs: int = 100,
        patience: int | None = 5,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.hops = hops
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.epochs = epochs
        self.patience = patience
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        check_training(self)
        check_number("hops", self.hops, 0, whole=True)
        check_number("batch_size", self.batch_size, 1, whole=True)
        rng = torch_generator(generator(self.random_state))
        n_activations = (self.hops + 1) * graph.n_features
        weights = Weights(
            0.01 * torch.randn(n_activations, generator=rng),
            glorot(n_activations, len(self.classes_), rng),
            torch.zeros(len(self.classes_)),
        )
        diffusion = Diffusion(graph, self.hops)
        with threads(diffusion.features):
            for weight in weights:
                weight.requires_grad_()
            training = self._train(weights, diffusion, labels, validation, rng)
            proba = _probabilities(weights, diffusion)
        self.n_iter_, self.validation_loss_ = training
        W, V, b = (weight.detach().numpy() for weight in weights)
        self.weights_ = W.reshape(self.hops + 1, graph.n_features), V, b
        return proba

    def _train(
        self,
        weights: Weights,
        diffusion: Diffusion,
        labels: Labels,
        validation: Labels | None,
        rng: torch.Generator,
    ) -> Training:
        """Change the weights in place, epoch by epoch."""
        seen, targets = diffusion.rows(labels.nodes), torch.from_numpy(labels.targets)
        optimiser = torch.optim.Adagrad(weights, lr=self.learning_rate)

        def step() -> None:
            for batch in torch.randperm(len(targets), generator=rng).split(self.batch_size):
                optimiser.zero_grad()
                logits = forward(weights, SparseMatrix(seen[batch.numpy()]))
                hinge_loss(logits.softmax(dim=1), targets[batch]).backward()
                optimiser.step()

        if validation is None:
            return train(step, None, self.epochs, self.patience)
        held_out = SparseMatrix(diffusion.rows(validation.nodes))
        held_out_targets = torch.from_numpy(validation.targets)

        @torch.no_grad()
        def validation_loss() -> Tensor:
            return hinge_loss(forward(weights, held_out).softmax(dim=1), held_out_targets)

        return train(step, validation_loss, self.epochs, self.patience)

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        diffusion = Diffusion(graph, self.hops)
        with threads(diffusion.features):
            W, V, b = (torch.from_numpy(weight) for weight in self.weights_)
            return _probabilities(Weights(W.flatten(), V, b), diffusion)


class Weights(NamedTuple):
    diffusion: Tensor  # W, one after another hop, ((H + 1) D)
    dense: Tensor  # V, ((H + 1) D, C)
    bias: Tensor  # b, (C)


class Diffusion:
    """The features X and how they spread over a graph."""

    def __init__(self, graph: Graph, hops: int):
        self.features, self.hops = sp.csr_array(graph.features, dtype=np.float64), hops
        degrees = np.where(graph.degrees > 0, graph.degrees, 1.0)
        self.transition = sp.csr_array(sp.diags_array(1.0 / degrees) @ graph.adjacency)  # P

    @property
    def n_nodes(self) -> int:
        return self.features.shape[0]

    def rows(self, nodes: np.ndarray) -> sp.csr_array:
        """X, PX, .., P^H X side by side, at these nodes."""
        walk = sp.csr_array(sp.eye_array(self.n_nodes, format="csr")[nodes])
        seen = [walk @ self.features]
        for _ in range(self.hops):
            walk = walk @ self.transition
            seen.append(walk @ self.features)
        return sp.csr_array(sp.hstack(seen, format="csr"))


def forward(weights: Weights, diffused: SparseMatrix) -> Tensor:
    """The logits. tanh(0) = 0, so that the activations are as sparse as what was diffused."""
    activations = (diffused.values * weights.diffusion.index_select(0, diffused.columns)).tanh()
    return diffused.times(weights.dense, activations) + weights.bias


def hinge_loss(proba: Tensor, targets: Tensor) -> Tensor:
    """Mean of max(0, 1 - p_y + max_c p_c), c any class but y."""
    of_class = targets[:, None]
    right = proba.gather(1, of_class).squeeze(1)
    largest_other = proba.scatter(1, of_class, -torch.inf).amax(dim=1)
    return (1.0 - right + largest_other).relu().mean()


@torch.no_grad()
def _probabilities(weights: Weights, diffusion: Diffusion) -> np.ndarray:
    proba = np.empty((diffusion.n_nodes, len(weights.bias)))
    for start in range(0, diffusion.n_nodes, _BLOCK):
        block = np.arange(start, min(start + _BLOCK, diffusion.n_nodes))
        logits = forward(weights, SparseMatrix(diffusion.rows(block)))
        proba[block] = logits.double().softmax(dim=1).numpy()
    return proba
