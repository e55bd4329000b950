"""The estimators: the model behind scikit-learn's conventions."""

from nodegp.estimators.classifier import GraphGPClassifier
from nodegp.estimators.regressor import GraphGPRegressor

__all__ = ["GraphGPClassifier", "GraphGPRegressor"]
