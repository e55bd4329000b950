"""The labelling page in a real browser while its server is killed, away, or out of disk."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the labelling page needs the extra `label`")

from browser import LabelPage, LabelProcess, served
from labelling import open_session, two_groups
from nodegp.label.journal import Journal

KILLS = int(os.environ.get("NODEGP_LABEL_KILLS", "10"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def tables(tmp_path):
    """Two rings as tables, and what `nodegp label` is told of them."""
    subject = two_groups(max(60, 2 * KILLS))
    with open(tmp_path / "nodes.csv", "w") as file:
        print("node,title", file=file)
        for node, title in zip(subject.ids, subject.shown["title"], strict=True):
            print(f"{node},{title}", file=file)
    rows, columns = subject.graph.adjacency.nonzero()
    with open(tmp_path / "edges.csv", "w") as file:
        print("a,b", file=file)
        for a, b in zip(rows, columns, strict=True):
            if a < b:
                print(f"n{a},n{b}", file=file)
    journal = tmp_path / "labels.sqlite"
    names = {"nodes": "nodes.csv", "edges": "edges.csv"}
    files = [part for name, file in names.items() for part in (f"--{name}", str(tmp_path / file))]
    settings = ["--text", "title", "--classes", "left,right", "--journal", str(journal)]
    return [*files, *settings], journal


def kept(journal: Path) -> list[dict]:
    """The answers in a journal, checked by replaying it."""
    import sqlite3

    connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    begun = json.loads(connection.execute("SELECT data FROM events WHERE seq = 1").fetchone()[0])
    connection.close()
    with Journal(journal, {name: begun[name] for name in ("format", "graph")}) as whole:
        return [dict(event.data) for event in whole.events if event.kind == "answer"]


def test_undo_reaches_behind_a_restart(browser, tables, commands, tmp_path):
    arguments, journal = tables
    with LabelProcess(arguments, tmp_path, commands) as process:
        one = LabelPage(browser, process.link)
        asked = []
        for _ in range(3):
            asked.append(one.asked)
            one.press("Digit1")
        process.end(signal.SIGINT)
        process.start()
        one.page.goto(process.link)
        one.wait_ready()
        assert "3 answers, all saved" in one.page.inner_text("#saved")
        for node in reversed(asked):
            one.press("KeyZ")
            assert one.asked == node
        one.close()
    assert len(kept(journal)) == 3


@pytest.mark.slow
def test_no_answer_is_lost_or_doubled_by_a_kill(browser, tables, commands, tmp_path):
    """The server is killed at random moments after a key; the page sends again until it is told."""
    arguments, journal = tables
    rng, given = random.Random(7), []
    with LabelProcess(arguments, tmp_path, commands) as process:
        one = LabelPage(browser, process.link)
        for _ in range(KILLS):
            given.append(one.asked)
            seq = one.seq
            one.page.keyboard.press("Digit1")
            time.sleep(rng.choice([0.0, 0.005, 0.01, 0.02, 0.05, 0.1]) * rng.random())
            process.end()
            process.start()
            one.page.wait_for_function(
                "seq => document.body.dataset.painted !== seq", arg=seq, timeout=60_000
            )
            one.page.wait_for_function(
                "() => document.querySelector('#saved').textContent.includes('all saved')"
            )
            assert [answer["id"] for answer in kept_while_open(journal)] == given
        assert one.errors == []
        one.close()
    assert [answer["id"] for answer in kept(journal)] == given


def kept_while_open(journal: Path) -> list[dict]:
    import sqlite3

    connection = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    rows = connection.execute("SELECT data FROM events WHERE kind = 'answer' ORDER BY seq")
    found = [json.loads(row[0]) for row in rows]
    connection.close()
    return found


def test_a_server_that_is_gone_for_a_while(browser, tables, commands, tmp_path):
    arguments, journal = tables
    with LabelProcess(arguments, tmp_path, commands) as process:
        one = LabelPage(browser, process.link)
        one.press("Digit1")
        process.end()
        asked = one.asked
        one.page.keyboard.press("Digit2")
        one.page.wait_for_selector("#trouble:not([hidden])")
        assert "kept here and sent when it is back" in one.page.inner_text("#trouble")
        assert "saving" in one.page.inner_text("#saved")
        one.page.keyboard.press("Digit1")  # not an answer to anything
        # Even a page that was closed meanwhile sends it.
        process.start()
        one.page.wait_for_function(
            "() => document.querySelector('#saved').textContent.includes('2 answers')"
        )
        assert one.page.locator("#trouble").is_hidden()
        answers = kept_while_open(journal)
        assert [(a["id"], a["label"]) for a in answers][1:] == [(asked, "right")]
        one.close()


def test_a_page_that_is_closed_before_the_answer_is_confirmed(browser, tables, commands, tmp_path):
    arguments, journal = tables
    with LabelProcess(arguments, tmp_path, commands) as process:
        one = LabelPage(browser, process.link)
        asked = one.asked
        process.end()
        one.page.keyboard.press("Digit2")
        one.page.wait_for_selector("#trouble:not([hidden])")
        one.page.close()
        process.start()
        one.page = one.context.new_page()
        one.page.goto(process.link)
        one.page.wait_for_function(
            "() => document.querySelector('#saved').textContent.includes('1 answer,')"
        )
        assert [(a["id"], a["label"]) for a in kept_while_open(journal)] == [(asked, "right")]
        one.close()


def test_a_disk_that_is_full(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        one.press("Digit1")
        connection = session.journal._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")
        one.page.keyboard.press("KeyN")
        one.page.keyboard.insert_text("x" * 15_000)
        one.page.keyboard.press("Control+Enter")
        one.page.wait_for_selector("#trouble:not([hidden])")
        assert "Not saved yet" in one.page.inner_text("#trouble")
        assert "disk is full" in one.page.inner_text("#trouble")
        connection.execute("PRAGMA max_page_count=100000")
        one.page.wait_for_selector("#question .note", timeout=10_000)
        assert one.page.locator("#trouble").is_hidden()
        assert list(session.state.notes.values()) == ["x" * 15_000]
        one.close()
