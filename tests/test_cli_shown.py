"""What people are shown by the command line: explanations, titles, and words that they know."""

from __future__ import annotations

import time

import pytest

import nodegp
from nodegp.cli import show
from tables import FIT, NAMES, rows_of, run, run_json, write_csv

pytestmark = pytest.mark.usefixtures("in_folder")  # `folder`, with tables and a fitted model


def test_explain_adds_up():
    found = run_json("explain model.nodegp n030 -n 5")
    labels = sum(row["share"] for row in found["labels"])
    assert labels + found["other_labels"] + found["common"] == pytest.approx(found["latent_mean"])
    near = sum(row["share"] for row in found["neighbours"])
    near += found["other_neighbours"] + found["anywhere"]
    assert near == pytest.approx(found["latent_mean"])


def test_explain_tells_a_stranger_what_spoke_for_what(folder):
    run(FIT.replace("model.nodegp", "near.nodegp") + " --filter mean")
    line = "explain near.nodegp n030 --class bee -n 4"
    text, found = run(line).stdout, run_json(line)
    assert "What made the score of bee: + speaks for it, - against it" in text
    assert "n030 (itself)" in text
    assert f"next   {found['rival']['class']}, probability" in text
    assert {row["label"] for row in found["labels"]} <= {"bee"}
    assert "bee" not in {row["label"] for row in found["against"]}
    # A label is listed for what it says of its own class, and only where it speaks for it.
    assert all(row["share"] > 0 for row in found["against"])
    # Features are mixed before a kernel that is not linear sees them: neighbours are shown, though.
    model = nodegp.load("near.nodegp")
    mixed = nodegp.GraphGPClassifier(kernel=nodegp.kernels.RBF(), filter="pagerank")
    labels = dict(zip(model.graph_.ids[model.labelled_], model.labels_, strict=True))
    mixed.fit(model.graph_, labels).save("mixed.nodegp", include_graph=True)
    assert "Neighbours (with this kernel" in run("explain mixed.nodegp n030").stdout


def test_explain_shows_names_with_brackets_as_they_are(folder):
    rows = [[i, "[red]x[/]" if i % 2 else "y", i % 5] for i in range(10)]
    write_csv(folder / "brackets.csv", [["node", "kind", "a"], *rows])
    run("fit --nodes brackets.csv --label kind --knn 2 -o brackets.nodegp")
    shown = run("explain brackets.nodegp 3 --class '[red]x[/]'").stdout
    assert "the score of [red]x[/]" in shown


def test_long_waits_are_told_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(show, "_PATIENCE", 0.01)
    terminal = show.Terminal()
    with terminal.stage("fitting"):
        time.sleep(0.1)
    with terminal.stage("scoring", 7):
        terminal.advance(3)
        time.sleep(0.1)
    terminal.advance()  # of no stage
    lines = capsys.readouterr().err.splitlines()
    assert "nodegp: fitting: 0 s so far" in lines
    assert "nodegp: scoring: 3 of 7, 0 s so far" in lines
    with show.Terminal(quiet=True).stage("fitting"):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.fixture
def titled(folder):
    """The same nodes with a title, a remark and a year."""
    rows = [
        [*row.values(), f"Title {n}", "" if n % 2 else f"remark {n}", 1990 + n % 7]
        for n, row in enumerate(rows_of("nodes.csv"))
    ]
    heads = [*rows_of("nodes.csv")[0], "title", "remark", "year"]
    write_csv(folder / "titled.csv", [heads, *rows])
    run("fit --nodes titled.csv --edges edges.csv --label kind -o titled.nodegp")


def test_questions_show_what_the_expert_needs(titled):
    (asked,) = run_json("query titled.nodegp -n 1")["ask"]
    place = int(asked["node"][1:])
    assert (asked["title"], asked["kind"]) == (f"Title {place}", "")
    graph, labels = nodegp.load("titled.nodegp").graph_, rows_of("titled.csv")
    around = [labels[j]["kind"] for j in graph.adjacency[[place]].indices]
    for name in NAMES:
        assert (f"{name} {around.count(name)}" in asked["neighbours"]) == (name in around)
    assert (f"{around.count('')} without a label" in asked["neighbours"]) == ("" in around)
    assert "title" not in run_json("query titled.nodegp -n 1 --show remark")["ask"][0]
    line = "query --nodes titled.csv --edges edges.csv -n 1 --show year"
    assert 1990 <= int(run_json(line)["ask"][0]["year"]) < 1997


def test_predictions_and_explanations_show_it_too(titled, folder):
    run("predict titled.nodegp --show title,remark -o shown.csv")
    row = rows_of("shown.csv")[4]
    assert list(row)[:4] == ["node", "title", "remark", "label"]
    assert (row["title"], row["remark"]) == ("Title 4", "remark 4")
    assert rows_of("shown.csv")[5]["remark"] == ""
    text, found = run("explain titled.nodegp n004").stdout, run_json("explain titled.nodegp n004")
    assert found["shown"] == {"title": "Title 4", "remark": "remark 4"}
    assert "Title 4" in text
    assert all(one["shown"]["title"] in text for one in found["labels"])
    with pytest.raises(
        ValueError, match=r"remembers no column 'year', but 'title', 'remark'; .*--show"
    ):
        run("predict titled.nodegp --show year")
    with pytest.raises(ValueError, match="--show is for nodes that the model knows"):
        run("predict titled.nodegp --nodes titled.csv --show title")


def test_a_column_called_like_one_of_ours_keeps_its_values(folder):
    rows = [[f"n{i:03d}", NAMES[i % 3], i % 5, f"mine {i}"] for i in range(12)]
    write_csv(folder / "clash.csv", [["node", "kind", "a", "label"], *rows])
    run("fit --nodes clash.csv --label kind --knn 2 -o clash.nodegp")
    run("predict clash.nodegp --show label -o clash_out.csv")
    row = rows_of("clash_out.csv")[3]
    assert row["label (given)"] == "mine 3"
    assert row["label"] in NAMES


@pytest.mark.parametrize("command", [FIT, "info model.nodegp", "query model.nodegp -n 2", "demo"])
def test_people_read_words_that_they_know(command):
    inside = ("terms[", "parts[", "variance", "ELBO")
    text = run(command).stdout
    assert not any(word in text for word in inside)
    more = run(f"{command} --verbose").stdout
    assert any(word in more for word in inside)
    if not command.startswith("query"):
        assert "(fixed)" in more


def test_a_cold_start_shows_what_there_is_to_read(titled):
    (asked,) = run_json("query --nodes titled.csv --edges edges.csv -n 1")["ask"]
    assert asked["title"] == f"Title {int(asked['node'][1:])}"


def test_a_graph_without_features_says_what_could_be_one(titled):
    line = "fit --nodes titled.csv --edges edges.csv --label kind -o bare.nodegp"
    done = run(f"{line} --exclude a,b,c,year")
    assert "--text title" in done.stderr
    assert "the edges alone" in done.stdout


def test_help_fills_the_lines_of_a_narrow_terminal():
    lines = [line.strip() for line in run("explain --help", columns=80).stdout.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("By label:"))
    paragraph = lines[start : lines.index("", start)]
    assert len(paragraph) > 2
    assert all(len(line) > 60 for line in paragraph[:-1])
