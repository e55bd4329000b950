"""Columns that were meant as numbers: decimal commas, and a cell that spoils a column."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from nodegp import Graph
from nodegp.io import TableSource, read_tables
from nodegp.io.cells import odd_cell, with_decimal_points
from nodegp.io.tables import TableFile
from tables import run

EDGES = "a;b\nb;c\nc;d\nd;e\n"
IDS = "abcde"


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read a table of nodes a to e with these cells in column ``x``, separated by semicolons."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)

    def read(cells, **settings):
        rows = [
            f"{id};{cell};{'uv'[n % 2]}"
            for n, (id, cell) in enumerate(zip(IDS, cells, strict=True))
        ]
        (tmp_path / "nodes.csv").write_text("\n".join(["id;x;topic", *rows]))
        return read_tables(TableSource("nodes.csv", "edges.csv", label="topic", **settings))

    return read


@pytest.mark.parametrize(
    "cells",
    [
        ["1,5", "2,25", "-3,0", "4", "+0,5"],
        ["1,5e3", "2", "3", "4", "5E-1"],
        [" 1,5 ", "2,5", "3", "4", "5"],
    ],
)
def test_decimal_commas_are_decimal_points(read, cells):
    with pytest.warns(UserWarning, match=r"nodes\.csv: commas in 'x' are read as decimal points"):
        loaded = read(cells)
    values = np.array([float(cell.replace(",", ".")) for cell in cells])
    expected = (values - values.mean()) / values.std()
    np.testing.assert_allclose(loaded.graph.features[:, 0], expected)
    assert loaded.labels.tolist() == ["u", "v", "u", "v", "u"]
    assert not loaded.summary.remarks()


@pytest.mark.parametrize("gap", ["", "NA", "null"])
def test_gaps_beside_decimal_commas(read, gap):
    with pytest.warns(UserWarning, match="decimal points"):
        loaded = read(["1,5", "2,5", gap, "3,5", "4,5"])
    assert loaded.summary.missing_values == {"x": 1}


def test_commas_stay_where_a_column_is_to_be_as_written(read):
    loaded = read(["1,5", "2,5", "1,5", "2,5", "1,5"], categorical=["x"])
    assert loaded.graph.n_features == 2


def test_edges_are_weighted_with_decimal_commas(read, tmp_path):
    (tmp_path / "edges.csv").write_text("from;to;w\na;b;0,5\nb;c;2\n")
    with pytest.warns(UserWarning, match="edges.csv: commas in 'w'"):
        loaded = read([1, 2, 3, 4, 6], weight="w")
    assert sorted(set(loaded.graph.adjacency.data)) == [0.5, 2.0]


def test_files_of_commas_have_no_decimal_commas(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text('id,x\na,"1,5"\nb,"2,5"\n')
    table = TableFile.open(path, "nodes").read()
    assert table.column("x").to_pylist() == ["1,5", "2,5"]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,5", None, ""], [1.5, None, None]),
        (["1", "2"], None),  # no comma: nothing to convert
        (["1,5", "2.5"], None),
        (["1.234,5", "2,5"], None),
        (["1,5,6"], None),
        (["a,b"], None),
    ],
)
def test_what_has_a_decimal_comma(cells, numbers):
    found = with_decimal_points(pa.chunked_array([pa.array(cells, pa.string())]))
    assert (None if found is None else found.to_pylist()) == numbers


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2", "12,5x"], "'12,5x' in row 3"),
        (["n/a?", "2,5", "3.5", "", "4"], "'n/a?' in row 1"),
        (["1"] * 8 + ["x", "y"], "'x' in row 9 and 1 more"),
        (["1"] * 7 + ["x", "y"], None),  # too many for a slip
        (["1", "x"], None),
        (["1", "2", "NA", None], None),
        (["x", "y"], None),
        ([], None),
    ],
)
def test_the_cell_that_spoils_a_column(cells, expected):
    found = odd_cell(pa.chunked_array([pa.array(cells, pa.string())]))
    assert (None if found is None else str(found)) == expected


def test_the_summary_names_the_cell_that_made_a_column_text(read):
    loaded = read(["1", "2", "12,5x", "4", "5"])
    assert loaded.summary.left_out == {"x": "text"}
    (remark,) = [line for line in loaded.summary.remarks() if "12,5x" in line]
    assert remark == (
        "x would be a column of numbers except for '12,5x' in row 3, and is left out; correct the "
        "cell, or leave it empty"
    )
    as_feature = read(["1", "2", "12,5x", "4", "5"], features=["x"]).summary.remarks()
    assert any("and is read as categories" in line for line in as_feature)
    for meant in ({"categorical": ["x"]}, {"exclude": ["x"]}):
        assert not read(["1", "2", "12,5x", "4", "5"], **meant).summary.odd_cells


def test_the_command_line_says_it(read, tmp_path):
    read(["1", "2", "12,5x", "4", "5"])
    line = "fit --nodes nodes.csv --edges edges.csv --label topic -o model.nodegp"
    assert "'12,5x' in row 3" in " ".join(run(line).output.split())


@pytest.mark.parametrize("show", [None, ["id"]])
def test_records_and_frames_say_it_too(tmp_path, show):
    cells = [1, 2, "12,5x", 4, 5]
    nodes, edges = tmp_path / "nodes.json", tmp_path / "edges.csv"
    nodes.write_text(json.dumps([{"id": i, "x": x} for i, x in zip(IDS, cells, strict=True)]))
    edges.write_text(EDGES)
    loaded = read_tables(TableSource(nodes, edges, show=show))
    assert loaded.summary.odd_cells == {"x": "'12,5x' in row 3"}
    frame = pd.DataFrame({"id": list(IDS), "x": list(map(str, cells))})
    ends = pd.DataFrame({"from": ["a"], "to": ["b"]})
    with pytest.raises(ValueError, match=r"holds text, not numbers \('12,5x' in row 3\)"):
        Graph.from_dataframes(frame, ends, id="id", source="from", target="to")


def test_damaged_and_older_files_are_refused(tmp_path):
    zipped = tmp_path / "nodes.json.gz"
    zipped.write_bytes(gzip.compress(b'[{"id": 1}]')[:-9])
    with pytest.raises(ValueError, match=r"nodes\.json\.gz is not a gzip file, or is damaged"):
        TableFile.open(zipped, "nodes")
    zipped.write_bytes(b'[{"id": 1}]')
    with pytest.raises(ValueError, match=r"nodes\.json\.gz is not a gzip file, or is damaged"):
        TableFile.open(zipped, "nodes")
    old = tmp_path / "nodes.xls"
    old.write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(
        ValueError, match=r"nodes\.xls is of an Excel before 2007; save it as \.xlsx"
    ):
        TableFile.open(old, "nodes")
