"""Data sets: Cora comes with the package, the Planetoid files are read from a folder of yours,
and synthetic graphs are drawn to any size.
"""

from __future__ import annotations

import os

from nodegp.datasets.base import Dataset
from nodegp.datasets.cora import load_cora
from nodegp.datasets.planetoid import PLANETOID_NAMES, load_planetoid
from nodegp.datasets.synthetic import hub_graph, synthetic

__all__ = [
    "DATASET_NAMES",
    "Dataset",
    "hub_graph",
    "load_cora",
    "load_dataset",
    "load_planetoid",
    "synthetic",
]

DATASET_NAMES = PLANETOID_NAMES


def load_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name: "cora", "citeseer" or "pubmed".

    Cora is bundled. The others are read from the Planetoid files in ``data_dir`` or, without it,
    in the folder that the environment variable NODEGP_DATA names. With ``data_dir`` given, Cora
    too is read from the Planetoid files: the same data, without the papers' ids.
    """
    key = name.lower() if isinstance(name, str) else name
    if key not in DATASET_NAMES:
        raise ValueError(
            f"There is no data set named {name!r}; choose one of {', '.join(DATASET_NAMES)}."
        )
    if key == "cora" and data_dir is None:
        return load_cora()
    return load_planetoid(key, data_dir)
