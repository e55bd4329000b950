"""The ways to look at a graph that `recipe="auto"` weighs, and the recipe that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nodegp.filters import Filter, Identity, PageRank, Propagation, View, Views
from nodegp.kernels import RBF, Cosine, Kernel
from nodegp.linalg import check_finite
from nodegp.model.fitted import FEW_NODES
from nodegp.model.recipe import HUB_DISCOUNT, Recipe, far_neighbours, with_bias
from nodegp.prior import Domain, Prior, make_prior
from nodegp.prior.edges import ALIKE, BOTH, LINKS, alike_cost

__all__ = [
    "Candidate",
    "averaged",
    "candidates",
    "label_covariances",
    "learnable",
    "planning_recipe",
    "prepare_views",
]

_NEAR = PageRank(0.085, order=7, hub_discount=HUB_DISCOUNT, fixed=("strength",))
_FAR_LINKS = PageRank(0.085, order=7, centred=True, fixed=("strength",))
_COMMON_LINKS = Propagation(1, self_loops=False, centred=True)
_PLANNED, _MANY = 0.1, 20.0  # teleport, and labels per class, in a plan
_SMOOTH = RBF(1.0, 0.7, fixed=("variance", "lengthscale"))
_COSINE = Cosine(1.0, fixed=("variance",))
_DEAREST = 5e11  # multiplications that finding nodes alike may take
_SMALLEST = 0.05  # the weight up to which a view is not worth its time


class Candidate(NamedTuple):
    """A view, the kernel of its function, and its weight before any label."""

    view: View
    kernel: Kernel
    share: float


def candidates(domain: Domain, labels_per_class: float) -> list[Candidate]:
    """All that is worth looking at in this graph.

    Shares are about how often a view was the best one on graphs with the features in question.
    """
    graph = domain.graph
    has_edges, far = graph.adjacency.nnz > 0, far_neighbours(labels_per_class)
    if domain.is_featureless:
        return [
            _candidate("far links", _FAR_LINKS, 0.8),
            _candidate("links in common", _COMMON_LINKS, 0.2),
        ]
    found = [_candidate("own features", Identity(), 0.1)]
    if isinstance(graph.features, np.ndarray):
        # Few columns, mostly: classes need not lie on two sides of a plane then.
        found.append(_candidate("own features, curved", Identity(), 0.1, kernel=_SMOOTH))
    if has_edges:
        found += [
            _candidate("far neighbours", far, 0.3),
            _candidate("neighbours' neighbours", Propagation(2, self_loops=False), 0.1),
        ]
        if isinstance(graph.features, np.ndarray):
            found.append(_candidate("far neighbours, curved", far, 0.1, kernel=_SMOOTH))
    for kind in sorted(graph.relations or ()):
        found.append(_candidate(f"far neighbours by {kind!r}", far, 0.3, kind))
    if graph.links_alike or not graph.takes_all_pairs:
        return found
    if has_edges:
        found.append(_candidate("links in common", _COMMON_LINKS, 0.1, LINKS))
    if alike_cost(domain.rows) <= _DEAREST:
        found.append(_candidate("nodes alike", _NEAR, 0.15, ALIKE))
        if has_edges:
            found.append(_candidate("neighbours and nodes alike", _NEAR, 0.3, BOTH))
    return found


def _candidate(
    name: str, filter: Filter, share: float, relation: str | None = None, kernel: Kernel = _COSINE
) -> Candidate:
    return Candidate(View(name, filter, relation), kernel, share)


def prepare_views(domain: Domain, looks: Sequence[Candidate]) -> None:
    """Work out what the views need and no label has a say in, for all fits on this graph: edges
    between nodes alike, and lengths of filtered rows. Of a large graph that is too much to have for
    a view that labels may then speak against."""
    if domain.n_nodes <= FEW_NODES and domain.graph.takes_all_pairs:
        for look in looks:
            _prior(look, look.kernel, domain).prepare(domain)


@torch.no_grad()
def label_covariances(
    looks: Sequence[Candidate], domain: Domain, nodes: np.ndarray, kernel: Kernel | None = None
) -> Tensor:
    """The covariances that each view gives some nodes, (V, O, O), by its own kernel or by one for
    all, with variances of one on average."""

    def of_one(look: Candidate) -> Tensor:
        prior = _prior(look, kernel or look.kernel, domain)
        inputs = prior.to_learn(domain, nodes)
        covariance = check_finite(prior.cov(inputs, inputs))
        mean = covariance.diagonal().mean()
        return covariance / mean if mean > 0 else covariance

    return torch.stack([of_one(look) for look in looks])


def _prior(look: Candidate, kernel: Kernel, domain: Domain) -> Prior:
    return make_prior(Views((look.view,)), (kernel,), domain)


def averaged(
    looks: Sequence[Candidate], weights: np.ndarray, variance: float, bias: float, base: Recipe
) -> tuple[Recipe, np.ndarray]:
    """The recipe of a sum of functions, one for each view that has a say, with shares of the
    variance by their weights; and those weights, zero where a view has none."""
    taken = np.where(weights >= min(_SMALLEST, weights.max()), weights, 0.0)
    taken = taken / taken.sum()
    kept = [(look, weight) for look, weight in zip(looks, taken, strict=True) if weight > 0]
    kernels = [_scaled(look.kernel, variance * weight) for look, weight in kept]
    kernels[0] = with_bias(kernels[0], bias, ("variance",))
    views = Views(tuple(look.view for look, _ in kept))
    return replace(base, name="auto", filter=views, kernel=tuple(kernels)), taken


def _scaled(kernel: Kernel, variance: float) -> Kernel:
    return kernel.with_parameters({"variance": float(variance)})


def learnable(recipe: Recipe) -> Recipe:
    """The same with the hyper-parameters of its kernels to be learnt."""
    kernels = recipe.kernel if isinstance(recipe.kernel, tuple) else (recipe.kernel,)
    free = tuple(replace(kernel, fixed=()) for kernel in kernels if kernel is not None)
    return replace(recipe, kernel=free if isinstance(recipe.kernel, tuple) else free[0])


def planning_recipe(domain: Domain, recipe: Recipe) -> Recipe:
    """What to plan questions with where `recipe` was chosen among views: all of them, by what they
    have to say before any label, so that a plan does not change at every step; without the bias, of
    which labels tell all there is to know wherever they are; and with ranges a little shorter than
    predictions have, that do not follow the number of labels."""
    looks = [
        look._replace(view=replace(look.view, filter=_planned(look.view.filter)))
        for look in candidates(domain, _MANY)
    ]
    shares = np.array([look.share for look in looks])
    return averaged(looks, shares / shares.sum(), 1.0, 0.0, recipe)[0]


def _planned(filter: Filter) -> Filter:
    if not isinstance(filter, PageRank):
        return filter
    discount = 0.0 if filter.centred else HUB_DISCOUNT
    return replace(filter, teleport=_PLANNED, order=10, hub_discount=discount)
