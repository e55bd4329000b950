"""Choosing a recipe: each is tried on the labels, and the leave-one-out predictions decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from nodegp.inducing import Labelled
from nodegp.inference import Dual
from nodegp.kernels import Kernel
from nodegp.labels import Observations, encode
from nodegp.linalg import threads_for
from nodegp.model.classifier import FittedClassifier, fit_classifier
from nodegp.model.fitted import Report, Settings, silent
from nodegp.model.recipes import Recipe, Trial, compare, recipes, squared_error
from nodegp.prior import Domain

_FEWEST, _ENOUGH = 10, 200  # labels to choose a recipe by


def select_classifier(
    domain: Domain,
    observations: Observations,
    kernel: Kernel | None,
    settings: Settings,
    classes: np.ndarray | None = None,
    report: Report = silent,
) -> FittedClassifier:
    """Try the recipes on the labels, or on some if there are many, and fit the best."""
    with threads_for(max(len(observations.nodes), domain.n_nodes // 20)):
        return _select(domain, observations, kernel, settings, classes, report)


def _select(
    domain: Domain,
    observations: Observations,
    kernel: Kernel | None,
    settings: Settings,
    classes: np.ndarray | None,
    report: Report,
) -> FittedClassifier:
    every, targets = encode(observations.labels, classes)
    sums = settings.may_sum(len(targets))
    listed = recipes(domain, len(targets) / len(every), kernel, sums)
    sample = observations
    if len(targets) > _ENOUGH:
        sample = observations.at(np.linspace(0, len(targets) - 1, _ENOUGH).astype(np.intp))
    if (np.bincount(targets)[targets] > 1).sum() < _FEWEST:
        listed = listed[:1]
    is_quick = isinstance(settings.engine, Dual)
    quick = settings if is_quick else replace(settings, engine=Dual())

    def fitted(recipe: Recipe, to: Observations, how: Settings) -> FittedClassifier:
        prior = recipe.prior(domain)
        return fit_classifier(domain, to, recipe.filter, prior, how, every, report)

    first = fitted(listed[0], sample, quick)
    errors = _squared_errors(domain, first, listed)
    models: list[FittedClassifier | None] = [first]
    for recipe, error in zip(listed[1:], errors[1:], strict=True):
        is_worse = error is not None and errors[0] is not None and error >= errors[0]
        models.append(None if is_worse else fitted(recipe, sample, quick))
    scores = compare(
        listed,
        [
            Trial(e, None, None) if m is None else Trial(e, m.label_scores(), m.diagnostics.elbo)
            for e, m in zip(errors, models, strict=True)
        ],
    )
    best = next(j for j, score in enumerate(scores) if score.chosen)
    for score in scores:
        loss = "not known" if score.log_loss is None else f"{score.log_loss:.4f}"
        report(f"{score.name}: leave-one-out log loss {loss}")
    report(f"taken: {listed[best].name}")
    model = models[best]
    if not is_quick or sample is not observations or model is None:
        model = fitted(listed[best], observations, settings)
    return replace(model, selection=tuple(scores), kernel_given=kernel)


def _squared_errors(
    domain: Domain, first: FittedClassifier, listed: list[Recipe]
) -> list[float | None]:
    """Of least squares with the prior of each recipe, of which a model has the first: one that is
    behind there need not be tried. None where something is still to be learnt."""
    if len(listed) == 1 or not isinstance(first.inducing, Labelled):
        return [None] * len(listed)
    errors: list[float | None] = []
    for recipe in listed:
        prior, inputs = first.prior, first.posterior.inducing
        if errors:
            prior = recipe.prior(domain)
        if prior.free_parameters():
            errors.append(None)
            continue
        if errors:
            inputs = prior.to_learn(domain, first.observations.nodes)
        with torch.no_grad():
            errors.append(squared_error(prior.cov(inputs, inputs), first.targets))
    return errors
