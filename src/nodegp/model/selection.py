"""The default recipe: every view of the graph is weighed on the labels, and those that have a say
are summed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from nodegp.budget import budget
from nodegp.identity import fingerprint
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
from nodegp.model.weighing import (
    AMPLITUDES,
    Score,
    Weights,
    ridge_inverses,
    weigh,
    weigh_numbers,
)
from nodegp.prior import Domain
from nodegp.prior.edges import LINKS

__all__ = ["Choice", "anticipate", "choose_recipe", "choose_regression"]

_ENOUGH = 200  # labels to weigh views by
_MANY = 20.0  # labels per class that numbers stand for
_HYPERPRIOR = 1.0
_ROWS_AT_ONCE = 4  # copies of rows of labels that there may be for a moment


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
    variance = prior_variance(per_class)
    bias = bias_variance(per_class, domain.is_featureless)
    views = _for_classes(domain, nodes, n_classes, base, settings)

    def by_labels(shares: np.ndarray) -> Weights:
        inverses = views.inverses(n_classes, variance, bias)
        return weigh(views.covariances, inverses, targets[views.some], n_classes, shares)

    return _choose(domain, views, by_labels, variance, bias, base, report)


def anticipate(
    domain: Domain, nodes: np.ndarray, n_classes: int, base: Recipe, settings: Settings
) -> None:
    """Work out what :func:`choose_recipe` takes of labels at these nodes that does not depend on
    which they are, and keep it."""
    per_class = len(nodes) / n_classes
    views = _for_classes(domain, nodes, n_classes, base, settings)
    with threads_for(len(views.some)):
        bias = bias_variance(per_class, domain.is_featureless)
        views.inverses(n_classes, prior_variance(per_class), bias)


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

    may_sum = settings.may_sum(base.likelihood, 1, len(nodes))
    views = _ViewsAtLabels.of(domain, nodes, candidates(domain, _MANY), base, may_sum)

    def by_numbers(shares: np.ndarray) -> Weights:
        return weigh_numbers(views.covariances, numbers[views.some], shares)

    recipe, scores, _ = _choose(domain, views, by_numbers, 1.0, 0.0, base, report)
    if base.kernel is None:
        recipe = replace(learnable(recipe), hyperprior_std=_HYPERPRIOR)
    return recipe, scores


@dataclass(eq=False)
class _ViewsAtLabels:
    """What views say of labelled nodes whatever their labels are. It is kept with the graph until
    other nodes are asked about."""

    looks: list[Candidate]
    nodes: list[int]
    kernel: str  # the user's, in the place of those of the views, by what it is made of
    may_sum: bool
    some: np.ndarray  # those of the nodes that views are weighed by
    covariances: Tensor  # (V, some, some)
    _inverses: tuple[tuple[int, float, float], Tensor] | None = None

    @classmethod
    def of(
        cls,
        domain: Domain,
        nodes: np.ndarray,
        looks: list[Candidate],
        base: Recipe,
        may_sum: bool,
    ) -> _ViewsAtLabels:
        may_sum = may_sum and base.kernel is None
        if not may_sum:
            looks = [look for look in looks if look.view.relation is None]
        if are_links_too_many(len(nodes), domain.n_nodes):
            looks = [look for look in looks if look.view.relation != LINKS]
        kernel = base.kernel if isinstance(base.kernel, Kernel) else None
        known_by = "" if kernel is None else fingerprint(kernel.to_dict())
        asked = looks, nodes.tolist(), known_by, may_sum
        key = "views at labels", domain.mark
        kept = domain.cache.get(key)
        if isinstance(kept, cls) and (kept.looks, kept.nodes, kept.kernel, kept.may_sum) == asked:
            return kept
        some = np.arange(len(nodes))
        if len(nodes) > _ENOUGH:
            some = np.linspace(0, len(nodes) - 1, _ENOUGH).astype(np.intp)
        prepare_views(domain, looks)
        covariances = label_covariances(looks, domain, nodes[some], kernel)
        views = cls(*asked, some, covariances)
        n_bytes = 8 * covariances.numel() * (1 + len(AMPLITUDES))
        domain.cache.put(key, views, n_bytes)
        return views

    def inverses(self, n_classes: int, variance: float, bias: float) -> Tensor:
        """What weighing makes of them before it looks at a label."""
        asked = n_classes, variance, bias
        kept = self._inverses
        if kept is None or kept[0] != asked:
            kept = self._inverses = asked, ridge_inverses(self.covariances, *asked)
        return kept[1]


def _for_classes(
    domain: Domain, nodes: np.ndarray, n_classes: int, base: Recipe, settings: Settings
) -> _ViewsAtLabels:
    n_latents = base.likelihood.n_latents(n_classes)
    may_sum = settings.may_sum(base.likelihood, n_latents, len(nodes))
    looks = candidates(domain, len(nodes) / n_classes)
    return _ViewsAtLabels.of(domain, nodes, looks, base, may_sum)


def _choose(
    domain: Domain,
    views: _ViewsAtLabels,
    weighed: Callable[[np.ndarray], Weights],
    variance: float,
    bias: float,
    base: Recipe,
    report: Report,
) -> Choice:
    looks = views.looks
    with threads_for(len(views.some)):
        found = weighed(np.array([look.share for look in looks]))
    variance *= found.amplitude
    if views.may_sum:
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
    if not domain.is_featureless and are_links_too_many(len(views.nodes), domain.n_nodes):
        report("links in common are left out: with so many labels and nodes they take too much")
    for score in scores:
        loss = "not known" if score.log_loss is None else f"{score.log_loss:.4f}"
        report(f"{score.name}: weight {score.weight:.2f}, log loss of labels left out {loss}")
    is_whole = len(views.some) == len(views.nodes)
    return Choice(recipe, scores, found.pooled if is_whole else None)


def are_links_too_many(n_labels: int, n_nodes: int) -> bool:
    """Whether rows of links in common, an entry for each node, take too much beside features."""
    return n_labels * n_nodes > budget.large // _ROWS_AT_ONCE


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
