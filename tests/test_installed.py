"""The packages as a stranger gets them: built, installed into an empty environment, used there.

Nothing is downloaded: the environment has nothing but the wheel, and finds the packages that it
depends on where this interpreter has them.
"""

from __future__ import annotations

import http.cookiejar
import json
import re
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import venv
import zipfile
from pathlib import Path

import numpy
import pytest

from packages import ROOT, VERSION, build, clean_environment, run_elsewhere, run_python
from tables import rows_of

DEPENDENCIES = Path(numpy.__file__).parents[1]


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The source package, and the wheel that was built from it."""
    pytest.importorskip("build", reason="building packages needs `build`: pip install '.[dev]'")
    out = tmp_path_factory.mktemp("packages")
    return build(out)


@pytest.fixture(scope="module")
def environment(packages, tmp_path_factory):
    """The folder with the programs of a new environment that has the wheel."""
    place = tmp_path_factory.mktemp("environment")
    try:
        venv.EnvBuilder(with_pip=False, symlinks=sys.platform != "win32").create(place)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no environment can be made here: {error}")
    programs = place / ("Scripts" if sys.platform == "win32" else "bin")
    (wheel,) = (path for path in packages if path.suffix == ".whl")
    run_python(
        *("-m", "pip", "--python", str(programs / "python"), "install", "--quiet", "--no-deps"),
        *("--no-index", "--disable-pip-version-check", str(wheel)),
        cwd=place,
    )
    (site,) = (
        Path(path)
        for path in json.loads(
            run_elsewhere(
                str(programs / "python"),
                "-c",
                "import json, site; print(json.dumps(site.getsitepackages()))",
                cwd=place,
            )
        )[:1]
    )
    # Its own packages come first; a copy of nodegp that is installed here for development is
    # behind files that are read in the environment's own folder only.
    (site / "dependencies.pth").write_text(f"{DEPENDENCIES}\n")
    return programs


@pytest.fixture
def run_there(environment, tmp_path):
    """Run a program of the environment in an empty folder."""

    def run(program: str, *args: str) -> str:
        return run_elsewhere(
            str(environment / program), *args, cwd=tmp_path, PYTHONPATH="", PYTHONNOUSERSITE="1"
        )

    return run


def test_both_packages_have_what_belongs_to_them(packages):
    source, wheel = sorted(packages, key=lambda path: path.suffix == ".whl")
    assert wheel.name == f"nodegp-{VERSION}-py3-none-any.whl"
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("LICENSE", "NOTICE", "SECURITY.md", "CITATION.cff", "docs/tour.md"):
        assert needed in names
    assert {"tests/test_installed.py", "scripts/build_figures.py"} <= names
    with zipfile.ZipFile(wheel) as archive:
        licences = {name.rsplit("/", 1)[-1] for name in archive.namelist() if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}


def test_one_version_everywhere(run_there):
    assert run_there("nodegp", "--version").split() == ["nodegp", VERSION]
    assert f"version: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert newest == VERSION


def test_it_is_the_installed_one_that_runs(run_there, environment):
    file = run_there("python", "-c", "import nodegp; print(nodegp.__file__)").strip()
    assert Path(file).is_relative_to(environment.parent)


def test_the_demo_fits_cora(run_there):
    found = json.loads(run_there("nodegp", "demo", "--json"))
    assert found["accuracy"] > 0.8


def test_the_example_tables_are_fitted_and_predicted(run_there, tmp_path, monkeypatch):
    run_there("nodegp", "example", ".")
    tables = ("--nodes", "papers.csv", "--edges", "cites.csv", "--id", "paper")
    columns = ("--label", "topic", "--text", "title")
    said = run_there("nodegp", "fit", *tables, *columns, "-o", "topics.nodegp")
    assert "docs/glossary.md" in said
    run_there("nodegp", "predict", "topics.nodegp", "-o", "out.csv")
    monkeypatch.chdir(tmp_path)
    topics = {row["paper"]: row["topic"] for row in rows_of("answers.csv")}
    predicted = rows_of("out.csv")
    assert len(predicted) == 300
    right = sum(row["label"] == topics[row["paper"]] for row in predicted)
    assert right > 0.85 * len(predicted)


def test_the_labelling_page_answers_over_http(environment, tmp_path):
    pytest.importorskip("uvicorn", reason="the page needs uvicorn: pip install '.[label]'")
    own = {"PYTHONPATH": "", "XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    server = subprocess.Popen(
        [str(environment / "nodegp"), "label", "--demo", "--no-open", "--quiet"],
        cwd=tmp_path,
        env=clean_environment() | own,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        link = server.stdout.readline().strip()
        assert link.startswith("http://127.0.0.1:")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(link.partition("?")[0], timeout=60)
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        visitor = urllib.request.build_opener(cookies)
        with visitor.open(link, timeout=60) as answer:
            assert "<title>" in answer.read().decode()
        with visitor.open(link.partition("?")[0] + "api/standing", timeout=60) as answer:
            assert "title" in answer.read().decode()  # of the paper that it asks about
    finally:
        server.terminate()
        server.wait(timeout=30)
        server.stdout.close()
