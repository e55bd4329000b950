"""What is right after a command on damaged input, and the complaints where something is not.

Exit code 0 is right if the result is that of a plain reading of the same files; 1 with one or
two sentences; 2 with how the command is used. No traceback, no warning of a library, and no
file that is half written or left over.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

from fuzzing.cases import Case
from fuzzing.plain import column_of, rows_of
from fuzzing.running import TIME_LIMIT, Outcome

MEMORY_LIMIT = 2 << 30
_WRITES = ("-o", "--out", "--report")  # the options that name a file to be written
_BOOLEANS = {"true": "1", "false": "0"}
_LONGEST = 900  # characters of a message, of which file names may be a third


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything in a folder: content of files, kind of everything else."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        whole = stat.S_ISREG(mode)
        found[str(path.relative_to(folder))] = path.read_bytes() if whole else stat.S_IFMT(mode)
    return found


def complaints(case: Case, outcome: Outcome, before: dict[str, Any], folder: Path) -> list[str]:
    """All that is wrong with what a command did."""
    found = [*_process(outcome), *_messages(case, outcome), *_files(case, outcome, before, folder)]
    if outcome.code == 0 and not found:
        if not case.whole and "model.nodegp" in case.arguments:
            found.append("a model file that had been changed was taken for whole")
        try:
            found += _result(case, outcome, folder)
        except Exception as error:
            found.append(f"the result cannot be read: {error!r}")
    return found


def _process(outcome: Outcome) -> list[str]:
    found = []
    if outcome.error is not None:
        found.append(f"an exception got through: {outcome.error!r}")
    elif outcome.code not in (0, 1, 2):
        found.append(f"exit code {outcome.code}")
    if outcome.seconds > TIME_LIMIT:
        found.append(f"took {outcome.seconds:.0f} s")
    if outcome.memory > MEMORY_LIMIT:
        found.append(f"took {outcome.memory / 2**30:.1f} GiB of memory")
    # The command line shows one warning of ours as a remark: that an encoding was guessed.
    others = [text for text in outcome.warnings if "is not UTF-8 text; it is read as" not in text]
    return found + [f"warning: {text[:200]}" for text in others]


def _messages(case: Case, outcome: Outcome) -> list[str]:
    text = outcome.stderr
    lines = text.strip("\n").split("\n") if text.strip() else []
    found = ["a traceback"] if "Traceback" in text else []
    if outcome.code == 2 and "─ Error ─" not in text:
        found.append(f"exit code 2 without the reason: {text[:200]!r}")
    if outcome.code == 0 and not all(line.startswith("nodegp: ") for line in lines):
        found.append(f"odd text on standard error: {text[:300]!r}")
    if outcome.code == 1:
        if not lines or not all(line.startswith("nodegp: ") for line in lines):
            found.append(f"not a message of ours: {text[:300]!r}")
        message = lines[-1] if lines else ""
        if len(lines) > 3 or len(text) > _LONGEST:
            found.append(f"a message of {len(lines)} lines, {len(text)} characters: {text[:300]!r}")
        if not _says_where(message, case):
            found.append(f"a message that does not say where: {message[:300]!r}")
        if re.search(r"Errno|Error\(|0x[0-9a-f]{6}|<class|object at|dtype\(|ufunc", message):
            found.append(f"a message of a library, not ours: {message[:300]!r}")
    return found


def _says_where(message: str, case: Case) -> bool:
    """A file, a column, an option, or one of the words that were given."""
    text = message.removeprefix("nodegp: ")
    given = [f for a in case.arguments[1:] for f in (a, a.strip(), repr(a)[1:-1], *Path(a).parts)]
    given += [f for a in case.arguments[1:] for f in (str(Path(a)), " ".join(a.splitlines()))]
    words = [word for word in [*case.files, *given] if word]
    things = r"column|--\w|\b(this model|labels|likelihood|filter|recipe|strategy|knn|seed)\b"
    return any(word in text for word in words) or re.search(things, text) is not None


def outputs(arguments: list[str]) -> set[str]:
    """The files that a command may write."""
    named = {value for option, value in pairwise(arguments) if option in _WRITES}
    # `update` writes over its model if it is not told another place.
    return named or ({a for a in arguments[1:2] if arguments[0] == "update"})


def _files(case: Case, outcome: Outcome, before: dict[str, Any], folder: Path) -> list[str]:
    after = snapshot(folder)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    if outcome.code == 0:
        allowed = {str(Path(name)) for name in outputs(case.arguments)}
        changed -= allowed
    return [f"changed or left over: {sorted(changed)}"] if changed else []


# --- results --------------------------------------------------------------------------------------


def _result(case: Case, outcome: Outcome, folder: Path) -> list[str]:
    arguments = case.arguments
    if _as_json(arguments):
        json.loads(outcome.stdout, parse_constant=_refuse)
    if arguments[0] == "fit":
        return _fitted(arguments, folder)
    if arguments[0] == "predict":
        return _predicted(arguments, outcome, folder)
    if arguments[0] == "query":
        return _asked(arguments, outcome, folder)
    if arguments[0] == "update":
        return _updated(case, folder)
    return []


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} in JSON")


def _option(arguments: list[str], *names: str) -> str | None:
    places = [i for i, a in enumerate(arguments[:-1]) if a in names]
    return arguments[places[-1] + 1] if places else None


def _as_json(arguments: list[str]) -> bool:
    """Whether the option is there, and not as the name of a file."""
    return any(a == "--json" and arguments[i] not in _WRITES for i, a in enumerate(arguments[1:]))


def _fitted(arguments: list[str], folder: Path) -> list[str]:
    """The model's ids and labels are those of the tables."""
    import nodegp

    out, nodes = _option(arguments, "-o", "--out"), _option(arguments, "--nodes")
    assert out is not None
    assert nodes is not None
    model = nodegp.load(folder / out)
    ids = column_of(folder / nodes, _option(arguments, "--id") or "1")
    found = (
        [] if [str(i) for i in model.graph_.ids.tolist()] == ids else ["ids are not the table's"]
    )
    label = _option(arguments, "--label")
    if _option(arguments, "--labels") is None and label is not None:
        given = column_of(folder / nodes, label)
        labels = {str(ids[i]): given[i] for i in range(len(given)) if given[i]}
        kept = dict(zip((ids[i] for i in model.labelled_), map(str, model.labels_), strict=True))
        found += [] if labels == kept else ["labels are not the table's"]
    edges = _option(arguments, "--edges")
    if edges is not None and "--ignore-unknown" not in arguments and not found:
        found += _linked(model.graph_, ids, arguments, folder / edges)
    return found


def _linked(graph: Any, ids: list[str], arguments: list[str], path: Path) -> list[str]:
    ends = [column_of(path, _option(arguments, f"--{end}") or place, set(ids))
            for end, place in (("source", "1"), ("target", "2"))]  # fmt: skip
    weight = _option(arguments, "--weight")
    weights = [1.0] * len(ends[0])
    if weight is not None:
        weights = [_BOOLEANS.get(v.lower(), v) for v in column_of(path, weight)]
    expected = {
        frozenset(pair)
        for *pair, w in zip(*ends, weights, strict=True)
        if pair[0] != pair[1] and float(w)
    }
    matrix = graph.adjacency.tocoo()
    names = graph.ids.astype(str)
    found = {frozenset(pair) for pair in zip(names[matrix.row], names[matrix.col], strict=True)}
    return [] if found == expected else ["edges are not the table's"]


def _predicted(arguments: list[str], outcome: Outcome, folder: Path) -> list[str]:
    """A row for each node that was asked about, with probabilities that are some."""
    import nodegp

    out, nodes = _option(arguments, "-o", "--out"), _option(arguments, "--nodes")
    if out is not None:
        rows = rows_of(folder / out)
    elif _as_json(arguments):
        rows = json.loads(outcome.stdout)
    else:
        rows = list(csv.DictReader(io.StringIO(outcome.stdout, newline="")))
    graph = nodegp.load(folder / arguments[1]).graph_
    if nodes is not None:
        ids = column_of(folder / nodes, _option(arguments, "--id") or "1")
    else:
        ids = [str(i) for i in (range(graph.n_nodes) if graph.ids is None else graph.ids)]
    found = (
        []
        if [str(next(iter(row.values()))) for row in rows] == ids
        else ["ids are not those asked about"]
    )
    for row in rows:
        proba = [float(v) for k, v in row.items() if k.startswith("p(") or k.startswith("p_")]
        if not all(math.isfinite(p) and -1e-12 <= p <= 1 + 1e-12 for p in proba):
            found.append(f"no probabilities: {row}"[:200])
        elif (
            not proba
            or abs(sum(proba) - 1) > 1e-6
            or abs(max(proba) - float(row["probability"])) > 1e-6
        ):
            found.append(f"probabilities that do not add up: {row}"[:200])
    return found[:3]


def _asked(arguments: list[str], outcome: Outcome, folder: Path) -> list[str]:
    """Different nodes of the graph, as many as were asked for unless there are fewer."""
    import nodegp

    out, nodes = _option(arguments, "-o", "--out"), _option(arguments, "--nodes")
    if _as_json(arguments):
        rows = json.loads(outcome.stdout)["ask"]
    elif out is not None:
        rows = rows_of(folder / out)
    else:
        return []
    asked = [str(next(iter(row.values()))) for row in rows]
    if nodes is not None:
        ids = column_of(folder / nodes, _option(arguments, "--id") or "1")
    else:
        model = nodegp.load(folder / arguments[1])
        names = range(model.graph_.n_nodes) if model.graph_.ids is None else model.graph_.ids
        ids = [str(name) for i, name in enumerate(names) if i not in set(model.labelled_.tolist())]
    count = min(int(_option(arguments, "-n") or len(asked)), len(ids))
    good = len(set(asked)) == len(asked) == count and set(asked) <= set(ids)
    return [] if good else [f"asked about {asked[:9]}"]


def _updated(case: Case, folder: Path) -> list[str]:
    """The labels there were, and over them those of the table."""
    import nodegp

    out, labels = _option(case.arguments, "-o", "--out"), _option(case.arguments, "--labels")
    assert labels is not None
    (folder / "old.nodegp").write_bytes(case.files[case.arguments[1]])
    old, new = nodegp.load(folder / "old.nodegp"), nodegp.load(folder / (out or case.arguments[1]))
    columns = [
        column_of(folder / labels, name, default=n) for n, name in enumerate(("paper", "topic"))
    ]
    expected = _labels(old) | {i: label for i, label in zip(*columns, strict=True) if label}
    return [] if _labels(new) == expected else ["labels are not those given"]


def _labels(model: Any) -> dict[str, str]:
    names = model.graph_.ids if model.graph_.ids is not None else range(model.graph_.n_nodes)
    return {
        str(names[i]): str(label)
        for i, label in zip(model.labelled_.tolist(), model.labels_.tolist(), strict=True)
    }
