"""Strategies hold no state: what is remembered is the learner's, and choices stay the same."""

import pickle
from dataclasses import FrozenInstanceError, fields
from itertools import chain, islice

import numpy as np
import pytest

from nodegp import GraphGPClassifier, GraphGPRegressor
from nodegp.active import (
    STRATEGIES,
    Acquisition,
    ActiveLearner,
    PosteriorModel,
    strategies,
    suggest,
)
from nodegp.active import design as field_module
from nodegp.active import latent as latent_module
from nodegp.filters import PageRank
from nodegp.kernels import Linear
from nodegp_paper.baselines import REGISTRY
from nodegp_paper.datasets import synthetic
from packages import run_code

DATA = synthetic(60, 3, 5, n_features=12, labels_per_class=8, seed=4)


def classifier() -> GraphGPClassifier:
    """Nothing to learn, so that questions are quick and a plan can be kept."""
    return GraphGPClassifier(
        kernel=Linear(fixed=("variance",)),
        filter=PageRank(0.2, fixed=("strength",)),
        likelihood="softmax",
    )


def learner(strategy: Acquisition, start: int = 2, **settings) -> ActiveLearner:
    settings = {"classes": range(3), "random_state": 7, "batch_size": 2} | settings
    return ActiveLearner(classifier(), DATA.graph, strategy, DATA.y, initial=[start], **settings)


def questions(steps) -> list[int]:
    return list(chain.from_iterable(step.nodes.tolist() for step in steps))


HAVE_LARGE_FORM = ("sopt", "eer", "hybrid")


@pytest.fixture(params=[*strategies(), *(f"{name}, large" for name in HAVE_LARGE_FORM)])
def name(request, monkeypatch):
    """Every strategy, and some in the form that large graphs have."""
    name, _, large = request.param.partition(", ")
    if large:
        monkeypatch.setattr(field_module, "MAX_COMPONENT", 20)
        monkeypatch.setattr(latent_module, "MAX_DENSE", 30)
        monkeypatch.setattr(latent_module, "N_LANDMARKS", 25)
    return name


@pytest.mark.parametrize("name", strategies())
def test_a_strategy_is_a_frozen_value(name):
    strategy = STRATEGIES[name]()
    assert strategy == STRATEGIES[name]()
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    with pytest.raises(FrozenInstanceError):
        strategy.remembered = 1
    before = dict(vars(strategy))
    questions(learner(strategy).steps(6))
    assert vars(strategy) == before
    assert set(before) == {item.name for item in fields(strategy)}


def test_learners_share_a_strategy(name):
    alone = [questions(learner(STRATEGIES[name](), start).steps(7)) for start in (2, 30)]
    strategy = STRATEGIES[name]()
    both = [learner(strategy, start) for start in (2, 30)]
    in_turn = [[], []]
    for n_labels in (1, 3, 5, 7):
        for which, one in enumerate(both):
            in_turn[which] += questions(one.steps(n_labels))
    assert in_turn == alone


def test_a_pickled_learner_goes_on(name):
    whole = learner(STRATEGIES[name]())
    first = questions(islice(whole.steps(7), 2))
    copy = pickle.loads(pickle.dumps(whole))
    rest = questions(whole.steps(7))
    assert questions(copy.steps(7)) == rest
    assert first + rest == questions(learner(STRATEGIES[name]()).steps(7))
    # The memory went with it: the field and the plan are of the graph that went along.
    assert all(part.graph is copy.graph for part in [copy.memory.get("field", copy)])


def test_memory_makes_no_difference_to_the_answers(name):
    y = DATA.labels("train")
    y[np.flatnonzero(y >= 0)[9:]] = -1
    model = classifier().fit(DATA.graph, y, classes=range(3))
    memory = {}
    for other in STRATEGIES:  # whatever they leave behind
        suggest(DATA.graph, 3, other, y=y, model=model, memory=memory)
    with_memory = suggest(DATA.graph, 4, name, y=y, model=model, random_state=1, memory=memory)
    without = suggest(DATA.graph, 4, name, y=y, model=model, random_state=1)
    assert with_memory.nodes.tolist() == without.nodes.tolist()
    np.testing.assert_allclose(with_memory.scores, without.scores, rtol=1e-3)


# Which nodes are asked about, from node 2 on in batches of two, as long as the method stays.
CHOICES = {
    "sopt": [2, 17, 57, 24, 6, 21, 48],
    "vopt": [2, 17, 24, 48, 39, 37, 49],
    "gp-vopt": [2, 12, 0, 52, 38, 18, 41],
    "hybrid": [2, 12, 52, 48, 13, 41, 39],
    "random": [2, 16, 19, 8, 40, 35, 49],
    "degree": [2, 17, 21, 6, 57, 20, 7],
    "entropy": [2, 54, 24, 5, 23, 10, 16],
    "margin": [2, 54, 10, 28, 24, 16, 31],
    "bald": [2, 49, 38, 41, 37, 14, 18],
    "eer": [2, 17, 57, 21, 24, 6, 20],
    "gp-eer": [2, 11, 29, 38, 18, 41, 52],
    "s2": [2, 56, 37, 6, 21, 7, 20],
}


@pytest.mark.parametrize("name", strategies())
def test_choices_stay_what_they_were(name):
    assert questions(learner(STRATEGIES[name]()).steps(7)) == CHOICES[name]


# Of a model whose probabilities are as they come, without temperature and shares of classes.
UNCALIBRATED = {
    "hybrid": [2, 12, 0, 52, 38, 18, 41],
    "entropy": [2, 54, 24, 5, 23, 16, 10],
    "margin": [2, 54, 10, 28, 24, 16, 5],
    "bald": [2, 38, 18, 49, 37, 52, 12],
    "gp-eer": [2, 18, 12, 49, 20, 52, 41],
}


@pytest.mark.parametrize("name", UNCALIBRATED)
def test_so_they_do_without_calibration(name):
    model = classifier().set_params(calibrate=False)
    asked = ActiveLearner(
        model,
        DATA.graph,
        STRATEGIES[name](),
        DATA.y,
        initial=[2],
        classes=range(3),
        random_state=7,
        batch_size=2,
    )
    assert questions(asked.steps(7)) == UNCALIBRATED[name]


# --- what a model is asked ---------------------------------------------------------------------


def test_our_models_are_what_strategies_ask_for():
    y = DATA.labels("train")
    assert isinstance(classifier().fit(DATA.graph, y).model_, PosteriorModel)
    values = np.where(y < 0, np.nan, y.astype(float))
    regressor = GraphGPRegressor(kernel=Linear(), filter="mean").fit(DATA.graph, values)
    assert isinstance(regressor.model_, PosteriorModel)
    assert not isinstance(REGISTRY["lp"]().fit(DATA.graph, y), PosteriorModel)


class Asked:
    """A fitted model that answers what the protocol promises and nothing else."""

    allowed = ("domain", "marginals", "across", "planning_prior")
    for_gp_eer = ("recipe", "temperature", "predict_proba")

    def __init__(self, model, names):
        for name in names:
            setattr(self, name, getattr(model, name))


class Shell:
    """An estimator of any other kind around it."""

    def __init__(self, estimator, names):
        self.model_ = Asked(estimator.model_, names)
        self.predict_proba = estimator.predict_proba


@pytest.mark.parametrize("name", ["gp-vopt", "hybrid", "gp-eer"])
def test_any_model_with_the_protocol_plugs_in(name):
    y = DATA.labels("train")
    estimator = classifier().fit(DATA.graph, y)
    names = Asked.allowed + (Asked.for_gp_eer if name == "gp-eer" else ())
    other = suggest(DATA.graph, 3, name, y=y, model=Shell(estimator, names))
    assert other.nodes.tolist() == suggest(DATA.graph, 3, name, y=y, model=estimator).nodes.tolist()


# --- a new strategy ----------------------------------------------------------------------------


def test_a_new_strategy_is_found_by_its_name():
    class Last(Acquisition):
        name = "last"
        score_means = "its number"

        def scores(self, situation):
            return np.arange(situation.graph.n_nodes, dtype=float)

    try:
        assert STRATEGIES["last"] is Last
        assert suggest(DATA.graph, 2, "last").nodes.tolist() == [59, 58]
        with pytest.raises(ValueError, match=r"'last' already, .*Last; give Other another name"):
            type("Other", (Last,), {"name": "last"})
        assert type("Nameless", (Last,), {}) not in STRATEGIES.values()
    finally:
        del STRATEGIES["last"]


def test_strategies_of_other_packages_are_found_when_they_are_needed():
    code = """
import sys
import numpy as np
from nodegp import Graph
from nodegp.active import STRATEGIES, strategies, suggest
graph = Graph(np.eye(5, k=1))
suggest(graph, 1, "sopt")
assert "s2" not in STRATEGIES and "nodegp_paper" not in sys.modules
assert suggest(graph, 1, "s2", y=[0, -1, -1, -1, 1]).nodes.tolist() == [2]
assert {"s2", "eer", "gp-eer", "bald"} <= set(strategies())
try:
    suggest(graph, 1, "oracle")
except ValueError as error:
    assert "'sopt'" in str(error) and "'bald'" in str(error)
"""
    run_code(code)
