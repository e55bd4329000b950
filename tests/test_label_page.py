"""The labelling page in a real browser: what it does with answers, keys, clicks and long texts."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the labelling page needs the extra `label`")

from browser import LabelPage, served
from labelling import do, open_session, truth, two_groups
from nodegp import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.label.opening import Subject
from nodegp.web.serving import PageServer, listening_socket


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


# --- answers that the server has not confirmed ----------------------------------------------------


@contextmanager
def served_at(port, session):
    """As `served`, at a port of one's choice; gives the port and the link."""
    with listening_socket(port) as place:
        server = PageServer(session, place)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield place.getsockname()[1], server.link
        finally:
            server.should_exit = True
            thread.join(20)


def kept_for_later(page):
    """How many commands this browser keeps, of any journal."""
    return page.evaluate(
        """() => Object.keys(localStorage).filter((key) => key.startsWith("nodegp-outbox"))
            .flatMap((key) => JSON.parse(localStorage.getItem(key))).length"""
    )


def an_answer_to_nobody(browser, path):
    """A page whose server went away before it could take the second answer, and its port."""
    with served_at(0, open_session(path)) as (port, link):
        one = LabelPage(browser, link)
        one.press("Digit1")
    one.page.keyboard.press("Digit2")
    one.page.wait_for_selector("#trouble:not([hidden])")
    return one, port


def visit(one, link):
    """A new page of the same browser, and no other."""
    one.page.close()
    one.page = one.context.new_page()
    one.page.goto(link)
    one.wait_ready()


def wait_for_text(page, selector, text):
    page.wait_for_function(
        "([at, text]) => document.querySelector(at)?.innerText.includes(text)", arg=[selector, text]
    )


def test_an_answer_waits_for_its_own_journal(browser, tmp_path):
    one, port = an_answer_to_nobody(browser, tmp_path / "a.sqlite")
    other = open_session(tmp_path / "b.sqlite")
    with served_at(port, other) as (_, link):
        visit(one, link)
        assert "0 answers, all saved" in one.page.inner_text("#saved")
        assert other.state.labels == {}
        one.press("Digit1")
        assert list(other.state.labels.values()) == ["left"]
        assert kept_for_later(one.page) == 1
    first = open_session(tmp_path / "a.sqlite")
    with served_at(port, first) as (_, link):
        visit(one, link)
        wait_for_text(one.page, "#saved", "2 answers, all saved")
        assert list(first.state.labels.values()) == ["left", "right"]
        assert kept_for_later(one.page) == 0
    one.close()


def test_an_open_page_does_not_answer_to_another_journal(browser, tmp_path):
    one, port = an_answer_to_nobody(browser, tmp_path / "a.sqlite")
    other = open_session(tmp_path / "b.sqlite")
    with served_at(port, other) as (_, link):
        one.context.new_page().goto(link)  # this browser may now speak with the other
        wait_for_text(one.page, "#trouble", "The server has another journal open now")
        assert "“right” for n" in one.page.inner_text("#trouble")
        wait_for_text(one.page, "#saved", "0 answers, all saved")
        assert other.state.labels == {}
        assert kept_for_later(one.page) == 1
        one.press("Digit1")  # it shows the other's question now
        assert len(other.state.labels) == 1
    one.close()


def test_a_refusal_of_an_answer_that_waited_is_told(browser, tmp_path):
    one, port = an_answer_to_nobody(browser, tmp_path / "a.sqlite")
    session = open_session(tmp_path / "a.sqlite")
    do(session, "class-merged", name="right", to="left")
    with served_at(port, session) as (_, link):
        visit(one, link)
        told = one.page.inner_text("#trouble")
        assert "Not saved: “right” for n" in told
        assert "there is no class 'right'" in told
        assert kept_for_later(one.page) == 0
        one.press("Digit1")
        assert "Not saved" in one.page.inner_text("#trouble")  # until it was seen
        one.page.get_by_role("button", name="I have seen it").click()
        assert one.page.locator("#trouble").is_hidden()
    one.close()


def test_what_the_server_always_fails_at_is_given_up(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        sent = []

        def fail(route):
            sent.append(route.request.post_data_json["id"])
            route.fulfill(status=500, json={"error": "the server could not do this: KeyError"})

        one.context.route("**/api/do", fail)
        one.page.keyboard.press("Digit1")
        wait_for_text(one.page, "#trouble", "Tried 4 times")
        assert "Not saved: “left” for n" in one.page.inner_text("#trouble")
        assert "KeyError" in one.page.inner_text("#trouble")
        assert len(sent) == 4
        one.page.keyboard.press("Digit2")  # and the page is closed while it is tried
        one.page.wait_for_function("() => document.querySelector('#saved').innerText === 'saving…'")
        one.page.reload()
        one.wait_ready()
        wait_for_text(one.page, "#trouble", "Not saved: “right” for n")
        one.context.unroute("**/api/do")
        one.page.reload()
        one.wait_ready()
        assert one.page.locator("#trouble").is_hidden()
        assert session.state.labels == {}
        one.press("Digit1")
        assert list(session.state.labels.values()) == ["left"]
        assert one.errors == []
        one.close()


# --- keys and clicks ------------------------------------------------------------------------------


def test_keys_work_after_a_box_was_ticked_with_the_mouse(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        box = one.page.get_by_label("probably (⇧)")
        box.click()
        assert box.is_checked()
        one.page.keyboard.press("Space")  # what it always does to a box
        assert not box.is_checked()
        box.click()
        one.press("Digit1")  # the box is for this key, too
        assert list(session.state.confidences.values()) == [0.75]
        one.press("Digit1")
        assert len(session.state.labels) == 2
        assert len(session.state.confidences) == 1
        one.page.get_by_role("button", name="Cannot tell").focus()
        seq = one.seq
        one.page.keyboard.press("Enter")
        one.page.wait_for_function("seq => document.body.dataset.painted !== seq", arg=seq)
        assert [mark.kind for mark in session.state.marks.values()][2:] == ["unknown"]
        one.close()


def test_a_key_is_changed_in_peace(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        page = one.page
        page.keyboard.press("Shift+Slash")
        key = page.get_by_label("Change the key for cannot tell")
        key.click()
        page.keyboard.press("Escape")
        assert key.inner_text() == "u"
        assert page.locator("dialog").is_visible()
        key.click()
        page.keyboard.press("Shift")
        assert key.inner_text() == "press a key"
        page.keyboard.press("KeyS")
        assert "s is taken" in key.inner_text()
        page.keyboard.press("Digit3")
        assert "3 is taken" in key.inner_text()
        page.keyboard.press("Shift+KeyX")
        assert key.inner_text() == "⇧ x"
        page.keyboard.press("KeyQ")  # it is done: no further key counts
        assert key.inner_text() == "⇧ x"
        page.keyboard.press("Escape")
        assert not page.locator("dialog").is_visible()
        one.press("Shift+KeyX")
        assert [mark.kind for mark in session.state.marks.values()] == ["unknown"]
        one.close()


@pytest.mark.parametrize("apart", [120, 200])
def test_a_double_click_is_one_answer(browser, tmp_path, apart):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        box = one.page.locator("#answers .class").first.bounding_box()
        one.page.mouse.move(box["x"] + 20, box["y"] + 20)
        for count in (1, 2):
            one.page.mouse.down(click_count=count)
            one.page.mouse.up(click_count=count)
            one.page.wait_for_timeout(apart)
        wait_for_text(one.page, "#saved", "1 answer, all saved")
        one.page.wait_for_timeout(300)
        assert len(session.state.labels) == 1
        seq = one.seq
        one.page.mouse.down(click_count=1)
        one.page.mouse.up(click_count=1)
        one.page.wait_for_function("seq => document.body.dataset.painted !== seq", arg=seq)
        assert len(session.state.labels) == 2
        one.close()


@pytest.mark.parametrize("key", ["KeyU", "KeyS", "Digit1"])
def test_a_neighbour_that_was_not_asked_about_is_not_answered(browser, tmp_path, key):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        one.page.locator(".neighbours .node").first.click()
        one.page.wait_for_selector("#question.looked")
        assert one.page.get_by_role("button", name="Cannot tell").count() == 0
        one.page.keyboard.press(key)
        wait_for_text(one.page, "#trouble", "You are looking at another node")
        assert not session.state.marks
        one.page.keyboard.press("Escape")
        one.press(key)
        assert len(session.state.marks) == 1
        one.close()


# --- what is shown --------------------------------------------------------------------------------

RICH = """\
# How to tell

Two words
in one paragraph, snake_case_name and _this_.
- first
  goes on
  - inner **bold**
    1. innermost

  and more of it
- second

```text
a = 1

- no list
    b = 2
```

| class | sign |
|-------|:----:|
| left  | `a` or <b> |
| right | x \\| y |

2. two
3. three

> quoted
> - inside

After.
"""


def test_a_guideline_is_laid_out_as_it_was_meant(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session, guideline=RICH) as link:
        one = LabelPage(browser, link)
        one.page.keyboard.press("KeyH")
        one.page.wait_for_selector(".guideline")
        outline = one.page.evaluate(
            """() => {
              const told = (node) => node.nodeType === 3 ? node.textContent
                : [node.tagName.toLowerCase(), ...[...node.childNodes].map(told)];
              return [...document.querySelector(".guideline").childNodes].map(told);
            }"""
        )
        outline = [[part for part in block if part != ""] for block in outline]
        heading, paragraph, bullets, code, table, numbers, quote, after = outline
        assert heading == ["h3", "How to tell"]
        assert paragraph[1].startswith("Two words in one paragraph, snake_case_name")
        assert ["em", "this"] in paragraph
        inner = ["ul", ["li", "inner ", ["strong", "bold"], ["ol", ["li", "innermost"]]]]
        assert bullets == [
            "ul",
            ["li", "first goes on", inner, ["p", "and more of it"]],
            ["li", "second"],
        ]
        assert code == ["pre", "a = 1\n\n- no list\n    b = 2"]
        assert table[1] == ["thead", ["tr", ["th", "class"], ["th", "sign"]]]
        assert table[2][2] == ["tr", ["td", "right"], ["td", "x | y"]]
        assert table[2][1] == ["tr", ["td", "left"], ["td", ["code", "a"], " or <b>"]]
        assert numbers == ["ol", ["li", "two"], ["li", "three"]]
        assert one.page.get_attribute(".guideline > ol", "start") == "2"
        assert quote == ["blockquote", ["p", "quoted"], ["ul", ["li", "inside"]]]
        assert after == ["p", "After."]
        assert one.page.locator(".guideline b").count() == 0
        one.close()


def many(n=400, n_classes=12, **shown):
    """A node in the middle of many, and classes with long names that differ at their ends."""
    rng = np.random.default_rng(1)
    edges = [(0, i) for i in range(1, 60)] + [tuple(rng.integers(0, n, 2)) for _ in range(900)]
    graph = Graph.from_edges(
        np.array([(a, b) for a, b in edges if a != b]), n_nodes=n, features=rng.random((n, 3))
    )
    classes = [f"extra class number {i} of many" for i in range(n_classes)]
    model = GraphGPClassifier(random_state=0)
    columns = {name: np.array([make(i) for i in range(n)], object) for name, make in shown.items()}
    return Subject(graph, np.array([f"n{i}" for i in range(n)]), classes, model, shown=columns)


def test_a_long_text_is_no_heading(browser, tmp_path):
    text = "A sentence of an abstract, and another one. " * 60
    subject = many(abstract=lambda i: f"{text}{i}", year=lambda i: str(1990 + i % 30),
                   size=lambda i: str(12345 + i))  # fmt: skip
    session = open_session(tmp_path / "labels.sqlite", subject)
    do(session, "request", number=0)
    with served(session) as link:
        one = LabelPage(browser, link)
        assert one.page.inner_text("#question h1") == "n0"
        body = one.page.locator("#question .text p")
        folded = body.bounding_box()["height"]
        assert folded < 300
        assert body.evaluate("(p) => Number(getComputedStyle(p).fontWeight)") == 400
        more = one.page.get_by_role("button", name="more: 2,641 characters in all")
        more.click()
        assert body.bounding_box()["height"] > 2 * folded
        one.page.get_by_role("button", name="less").click()
        assert body.bounding_box()["height"] == folded
        numbers = one.page.locator(".numbers b").all_inner_texts()
        assert numbers[:2] == ["1990", "12,345"]  # a year is no quantity
        one.close()


@pytest.mark.parametrize(
    ("text", "is_title"),
    [("x" * 120, True), ("x " * 61, False), ("two\nlines", False), ("short", True)],
)
def test_a_short_line_is_a_heading(browser, tmp_path, text, is_title):
    subject = two_groups(shown={"said": np.array([text] * 24, object)})
    with served(open_session(tmp_path / "labels.sqlite", subject)) as link:
        one = LabelPage(browser, link)
        assert (one.page.inner_text("#question h1") == text) is is_title
        assert one.page.locator("#question .text").count() == (not is_title)
        one.close()


def test_a_crowded_neighbourhood_can_be_read(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite", many(title=lambda i: f"title of paper {i}"))
    for node in [*range(1, 30), *range(60, 130)]:
        do(session, "answer", number=node, label=session.state.classes[node % 12])
    do(session, "request", number=0)
    with served(session) as link:
        one = LabelPage(browser, link)
        page = one.page
        # Labelled dots lie above those without a label, and the node itself above all.
        heights = page.evaluate(
            """() => [...document.querySelectorAll(".drawing .dot")].map((dot) =>
                dot.matches(".ring0") ? 2 : dot.querySelector("[data-colour=none]") ? 0 : 1)"""
        )
        assert heights == sorted(heights)
        assert set(heights) == {0, 1, 2}
        radii = page.evaluate(
            """() => ["[data-colour=none]", ":not([data-colour=none])"].map((kind) =>
                document.querySelector(".dot:not(.ring0) circle" + kind).r.baseVal.value)"""
        )
        assert radii[0] < radii[1]
        # No word of a heading of the table is torn apart.
        page.locator(".drawing summary").click()
        page.wait_for_selector(".drawing tbody tr")
        lines = page.evaluate(
            """() => [...document.querySelectorAll(".drawing th")].map((th) =>
                Math.round(th.clientHeight / parseFloat(getComputedStyle(th).lineHeight)))"""
        )
        assert max(lines) <= 2
        # Lists that go on say so, and all of a class's name is there.
        assert "of 12 classes" in page.inner_text(".ways")
        assert page.evaluate(
            """() => [...document.querySelectorAll(".counts .badge")]
                .every((badge) => badge.scrollWidth <= badge.clientWidth + 1)"""
        )
        assert page.evaluate(
            "() => getComputedStyle(document.querySelector('.ways ul')).backgroundImage"
        ).startswith("linear-gradient")
        one.close()


def test_undo_and_redo_say_what_they_did(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        asked = one.asked
        one.press("Digit2")
        one.press("KeyF")
        flagged = one.asked
        one.press("KeyZ")
        assert one.page.inner_text("#outcome") == f"Undone: the flag on {flagged}."
        one.press("KeyZ")
        assert one.page.inner_text("#outcome") == f"Undone: “right” for {asked}."
        one.press("KeyY")
        assert one.page.inner_text("#outcome") == f"Done again: “right” for {asked}."
        one.close()


def test_thoughts_are_of_the_node_that_one_sees(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    for node, label in ((0, "left"), (12, "right"), (5, "left")):
        do(session, "answer", number=node, label=label)
    with served(session) as link:
        one = LabelPage(browser, link)
        page, asked = one.page, one.asked
        label = truth(session.question.node)
        one.press("Digit1" if label == "left" else "Digit2")
        page.keyboard.press("KeyM")
        page.wait_for_selector(".thoughts")
        thoughts = page.inner_text(".thoughts")
        assert f"What the model thought of {asked} before you answered" in thoughts
        assert f"Labels that spoke for {label}" in thoughts
        assert "what a label adds to the score of its own class" in thoughts
        lists = page.locator(".thoughts .spoke")
        assert set(lists.nth(0).locator(".badge").all_inner_texts()) == {label}
        assert label not in lists.nth(1).locator(".badge").all_inner_texts()
        page.locator(".neighbours .node:not(:has(.badge))").first.click()
        page.wait_for_selector("#question.looked")
        assert page.locator(".thoughts").count() == 0
        page.keyboard.press("KeyM")
        wait_for_text(page, "#trouble", "shown once you have answered")
        assert page.locator(".thoughts").count() == 0
        one.close()


def test_what_is_put_off_says_so_once_and_classes_merge_into_others(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        put_off = session.question.node
        one.press("KeyS")
        for node in set(range(24)) - {put_off}:
            do(session, "answer", number=node, label=truth(node))
        one.page.reload()
        one.wait_ready()
        assert one.page.inner_text("#question").count("you put it off") == 1
        one.page.get_by_role("button", name="Classes").click()
        merge = one.page.locator("dialog form", has=one.page.get_by_role("button", name="Merge"))
        chosen = [merge.locator("select").nth(i).input_value() for i in (0, 1)]
        assert chosen == ["left", "right"]
        one.close()


def test_what_a_reader_cannot_do_is_not_offered(browser, tmp_path):
    first = open_session(tmp_path / "labels.sqlite")
    do(first, "answer", number=0, label="left")
    second = open_session(tmp_path / "labels.sqlite")
    with served(first), served(second) as link:
        one = LabelPage(browser, link)
        for name in ("Undo", "Redo", "Classes"):
            assert one.page.get_by_role("button", name=name).is_disabled()
        assert one.page.get_by_role("button", name="Export").is_enabled()
        one.close()
