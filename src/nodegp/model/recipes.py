"""What a classifier is made of when nobody says: a short list of recipes, and how one is chosen.

All of it was measured on random splits that leave the public test nodes out; the tables are in
docs/decisions.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nodegp.filters import Filter, Hops, Identity, PageRank, Propagation, Relations, SumOfFilters
from nodegp.graph import Graph
from nodegp.kernels import RBF, Constant, Cosine, Kernel
from nodegp.linalg import ridge_inverse
from nodegp.prior import Domain, Prior, make_prior
from nodegp.rows import paired_cosines

Kernels = Kernel | tuple[Kernel, ...]  # one for each function, where h is a sum of several

# Prior variances of h: of what features say, and of a bias shared by all nodes; and the share of a
# node's own features in the first, where there is another.
_VARIANCE, _BIAS, _OWN = 1.75, 0.6, 0.15
_LARGEST = 3.0  # the first grows to this with the labels, which show more of h
_TELEPORTS = np.array([0.02, 0.03, 0.04, 0.06, 0.085])
_MANY = 20.0  # labels per class
_DISCOUNT = 0.5  # of hubs, as a power of their degree
_PLANNED = PageRank(0.1, hub_discount=_DISCOUNT, fixed=("strength",))
_EDGES = 500  # that are looked at to see whether neighbours are alike
_LABEL_NOISE = 0.3  # of least squares, as a share of the prior variance


@dataclass(frozen=True)
class Recipe:
    """A filter and a kernel that go together; a kernel for each function where h is a sum."""

    name: str
    filter: Filter
    kernel: Kernels

    def prior(self, domain: Domain) -> Prior:
        return make_prior(self.filter, self.kernel, domain)


class Score(NamedTuple):
    """How a recipe did when the classifier chose. Numbers are None where a recipe was not tried,
    or where no class has two labels and nothing was to go by."""

    name: str
    squared_error: float | None  # leave-one-out, of least squares, per label
    log_loss: float | None  # leave-one-out, per label
    gain: float | None  # of it over the first recipe of the list
    gain_error: float | None  # the standard error of the gain
    elbo: float | None
    chosen: bool


class Trial(NamedTuple):
    """What is known of a recipe: all of it if the classifier was fitted with it."""

    squared_error: float | None
    log_probabilities: np.ndarray | None  # leave-one-out, of the labels whose class has another
    elbo: float | None


def recipes(
    domain: Domain,
    labels_per_class: float,
    kernel: Kernels | None,
    sums: bool = True,
    bias: bool = True,
    far: PageRank | None = None,
) -> list[Recipe]:
    """What ``filter="auto"`` compares; the first is taken unless another is clearly better.

    Neighbours that tend to be alike, features alone, and neighbours that say something else than
    a node's own features do. The first is the one or the other of these, as neighbours' features
    are alike or not, which shows without a single label. ``kernel`` is the user's, or None for
    those that were found best; ``sums`` whether h may be a sum of functions, which inducing points
    cannot serve; ``bias`` whether it may have one; ``far`` the filter in the place of the usual.
    """
    graph = domain.graph
    far = far or far_neighbours(labels_per_class)
    variance = prior_variance(labels_per_class)
    constant = bias_variance(labels_per_class) if bias else 0.0
    filters: dict[str, Filter] = {"far neighbours": far, "features alone": Identity()}
    if sums:
        near = (Propagation(hops, self_loops=False) for hops in (1, 2))
        filters = {
            "own features and far neighbours": Hops((Identity(), far)),
            "features alone": Identity(),
            "own features, neighbours, and theirs": Hops((Identity(), *near)),
        }
    if sums and graph.relations is not None:
        filters["one function per kind of edges"] = Relations(far)
    found = [
        Recipe(name, filter, kernel or default_kernel(filter, graph, False, variance, constant))
        for name, filter in filters.items()
    ]
    if kernel is None and isinstance(graph.features, np.ndarray):
        # Few columns, mostly: classes need not lie on two sides of a plane then.
        smooth = _with_bias(RBF(variance, 0.7, fixed=("variance",)), constant, ("variance",))
        found += [
            Recipe("features alone, smooth", Identity(), smooth),
            Recipe("far neighbours, smooth", far, smooth),
        ]
    if not neighbours_are_alike(domain):
        found.sort(key=lambda recipe: recipe.name != "features alone")
    return found


def planning_recipe(name: str, domain: Domain, kernel: Kernels | None) -> Recipe:
    """What a recipe becomes when labels have come in, to plan for: without the bias, of which
    labels tell all there is to know wherever they are, and with a range a little shorter than
    predictions have."""
    # Of both lists: the number of labels may have come to ask for the other one since.
    lists = (
        recipes(domain, _MANY, kernel, sums, bias=False, far=_PLANNED) for sums in (True, False)
    )
    return next(recipe for found in lists for recipe in found if recipe.name == name)


def neighbours_are_alike(domain: Domain) -> bool:
    """Whether features of linked nodes are more alike than those of any two; so it is assumed
    where there are none to see."""
    graph = domain.graph
    adjacency = graph.adjacency
    if graph.features is None or adjacency.nnz < 2:
        return graph.features is None
    some = np.unique(np.linspace(0, adjacency.nnz - 1, 2 * _EDGES).astype(np.int64))
    row = np.searchsorted(adjacency.indptr, some, side="right") - 1
    column = adjacency.indices[some].astype(np.int64)
    once = row < column  # an edge has two entries
    if once.sum() < 2:
        return False
    left, right = (domain.rows.take(side[once]) for side in (row, column))
    cosines = paired_cosines(left, right)
    return bool(cosines.mean() > 2.0 * cosines.std(ddof=1) / len(cosines) ** 0.5)


def far_neighbours(labels_per_class: float) -> PageRank:
    """The filter that most of a prediction rests on.

    All that is set by the number of labels has a few values only, so that what follows from the
    prior serves again when a label more has come in.
    """
    # With hundreds of labels some are near every hub, and show what it stands for.
    discount = _DISCOUNT / max(labels_per_class / _MANY, 1.0) ** 2
    share = teleport(labels_per_class)
    order = round(2.0 / share**0.5)  # the same precision at every range
    return PageRank(share, order=order, hub_discount=round(discount, 1), fixed=("strength",))


def teleport(labels_per_class: float) -> float:
    """How far features are carried: the fewer the labels, the further each must reach."""
    wanted = _TELEPORTS[-1] * np.sqrt(labels_per_class / _MANY)
    return float(_TELEPORTS[np.abs(np.log(_TELEPORTS / wanted)).argmin()])


def prior_variance(labels_per_class: float) -> float:
    """That of what features say."""
    return float(np.clip(_VARIANCE * labels_per_class / _MANY, _VARIANCE, _LARGEST))


def bias_variance(labels_per_class: float) -> float:
    """That of a bias: about in proportion to the labels per class, in the steps of teleport."""
    return float(_BIAS * (teleport(labels_per_class) / _TELEPORTS[-1]) ** 2)


def default_kernel(
    filter: Filter, graph: Graph, learnt: bool, variance: float = _VARIANCE, bias: float = _BIAS
) -> Kernels:
    """A linear kernel on rows of length one and a bias: one kernel for every filter.

    Without the length hubs do not count for more than others, and no scale is left to be found.
    The bias is what each class has everywhere. A handful of labels says little of that, and if an
    expert was asked about nodes of one kind, something wrong.
    """
    fixed = () if learnt else ("variance",)
    if not isinstance(filter, SumOfFilters):
        return _with_bias(Cosine(variance, fixed=fixed), bias, fixed)
    own = [isinstance(part.filter, Identity) for part in filter.summands(graph)]
    others = len(own) - sum(own)
    of_own = variance * (_OWN if others else 1.0)
    of_other = (variance - (of_own if any(own) else 0.0)) / max(others, 1)
    terms: list[Kernel] = [Cosine(of_own if o else of_other, fixed=fixed) for o in own]
    return (_with_bias(terms[0], bias, fixed), *terms[1:])


def _with_bias(kernel: Kernel, variance: float, fixed: tuple[str, ...]) -> Kernel:
    return kernel + Constant(variance, fixed=fixed) if variance > 0 else kernel


def squared_error(K: Tensor, targets: np.ndarray) -> float:
    """The mean leave-one-out error of least squares on indicators of the classes, over labels
    whose class has another. It costs a hundredth of a fit."""
    told = np.bincount(targets)[targets] > 1
    inverse = ridge_inverse(K, _LABEL_NOISE * K.diagonal().mean())
    one_hot = torch.eye(int(targets.max()) + 1, dtype=K.dtype, device=K.device)[targets]
    left_out = (inverse @ one_hot) / inverse.diagonal()[:, None]
    return float(left_out.square().sum(1)[told].mean()) if told.any() else math.nan


def compare(found: Sequence[Recipe], trials: Sequence[Trial]) -> list[Score]:
    """Which recipe to take. The first must have been tried.

    Another must beat it by two standard errors of the difference: with a handful of labels one is
    exceeded too often by chance.
    """
    first = trials[0].log_probabilities
    assert first is not None
    unknown = Score("", None, None, None, None, None, False)
    scores = []
    for recipe, (error, found_here, elbo) in zip(found, trials, strict=True):
        score = unknown._replace(name=recipe.name, squared_error=error, elbo=elbo)
        if found_here is not None and len(first) > 1:
            gains = found_here - first
            score = score._replace(
                log_loss=-float(found_here.mean()),
                gain=float(gains.mean()),
                gain_error=float(gains.std(ddof=1) / len(gains) ** 0.5),
            )
        scores.append(score)
    gains, errors = (np.array([getattr(s, n) or 0.0 for s in scores]) for n in Score._fields[3:5])
    best = int(np.where(gains > 2.0 * errors, gains, 0.0).argmax())
    return [score._replace(chosen=j == best) for j, score in enumerate(scores)]
