"""The two kinds of doubt, and class probabilities of joint draws."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import FIXED_RBF, hide, one_hop, random_graph, smooth_classes
from nodegp import GraphGPClassifier

GRAPH = random_graph(30, seed=2)
TRUTH = smooth_classes(GRAPH)
Y = hide(TRUTH, np.arange(0, 30, 2))


def fitted(**settings) -> GraphGPClassifier:
    model = one_hop(kernel=FIXED_RBF, random_state=0, **settings)
    return model.fit(GRAPH, Y)


def entropy(proba: np.ndarray) -> np.ndarray:
    return -(proba * np.log(np.maximum(proba, 1e-300))).sum(-1)


@pytest.mark.parametrize("likelihood", ["robustmax", "softmax"])
def test_information_is_a_part_of_the_entropy(likelihood):
    model = fitted(likelihood=likelihood)
    doubt, information = model.predict_information()
    assert doubt == pytest.approx(entropy(model.predict_proba()))
    assert (information >= 0).all()
    assert (information <= doubt).all()
    some = model.predict_information(nodes=[4, 2])
    assert np.allclose(np.array(some), np.array([doubt, information])[:, [4, 2]])


def test_information_against_draws_of_the_latents():
    model = fitted(likelihood="softmax", calibrate=False)
    given = model.sample_proba(n_samples=20_000, random_state=0)
    expected = entropy(given.mean(0)) - entropy(given).mean(0)
    assert model.predict_information()[1] == pytest.approx(expected, abs=0.01)


def test_robust_max_has_one_kind_of_doubt_but_for_a_constant():
    model = fitted(calibrate=False)
    doubt, information = model.predict_information()
    left = doubt - information
    assert left == pytest.approx(np.full(30, left[0]))
    assert left[0] < 0.02


def test_labels_lower_information_more_than_noise():
    """Where labels abound a softmax has little left to learn, however mixed the classes are."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 30)  # no pattern at all
    dense = one_hop(kernel=FIXED_RBF, likelihood="softmax", calibrate=False)
    few = np.full(30, -1)
    few[:2] = 0, 1
    many = dense.fit(GRAPH, y).predict_information()
    none = dense.fit(GRAPH, few).predict_information()
    assert (many[1] / many[0]).mean() < (none[1] / none[0]).mean()


@pytest.mark.parametrize("likelihood", ["robustmax", "softmax"])
def test_draws_average_to_the_prediction(likelihood):
    model = fitted(likelihood=likelihood, calibrate=False)
    draws = model.sample_proba(nodes=[1, 5, 9], n_samples=20_000, random_state=0)
    assert draws.shape == (20_000, 3, len(model.classes_))
    assert draws.mean(0) == pytest.approx(model.predict_proba(nodes=[1, 5, 9]), abs=0.02)
    again = model.sample_proba(nodes=[1, 5, 9], n_samples=20_000, random_state=0)
    assert np.array_equal(draws, again)
