"""No file is left open, whether a model is loaded, a table is read, or either fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tables import write_tables

PYTHON = """
import gc, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import save_file
import nodegp
from nodegp.persistence import is_model_file

model = Path(sys.argv[1])
content = model.read_bytes()
damaged = {
    "cut": content[:-40], "head": content[:100], "empty": b"", "text": b"hello",
    "flipped": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], "zeros": bytes(200),
}
for name, what in damaged.items():
    model.with_name(name).write_bytes(what)
save_file({"a": np.zeros(2)}, model.with_name("other"))
for path in (model, str(model)):
    nodegp.load(path).predict()
refused = 0
for name in (*damaged, "other"):
    path = model.with_name(name)
    is_model_file(path)
    try:
        nodegp.load(path)
    except ValueError:
        refused += 1
    gc.collect()
assert refused == len(damaged) + 1, refused
"""
COMMANDS = """
import gc, sys
from nodegp.cli.app import main

for line in sys.stdin.read().splitlines():
    sys.argv = ["nodegp", *line.split()]
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    else:
        code = 0
    gc.collect()
    print(f"{code} {line}", file=sys.stderr)
"""
LINES = """\
info model.nodegp
predict model.nodegp -o predictions.csv
query model.nodegp -n 2 -o ask.csv
explain model.nodegp n001
evaluate model.nodegp --report page.html
update model.nodegp --labels truth.csv -o updated.nodegp
predict model.nodegp --nodes nodes.csv --edges edges.csv -o all.csv.gz
info nodes.csv
info damaged.nodegp
predict damaged.nodegp
fit --nodes broken.json.gz --edges edges.csv --label kind -o never.nodegp
fit --nodes broken.csv.gz --edges edges.csv --label kind -o never.nodegp
fit --nodes broken.parquet --edges edges.csv --label kind -o never.nodegp
fit --nodes broken.xlsx --edges edges.csv --label kind -o never.nodegp
fit --nodes nodes.csv --edges edges.csv --label kind --features-npy broken.npy -o never.nodegp
fit --graph broken.gml --label kind -o never.nodegp
"""
FIT = "fit --nodes nodes.csv --edges edges.csv --id node --label kind -o model.nodegp\n"


def run(code: str, folder: Path, *arguments: str, given: str = "") -> str:
    """Standard error of a program in which a file that was left open is an error."""
    options = ["-X", "dev", "-W", "ignore", "-W", "error::ResourceWarning"]
    done = subprocess.run(
        [sys.executable, *options, "-c", code, *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "ResourceWarning" not in done.stderr, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handles")
    write_tables(folder)
    assert run(COMMANDS, folder, given=FIT).splitlines()[-1].startswith("0 fit")
    return folder


def test_models_in_python(folder):
    run(PYTHON, folder, "model.nodegp")


def test_the_command_line(folder):
    (folder / "damaged.nodegp").write_bytes((folder / "model.nodegp").read_bytes()[:-100])
    for ending in ("json.gz", "csv.gz", "parquet", "xlsx", "npy", "gml"):
        (folder / f"broken.{ending}").write_bytes(b"\\x1f\\x8b and no more")
    told = run(COMMANDS, folder, given=LINES)
    ends = [line for line in told.splitlines() if line[2:] in LINES.splitlines()]
    good = LINES.splitlines().index("info nodes.csv")
    assert [line[0] for line in ends] == ["0"] * good + ["1"] * (len(ends) - good), told


def test_the_check_itself_notices(folder):
    with pytest.raises(AssertionError, match="ResourceWarning"):
        run("open('nodes.csv')", folder)
