"""The application layer, used as a web page would: results as data, progress, and sentences."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import numpy as np
import pytest

import nodegp
from browser import look_in_a_browser
from nodegp.app import ModelOptions, OptionError, Project
from nodegp.app.belief import belief
from nodegp.app.frontend import STRATEGY_NAMES, plain
from nodegp.app.page import evaluation_page
from packages import run_code
from tables import NAMES, rows_of, write_csv, write_tables

TABLES = {"nodes": "nodes.csv", "edges": "edges.csv", "id": "node", "label": "kind"}


class Recorder:
    """Progress that remembers what it was told."""

    def __init__(self):
        self.stages, self.notes, self.steps, self.depth = [], [], 0, 0

    @contextmanager
    def stage(self, text, total=None):
        assert self.depth == 0, "stages do not nest"
        self.stages.append((text, total))
        self.depth += 1
        yield
        self.depth -= 1

    def advance(self, count=1):
        assert self.depth == 1
        self.steps += count

    def note(self, text):
        self.notes.append(text)


pytestmark = pytest.mark.usefixtures("in_folder")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("app")
    write_tables(place)
    return place


@pytest.fixture
def project():
    opened = Project.from_tables(**TABLES, progress=Recorder())
    opened.fit()
    return opened


def truth() -> dict[str, str]:
    return {row["node"]: row["kind"] for row in rows_of("truth.csv")}


def as_json(result):
    """What a page would get, which has to be plain."""
    return json.loads(json.dumps(plain(result), allow_nan=False))


# --- the whole way --------------------------------------------------------------------------------


def test_from_a_cold_start_to_a_file_and_back(folder):
    """Open, ask, answer, fit, ask, answer, update, predict, explain, evaluate, save, reopen."""
    progress = Recorder()
    columns = {"features": ["a", "b", "c"], "id": "node"}
    project = Project.from_tables("nodes.csv", "edges.csv", **columns, progress=progress)
    assert project.summary.to_dict()["nodes"] == 40
    assert project.classes == []
    answers = truth()

    asked = [row["node"] for row in as_json(project.query(8))["ask"]]
    assert len(set(asked)) == 8
    taken = project.answer([(name, answers[name]) for name in asked])
    assert as_json(taken) == {"new_labels": 8, "replaced_labels": 0, "waiting": 8}
    info = project.fit()
    assert as_json(info)["labels"] == 8
    assert info["seconds"] > 0
    assert project.classes == sorted({answers[name] for name in asked})

    more = [row["node"] for row in project.query(5, "entropy").ask]
    assert not set(more) & set(asked)
    missing = [name for name in answers if answers[name] not in project.classes]
    project.answer({name: answers[name] for name in [*more, *missing[:1]]}, new_classes=True)
    update = project.update()
    assert update["new_labels"] == len({*more, *missing[:1]})
    assert as_json(update)["model"]["labels"] == 8 + update["new_labels"]
    assert "predictions changed" in update["advice"]

    table, counts = project.predict(coverage=0.8).read()
    assert table["node"].to_pylist() == [f"n{i:03d}" for i in range(40)]
    assert as_json(counts)["predictions"] == 40
    why = as_json(project.explain(more[0]))
    shares = [row["share"] for row in why["labels"]]
    assert sum(shares) + why["other_labels"] + why["common"] == pytest.approx(why["latent_mean"])
    assert as_json(project.evaluate(labels=answers))["nodegp"]["n"] == 32 - update["new_labels"]

    project.save(folder / "page.nodegp")
    again = Project.open("page.nodegp")
    assert as_json(again.info()) == as_json(project.info())
    assert again.predict().read()[0].equals(project.predict().read()[0])
    texts = [text for text, _ in progress.stages]
    assert texts[:4] == ["reading", "choosing", "fitting", "choosing"]
    assert "looking ahead" in texts


def test_the_same_model_as_the_librarys_own(project):
    project.save("same.nodegp")
    model = nodegp.load("same.nodegp")
    found = project.predict().read()[0]
    assert found["probability"].to_numpy() == pytest.approx(model.predict_proba().max(axis=1))
    assert project.labels[:20].tolist() == [truth()[f"n{i:03d}"] for i in range(20)]
    assert set(project.labels[20:]) == {None}


def test_nothing_is_printed(folder, capfd):
    project = Project.from_tables(**TABLES)
    project.fit()
    project.query(2)
    project.answer({"n030": "ant"})
    project.update()
    project.evaluate(folds=2, compare=["lp"])
    project.explain("n001")
    project.predict(abstain_below=0.5).read()
    assert capfd.readouterr() == ("", "")


# --- one by one -----------------------------------------------------------------------------------


def test_some_nodes_and_new_nodes(project, folder):
    table, _ = project.predict(["n003", "n001"]).read()
    assert table["node"].to_pylist() == ["n003", "n001"]
    write_csv(folder / "fresh.csv", [["node", "a", "b", "c"], ["fresh", 1.0, 2.0, 3.0]])
    write_csv(folder / "links.csv", [["x", "y"], ["fresh", "n003"]])
    counts = project.predict(nodes="fresh.csv", edges="links.csv").write("fresh_out.csv")
    assert counts == {"predictions": 1}
    assert rows_of("fresh_out.csv")[0]["node"] == "fresh"


def test_predictions_are_counted_in_blocks(project, monkeypatch):
    monkeypatch.setattr("nodegp.app.predictions.BLOCK_ROWS", 7)
    predictions = project.predict(coverage=0.8, abstain_below=0.6)
    table, counts = predictions.read()
    assert project.progress.stages[-1] == ("predicting", 6)
    assert project.progress.steps == 6
    assert counts["abstained"] == table["label"].null_count > 0
    assert counts["mean_set_size"] == np.mean([len(names) for names in table["set"].to_pylist()])
    assert len(predictions.remarks(counts)) == 2


def test_answers_wait_and_are_not_asked_again(project):
    first = [row["node"] for row in project.query(3, "entropy").ask]
    project.answer([(name, "ant") for name in first])
    second = [row["node"] for row in project.query(3, "entropy").ask]
    assert not set(first) & set(second)
    assert project.answer([(first[0], "bee")])["replaced_labels"] == 1  # thought better of it
    with pytest.raises(ValueError, match="says nothing new"):
        project.answer([(first[0], "bee")])
    update = project.update()
    assert (update["new_labels"], update["replaced_labels"]) == (3, 0)
    assert project.labels[int(first[0][1:])] == "bee"
    with pytest.raises(ValueError, match="no answers"):
        project.update()


def test_answers_also_count_in_a_new_fit(project, folder):
    project.answer({"n030": "ant", "n031": ""})  # of the second nobody knew
    assert project.fit()["labels"] == 21
    project.save("refit.nodegp")
    reopened = Project.open("refit.nodegp")
    reopened.answer({"n031": "bee"})
    assert reopened.fit()["labels"] == 22


def test_classes_that_are_numbers_may_be_written(folder):
    rows = [[i, i % 2 if i < 15 else "", i % 7, (i * i) % 5] for i in range(20)]
    write_csv(folder / "numbers.csv", [["node", "kind", "a", "b"], *rows])
    project = Project.from_tables("numbers.csv", knn=3, label="kind")
    project.fit()
    project.answer([("16", "1"), (17, 0)])  # a page's form knows text only
    assert project.update()["new_labels"] == 2
    assert project.classes == [0, 1]
    assert project.labels[[16, 17]].tolist() == [1, 0]
    with pytest.raises(ValueError, match="of another kind"):
        project.answer({18: "yes"}, new_classes=True)
    project.save("numbers.nodegp")
    again = Project.open("numbers.nodegp")
    again.answer({18: 1})
    again.fit()
    assert [type(name) for name in again.classes] == [int, int]  # and no fractions
    assert again.answer({19: "0"})["new_labels"] == 1


def test_comparison_is_data_and_a_page(project):
    result = project.evaluate(folds=3, compare=["lp"], coverage=0.8, abstain_below=0.5)
    assert project.progress.stages[-2:] == [("nodegp: 3 fits", 3), ("lp: 3 fits", 3)]
    assert project.progress.steps == 6
    found = as_json(result)
    assert list(found) == ["nodegp", "lp"]
    assert found["nodegp"]["n"] == 20
    titles = [table.title for table in result.tables()]
    assert titles[0] == "3 folds, 20 labels"
    assert titles[-3:] == ["Precision and recall", "Confusion", "Reliability"]
    leave_one_out = project.evaluate()
    assert leave_one_out.own.how == "leave-one-out"
    unseen = project.evaluate(labels="truth.csv")
    assert project.progress.notes == ["20 labels of truth.csv are training labels and are left out"]
    assert unseen.own.nodes.tolist() == list(range(20, 40))


def test_precision_and_recall_count_nodes(project):
    own, table = project.evaluate().own, project.evaluate().by_class()
    predicted = own.proba.argmax(axis=1)
    for c, (name, *row) in enumerate(table.rows):
        assert name == NAMES[c]
        for count, share, interval, chosen in zip(
            *(row[i::3] for i in range(3)), (predicted == c, own.y == c), strict=True
        ):
            assert count == chosen.sum()
            if count:
                assert share == np.mean((predicted == own.y)[chosen])
            else:
                assert np.isnan(share)
                assert interval == ""


def test_the_page_says_what_was_evaluated_and_what_went_wrong(project, tmp_path):
    result = project.evaluate(folds=3, compare=["lp"], coverage=0.8, abstain_below=0.5)
    text = evaluation_page(result, project, "mine <b>")
    assert "mine &lt;b&gt;" in text
    assert "<svg" in text
    assert f"{date.today().isoformat()}, with nodegp {nodegp.__version__}" in text
    edges = project.graph.n_edges
    for words in ("20 labels in 3 classes", "3 folds", f"40 nodes, {edges} edges", "lp"):
        assert words in text
    assert "s.e." not in text
    own = result.own
    wrong = np.flatnonzero(own.proba.argmax(axis=1) != own.y)
    assert len(wrong) >= 2
    assert f"{len(wrong)} of 20 predictions are wrong" in text
    listed = re.findall(r'<td class="words">(n\d{3})</td>', text)
    worst = wrong[np.argsort(-own.proba.max(axis=1)[wrong], kind="stable")][:10]
    assert listed == project.ids[own.nodes[worst]].tolist()
    (tmp_path / "page.html").write_text(text)
    look_in_a_browser(tmp_path / "page.html", tmp_path)


def test_neighbours_of_a_mistake_are_counted_by_their_labels():
    star = nodegp.Graph(np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]))
    project = Project(star)
    project.answer({1: "a", 2: "b"})
    project.fit()
    truth = {0: project.classes[1 - project.model.predict_proba(nodes=[0])[0].argmax()]}
    text = evaluation_page(project.evaluate(labels=truth), project, "star")
    assert "a 1, b 1, 1 without a label" in text


def test_options_make_the_model():
    options = ModelOptions("paper", seed=3)
    project = Project.from_tables(**TABLES, options=options)
    info = project.fit()
    assert info["likelihood"] == "RobustMax"
    assert project.model.random_state == 3
    assert info["temperature"] == 1.0
    filtered = Project.from_tables(**TABLES, options=ModelOptions(filter="mean", calibrate=False))
    assert filtered.fit()["filter"] == "NeighbourMean"
    assert filtered.model.temperature_ == 1.0


# --- what can go wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda p: p.explain("nobody"), "there is no node 'nobody'; ids look like n000, n001"),
        (lambda p: p.explain("n001", for_class="dog"), "there is no class 'dog'; choose among ant"),
        (lambda p: p.predict(["nobody"]), "there is no node 'nobody'"),
        (lambda p: p.predict(coverage=90), "`coverage` must lie between 0 and 1.*write 0.9"),
        (lambda p: p.predict(knn=3), "`knn` without `nodes`"),
        (lambda p: p.predict(knd=3), "`knd` without `nodes`"),
        (lambda p: p.predict(["n001"], nodes="nodes.csv"), "`ids` or `nodes`, not both"),
        (lambda p: p.evaluate(foldz=3), "`foldz` without `labels`"),
        (lambda p: p.answer([("n030", "bee")], label="kind"), "`label` without `labels`"),
        (lambda p: p.answer({"n030": "bea"}), "did you mean 'bee'.*`new_classes`"),
        (lambda p: p.answer({"nobody": "bee"}), "there is no node 'nobody'"),
        (lambda p: p.answer([("n030", "bee"), ("n030", "ant")]), "two different labels"),
        (lambda p: p.answer([]), "has no labels yet"),
        (lambda p: p.update(), "there are no answers"),
        (lambda p: p.evaluate(folds=3, labels="truth.csv"), "`folds` or `labels`, not both"),
        (lambda p: p.evaluate(compare=["magic"]), "`compare`: there is no 'magic'"),
        (lambda p: p.evaluate(labels={"n000": "ant"}), "nothing to score on"),
        (lambda p: p.query(3, "best"), "strategy must be one of"),
    ],
)
def test_errors_are_sentences_and_change_nothing(project, step, message):
    before = as_json(project.info())
    with pytest.raises(ValueError, match=message):
        step(project)
    assert as_json(project.info()) == before
    with pytest.raises(ValueError, match="no answers"):
        project.update()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recipe": "best"}, "`recipe` must be one of auto, paper, got 'best'"),
        ({"filter": "nix"}, "`filter` must be one of auto, mean, .*got 'nix'"),
        ({"likelihood": "gaussian"}, "`likelihood` must be one of .*softmax.*got 'gaussian'"),
    ],
)
def test_options_are_checked_before_anything_is_read(settings, message):
    with pytest.raises(OptionError, match=message):
        ModelOptions(**settings)


def test_a_graph_of_ones_own_is_asked_about_answered_and_fitted():
    graph = nodegp.Graph(np.eye(6, k=1) + np.eye(6, k=-1), np.arange(12.0).reshape(6, 2))
    project = Project(graph)
    first, second = (question["id"] for question in project.query(2).ask)
    project.answer([(first, "left"), (second, "right")])
    assert project.fit()["labels"] == 2
    assert project.classes == ["left", "right"]


def test_options_are_called_what_the_front_end_calls_them(project):
    with pytest.raises(OptionError) as caught:
        project.predict(abstain_below=2)
    assert caught.value.options == ("abstain_below",)
    assert caught.value.worded(str.upper).startswith("ABSTAIN_BELOW must lie between 0 and 1")


def test_before_there_is_a_model(folder):
    project = Project.from_tables("nodes.csv", "edges.csv", id="node", features=["a"])
    for step in (project.info, project.predict, project.update, project.evaluate):
        with pytest.raises(ValueError, match="there is no model yet; fit one first"):
            step()
    with pytest.raises(ValueError, match="no node has a label yet"):
        project.fit()
    with pytest.raises(ValueError, match="there is no model yet"):
        project.save(folder / "none.nodegp")
    with pytest.raises(FileNotFoundError):
        Project.open("none.nodegp")


def test_a_model_made_in_python(folder):
    graph, y = nodegp.Graph(np.eye(6, k=1) + np.eye(6, k=-1)), np.array([0, 0, -1, -1, 1, 1])
    nodegp.GraphGPClassifier(filter="mean").fit(graph, y).save("py.nodegp", include_graph=True)
    project = Project.open("py.nodegp")
    assert project.sources == []
    assert project.query(1).ask[0]["id"] in (2, 3)
    with pytest.raises(ValueError, match="not made by `nodegp fit`"):
        project.predict(nodes="nodes.csv")
    with pytest.raises(ValueError, match="does not tell what its tables"):
        _ = project.summary


def test_the_layer_itself_loads_nothing_heavy_and_no_front_end():
    code = """
import sys
import nodegp.app, nodegp.app.frontend
assert not {"numpy", "torch", "pyarrow"} & set(sys.modules)
import nodegp.app.project, nodegp.app.evaluation, nodegp.app.demo
assert not {"typer", "nodegp.cli"} & set(sys.modules), "no front end here"
"""
    run_code(code)
    for path in Path(nodegp.app.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert not re.search(r"\bprint\(|import rich|sys\.exit", text), path


def test_the_strategies_that_front_ends_list_are_all_there_are():
    known = nodegp.active.strategies().items()  # others may have been defined by now
    assert set(STRATEGY_NAMES) == {n for n, kind in known if kind.__module__.startswith("nodegp")}
    assert len(STRATEGY_NAMES) == len(set(STRATEGY_NAMES))


def test_names_and_classes_of_answers_are_those_of_the_tables(project):
    assert project.query(1).columns[:2] == ("node", "kind")
    assert project.classes == NAMES.tolist()


def test_belief_says_when_labels_cannot_tell_the_model_from_guessing():
    scores = {"accuracy": 0.5, "accuracy_error": 0.1, "n": 12, "gain": 0.05, "gain_error": 0.04}
    assert belief(scores) == (
        "not yet: with 12 labels the model cannot be told from guessing (+0.05 ± 0.04 nats per "
        "label). Label more nodes"
    )
    assert belief(scores | {"gain": 0.5}) == (
        "better than guessing by 0.50 ± 0.04 nats per label; expected accuracy 30% to 70%, "
        "estimated from 12 labels"
    )
