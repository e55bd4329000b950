"""The examples run as a stranger would run them, and say what they are there to show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forks import Forks

FOLDER = Path(__file__).resolve().parents[1] / "examples"


# Examples, and the commands that they run, in copies of a process that has everything imported
# (forks.py).
RUNNING = """
import io, os, runpy, subprocess, sys
import gpytorch, pyarrow.csv, sklearn.pipeline, torch
import nodegp.app.project, nodegp.active, nodegp.estimators
import nodegp_paper.gpytorch
from nodegp.cli import main

def nodegp_in(folder, arguments):
    os.chdir(folder)
    sys.argv = ["nodegp", *arguments]
    main()

def run_nodegp(command, cwd, check):
    assert command[:3] == [sys.executable, "-m", "nodegp"] and check
    sys.stdout.flush()
    assert ended(copy(nodegp_in, cwd, command[3:])) == 0, command

def work(path, folder, typed, *arguments):
    os.environ.pop("NODEGP_DATA", None)  # without data sets of ours
    os.chdir(folder)
    subprocess.run = run_nodegp
    sys.argv, sys.stdin = [path, *arguments], io.StringIO(typed)
    sys.path[0] = os.path.dirname(path)
    runpy.run_path(path, run_name="__main__")
"""


@pytest.fixture(scope="module")
def examples():
    with Forks(RUNNING) as forks:
        yield forks


@pytest.fixture
def run(examples, tmp_path):
    """What an example prints in an empty folder, outside the checkout."""

    def said(name, *args, typed=""):
        done = examples.run(str(FOLDER / name), str(tmp_path), typed, *args)
        assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return said


def numbers(pattern, output):
    """The number after each match of the pattern, which must match."""
    found = [float(value) for value in re.findall(pattern + r"\s*([\d.]*\d)", output)]
    assert found, output
    return found


def check_first_fit(output):
    assert numbers("test accuracy", output)[0] > 0.78
    assert numbers("leave-one-out accuracy", output)[0] > 0.7
    assert len(re.findall(r"paper \d+: .*\d+%", output)) == 3


def check_calibration(output):
    before, after = numbers("calibration error", output)
    assert after < before
    temperatures = numbers("temperature", output)
    assert temperatures[0] == 1.0 != temperatures[1]
    before, after = numbers("accuracy", output)  # few classes change, by how common they are
    assert abs(after - before) < 0.02


def check_new_nodes(output):
    (new,), (seen,) = numbers("500 new papers:", output), numbers("at the fit:", output)
    assert new > 0.75
    assert abs(new - seen) < 0.05


def check_gpytorch_kernel(output):
    exact, variational = numbers("test accuracy", output)
    assert min(exact, variational) > 0.85


def check_scikit_learn(output):
    *_, labelled_rows, all_rows = numbers("accuracy", output)
    assert all_rows > max(labelled_rows, 0.9)
    assert "functiontransformer__kw_args" in output


def check_active_learning(output):
    assert re.findall(r"(\d+) labels:", output)[-1] == "20"
    accuracy = numbers("accuracy", output)
    assert accuracy[-1] > 0.85 > accuracy[0]


def check_own_tables(output):
    assert "40 (13.3 % of the nodes)" in output
    assert "300 predictions written to kinds.csv" in output
    assert numbers("right for", output)[0] > 75
    assert "fill in 'kind', then: nodegp update kinds.nodegp --labels ask.csv" in output
    assert "Labels that speak for" in output


def check_newcomer(output):
    assert "1 numeric column" in output  # neither the id nor the row number is a feature
    assert "(7 words)" in " ".join(output.split())  # with their accents
    assert "lists 'features'" in output
    assert "False 24, True 16" in output
    before, after = numbers("leave-one-out", output)
    assert min(before, after) > 80
    assert "5 new, 0 replaced" in output
    assert "45 in 2 classes" in output
    assert "300 predictions written to predictions.csv" in output


EXAMPLES = {
    "active_learning.py": (["--auto", "--questions", "20"], check_active_learning),
    "calibration.py": ([], check_calibration),
    "first_fit.py": ([], check_first_fit),
    "gpytorch_kernel.py": ([], check_gpytorch_kernel),
    "newcomer.py": ([], check_newcomer),
    "new_nodes.py": ([], check_new_nodes),
    "own_tables.py": ([], check_own_tables),
    "scikit_learn.py": ([], check_scikit_learn),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_says_what_it_should(name, run, tmp_path):
    args, check = EXAMPLES[name]
    check(run(name, *args))
    assert list(tmp_path.iterdir()) == []


def test_every_example_is_tested():
    assert sorted(path.name for path in FOLDER.glob("*.py")) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_short_and_says_what_it_shows(name):
    lines = (FOLDER / name).read_text().splitlines()
    assert len(lines) < 60
    assert lines[0].startswith('"""')
    assert any(f"python examples/{name}" in line for line in lines)


def test_a_human_can_answer_and_skip(run):
    """A wrong key is asked about again, and Enter moves on to another image."""
    output = run("active_learning.py", "--questions", "2", typed="x\n4\n\n7\n")
    assert output.count("Which digit") == 4
    assert "@" in output
    assert re.findall(r"(\d+) labels:", output)[-1] == "2"
