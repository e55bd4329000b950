"""A fitted classifier: classes of nodes with their probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nodegp.filters import Filter
from nodegp.inference import Warm
from nodegp.kernels import Kernel
from nodegp.labels import Observations, encode, merged_classes, require_classes
from nodegp.likelihoods import Likelihood, entropy
from nodegp.linalg import threads_for
from nodegp.model.calibration import fit_temperature, set_threshold, tempered
from nodegp.model.fitted import (
    FittedModel,
    Report,
    Settings,
    fit_posterior,
    silent,
)
from nodegp.model.recipes import Score, planning_recipe
from nodegp.posterior import Marginals, leave_one_out
from nodegp.prior import Domain, Prior, learnt_filter

# Values that a likelihood makes at a time, and how many for each node and latent: quadrature
# points of predictions, draws of entropies.
_AT_ONCE, _POINTS, _DRAWS = 1 << 19, 20, 1024


@dataclass(frozen=True, eq=False)
class FittedClassifier(FittedModel):
    """Probabilities of classes; made by :func:`fit_classifier`."""

    classes: np.ndarray
    loo_proba: np.ndarray  # (O, C) leave-one-out, calibrated
    temperature: float  # 1.0 unless calibrated
    selection: tuple[Score, ...] = ()  # how each recipe did, if there was a choice
    # The user's kernel where the filter was chosen for it; to plan with.
    kernel_given: Kernel | None = None

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
        left = _by_node(self.likelihood.expected_entropy, marginals, _DRAWS)
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
        model = fit_classifier(
            self.domain(),
            observations,
            self.filter,
            self.prior,
            self.settings,
            merged_classes(self.classes, observations.labels),
            report,
            earlier=self,
        )
        return replace(model, selection=self.selection, kernel_given=self.kernel_given)

    def planning_prior(self, domain: Domain) -> Prior:
        if not self.selection:
            return self.prior
        # How far features are carried follows the number of labels; a plan should not.
        chosen = next(score.name for score in self.selection if score.chosen)
        recipe = planning_recipe(chosen, domain, self.kernel_given)
        if self.kernel_given is not None:  # its hyper-parameters may have been learnt
            kernels = self.kernels
            own = kernels if len(kernels) > 1 else kernels[0]
            recipe = replace(recipe, kernel=own)
        return recipe.prior(domain)


def fit_classifier(
    domain: Domain,
    observations: Observations,
    filter: Filter,
    prior: Prior,
    settings: Settings,
    classes: np.ndarray | None = None,
    report: Report = silent,
    earlier: FittedClassifier | None = None,
) -> FittedClassifier:
    """The posterior of a prior (that a filter was made into) and labels, calibrated.

    ``classes`` may list classes that no label has yet; ``earlier`` is the model whose
    hyper-parameters the prior has, to start from.
    """
    require_classes(observations.labels)
    classes, targets = encode(observations.labels, classes)
    # Less than an even chance would be evidence for the other classes; it says nothing.
    confidence = np.maximum(observations.confidence, 1.0 / max(len(classes), 2))
    observations = Observations(observations.nodes, classes[targets], confidence)
    likelihood = settings.likelihood if earlier is None else earlier.likelihood
    warm = None
    if earlier is not None:
        warm = Warm(None, None)  # of other latents, should there be a new class
        if len(classes) == len(earlier.classes):
            warm = earlier.warm(observations)
    fit, inducing, diagnostics = fit_posterior(
        domain,
        prior,
        settings,
        likelihood,
        observations,
        targets.astype(np.int64),
        likelihood.n_latents(len(classes)),
        report,
        earlier,
        warm,
    )
    with threads_for(len(targets)):
        without = leave_one_out(fit.label_marginals, fit.explained, fit.kept, fit.alpha)
        plain = _plain(fit.likelihood, len(classes), without)
    temperature = 1.0
    if settings.calibrate:
        temperature = fit_temperature(plain, targets, confidence, *fit.likelihood.usual_temperature)
    return FittedClassifier(
        settings=settings,
        filter=learnt_filter(filter, fit.posterior.prior),
        preprocessor=domain.preprocessor,
        graph=domain.graph,
        observations=observations,
        inducing=inducing,
        posterior=fit.posterior,
        likelihood=fit.likelihood,
        label_weights=fit.alpha.double().numpy(),
        diagnostics=diagnostics,
        classes=classes,
        loo_proba=tempered(plain, temperature),
        temperature=temperature,
    )


def _plain(likelihood: Likelihood, n_classes: int, marginals: Marginals) -> np.ndarray:
    """Class probabilities without a temperature."""
    if n_classes == 1:
        return np.ones((len(marginals.mean), 1))
    return _by_node(likelihood.predict, marginals, _POINTS)


def _by_node(
    function: Callable[[Tensor, Tensor], Tensor], marginals: Marginals, points: int
) -> np.ndarray:
    """A function of means and variances, a bounded number of nodes at a time."""
    step = max(_AT_ONCE // (marginals.mean.shape[1] * points), 1)
    blocks = zip(*(part.double().split(step) for part in marginals), strict=True)
    with torch.no_grad():
        result: np.ndarray = torch.cat([function(mean, var) for mean, var in blocks]).numpy()
    return result


def array_entropy(proba: np.ndarray) -> np.ndarray:
    """Of each row of probabilities, in nats."""
    result: np.ndarray = entropy(torch.from_numpy(proba)).numpy()
    return result
