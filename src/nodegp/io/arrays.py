"""Feature matrices in files of numpy (.npy, dense) and scipy (.npz, sparse), never unpickled."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodegp.budget import blocks, budget
from nodegp.declared import LARGEST

__all__ = ["bad_row", "in_range", "read_matrix"]

_SOURCES = {
    "npy": "an array saved by numpy.save",
    "npz": "a matrix saved by scipy.sparse.save_npz",
}


def read_matrix(path: str | Path, ending: str, n_rows: int) -> Any:
    """A matrix with one row per node: "npy" is dense, and mapped into memory rather than read;
    "npz" is sparse. Whatever a damaged file sets off becomes one sentence."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if ending == "npy":
                matrix = np.load(path, mmap_mode="r", allow_pickle=False)
            else:
                with path.open("rb") as file:  # scipy leaves one open that is no archive
                    matrix = sp.load_npz(file)
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)  # bad indices would crash later on
            kind = matrix.dtype.kind  # which an archive of several arrays does not have
    except Exception as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            message = f"{path} holds Python objects, which are never loaded; save numbers"
        else:
            message = f"{path} is not {_SOURCES[ending]}, or is damaged"
        raise ValueError(message) from None
    if kind not in "biuf":
        raise ValueError(f"{path} holds {matrix.dtype}; features are real numbers")
    if matrix.ndim != 2:
        raise ValueError(f"{path} has shape {matrix.shape}; features are a matrix, a row per node")
    if matrix.shape[0] != n_rows:
        raise ValueError(
            f"{path} has {matrix.shape[0]} rows but the nodes file has {n_rows}; "
            "its rows are the nodes in the order of that file"
        )
    if sp.issparse(matrix):
        matrix = sp.csr_array(matrix)
        matrix.sum_duplicates()
    row = bad_row(matrix)
    if row is not None:
        raise ValueError(f"{path} has a number in row {row} that is NaN, infinite or far too large")
    return matrix


def bad_row(matrix: Any, largest: float = LARGEST) -> int | None:
    """The first row, from 1, with a number that is NaN or beyond the largest."""
    if sp.issparse(matrix):
        is_good = in_range(matrix.data, largest)
        if is_good.all():
            return None
        return int(np.searchsorted(matrix.indptr, np.argmin(is_good), "right"))
    n_rows, width = matrix.shape
    for rows in blocks(n_rows, width, budget.block):
        is_good = np.all(in_range(matrix[rows], largest), axis=1)
        if not is_good.all():
            return rows.start + int(np.argmin(is_good)) + 1
    return None


def in_range(values: np.ndarray, largest: float = LARGEST) -> np.ndarray:
    """Which numbers are finite, and small enough (by default to be squared)."""
    limit = np.float64(largest)  # in which half precision is compared too
    return (values <= limit) & (values >= -limit)
