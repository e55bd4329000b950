"""A fitted classifier: classes of nodes with their probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.declared import check_shapes, require
from nodegp.inference import Warm
from nodegp.labels import Observations, encode, merged_classes, require_classes
from nodegp.likelihoods import Likelihood, entropy
from nodegp.linalg import threads_for
from nodegp.model.calibration import fit_temperature, set_threshold, tempered
from nodegp.model.candidates import planning_recipe
from nodegp.model.comparison import Score
from nodegp.model.fitted import FittedModel, Report, Settings, fit_posterior, silent
from nodegp.model.recipe import Recipe
from nodegp.posterior import Marginals, leave_one_out
from nodegp.prior import Domain, Prior

__all__ = ["FittedClassifier", "array_entropy", "fit_classifier"]


@dataclass(frozen=True, eq=False)
class FittedClassifier(FittedModel):
    """Probabilities of classes; made by :func:`fit_classifier`."""

    classes: np.ndarray
    loo_proba: np.ndarray  # (O, C) leave-one-out, calibrated
    temperature: float  # 1.0 unless calibrated
    selection: tuple[Score, ...] = ()  # how each recipe did, if there was a choice
    has_default_kernel: bool = True  # where there was a choice: else it is the user's

    def __post_init__(self) -> None:
        super().__post_init__()
        labels, n_classes = self.observations.labels, len(self.classes)
        check_shapes(self, {"O": len(labels)}, classes="C", loo_proba="O C")
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

    @property
    def targets(self) -> np.ndarray:
        """The classes of the labels, as positions."""
        return np.searchsorted(self.classes, self.observations.labels)

    def probabilities(self, marginals: Marginals) -> np.ndarray:
        """Class probabilities (nodes, C)."""
        return tempered(_plain(self.likelihood, len(self.classes), marginals), self.temperature)

    def predictive(self, marginals: Marginals) -> tuple[np.ndarray, np.ndarray]:
        """Class probabilities, and how much of their entropy more labels could resolve."""
        plain = _plain(self.likelihood, len(self.classes), marginals)
        proba = tempered(plain, self.temperature)
        if len(self.classes) == 1:
            return proba, np.zeros(len(proba))
        likelihood = self.likelihood
        left = _by_node(likelihood.expected_entropy, marginals, likelihood.entropy_points)
        share = 1.0 - left / np.maximum(array_entropy(plain), 1e-300)
        return proba, np.clip(share, 0.0, 1.0) * array_entropy(proba)

    def predict_proba(self, domain: Domain, nodes: np.ndarray) -> np.ndarray:
        """Class probabilities at some nodes: propagation, marginals of h, likelihood."""
        marginals = self.marginals(domain, nodes)
        with threads_for(len(nodes) // 20):
            return self.probabilities(marginals)

    def set_threshold(self, coverage: float) -> float:
        """The probability from which on a class belongs to a prediction set."""
        return set_threshold(self.loo_proba, self.targets, coverage)

    def label_scores(self) -> np.ndarray:
        """Leave-one-out log probabilities of the labels whose class has another."""
        y = self.targets
        has_another = np.bincount(y)[y] > 1
        scores: np.ndarray = np.log(np.maximum(self.loo_proba[np.arange(len(y)), y], 1e-300))
        return scores[has_another]

    def update(self, observations: Observations, report: Report = silent) -> FittedClassifier:
        classes = merged_classes(self.classes, observations.labels)
        model = fit_classifier(
            self.domain(), observations, self.recipe, self.settings, classes, report, earlier=self
        )
        return replace(model, selection=self.selection, has_default_kernel=self.has_default_kernel)

    def planning_prior(self, domain: Domain) -> Prior:
        if not self.selection:
            return self.prior
        # How far features are carried follows the number of labels; a plan should not.
        return planning_recipe(self.recipe, domain, self.has_default_kernel).prior(domain)


def fit_classifier(
    domain: Domain,
    observations: Observations,
    recipe: Recipe,
    settings: Settings,
    classes: np.ndarray | None = None,
    report: Report = silent,
    earlier: FittedClassifier | None = None,
) -> FittedClassifier:
    """The posterior of a recipe and labels, calibrated.

    ``classes`` may list classes that no label has yet; ``earlier`` is the model of the same
    recipe to start from.
    """
    require_classes(observations.labels)
    classes, targets = encode(observations.labels, classes)
    # Less than an even chance would be evidence for the other classes; it says nothing.
    confidence = np.maximum(observations.confidence, 1.0 / max(len(classes), 2))
    observations = Observations(observations.nodes, classes[targets], confidence)
    warm = None
    if earlier is not None:
        warm = Warm(None, None)  # of other latents, should there be a new class
        if len(classes) == len(earlier.classes):
            warm = earlier.warm(observations)
    n_latents = recipe.likelihood.n_latents(len(classes))
    fit, model = fit_posterior(
        domain, recipe, settings, observations, targets, n_latents, report, earlier, warm
    )
    with threads_for(len(targets)):
        without = leave_one_out(
            fit.label_marginals, fit.inducing_variance, fit.cavity_share, fit.alpha
        )
        plain = _plain(fit.likelihood, len(classes), without)
    temperature = 1.0
    if recipe.calibrate:
        temperature = fit_temperature(plain, targets, confidence, *fit.likelihood.temperature_prior)
    return model.extended(
        FittedClassifier,
        classes=classes,
        loo_proba=tempered(plain, temperature),
        temperature=temperature,
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
