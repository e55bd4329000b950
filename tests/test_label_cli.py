"""`nodegp label` at the command line: what it opens, what it refuses, and what it takes out."""

from __future__ import annotations

import builtins
import json
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import nodegp
from browser import LabelProcess
from nodegp.app import Project
from nodegp.label.journal import JournalError
from nodegp.label.opening import subject_of
from nodegp.label.session import Session
from tables import FIT, NAMES, rows_of, run, write_csv, write_tables

COLD = "label --nodes nodes.csv --edges edges.csv --id node --features a,b,c"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path, write_tables(tmp_path)[1]


def answers(session, truth, count):
    """Answer truly, as a page would."""
    for number in range(count):
        node = session.question.node
        sure = 0.75 if number == 1 else 1.0
        data = {"number": node, "label": str(truth[node]), "confidence": sure}
        session.do(f"answer {number}", "answer", data)


def test_answers_go_into_a_model_and_out_again(folder):
    run(FIT)
    journal = "model.nodegp.labels.sqlite"
    session = Session(subject_of(Project.open("model.nodegp")), journal)
    answers(session, folder[1], 4)
    asked, proba = session.state.history, session.knowledge.proba
    session.close()

    run("label model.nodegp --export out.csv")
    rows = rows_of("out.csv")
    assert [row["node"] for row in rows] == [f"n{node:03d}" for node in asked]
    assert [row["kind"] for row in rows] == [folder[1][node] for node in asked]
    assert [float(row["confidence"]) for row in rows] == [1, 0.75, 1, 1]
    with pytest.raises(ValueError, match="--force"):
        run("label model.nodegp --export out.csv")
    run("label model.nodegp --export out.jsonl")
    with open("out.jsonl") as file:
        assert len([json.loads(line) for line in file]) == 4

    run("update model.nodegp --labels out.csv -o updated.nodegp")
    assert nodegp.load("updated.nodegp").labelled_.size == 24
    done = run("label model.nodegp --apply -o applied.nodegp")
    assert "24 labels" in done.stdout
    applied = nodegp.load("applied.nodegp")
    assert sorted(applied.label_confidence_)[:2] == [0.75, 1.0]
    assert applied.predict_proba() == pytest.approx(proba, abs=1e-6)

    run("label model.nodegp --apply")  # in its place, and the journal still goes with it
    run("label model.nodegp --apply")
    assert nodegp.load("model.nodegp").labelled_.size == 24


def test_a_cold_start_has_a_model_when_there_are_labels(folder):
    with pytest.raises(ValueError, match=r"say which classes there are.*--classes"):
        run(f"{COLD} --export a.csv")
    with pytest.raises(ValueError, match="no node has a label yet"):
        run(f"{COLD} --classes ant,bee,cat --apply -o m.nodegp")
    project = Project.from_tables("nodes.csv", "edges.csv", id="node", features=["a", "b", "c"])
    session = Session(subject_of(project, NAMES.tolist()), "nodes.csv.labels.sqlite")
    answers(session, folder[1], 8)
    session.close()
    run(f"{COLD} --classes ant,bee,cat --apply -o m.nodegp")
    assert Project.open("m.nodegp").info()["labels"] == 8
    run("predict m.nodegp -o p.csv")
    assert len(rows_of("p.csv")) == 40


def test_features_that_are_numbers_are_shown_as_they_were_written(folder):
    write_csv(
        folder[0] / "more.csv",
        [["node", "kind", "year", "size"], *(
            [f"n{i:03d}", NAMES[i % 3] if i < 12 else "", 1990 + i % 7, "" if i == 5 else i / 4]
            for i in range(40)
        )],
    )  # fmt: skip
    run("fit --nodes more.csv --edges edges.csv --label kind -o more.nodegp")
    session = Session(subject_of(Project.open("more.nodegp")), "more.sqlite")
    for node in (3, 5, 38):
        numbers = {one["name"]: one["value"] for one in session.look(node)["numbers"]}
        assert numbers["year"] == pytest.approx(1990 + node % 7, rel=1e-6)
        expected = None if node == 5 else pytest.approx(node / 4, rel=1e-5)
        assert numbers["size"] == expected
    session.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "give a model file, or --nodes"),
        ("model.nodegp --nodes nodes.csv", "give a model file, or --nodes"),
        ("model.nodegp --edges edges.csv", "--edges without --nodes"),
        ("--demo model.nodegp", "--demo has papers of its own"),
        ("model.nodegp --random-share 2", "--random-share must lie between 0 and 1"),
        ("model.nodegp --confidence 0", "--confidence must be above 0"),
        ("model.nodegp -o x.nodegp", "--out without --apply"),
        ("--nodes nodes.csv --edges edges.csv --apply", "--apply: say where the model goes"),
        ("model.nodegp --export out.xlsx", "--export: name a file that ends in .csv"),
        ("model.nodegp --strategy best --export a.csv", "--strategy must be one of"),
        ("model.nodegp --show title --export a.csv", "--show: the model remembers no column"),
        ("model.nodegp --journal no/such/folder.sqlite --export a.csv", "cannot be made"),
        ("model.nodegp --journal nodes.csv --export a.csv", "cannot be read as a journal"),
        ("nodes.csv --export a.csv", "nodes.csv"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(options, said):
    run(FIT)
    with pytest.raises((ValueError, OSError), match=said):
        run(f"label {options}")


def test_journals_that_do_not_go_with_the_model(folder):
    run(FIT)
    run("label model.nodegp --export a.csv")
    connection = sqlite3.connect("model.nodegp.labels.sqlite")
    connection.executescript("DROP TRIGGER events_stay; UPDATE events SET time = 'yesterday'")
    connection.close()
    with pytest.raises(JournalError, match="damaged at event 1"):
        run("label model.nodegp --export b.csv")
    run(f"{COLD} --classes ant,bee --journal cold.sqlite --export c.csv")
    with pytest.raises(JournalError, match="classes are 'ant', 'bee', and not 'ant', 'dog'"):
        run(f"{COLD} --classes ant,dog --journal cold.sqlite --export d.csv")


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    run(FIT)
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == "uvicorn":
            raise ImportError("no uvicorn", name="uvicorn")
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("nodegp.web.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"needs uvicorn: pip install 'nodegp\[label\]'"):
        run("label model.nodegp --no-open")


def test_the_demo_starts_and_lets_one_browser_in(tmp_path):
    pytest.importorskip("uvicorn", reason="the labelling page needs the extra `label`")
    with LabelProcess(["--demo"], tmp_path) as process:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(process.link.partition("?")[0])
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"<title>nodegp label</title>" in browser.open(process.link).read()
        place = process.link.partition("?")[0]
        standing = json.load(browser.open(f"{place}api/standing"))
        assert standing["classes"] == ["language", "networks", "statistics", "vision"]
        assert standing["panels"]["labels"] == 0


@pytest.mark.parametrize("quiet", [True, False])
def test_it_stops_and_says_where_answers_are_unless_it_is_to_be_quiet(tmp_path, quiet):
    pytest.importorskip("uvicorn", reason="the labelling page needs the extra `label`")
    import signal

    process = subprocess.Popen(
        [sys.executable, "-m", "nodegp", "label", "--demo", "--no-open", *["-q"] * quiet],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    while not (line := process.stdout.readline()).startswith("http://127.0.0.1:"):
        assert line
        assert not quiet
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    if quiet:
        assert (out, err) == ("", "")
    else:
        assert out.startswith("no answer yet in ")
        assert out.endswith("; `--apply` puts answers into a model\n")
        assert "Traceback" not in err
    assert process.returncode == 0


def test_a_port_that_is_taken(tmp_path):
    pytest.importorskip("uvicorn", reason="the labelling page needs the extra `label`")
    from nodegp.web.serving import listening_socket

    run(FIT)
    with listening_socket(0) as place:
        port = place.getsockname()[1]
        with pytest.raises(ValueError, match=rf"--port: {port} is taken"):
            run(f"label model.nodegp --no-open --port {port}")
