"""The default recipe: every view of the graph is weighed on the labels, and those that have a say
are summed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from nodegp.kernels import Kernel
from nodegp.linalg import threads_for
from nodegp.model.fitted import Report, Settings, silent
from nodegp.model.plan import left_out_views
from nodegp.model.recipe import Recipe, bias_variance, prior_variance
from nodegp.model.unseen import Pooled
from nodegp.model.views import (
    Candidate,
    averaged,
    candidates,
    label_covariances,
    learnable,
    prepare_views,
)
from nodegp.model.weighing import Score, Weights, weigh, weigh_numbers
from nodegp.prior import Domain

__all__ = ["Choice", "choose_recipe", "choose_regression"]

_ENOUGH = 200  # labels to weigh views by
_MANY = 20.0  # labels per class that numbers stand for
_HYPERPRIOR = 1.0

Weigh = Callable[[Tensor, np.ndarray, np.ndarray], Weights]


class Choice(NamedTuple):
    """What weighing the views came to."""

    recipe: Recipe
    scores: tuple[Score, ...]  # what each view was found worth
    # What views say together of each label left out; None where some labels only were weighed by.
    pooled: Pooled | None


def choose_recipe(
    domain: Domain,
    nodes: np.ndarray,
    targets: np.ndarray,
    n_classes: int,
    base: Recipe,
    settings: Settings,
    report: Report = silent,
) -> Choice:
    """Weigh the views on the labels, or on some if there are many: the recipe of their sum, and
    what each was found worth.

    ``base`` has the parts that do not depend on them. With a kernel of the user's in it, or
    inducing points, which no sum of functions has, it is the one view that is best."""
    per_class = len(targets) / n_classes
    variance, bias = prior_variance(per_class), bias_variance(per_class)

    def by_labels(covariances: Tensor, some: np.ndarray, shares: np.ndarray) -> Weights:
        return weigh(covariances, targets[some], shares, variance, bias)

    looks = candidates(domain, per_class)
    n_latents = base.likelihood.n_latents(n_classes)
    may_sum = settings.may_sum(base.likelihood, n_latents, len(nodes))
    return _choose(domain, nodes, looks, by_labels, variance, bias, base, may_sum, report)


def choose_regression(
    domain: Domain,
    nodes: np.ndarray,
    numbers: np.ndarray,
    base: Recipe,
    settings: Settings,
    report: Report = silent,
) -> tuple[Recipe, tuple[Score, ...]]:
    """The same for numbers, in standard units. How much of their variance each view has, and the
    noise, is then learnt from there: numbers say more than classes."""

    def by_numbers(covariances: Tensor, some: np.ndarray, shares: np.ndarray) -> Weights:
        return weigh_numbers(covariances, numbers[some], shares)

    looks, may_sum = candidates(domain, _MANY), settings.may_sum(base.likelihood, 1, len(nodes))
    recipe, scores, _ = _choose(domain, nodes, looks, by_numbers, 1.0, 0.0, base, may_sum, report)
    if base.kernel is None:
        recipe = replace(learnable(recipe), hyperprior_std=_HYPERPRIOR)
    return recipe, scores


def _choose(
    domain: Domain,
    nodes: np.ndarray,
    looks: list[Candidate],
    weighed: Weigh,
    variance: float,
    bias: float,
    base: Recipe,
    may_sum: bool,
    report: Report,
) -> Choice:
    may_sum = may_sum and base.kernel is None
    if not may_sum:
        looks = [look for look in looks if look.view.relation is None]
    some = np.arange(len(nodes))
    if len(nodes) > _ENOUGH:
        some = np.linspace(0, len(nodes) - 1, _ENOUGH).astype(np.intp)
    kernel = base.kernel if isinstance(base.kernel, Kernel) else None
    prepare_views(domain, looks)
    covariances = label_covariances(looks, domain, nodes[some], kernel)
    with threads_for(len(some)):
        found = weighed(covariances, some, np.array([look.share for look in looks]))
    variance *= found.amplitude
    if may_sum:
        recipe, weights = averaged(looks, found.views, variance, bias, base)
    else:
        recipe, weights = _best(looks, found, variance, bias, base)
    losses = [None] * len(looks) if found.log_losses is None else found.log_losses.tolist()
    scores = tuple(
        Score(look.view.name, float(weight), loss)
        for look, weight, loss in zip(looks, weights, losses, strict=True)
    )
    for remark in left_out_views(domain):
        report(remark)
    for score in scores:
        loss = "not known" if score.log_loss is None else f"{score.log_loss:.4f}"
        report(f"{score.name}: weight {score.weight:.2f}, log loss of labels left out {loss}")
    return Choice(recipe, scores, found.pooled if len(some) == len(nodes) else None)


def _best(
    looks: list[Candidate], found: Weights, variance: float, bias: float, base: Recipe
) -> tuple[Recipe, np.ndarray]:
    """The recipe of the one view that is best, as a filter of its own."""
    best = int(found.views.argmax())
    recipe, _ = averaged([looks[best]], np.ones(1), variance, bias, base)
    assert isinstance(recipe.kernel, tuple)
    kernel = base.kernel or recipe.kernel[0]
    recipe = replace(recipe, filter=looks[best].view.filter, kernel=kernel)
    return recipe, (np.arange(len(looks)) == best).astype(np.float64)
