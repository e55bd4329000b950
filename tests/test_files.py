"""Files that appear whole or not at all, and what killed writers leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from nodegp.files import clear_unfinished, open_atomically, write_atomically

LEFT = ".model.nodegp.0123456789abcdef"


def leave(folder, name=LEFT, age=60.0):
    path = folder / name
    path.write_bytes(b"half a mod")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def test_a_writer_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "model.nodegp"
    write_atomically(path, b"old")

    def fail():
        with open_atomically(path) as file:
            file.write(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_next_writer_removes_what_a_killed_one_has_left(tmp_path):
    leave(tmp_path)
    write_atomically(tmp_path / "model.nodegp", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["model.nodegp"]


def test_nothing_else_is_removed(tmp_path):
    names = [
        ".other.nodegp.0123456789abcdef",  # of another file
        ".model.nodegp.0123456789abcde",  # not a name of ours
        ".model.nodegp.backup",
        "model.nodegp.0123456789abcdef",
    ]
    for name in names:
        leave(tmp_path, name)
    leave(tmp_path, age=0.0)  # just made: its writer may not have locked it yet
    write_atomically(tmp_path / "model.nodegp", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*names, LEFT, "model.nodegp"]
    )


def test_names_are_taken_as_they_are(tmp_path):
    other = leave(tmp_path, ".mm.nodegp.0123456789abcdef")
    write_atomically(tmp_path / "[m]*.nodegp", b"whole")
    assert other.exists()


CODE = """
import sys, time
from pathlib import Path
from nodegp.files import open_atomically
with open_atomically(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_a_file_that_is_being_written_stays_until_its_writer_is_killed(tmp_path):
    path = tmp_path / "model.nodegp"
    writer = subprocess.Popen([sys.executable, "-c", CODE, path], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        (unfinished,) = tmp_path.iterdir()
        then = time.time() - 60
        os.utime(unfinished, (then, then))
        write_atomically(path, b"another's")
        assert unfinished.exists()
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    assert unfinished.exists()
    write_atomically(path, b"the next")
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_of_ones_own_is_cleared_whole(tmp_path):
    leave(tmp_path, age=0.0)
    leave(tmp_path, ".other.0123456789abcdef", age=0.0)
    kept = leave(tmp_path, "runs.jsonl")
    clear_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == [kept]
