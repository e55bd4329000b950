"""A look at a page in a browser, where there is one."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forks import Fork, Forks

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def browser_path() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def a_browser() -> Iterator:
    """A browser that Playwright drives; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = browser_path()
    if path is None:
        pytest.skip("no chromium here: pages are not looked at")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(session, **about) -> Iterator[str]:
    """The labelling page of a session, from a thread of this process; gives the link."""
    from nodegp.web.serving import PageServer, listening_socket

    with listening_socket(0) as place:
        server = PageServer(session, place, **about)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server.link
        finally:
            server.should_exit = True
            thread.join(20)


class LabelProcess:
    """`nodegp label` in a process of its own, to be killed: a new one, or a copy."""

    def __init__(self, arguments: list[str], home: Path, forks: Forks | None = None):
        self._arguments, self._forks = arguments, forks
        self._environment = os.environ | {"XDG_STATE_HOME": str(home)}
        self.port: int | None = None
        self.start()

    def start(self) -> None:
        port = ["--port", str(self.port)] if self.port else []
        command = ["label", *self._arguments, "--no-open", "-q", *port]
        self._process: Fork | subprocess.Popen[str]
        if self._forks:
            self._process = self._forks.start(os.getcwd(), self._environment, *command)
        else:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nodegp", *command],
                stdout=subprocess.PIPE,
                env=self._environment,
                text=True,
            )
        assert self._process.stdout is not None
        self.link = self._process.stdout.readline().strip()
        assert self.link.startswith("http://127.0.0.1:"), self.link
        self.port = int(re.search(r":(\d+)/", self.link)[1])

    def end(self, how: int = signal.SIGKILL) -> None:
        self._process.send_signal(how)
        self._process.wait(20)
        self._process.stdout.close()

    def __enter__(self) -> LabelProcess:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self.end()


class LabelPage:
    """The page as somebody at a keyboard sees it."""

    def __init__(self, browser, link: str, **context):
        settings = {"viewport": {"width": 1280, "height": 900}, **context}
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append("a dialog: " + dialog.message))
        self.page.goto(link)
        self.wait_ready()

    def wait_ready(self) -> None:
        # Painted, too: else what a key does could not be told from the first painting.
        self.page.wait_for_selector("body[data-ready][data-painted]", timeout=20_000)

    @property
    def seq(self) -> str:
        return self.page.get_attribute("body", "data-painted") or ""

    @property
    def asked(self) -> str:
        """The id of the node on the page."""
        return self.page.inner_text("#question .id")

    def press(self, key: str, timeout: float = 30_000) -> None:
        """A key, and the page that comes of it."""
        seq = self.seq
        time.sleep(0.08)  # nobody's finger is faster
        self.page.keyboard.press(key)
        self.page.wait_for_function(
            "seq => document.body.dataset.painted !== seq", arg=seq, timeout=timeout
        )

    def close(self) -> None:
        self.context.close()


def look_in_a_browser(page: Path, tmp_path: Path) -> None:
    """The page fits its window, at desktop and phone width, and every drawing has a size."""
    browser = browser_path()
    if browser is None:
        return  # looked at by hand; the rest of such a test needs none
    probe = """<script>addEventListener("load", () => {
      const svgs = [...document.querySelectorAll("figure svg")];
      document.title = JSON.stringify([document.documentElement.scrollWidth, innerWidth,
        svgs.every(s => s.getBoundingClientRect().height > 100)]);
    });</script>"""
    copy = tmp_path / "probe.html"
    copy.write_text(page.read_text().replace("</head>", probe + "</head>"))
    for width in (1280, 500):  # headless windows are no narrower than 500
        dom = subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                f"--user-data-dir={tmp_path / f'profile{width}'}",
                f"--window-size={width},900",
                "--dump-dom",
                copy.as_uri(),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        found = re.search(r"<title>(.*?)</title>", dom).group(1)
        scroll_width, inner_width, drawn = json.loads(found)
        assert scroll_width <= inner_width
        assert drawn
