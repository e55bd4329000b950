"""Graphs with labels from files in formats that others use, one format to a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nodegp.datasets import Dataset
from nodegp_paper.datasets.planetoid import PLANETOID_NAMES, load_planetoid
from nodegp_paper.datasets.readers.graphml import read_graphml
from nodegp_paper.datasets.readers.linqs import read_linqs
from nodegp_paper.datasets.readers.npz import read_npz

__all__ = ["read_graph"]

FORMATS = (
    "GraphML (.graphml, .graphml.gz), scipy or gnn-benchmark archives (.npz), LINQS files "
    "(.content beside .cites), or a folder with LINQS or Planetoid files"
)


def read_graph(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    features: str | Sequence[str] | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a graph, its features and labels; the path's ending says the format.

    Parameters
    ----------
    path : file or folder
        GraphML (``.graphml``, ``.graphml.gz``), ``.npz`` of scipy (an adjacency matrix) or
        gnn-benchmark, LINQS ``.content`` or ``.cites`` (each with the other beside it), or a
        folder with LINQS or Planetoid files.
    label : str, optional
        GraphML: the node attribute that holds the class; without it no node has a label.
    features : optional
        GraphML: the names of node attributes that are numbers, see ``Graph.from_networkx``.
    name : str, optional
        Which data set of a Planetoid folder, if it has several.

    Notes
    -----
    Only Planetoid files come with splits; elsewhere draw some with
    ``random_split(data, ..., exclude=None)``. Nothing in a file is ever executed or unpickled, but
    for Planetoid's own files after their SHA-256 was checked.
    """
    path = Path(path)
    kind = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    is_graphml = kind.lower() in (".graphml", ".graphml.gz")
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {str(path)!r}.")
    if (label is not None or features is not None) and not is_graphml:
        raise ValueError("label and features name node attributes of GraphML; leave them out here.")
    if name is not None and not path.is_dir():
        raise ValueError("name chooses a data set in a Planetoid folder; leave it out here.")
    if path.is_dir():
        return _from_folder(path, name)
    if is_graphml:
        return read_graphml(path, label, features)
    if kind.lower() == ".npz":
        return read_npz(path)
    if kind in (".content", ".cites"):
        return read_linqs(path)
    raise ValueError(f"The ending of {str(path)!r} says no format; readable are {FORMATS}.")


def _from_folder(folder: Path, name: str | None) -> Dataset:
    planetoid = [key for key in PLANETOID_NAMES if (folder / f"ind.{key}.graph").exists()]
    if name is not None:
        return load_planetoid(name, folder)
    names = [*planetoid, *sorted(path.name for path in folder.glob("*.content"))]
    if len(names) == 1:
        return load_planetoid(names[0], folder) if planetoid else read_linqs(folder / names[0])
    if names:
        raise ValueError(
            f"The folder {str(folder)!r} has several data sets: {', '.join(names)}. Say which: "
            "name= for Planetoid files, the path of its .content file for LINQS."
        )
    raise ValueError(
        f"The folder {str(folder)!r} has no data set in it, neither ind.<name>.graph and its "
        "seven companions (Planetoid) nor a .content file (LINQS)."
    )
