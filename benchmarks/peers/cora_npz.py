"""Writes Cora as the plain ``.npz`` file which the peers read.

The peers run in environments of their own, without nodegp, so the data reaches them as arrays and
nothing else: raw binary features in CSR form, each undirected edge once, labels and public split.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse as sp


def write_npz(path: Path, features, adjacency, y, train, val, test) -> Path:
    """Saves one graph in the peers' format; `adjacency` is taken as undirected and unweighted."""
    x = sp.csr_matrix(features, dtype=np.float32)
    x.sort_indices()
    pairs = np.stack(sp.coo_matrix(adjacency).coords, axis=1).astype(np.int64)
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        x_data=x.data,
        x_indices=x.indices.astype(np.int64),
        x_indptr=x.indptr.astype(np.int64),
        x_shape=np.array(x.shape, dtype=np.int64),
        edges=np.unique(pairs, axis=0),  # (E, 2), i < j
        y=np.asarray(y, dtype=np.int64),
        train=np.asarray(train, dtype=np.int64),
        val=np.asarray(val, dtype=np.int64),
        test=np.asarray(test, dtype=np.int64),
    )
    return path


def write_dataset(path: Path, name: str = "cora") -> Path:
    """Saves a data set of nodegp's, with its public split, in the peers' format."""
    import nodegp

    data = nodegp.load_dataset(name)
    nodes = {part: _indices(data.splits[part]) for part in ("train", "val", "test")}
    return write_npz(path, data.graph.features, data.graph.adjacency, data.y, **nodes)


def _indices(nodes) -> np.ndarray:
    nodes = np.asarray(nodes)
    return np.flatnonzero(nodes) if nodes.dtype == bool else nodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--dataset", default="cora")
    arguments = parser.parse_args()
    print(write_dataset(arguments.path, arguments.dataset))
