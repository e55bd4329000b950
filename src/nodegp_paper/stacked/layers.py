"""The maths of stacked graph GPs: layers of Gaussian processes with a filter before each.

Layer l has W functions with one kernel, ``f_l ~ GP(m_l, k_l)``, and a node's hidden values are
``h_l = f_l(F_l h_{l-1})``, with the node's features for h_0. Inference is doubly stochastic
(Salimbeni & Deisenroth 2017): each layer has inducing points and a whitened Gaussian q, hidden
values are drawn node by node from its marginals, and the bound is differentiated through the
draws. Estimators are not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nodegp.kernels import Kernel, Tile
from nodegp.likelihoods import Likelihood
from nodegp.linalg import cholesky
from nodegp.posterior import Marginals
from nodegp_paper.stacked.spread import Spread
from nodegp_paper.tensors import lower_times

__all__ = ["Layer", "Seen", "draws", "elbo"]

_SMALLEST_VARIANCE = 1e-12  # square roots want a little room


class Seen(NamedTuple):
    """What a layer needs to know of its inputs. Where they are fixed it is made once."""

    tile: Tile  # their inner products with the inducing points, (n, M)
    base: Tensor  # the mean function there, (n, W)


class Layer(nn.Module):
    """W Gaussian processes with a common kernel, a linear mean function and their q.

    Parameters
    ----------
    kernel : Kernel
        Its free hyper-parameters are learnt, on a log scale.
    points : (M, D) inducing points
    mean_function : (D, W) the matrix of the linear mean function
    learn_points : bool
    shared : bool
        Whether all functions have one covariance of q. In a hidden layer it is asked for at every
        node, and one for each function would take most of the time.
    """

    points: Tensor
    mean_function: Tensor

    def __init__(
        self,
        kernel: Kernel,
        points: Tensor,
        mean_function: Tensor,
        *,
        learn_points: bool,
        shared: bool,
    ):
        super().__init__()
        self.kernel = kernel
        start = torch.tensor([*kernel.free_parameters().values()], dtype=torch.float64)
        self.log_parameters = nn.Parameter(start.log())
        self.register_buffer("mean_function", mean_function)
        if learn_points:
            self.points = nn.Parameter(points)
        else:
            self.register_buffer("points", points)
        width, n_points = mean_function.shape[1], len(points)
        # q starts at the prior. With few labels it stays near, and so the way is short.
        self.q_mean = nn.Parameter(torch.zeros(width, n_points, dtype=torch.float64))
        eye = torch.eye(n_points, dtype=torch.float64)
        self.q_factor = nn.Parameter(eye.repeat(1 if shared else width, 1, 1))

    def with_values(self, values: Iterable[Any]) -> Kernel:
        """The kernel with these values for its free hyper-parameters."""
        return self.kernel.with_parameters(
            dict(zip(self.kernel.free_parameters(), values, strict=True))
        )

    def see(self, inputs: Tensor) -> Seen:
        return Seen(_tile(inputs, self.points), inputs @ self.mean_function)

    def marginals(self, seen: Seen) -> Marginals:
        """q(f) at each input, its mean and variance (n, W)."""
        kernel, norms = self.with_values(self.log_parameters.exp()), seen.tile.left[:, 0]
        prior_var = kernel(Tile(norms, norms, norms))
        Kuu = kernel(_tile(self.points, self.points))
        L, _ = cholesky(Kuu, "covariance of the inducing points")
        W = torch.linalg.solve_triangular(L, kernel(seen.tile).mT, upper=False)  # (M, n)
        explained = lower_times(self.q_factor, W).square().sum(1).mT  # (n, W), or (n, 1) if shared
        slack = (prior_var - W.square().sum(0)).clamp_min(0.0)
        mean = seen.base + (self.q_mean @ W).mT
        var = (slack[:, None] + explained).clamp_min(_SMALLEST_VARIANCE)
        return Marginals(mean, var.expand_as(mean))

    def kl(self) -> Tensor:
        """KL[q(v) || N(0, I)] of the whitened inducing variables, summed over functions."""
        factor = self.q_factor.tril()
        users = len(self.q_mean) // len(factor)  # functions with the same covariance
        log_det = factor.diagonal(dim1=1, dim2=2).abs().log().sum()
        squares = users * factor.square().sum() + self.q_mean.square().sum()
        return 0.5 * (squares - self.q_mean.numel()) - users * log_det


def draws(
    layers: Sequence[Layer],
    first: Seen,
    spreads: Sequence[Spread],
    nodes: Tensor,
    n_samples: int,
    noise: torch.Generator,
) -> Iterator[Marginals]:
    """q of the last layer at the nodes, given draws of all hidden values.

    Parameters
    ----------
    layers : from the features up
    first : what the first layer sees: all nodes, or only ``nodes`` if it is the last as well
    spreads : the filters of the layers above the first
    nodes : where the last layer is asked for
    n_samples : how many draws; a single layer has nothing hidden and gives its one answer
    noise : where their randomness comes from
    """
    lowest, *above = layers
    bottom = lowest.marginals(first)
    if not above:
        yield bottom
        return
    for _ in range(n_samples):
        marginals = bottom
        for layer, spread in zip(above, spreads, strict=True):
            inputs = spread(_sample(marginals, noise))
            if layer is above[-1]:
                inputs = inputs[nodes]
            marginals = layer.marginals(layer.see(inputs))
        yield marginals


def elbo(
    layers: Sequence[Layer], likelihood: Likelihood, y: Tensor, drawn: Iterable[Marginals]
) -> Tensor:
    """An unbiased estimate of the bound: the mean of E[log p(y | h)] over draws, less the KL."""
    sure = torch.ones(len(y), dtype=torch.float64)
    fits = [likelihood.expected_log_prob(y, *marginals, sure).sum() for marginals in drawn]
    return torch.stack(fits).mean() - torch.stack([layer.kl() for layer in layers]).sum()


def _sample(marginals: Marginals, noise: torch.Generator) -> Tensor:
    normals = torch.randn(marginals.mean.shape, generator=noise, dtype=torch.float64)
    return marginals.mean + marginals.var.sqrt() * normals


def _tile(inputs: Tensor, points: Tensor) -> Tile:
    left, right = (rows.square().sum(1) for rows in (inputs, points))
    return Tile(inputs @ points.mT, left[:, None], right[None])
