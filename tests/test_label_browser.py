"""The labelling page in a real browser, as an expert at a keyboard uses it."""

from __future__ import annotations

import os
import re
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the labelling page needs the extra `label`")

from browser import LabelPage, served
from labelling import open_session, two_groups
from nodegp.label.demo import GUIDELINE, demo_project
from nodegp.label.opening import subject_of
from nodegp.label.session import Session

# Where to put pictures of the page, such as docs/assets; none by default.
PICTURES = os.environ.get("NODEGP_LABEL_PICTURES", "")
AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'`${alert(3)}"


@pytest.fixture(scope="module")
def papers():
    return demo_project()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def session(papers, tmp_path):
    project, classes, _ = papers
    one = Session(subject_of(project, classes), tmp_path / "labels.sqlite")
    yield one
    one.close()  # where no page of it was served: that closes it too


def picture(page, name, **options):
    if PICTURES:
        page.screenshot(path=f"{PICTURES}/{name}.png", **options)


def test_fifty_labels_by_keyboard_alone(browser, session, papers):
    _, classes, answers = papers
    with served(session, guideline=GUIDELINE, name="made-up papers") as link:
        one = LabelPage(browser, link)
        page = one.page
        for count in range(50):
            key = str(classes.index(answers[one.asked]) + 1)
            one.press(f"Shift+Digit{key}" if count % 10 == 3 else f"Digit{key}")
        assert len(session.state.labels) == 50
        assert len(session.state.confidences) == 5
        assert set(session.state.confidences.values()) == {0.75}
        assert all(
            answers[str(session.subject.ids[n])] == v for n, v in session.state.labels.items()
        )
        assert "50 answers, all saved" in page.inner_text("#saved")
        assert re.search(
            r"The model gave this .* %.*; \d+ nodes? changed", page.inner_text("#outcome")
        )
        assert "drawn at random, before it was told" in page.inner_text("#panels")
        page.keyboard.press("KeyM")
        page.wait_for_selector(".thoughts")
        assert "before you answered" in page.inner_text(".thoughts")
        picture(page, "label-thoughts")

        asked = one.asked
        one.press("KeyF")
        assert "flagged" in page.inner_text("#question")
        page.keyboard.press("KeyN")
        page.keyboard.type("is 1 or 2? z")  # keys that mean something elsewhere
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#question .note")
        assert "is 1 or 2? z" in page.inner_text("#question .note")
        assert one.asked == asked
        one.press("KeyS")
        one.press("KeyU")
        assert {"later": 1, "unknown": 1}.items() <= session.standing()["panels"].items()
        one.press("KeyZ")
        one.press("KeyZ")
        assert one.asked == asked
        one.press("KeyY")
        one.press("KeyZ")

        page.keyboard.press("Slash")
        page.keyboard.type("visi")
        seq = one.seq
        page.keyboard.press("Enter")
        page.wait_for_function("seq => document.body.dataset.painted !== seq", arg=seq)
        number = session.subject.positions[asked]
        assert session.state.labels[number] == "vision"

        page.keyboard.press("ArrowLeft")  # back to it, and correct it
        page.wait_for_selector("#question.looked")
        assert one.asked == asked
        one.press("Digit1")
        assert session.state.labels[number] == classes[0]
        assert "Corrected" in page.inner_text("#outcome")
        assert len(session.state.labels) == 51

        assert page.locator(".drawing svg").is_visible()
        page.keyboard.press("KeyG")
        page.wait_for_selector(".drawing", state="detached")
        page.keyboard.press("KeyG")
        page.keyboard.press("KeyH")
        page.wait_for_selector(".guideline strong")
        page.keyboard.press("Escape")
        page.keyboard.press("Shift+Slash")
        page.wait_for_selector(".keys")
        picture(page, "label-keys")
        page.keyboard.press("Escape")
        assert one.errors == []
        one.close()


def test_nothing_of_the_model_is_asked_for_before_the_answer(browser, session, papers):
    _, classes, answers = papers
    with served(session) as link:
        one = LabelPage(browser, link)
        asked = []
        one.page.on("request", lambda request: asked.append(request.url))
        for _ in range(4):
            one.press(f"Digit{classes.index(answers[one.asked]) + 1}")
        assert not any("thoughts" in url for url in asked)
        around = one.page.inner_text("#question") + one.page.inner_text("#around")
        assert "%" not in one.page.inner_text("#answers") + one.page.inner_text("#around")
        assert "predicted" not in around
        one.page.evaluate("() => document.querySelector('#outcome').replaceChildren()")
        one.page.evaluate("fetch('/api/thoughts/' + 0)")
        one.close()


def test_a_neighbour_is_looked_at_and_asked_about_next(browser, session):
    with served(session) as link:
        one = LabelPage(browser, link)
        page, asked = one.page, one.asked
        page.locator(".neighbours .node").first.click()
        page.wait_for_selector("#question.looked")
        other = one.asked
        assert other != asked
        page.keyboard.press("Digit1")  # is no answer: it was not asked about
        time.sleep(0.2)
        assert session.state.labels == {}
        page.keyboard.press("Escape")
        page.wait_for_selector("#question:not(.looked)")
        assert one.asked == asked
        page.locator(".neighbours .node").first.click()
        page.wait_for_selector("#question.looked")
        page.get_by_role("button", name="Ask about this one next").click()
        page.wait_for_selector("#question:not(.looked)")
        assert one.asked == other
        assert "you asked for it" in page.inner_text("#question")
        # By keyboard along the drawing, and its table says the same.
        page.locator(".drawing .dot[data-place='0']").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.wait_for_selector("#question.looked")
        page.keyboard.press("Escape")
        page.locator(".drawing summary").click()
        page.wait_for_selector(".drawing tbody tr")
        rows = page.locator(".drawing tbody tr").count()
        assert rows == page.locator(".drawing .dot").count()
        assert one.errors == []
        one.close()


def test_a_key_that_bounces_or_is_held_is_one_answer(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        one.page.evaluate(
            """() => { for (let i = 0; i < 3; i += 1) document.dispatchEvent(
                new KeyboardEvent("keydown", {code: "Digit1", bubbles: true, repeat: i > 1})); }"""
        )
        one.page.wait_for_function(
            "() => document.querySelector('#saved').textContent.includes('1 answer,')"
        )
        time.sleep(0.5)
        assert len(session.state.labels) == 1
        one.page.keyboard.down("Digit2")
        for _ in range(5):
            one.page.keyboard.down("Digit2")  # held: the browser repeats it
        one.page.keyboard.up("Digit2")
        time.sleep(0.5)
        assert len(session.state.labels) == 2
        one.close()


def test_keys_can_be_changed(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        page = one.page
        page.keyboard.press("Shift+Slash")
        page.get_by_label("Change the key for cannot tell").click()
        page.keyboard.press("KeyX")
        page.keyboard.press("Escape")
        page.keyboard.press("KeyU")
        time.sleep(0.2)
        assert not session.state.marks
        one.press("KeyX")
        assert [mark.kind for mark in session.state.marks.values()] == ["unknown"]
        page.reload()
        one.wait_ready()
        one.press("KeyX")
        assert len(session.state.marks) == 2
        one.close()


def test_classes_are_added_renamed_and_merged_on_the_page(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        page = one.page

        def change(button, fill):
            page.get_by_role("button", name="Classes").click()
            form = page.locator("dialog form", has=page.get_by_role("button", name=button))
            fill(form)
            seq = one.seq
            form.get_by_role("button", name=button).click()
            page.wait_for_function("seq => document.body.dataset.painted !== seq", arg=seq)

        one.press("Digit1")
        change("Add", lambda form: form.locator("input").fill("middle"))
        one.press("Digit3")
        assert session.state.classes == ["left", "right", "middle"]
        change("Rename", lambda form: (
            form.locator("select").select_option("middle"), form.locator("input").fill("centre"),
        ))  # fmt: skip
        change("Merge", lambda form: (
            form.locator("select").nth(0).select_option("centre"),
            form.locator("select").nth(1).select_option("left"),
        ))  # fmt: skip
        assert session.state.classes == ["left", "right"]
        assert set(session.state.labels.values()) == {"left"}
        for _ in range(4):
            one.press("KeyZ")
        assert session.state.classes == ["left", "right"]
        assert len(session.state.labels) == 1
        assert one.errors == []
        one.close()


def test_two_pages_show_the_same(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        other = one.context.new_page()
        other.goto(link.partition("?")[0])
        other.wait_for_selector("body[data-ready]")
        one.press("Digit1")
        other.wait_for_function(
            "() => document.querySelector('#saved').textContent.includes('1 answer,')"
        )
        assert other.inner_text("#question .id") == one.asked
        one.close()


def test_suggestions_are_shown_where_they_are_wished(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite")
    with served(session) as link:
        one = LabelPage(browser, link)
        page = one.page
        one.press("Digit1")
        assert page.locator(".suggestion").count() == 0
        page.keyboard.press("KeyM")  # of the answered one it may be seen
        page.wait_for_selector(".thoughts")
        page.keyboard.press("Shift+Slash")
        page.get_by_label("show what the model thinks before I answer").check()
        page.wait_for_selector(".suggestion")
        page.keyboard.press("Escape")
        one.press("Digit2")
        data = list(session.state.marks.values())[-1].event.data
        assert data["suggestion"] is True
        one.close()


# --- for everybody --------------------------------------------------------------------------------


def hostile():
    subject = two_groups(
        ids=np.array([f"{EVIL}{i}" for i in range(24)], object),
        shown={
            "title": np.array([f"{EVIL}{i}" for i in range(24)], object),
            f"{EVIL}": np.array([f"javascript:alert({i})" for i in range(24)], object),
        },
    )
    subject.classes = [EVIL, "javascript:alert(1)", "<svg onload=alert(4)>"]
    return subject


def test_hostile_text_runs_no_script(browser, tmp_path):
    session = open_session(tmp_path / "labels.sqlite", hostile())
    with served(
        session, guideline=f"# {EVIL}\n\n- [x](javascript:alert(1))\n\n{EVIL}", name=EVIL
    ) as link:
        one = LabelPage(browser, link)
        page = one.page
        blocked = []
        page.on("console", lambda message: blocked.append(message.text))
        for key in "123":
            one.press(f"Digit{key}")
        page.keyboard.press("KeyM")
        page.wait_for_selector(".thoughts")
        page.keyboard.press("KeyN")
        page.keyboard.insert_text(EVIL)
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#question .note")
        page.locator(".drawing summary").click()
        page.keyboard.press("Slash")
        page.wait_for_selector(".found li")
        page.keyboard.press("Escape")
        page.keyboard.press("KeyH")
        page.wait_for_selector(".guideline")
        page.keyboard.press("Escape")
        page.locator(".neighbours .node").first.click()
        page.wait_for_selector("#question.looked")
        assert EVIL in page.inner_text("#question h1")
        assert page.locator("img, iframe, object, embed").count() == 0
        assert page.locator("script").count() == 1
        assert page.locator("a[href^='javascript']").count() == 0
        assert one.errors == []
        assert blocked == []  # nothing even tried: the policy had nothing to stop
        one.close()


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_it_fits_and_can_be_touched(browser, session, papers, width):
    answers = papers[2]
    screen = {"viewport": {"width": width, "height": 740}, "has_touch": True}
    with served(session, guideline=GUIDELINE, name="made-up papers") as link:
        one = LabelPage(browser, link, **screen)
        page = one.page
        for _ in range(3):
            seq = one.seq
            page.get_by_role("button", name=re.compile(answers[one.asked] + "$")).first.tap()
            page.wait_for_function("seq => document.body.dataset.painted !== seq", arg=seq)
        assert len(session.state.labels) == 3
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        sizes = page.evaluate(
            """[...document.querySelectorAll('#answers button, nav button')]
            .map(b => b.getBoundingClientRect()).map(r => [r.width, r.height])"""
        )
        assert all(w >= 24 and h >= 35 for w, h in sizes), sizes
        page.get_by_role("button", name="Classes").click()
        assert page.evaluate("() => document.querySelector('dialog').scrollWidth") <= width
        page.keyboard.press("Escape")
        one.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_read_by_everybody(browser, session, papers, theme):
    """axe-core finds nothing to complain of, on the page and in its dialogs."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: `make check-page` brings it")
    _, classes, answers = papers
    with served(session, guideline=GUIDELINE, name="made-up papers") as link:
        one = LabelPage(browser, link, color_scheme=theme)
        page = one.page

        def scan():
            page.evaluate(AXE.read_text())
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            return [(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found]

        for _ in range(4):
            one.press(f"Digit{classes.index(answers[one.asked]) + 1}")
        page.keyboard.press("KeyM")
        page.wait_for_selector(".thoughts")
        assert scan() == []
        page.locator(".drawing summary").click()
        assert scan() == []
        for open_ in ("Slash", "Shift+Slash", "KeyN", "KeyH"):
            page.keyboard.press(open_)
            page.wait_for_selector("dialog[open]")
            assert scan() == []
            page.keyboard.press("Escape")
        page.get_by_role("button", name="Classes").click()
        assert scan() == []
        one.close()


def test_pictures_for_the_documentation(browser, session, papers):
    """Taken where they are asked for; else this only looks that all is there."""
    _, classes, answers = papers
    with served(session, guideline=GUIDELINE, name="made-up papers") as link:
        one = LabelPage(browser, link)
        for theme in ("light", "dark"):
            one.page.emulate_media(color_scheme=theme)
            for _ in range(6):
                one.press(f"Digit{classes.index(answers[one.asked]) + 1}")
            for width in (1280, 390):
                one.page.set_viewport_size({"width": width, "height": 860})
                assert one.page.locator("#answers .class").first.is_visible()
                picture(one.page, f"label-{theme}-{width}")
        one.close()


def test_the_journal_is_only_read_by_a_second_server(browser, tmp_path):
    first = open_session(tmp_path / "labels.sqlite")
    second = open_session(tmp_path / "labels.sqlite")
    with served(first) as link, served(second) as other:
        writer, reader = LabelPage(browser, link), LabelPage(browser, other)
        assert "read only" in reader.page.inner_text("#saved")
        assert reader.page.locator("#answers .class").count() == 0
        writer.press("Digit1")
        reader.page.wait_for_function(
            "() => document.querySelector('#panels').innerText.includes('1 label')"
        )
        assert reader.asked == writer.asked
        writer.close()
        reader.close()


def test_curves_are_drawn(browser, session, papers):
    _, classes, answers = papers
    with served(session) as link:
        one = LabelPage(browser, link)
        for _ in range(6):
            one.press(f"Digit{classes.index(answers[one.asked]) + 1}")
        line = one.page.get_attribute(".curve polyline", "points")
        places = [float(point.split(",")[0]) for point in line.split()]
        assert all(a < b for a, b in pairwise(places))
        assert len(places) >= 4
        one.close()
