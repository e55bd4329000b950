"""Tables in every format that people have, and files without a row of names."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from nodegp.io import formats
from nodegp.io.write import write_tables
from table_files import EDGES, NODES, linked, read

# --- formats ----------------------------------------------------------------------------------


def as_parquet(text):
    rows = [line.split(",") for line in text.splitlines()]
    columns = {}
    for name, *values in zip(*rows, strict=True):
        values = [v or None for v in values]
        columns[name] = [float(v) for v in values] if name == "age" else values
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def records(text):
    head, *lines = [line.split(",") for line in text.splitlines()]
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    return [{k: float(v) if k == "age" else v for k, v in row.items()} for row in rows]


def workbook(rows):
    """A file of Excel with these rows in its first sheet, below an empty one, and a second."""

    def cell(value):
        try:
            return f"<c><v>{float(value)}</v></c>"
        except ValueError:
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>' if value else "<c/>"

    space = "http://schemas.openxmlformats.org"
    lines = ["<row/>", *("<row>" + "".join(map(cell, row)) + "</row>" for row in rows)]
    sheets = {n: f'<sheet name="s{n}" sheetId="{n}" r:id="rId{n}"/>' for n in (1, 2)}
    links = [
        f'<Relationship Id="rId{n}" Type="{space}/officeDocument/2006/relationships/worksheet" '
        f'Target="worksheets/sheet{n}.xml"/>'
        for n in sheets
    ]
    main = f'xmlns="{space}/spreadsheetml/2006/main"'
    office = f"{space}/officeDocument/2006/relationships/officeDocument"
    parts = {
        "_rels/.rels": f'<Relationships xmlns="{space}/package/2006/relationships">'
        f'<Relationship Id="r" Type="{office}" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{space}/officeDocument/2006/relationships">'
        f"<sheets>{''.join(sheets.values())}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{space}/package/2006/relationships">'
        f"{''.join(links)}</Relationships>",
        "xl/worksheets/sheet1.xml": f"<worksheet {main}><sheetData>{''.join(lines)}</sheetData>"
        "</worksheet>",
        "xl/worksheets/sheet2.xml": f"<worksheet {main}><sheetData/></worksheet>",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return file.getvalue()


FORMATS = {
    "csv": str.encode,
    "tsv": lambda text: text.replace(",", "\t").encode(),
    "txt": str.encode,
    "csv.gz": lambda text: gzip.compress(text.encode()),
    "tsv.gz": lambda text: gzip.compress(text.replace(",", "\t").encode()),
    "parquet": as_parquet,
    "CSV": lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
    "a.csv": lambda text: text.replace(",", ";").encode(),
    "b.csv": lambda text: text.replace(",", "\t").replace("\n", "\r").encode(),
    "c.csv": lambda text: text.replace(",", "|").encode("utf-16"),
    "d.csv.gz": lambda text: gzip.compress(text.replace(",", ";").encode("utf-16")),
    "a.tsv": str.encode,
    "a.txt": lambda text: b"# notes, and\n\n% more\n" + text.replace(",", "\t").encode(),
    "dat": lambda text: text.replace(",", ";").encode(),
    "edges": lambda text: (
        b"# spaces\n" + re.sub("(?m)^|,", "   ", re.sub(",$", ',""', text, flags=re.M)).encode()
    ),
    "json": lambda text: json.dumps(records(text)).encode(),
    "jsonl": lambda text: "\n".join(map(json.dumps, records(text))).encode(),
    "ndjson": lambda text: "\n".join(map(json.dumps, records(text))).encode(),
    "json.gz": lambda text: gzip.compress(json.dumps(records(text)).encode()),
    "jsonl.gz": lambda text: gzip.compress("\n".join(map(json.dumps, records(text))).encode()),
    "xlsx": lambda text: workbook([line.split(",") for line in text.splitlines()]),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_graph(tmp_path, kind):
    nodes, edges = tmp_path / f"nodes.{kind}", tmp_path / f"edges.{kind}"
    nodes.write_bytes(FORMATS[kind](NODES))
    edges.write_bytes(FORMATS[kind](EDGES))
    loaded = read(nodes, edges, id="paper", label="topic")
    assert loaded.graph.ids.tolist() == ["b", "a", "c", "d"]
    assert loaded.labels.tolist() == ["x", None, "y", "x"]
    assert linked(loaded.graph) == [("a", "b"), ("b", "c")]
    age = np.array([1.5, 0.5, 4, 2])
    np.testing.assert_allclose(loaded.graph.features[:, 0], (age - age.mean()) / age.std())


class Records(formats.Format):
    """A JSON object per line."""

    def columns(self, path):
        return tuple(json.loads(path.read_text().splitlines()[0])), None

    def read(self, path, columns, text, names):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return pa.Table.from_pylist(rows).select(columns)

    def writer(self, file, schema):
        class Writer:
            def write_table(self, table):
                file.writelines(json.dumps(row).encode() + b"\n" for row in table.to_pylist())

            def close(self):
                pass

        return Writer()


def test_a_format_is_added_by_one_entry(tmp_path, monkeypatch):
    nodes, edges = tmp_path / "nodes.rows", tmp_path / "edges.rows"
    table = pa.table({"paper": ["b", "a"], "age": [1.5, 0.5], "topic": ["x", None]})
    with pytest.raises(ValueError, match=r"cannot tell the format.*use \.csv, \.tsv \(these"):
        write_tables(nodes, [table])
    monkeypatch.setitem(formats.FORMATS, ".rows", Records())
    assert write_tables(nodes, [table.slice(0, 1), table.slice(1)]) == 2
    assert write_tables(edges, [pa.table({"from": ["a"], "to": ["b"]})]) == 1
    loaded = read(nodes, edges, id="paper", label="topic")
    assert loaded.graph.ids.tolist() == ["b", "a"]
    assert loaded.labels.tolist() == ["x", None]
    assert linked(loaded.graph) == [("a", "b")]
    (tmp_path / "n.docx").write_text("x")
    with pytest.raises(ValueError, match=r"no kind that can be read.*\.parquet, .*, \.rows\)"):
        read(tmp_path / "n.docx", edges)


def test_a_text_file_may_be_separated_by_tabs(files):
    files(nodes_txt=NODES.replace(",", "\t"), edges_csv=EDGES)
    assert read("nodes.txt").graph.n_nodes == 4


def test_other_encodings_are_found_out_and_told(files):
    text = "id,topic\na,café\nb,“quoted”\n"
    files(edges_csv="a,b\n", nodes_csv=text.encode("cp1252"))
    with pytest.warns(
        UserWarning, match=r"nodes\.csv is not UTF-8 text; .*Windows-1252.*--encoding"
    ):
        assert read(label="topic").labels.tolist() == ["café", "“quoted”"]
    files(nodes_csv="idé,topic\na,x\x81\nb,y\n".encode("latin-1"))
    with pytest.warns(UserWarning, match="read as Latin-1"):
        assert read(label="topic").labels.tolist() == ["x\x81", "y"]
    files(nodes_csv="id,topic\na,мир\nb,y\n".encode("koi8-r"))
    assert read(label="topic", encoding="koi8-r").labels.tolist() == ["мир", "y"]
    with pytest.raises(ValueError, match="no encoding 'koi'; try"):
        read(label="topic", encoding="koi")
    with pytest.raises(ValueError, match="is not text in its encoding"):
        read(label="topic", encoding="utf8")


def test_separators_can_be_forced(files):
    files(nodes_txt="id;a,topic\nu;v,x\nw;z,y\n", edges_csv="u;v\tw;z\n")
    assert read("nodes.txt", label="topic").graph.ids.tolist() == ["u;v", "w;z"]
    files(edges_txt="u w\n", nodes_txt="id a,b\nu v,x\nw z,y\n")
    loaded = read("nodes.txt", "edges.txt", label=2, sep="space")
    assert loaded.graph.ids.tolist() == ["u", "w"]
    assert loaded.labels.tolist() == ["v,x", "z,y"]
    with pytest.raises(ValueError, match="sep must be one character, or tab or space, got '::'"):
        read("nodes.txt", "edges.txt", sep="::")


def test_a_long_text_is_no_reason_to_miss_the_separator(files):
    """Fields that are too long for Python's own parser, which looks at the first lines."""
    files(nodes_csv=f"id,topic,words\na,u,{'x ' * 100_000}\nb,v,x\n", edges_csv="a,b\n")
    assert read(label="topic").labels.tolist() == ["u", "v"]


@pytest.mark.parametrize("ending", ["graphml", "gexf", "gml"])
def test_graphs_in_files_of_networkx(tmp_path, ending):
    G = networkx.karate_club_graph()
    for node, data in G.nodes(data=True):
        data["size"] = float(node) if node else 0.5
    path = tmp_path / f"club.{ending}"
    getattr(networkx, f"write_{ending}")(G, path)
    loaded = read(None, None, graph=path, label="club")
    assert loaded.graph.ids.astype(int).tolist() == list(G)
    assert loaded.labels.tolist() == [data["club"] for _, data in G.nodes(data=True)]
    assert loaded.encoder.columns() == ["size"]
    expected = networkx.to_numpy_array(G)  # weights and all
    np.testing.assert_array_equal(loaded.graph.adjacency.toarray(), expected)
    path.write_text("no such thing")
    with pytest.raises(ValueError, match=f"is not a {ending} file, or is damaged"):
        read(None, None, graph=path)


def test_quotes_and_spaces(files):
    files(
        nodes_csv='paper, age, topic\n"a ""1""", 1, "x, or y"\n b , 2, z\n',
        edges_csv='s,t\n"a ""1""",b\n',
    )
    with pytest.raises(ValueError, match=r"line 2 of nodes.csv has 4 fields"):
        read()  # a quote after a space is not one
    files(nodes_csv='paper, age, topic\n"a ""1""", 1,"x, or y"\n b , 2, z\n')
    loaded = read(label="topic")
    assert loaded.graph.ids.tolist() == ['a "1"', "b"]
    assert loaded.labels.tolist() == ["x, or y", "z"]
    assert loaded.graph.n_edges == 1


# --- a row in the place of the header ---------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "options", "why"),
    [
        ("p1,x\np2,y\np3,x\n", {"label": 2}, "has the label 'x'"),
        ("p1,x\np2,y\np3,z\n", {"label": "2"}, "is for node 'p1'"),
        ("1,u\n2,x\n3,y\n", {"label": 2}, "has the id 1"),
        ("7,1\n2,0\n3,1\n", {"label": 2}, "has the label '1' and has the id 7"),
        ("p1,0.5\np2,0.25\np3,0.1\n", {}, "is for node 'p1'"),
    ],
)
def test_nodes_without_a_header_lose_no_row(files, nodes, options, why):
    edges = "p1,p2\np2,p3\np3,p2\n" if "p1" in nodes else "2,3\n"
    files(nodes_csv=nodes, edges_csv="s,t\n" + edges)
    with pytest.raises(ValueError, match=f"nodes.csv has no header: its first line {why}. Add"):
        read(**options, ignore_unknown=True)


def test_sheets_without_a_header_lose_no_row(tmp_path):
    sheets = {"nodes": [["id", "y"], ["1", "u"], ["2", "v"]], "edges": [["s", "t"], ["1", "2"]]}
    paths = {name: tmp_path / f"{name}.xlsx" for name in sheets}
    for name, rows in sheets.items():
        paths[name].write_bytes(workbook(rows))
    assert read(paths["nodes"], paths["edges"], label=2).graph.n_edges == 1
    paths["edges"].write_bytes(workbook(sheets["edges"][1:]))
    with pytest.raises(ValueError, match=r"edges\.xlsx has no header: its first line is an edge"):
        read(paths["nodes"], paths["edges"], label=2)
    paths["nodes"].write_bytes(workbook(sheets["nodes"][1:]))
    with pytest.raises(ValueError, match=r"nodes\.xlsx has no header: its first line has the id 1"):
        read(paths["nodes"], paths["edges"], label=2)


def test_columns_that_are_only_numbered_have_a_header(files):
    files(nodes_csv="0,1,2\n7,x,3\n8,y,4\n", edges_csv="7,8\n")
    assert read(label=2).graph.ids.tolist() == [7, 8]
    files(nodes_csv="id,x\na,x\nb,y\n", edges_csv="a,b\n")  # a label by the column's name
    assert read(label="x").labels.tolist() == ["x", "y"]
