"""Archives of numpy arrays: a scipy sparse matrix, or a data set in gnn-benchmark's layout.

That layout keeps the three arrays of a CSR matrix and its shape under ``adj_*`` and ``attr_*``
(or dense features as ``attr_matrix``), beside ``labels``, ``node_names`` and ``class_names``.
Some of these are pickled Python objects in some files. Nothing is unpickled: such names are left
out, and such data is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodegp.datasets import Dataset
from nodegp.graph import Graph

__all__ = ["read_npz"]

_DAMAGED = (ValueError, TypeError, IndexError, OverflowError, MemoryError)


def read_npz(path: Path) -> Dataset:
    """The adjacency matrix, and features, labels and names if the archive has them."""
    arrays = _arrays(path)
    try:
        if "format" in arrays:
            return _dataset(path, Graph(_checked(sp.load_npz(path))), None, None)
        adjacency = _matrix(arrays, "adj")
        features = arrays.get("attr_matrix")
        if "attr_data" in arrays:
            features = _matrix(arrays, "attr")
        ids = _names(arrays, "node_names", adjacency.shape[0])
        graph = Graph(adjacency, features, ids)
        if "labels_data" in arrays:
            raise ValueError("its labels are a matrix; one class per node is needed")
        return _dataset(path, graph, arrays.get("labels"), arrays.get("class_names"))
    except _DAMAGED as error:
        raise ValueError(f"{str(path)!r} cannot be read as a graph: {error}") from None


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """What the archive holds, but for Python objects."""
    arrays = {}
    with path.open("rb") as file:  # numpy would leave it open if it is no archive
        try:
            with np.load(file, allow_pickle=False) as stored:
                for key in stored.files:
                    try:
                        arrays[key] = stored[key]
                    except ValueError as error:
                        if "allow_pickle" not in str(error):
                            raise
        except Exception as error:  # of zip, zlib, numpy and more, each in words of its own
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ValueError(
                f"{str(path)!r} is no .npz archive, or is damaged or cut short ({reason})"
            ) from None
    return arrays


def _matrix(arrays: dict[str, NDArray[Any]], prefix: str) -> sp.csr_array:
    names = [f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape")]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(
            f"it lacks {', '.join(missing)} (or has Python objects there, which are never read)"
        )
    *parts, shape = (arrays[name] for name in names)
    return _checked(sp.csr_array(tuple(parts), shape=tuple(shape.tolist())))


def _checked(matrix: Any) -> Any:
    """Indices out of range would read memory that is not the matrix's."""
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


def _names(arrays: dict[str, NDArray[Any]], key: str, length: int) -> NDArray[Any] | None:
    names = arrays.get(key)
    is_usable = names is not None and names.dtype.kind in "iuU" and names.shape == (length,)
    return names if is_usable else None


def _dataset(
    path: Path, graph: Graph, labels: NDArray[Any] | None, class_names: NDArray[Any] | None
) -> Dataset:
    y = np.full(graph.n_nodes, -1) if labels is None else labels
    if y.shape != (graph.n_nodes,) or y.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be one whole number per node ({graph.n_nodes} nodes), got {y.dtype} of "
            f"shape {y.shape}"
        )
    top = int(y.max(initial=-1))
    if top >= max(graph.n_nodes, 1) or y.min(initial=0) < -1:
        raise ValueError(f"labels range from {y.min()} to {top}; they count classes from 0")
    names = tuple(str(c) for c in range(top + 1))
    if class_names is not None and class_names.dtype.kind == "U" and class_names.size > top:
        names = tuple(class_names.ravel().tolist())
    return Dataset(path.stem, graph, y.astype(np.int64), {}, names)
