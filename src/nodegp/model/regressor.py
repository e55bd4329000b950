"""A fitted regressor: real targets, standardised inside, with Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nodegp.declared import check_shapes, require
from nodegp.labels import Observations, of_one_type
from nodegp.model.fitted import FittedModel, Report, Settings, fit_posterior, silent
from nodegp.model.recipe import Recipe
from nodegp.model.selection import choose_regression
from nodegp.model.weighing import Score
from nodegp.posterior import Marginals, leave_one_out
from nodegp.prior import Domain

__all__ = ["FittedRegressor", "Units", "fit_regressor", "select_regressor"]


@dataclass(frozen=True)
class Units:
    """The mean and the scale that targets are standardised by."""

    mean: float
    scale: float

    @classmethod
    def of(cls, targets: np.ndarray) -> Units:
        return cls(float(targets.mean()), float(targets.std()) or 1.0)

    def restore(self, marginals: Marginals, noise: float) -> tuple[np.ndarray, np.ndarray]:
        """Means, and standard deviations of observations, of h in standard units."""
        mean = marginals.mean[:, 0].double().numpy() * self.scale + self.mean
        return mean, np.sqrt(marginals.var[:, 0].double().numpy() + noise) * self.scale


@dataclass(frozen=True, eq=False)
class FittedRegressor(FittedModel):
    """Predictions of numbers; made by :func:`fit_regressor`."""

    units: Units
    loo_mean: np.ndarray  # (O,) leave-one-out, in the targets' units
    loo_std: np.ndarray  # (O,)
    selection: tuple[Score, ...] = ()  # what each view is worth, if there was a choice
    has_default_kernel: bool = True  # where there was a choice: else it is the user's

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes(self, {"O": len(self.observations.nodes)}, loo_mean="O", loo_std="O")
        require(self.posterior.n_latents == 1, "a regressor has one latent")

    @property
    def noise(self) -> float:
        return float(self.likelihood.parameters()["noise"])

    def predict(self, domain: Domain, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean of each node, and the standard deviation of an observation there."""
        return self.units.restore(self.marginals(domain, nodes), self.noise)

    def update(self, observations: Observations, report: Report = silent) -> FittedRegressor:
        if self.selection and self.has_default_kernel:
            base = replace(self.recipe, kernel=None)
            return select_regressor(self.domain(), observations, base, self.settings, report)
        model = fit_regressor(self.domain(), observations, self.recipe, self.settings, report, self)
        return replace(model, selection=self.selection, has_default_kernel=self.has_default_kernel)


def select_regressor(
    domain: Domain,
    observations: Observations,
    base: Recipe,
    settings: Settings,
    report: Report = silent,
) -> FittedRegressor:
    """The model of the views that the targets speak for; ``base`` has the parts that do not depend
    on them."""
    targets = _numbers(observations)
    units = Units.of(targets)
    standard = (targets - units.mean) / units.scale
    recipe, scores = choose_regression(domain, observations.nodes, standard, base, settings, report)
    model = fit_regressor(domain, observations, recipe, settings, report)
    return replace(model, selection=scores, has_default_kernel=base.kernel is None)


def fit_regressor(
    domain: Domain,
    observations: Observations,
    recipe: Recipe,
    settings: Settings,
    report: Report = silent,
    earlier: FittedRegressor | None = None,
) -> FittedRegressor:
    """The posterior of a recipe and targets; ``earlier`` is the model of the same recipe to start
    from."""
    targets = _numbers(observations)
    units = Units.of(targets)
    standard = ((targets - units.mean) / units.scale).astype(settings.engine.dtype)
    observations = observations._replace(labels=targets)
    warm = None if earlier is None else earlier.warm(observations)
    fit, model = fit_posterior(
        domain, recipe, settings, observations, standard, 1, report, earlier, warm
    )
    without = leave_one_out(fit.label_marginals, fit.inducing_variance, fit.cavity_share, fit.alpha)
    noise = float(fit.likelihood.parameters()["noise"])
    loo_mean, loo_std = units.restore(without, noise)
    return model.extended(FittedRegressor, units=units, loo_mean=loo_mean, loo_std=loo_std)


def _numbers(observations: Observations) -> np.ndarray:
    numbers = of_one_type(observations.labels)
    if numbers.dtype.kind not in "biuf":
        raise ValueError(
            f"y must hold numbers, got {numbers[:1].tolist()}; for classes there is "
            "GraphGPClassifier"
        )
    targets = numbers.astype(np.float64)
    if not np.isfinite(targets).all():
        raise ValueError("y contains infinity; targets must be finite, or NaN for none")
    return targets
