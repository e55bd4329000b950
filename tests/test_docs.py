"""The Python in README and docs runs as it stands, and says what it is said to say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nodegp

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"nodegp": nodegp}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)  # in order: later ones use earlier names
    if page.name == "README.md":
        claimed = float(re.search(r"\.score\(.*# (0\.\d+)", page.read_text())[1])
        data = names["data"]
        assert names["model"].score(data.graph, data.labels("test")) == pytest.approx(
            claimed, abs=0.002
        )


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_reached_from_the_readme():
    readme = PAGES[0].read_text()
    assert [p.name for p in PAGES[1:] if f"docs/{p.name}" not in readme] == []
