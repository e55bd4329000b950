"""Data sets: Cora comes with the library, and other packages add more by name (the entry points
``nodegp.datasets``, see :mod:`nodegp.plugins`).

To add one: a mapping from its name to a function that takes a folder or None and returns a
:class:`Dataset`, named in the package's entry points.
"""

from __future__ import annotations

import os

from nodegp import plugins
from nodegp.datasets.base import Dataset
from nodegp.datasets.cora import load_cora

__all__ = ["Dataset", "dataset_name", "load_cora", "load_dataset"]

BUNDLED = "cora"


def load_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a data set by name: "cora", "citeseer" or "pubmed", or one that a package adds.

    Cora is bundled. Citeseer and Pubmed are read from the Planetoid files in ``data_dir``; without
    it, in the folder that the environment variable NODEGP_DATA names; without that, in the cache
    folder, into which they are fetched first if they are not there. With ``data_dir`` given, Cora
    too is read from the Planetoid files: the same data, without the papers' ids.
    """
    key = dataset_name(name)
    if key == BUNDLED and data_dir is None:
        return load_cora()
    loaders = plugins.datasets()
    if key not in loaders:
        raise ValueError(
            f"{key!r} comes with the library and is read from no folder; leave out data_dir."
        )
    return loaders[key](data_dir)


def dataset_name(name: str) -> str:
    """The name as we spell it, or an error that lists the names there are."""
    key = name.lower() if isinstance(name, str) else name
    if key == BUNDLED:
        return key  # without a look at what other packages have
    names = dict.fromkeys([BUNDLED, *plugins.datasets()])
    if key not in names:
        raise ValueError(f"There is no data set named {name!r}; choose one of {', '.join(names)}.")
    return key
