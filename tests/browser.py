"""A look at a page in a browser, where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path


def look_in_a_browser(page: Path, tmp_path: Path) -> None:
    """The page fits its window, at desktop and phone width, and every drawing has a size."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
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
