"""The recipes that `recipe="auto"` compares, and what becomes of one when questions are planned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nodegp.filters import Filter, Identity, PageRank, Propagation, Relations, SumOfFilters
from nodegp.kernels import RBF
from nodegp.model.recipe import (
    HUB_DISCOUNT,
    MANY_LABELS,
    Kernels,
    Recipe,
    bias_variance,
    default_kernel,
    far_neighbours,
    prior_variance,
    with_bias,
)
from nodegp.prior import Domain
from nodegp.rows import paired_cosines

__all__ = ["candidates", "neighbours_are_alike", "planning_recipe"]

_PLANNING_FILTER = PageRank(0.1, hub_discount=HUB_DISCOUNT, fixed=("strength",))
_EDGES = 500  # that are looked at to see whether neighbours are alike


def candidates(
    domain: Domain,
    labels_per_class: float,
    base: Recipe,
    may_sum: bool = True,
    has_bias: bool = True,
    far: PageRank | None = None,
) -> list[Recipe]:
    """What ``recipe="auto"`` compares; the first is taken unless another is clearly better.

    Neighbours that tend to be alike, features alone, and neighbours that say something else than
    a node's own features do. The first is the one or the other of these, as neighbours' features
    are alike or not, which shows without a single label. ``base`` has the parts that all share,
    and perhaps a kernel of the user's; ``may_sum`` says whether h may be a sum of functions, which
    inducing points cannot serve; ``far`` is a filter in the place of the usual.
    """
    graph = domain.graph
    far = far or far_neighbours(labels_per_class)
    variance = prior_variance(labels_per_class)
    constant = bias_variance(labels_per_class) if has_bias else 0.0
    filters: dict[str, Filter] = {"far neighbours": far, "features alone": Identity()}
    if may_sum:
        near = (Propagation(hops, self_loops=False) for hops in (1, 2))
        filters = {
            "own features and far neighbours": SumOfFilters((Identity(), far)),
            "features alone": Identity(),
            "own features, neighbours, and theirs": SumOfFilters((Identity(), *near)),
        }
    if may_sum and graph.relations is not None:
        filters["one function per kind of edges"] = Relations(far)

    def recipe(name: str, filter: Filter, kernel: Kernels) -> Recipe:
        return replace(base, name=name, filter=filter, kernel=kernel)

    recipes = []
    for name, filter in filters.items():
        default = default_kernel(filter, graph, False, variance, constant)
        recipes.append(recipe(name, filter, base.kernel or default))
    if base.kernel is None and isinstance(graph.features, np.ndarray):
        # Few columns, mostly: classes need not lie on two sides of a plane then.
        smooth = with_bias(RBF(variance, 0.7, fixed=("variance",)), constant, ("variance",))
        recipes += [
            recipe("features alone, smooth", Identity(), smooth),
            recipe("far neighbours, smooth", far, smooth),
        ]
    if not neighbours_are_alike(domain):
        recipes.sort(key=lambda recipe: recipe.name != "features alone")
    return recipes


def planning_recipe(recipe: Recipe, domain: Domain, is_default_kernel: bool) -> Recipe:
    """What one of the candidates becomes when labels have come in, to plan for: without the bias,
    of which labels tell all there is to know wherever they are, and with a range a little shorter
    than predictions have."""
    # A user's kernel stays, with what was learnt of it.
    base = replace(recipe, kernel=None) if is_default_kernel else recipe
    # Of both lists: the number of labels may have come to ask for the other one since.
    for may_sum in (True, False):
        for plan in candidates(domain, MANY_LABELS, base, may_sum, False, _PLANNING_FILTER):
            if plan.name == recipe.name:
                return plan
    raise ValueError(f"{recipe.name!r} is not among the recipes that are compared")


def neighbours_are_alike(domain: Domain) -> bool:
    """Whether features of linked nodes are more alike than those of any two; so it is assumed
    where there are none to see."""
    graph = domain.graph
    adjacency = graph.adjacency
    if graph.features is None or adjacency.nnz < 2:
        return graph.features is None
    sample = np.unique(np.linspace(0, adjacency.nnz - 1, 2 * _EDGES).astype(np.int64))
    row = np.searchsorted(adjacency.indptr, sample, side="right") - 1
    column = adjacency.indices[sample].astype(np.int64)
    once = row < column  # an edge has two entries
    if once.sum() < 2:
        return False
    left, right = (domain.rows.take(side[once]) for side in (row, column))
    cosines = paired_cosines(left, right)
    return bool(cosines.mean() > 2.0 * cosines.std(ddof=1) / len(cosines) ** 0.5)
