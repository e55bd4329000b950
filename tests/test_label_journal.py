"""The journal of a labelling session: nothing is lost, nothing changes, and damage is found."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegp.label.events import UNDOABLE, fold, standing
from nodegp.label.journal import Event, Journal, JournalError

ABOUT = {"format": 1, "graph": "abc"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.sqlite"


def filled(path, n=5):
    with Journal(path, ABOUT, "ann") as journal:
        for number in range(n):
            journal.append(f"id{number}", "answer", {"number": number, "label": "a"})
    return path


def test_events_come_back_in_order(path):
    filled(path)
    with Journal(path, ABOUT) as journal:
        assert [event.kind for event in journal.events] == ["begun", *["answer"] * 5]
        assert [event.seq for event in journal.events] == [1, 2, 3, 4, 5, 6]
        assert {event.annotator for event in journal.events} == {"ann"}


def test_an_id_is_one_event(path):
    with Journal(path, ABOUT) as journal:
        first = journal.append("x", "answer", {"number": 1})
        assert journal.append("x", "answer", {"number": 1}) is first
        assert len(journal.events) == 2
    with Journal(path, ABOUT) as journal:
        assert journal.append("x", "answer", {"number": 1}) == first


def test_several_events_are_kept_together_or_not_at_all(path):
    with Journal(path, ABOUT) as journal:
        journal.add([("a", "note", {}), ("b", "note", {})])
        with pytest.raises(TypeError):
            journal.add([("c", "note", {}), ("d", "note", {"no JSON": object()})])
        assert [event.id for event in journal.events[1:]] == ["a", "b"]
    with Journal(path, ABOUT) as journal:
        assert [event.id for event in journal.events[1:]] == ["a", "b"]


@pytest.mark.parametrize("change", ["UPDATE events SET kind = 'x'", "DELETE FROM events"])
def test_the_file_refuses_changes(path, change):
    filled(path)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="never"):
        connection.execute(change)
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        'UPDATE events SET data = \'{"number":3,"label":"b"}\' WHERE seq = 4',
        "UPDATE events SET annotator = 'other' WHERE seq = 2",
        "UPDATE events SET data = 'no json' WHERE seq = 4",
        "DELETE FROM events WHERE seq = 3",
        "UPDATE events SET seq = 9 WHERE seq = 6",
    ],
)
def test_a_changed_event_is_found(path, damage):
    filled(path)
    connection = sqlite3.connect(path)
    connection.executescript(f"DROP TRIGGER events_stay; DROP TRIGGER events_remain; {damage};")
    connection.close()
    with pytest.raises(JournalError, match="damaged at event"):
        Journal(path, ABOUT)


def test_bytes_that_are_no_journal(path):
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:2000] + b"\xff" * 3000 + whole[5000:])
    with pytest.raises(JournalError):
        Journal(path, ABOUT)
    path.write_text("paper,topic\n" * 100)
    with pytest.raises(JournalError, match="cannot be read as a journal"):
        Journal(path, ABOUT)
    other = path.with_name("other.sqlite")
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript("CREATE TABLE mine (x)")
    with pytest.raises(JournalError, match="no journal of labels"):
        Journal(other, ABOUT)
    with closing(sqlite3.connect(other)) as connection:
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)


def test_a_journal_of_something_else_is_refused(path):
    filled(path)
    with pytest.raises(JournalError, match="another model: its graph differs"):
        Journal(path, ABOUT | {"graph": "def"})


def test_a_second_one_may_read(path):
    with Journal(path, ABOUT) as first, Journal(path, ABOUT) as second:
        assert not first.is_read_only
        assert second.is_read_only
        first.append("x", "answer", {})
        assert [event.id for event in second.follow()] == ["x"]
        with pytest.raises(JournalError, match="open in another process"):
            second.append("y", "answer", {})
    with Journal(path, ABOUT) as third:
        assert not third.is_read_only


def test_how_it_is_written(path):
    with Journal(path, ABOUT) as journal:
        modes = [
            journal._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    assert modes == ["delete", 3]


def test_no_room_on_the_disk(path):
    with Journal(path, ABOUT) as journal:
        journal.append("x", "answer", {"text": "a"})
        pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
        journal._connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(JournalError, match="could not be written: database or disk is full"):
            journal.append("y", "answer", {"text": "b" * 100_000})
        assert len(journal.events) == 2
        journal.append("z", "answer", {"text": "c"})  # once there is room again
    with Journal(path, ABOUT) as journal:
        assert [event.id for event in journal.events[1:]] == ["x", "z"]


WRITER = """
import sys
from nodegp.label.journal import Journal
journal = Journal(sys.argv[1], {"format": 1, "graph": "abc"})
for number in range(len(journal.events), 10_000):
    journal.append(f"id{number}", "answer", {"number": number})
    print(number, flush=True)
"""


def test_what_was_said_to_be_kept_outlives_a_kill(path):
    """The process is killed at any moment; all that it reported is there, and goes on."""
    rng, reported = random.Random(0), 0
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        writer.stdout.readline()
        time.sleep(rng.random() * 0.2)
        os.kill(writer.pid, signal.SIGKILL)
        lines = writer.stdout.read().splitlines()
        writer.wait()
        writer.stdout.close()
        reported = int(lines[-1]) if lines and lines[-1].isdecimal() else reported
        with Journal(path, ABOUT) as journal:
            numbers = [event.data["number"] for event in journal.events[1:]]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= reported


# --- what events mean -----------------------------------------------------------------------------

NODES = st.integers(0, 4)
COMMANDS = st.one_of(
    st.builds(lambda n, c: ("answer", {"number": n, "label": c}), NODES, st.sampled_from("ab")),
    st.builds(lambda n: ("unknown", {"number": n}), NODES),
    st.builds(lambda n: ("later", {"number": n}), NODES),
    st.builds(lambda n: ("flag", {"number": n, "on": True}), NODES),
    st.builds(lambda n, t: ("note", {"number": n, "text": t}), NODES, st.sampled_from(["", "t"])),
    st.builds(lambda n: ("request", {"number": n}), NODES),
    st.just(("undo", {})),
    st.just(("redo", {})),
    st.just(("learned", {"labels": 3})),
)


def as_events(commands):
    return [Event(i + 1, str(i), "", "ann", kind, data) for i, (kind, data) in enumerate(commands)]


@given(st.lists(COMMANDS, max_size=40))
def test_undo_and_redo_are_those_of_a_list(commands):
    """A list of what was done and a place in it: everybody's idea of undo."""
    done, place = [], 0
    for event in as_events(commands):
        if event.kind == "undo":
            place = max(place - 1, 0)
        elif event.kind == "redo":
            place = min(place + 1, len(done))
        elif event.kind in UNDOABLE:
            done[place:] = [event]
            place += 1
    stands, undone = standing(as_events(commands))
    assert stands == done[:place]
    assert undone == done[place:][::-1]
    plain = fold("ab", {4: "a"}, done[:place])
    state = fold("ab", {4: "a"}, as_events(commands))
    assert (state.labels, state.flags, state.notes, state.requests, state.history) == (
        *(plain.labels, plain.flags, plain.notes, plain.requests, plain.history),
    )


@given(st.lists(COMMANDS, max_size=30))
def test_the_last_word_on_a_node_counts(commands):
    commands = [c for c in commands if c[0] not in ("undo", "redo")]
    labels = {4: "a"}
    for kind, data in commands:
        if kind == "answer":
            labels[data["number"]] = data["label"]
        elif kind == "unknown":
            labels.pop(data["number"], None)
        elif kind == "later":
            labels.pop(data["number"], None)
            if data["number"] == 4:
                labels[4] = "a"
    assert fold("ab", {4: "a"}, as_events(commands)).labels == labels


def test_classes_are_added_renamed_and_merged():
    events = as_events(
        [
            ("answer", {"number": 0, "label": "a"}),
            ("class-added", {"name": "c"}),
            ("answer", {"number": 1, "label": "c"}),
            ("class-renamed", {"name": "c", "to": "see"}),
            ("class-merged", {"name": "a", "to": "b"}),
        ]
    )
    state = fold("ab", {5: "a", 6: "b"}, events)
    assert state.classes == ["b", "see"]
    assert state.labels == {0: "b", 1: "see", 5: "b", 6: "b"}
    before = fold("ab", {5: "a", 6: "b"}, [*events, *as_events([("undo", {})] * 2)])
    assert before.classes == ["a", "b", "c"]
    assert before.labels == {0: "a", 1: "c", 5: "a", 6: "b"}
