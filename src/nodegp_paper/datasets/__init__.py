"""Published graphs: Citeseer and Pubmed, fetched or read from a folder of yours, and nine more that
are read from one; readers of the formats that others publish graphs in, PyTorch Geometric's objects
among them; synthetic ones of any size; and random splits.

``LOADERS`` is what :func:`nodegp.load_dataset` finds by its entry point. A user's own graph needs
none of these readers: GraphML goes through networkx (``Graph.from_networkx``), a matrix through
scipy (``Graph(scipy.sparse.load_npz(path))``), tables through :mod:`nodegp.io`.
"""

from __future__ import annotations

import os
from functools import partial

from nodegp.datasets import Dataset
from nodegp_paper.datasets.fetch import fetch_planetoid
from nodegp_paper.datasets.planetoid import DATA_DIR_VARIABLE, PLANETOID_NAMES, load_planetoid
from nodegp_paper.datasets.pyg import from_pyg
from nodegp_paper.datasets.readers import read_graph
from nodegp_paper.datasets.splits import (
    capped_split,
    labels_per_class,
    random_split,
    without_small_classes,
)
from nodegp_paper.datasets.synthetic import hub_graph, synthetic
from nodegp_paper.datasets.zoo import ZOO_NAMES, load_zoo

__all__ = [
    "LOADERS",
    "ZOO_NAMES",
    "capped_split",
    "from_pyg",
    "hub_graph",
    "labels_per_class",
    "load_planetoid",
    "load_zoo",
    "random_split",
    "read_graph",
    "synthetic",
    "without_small_classes",
]


def _load(name: str, data_dir: str | os.PathLike[str] | None) -> Dataset:
    """From the folder, or the one that NODEGP_DATA names, or the cache after fetching."""
    if data_dir is None and not os.environ.get(DATA_DIR_VARIABLE):
        data_dir = fetch_planetoid([name])
    return load_planetoid(name, data_dir)


LOADERS = {name: partial(_load, name) for name in PLANETOID_NAMES}
LOADERS |= {name: partial(load_zoo, name) for name in ZOO_NAMES}
