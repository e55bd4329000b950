"""Choosing a recipe: each is tried on the labels, and the leave-one-out predictions decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from nodegp.inducing import Labelled
from nodegp.inference import Dual
from nodegp.labels import Observations, encode
from nodegp.linalg import threads_for
from nodegp.model.candidates import candidates
from nodegp.model.classifier import FittedClassifier, fit_classifier
from nodegp.model.comparison import Trial, compare, squared_error
from nodegp.model.fitted import Report, Settings, silent
from nodegp.model.recipe import Recipe
from nodegp.prior import Domain

__all__ = ["select_classifier"]

_FEWEST, _ENOUGH = 10, 200  # labels to choose a recipe by


def select_classifier(
    domain: Domain,
    observations: Observations,
    base: Recipe,
    settings: Settings,
    classes: np.ndarray | None = None,
    report: Report = silent,
) -> FittedClassifier:
    """Try the candidates on the labels, or on some if there are many, and fit the best.

    ``base`` has the parts that all of them share."""
    with threads_for(max(len(observations.nodes), domain.n_nodes // 20)):
        every, targets = encode(observations.labels, classes)
        n_latents = base.likelihood.n_latents(len(every))
        may_sum = settings.may_sum(base.likelihood, n_latents, len(targets))
        recipes = candidates(domain, len(targets) / len(every), base, may_sum)
        sample = observations
        if len(targets) > _ENOUGH:
            sample = observations.at(np.linspace(0, len(targets) - 1, _ENOUGH).astype(np.intp))
        if (np.bincount(targets)[targets] > 1).sum() < _FEWEST:
            recipes = recipes[:1]
        is_quick = isinstance(settings.engine, Dual)
        quick = settings if is_quick else replace(settings, engine=Dual())

        def fitted(recipe: Recipe, to: Observations, how: Settings) -> FittedClassifier:
            return fit_classifier(domain, to, recipe, how, every, report)

        first = fitted(recipes[0], sample, quick)
        errors = _squared_errors(domain, first, recipes)
        models: list[FittedClassifier | None] = [first]
        for recipe, error in zip(recipes[1:], errors[1:], strict=True):
            is_worse = error is not None and errors[0] is not None and error >= errors[0]
            models.append(None if is_worse else fitted(recipe, sample, quick))
        scores = compare(recipes, [_trial(*pair) for pair in zip(errors, models, strict=True)])
        best = next(j for j, score in enumerate(scores) if score.chosen)
        for score in scores:
            loss = "not known" if score.log_loss is None else f"{score.log_loss:.4f}"
            report(f"{score.name}: leave-one-out log loss {loss}")
        report(f"taken: {recipes[best].name}")
        model = models[best]
        if not is_quick or sample is not observations or model is None:
            model = fitted(recipes[best], observations, settings)
        return replace(model, selection=tuple(scores), has_default_kernel=base.kernel is None)


def _trial(error: float | None, model: FittedClassifier | None) -> Trial:
    if model is None:
        return Trial(error, None, None)
    return Trial(error, model.label_scores(), model.diagnostics.elbo)


def _squared_errors(
    domain: Domain, first: FittedClassifier, recipes: list[Recipe]
) -> list[float | None]:
    """Of least squares with the prior of each recipe, of which a model has the first: one that is
    behind there need not be tried. None where something is still to be learnt."""
    if len(recipes) == 1 or not isinstance(first.inducing, Labelled):
        return [None] * len(recipes)
    errors: list[float | None] = []
    for prior in (first.prior, *(recipe.prior(domain) for recipe in recipes[1:])):
        if prior.free_parameters():
            errors.append(None)
            continue
        inputs = first.posterior.inducing
        if errors:
            inputs = prior.to_learn(domain, first.observations.nodes)
        with torch.no_grad():
            errors.append(squared_error(prior.cov(inputs, inputs), first.targets))
    return errors
