"""A fitted classifier: classes of nodes with their probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.declared import check_shapes, require
from nodegp.filters import Identity, Views
from nodegp.inference import Fit, Warm, leave_groups_out
from nodegp.labels import Observations, encode, merged_classes, require_classes
from nodegp.likelihoods import Likelihood, entropy
from nodegp.linalg import threads_for
from nodegp.model.calibration import (
    TemperaturePrior,
    averaged,
    fit_temperatures,
    least_probability,
    mixed,
    set_threshold,
    usual_temperature,
    weighted,
)
from nodegp.model.fitted import (
    FEW_NODES,
    FittedModel,
    Report,
    Settings,
    fit_posterior,
    silent,
)
from nodegp.model.frequencies import class_factors, class_shares
from nodegp.model.groups import STAY, dealt_groups, growth
from nodegp.model.recipe import Recipe
from nodegp.model.selection import anticipate, choose_recipe
from nodegp.model.unseen import Pooled, without_own_say
from nodegp.model.views import planning_recipe
from nodegp.model.weighing import Score
from nodegp.posterior import Marginals, Posterior
from nodegp.prior import Domain, Prior

__all__ = ["FittedClassifier", "array_entropy", "fit_classifier", "select_classifier"]

_TURNS = 2  # groupings of labels that are left out
# Nodes that are looked at to see how common classes are. On larger graphs it is some of them; on
# those beyond the second number a fit does not go over all edges, and labels have the say.
_LOOKED_AT, _LARGE = FEW_NODES, 200_000
# Probabilities before calibration of all nodes of a graph, for as long as a posterior lives:
# calibration needs them first, and then those who ask for predictions.
_plain_everywhere: WeakKeyDictionary[Posterior, np.ndarray] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class FittedClassifier(FittedModel):
    """Probabilities of classes; made by :func:`fit_classifier`."""

    classes: np.ndarray
    # (O, C) of each label without it and others, about one of each class; calibrated, with weights
    # of views and a temperature that it had no say in
    loo_proba: np.ndarray
    temperature: float  # 1.0 unless calibrated
    # (C,) how much more common a class is than among the labels; ones unless calibrated
    class_weights: np.ndarray
    # (C,) what else probabilities are multiplied with, as labels left out are taken for a class
    # more or less often than they are of it; ones unless calibrated
    class_factors: np.ndarray
    selection: tuple[Score, ...] = ()  # what each view is worth, if there was a choice
    has_default_kernel: bool = True  # where there was a choice: else it is the user's
    least_proba: float = 0.0  # what every class has at least; 0 unless calibrated
    temperature_spread: float = 0.0  # the standard deviation of what labels leave open of its log

    def __post_init__(self) -> None:
        super().__post_init__()
        labels, n_classes = self.observations.labels, len(self.classes)
        numbers = {"loo_proba": "O C", "class_weights": "C", "class_factors": "C"}
        check_shapes(self, {"O": len(labels)}, classes="C", **numbers)
        require(np.array_equal(np.unique(self.classes), self.classes), "classes are not sorted")
        is_class = (
            np.isin(labels, self.classes).all() and labels.dtype.kind == self.classes.dtype.kind
        )
        require(is_class, "a label is none of the classes")
        n_latents = self.likelihood.n_latents(n_classes)
        require(self.posterior.n_latents == n_latents, f"there are not {n_latents} latents")
        proba = self.loo_proba
        is_proba = (proba >= 0).all() and np.allclose(proba.sum(axis=1), 1.0)
        require(is_proba, "leave-one-out predictions are no probabilities")
        require(self.temperature > 0, f"the temperature is {self.temperature}")
        require(self.temperature_spread >= 0, f"the spread is {self.temperature_spread}")
        weights = self.class_weights, self.class_factors
        require(all((each > 0).all() for each in weights), "a class has no weight")
        least = self.least_proba
        require(0 <= least * n_classes <= 1, f"the least probability is {least}")

    @property
    def targets(self) -> np.ndarray:
        """The classes of the labels, as positions."""
        return np.searchsorted(self.classes, self.observations.labels)

    @property
    def sampling_weights(self) -> np.ndarray:
        """How many nodes each label stands for, (O,), one on average: labels of a class that is
        labelled more often than it occurs count for less in what is said of nodes in general."""
        weights = self.class_weights[self.targets]
        return weights / weights.mean()

    def _calibrated(self, plain: np.ndarray, marginals: Marginals) -> np.ndarray:
        proba = averaged(plain, self.temperature, self.temperature_spread)
        proba = weighted(proba, self.class_weights * self.class_factors)
        if self.least_proba > 0:
            # Where no label leads to a node, a temperature would make much of the little that a
            # bias says, and weights of classes are those of nodes that labels do lead to.
            reached = self.posterior.is_reached(marginals).numpy()[:, None]
            proba = np.where(reached, proba, self.label_shares)
        return mixed(proba, self.least_proba)

    @property
    def label_shares(self) -> np.ndarray:
        """How common each class is by the labels alone, (C,): their frequencies with one label more
        of each class, the mean under a flat Dirichlet prior. One label is no certainty."""
        counts = np.bincount(self.targets, self.observations.confidence, len(self.classes)) + 1.0
        return counts / counts.sum()

    def predictive(self, marginals: Marginals) -> tuple[np.ndarray, np.ndarray]:
        """Class probabilities, and how much of their entropy more labels could resolve."""
        plain = self.plain(marginals)
        proba = self._calibrated(plain.copy(), marginals)
        if len(self.classes) == 1:
            return proba, np.zeros(len(proba))
        likelihood = self.likelihood
        left = _by_node(likelihood.expected_entropy, marginals, likelihood.entropy_points)
        share = 1.0 - left / np.maximum(array_entropy(plain), 1e-300)
        return proba, np.clip(share, 0.0, 1.0) * array_entropy(proba)

    def predict_proba(self, domain: Domain, nodes: np.ndarray) -> np.ndarray:
        """Class probabilities at some nodes: propagation, marginals of h, likelihood."""
        marginals = self.marginals(domain, nodes)
        with threads_for(0, len(nodes)):
            return self._calibrated(self.plain(marginals).copy(), marginals)

    def plain(self, marginals: Marginals) -> np.ndarray:
        """Class probabilities (nodes, C) before calibration; not to be written to."""
        is_everywhere = marginals is self.known_marginals
        if is_everywhere and self.posterior in _plain_everywhere:
            return _plain_everywhere[self.posterior]
        with threads_for(0, len(marginals.mean)):
            plain = _plain(self.likelihood, len(self.classes), marginals)
        if is_everywhere:
            _plain_everywhere[self.posterior] = plain
        return plain

    def set_threshold(self, coverage: float) -> float:
        """The probability from which on a class belongs to a prediction set."""
        return set_threshold(self.loo_proba, self.targets, coverage, self.sampling_weights)

    def update(self, observations: Observations, report: Report = silent) -> FittedClassifier:
        classes = merged_classes(self.classes, observations.labels)
        if self._chooses_views:
            # As a new fit would have it: what views are worth shows as labels come in.
            domain, base = self.domain(), self._open_recipe
            with threads_for(len(observations.labels), domain.n_nodes):
                return select_classifier(
                    domain, observations, base, self.settings, classes, report, self
                )
        model = fit_classifier(
            self.domain(), observations, self.recipe, self.settings, classes, report, earlier=self
        )
        return replace(model, selection=self.selection, has_default_kernel=self.has_default_kernel)

    def anticipate(self, node: int) -> None:
        """Work out what an update with a label of this node takes whatever the label is: the update
        then takes less time."""
        if not (self._chooses_views and isinstance(self.recipe.filter, Views)):
            return
        domain = self.domain()
        nodes = np.union1d(self.observations.nodes, [node])
        with threads_for(len(nodes)):
            anticipate(domain, nodes, len(self.classes), self._open_recipe, self.settings)
            if domain.n_nodes <= FEW_NODES:  # which are all predicted by a fit
                everyone = self.prior.at(domain, np.arange(domain.n_nodes))
                self.prior.cross(everyone, self.prior.to_learn(domain, nodes))

    @property
    def _chooses_views(self) -> bool:
        """Whether an update weighs the views anew."""
        return bool(self.selection) and self.has_default_kernel

    @property
    def _open_recipe(self) -> Recipe:
        """The recipe with what was chosen left open."""
        return replace(self.recipe, filter=Identity(), kernel=None)

    def planning_prior(self, domain: Domain) -> Prior:
        if not (self.selection and isinstance(self.recipe.filter, Views)):
            return self.prior
        return planning_recipe(domain, self.recipe).prior(domain)


def select_classifier(
    domain: Domain,
    observations: Observations,
    base: Recipe,
    settings: Settings,
    classes: np.ndarray | None = None,
    report: Report = silent,
    earlier: FittedClassifier | None = None,
) -> FittedClassifier:
    """The model of the views that the labels speak for; ``base`` has the parts that do not depend
    on them. ``earlier`` is the model of other labels to start from."""
    require_classes(observations.labels)
    every, targets = encode(observations.labels, classes)
    with threads_for(len(targets), domain.n_nodes):
        recipe, scores, pooled = choose_recipe(
            domain, observations.nodes, targets, len(every), base, settings, report
        )
    warm = None
    if earlier is not None and len(every) == len(earlier.classes):
        warm = earlier.warm(observations)._replace(curvature=None)
    model = fit_classifier(
        domain, observations, recipe, settings, every, report, warm=warm, pooled=pooled
    )
    return replace(model, selection=scores, has_default_kernel=base.kernel is None)


def fit_classifier(
    domain: Domain,
    observations: Observations,
    recipe: Recipe,
    settings: Settings,
    classes: np.ndarray | None = None,
    report: Report = silent,
    earlier: FittedClassifier | None = None,
    warm: Warm | None = None,
    pooled: Pooled | None = None,
) -> FittedClassifier:
    """The posterior of a recipe and labels, calibrated.

    ``classes`` may list classes that no label has yet; ``earlier`` is the model of the same
    recipe to start from, ``warm`` what is known from one of another; ``pooled`` what the views
    that the recipe was made of say of labels left out.
    """
    require_classes(observations.labels)
    classes, targets = encode(observations.labels, classes)
    # Less than an even chance would be evidence for the other classes; it says nothing.
    confidence = np.maximum(observations.confidence, 1.0 / max(len(classes), 2))
    observations = Observations(observations.nodes, classes[targets], confidence)
    if earlier is not None:
        warm = Warm(None, None)  # of other latents, should there be a new class
        if len(classes) == len(earlier.classes):
            warm = earlier.warm(observations)
    n_latents = recipe.likelihood.n_latents(len(classes))
    fit, model = fit_posterior(
        domain, recipe, settings, observations, targets, n_latents, report, earlier, warm
    )
    with threads_for(len(targets)):
        groups, left_out = _left_out(fit, targets, len(classes))
    plain = model.extended(
        FittedClassifier,
        classes=classes,
        loo_proba=left_out.mean(axis=0),
        temperature=1.0,
        class_weights=np.ones(len(classes)),
        class_factors=np.ones(len(classes)),
    )
    return _calibrate(plain, domain, groups, left_out, pooled) if recipe.calibrate else plain


def _left_out(fit: Fit, targets: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The groups that labels are left out in, and what is said of each without its group,
    (turns, O, C); without itself alone, where a class has no other label to lose."""
    key = fit.alpha[np.arange(len(targets)), targets % fit.alpha.shape[1]].double().numpy()
    groups = np.stack([dealt_groups(targets, key, turn) for turn in range(_TURNS)])
    alone = np.where(groups == STAY, groups.max() + 1 + np.arange(len(targets)), groups)
    parts = zip(*(leave_groups_out(fit, group) for group in alone), strict=True)
    without = Marginals(*(torch.cat(part) for part in parts))
    return groups, np.stack(np.split(_plain(fit.likelihood, n_classes, without), _TURNS))


def _calibrate(
    model: FittedClassifier,
    domain: Domain,
    groups: np.ndarray,
    left_out: np.ndarray,
    pooled: Pooled | None,
) -> FittedClassifier:
    """The same with a temperature, and with classes as common as they seem to be."""
    targets, n_classes = model.targets, len(model.classes)
    if n_classes < 2:
        return model
    everywhere = None
    if domain.n_nodes <= _LARGE:
        count = min(domain.n_nodes, _LOOKED_AT)
        nodes = np.linspace(0, domain.n_nodes - 1, count).astype(np.intp)
        everywhere = model.plain(model.marginals(domain, nodes))
    if model.likelihood.temperature_prior is None:
        prior = usual_temperature(left_out[0] if everywhere is None else everywhere)
    else:
        prior = TemperaturePrior(*model.likelihood.temperature_prior)
    confidence = model.observations.confidence
    counted = confidence * (groups[0] != STAY)
    more = growth(targets)
    least = least_probability(len(targets), n_classes)
    found = fit_temperatures(left_out, targets, counted, more, prior, least)
    factors, of_others = class_factors(left_out, targets, counted, found.by_all / more)
    weights = np.ones(n_classes)
    if everywhere is not None:
        shown = weighted(averaged(everywhere, found.by_all, found.spread), factors)
        said = [averaged(proba, found.by_all / more, found.spread) for proba in left_out]
        said_of_labels = weighted(np.mean(said, axis=0), factors)
        labelled = np.bincount(targets, confidence, n_classes) / confidence.sum()
        shares = class_shares(shown.mean(axis=0), said_of_labels, targets, confidence)
        np.divide(shares, labelled, out=weights, where=labelled > 0)
    # To be believed, what is said of a label owes nothing to it: neither weights, temperature nor
    # factors.
    unseen = left_out if pooled is None else without_own_say(left_out, pooled)
    temperatures, spreads = found.by_others[:, None] / more, found.spreads[:, None]
    calm = np.mean([averaged(proba, temperatures, spreads) for proba in unseen], axis=0)
    calm = weighted(calm, of_others)
    return replace(
        model,
        temperature=found.by_all,
        temperature_spread=found.spread,
        class_weights=weights,
        class_factors=factors,
        loo_proba=mixed(weighted(calm, weights), least),
        least_proba=least,
    )


def _plain(likelihood: Likelihood, n_classes: int, marginals: Marginals) -> np.ndarray:
    """Class probabilities without a temperature."""
    if n_classes == 1:
        return np.ones((len(marginals.mean), 1))
    return _by_node(likelihood.predict, marginals, likelihood.predict_points)


def _by_node(
    function: Callable[[Tensor, Tensor], Tensor], marginals: Marginals, n_points: int
) -> np.ndarray:
    """A function of means and variances that makes so many values for each node and latent, a
    bounded number of nodes at a time."""
    mean, var = (part.double() for part in marginals)
    nodes = blocks(len(mean), mean.shape[1] * n_points, budget.tile // 2)
    with torch.no_grad():
        parts = [function(mean[block], var[block]) for block in nodes]
        result: np.ndarray = torch.cat(parts or [function(mean, var)]).numpy()
    require(np.isfinite(result).all(), "this model gives probabilities that are NaN")
    return result


def array_entropy(proba: np.ndarray) -> np.ndarray:
    """Of each row of probabilities, in nats."""
    result: np.ndarray = entropy(torch.from_numpy(proba)).numpy()
    return result
