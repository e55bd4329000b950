"""Nine more published graphs, to see whether a default holds on graphs that it was not made on.

Each is one ``.npz`` of plain arrays: ``edges`` (E, 2; each edge once), ``n_nodes``, ``labels`` and,
but for polblogs, a CSR matrix of features as ``features_data``, ``features_indices``,
``features_indptr`` and ``features_shape``; one single value in ``features_data`` stands for all.
They were made from the public repositories EdisonLeeeee/GraphData, benedekrozemberczki/MUSAE and
graphdml-uiuc-jlu/geom-gcn, and none of them has a public split. A file is read only once its
SHA-256 is known to be the one here; nothing fetches them.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nodegp.datasets import Dataset
from nodegp.graph import Graph
from nodegp_paper.datasets.planetoid import DATA_DIR_VARIABLE

__all__ = [
    "SHA256",
    "ZOO_NAMES",
    "ZooFileChanged",
    "ZooFileMissing",
    "is_known",
    "load_zoo",
    "zoo_file",
]

FOLDER = "zoo"
SHA256 = {
    "acm": "806670230e36b428f35930c2f1bd2e6ff4d200f83143d9cfa50792a4dc91f7a8",
    "amazon-photo": "e45cd75415411417b4223ba1f66ad817c63237dd39dd679448b2858204b21cd8",
    "blogcatalog": "34f833d22902953d8a64bdf45553811f66fb6660ce88bbf5df7c7f24afed3ee4",
    "chameleon": "ff9c23fe07e60203afa71deeb5135dbd3c7b7df619c647d19c27dd8b23916818",
    "citeseer-full": "b62f5bf92339ca05d2315003f293d1ab7bb4fc18e9b370bf5d50e6c47bf92a35",
    "cornell": "90f4a508df5c2c42684e808d0e133c0a0d4d48a0678b288c8a6f1109739e87d0",
    "dblp": "fbd84933c1939f3c2afca804c6a4ae0e40f6203b9ec18feb91e95f4f1610ab9f",
    "polblogs": "7caba5ada1cf3e25fab0f27aa449b9393b39dfd0099a4ba76dda037410d16699",
    "wisconsin": "0e3ddcf237e71194a16be39d22cbb1a0315bafbc4ed51ad6d6cac646a0c66603",
}
ZOO_NAMES = tuple(SHA256)


class ZooFileMissing(FileNotFoundError):
    """The file of a graph is not where we looked."""


class ZooFileChanged(ValueError):
    """The file of a graph is not the one that is known."""


def load_zoo(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Read one of :data:`ZOO_NAMES`; where from, :func:`zoo_file` says."""
    if name not in ZOO_NAMES:
        raise ValueError(f"There is no such graph as {name!r}; choose one of {_listed()}.")
    path = zoo_file(name, data_dir)
    content = path.read_bytes()
    if not is_known(name, content):
        raise ZooFileChanged(
            f"{str(path)!r} is not the file that is known as {name!r}, to judge by its SHA-256: it "
            "may be cut short or made anew, so put the known one there."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return _dataset(name, {key: stored[key] for key in stored.files})


def is_known(name: str, content: bytes) -> bool:
    """Whether these are the bytes of the file that is known."""
    return hashlib.sha256(content).hexdigest() == SHA256[name]


def zoo_file(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where the file of a graph is: in ``data_dir`` or else the folder that NODEGP_DATA names, in
    a folder "zoo" inside it, or in one beside it."""
    file = f"{name}.npz"
    place = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE)
    where = (
        f"put {file} into a folder, or a folder {FOLDER!r} in it or beside it, and pass that "
        f"folder as data_dir or set {DATA_DIR_VARIABLE} to it"
    )
    if not place:
        raise ZooFileMissing(
            f"The graph {name!r} neither comes with the package nor is fetched, and neither "
            f"data_dir nor {DATA_DIR_VARIABLE} says where it is: {where}."
        )
    folder = Path(os.path.abspath(place))  # as it is written: beside a link, not its target
    places = (folder, folder / FOLDER, folder.parent / FOLDER)
    for candidate in places:
        if (candidate / file).is_file():
            return candidate / file
    raise ZooFileMissing(
        f"The graph {name!r} is not to be had: there is no {file} in "
        f"{', '.join(repr(str(candidate)) for candidate in places)}, so {where}."
    )


def _dataset(name: str, arrays: dict[str, np.ndarray]) -> Dataset:
    n_nodes, labels = int(arrays["n_nodes"]), arrays["labels"].astype(np.int64)
    rows, columns = arrays["edges"].astype(np.int64).T
    adjacency = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n_nodes, n_nodes))
    classes, y = np.unique(labels, return_inverse=True)
    return Dataset(
        name=name,
        graph=Graph(sp.csr_array(adjacency + adjacency.T), features=_features(arrays)),
        y=y.astype(np.int64),
        splits={},
        class_names=tuple(f"class {value}" for value in classes),  # the files have numbers only
    )


def _features(arrays: dict[str, np.ndarray]) -> sp.csr_array | None:
    if "features_data" not in arrays:
        return None
    values, indices = arrays["features_data"].astype(np.float64), arrays["features_indices"]
    if len(values) == 1:
        values = np.repeat(values, len(indices))
    shape = tuple(int(length) for length in arrays["features_shape"])
    features = sp.csr_array((values, indices, arrays["features_indptr"]), shape=shape)
    features.eliminate_zeros()
    features.sort_indices()
    return features


def _listed() -> str:
    return ", ".join(ZOO_NAMES)
