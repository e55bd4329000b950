"""The advice on when to stop: its numbers by hand, its words, and how it goes on real labels."""

import numpy as np
import pytest
import scipy.sparse as sp

from nodegp import Graph, GraphGPClassifier, load_dataset
from nodegp.active import SOPT, ActiveLearner, advice
from nodegp.kernels import Linear

BEFORE = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]])
AFTER = np.array([[0.8, 0.2], [0.4, 0.6], [0.2, 0.8], [0.5, 0.5]])


def test_numbers_by_hand():
    found = advice([BEFORE, AFTER], gain=0.2)
    assert found.rounds == 1
    assert found.changed == 0.25  # node 1
    assert found.moved == pytest.approx((0.1 + 0.2) / 4)
    assert found.error == pytest.approx((0.2 + 0.4 + 0.2 + 0.5) / 4)
    assert found.gain == pytest.approx(0.05)
    assert not found.stop


def test_only_the_last_rounds_count():
    history = [BEFORE, AFTER, AFTER, AFTER, AFTER]
    assert advice(history).changed == 0.0
    assert advice(history).stop
    assert advice(history, rounds=4).changed == 0.0625
    assert not advice(history, rounds=4).stop
    assert advice([BEFORE, AFTER, BEFORE], rounds=9).rounds == 2


def test_both_signs_must_be_quiet():
    moving = np.array([[0.9, 0.1]]), np.array([[0.6, 0.4]])
    assert advice(moving).changed == 0.0
    assert not advice(moving).stop
    assert advice(moving, moved_below=0.5).stop
    assert not advice([BEFORE, AFTER], moved_below=1.0).stop


def test_a_round_of_few_labels_is_held_to_what_ten_would_change():
    after = BEFORE.copy()
    after[0] = [0.89, 0.11]  # moved by 0.25 per cent on average
    assert advice([BEFORE, after]).stop
    assert advice([BEFORE, after], labels_per_round=50).stop
    assert not advice([BEFORE, after], labels_per_round=1).stop
    assert advice([BEFORE, after], labels_per_round=1).moved == pytest.approx(0.0025)


def test_labels_are_counted_on_the_models():
    class Model:
        classes_ = np.array([0, 1])

        def __init__(self, proba, n_labels):
            self.proba, self.labelled_ = proba, np.arange(n_labels)

        def predict_proba(self, graph, nodes):
            return self.proba

    after = BEFORE.copy()
    after[0] = [0.89, 0.11]
    graph = Graph(np.zeros((4, 4)))
    assert advice([Model(BEFORE, 5), Model(after, 15)], graph).stop
    assert not advice([Model(BEFORE, 5), Model(after, 6)], graph).stop
    assert advice([Model(BEFORE, 5), Model(after, 6)], graph, labels_per_round=10).stop


def test_words():
    quiet = advice([AFTER, AFTER])
    assert quiet.text == (
        "In the last round, 0% of the predictions changed and probabilities moved by 0% on "
        "average: more labels of this kind will change little. The model expects 32% of its "
        "predictions to be wrong."
    )
    text = advice([BEFORE, AFTER, BEFORE], gain=0.02).text
    assert text.startswith("In each of the last 2 rounds, 25% of the predictions changed")
    assert "more labels still make a difference" in text
    assert text.endswith("one more label is expected to correct 0.5% of all predictions.")


def test_models_that_do_not_know_the_same_classes():
    graph = Graph(sp.diags_array([np.ones(5)], offsets=[1], shape=(6, 6)), np.eye(6))

    def fitted(y):
        return GraphGPClassifier(kernel=Linear(fixed=("variance",))).fit(graph, y)

    two, three = fitted(["a", None, None, None, None, "c"]), fitted(["a", None, "b", *[None] * 3])
    found = advice([two, three], graph)
    assert 0.0 < found.moved <= 1.0
    a, b = two.predict_proba(graph), three.predict_proba(graph)  # (a, c) and (a, b)
    by_hand = 0.5 * (np.abs(a[:, 0] - b[:, 0]) + a[:, 1] + b[:, 1]).mean()
    assert found.moved == pytest.approx(by_hand)
    assert advice([two, two], graph, nodes=[1, 2]).stop
    with pytest.raises(ValueError, match="pass graph="):
        advice([two, three])
    with pytest.raises(ValueError, match="at least one node"):
        advice([two, three], graph, nodes=[])


@pytest.mark.parametrize(
    ("history", "settings", "message"),
    [
        ([BEFORE], {}, "at least two rounds, got 1"),
        ([BEFORE, AFTER[:2]], {}, "one shape"),
        ([BEFORE[0], AFTER[0]], {}, "one shape"),
        ([BEFORE, AFTER], {"rounds": 0}, "rounds"),
    ],
)
def test_bad_history(history, settings, message):
    with pytest.raises(ValueError, match=message):
        advice(history, **settings)


def test_predictions_settle_as_labels_come_in():
    data = load_dataset("cora")
    nodes = data.graph.largest_component()
    graph, y = data.graph.subgraph(nodes), data.y[nodes]
    may_ask = ~np.isin(nodes, data.splits["test"])
    model = GraphGPClassifier(kernel=Linear(fixed=("variance",)))
    learner = ActiveLearner(
        model, graph, SOPT(), y, candidates=may_ask, classes=range(7), batch_size=10
    )
    history = [step.model.predict_proba(graph) for step in learner.steps(120)]
    early, late = advice(history[:4]), advice(history)
    assert not early.stop
    assert late.changed < 0.5 * early.changed
    assert late.moved < 0.5 * early.moved
