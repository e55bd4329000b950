"""Run the command line and the estimators on damaged input, and say what does not end as it should.

    python scripts/fuzz.py --cases 2000 --seed 0
    python scripts/fuzz.py --seed 0 --only 1234    # one case again
    python scripts/fuzz.py --kind models           # or arrays

A case of "tables" or "models" is one command on files made from a small valid graph, with one to
three things wrong with them; those of "models" are damages of a model file whose checksum was made
right again. `scripts/fuzzing/judge.py` says what is right. A case of "arrays" is a fit in Python to
arrays of other types (`scripts/fuzzing/arrays.py`). A case depends on the seed and its number
alone. Files of the cases that went wrong are kept; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzzing import arrays, cases, strangers, world
from fuzzing.judge import complaints, snapshot
from fuzzing.running import run

MAKERS = {"tables": cases.make, "models": strangers.make}
KINDS = (*MAKERS, "arrays")


def fuzz(
    n_cases: int, seed: int, kept: Path, only: int | None = None, kind: str = "tables"
) -> tuple[Counter, list[str]]:
    """Run cases; how many ended with each exit code, and a line for each that went wrong."""
    codes: Counter = Counter()
    wrong: list[str] = []
    numbers = range(n_cases) if only is None else [only]
    os.environ["COLUMNS"] = "120"
    with tempfile.TemporaryDirectory(prefix="nodegp-fuzz-") as scratch:
        start = Path(scratch) / "start"
        start.mkdir()
        worlds = world.build(start, run) if kind in MAKERS else []
        started = time.perf_counter()
        for done, number in enumerate(numbers, 1):
            # Not in `scratch`: what crashes the process is to be found afterwards.
            folder = kept / f"seed{seed}-case{number}"
            if kind == "arrays":
                code, found = _fit(f"{seed} {number}", folder)
            else:
                code, found = _one(MAKERS[kind](worlds, random.Random(f"{seed} {number}")), folder)
            codes[code] += 1
            if found:
                wrong.append(f"{folder}: {'; '.join(found)}")
                print(f"case {number}: {'; '.join(found)}", flush=True)
            else:
                shutil.rmtree(folder)
            if done % 100 == 0:
                seconds = time.perf_counter() - started
                print(f"{done} cases, {len(wrong)} wrong, {seconds:.0f} s", flush=True)
    return codes, wrong


def _one(case: cases.Case, folder: Path) -> tuple[int, list[str]]:
    shutil.rmtree(folder, ignore_errors=True)
    files = folder / "files"
    files.mkdir(parents=True)
    case.write(files)
    line = f"nodegp {shlex.join(case.arguments)}\n# {', '.join(case.damages) or 'no damage'}\n"
    (folder / "command.txt").write_text(line, "utf-8", "backslashreplace")
    before = snapshot(files)
    outcome = run(case.arguments, files)
    found = complaints(case, outcome, before, files)
    if found:
        for name, text in (("stdout.txt", outcome.stdout), ("stderr.txt", outcome.stderr)):
            (folder / name).write_text(text, "utf-8", "backslashreplace")
        (folder / "wrong.txt").write_text("\n".join(found), "utf-8", "backslashreplace")
    return outcome.code, found


def _fit(seed: str, folder: Path) -> tuple[int, list[str]]:
    folder.mkdir(parents=True, exist_ok=True)
    end, found, what = arrays.complaints(seed)
    (folder / "wrong.txt").write_text("\n".join([what, *found]), "utf-8", "backslashreplace")
    return int(end == "refused"), found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, default="tables", help="what is damaged")
    parser.add_argument("--only", type=int, help="the number of one case to run again")
    parser.add_argument("--keep", type=Path, help="folder for cases that went wrong")
    options = parser.parse_args()
    faulthandler.enable()
    kept = (options.keep or Path(tempfile.mkdtemp(prefix="nodegp-fuzz-kept-"))).absolute()
    codes, wrong = fuzz(options.cases, options.seed, kept, options.only, options.kind)
    ends = ", ".join(f"{count} with exit code {code}" for code, count in sorted(codes.items()))
    print(f"{codes.total()} cases: {ends}; {len(wrong)} wrong")
    if wrong:
        print(f"the files are in {kept}")
    elif options.keep is None:
        kept.rmdir()
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
