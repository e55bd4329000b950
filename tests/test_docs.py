"""README and docs: their Python runs, their commands exist, their links lead somewhere."""

from __future__ import annotations

import csv
import doctest
import importlib.util
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import nodegp
from nodegp.cli.app import app
from tables import rows_of, run, write_csv

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import build_figures  # noqa: E402

README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
TOUR = DOCS / "tour.md"  # runs as a whole, below
TWO_SCREENS = 80  # lines
COMMAND_LINE = typer.main.get_command(app)
HAS_MKDOCS = importlib.util.find_spec("mkdocs") is not None


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page in one of these languages ("" for none), in order."""
    found = re.findall(
        r"^( *)```(\w*)\n(.*?)^\1```$", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    return [text for _, language, text in found if language in languages]


def prose(page: Path) -> str:
    """A page without its blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


# --- Python ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p != TOUR and blocks(p, "python")], ids=name_of
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    if page.name == "cluster.md":
        pytest.importorskip("dask", reason="a cluster needs the extra `dask`")
    monkeypatch.chdir(tmp_path)
    write_tables()
    names = {"nodegp": nodegp}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)  # in order: later ones use earlier names
    if page == README:
        claimed = float(re.search(r"\.score\(.*# (0\.\d+)", page.read_text())[1])
        data = names["data"]
        assert names["model"].score(data.graph, data.labels("test")) == pytest.approx(
            claimed, abs=0.002
        )


def write_tables() -> None:
    """The tables that the pages speak of: papers of two topics, on a ring."""
    words = {"theory": "bound proof lemma", "learning": "policy network reward"}
    topics = ["theory" if n < 10 else "learning" for n in range(20)]
    with open("papers.csv", "w", newline="") as nodes, open("cites.csv", "w", newline="") as edges:
        papers, cites = csv.writer(nodes), csv.writer(edges)
        papers.writerow(["paper", "topic", "year", "abstract"])
        cites.writerow(["citing", "cited"])
        for n, topic in enumerate(topics):
            papers.writerow([f"p{n}", topic if n % 3 else "", 1990 + n, words[topic]])
            cites.writerow([f"p{n}", f"p{(n + 1) % 20}"])


WITH_EXAMPLES = [
    path for path in sorted((ROOT / "src").rglob("*.py")) if ">>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("module", WITH_EXAMPLES, ids=name_of)
def test_examples_in_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = ".".join(module.relative_to(ROOT / "src").with_suffix("").parts)
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("page", sorted((DOCS / "api").glob("*.md")), ids=name_of)
def test_the_reference_has_an_example_for_each_class(page):
    """Whatever class is described is in a block that was run; base classes stand for others."""
    text, code = page.read_text(), "\n".join(blocks(page, "python"))
    described = re.findall(r"^::: \S+?(\w+)$", text, re.M)
    for members in re.findall(r"members: \[(.*)\]", text):
        described += members.split(", ")
    base = {"Kernel", "Filter", "Spectral", "Likelihood", "Inducing", "Prior", "FieldDesign"}
    made = {"Sum", "Product", "Scaled", "WeightedRows", "Explanation", "Budget"}  # by what they do
    for name in set(described) - base - made:
        if name[0].isupper():
            assert re.search(rf"\b{name}\b", code), f"{page.name} has no example of {name}"


# --- commands -------------------------------------------------------------------------------------


def commands(page: Path) -> Iterator[str]:
    """Every `nodegp ...` in the shell blocks of a page."""
    for block in blocks(page, "sh", ""):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("nodegp "):
                yield line.strip()


@pytest.mark.parametrize("page", [p for p in PAGES if list(commands(p))], ids=name_of)
def test_commands_in_shell_blocks_are_understood(page):
    for line in commands(page):
        understood(line)


@pytest.mark.parametrize("source", ["README.md", "README.txt"])
def test_the_commands_for_newcomers_run_from_the_example_to_the_end(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if source == "README.md":
        folder, lines = "papers/", list(commands(README))
        assert [line.split()[1] for line in lines[:2]] == ["example", "fit"]
        assert [line.split()[1] for line in lines[-2:]] == ["update", "explain"]
    else:
        folder = ""
        run("example .")
        lines = [line for line in Path(source).read_text().splitlines() if line[:7] == "nodegp "]
        assert len(lines) == 6
    for line in lines:
        if " update " in line:
            answers = {row["paper"]: row["topic"] for row in rows_of(f"{folder}answers.csv")}
            asked = [row["paper"] for row in rows_of("ask.csv")]
            assert len(asked) == 10
            write_csv(Path("ask.csv"), [["paper", "topic"], *[[p, answers[p]] for p in asked]])
        run(line.partition("#")[0].removeprefix("nodegp "))
    assert nodegp.load("topics.nodegp").labelled_.size == 50


def test_the_tour_runs_from_the_first_command_to_the_last(tmp_path, monkeypatch):
    """Every command and block in order, and each output is what the page shows."""
    monkeypatch.chdir(tmp_path)
    said = ""
    for language, block in fenced(TOUR):
        if language == "python":
            exec(compile(block, TOUR.name, "exec"), {})
        elif language == "sh":
            said += "".join(map(done, block.replace("\\\n", " ").splitlines()))
        else:
            assert words(block) in words(said), block
    assert nodegp.load("topics.nodegp").labelled_.size == 50
    assert {row["label"] for row in rows_of("new.csv")} == {"vision", "statistics"}
    assert sum(not row["label"] for row in rows_of("final.csv")) == 48
    assert Path("report.html").exists()


def fenced(page: Path) -> list[tuple[str, str]]:
    """Language and text of the fenced blocks of a page, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def done(line: str) -> str:
    """What a line of the tour prints. A page that waits for a browser has tests of its own."""
    if line.startswith("nodegp label"):
        understood(line)
        return ""
    if line.startswith("nodegp "):
        return run(line.partition("#")[0].removeprefix("nodegp "), columns=80).stdout
    return subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True).stdout


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("page", sorted((DOCS / "how").glob("*.md")), ids=name_of)
def test_a_how_do_i_page_asks_a_question_and_has_two_screens_at_most(page):
    lines = page.read_text().splitlines()
    assert lines[0].startswith("# How do I ")
    assert lines[0].endswith("?")
    assert len(lines) <= TWO_SCREENS


def test_words_that_the_field_looks_for_are_there():
    text = "\n".join(page.read_text().lower() for page in PAGES)
    for word in ("homophily", "heterophily", "conformal", "epistemic", "aleatoric"):
        assert f"### {word}" in text, f"the glossary has no {word}"


def understood(line: str) -> None:
    """Parse a command as the command line would, without running it."""
    arguments = shlex.split(line, comments=True)[1:]
    group: Any = COMMAND_LINE
    while hasattr(group, "commands"):
        assert arguments, f"no command in: {line}"
        assert arguments[0] in group.commands, f"no command {arguments[0]!r} in: {line}"
        group = group.commands[arguments.pop(0)]
    try:
        group.make_context("nodegp", arguments)
    except Exception as error:
        pytest.fail(f"{line}: {getattr(error, 'message', '') or error!r}")


@pytest.mark.parametrize(
    "line",
    [
        "nodegp fitt --nodes a.csv -o m",
        "nodegp fit --nodez a.csv -o m",
        "nodegp fit",
        "nodegp data",
        "nodegp query m -n many",
    ],
)
def test_a_wrong_command_would_be_found(line):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        understood(line)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_the_text_exist(page):
    # Half a sentence such as `nodegp evaluate --compare gcn` names commands and options only.
    for span in re.findall(r"`nodegp ([a-z][^`]*)`", prose(page)):
        words = span.split()
        group: Any = COMMAND_LINE
        while hasattr(group, "commands") and words and words[0] in group.commands:
            group = group.commands[words.pop(0)]
        assert group is not COMMAND_LINE, f"{page.name}: no such command: nodegp {span}"
        known = {name for p in group.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
        options = {word for word in words if word.startswith("-")}
        assert options <= known, f"{page.name}: nodegp {span}"


@pytest.mark.parametrize(
    ("script", "function", "made"),
    [
        ("build_command_reference.py", "page", "commands.md"),
        ("build_model_figure.py", "drawing", "figures/model.svg"),
    ],
)
def test_generated_files_are_up_to_date(script, function, made):
    fresh = runpy.run_path(str(ROOT / "scripts" / script))[function]()
    stale = f"docs/{made} is not what scripts/{script} makes; run it"
    assert (DOCS / made).read_text(encoding="utf-8") == fresh, stale


@pytest.fixture(scope="module")
def drawings():
    return build_figures.drawings()


@pytest.mark.parametrize("name", build_figures.FIGURES)
def test_figures_are_up_to_date(name, drawings):
    stale = f"docs/figures/{name} is not what scripts/build_figures.py draws; run it"
    assert (DOCS / "figures" / name).read_text(encoding="utf-8") == drawings[name], stale


def test_every_figure_is_shown_and_every_picture_has_words_for_it():
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text())
        if len(words) > 20
    }
    assert shown == {path.resolve() for path in (DOCS / "figures").iterdir()}


def test_every_command_and_option_is_in_the_reference():
    text = (DOCS / "commands.md").read_text()
    sections = dict(re.findall(r"^## nodegp ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    everything = {
        name if inner is None else f"{name} {inner}": command
        for name, group in COMMAND_LINE.commands.items()
        for inner, command in getattr(group, "commands", {None: group}).items()
    }
    assert sections.keys() == everything.keys()
    for name, command in everything.items():
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert all(option in sections[name] for option in parameter.opts)


# --- links ----------------------------------------------------------------------------------------


def links(page: Path) -> list[tuple[str, str]]:
    """Relative links and images of a page: target and anchor, either perhaps empty."""
    found = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(page))
    return [(target, anchor) for target, anchor in found if target or anchor]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings)
    return {re.sub(r"[\s]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target, anchor in links(page):
        there = (page.parent / target) if target else page
        assert there.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors(there), f"{name_of(page)} links to {target}#{anchor}"


def test_every_page_is_reached_from_the_readme_and_the_first_page():
    pages = {page.resolve() for page in PAGES if page != README}
    for start in (README, DOCS / "index.md"):
        seen, ahead = set(), [start.resolve()]
        while ahead:
            page = ahead.pop()
            if page in seen:
                continue
            seen.add(page)
            around = ((page.parent / target).resolve() for target, _ in links(page) if target)
            ahead += [other for other in around if other in pages]
        # The pages of the API reference have a navigation of their own, on the site.
        unreached = {page for page in pages - seen if page.parent.name != "api"}
        assert unreached == set()


def test_every_page_is_in_the_navigation():
    nav = re.search(r"^nav:\n((?:[ ].*\n)+)", (ROOT / "mkdocs.yml").read_text(), re.M)[1]
    listed = re.findall(r": (\S+\.md)$", nav, re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.relative_to(DOCS).as_posix() for page in PAGES if page != README}


# --- the site -------------------------------------------------------------------------------------


@pytest.mark.skipif(not HAS_MKDOCS, reason="the site needs mkdocs: pip install 'nodegp[docs]'")
def test_the_site_builds_without_warnings_and_asks_nothing_of_other_hosts(tmp_path):
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    result = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    built = {page.relative_to(site).as_posix() for page in site.rglob("*.html")} - {"404.html"}
    assert built == {
        page.relative_to(DOCS).with_suffix(".html").as_posix() for page in PAGES if page != README
    }
    loads = r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//'
    for page in site.rglob("*.html"):
        assert not re.search(loads, page.read_text()), f"{page.name} loads from elsewhere"
    models = (site / "api" / "models.html").read_text()
    assert "label_confidence" in models  # docstrings are there
    assert ":class:" not in models  # and read well
