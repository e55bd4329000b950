"""A fitted model as a value: from (graph, observations, settings) to predictions.

:func:`fit_classifier` and :func:`fit_regressor` are pure functions to frozen models, which predict,
explain, and give the next model when labels come, change or go. The estimators adapt them to
scikit-learn.
"""

from nodegp.model.classifier import FittedClassifier, fit_classifier
from nodegp.model.explanation import Explanation
from nodegp.model.fitted import Diagnostics, FittedModel, Settings
from nodegp.model.recipe import Recipe, paper_recipe
from nodegp.model.regressor import FittedRegressor, fit_regressor

__all__ = [
    "Diagnostics",
    "Explanation",
    "FittedClassifier",
    "FittedModel",
    "FittedRegressor",
    "Recipe",
    "Settings",
    "fit_classifier",
    "fit_regressor",
    "paper_recipe",
]
