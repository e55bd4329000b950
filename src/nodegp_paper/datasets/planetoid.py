"""Cora, Citeseer and Pubmed from the Planetoid files (Yang, Cohen and Salakhutdinov, 2016).

The files are Python 2 pickles. They are read by an unpickler that knows only the six names such a
file needs, and only after their SHA-256 has been compared with the published files', so nothing in
them is ever executed. Getting the files is the part of ``fetch.py``, or the user's.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodegp.datasets import Dataset
from nodegp.graph import Graph

__all__ = [
    "DATA_DIR_VARIABLE",
    "PLANETOID_NAMES",
    "PlanetoidFileChanged",
    "PlanetoidFilesMissing",
    "UnsafePickle",
    "file_names",
    "is_published",
    "load_planetoid",
    "unpickle",
]

DATA_DIR_VARIABLE = "NODEGP_DATA"
N_VALIDATION = 500  # the nodes right after the training nodes, by convention

# The names are not in the files. Cora's follow from the LINQS papers behind its rows. Citeseer's
# follow from the class sizes: the LINQS data has 249 AI, 590 ML, 668 IR, 701 DB, 596 Agents and
# 508 HCI papers, and the files 249, 590, 668, 701, 596 and 508. (The order in which the classes are
# usually listed is another one.) For Pubmed, published orders of the two large classes contradict
# each other, so its classes stay numbered.
CLASS_NAMES = {
    "cora": (
        "Theory",
        "Reinforcement Learning",
        "Genetic Algorithms",
        "Neural Networks",
        "Probabilistic Methods",
        "Case Based",
        "Rule Learning",
    ),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("class 0", "class 1", "class 2"),
}
PLANETOID_NAMES = tuple(CLASS_NAMES)
PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")

SHA256 = {
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
}

_ALLOWED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],  # its home moved
    ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
}


class PlanetoidFilesMissing(FileNotFoundError):
    """The Planetoid files are not where we looked."""


class PlanetoidFileChanged(ValueError):
    """A Planetoid file is not the published one."""


class UnsafePickle(pickle.UnpicklingError):
    """A pickle asks for something that a Planetoid file has no need of."""


def load_planetoid(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Read "cora", "citeseer" or "pubmed" from ``data_dir`` or the folder NODEGP_DATA names."""
    if name not in PLANETOID_NAMES:
        raise ValueError(
            f"There is no Planetoid data set named {name!r}; "
            f"choose one of {', '.join(PLANETOID_NAMES)}."
        )
    folder = _folder(name, data_dir)
    raw = {part: _read(folder / f"ind.{name}.{part}") for part in PARTS}
    test = np.array(raw.pop("test.index").split(), dtype=np.int64)
    loaded = {part: unpickle(content, f"ind.{name}.{part}") for part, content in raw.items()}

    # Row k of tx and ty is node test[k]. Citeseer's test range has 15 nodes without a row: they
    # keep empty features and the label -1.
    n_known = loaded["allx"].shape[0]
    n_nodes = max(n_known, int(test.max()) + 1)
    node_of_row = np.concatenate([np.arange(n_known), test])
    y = np.full(n_nodes, -1, dtype=np.int64)
    y[node_of_row] = _class_positions(np.vstack([loaded["ally"], loaded["ty"]]))
    n_train = loaded["y"].shape[0]
    return Dataset(
        name=name,
        graph=Graph(
            _adjacency(loaded["graph"], n_nodes),
            features=_features(loaded["allx"], loaded["tx"], node_of_row, n_nodes),
        ),
        y=y,
        splits={
            "train": np.arange(n_train),
            "val": np.arange(n_train, n_train + N_VALIDATION),
            "test": np.sort(test),
        },
        class_names=CLASS_NAMES[name],
    )


def file_names(name: str) -> tuple[str, ...]:
    """The eight files of a data set."""
    return tuple(f"ind.{name}.{part}" for part in PARTS)


def is_published(file_name: str, content: bytes) -> bool:
    """Whether these are the bytes of the published file."""
    return hashlib.sha256(content).hexdigest() == SHA256[file_name]


def unpickle(content: bytes, file_name: str = "the file") -> Any:
    """Load a pickle that holds numpy arrays, a CSR matrix or a dict of lists, and nothing else."""
    return _PlanetoidUnpickler(content, file_name).load()


class _PlanetoidUnpickler(pickle.Unpickler):
    def __init__(self, content: bytes, file_name: str) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")  # Python 2 strings hold bytes
        self._file_name = file_name

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise UnsafePickle(
                f"{self._file_name} asks for {module}.{name}, which no Planetoid file needs; "
                "it was not loaded. Get the file anew from a source you trust."
            ) from None


def _folder(name: str, data_dir: str | os.PathLike[str] | None) -> Path:
    """The folder that holds all eight files, or an error that says how to get them."""
    how = (
        f"Put the eight files ind.{name}.x, .y, .tx, .ty, .allx, .ally, .graph and .test.index "
        f"into a folder and pass it as data_dir, or set the environment variable "
        f"{DATA_DIR_VARIABLE} to it. The GitHub repositories kimiyoung/planetoid and tkipf/gcn "
        "have them, in their folders data and gcn/data."
    )
    if name != "cora":  # which is bundled, so load_dataset never has to fetch it
        how += f" Without data_dir and {DATA_DIR_VARIABLE}, load_dataset({name!r}) fetches them."
    place = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE)
    if not place:
        raise PlanetoidFilesMissing(
            f"Neither data_dir nor {DATA_DIR_VARIABLE} says where the files of {name!r} are. {how}"
        )
    folder = Path(place)
    missing = [file for file in file_names(name) if not (folder / file).is_file()]
    if missing:
        named_by = "" if data_dir is not None else f", which {DATA_DIR_VARIABLE} names,"
        raise PlanetoidFilesMissing(
            f"The folder {str(folder)!r}{named_by} lacks {', '.join(missing)}. {how}"
        )
    return folder


def _read(path: Path) -> bytes:
    """The file's bytes, once they are known to be the published ones."""
    content = path.read_bytes()
    if not is_published(path.name, content):
        raise PlanetoidFileChanged(
            f"{str(path)!r} is not the published file: its SHA-256 is "
            f"{hashlib.sha256(content).hexdigest()}, not {SHA256[path.name]}. It may be cut "
            "short or converted (line endings); get it anew from "
            "kimiyoung/planetoid or tkipf/gcn on GitHub."
        )
    return content


def _class_positions(one_hot: NDArray[Any]) -> NDArray[np.int64]:
    if not np.all((one_hot == 0) | (one_hot == 1)) or not np.all(one_hot.sum(axis=1) == 1):
        raise ValueError("The label rows are not one-hot: every row must hold a single 1.")
    return np.argmax(one_hot, axis=1).astype(np.int64)


def _features(
    allx: sp.csr_matrix, tx: sp.csr_matrix, node_of_row: NDArray[np.int64], n_nodes: int
) -> sp.csr_array:
    # Matrices restored from old pickles lack attributes that scipy has added since: rebuild them.
    parts = [sp.csr_array((m.data, m.indices, m.indptr), shape=m.shape) for m in (allx, tx)]
    rows = sp.vstack(parts).tocoo()
    features = sp.csr_array(
        (rows.data.astype(np.float64), (node_of_row[rows.row], rows.col)),
        shape=(n_nodes, rows.shape[1]),
    )
    features.eliminate_zeros()
    features.sort_indices()
    return features


def _adjacency(neighbours: dict[int, list[int]], n_nodes: int) -> sp.coo_array:
    """Every link as listed: in both directions, some twice, some to itself; Graph tidies up."""
    lengths = [len(listed) for listed in neighbours.values()]
    rows = np.repeat(np.fromiter(neighbours, dtype=np.int64, count=len(neighbours)), lengths)
    columns = np.fromiter(
        (j for listed in neighbours.values() for j in listed), dtype=np.int64, count=sum(lengths)
    )
    return sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n_nodes, n_nodes))
