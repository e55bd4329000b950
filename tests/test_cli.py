"""The command line, as a user runs it."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest

import nodegp

PLAIN = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture
def run(commands):
    return partial(commands.run, os.getcwd(), PLAIN)


def test_demo_as_json(run):
    done = run("demo", "--json", "--doubtful", "3")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["labels"] == 140
    assert 0.80 < summary["accuracy"] < 0.90
    assert 0.3 < summary["log_loss"] < 1.5
    assert 0.6 < summary["loo_accuracy"] < 1.0
    assert summary["converged"] is True
    assert len(summary["doubtful"]) == 3
    for row in summary["doubtful"]:
        assert 0 < row["entropy"] < 1.95  # at most log 7
        assert row["likeliest"][0][1] >= row["likeliest"][1][1]


def test_demo_for_people(run):
    done = run("demo", "--calibrate", "--likelihood", "softmax", "--doubtful", "2")
    assert done.returncode == 0, done.stderr
    for words in ("2,708 papers", "140 labels", "test accuracy", "Softmax", "temperature"):
        assert words in done.stdout
    assert "(off)" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help(run, arguments):
    done = run(*arguments)
    assert done.returncode == 0
    assert "Usage" in done.stdout
    assert ("--likelihood" if "demo" in arguments else "demo") in done.stdout


def test_version(run):
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.strip() == f"nodegp {nodegp.__version__}"


@pytest.mark.parametrize(
    "arguments", [["demo", "--nonsense"], ["nonsense"], ["demo", "--doubtful", "-1"]]
)
def test_wrong_usage_exits_with_two(run, arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_bad_value_is_one_line_and_no_traceback(run):
    done = run("demo", "--likelihood", "nonsense")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("nodegp: ")
    assert "nonsense" in done.stderr
    assert "robustmax" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
