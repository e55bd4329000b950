"""Damaged input through the command line: what scripts/fuzz.py found, and a short run of it."""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file

import nodegp
from nodegp.persistence import ModelFileError, checksum
from nodegp.posterior import Marginals, leave_one_out
from tables import write_csv, write_tables

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import fuzz
from fuzzing import arrays, content, judge, plain, running, sheets, world

FIT = [
    "fit",
    "--quiet",
    "--nodes",
    "nodes.csv",
    "--edges",
    "edges.csv",
    "--id",
    "node",
    "--label",
    "kind",
]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The files of a fit, and its model."""
    folder = tmp_path_factory.mktemp("fitted")
    write_tables(folder, n_nodes=24, n_labels=12)
    assert running.run([*FIT, "-o", "model.nodegp"], folder).code == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(fitted, tmp_path):
    for name, what in fitted.items():
        (tmp_path / name).write_bytes(what)
    return tmp_path


def refused(folder, *arguments):
    """The message of a command that fails as it should: in one line, with nothing written."""
    before = judge.snapshot(folder)
    done = running.run([str(a) for a in arguments], folder)
    assert (done.code, done.error, done.warnings) == (1, None, ())
    assert done.stderr.startswith("nodegp: ")
    assert done.stderr.count("\n") == 1
    assert judge.snapshot(folder) == before
    return done.stderr.removeprefix("nodegp: ").strip()


def accepted(folder, *arguments):
    done = running.run([str(a) for a in arguments], folder)
    assert (done.code, done.error, done.warnings, done.stderr) == (0, None, (), "")
    return done.stdout


def columns_of(path):
    names, *rows = [line.split(",") for line in path.read_text().splitlines()]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


# --- model files ----------------------------------------------------------------------------------


def test_one_changed_bit_in_a_number_of_a_model_is_noticed(folder):
    """It used to give other predictions, without a word."""
    path = folder / "model.nodegp"
    whole = bytearray(path.read_bytes())
    for place in (len(whole) - 3, len(whole) // 2, len(whole) * 3 // 4):
        whole[place] ^= 4
        path.write_bytes(whole)
        assert "damaged" in refused(folder, "predict", "model.nodegp", "-o", "out.csv")
        whole[place] ^= 4
    path.write_bytes(whole)
    nodegp.load(path)


def test_a_model_that_someone_has_edited(folder):
    path = folder / "model.nodegp"

    def change(description, arrays):
        description["model"]["fields"]["temperature"] = 3.0

    path.write_bytes(content.rewritten(path.read_bytes(), change))
    assert "not as it was written" in refused(folder, "info", "model.nodegp")


def test_indices_out_of_range_do_not_crash(folder):
    """scipy would read beyond its arrays; here the checksum is right."""
    path = folder / "model.nodegp"

    def change(description, arrays):
        name = "model.graph.adjacency.indices"
        arrays[name] = arrays[name] + 2**30
        del description["checksum"]
        description["checksum"] = checksum(description, arrays)

    path.write_bytes(content.rewritten(path.read_bytes(), change))
    with pytest.raises(ModelFileError, match="damaged or of another version"):
        nodegp.load(path)


def _put(name, value):
    return lambda description, arrays: arrays.update({name: value(arrays[name])})


def _encoder(description):
    return description["tables"]["dict"]["encoder"]["dict"]


def _field(name, value):
    return lambda description, arrays: description["model"]["fields"].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_put("model.posterior.gain", lambda a: a[:, :-1]), "gain has shape"),
        (_put("model.posterior.mean", lambda a: a * np.inf), "mean has NaN, infinite"),
        (_put("model.observations.nodes", lambda a: a + 99), "damaged or of another version"),
        (_put("model.observations.labels.ends", lambda a: a[::-1]), "none of the classes"),
        (_put("model.loo_proba", lambda a: a * 3), "are no probabilities"),
        (_field("temperature", float("inf")), "temperature is inf"),
        (_field("classes", {"tuple": []}), r"classes is \(\)"),
        (_field("unknown", 1), "damaged or of another version"),
        (lambda description, arrays: description.update(unknown=1), "its parts are"),
        (lambda description, arrays: description["tables"]["dict"].update(id=3),
            "tables is damaged"),
        (lambda description, arrays: _encoder(description)["sources"]["list"][0]["dict"].update(
            centre={"list": [float("inf")] * 3}), "tables is damaged"),
        (lambda description, arrays: description["tables"]["dict"].update(
            shown={"dict": {"title": {"list": ["one", "two"]}}}), "tables is damaged"),
        (lambda description, arrays: arrays.pop("model.label_weights"), "another version"),
    ],
)  # fmt: skip
def test_a_model_of_a_stranger_is_checked_whole(folder, change, message):
    """The checksum is right, and what it is of makes no sense: tracebacks, or NaN."""
    path = folder / "model.nodegp"
    path.write_bytes(content.sealed(content.rewritten(path.read_bytes(), change)))
    for use in (["predict", "model.nodegp", "-o", "o.csv"], ["info", "model.nodegp"]):
        assert re.search(message, refused(folder, *use))


def test_values_that_are_not_finite_are_never_given(folder):
    model = nodegp.load(folder / "model.nodegp")
    model.posterior_.mean[:] = float("nan")
    with pytest.raises(ValueError, match="NaN or infinite"):
        model.predict_proba()


@pytest.mark.parametrize("description", ["[]", "not json", '{"format": "nodegp-model"}'])
def test_a_description_that_is_none(folder, description):
    save_file({"a": np.ones(2)}, folder / "model.nodegp", metadata={"nodegp": description})
    message = refused(folder, "info", "model.nodegp")
    assert message == "'model.nodegp' is damaged: its description is broken"


# --- tables ---------------------------------------------------------------------------------------


def test_a_wrong_checksum_in_gzip(folder):
    zipped = bytearray(gzip.compress((folder / "nodes.csv").read_bytes()))
    zipped[-6] ^= 1
    (folder / "n.csv.gz").write_bytes(zipped)
    arguments = [a.replace("nodes.csv", "n.csv.gz") for a in FIT]
    assert refused(folder, *arguments, "-o", "o") == "n.csv.gz is not a gzip file, or is damaged"


def test_a_wrong_byte_in_parquet(folder):
    pq.write_table(pa.table({"node": ["a", "b"], "kind": ["x", "y"]}), folder / "n.parquet")
    whole = (folder / "n.parquet").read_bytes()
    (folder / "n.parquet").write_bytes(whole[:4] + bytes(40) + whole[44:])
    arguments = [a.replace("nodes.csv", "n.parquet") for a in FIT]
    message = refused(folder, *arguments, "-o", "o")
    assert message == "n.parquet is not a Parquet file, or is damaged"


def test_text_in_parquet_that_is_not_utf_8(folder):
    """pyarrow reads it without a look; the error came later, as a codec's."""
    table = pa.table({"s": ["n001", "n!02"], "t": ["n003", "n004"]})
    pq.write_table(table, folder / "e.parquet", compression="none", use_dictionary=False)
    whole = (folder / "e.parquet").read_bytes()
    (folder / "e.parquet").write_bytes(whole.replace(b"n!02", b"n\xb102"))
    arguments = [a.replace("edges.csv", "e.parquet") for a in FIT]
    message = refused(folder, *arguments, "-o", "o")
    assert message == "e.parquet is not a Parquet file, or is damaged"


def test_parquet_columns_of_one_name(folder):
    """They used to end in a KeyError of pyarrow's."""
    columns = columns_of(folder / "nodes.csv")
    arrays = [pa.array(columns[name]) for name in ("node", "kind")]
    x = pa.array([float(v) for v in columns["a"]])
    pq.write_table(
        pa.Table.from_arrays([*arrays, x, x], ["node", "kind", "a", "a"]), folder / "n.parquet"
    )
    arguments = [a.replace("nodes.csv", "n.parquet") for a in FIT]
    assert "more than one column named 'a'" in refused(folder, *arguments, "-o", "o")


def test_a_million_columns(folder):
    """They took nine gigabytes and most of a minute."""
    lines = (folder / "nodes.csv").read_text().splitlines()
    lines[0] += "".join(f",c{n}" for n in range(1_000_000))
    (folder / "nodes.csv").write_text("\n".join(lines))
    assert "nodes.csv has 1,000,005 columns, more than" in refused(folder, *FIT, "-o", "o")


def test_an_id_that_is_a_page_long(folder):
    with (folder / "edges.csv").open("a") as file:
        file.write(f"n001,{'x' * 100_000}\n")
    message = refused(folder, *FIT, "-o", "o")
    assert "edges.csv (first in row 32) name ids that no node has: 'xxx" in message
    assert len(message) < 300


def test_labels_only_of_ids_that_are_unknown(folder):
    """Ignored one and all, they left nothing to look at the type of: an IndexError."""
    write_csv(folder / "l.csv", [["node", "kind"], ["q1", "ant"], ["q2", "bee"]])
    message = refused(folder, *FIT, "--labels", "l.csv", "--ignore-unknown", "-o", "o")
    assert message.startswith("2 of 2 labels of l.csv are for ids that no node has: 'q1', 'q2'")


def test_labels_of_spaces_are_no_labels_in_parquet_either(folder):
    columns = columns_of(folder / "nodes.csv")
    kinds = [f" {kind} " for kind in columns["kind"]]
    table = {"node": columns["node"], "kind": kinds, "a": [float(v) for v in columns["a"]]}
    pq.write_table(pa.table(table), folder / "n.parquet")
    arguments = [a.replace("nodes.csv", "n.parquet") for a in FIT]
    found = json.loads(accepted(folder, *arguments, "-o", "o", "--json"))
    assert found["model"]["labels"] == 12
    assert set(found["model"]["classes"]) <= {"ant", "bee", "cat"}


def test_the_label_that_stands_for_none(folder):
    """It was taken for a gap, without a word."""
    write_csv(folder / "l.csv", [["node", "kind"], ["n001", 1], ["n002", 2], ["n003", -(2**63)]])
    message = refused(folder, *FIT, "--labels", "l.csv", "-o", "o")
    assert message.startswith("column 'kind' of l.csv has the label -9223372036854775808")


def test_a_new_node_far_from_all_that_was_fitted_on(folder):
    """Its kernel was infinite and its probabilities were NaN."""
    new = {"node": ["new"], "a": [Decimal(10) ** 60], "b": [0.1], "c": [0.1]}
    pq.write_table(pa.table(new), folder / "new.parquet")
    message = refused(folder, "predict", "model.nodegp", "--nodes", "new.parquet", "-o", "o.csv")
    assert message.startswith("new.parquet has a number in row 1 that is 1e+15 times as large")


def test_almost_as_many_classes_as_labels_is_no_reason_to_warn(folder):
    columns = columns_of(folder / "nodes.csv")
    columns["kind"] = [f"c{n}" for n in range(24)]
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    write_csv(folder / "nodes.csv", rows)
    accepted(folder, *FIT, "-o", "o", "--quiet")


def test_leave_one_out_where_nothing_is_left_without_the_label():
    """Sites of negative precision around a label gave NaN, on tables with nothing wrong."""
    one = torch.ones(3, 1, dtype=torch.float64)
    kept = torch.tensor([[0.5], [0.0], [-0.05]], dtype=torch.float64)
    mean, var = leave_one_out(Marginals(one, one), one, kept, one)
    assert mean.ravel().tolist() == [-1.0, 0.0, 0.0]
    assert var.ravel().tolist() == [2.0, 1.0, 1.0]


def test_a_negative_seed(folder):
    message = refused(folder, *FIT, "-o", "o", "--seed", "-1")
    assert message == "a seed must not be negative, got -1"


# --- outputs --------------------------------------------------------------------------------------


def test_a_folder_for_an_output_is_refused_before_the_work(folder):
    (folder / "sub").mkdir()
    write_csv(folder / "l.csv", [["node", "kind"], ["n020", "ant"]])
    for command in (
        [*FIT, "-o", "sub"],
        ["update", "model.nodegp", "--labels", "l.csv", "-o", "sub"],
        ["evaluate", "model.nodegp", "--report", "sub"],
    ):
        assert refused(folder, *command) == "sub is a folder; name a file in it"


def test_names_that_are_too_long(folder):
    name = "n" * 300 + ".csv"
    assert refused(folder, "predict", "model.nodegp", "-o", name) == f"{name}: file name too long"
    assert refused(folder, "info", name) == f"{name}: file name too long"


def test_a_name_that_is_not_text_can_be_written_to(folder):
    """The file was written, and then its name could not be printed: exit code 1."""
    accepted(folder, "predict", "model.nodegp", "-o", "out\udce9.csv")
    assert (folder / "out\udce9.csv").exists()


# --- the fuzzer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "harmless", [content.byte_order_mark, content.windows_lines, content.no_last_line_end]
)
def test_what_does_no_harm_changes_nothing(folder, harmless):
    for name in ("nodes.csv", "edges.csv"):
        (folder / name).write_bytes(harmless((folder / name).read_bytes(), None))
    accepted(folder, *FIT, "-o", "again.nodegp")
    assert (folder / "again.nodegp").read_bytes() == (folder / "model.nodegp").read_bytes()


def test_a_short_run(tmp_path):
    codes, wrong = fuzz.fuzz(60, 2024, tmp_path)
    assert wrong == []
    assert codes.total() == 60
    assert codes[0] >= 5
    assert codes[1] >= 20
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["models", "arrays"])
def test_a_short_run_of_the_other_kinds(tmp_path, kind):
    codes, wrong = fuzz.fuzz(60, 2025, tmp_path, kind=kind)
    assert wrong == []
    assert min(codes[0], codes[1]) >= 3


def test_the_judge_of_arrays_sees_what_is_wrong():
    for slip in (lambda: np.zeros(3) + np.zeros(4), lambda: [][0]):
        with pytest.raises((ValueError, IndexError)) as caught:
            slip()
        assert arrays._about(caught.value)
    model = nodegp.GraphGPClassifier().fit(nodegp.Graph(np.ones((4, 4))), [0, 1, 0, None])
    assert arrays._labelled([0, 1, 0, None], model) == []
    assert arrays._labelled([0.0, 1.0, 0.0, None], model)
    assert arrays._labelled([0, 1, 0, 1], model)


def test_the_judge_sees_what_is_wrong(tmp_path):
    """A run without complaints says something only if there could have been some."""
    case = fuzz.cases.Case(["info", "model.nodegp"], {"model.nodegp": b""})
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    before = judge.snapshot(tmp_path / "before")
    (tmp_path / "after" / ".left").write_bytes(b"")

    def outcome(code=1, stderr="nodegp: model.nodegp is bad\n", **more):
        values = {"stdout": "", "warnings": (), "error": None, "seconds": 1.0, "memory": 0}
        return running.Outcome(code=code, stderr=stderr, **(values | more))

    def complaints(done, folder="before"):
        return judge.complaints(case, done, before, tmp_path / folder)

    assert complaints(outcome()) == []
    assert complaints(outcome(), "after") == ["changed or left over: ['.left']"]
    for bad in (
        outcome(stderr="Traceback (most recent call last):\nKeyError: 'a'\n"),
        outcome(stderr="nodegp: [Errno 2] model.nodegp\n"),
        outcome(stderr="nodegp: it is bad\n"),
        outcome(stderr="nodegp: model.nodegp " + "x" * 5000),
        outcome(code=-1, error=KeyError("a")),
        outcome(code=3),
        outcome(code=0, stderr="RuntimeWarning: overflow\n"),
        outcome(warnings=("UserWarning: odd",)),
        outcome(seconds=61.0),
        outcome(memory=3 << 30),
    ):
        assert complaints(bad)


def test_every_damage_damages():
    """Each way to damage a table changes what is written, for some seed."""
    for damage in sheets.SHEET_DAMAGES:
        whole = world.tables(False, False)["nodes"]
        results = set()
        for seed in range(20):
            sheet = whole.copy()
            damage(sheet, random.Random(seed))
            results.add(sheet.written("csv"))
        assert results - {whole.written("csv")}, damage.__name__


def test_the_fuzzer_makes_nothing_that_ends_its_own_process():
    for items in ([np.datetime64("NaT"), np.True_], [np.datetime64("2020"), np.False_]):
        with pytest.raises(TypeError, match="crashes"):
            arrays._arrow(items)
    assert arrays._arrow([np.True_, np.False_]).type == pa.bool_()


@pytest.mark.parametrize("separator", [";", "|", ",", "\t"])
def test_the_judge_reads_what_is_separated_otherwise(separator, tmp_path):
    path = tmp_path / "edges.tsv"
    path.write_text(f"from{separator}to\na{separator}b\n")
    assert plain.column_of(path, "to") == ["b"]
