"""Data sets: Cora comes with the package, Citeseer and Pubmed are fetched or read from a folder of
yours, other files and PyTorch Geometric objects are read, and synthetic graphs drawn to any size.
"""

from __future__ import annotations

import os

from nodegp.datasets.base import Dataset
from nodegp.datasets.cora import load_cora
from nodegp.datasets.fetch import fetch_planetoid
from nodegp.datasets.planetoid import DATA_DIR_VARIABLE, PLANETOID_NAMES, load_planetoid
from nodegp.datasets.pyg import from_pyg
from nodegp.datasets.readers import read_graph
from nodegp.datasets.synthetic import hub_graph, synthetic

__all__ = [
    "DATASET_NAMES",
    "Dataset",
    "dataset_name",
    "from_pyg",
    "hub_graph",
    "load_cora",
    "load_dataset",
    "load_planetoid",
    "read_graph",
    "synthetic",
]

DATASET_NAMES = PLANETOID_NAMES


def load_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name: "cora", "citeseer" or "pubmed".

    Cora is bundled. The others are read from the Planetoid files in ``data_dir``; without it, in
    the folder that the environment variable NODEGP_DATA names; without that, in the cache folder,
    into which they are fetched first if they are not there. With ``data_dir`` given, Cora too is
    read from the Planetoid files: the same data, without the papers' ids.
    """
    key = dataset_name(name)
    if key == "cora" and data_dir is None:
        return load_cora()
    if data_dir is None and not os.environ.get(DATA_DIR_VARIABLE):
        data_dir = fetch_planetoid([key])
    return load_planetoid(key, data_dir)


def dataset_name(name: str) -> str:
    """The name as we spell it, or an error that lists the names there are."""
    key = name.lower() if isinstance(name, str) else name
    if key not in DATASET_NAMES:
        raise ValueError(
            f"There is no data set named {name!r}; choose one of {', '.join(DATASET_NAMES)}."
        )
    return key
