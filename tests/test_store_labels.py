"""Labels of the nodes' own tables, kept with the stored graph: those that memory reads, and
``fit --store`` without a table of them."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import nodegp
from nodegp.app.stored import StoredProject
from nodegp.ingest import labels as ingest_labels
from nodegp.io.labels import GAP
from nodegp.io.load import TableSource, read_tables
from nodegp.store import StoreError, open_store
from nodegp.store.building import Building
from stores import contents, tables, write
from tables import run, run_json


def in_memory(nodes, edges, **options):
    """Nodes with labels and these, as the reader of whole tables has them."""
    loaded = read_tables(
        TableSource(nodes, edges, id="name", label="y", edge_columns=("from", "to"), **options)
    )
    known = np.flatnonzero([label is not None for label in loaded.labels])
    return loaded.graph.ids[known], loaded.labels[known]


def assert_same_labels(store, nodes, edges, **options):
    ids, labels = store.labels
    expected_ids, expected = in_memory(nodes, edges, **options)
    assert ids.tolist() == expected_ids.tolist()
    assert labels.tolist() == expected.tolist()
    assert {type(label) for label in labels.tolist()} == {type(label) for label in expected}
    numbers, same = store.labelled()
    assert np.array_equal(store.ids_at(numbers), ids)
    assert same.tolist() == labels.tolist()


GAPS = {
    "text": ["b", None, " a ", "", "b", "ä 9", None],
    "numbers": [3, None, 1, 3, None, 2, 1],
    "written so": ["3", "", "2.0", "3", "", "10", "3.00"],
    "zeros in front": ["03", "", "2", "3", "", "10", "3"],
    "booleans": [True, None, False, True, None, False, True],
    "written booleans": ["TRUE", "", "false", "True", "", "False", "true"],
    "text at the end": ["1", "", "2", "3", "", "1", "x"],
    "a number at the end": ["x", "", "y", "x", "", "y", "1"],
    "not available": ["NA", "", "2", "3", "", "1", "NA"],
    "long": ["12345678901234567890", "", "1", "2", "", "1", "2"],
}


@pytest.mark.parametrize("name", GAPS)
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("rows", [3, 100])
def test_they_are_those_that_memory_reads(tmp_path, monkeypatch, name, kind, rows):
    monkeypatch.setattr(ingest_labels, "_ROWS", rows)
    nodes, edges = tables(n_nodes=28, ids="text")
    nodes["y"] = pd.Series(GAPS[name] * 4, dtype=object)
    if name == "numbers" and kind == "parquet":
        nodes["y"] = nodes["y"].astype(float)  # as pandas has whole numbers with gaps
    one = write(tmp_path / "one", nodes, kind) / f"0.{kind}"
    ends = write(tmp_path / "e", edges)
    store = nodegp.prepare(one, ends, tmp_path / "s", label="y", part_entries=30)
    assert_same_labels(store, one, ends / "0.parquet")
    assert store.label_name == "y"
    assert store.feature_names == ("x0", "x1", "x2")
    assert "y" not in store.manifest.source["left_out"]
    several = write(tmp_path / "n", nodes, kind, 3)
    again = nodegp.prepare(several, ends, tmp_path / "t", label="y", part_entries=30)
    assert [part.tolist() for part in again.labels] == [part.tolist() for part in store.labels]


def test_files_whose_columns_have_other_types(tmp_path):
    """What programs make of one column: whole numbers in one file, fractions with gaps in the
    next."""
    nodes, edges = tables(n_nodes=9)
    (tmp_path / "n").mkdir()
    for number, labels in enumerate([[1, 2, 1], [np.nan, 2.0, 3.0], [None, None, None]]):
        part = nodes.iloc[3 * number : 3 * number + 3].assign(y=labels)
        part.to_parquet(tmp_path / "n" / f"{number}.parquet", index=False)
    store = nodegp.prepare(tmp_path / "n", edges, tmp_path / "s", label="y")
    numbers, labels = store.labelled()
    assert numbers.tolist() == [0, 1, 2, 4, 5]
    assert labels.dtype == np.int64
    assert labels.tolist() == [1, 2, 1, 2, 3]


def test_they_are_no_part_of_the_graph(tmp_path):
    """A model goes with a store of other labels, and older stores are read."""
    nodes, edges = tables()
    nodes["y"] = ["a", "b"] * 20
    without = nodegp.prepare(nodes.drop(columns="y"), edges, tmp_path / "without")
    first = nodegp.prepare(nodes, edges, tmp_path / "first", label="y")
    other = nodegp.prepare(nodes.assign(y=1), edges, tmp_path / "other", label=5)
    assert first.fingerprint == other.fingerprint == without.fingerprint
    assert first.label_name == other.label_name == "y"
    assert without.label_name is None
    said = json.loads((tmp_path / "without" / "manifest.json").read_text())
    assert (said["version"], "labels" in said) == (1, False)  # as before there were any
    assert json.loads((tmp_path / "first" / "manifest.json").read_text())["version"] == 2
    with pytest.raises(ValueError, match=r"prepared without labels; name their column .* label="):
        _ = without.labels


@pytest.mark.parametrize("ids", ["text", "far"])
def test_a_model_is_fitted_to_them(tmp_path, ids):
    nodes, edges = tables(ids=ids)
    nodes["y"] = [("b" if x > 0 else "a") if n % 3 else None for n, x in enumerate(nodes["x0"])]
    store = nodegp.prepare(nodes, edges, tmp_path / "s", label="y")
    model = nodegp.GraphGPClassifier(filter="identity", random_state=0).fit(store, store.labels)
    names = dict(zip(nodes["name"], nodes["y"], strict=True))
    pairs = {name: label for name, label in names.items() if label is not None}
    same = nodegp.GraphGPClassifier(filter="identity", random_state=0).fit(store, pairs)
    assert np.array_equal(model.predict_proba(), same.predict_proba())
    assert np.array_equal(model.labelled_, [n for n in range(40) if n % 3])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([None] * 40, "column 'y' of .* is empty: no node has a label"),
        ([0.5, 1.0] * 20, "column 'y' of .* holds fractions; labels are"),
        ([GAP, 1] * 20, "which stands for none here"),
        (list(range(40)), "more than 30 different labels: labels are classes, not amounts"),
    ],
    ids=["empty", "fractions", "the gap itself", "names"],
)
def test_what_are_no_labels(tmp_path, monkeypatch, labels, said, kind):
    monkeypatch.setattr(ingest_labels, "MOST_CLASSES", 30)
    nodes, edges = tables()
    sources = write(tmp_path / "n", nodes.assign(y=labels), kind, 2), write(tmp_path / "e", edges)
    with pytest.raises(ValueError, match=said):
        nodegp.prepare(*sources, tmp_path / "s", label="y")
    nodegp.prepare(*sources, tmp_path / "t", exclude=["y"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label": "name"}, "column 'name' of .* cannot be both id and label"),
        ({"label": "z"}, "no column 'z' for labels; it has 'name'"),
        ({"label": "y", "features": ["y"]}, "named twice, as the label and as a feature"),
        ({"label": "y", "exclude": ["y"]}, "named twice, as the label and as excluded"),
    ],
)
def test_columns_that_cannot_be_labels(tmp_path, options, said):
    nodes, edges = tables()
    with pytest.raises(ValueError, match=said):
        nodegp.prepare(nodes.assign(y=1), edges, tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


def test_a_first_line_that_is_a_node(tmp_path):
    (tmp_path / "n.csv").write_text("a,red,1\nb,blue,2\nc,red,3\n")
    (tmp_path / "e.csv").write_text("from,to\nb,c\n")
    with pytest.raises(ValueError, match=r"has no header: its first line has the label 'red'"):
        nodegp.prepare(tmp_path / "n.csv", tmp_path / "e.csv", tmp_path / "s", id=1, label=2)


def test_a_column_whose_name_is_a_label_is_one(tmp_path):
    (tmp_path / "n.csv").write_text("id,red,x\na,red,1\nb,blue,2\nc,red,3\n")
    (tmp_path / "e.csv").write_text("from,to\nb,c\n")
    store = nodegp.prepare(tmp_path / "n.csv", tmp_path / "e.csv", tmp_path / "s", label="red")
    assert store.labels[1].tolist() == ["red", "blue", "red"]


@pytest.mark.parametrize("labels", [["a", "b"] * 20, [1, 2] * 20])
def test_damaged_files_of_labels_are_named(tmp_path, labels):
    nodes, edges = tables()
    nodegp.prepare(nodes.assign(y=labels), edges, tmp_path / "s", label="y")
    files = sorted((tmp_path / "s" / "labels").iterdir())
    assert len(files) == (4 if labels[0] == "a" else 3)
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        with pytest.raises(StoreError, match=f"labels/{path.name} has .* bytes and not"):
            open_store(tmp_path / "s")
        path.unlink()
        with pytest.raises(StoreError, match=f"labels/{path.name} is missing"):
            open_store(tmp_path / "s")
        path.write_bytes(content)
    store = open_store(tmp_path / "s")
    codes = tmp_path / "s" / "labels" / "codes.npy"
    content = bytearray(codes.read_bytes())
    content[-1] = 100  # after it was opened
    codes.write_bytes(content)
    with pytest.raises(StoreError, match=r"labels/codes.npy is damaged; copy the store again"):
        _ = store.labels


# --- whoever is killed goes on --------------------------------------------------------------------


def test_killed_while_labels_are_read_it_goes_on(tmp_path, monkeypatch):
    """Rows whose labels are written are not looked at again, and the store is the same."""
    monkeypatch.setattr(ingest_labels, "_ROWS", 4)
    nodes, edges = tables()
    nodes["y"] = [None if n % 3 == 0 else f"class {n % 7}" for n in range(40)]
    sources = write(tmp_path / "n", nodes, "csv", 4), write(tmp_path / "e", edges)
    nodegp.prepare(*sources, tmp_path / "whole", label="y", part_entries=30)
    real, seen = Building.record, []

    def record(self, stage, files=None, **data):
        if stage == "labels" and data["n_rows"] > 20:
            raise KeyboardInterrupt
        real(self, stage, files, **data)

    monkeypatch.setattr(Building, "record", record)
    with pytest.raises(KeyboardInterrupt):
        nodegp.prepare(*sources, tmp_path / "s", label="y", part_entries=30)
    monkeypatch.setattr(Building, "record", real)
    written = ingest_labels.written_labels

    def noted(table, column):
        seen.append(len(table))
        return written(table, column)

    monkeypatch.setattr(ingest_labels, "written_labels", noted)
    nodegp.prepare(*sources, tmp_path / "s", label="y", part_entries=30)
    assert sum(seen) == 22  # four, four, six and four are written
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tables whose classes show in the features, some of them with labels, and other labels."""
    monkeypatch.chdir(tmp_path)
    nodes, edges = tables(ids="text")
    truth = np.where(nodes["x0"] > 0, "b", "a")
    nodes["kind"] = [label if n % 2 else None for n, label in enumerate(truth)]
    write(tmp_path / "n", nodes, "parquet", 3)
    write(tmp_path / "e", edges, "csv")
    rows = zip(nodes["name"][:30], truth, strict=False)
    (tmp_path / "l.csv").write_text("id,other\n" + "".join(f"{a},{b}\n" for a, b in rows))
    return nodes


PREPARE = "prepare --nodes n --edges e --id name --source from --target to"
FIT = "fit --store s --filter identity -o m.nodegp"


def test_fit_takes_the_labels_of_the_store(folder):
    done = run(f"{PREPARE} --label kind -o s")
    assert "those of column kind" in done.stdout
    assert "20 in 2 classes, of kind" in done.stdout
    found = run_json(f"{PREPARE} --label kind -o s --force")
    assert (found["labels"], found["classes"], found["label"]) == (20, 2, "kind")
    assert run_json(f"{FIT} --dry-run")["plan"]["passes"] == 0
    for command in (FIT, f"{FIT} --label kind"):
        info = run_json(command)["model"]
        assert info["label_counts"] == dict(sorted(Counter(folder["kind"].dropna()).items()))
    model = nodegp.load("m.nodegp", open_store("s"))
    assert np.array_equal(model.labelled_, np.arange(1, 40, 2))


def test_a_table_of_labels_comes_first(folder):
    run(f"{PREPARE} --label kind -o s")
    for command in (f"{FIT} --labels l.csv", f"{FIT} --labels l.csv --label other"):
        assert run_json(command)["model"]["labels"] == 30
    with pytest.raises(ValueError, match=r"l.csv has no column 'kind' for labels"):
        run(f"{FIT} --labels l.csv --label kind")
    # Scoring takes a table: what a model was fitted to is no test of it.
    run(FIT)
    with pytest.raises(ValueError, match=r"say what to score on: --labels FILE"):
        run("evaluate m.nodegp --store s")


@pytest.mark.parametrize(
    ("prepared", "command", "said"),
    [
        ("", FIT, r"^s was prepared without labels: say where they are with --labels, a table"),
        ("--exclude kind", f"{FIT} --label kind", r"or prepare it again with --label, their"),
        ("--label kind", f"{FIT} --label x1", r"has the labels of column 'kind', not of 'x1': .*"
         r"leave --label out, .* or give a table of ids and labels with --labels"),
        ("--label kind", f"{FIT} --sep tab", r"--sep without --labels: the stored graph has its"),
        ("--label kind", f"{FIT} --ignore-unknown", r"--ignore-unknown without --labels"),
    ],
)  # fmt: skip
def test_labels_that_are_not_there_are_an_error(folder, prepared, command, said):
    run(f"{PREPARE} {prepared} -o s")
    with pytest.raises(ValueError, match=said):
        run(command)


def test_labels_that_look_odd_are_said_as_of_tables(folder, tmp_path):
    nodes = folder.assign(kind=["NA", "a", "A", "a", None] * 8)
    nodes.loc[39, "kind"] = "once"
    for path in (tmp_path / "n").iterdir():
        path.unlink()
    nodes.to_parquet(tmp_path / "n" / "0.parquet", index=False)
    run(f"{PREPARE} --label kind -o s")
    said = run(FIT).stderr
    tables = "--nodes n/0.parquet --edges e/0.csv --id name --label kind --filter identity"
    expected = [
        line for line in run(f"fit {tables} -o other.nodegp").stderr.splitlines()
        if "NA" in line or "lower case" in line or "only one label" in line
    ]  # fmt: skip
    assert len(expected) == 4
    for line in expected:
        assert line in said
    nodes.assign(kind=range(40)).to_parquet(tmp_path / "n" / "0.parquet", index=False)
    run(f"{PREPARE} --label kind -o s --force")
    with pytest.raises(ValueError, match="40 different numbers at 40 nodes: amounts"):
        run(FIT)


def test_a_project_on_a_store(folder):
    run(f"{PREPARE} --label kind -o s")
    project = StoredProject.at("s")
    assert project.plan_fit().steps
    assert project.fit()["labels"] == 20
