"""Nothing that the program did not write itself is replaced, and no input ever."""

from __future__ import annotations

import os

import pytest

from tables import FIT, fitted_folder, rows_of, run, write_csv


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return fitted_folder(
        tmp_path_factory.mktemp("outputs"),
        "",
        "query model.nodegp -n 3 -o ask.csv",
        "predict model.nodegp -o predictions.csv",
        "evaluate model.nodegp --report page.html",
    )


@pytest.fixture(autouse=True)
def here(tables, monkeypatch):
    monkeypatch.chdir(tables)
    before = {path.name: path.read_bytes() for path in tables.iterdir() if path.is_file()}
    yield
    for path in tables.iterdir():
        path.unlink()
    for name, content in before.items():
        (tables / name).write_bytes(content)


COMMANDS = {
    "model": FIT.replace("model.nodegp", "{out}"),
    "table": "predict model.nodegp -o {out}",
    "questions": "query model.nodegp -o {out}",
    "update": "update model.nodegp --labels truth.csv -o {out}",
    "report": "evaluate model.nodegp --report {out}",
}


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("own", ["notes.csv", "notes.parquet"])
def test_a_file_of_the_users_is_not_replaced_without_force(kind, own, tables):
    content = b"id;remark\n1;mine\n"
    (tables / own).write_bytes(content)
    with pytest.raises(ValueError, match=r"is there already, and is no .*--force"):
        run(COMMANDS[kind].format(out=own))
    assert (tables / own).read_bytes() == content
    run(COMMANDS[kind].format(out=own) + " --force")
    assert (tables / own).read_bytes() != content


@pytest.mark.parametrize(
    "line",
    [
        FIT.replace("-o model.nodegp", "-o nodes.csv --force"),
        FIT.replace("-o model.nodegp", "-o link.csv --force"),
        FIT.replace("-o model.nodegp", "-o edges.csv"),
        "predict model.nodegp --nodes new.csv -o new.csv --force",
        "query --nodes nodes.csv --edges edges.csv -o edges.csv --force",
        "update model.nodegp --labels truth.csv -o truth.csv --force",
        "evaluate model.nodegp --labels truth.csv --report truth.csv --force",
        "evaluate model.nodegp --report model.nodegp --force",
    ],
)
def test_an_output_is_never_an_input(line, tables):
    write_csv(tables / "new.csv", [["node", "a", "b", "c"], ["z", 1, 2, 3]])
    os.symlink("nodes.csv", "link.csv")  # the same file by another name
    before = {path.name: path.read_bytes() for path in tables.iterdir()}
    with pytest.raises(ValueError, match="is read here too"):
        run(line)
    assert {path.name: path.read_bytes() for path in tables.iterdir()} == before


def test_what_the_program_wrote_is_replaced():
    run(FIT)
    run("predict model.nodegp -o predictions.csv")
    run("query model.nodegp -n 3 -o ask.csv")
    run("query model.nodegp -n 2 -o predictions.csv")
    run("evaluate model.nodegp --report page.html")
    run("update model.nodegp --labels truth.csv -o model.nodegp")


def test_answers_that_are_filled_in_are_not_wiped(tables):
    rows = rows_of("ask.csv")
    rows[1]["kind"] = "bee"
    write_csv(tables / "ask.csv", [list(rows[0]), *(list(row.values()) for row in rows)])
    with pytest.raises(ValueError, match=r"ask.csv has 1 answers filled in.*--force"):
        run("query model.nodegp -o ask.csv")
    assert rows_of("ask.csv")[1]["kind"] == "bee"
    run("query model.nodegp -o ask.csv --force")
    assert not any(row["kind"] for row in rows_of("ask.csv"))


def test_an_empty_file_is_nobodys_work(tables):
    (tables / "empty.csv").touch()
    run("predict model.nodegp -o empty.csv")
    assert len(rows_of("empty.csv")) == 40
