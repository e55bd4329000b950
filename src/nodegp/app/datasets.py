"""Which data sets there are, where they come from, and whether they are whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nodegp.app.progress import SILENT, Progress
from nodegp.app.results import Result
from nodegp.datasets import dataset_name, load_dataset
from nodegp.datasets.fetch import cache_folder, faults, fetch_planetoid
from nodegp.datasets.planetoid import DATA_DIR_VARIABLE, file_names

__all__ = ["FACTS", "DatasetState", "check", "fetch", "listing", "place"]

# Nodes, edges, classes, features: known without reading the data, and what `check` compares with.
FACTS = {
    "cora": (2708, 5278, 7, 1433),
    "citeseer": (3327, 4552, 6, 3703),
    "pubmed": (19717, 44324, 3, 500),
}
_BUNDLED = "cora"


@dataclass(frozen=True)
class DatasetState(Result):
    """Whether all is well with a data set, and a sentence on it."""

    name: str
    ok: bool
    text: str


def place(data_dir: Path | None = None) -> tuple[Path, str]:
    """Where the Planetoid files are read from, as load_dataset has it, and what to call that."""
    if data_dir is not None:
        return data_dir, "folder"
    if folder := os.environ.get(DATA_DIR_VARIABLE):
        return Path(folder), f"folder, from {DATA_DIR_VARIABLE}"
    return cache_folder(), "cache folder"


def listing() -> list[dict[str, str | int]]:
    """The data sets, their sizes, and where each would come from right now."""
    heads = ("name", "nodes", "edges", "classes", "features", "comes from")
    rows = [(name, *facts, _comes_from(name)) for name, facts in FACTS.items()]
    return [dict(zip(heads, row, strict=True)) for row in rows]


def fetch(
    names: list[str] | None = None, data_dir: Path | None = None, progress: Progress = SILENT
) -> list[DatasetState]:
    """Store the data sets that are not there yet, by default all of them in the cache folder."""
    chosen = _chosen(names)
    folder = data_dir if data_dir is not None else cache_folder()
    lacking = [name for name in chosen if name != _BUNDLED and faults(name, folder)]
    fetch_planetoid(lacking, folder)
    read_from, kind = place(data_dir)
    if read_from != folder and chosen != [_BUNDLED]:
        progress.note(
            f"data sets are read from {read_from} ({kind}), not from the cache "
            "folder; unset the variable to use what was fetched."
        )
    texts = dict.fromkeys(chosen, f"already in {folder}")
    texts |= dict.fromkeys(lacking, f"fetched into {folder}")
    texts |= {_BUNDLED: "comes with the package, nothing to fetch"}
    return [DatasetState(name, True, texts[name]) for name in chosen]


def check(names: list[str] | None = None, data_dir: Path | None = None) -> Iterator[DatasetState]:
    """Verify the files that are there and read each data set; one that is not there at all is
    wrong only if it was named."""
    for name in _chosen(names):
        yield DatasetState(name, *_checked(name, data_dir, must_be_there=bool(names)))


def _chosen(names: list[str] | None) -> list[str]:
    return list(dict.fromkeys(map(dataset_name, names))) if names else list(FACTS)


def _comes_from(name: str) -> str:
    if name == _BUNDLED:
        return "bundled"
    folder, kind = place()
    wrong = sorted(set(faults(name, folder).values()))
    if kind == "cache folder":
        return "to be fetched" if wrong else "cache"
    return f"folder (files {' and '.join(wrong)})" if wrong else "folder"


def _checked(name: str, data_dir: Path | None, must_be_there: bool) -> tuple[bool, str]:
    where = "bundled"
    if name != _BUNDLED or data_dir is not None:
        folder, _ = place(data_dir)
        where = str(folder)
        wrong = faults(name, folder)
        if list(wrong.values()) == ["missing"] * len(file_names(name)):
            return not must_be_there, f"not there, see `nodegp data get --help` ({where})"
        if wrong:
            files = ", ".join(f"{file} is {fault}" for file, fault in wrong.items())
            return False, f"wrong: {files} ({where})"
    try:
        data = load_dataset(name, data_dir)
    except Exception as error:  # whatever it is, it is what we are here to find
        return False, f"wrong: {error} ({where})"
    graph = data.graph
    facts = (graph.n_nodes, graph.n_edges, data.n_classes, graph.n_features)
    counts = "{:,} nodes, {:,} edges, {:,} classes, {:,} features".format(*facts)
    ok = facts == FACTS[name]
    return ok, f"{'ok,' if ok else 'wrong: it has'} {counts} ({where})"
