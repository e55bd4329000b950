"""A labelling session: it asks, keeps what is said, learns, and stands where it ended."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import nodegp
from labelling import CLASSES, answer, do, open_session, truth, two_groups
from nodegp.active import ActiveLearner, Hybrid, gpvopt
from nodegp.app import Project
from nodegp.datasets.papers import make_papers
from nodegp.label import learning
from nodegp.label.commands import Refused
from nodegp.label.export import answers_table, exported, write_answers
from nodegp.label.journal import JournalError
from nodegp.label.learning import Learner
from nodegp.label.neighbourhood import rings, ways_to_labels
from nodegp.label.opening import Subject, subject_of
from nodegp.label.session import Session


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.sqlite"


@pytest.fixture
def session(path):
    one = open_session(path)
    yield one
    one.close()


def standing(session):
    """All that is shown, but for how long it took."""
    return {k: v for k, v in session.standing().items() if k not in ("seconds", "seq")}


# --- asking and answering -------------------------------------------------------------------------


def test_it_begins_without_any_label(session):
    asked = session.standing()["question"]
    assert asked["strategy"] == "sopt"  # hybrid needs a model
    assert asked["texts"][0]["name"] == "title"
    assert asked["ways"] == []
    assert session.knowledge.model is None


def test_the_model_learns_from_each_answer(session):
    for count in range(1, 6):
        node = session.question.node
        reply = answer(session)
        assert session.state.labels[node] == truth(node)
        assert session.knowledge.model.labelled_.tolist() == sorted(session.state.labels)
        assert reply["panels"]["labels"] == count
        assert reply["question"]["number"] != node
        assert reply["outcome"]["label"] == truth(node)
    assert "probability" in reply["outcome"]
    assert reply["panels"]["leave_one_out"] is not None
    assert [row[0] for row in reply["panels"]["curve"]] == [1, 2, 3, 4, 5]


def test_probably_is_a_confidence(session):
    answer(session)
    node = session.question.node
    answer(session, confidence=0.75)
    model = session.knowledge.model
    assert model.label_confidence_[model.labelled_.tolist().index(node)] == 0.75


def test_cannot_tell_is_final_and_later_comes_back(session):
    final, later = session.question.node, None
    do(session, "unknown", number=final)
    later = session.question.node
    do(session, "later", number=later)
    asked = []
    while session.question is not None and len(asked) < 40:
        asked.append(session.question.node)
        answer(session)
    assert final not in asked
    assert asked.index(later) == 10
    assert len(asked) == 23
    assert session.standing()["question"] is None


def test_a_node_that_is_asked_for_comes_next(session):
    do(session, "request", number=7)
    assert (session.question.node, session.question.why) == (7, "request")
    answer(session)
    assert session.state.marks[7].event.data["why"] == "request"
    assert session.question.node != 7
    with pytest.raises(Refused, match="has an answer already"):
        do(session, "request", number=7)


def test_an_answer_is_corrected_in_its_place(session):
    for _ in range(3):
        answer(session)
    node = session.state.history[1]
    asked = session.question
    other = CLASSES[truth(node) == CLASSES[0]]
    do(session, "answer", number=node, label=other)
    assert session.state.history[1] == node
    assert session.state.labels[node] == other
    assert session.state.marks[node].event.data["why"] == "correction"
    assert session.question.node not in session.state.labels
    do(session, "undo")
    assert session.state.labels[node] == truth(node)
    assert session.question == asked


def test_flags_and_notes(session):
    asked = session.question
    do(session, "flag", number=3)
    do(session, "note", number=3, text=" odd ")
    assert session.question == asked  # they ask nothing new
    seen = session.look(3)
    assert (seen["flagged"], seen["note"]) == (True, "odd")
    do(session, "flag", number=3)
    do(session, "undo")
    do(session, "undo")
    assert (session.look(3)["flagged"], session.look(3)["note"]) == (True, "")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("answer", {"number": 0, "label": "no such class"}),
        ("answer", {"number": 0, "label": "left", "confidence": 0}),
        ("answer", {"number": 0, "label": "left", "confidence": "high"}),
        ("answer", {"number": 99, "label": "left"}),
        ("answer", {"number": "0", "label": "left"}),
        ("answer", {"number": True, "label": "left"}),
        ("answer", {"label": "left"}),
        ("note", {"number": 0, "text": None}),
        ("undo", {}),
        ("redo", {}),
        ("class-added", {"name": " "}),
        ("class-added", {"name": "left"}),
        ("class-renamed", {"name": "left", "to": "right"}),
        ("class-merged", {"name": "left", "to": "left"}),
        ("class-merged", {"name": "up", "to": "left"}),
        ("begun", {}),
        ("no such thing", {}),
        ("learned", {}),
    ],
)
def test_what_makes_no_sense_is_refused_and_not_kept(session, kind, data):
    before = len(session.journal.events)
    with pytest.raises(Refused):
        do(session, kind, **data)
    assert len(session.journal.events) == before


# --- classes --------------------------------------------------------------------------------------


def test_classes_change_in_the_middle(session):
    for _ in range(4):
        answer(session)
    do(session, "class-added", name="middle")
    assert session.knowledge.classes == ["left", "middle", "right"]
    answer(session, "middle")
    do(session, "class-renamed", name="middle", to="centre")
    assert "centre" in session.knowledge.classes
    do(session, "class-merged", name="centre", to="left")
    assert session.knowledge.classes == ["left", "right"]
    assert "centre" not in session.state.labels.values()
    for _ in range(4):
        do(session, "undo")
    assert session.state.classes == CLASSES
    assert len(session.state.labels) == 4


def test_classes_that_are_numbers_stay_numbers(path):
    subject = two_groups()
    subject.classes, subject.kind = ["0", "1"], int
    with pytest.raises(Refused, match="whole numbers"):
        do(session := open_session(path, subject), "class-added", name="two")
    do(session, "class-added", name="2")
    answer(session, "2")
    assert session.knowledge.model.classes_.tolist() == [0, 1, 2]
    session.close()


# --- the same again -------------------------------------------------------------------------------


def test_a_session_stands_where_it_ended(path):
    first = open_session(path)
    for _ in range(3):
        answer(first)
    do(first, "later", number=first.question.node)
    do(first, "note", number=1, text="x")
    do(first, "undo")
    do(first, "undo")
    before = standing(first)
    first.close()
    again = open_session(path)
    assert standing(again) == before
    do(again, "redo")
    assert len(again.state.marks) == 4
    again.close()


@pytest.mark.parametrize("is_large", [False, True])
def test_many_labels_are_learnt_by_updates_and_found_again(path, monkeypatch, is_large):
    """The recipe is chosen by the first labels, also by a session that starts again."""
    n = 160
    if is_large:
        monkeypatch.setattr(learning, "FIT_ANEW", 100)
    else:
        monkeypatch.setattr(learning, "FIRST_LABELS", 12)
    sizes, anew = [], Learner._anew

    def fit(self, state, labels, confidences):
        sizes.append(len(labels))
        return anew(self, state, labels, confidences)

    monkeypatch.setattr(Learner, "_anew", fit)
    session = open_session(path, two_groups(n))
    sizes.clear()  # of the rehearsal
    for number in range(30):
        sure = 0.75 if number % 7 == 3 else 1.0
        answer(session, truth(session.question.node, n), confidence=sure)
    assert sizes == ([1, 2, 4, 8, 16] if is_large else [*range(1, 13), 24])
    before, asked = session.knowledge, session.question
    session.close()
    sizes.clear()
    session = open_session(path, two_groups(n))
    assert sizes == ([16] if is_large else [24])
    np.testing.assert_allclose(session.knowledge.proba, before.proba, atol=2e-3)
    assert session.knowledge.model.recipe_.name == before.model.recipe_.name
    assert session.question == asked
    node = session.state.history[3]
    do(session, "answer", number=node, label=truth(n - 1 - node, n))  # another class
    do(session, "undo")
    do(session, "unknown", number=node)  # takes the label back
    assert node not in session.knowledge.model.labelled_
    assert len(session.knowledge.model.labelled_) == 29
    session.close()


@pytest.mark.parametrize("strategy", ["hybrid", "gp-eer", "margin", "sopt"])
def test_what_needs_no_label_is_done_before_the_first_question(path, monkeypatch, strategy):
    """A person who gives the first answer waits for no plan; and it changes no question."""
    made, plan = [], gpvopt.latent_covariance

    def counted(*about):
        made.append(about)
        return plan(*about)

    monkeypatch.setattr(gpvopt, "latent_covariance", counted)
    session = open_session(path, strategy=strategy)
    planned = len(made)
    assert planned == (strategy in ("hybrid", "gp-eer"))
    asked = []
    for _ in range(4):
        asked.append(session.question.node)
        answer(session)
    assert len(made) == planned
    session.close()
    path.unlink()
    monkeypatch.setattr(Learner, "prepare", lambda self, state: 1 / 0)  # which harms nobody
    session = open_session(path, strategy=strategy)
    for node in asked:
        assert session.question.node == node
        answer(session)
    session.close()


def test_undo_without_limit_and_across_restarts(path):
    session = open_session(path)
    states = [session.state.labels]
    for _ in range(6):
        answer(session)
        states.append(session.state.labels)
    session.close()
    session = open_session(path)
    for expected in reversed(states[:-1]):
        do(session, "undo")
        assert session.state.labels == expected
    assert session.knowledge.model is None
    session.close()
    session = open_session(path)
    for expected in states[1:]:
        do(session, "redo")
        assert session.state.labels == expected
    session.close()


def test_a_command_that_comes_twice_is_done_once(path):
    session = open_session(path)
    node = session.question.node
    first = do(session, "answer", "the id", number=node, label="left")
    answer(session)
    before = len(session.journal.events)
    again = do(session, "answer", "the id", number=node, label="left")
    assert again == first
    assert len(session.journal.events) == before
    session.close()
    session = open_session(path)
    assert do(session, "answer", "the id", number=node, label="left")["outcome"] == first["outcome"]
    assert len(session.state.labels) == 2
    session.close()


def test_a_retry_after_a_kill_gets_the_same_reply(path):
    session = open_session(path)
    for _ in range(3):
        answer(session)
    node = session.question.node
    reply = do(session, "answer", "the id", number=node, label=truth(node))
    session.journal.close()  # as if killed: what was learnt from the last was not kept yet
    again = open_session(path)
    second = do(again, "answer", "the id", number=node, label=truth(node))
    assert {k: v for k, v in second.items() if k not in ("seconds", "seq")} == {
        k: v for k, v in reply.items() if k not in ("seconds", "seq")
    }
    again.close()


def test_a_model_that_cannot_learn_loses_no_answer(session, monkeypatch):
    answer(session)
    node = session.question.node

    def fail(*args, **kwargs):
        raise RuntimeError("no luck")

    monkeypatch.setattr(Learner, "learn", fail)
    reply = do(session, "answer", number=node, label=truth(node))
    assert "no luck" in reply["trouble"]
    assert session.state.labels[node] == truth(node)
    assert reply["question"]["number"] not in session.state.labels
    assert "no luck" in do(session, "flag", number=node)["trouble"], "it is still so"
    monkeypatch.undo()
    assert do(session, "note", number=node, text="odd")["trouble"] == ""
    assert len(session.knowledge.model.labelled_) == 2, "it has learnt after all"
    answer(session)
    assert len(session.knowledge.model.labelled_) == 3


def test_a_journal_that_cannot_be_written_takes_no_answer(session, monkeypatch):
    asked = session.question

    def fail(events):
        raise JournalError("the disk is full")

    monkeypatch.setattr(session.journal, "_write", fail)
    with pytest.raises(JournalError, match="full"):
        answer(session)
    assert session.state.labels == {}
    monkeypatch.undo()
    assert session.question == asked
    answer(session)
    assert len(session.state.labels) == 1


def test_a_journal_of_another_model(path):
    open_session(path).close()
    with pytest.raises(JournalError, match="another model: its graph"):
        open_session(path, two_groups(26))
    other = two_groups()
    other.classes = ["up", "down"]
    with pytest.raises(JournalError, match="classes are 'left', 'right', and not 'up', 'down'"):
        open_session(path, other)


def test_a_journal_knows_the_classes_it_had(path):
    session = open_session(path)
    do(session, "class-added", name="third")
    do(session, "class-renamed", name="left", to="port")
    session.close()
    for classes in (["left", "right"], ["left", "right", "third"], ["port", "right", "third"]):
        subject = two_groups()
        subject.classes = classes
        open_session(path, subject).close()
    for classes in (["left"], ["right", "third"], ["left", "right", "port"]):
        subject = two_groups()
        subject.classes = classes
        with pytest.raises(JournalError, match="another model: its classes are 'port', 'right'"):
            open_session(path, subject)


def test_a_second_session_reads(path):
    first = open_session(path)
    answer(first)
    second = open_session(path)
    assert second.standing()["read_only"]
    with pytest.raises(JournalError, match="another process"):
        answer(second)
    assert second.state.labels == first.state.labels
    first.close()
    second.close()


def test_what_was_worked_out_ahead_is_what_is_learnt(path, monkeypatch):
    session = open_session(path)
    for _ in range(3):
        answer(session)
    session.ahead()
    node, learn = session.question.node, Learner.learn
    fits = []
    monkeypatch.setattr(Learner, "learn", lambda *args: fits.append(1) or learn(*args))
    answer(session)
    assert fits == []  # it was there already
    found = session.knowledge
    fresh = learn(session.learner, session.state)
    assert np.array_equal(found.proba, fresh.proba)
    assert session.state.labels[node] == truth(node)
    answer(session, confidence=0.5)  # this was not thought of
    assert fits == [1]
    do(session, "undo")
    assert fits == [1]  # and this had been known
    session.close()


# --- honesty --------------------------------------------------------------------------------------


def test_nothing_of_the_model_is_shown_before_the_answer(session):
    for _ in range(4):
        answer(session)
    asked = session.standing()["question"]
    assert "suggestion" not in asked
    assert "predict" not in json.dumps(asked)
    assert "probabilit" not in json.dumps(asked)
    with pytest.raises(Refused, match="once you have answered"):
        session.thoughts(session.question.node)
    with pytest.raises(Refused):
        session.thoughts(next(n for n in range(24) if n not in session.state.labels))
    node = session.question.node
    answer(session)
    told = session.thoughts(node)
    assert told["before"]
    assert sum(row["probability"] for row in told["probabilities"]) == pytest.approx(1)
    assert all(row["number"] != node for row in told["labels"])


def test_an_answer_that_was_undone_has_shown_what_the_model_thought(session):
    answer(session)
    node = session.question.node
    answer(session)
    assert session.state.marks[node].event.data["suggestion"] is False
    do(session, "undo")
    assert session.question.node == node
    answer(session)
    assert session.state.marks[node].event.data["suggestion"] is True


def test_suggestions_are_a_choice_and_a_tenth_stays_blind(path):
    session = open_session(path, two_groups(60), suggestions=True)
    answer(session, "left")
    visible = []
    while session.question is not None:
        visible.append("suggestion" in session.standing()["question"])
        node = session.question.node
        answer(session, truth(node, 60))
        assert session.state.marks[node].event.data["suggestion"] is visible[-1]
    assert 0.8 < np.mean(visible) < 0.98
    session.close()


def test_a_share_of_the_questions_is_drawn_at_random(path):
    session = open_session(path, two_groups(120), random_share=0.3)
    why = []
    for _ in range(60):
        why.append(session.question.why)
        answer(session, truth(session.question.node, 120))
    assert 0.15 < np.mean([w == "random" for w in why]) < 0.45
    estimate = session.standing()["panels"]["estimate"]
    known = [m for m in session.state.marks.values() if m.event.data["why"] == "random"]
    known = [m for m in known if "predicted" in m.event.data]
    right = sum(m.event.data["predicted"] == m.label for m in known)
    assert (estimate["right"], estimate["drawn"]) == (right, len(known))
    assert estimate["low"] < estimate["accuracy"] <= estimate["high"]
    session.close()


def test_nobody_agrees_with_a_model_they_have_heard(path):
    """Answers to random questions tell how right the model is: as they were first given."""
    session = open_session(path, two_groups(60), random_share=1.0)
    for _ in range(6):
        answer(session, truth(session.question.node, 60))

    def right():
        return session.standing()["panels"]["estimate"]["right"]

    node = session.question.node
    predicted = session.knowledge.predicted()[node]
    other = next(name for name in ("left", "right") if name != predicted)
    before = right()
    answer(session, other)
    assert right() == before
    do(session, "answer", number=node, label=predicted)  # once they know
    assert right() == before
    node, predicted = session.question.node, session.knowledge.predicted()[session.question.node]
    answer(session, predicted)
    assert right() == before + 1
    do(session, "class-renamed", name=predicted, to="another name")
    do(session, "answer", number=node, label="another name", confidence=0.75)
    assert right() == before + 1, "a class by another name is the same"
    do(session, "answer", number=node, label=session.state.classes[0])
    do(session, "answer", number=node, label=session.state.classes[1])
    assert right() == before
    session.close()


def test_whoever_could_not_tell_has_heard_what_the_model_thinks(session):
    for _ in range(3):
        answer(session)
    node = session.question.node
    do(session, "unknown", number=node)
    session.thoughts(node)
    do(session, "undo")
    do(session, "answer", number=node, label=truth(node))
    assert session.state.marks[node].event.data["suggestion"] is True


def test_a_suggestion_that_is_wished_away_was_seen(path):
    session = open_session(path, two_groups(60), suggestions=True)
    answer(session, "left")
    while "suggestion" not in session.standing()["question"]:
        answer(session, "left")
    node = session.question.node
    do(session, "mode", suggestions=False)
    session.close()
    session = open_session(path, two_groups(60), suggestions=True)
    assert not session.suggestions
    do(session, "answer", number=node, label="left")
    assert session.state.marks[node].event.data["suggestion"] is True
    session.close()


def test_nothing_is_said_of_what_is_put_off(session):
    for _ in range(3):
        answer(session)
    node = session.question.node
    reply = do(session, "later", number=node)
    assert not {"predicted", "predicted_probability", "probability"} & reply["outcome"].keys()
    row = answers_table(session).to_pylist()[-1]
    assert (row["status"], row["predicted_before"]) == ("put off", None)


def test_advice_is_of_answers_that_stand(session):
    for _ in range(3):
        answer(session)
    assert session.standing()["panels"]["advice"] is not None
    while session.state.events:
        reply = do(session, "undo")
    assert reply["outcome"]["of"]["kind"] == "answer"
    assert session.standing()["panels"]["advice"] is None


# --- with a model ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def papers():
    tables = make_papers()
    import pyarrow as pa

    project = Project.from_tables(
        pa.table(tables["papers"]), pa.table(tables["cites"]),
        id="paper", label="topic", text=["title"], show=["title", "published"],
    )  # fmt: skip
    project.fit()
    return project, dict(zip(*tables["answers"].values(), strict=True))


def test_a_model_goes_on_from_its_labels(papers, path, tmp_path):
    project, answers = papers
    session = Session(subject_of(project), path)
    assert session.knowledge.model is project.model  # as it is: nothing was answered
    assert len(session.state.labels) == 40
    asked = session.standing()["question"]
    assert asked["ways"]
    assert asked["neighbours"]
    for _ in range(5):
        session.do(
            f"p{session.question.node}",
            "answer",
            {
                "number": session.question.node,
                "label": answers[str(session.standing()["question"]["id"])],
            },
        )
    assert len(session.knowledge.model.labelled_) == 45
    table = answers_table(session)
    assert table.column_names[:2] == ["paper", "topic"]
    write_answers(session, tmp_path / "out.csv")
    again = Project.open(_saved(project, tmp_path))
    assert again.answer(tmp_path / "out.csv")["new_labels"] == 5
    # The model that has learnt goes with the same journal.
    project.model = session.knowledge.model
    session.close()
    session = Session(subject_of(project), path)
    assert session.knowledge.model is project.model
    do(session, "undo")
    assert len(session.state.labels) == 44
    session.close()


def _saved(project, folder):
    project.save(folder / "m.nodegp")
    return folder / "m.nodegp"


def test_the_drawing_has_rings_and_is_the_same_every_time(papers, path):
    session = Session(subject_of(papers[0]), path)
    for node in range(0, 300, 37):
        drawing = session.look(node)["drawing"]
        assert drawing == session.look(node)["drawing"]
        nodes = drawing["nodes"]
        assert nodes[0]["number"] == node
        assert len(nodes) <= 150
        neighbours = {one["number"] for one in nodes if one["ring"] == 1}
        assert neighbours == {n["number"] for n in session.look(node)["neighbours"]}
        assert all(-1 <= one["x"] <= 1 and -1 <= one["y"] <= 1 for one in nodes)
        places = {(one["x"], one["y"]) for one in nodes}
        assert len(places) == len(nodes)
        for a, b in drawing["edges"]:
            assert papers[0].graph.adjacency[[nodes[a]["number"]]][:, [nodes[b]["number"]]].nnz
    session.close()


def test_a_hub_and_a_node_alone_are_drawn():
    edges = np.array([[0, other] for other in range(1, 400)])
    graph = nodegp.Graph.from_edges(edges, n_nodes=401)
    drawing = rings(graph, 0, {399: "a", 250: "b"})
    assert len(drawing["nodes"]) == 150
    assert {250, 399} <= {one["node"] for one in drawing["nodes"]}  # those with a label come first
    assert drawing["omitted"] == 399 - 149
    from_rim = rings(graph, 7, {})
    assert [one["ring"] for one in from_rim["nodes"]].count(2) == 148
    alone = rings(graph, 400, {0: "a"})
    assert (len(alone["nodes"]), alone["edges"]) == (1, [])
    assert ways_to_labels(graph, 400, {0: "a"}) == []


def test_ways_lead_along_edges_to_the_nearest_of_each_class(papers, path):
    from scipy.sparse.csgraph import shortest_path

    session = Session(subject_of(papers[0]), path)
    labels, graph = session.state.labels, papers[0].graph
    node = next(n for n in range(300) if n not in labels)
    steps = shortest_path(graph.adjacency, unweighted=True, indices=[node])[0]
    for way in session.look(node)["ways"]:
        numbers = [one["number"] for one in way["nodes"]]
        assert numbers[0] == node
        assert labels[numbers[-1]] == way["label"]
        assert all(graph.adjacency[[a]][:, [b]].nnz for a, b in pairwise(numbers))
        of_class = [n for n, name in labels.items() if name == way["label"]]
        assert len(numbers) - 1 == steps[of_class].min()
    session.close()


def test_numbers_have_their_place(session):
    size = next(n for n in session.look(6)["numbers"] if n["name"] == "size")
    assert (size["value"], size["below"], size["upto"]) == (6.0, 6 / 24, 7 / 24)
    assert (size["least"], size["most"]) == (0.0, 23.0)


# --- export ---------------------------------------------------------------------------------------


def test_every_format_says_the_same(session):
    answer(session)
    answer(session, confidence=0.75)
    do(session, "unknown", number=session.question.node)
    do(session, "note", number=9, text='a "quoted", note\nof two lines')
    import pyarrow.csv
    import pyarrow.parquet
    from pyarrow import BufferReader

    table = answers_table(session)
    assert table.num_rows == 4
    assert pyarrow.parquet.read_table(BufferReader(exported(session, "parquet"))).equals(table)
    lines = exported(session, "jsonl").decode().splitlines()
    assert [json.loads(line) for line in lines] == table.to_pylist()
    options = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pyarrow.csv.read_csv(BufferReader(exported(session, "csv")), parse_options=options)
    assert read["id"].to_pylist() == table["id"].to_pylist()
    assert read["confidence"].to_pylist()[:2] == [1.0, 0.75]
    assert read["note"].to_pylist()[-1] == table["note"].to_pylist()[-1]


def test_an_export_of_nothing_has_its_columns(session):
    assert answers_table(session).column_names[:3] == ["id", "label", "confidence"]
    assert exported(session, "csv").decode().count("\n") == 1


# --- the learning curve ---------------------------------------------------------------------------


def test_cora_through_a_session_is_the_curve_of_the_library(path):
    """The same start, the same questions, the same probabilities, to the digit."""
    data = nodegp.load_dataset("cora")
    nodes = data.graph.largest_component()
    graph, y = data.graph.subgraph(nodes), data.y[nodes]
    model = nodegp.GraphGPClassifier(random_state=0)
    learner = ActiveLearner(model, graph, Hybrid(), oracle=y, initial=[0], classes=range(7))
    subject = Subject(graph, np.arange(graph.n_nodes), [str(c) for c in range(7)], model, int)
    session = Session(subject, path, random_share=0.0)
    do(session, "request", number=0)
    for step in learner.steps(n_labels=12):
        assert session.question.node == step.nodes[0]
        do(session, "answer", number=session.question.node, label=str(y[step.nodes[0]]))
        assert np.array_equal(session.knowledge.proba, step.model.predict_proba())
    session.close()
