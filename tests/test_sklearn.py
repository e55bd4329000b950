"""scikit-learn's own checks on both estimators, fitted on plain tables."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from nodegp import GraphGPClassifier, GraphGPRegressor
from nodegp.inference import Dual
from nodegp.kernels import Polynomial

MINUS_ONE = "it uses -1 as a class, which by default means unlabelled here"


def expected_failures(estimator) -> dict[str, str]:
    if isinstance(estimator, GraphGPClassifier):
        return {"check_classifiers_classes": MINUS_ONE}
    return {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [GraphGPClassifier(engine=Dual(max_iter=5)), GraphGPRegressor()],
    expected_failed_checks=expected_failures,
)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
def test_minus_one_is_a_class_for_those_who_say_so():
    check_classifiers_classes("GraphGPClassifier", GraphGPClassifier(unlabelled=None))


def test_it_works_in_a_pipeline_and_in_cross_validation():
    rng = np.random.default_rng(0)
    y = np.repeat(["left", "right"], 20)
    X = rng.normal(size=(40, 2)) + np.where(y == "left", -2.0, 2.0)[:, None]
    model = GraphGPClassifier(kernel=Polynomial(2, fixed=("variance", "offset")))
    assert cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=3).mean() > 0.9
