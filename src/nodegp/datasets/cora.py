"""The bundled Cora: LINQS papers in the Planetoid order, with the Planetoid split.

``cora.npz`` holds plain arrays only and is read without pickle; ``cora.md`` says where it comes
from, ``scripts/build_cora.py`` builds it.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import scipy.sparse as sp

from nodegp.datasets.base import Dataset
from nodegp.graph import Graph

__all__ = ["load_cora"]


def load_cora() -> Dataset:
    """2,708 machine-learning papers, 5,278 citation links, 1,433 words, 7 topics.

    The graph's ids are the LINQS paper ids.
    """
    bundled = files("nodegp.datasets").joinpath("cora.npz")
    with bundled.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}

    indices = arrays["word_indices"].astype(np.int32)
    n_nodes = len(arrays["labels"])
    features = sp.csr_array(
        (np.ones(len(indices)), indices, arrays["word_indptr"]),
        shape=(n_nodes, int(arrays["n_words"])),
    )
    i, j = arrays["edges"].astype(np.int64).T  # each edge once, i < j
    adjacency = sp.coo_array((np.ones(len(i)), (i, j)), shape=(n_nodes, n_nodes))
    return Dataset(
        name="cora",
        graph=Graph(adjacency, features=features, ids=arrays["paper_ids"].astype(np.int64)),
        y=arrays["labels"].astype(np.int64),
        splits={name: arrays[name].astype(np.int64) for name in ("train", "val", "test")},
        class_names=tuple(str(name) for name in arrays["class_names"]),
    )
