"""What needs no label is done when it is asked for, once, and changes no answer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelling import answer, open_session, two_groups
from nodegp import Graph, GraphGPClassifier
from nodegp.filters import PageRank
from nodegp.model.weighing import ridge_inverses
from nodegp.operators import operator_of


def text_graph(n_nodes: int = 300) -> tuple[Graph, np.ndarray]:
    rng = np.random.default_rng(0)
    edges = rng.integers(n_nodes, size=(3 * n_nodes, 2))
    words = sp.csr_array(rng.poisson(0.05, size=(n_nodes, 80)).astype(float))
    y = np.where(np.arange(n_nodes) % 5 == 0, rng.integers(3, size=n_nodes), -1)
    return Graph.from_edges(edges, n_nodes=n_nodes, features=words), y


def products(graph: Graph) -> int:
    return sum(operator_of(graph, loops).products for loops in (True, False))


@pytest.mark.parametrize("filter", [None, PageRank(0.1, fixed=("strength",))], ids=["auto", "one"])
def test_a_fit_after_it_is_the_same_and_carries_only_labels(filter):
    (graph, y), (other, _) = text_graph(), text_graph()
    model = GraphGPClassifier(filter=filter, random_state=0)
    plain = model.fit(graph, y).predict_proba()
    assert model.prepare(other, 20.0) is model
    before = products(other)
    assert before >= 7 * 80  # every column of the features, over seven hops or more
    prepared = GraphGPClassifier(filter=filter, random_state=0).fit(other, y).predict_proba()
    np.testing.assert_array_equal(prepared, plain)
    # Nothing is done twice: what both fits sent over the edges is the same in all.
    assert products(graph) == products(other) > before


def test_a_session_without_labels_prepares_before_the_first_question(tmp_path, monkeypatch):
    subject = two_groups()
    asked = []
    monkeypatch.setattr(
        type(subject.prototype), "prepare", lambda self, graph, share: asked.append((graph, share))
    )
    session = open_session(tmp_path / "journal", subject)
    assert asked == [(subject.graph, 0.5)]
    answer(session)
    session.close()
    again = open_session(tmp_path / "journal", subject)
    assert len(asked) == 1  # there is a label: the fit has done it
    again.close()


def test_what_it_cannot_keep_anything_with_is_refused():
    graph, _ = text_graph()
    with pytest.raises(TypeError, match=r"takes a nodegp\.Graph.*got csr_array"):
        GraphGPClassifier().prepare(graph.features)
    with pytest.raises(ValueError, match="labels_per_class must be positive, got 0"):
        GraphGPClassifier().prepare(graph, 0)


def test_what_a_label_takes_is_done_before_the_answer():
    """Whatever the answer is then, no column is sent over the edges for it, and the model is the
    same to the bit."""
    (graph, y), (other, _) = text_graph(), text_graph()
    node = int(np.flatnonzero(y < 0)[0])
    for label in (0, 2):
        plain = GraphGPClassifier(random_state=0).fit(graph, y).update([node], [label])
        model = GraphGPClassifier(random_state=0).fit(other, y)
        model.model_.anticipate(node)
        before = products(other)
        model.update([node], [label])
        assert products(other) == before
        np.testing.assert_array_equal(model.predict_proba(), plain.predict_proba())
        assert model.selection_ == plain.selection_


def test_inverses_wait_for_the_label_where_a_class_has_none_yet(monkeypatch):
    graph, y = text_graph()
    node = int(np.flatnonzero(y < 0)[0])
    model = GraphGPClassifier(random_state=0).fit(graph, y, classes=[0, 1, 2, 3])
    made = []

    def counting(*asked):
        made.append(asked)
        return ridge_inverses(*asked)

    monkeypatch.setattr("nodegp.model.selection.ridge_inverses", counting)
    model.model_.anticipate(node)
    assert len(made) == 1
    model.update([node], [1])
    assert len(made) == 1


def test_a_model_that_leaves_nothing_open_has_nothing_to_anticipate():
    graph, y = text_graph()
    model = GraphGPClassifier(filter=PageRank(0.1, fixed=("strength",))).fit(graph, y)
    before = products(graph)
    model.model_.anticipate(1)
    assert products(graph) == before


def test_a_session_anticipates_the_answer_to_its_question(tmp_path, monkeypatch):
    session = open_session(tmp_path / "journal")
    session.anticipate()  # no model yet
    for _ in range(4):
        answer(session)
    asked = []
    kind = type(session.knowledge.model.model_)
    monkeypatch.setattr(kind, "anticipate", lambda self, node: asked.append(node))
    session.anticipate()
    assert asked == [session.question.node]
    reader = open_session(tmp_path / "journal")
    assert reader.is_read_only
    reader.anticipate()
    assert len(asked) == 1
    reader.close()
    session.close()
