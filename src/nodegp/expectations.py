"""The mean of a softmax under independent Gaussians, by one integral instead of many draws.

The softmax is the chance that h_c + g_c is the largest of all h_j + g_j, with g independent
standard Gumbel variables (Luce 1959; Yellott 1977). So, with F_j the distribution function of
u_j = h_j + g_j and f_j its density,

    E[softmax(h)_c] = P(u_c is the largest) = ∫ f_c(t) ∏_{j≠c} F_j(t) dt,

one dimension however many classes there are, and no class is treated unlike another. Shifted to
mean zero and scaled to variance one, u_j is ``share`` times a Gumbel and the rest normal, and
``share`` is all that its shape depends on: F and f / F are tabulated once over x and share.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from nodegp.budget import budget

__all__ = ["softmax_mean"]

_GUMBEL_MEAN = 0.5772156649015329  # Euler's constant
_GUMBEL_SD = math.pi / math.sqrt(6.0)

# The table: as fine as it takes for probabilities to err by less than 1e-4.
_SHARES = 97  # rows, from a normal variable to a Gumbel variable
_PER_UNIT = 64  # columns to a standard deviation
_FROM, _TO = -6.0, 24.0  # standard deviations; the right tail of a Gumbel variable is long
_LEAST_HAZARD = 1e-30

# The rule. It starts where the last F leaves zero, with steps of _STEP times the smallest standard
# deviation. All variables began to the left of there and none is wider than _SPAN of its own
# standard deviations, so what still changes at a distance d has one above d / _SPAN: steps grow
# with d, and the number of points only with the log of how unlike the variances are.
_STEP = 0.7
_SPAN = 12.0
_FEWEST, _GROWTH = 16, 1.25  # numbers of points are rounded up to one of these: 16, 20, 25, ...
# Nodes, in multiples: the ends of rows that fill no vector register are rounded differently, and a
# node's result would depend in its seventh digit on how many others there are.
_TOGETHER = 32


@torch.no_grad()
def softmax_mean(mean: Tensor, var: Tensor) -> Tensor:
    """E[softmax(h)] for h ~ N(mean, diag var), shape (N, L); without gradients.

    Errors are below 1e-4, and below a hundredth of any probability above 1e-6. A node's result
    does not depend on the other nodes that are asked about; it is NaN where a mean or a variance
    is NaN.
    """
    if mean.shape[1] == 1 or not len(mean):
        return torch.ones_like(mean)
    n_nodes = len(mean)
    mean, var = (torch.cat([p, p[-1:].expand(-n_nodes % _TOGETHER, -1)]) for p in (mean, var))
    table = _table(mean.device)
    # Latents first and nodes last, so that all that follows runs along long rows.
    scale = (var.mT.contiguous().double() + _GUMBEL_SD**2).sqrt()
    centre = mean.mT.contiguous().double() + _GUMBEL_MEAN
    row = (_GUMBEL_SD / scale).clamp_(0.0, 1.0).mul_(_SHARES - 1).nan_to_num_()
    above = row.int().clamp_(max=_SHARES - 2)
    between = row.sub_(above).float()

    # Where to integrate: from where the last F leaves zero to where the last one reaches one.
    left, right = (_at(ends, above, between) for ends in (table.left, table.right))
    start = torch.addcmul(centre, scale, left).amax(0, keepdim=True)
    end = torch.addcmul(centre, scale, right)
    # A variable that lies wholly to the left is never the largest, however narrow it is.
    narrowest = torch.where(end > start, scale, torch.inf).amin(0, keepdim=True)
    span = _SPAN * narrowest
    length = ((end.amax(0, keepdim=True) - start) / span).asinh_()
    rounding = (length * (_SPAN / _STEP / (_FEWEST - 1))).log_().div_(math.log(_GROWTH)).ceil_()
    rounding = rounding.clamp_min_(0.0).nan_to_num_(-1.0, -1.0)[0]

    slope = _PER_UNIT / scale
    origin = (start - centre) * slope - _FROM * _PER_UNIT
    parts = (above * table.width, between, slope, origin, span, length)
    everyone = _Nodes(*(part.float() if part.is_floating_point() else part for part in parts))
    proba = mean.new_full(mean.mT.shape, torch.nan)
    for power in range(int(rounding.max()) + 1):
        n_points = math.ceil((_FEWEST - 1) * _GROWTH**power) + 1
        chosen = (rounding == power).nonzero()[:, 0]
        if len(chosen):
            for block in chosen.split(max(budget.cached // (n_points * mean.shape[1]), 1)):
                filled = torch.cat([block, block[-1:].expand(-len(block) % _TOGETHER)])
                nodes = _Nodes(*(part.index_select(1, filled)[:, None] for part in everyone))
                values = _integrate(table, nodes, n_points)[:, : len(block)]
                proba.index_copy_(1, block, values.to(proba))
    # Away with the quadrature's error, and with the step that all classes of a node share.
    return (proba / proba.sum(0)).mT[:n_nodes].contiguous()


class _Nodes(NamedTuple):
    """Where nodes' variables are in the table, and where to integrate.

    All are (L, N), but for span and length, which are the same for all latents: (1, N).
    """

    offset: Tensor  # the place in the table where a variable's row begins
    between: Tensor  # how far from there to the next row it is
    slope: Tensor  # the column at t is slope * (t - start) + origin
    origin: Tensor
    span: Tensor  # t - start is span * sinh(v), with v from zero to length
    length: Tensor


def _integrate(table: _Table, nodes: _Nodes, n_points: int) -> Tensor:
    """Probabilities (L, N), up to a factor of each node's, by the trapezoid rule in v.

    It converges exponentially, as the integrand is analytic and vanishes at both ends.
    """
    unit = torch.linspace(0.0, 1.0, n_points, device=nodes.length.device)
    v = unit[:, None] * nodes.length[0]  # (T, N)
    column = torch.addcmul(nodes.origin, nodes.slope, nodes.span[0] * v.sinh())  # (L, T, N)
    column.clamp_(0.0, table.width - 1.0)
    nearest = column.round()
    beside = column.sub_(nearest)
    place = nearest.long().add_(nodes.offset).flatten(1)

    def look_up(values: Tensor) -> Tensor:  # on all threads, which index_select is not
        return values.expand(len(place), -1).gather(1, place).view(beside.shape)

    # In between the two rows, and from the nearest column by the derivative: five look-ups, which
    # take most of the time, where interpolation in both directions would need eight.
    cdf, hazard = (
        look_up(values).lerp_(look_up(values[table.width :]), nodes.between)
        for values in (table.cdf, table.hazard)
    )
    cdf.addcmul_(cdf, hazard * beside)
    hazard.addcmul_(hazard, look_up(table.bend).mul_(beside))
    # f_c ∏_{j≠c} F_j as (f_c / F_c) ∏_j F_j: nothing is divided by an F that is zero.
    product = cdf.prod(0).mul_(v.cosh_())
    return hazard.mul_(product).sum(1).mul_(nodes.slope[:, 0])


def _at(values: Tensor, above: Tensor, between: Tensor) -> Tensor:
    """Values of a one-column table between its rows."""
    place = above.reshape(-1)
    here, below = (values[i:].index_select(0, place).view(above.shape) for i in (0, 1))
    return torch.lerp(here, below, between.to(here))


class _Table(NamedTuple):
    """Of u with mean zero and variance one: a row for each share; derivatives are per column."""

    cdf: Tensor  # (_SHARES * width,): F
    hazard: Tensor  # likewise: (log F)', which is f / F
    bend: Tensor  # (log hazard)', half-way from each row to the next
    left: Tensor  # (_SHARES,): where F leaves zero
    right: Tensor  # (_SHARES,): where it reaches one
    width: int  # columns


@lru_cache
def _table(device: torch.device) -> _Table:
    x = torch.arange(_FROM, _TO + 0.5 / _PER_UNIT, 1.0 / _PER_UNIT, dtype=torch.float64)
    shares = torch.linspace(0.0, 1.0, _SHARES, dtype=torch.float64)
    rows = [_distribution(x, share) for share in shares.tolist()]
    cdf, density = (torch.stack(parts) for parts in zip(*rows, strict=True))
    hazard = density / cdf.clamp_min(1e-300) / _PER_UNIT
    (bend,) = torch.gradient(hazard.clamp_min(1e-300).log(), dim=1)
    bend = 0.5 * (bend[:-1] + bend[1:])
    # The last column stands for all beyond it. Nothing is quite impossible: log p stays finite.
    hazard[:, -1] = 0.0
    hazard.clamp_min_(_LEAST_HAZARD)
    # What is cut off on the right is the same part of every class if all tails are exponential,
    # as a Gumbel variable's is; normal ones are cut where even a small probability loses nothing.
    missed = 10.0 ** (4.0 * shares[:, None] - 9.0)
    left = x[(cdf < 1e-9).sum(1).sub_(1).clamp_min_(0)]
    right = x[(1.0 - cdf > missed).sum(1)]
    cdf, hazard, bend = (values.float().view(-1).to(device) for values in (cdf, hazard, bend))
    return _Table(cdf, hazard, bend, left.to(device), right.to(device), len(x))


def _distribution(x: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """F and f at x, by the trapezoid rule over whichever of the two parts is the narrower.

    Both integrands are analytic, so steps of half the narrower scale give all digits that matter,
    in the tails too: all terms are positive.
    """
    if share == 0.0:
        return torch.special.ndtr(x), _normal_density(x)
    scale = _GUMBEL_SD / share
    sd = math.sqrt(max(scale**2 - _GUMBEL_SD**2, 0.0))
    t = _GUMBEL_MEAN + scale * x[:, None]
    if sd < 1.5:
        normal = torch.arange(-6.0, 8.0, 0.3, dtype=torch.float64)
        weight = _normal_density(normal)
        decay = torch.exp(sd * normal - t)
        cdf = torch.exp(-decay)
        density = decay * cdf
    else:
        gumbel = torch.arange(-3.5, 50.0, 0.5, dtype=torch.float64)
        decay = torch.exp(-gumbel)
        weight = decay * torch.exp(-decay)
        z = (t - gumbel) / sd
        cdf = torch.special.ndtr(z)
        density = _normal_density(z) / sd
    weight = weight / weight.sum()
    return cdf @ weight, scale * (density @ weight)


def _normal_density(z: Tensor) -> Tensor:
    return torch.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
