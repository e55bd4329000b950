"""Published graphs: Citeseer and Pubmed, fetched or read from a folder of yours, and readers of
the formats that others publish graphs in, PyTorch Geometric's objects among them; synthetic ones of
any size; and random splits.

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
from nodegp_paper.datasets.splits import random_split
from nodegp_paper.datasets.synthetic import hub_graph, synthetic

__all__ = [
    "LOADERS",
    "from_pyg",
    "hub_graph",
    "load_planetoid",
    "random_split",
    "read_graph",
    "synthetic",
]


def _load(name: str, data_dir: str | os.PathLike[str] | None) -> Dataset:
    """From the folder, or the one that NODEGP_DATA names, or the cache after fetching."""
    if data_dir is None and not os.environ.get(DATA_DIR_VARIABLE):
        data_dir = fetch_planetoid([name])
    return load_planetoid(name, data_dir)


LOADERS = {name: partial(_load, name) for name in PLANETOID_NAMES}
