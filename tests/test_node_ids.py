"""Nodes by the names that users know them by: in predictions, updates, explanations and labels."""

from __future__ import annotations

import numpy as np
import pytest

import nodegp
from helpers import FIXED_RBF, hide, random_graph, smooth_classes, smooth_scores
from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.active import SOPT, ActiveLearner, suggest
from nodegp_paper.baselines import REGISTRY

PLAIN = random_graph(24, seed=2)
IDS = np.array([f"p{n * 7 % 24}" for n in range(24)])  # in no order
GRAPH = Graph(PLAIN.adjacency, PLAIN.features, IDS)
TRUTH = np.array(["ant", "bee", "cat"])[smooth_classes(PLAIN)]
SHOWN = np.arange(0, 24, 2)
Y = hide(TRUTH, SHOWN, None)
ASKED = [5, 0, 17]


def fitted(graph=GRAPH, y=Y) -> GraphGPClassifier:
    return GraphGPClassifier(kernel=FIXED_RBF, random_state=0).fit(graph, y)


def same(one: GraphGPClassifier, other: GraphGPClassifier) -> bool:
    return one.labelled_.tolist() == other.labelled_.tolist() and np.array_equal(
        one.predict_proba(), other.predict_proba()
    )


# --- nodes= ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [IDS[ASKED], IDS[ASKED].tolist(), IDS[ASKED].astype(object)])
@pytest.mark.parametrize("X", [None, GRAPH], ids=["fitted on", "given"])
def test_predictions_by_id_are_those_by_number(names, X):
    model = fitted()
    for method in ("predict", "predict_proba", "predict_set"):
        found = getattr(model, method)(X, nodes=names)
        assert np.array_equal(found, getattr(model, method)(X, nodes=ASKED))
    for method in ("predict_latent", "predict_information"):
        for one, other in zip(
            getattr(model, method)(X, names), getattr(model, method)(X, ASKED), strict=True
        ):
            assert np.array_equal(one, other)
    assert model.predict_frame(X, names)["id"].to_pylist() == IDS[ASKED].tolist()


def test_one_id_is_one_node():
    assert fitted().predict(nodes=IDS[5]).tolist() == fitted().predict(nodes=[5]).tolist()


def test_ids_are_those_of_the_graph_that_is_asked_about():
    """Another graph may have the same nodes at other places, and more of them."""
    order = np.random.default_rng(0).permutation(24)
    turned = GRAPH.subgraph(order)
    model = fitted()
    expected = model.predict_proba(GRAPH, IDS[ASKED])
    assert model.predict_proba(turned, IDS[ASKED]) == pytest.approx(expected, abs=1e-9)


def test_text_is_an_id_and_a_number_a_place():
    """Even where ids are written as numbers, or are numbers."""
    digits = Graph(PLAIN.adjacency, PLAIN.features, [str(23 - n) for n in range(24)])
    assert digits.numbers(["3", "0"]).tolist() == [20, 23]
    assert digits.numbers([3, 0]).tolist() == [3, 0]
    whole = Graph(PLAIN.adjacency, PLAIN.features, np.arange(24)[::-1])
    assert whole.numbers([3, 0]).tolist() == [3, 0]
    assert whole.positions([3, 0]).tolist() == [20, 23]
    mixed = Graph(PLAIN.adjacency, None, np.array([*range(23), "x"], dtype=object))
    assert mixed.numbers("x").tolist() == [23]


def test_masks_and_all_nodes_are_as_before():
    assert GRAPH.numbers(None).tolist() == list(range(24))
    assert GRAPH.numbers(IDS == "p7").tolist() == np.flatnonzero(IDS == "p7").tolist()
    assert GRAPH.numbers([]).tolist() == []


@pytest.mark.parametrize("graph", [GRAPH, PLAIN], ids=["ids", "no ids"])
def test_an_id_that_no_node_has(graph):
    message = "1 ids are not in the graph.*ids look like 'p0'" if graph is GRAPH else "has no ids"
    for ask in (
        lambda model: model.predict(nodes=["nobody"]),
        lambda model: model.explain("nobody"),
        lambda model: model.update("nobody", "ant"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(fitted(graph))


def test_a_table_has_no_ids():
    model = GraphGPClassifier().fit(PLAIN.features, Y)
    with pytest.raises(ValueError, match="no ids"):
        model.predict(nodes=["p1"])
    with pytest.raises(ValueError, match="node numbers or a mask"):
        model.predict(PLAIN.features, nodes=["p1"])


# --- update and explain ---------------------------------------------------------------------------


def test_update_by_id(tmp_path):
    by_number = fitted().update([1, 3], ["ant", "bee"])
    assert same(fitted().update(IDS[[1, 3]], ["ant", "bee"]), by_number)
    assert same(fitted().update(IDS[1], "ant"), fitted().update(1, "ant"))
    fitted().save(tmp_path / "model", include_graph=True)
    loaded = nodegp.load(tmp_path / "model").update(IDS[[1, 3]], ["ant", "bee"])
    assert same(loaded, by_number)


def test_explain_by_id():
    one, other = fitted().explain(IDS[7]), fitted().explain(7)
    assert np.array_equal(one.from_labels, other.from_labels)
    assert np.array_equal(one.neighbours, other.neighbours)


# --- labels by id ---------------------------------------------------------------------------------


def test_labels_in_a_dict_by_id():
    by_id = {IDS[n]: TRUTH[n] for n in SHOWN[::-1]}
    assert same(fitted(GRAPH, by_id), fitted())
    gaps = {IDS[1]: None, IDS[3]: float("nan")}
    assert same(fitted(GRAPH, by_id | gaps), fitted())
    assert fitted().score(GRAPH, {IDS[n]: TRUTH[n] for n in SHOWN}) == fitted().score(GRAPH, Y)


def test_a_dict_goes_by_ids_that_are_numbers_too():
    """As on a networkx graph; without ids it goes by place."""
    whole = Graph(PLAIN.adjacency, PLAIN.features, np.arange(24)[::-1])
    assert same(fitted(whole, {23 - int(n): TRUTH[n] for n in SHOWN}), fitted())
    assert same(fitted(PLAIN, {int(n): TRUTH[n] for n in SHOWN}), fitted())


def test_regression_and_other_methods_take_a_dict():
    target = smooth_scores(PLAIN, 1)[:, 0]
    known = hide(target, SHOWN, np.nan)
    by_id = {IDS[n]: target[n] for n in SHOWN}
    one = GraphGPRegressor(kernel=FIXED_RBF).fit(GRAPH, by_id)
    other = GraphGPRegressor(kernel=FIXED_RBF).fit(GRAPH, known)
    assert np.array_equal(one.predict(), other.predict())
    rival = REGISTRY["lp"](unlabelled=None).fit(GRAPH, {IDS[n]: TRUTH[n] for n in SHOWN})
    assert rival.labelled_.tolist() == SHOWN.tolist()
    assert np.array_equal(rival.predict_proba(nodes=IDS[ASKED]), rival.predict_proba()[ASKED])


@pytest.mark.parametrize(
    ("graph", "y", "message"),
    [
        (GRAPH, {"nobody": "ant", IDS[0]: "bee"}, r"1 ids are not in the graph, first: \['nobody'"),
        (GRAPH, {0: "ant", 1: "bee"}, "2 ids are not in the graph"),
        (PLAIN, {"p0": "ant", "p1": "bee"}, "has no ids"),
        (PLAIN, {24: "ant", 1: "bee"}, r"0\.\.23"),
        (GRAPH, {}, "no labels at all"),
    ],
)
def test_dicts_that_do_not_fit(graph, y, message):
    with pytest.raises(ValueError, match=message):
        fitted(graph, y)


# --- elsewhere ------------------------------------------------------------------------------------


def test_subgraphs_and_questions_by_id():
    assert GRAPH.subgraph(IDS[ASKED]).ids.tolist() == IDS[ASKED].tolist()
    choice = suggest(GRAPH, 2, "degree", candidates=IDS[ASKED])
    assert set(choice.nodes.tolist()) < set(ASKED)
    learner = ActiveLearner(
        fitted(), GRAPH, SOPT(), oracle=TRUTH, initial=IDS[[4, 9]], candidates=IDS[ASKED]
    )
    step = next(iter(learner.steps(n_labels=2)))
    assert step.nodes.tolist() == [4, 9]
