"""GraphGPRegressor: real targets on nodes, behind scikit-learn's conventions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nodegp import inference
from nodegp.estimators.base import GraphGP, fitted
from nodegp.estimators.conventions import check_scored, scored
from nodegp.filters import Filter
from nodegp.inducing import Inducing
from nodegp.labels import as_labels, is_labelled, of_one_type
from nodegp.likelihoods import Likelihood
from nodegp.model import FittedRegressor, Recipe, fit_regressor
from nodegp.model.recipe import DEFAULT_REGRESSION, REGRESSION, Kernels
from nodegp.model.regressor import select_regressor
from nodegp.model.weighing import Score
from nodegp.preprocessing import Preprocessing

__all__ = ["GraphGPRegressor"]


class GraphGPRegressor(RegressorMixin, GraphGP):
    """Gaussian process regression on the nodes of a graph, with Gaussian noise.

    The views and parameters are those of GraphGPClassifier, as far as they apply; nodes without a
    target have NaN, or the value ``unlabelled``. By default the views of the graph are weighted by
    leave-one-out predictions (``selection_``) and summed; their variances and the noise are then
    learnt. Targets are standardised internally; results are in their original units, except those
    of ``predict_latent`` and ``sample_latent``, which are in standard units (``target_mean_``,
    ``target_scale_``). ``loo_mean_`` and ``loo_std_`` are the leave-one-out predictions of the
    labelled nodes.

    Examples
    --------
    >>> import numpy as np
    >>> import nodegp
    >>> features = np.eye(12)
    >>> ring = nodegp.Graph.from_edges([[n, n - 1] for n in range(1, 12)], features=features)
    >>> height = np.where(np.arange(12) % 2, np.nan, np.cos(np.arange(12)))  # NaN: not known
    >>> mean, deviation = nodegp.GraphGPRegressor().fit(ring, height).predict(return_std=True)
    >>> mean.shape, deviation.shape
    ((12,), (12,))
    """

    model_: FittedRegressor

    target_mean_ = fitted(lambda model: model.units.mean)
    target_scale_ = fitted(lambda model: model.units.scale)
    loo_mean_ = fitted(lambda model: model.loo_mean)
    loo_std_ = fitted(lambda model: model.loo_std)

    def __init__(
        self,
        recipe: Recipe | str = "auto",
        kernel: Kernels | None = None,
        filter: Filter | str | None = None,
        likelihood: Likelihood | str | None = None,
        preprocessing: Preprocessing | str | None = None,
        inducing: Inducing | str = "auto",
        engine: inference.Engine | str = "dual",
        unlabelled: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.recipe = recipe
        self.kernel = kernel
        self.filter = filter
        self.likelihood = likelihood
        self.preprocessing = preprocessing
        self.inducing = inducing
        self.engine = engine
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, label_confidence: Any = None) -> Self:
        """Fit to a graph with targets for some of its nodes; NaN for the others."""
        if not isinstance(self.recipe, Recipe) and self.recipe != "auto":
            raise ValueError(f"recipe must be 'auto' or a Recipe object, got {self.recipe!r}")
        is_open = self.filter == "auto" or (self.recipe == "auto" and self.filter is None)
        base = DEFAULT_REGRESSION if is_open else REGRESSION
        if isinstance(self.recipe, Recipe):
            base = self.recipe
        recipe = self._with_parts(base, None if is_open else self.filter)
        recipe = replace(recipe, calibrate=False)
        if is_open and isinstance(recipe.kernel, tuple):
            raise ValueError("several kernels go with a sum of filters; name the filter")
        if recipe.likelihood.classifies:
            raise ValueError(
                f"{recipe.likelihood!r} is for classes: use GraphGPClassifier, or "
                "likelihood=Gaussian()"
            )
        start = self._start(X, y, label_confidence, recipe)
        with self._watched():
            fit = select_regressor if is_open else fit_regressor
            model = fit(start.domain, start.observations, recipe, self._settings(), self._report)
        return self._finish(model, start)

    @property
    def selection_(self) -> list[Score]:
        """Name, weight and log loss of each view of the graph; empty if none were compared."""
        check_is_fitted(self, "model_")
        return list(self.model_.selection)

    def predict(self, X: Any = None, nodes: Any = None, return_std: bool = False) -> Any:
        """Predictive mean of each node; with ``return_std`` also the standard deviation of an
        observation (noise included)."""
        domain, nodes = self._asked(X, nodes)
        with self._watched():
            mean, std = self.model_.predict(domain, nodes)
        return (mean, std) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 over the nodes that have a target in ``y``."""
        check_is_fitted(self, "model_")
        X, y = scored(self, X, y)
        y = column_or_1d(as_labels(y), dtype=None)
        labelled = np.flatnonzero(is_labelled(y, self.unlabelled))
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        check_scored(labelled, y, X)
        return float(
            r2_score(of_one_type(y[labelled]), self.predict(X, labelled), sample_weight=weight)
        )
