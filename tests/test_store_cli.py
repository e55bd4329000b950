"""`nodegp prepare`: a folder of tables to a stored graph, from the command line."""

from __future__ import annotations

import json
import os

import pytest

import nodegp
from nodegp.budget import bytes_of
from nodegp.ingest import size_in_words
from stores import assert_same, graph_of, tables, write
from tables import run, run_json


@pytest.fixture
def folder(tmp_path, monkeypatch):
    nodes, edges = tables(weighted=True, ids="text")
    nodes["kind"] = "a"
    write(tmp_path / "n", nodes, "parquet", 3)
    write(tmp_path / "e", edges, "csv", 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PREPARE = "prepare --nodes n --edges e --id name --source from --target to --weight w -o store"


def test_prepare_says_what_there_is_and_what_came_of_it(folder):
    done = run(PREPARE)
    for words in (
        *("nodes", "40", "150 rows, with weights", "3 dense columns (x0, x1, x2)", "kind (text)"),
        *("given again or in the other direction", "from a node to itself", "written to store"),
    ):
        assert words in done.stdout, words
    nodes, edges = tables(weighted=True, ids="text")
    assert_same(nodegp.open_store("store"), graph_of(nodes, edges, "w"))
    with pytest.raises(FileExistsError, match="--force"):
        run(PREPARE)
    found = run_json(f"{PREPARE} --force --features x0,x2")
    assert found["features"] == 2
    counted = ("edges", "repeated_edges", "self_loops", "zero_weights", "unknown_edges")
    assert sum(found[name] for name in counted) == found["edge_rows"] == 150
    assert found["fingerprint"] == nodegp.open_store("store").fingerprint
    assert run_json(f"{PREPARE} --force --features none")["features"] == 0
    assert run(f"{PREPARE} --force --quiet").stdout == ""


def test_a_dry_run_writes_nothing(folder):
    done = run(f"{PREPARE} --dry-run")
    for words in ("40", "for the store, up to", "about 1 second on", "left out"):
        assert words in done.stdout, words
    assert not (folder / "store").exists()
    assert run_json(f"{PREPARE} --dry-run")["nodes"] == "about 40"  # of files of text, a guess
    assert not (folder / "store").exists()


def test_files_that_are_no_tables_are_named(folder):
    (folder / "e" / "notes.md").write_text("mine")
    done = run(PREPARE)
    assert "1 file is no table and left out: e/notes.md" in done.stderr


def test_words_become_columns(folder):
    (folder / "t.csv").write_text("name,t\n" + "".join(f"{n},ab cd{n % 3}\n" for n in range(9)))
    (folder / "f.csv").write_text("a,b\n1,2\n")
    found = run_json("prepare --nodes t.csv --edges f.csv --text t --svd 2 -o s --memory 200MB")
    assert (found["features"], found["feature_kind"]) == (2, "dense")


def test_errors_are_one_line(commands, folder):
    (folder / "e" / "2.csv").write_text("from,to,w\nnobody,é0,1\n")
    done = commands.run(str(folder), dict(os.environ), *PREPARE.split())
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "no node has" in line]
    assert line.startswith("nodegp: 1 of 151 edges (first in row 1 of e/2.csv) name ids")
    assert "Traceback" not in done.stderr
    assert run_json(f"{PREPARE} --ignore-unknown")["unknown_edges"] == 1
    journal = folder / "store" / "manifest.json"
    assert json.loads(journal.read_text())["source"]["edge_rows"]["unknown"] == 1


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("4GiB", 4 << 30), ("500 MB", 500_000_000), ("2G", 2 << 30), ("1.5gib", 3 << 29),
     ("123", 123), (77, 77), ("8k", 8192), ("1TB", 10**12)],
)  # fmt: skip
def test_sizes_of_memory(text, n_bytes):
    assert bytes_of(text) == n_bytes


@pytest.mark.parametrize("text", ["", "much", "-1GB", "4GiBs", "1 2"])
def test_sizes_that_are_none(text):
    with pytest.raises(ValueError, match="is no size of memory; write it as 4GiB"):
        bytes_of(text)


def test_sizes_in_words():
    found = [size_in_words(n) for n in (0, 999, 1000, 3.4e9, 5e15)]
    assert found == ["0 bytes", "999 bytes", "1 kB", "3.4 GB", "5e+03 TB"]
