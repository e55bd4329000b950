"""Where the layers of a stack start: their inducing points, mean functions and default kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from nodegp.inducing import kmeans
from nodegp.kernels import RBF, Kernel, Linear
from nodegp.rows import Rows
from nodegp_paper.stacked.layers import Layer
from nodegp_paper.stacked.spread import Spread

__all__ = ["default_kernels", "layers_at_their_priors"]


def default_kernels(n_layers: int) -> Sequence[Kernel]:
    if n_layers == 1:
        return [Linear(10.0)]
    # Hidden functions start as small changes to their mean functions.
    return [Linear(1.0), *[RBF(0.1)] * (n_layers - 2), RBF(10.0)]


def layers_at_their_priors(
    kernels: Sequence[Kernel],
    inputs: Tensor,
    spreads: Sequence[Spread],
    width: int,
    n_latents: int,
    n_inducing: int,
    rng: np.random.Generator,
) -> list[Layer]:
    """One layer per kernel, with points among what the mean functions below make of the nodes.

    Parameters
    ----------
    inputs : (N, D) what goes into the first layer
    spreads : the filters of the layers above the first
    width : functions in each layer but the last, which has ``n_latents``
    """
    layers = []
    for number, kernel in enumerate(kernels):
        last = number == len(kernels) - 1
        points = kmeans(Rows(inputs), n_inducing, rng)
        if last:
            mean_function = inputs.new_zeros(inputs.shape[1], n_latents)
        elif number == 0:
            mean_function = _principal_directions(inputs, width, rng)
        else:
            mean_function = torch.eye(inputs.shape[1], dtype=torch.float64)
        layers.append(
            Layer(kernel, points, mean_function, learn_points=number > 0, shared=not last)
        )
        if not last:
            inputs = spreads[number](inputs @ mean_function)
    return layers


def _principal_directions(inputs: Tensor, width: int, rng: np.random.Generator) -> Tensor:
    """A (D, W) matrix to the principal components, scaled to a mean squared length of one.

    Kernels start from scales that suit rows of that length.
    """
    seed = int(rng.integers(2**31 - 1))
    fitted = PCA(min(width, *inputs.shape), random_state=seed).fit(inputs.numpy())
    scale = np.sqrt(fitted.explained_variance_.sum())
    return torch.from_numpy(fitted.components_.T / (scale if scale > 0 else 1.0))
