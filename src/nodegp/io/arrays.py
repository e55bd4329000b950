"""Feature matrices in files of numpy (.npy, dense) and scipy (.npz, sparse), never unpickled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["in_range", "read_npy", "read_npz"]

_BLOCK = 1 << 22  # entries checked at a time
LARGEST = np.float64(1e150)  # the square of anything larger is infinite


def read_npy(path: str | Path, n_rows: int) -> np.ndarray:
    """A dense matrix, mapped into memory rather than read, with one row per node."""

    def load(path: Path) -> np.ndarray:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(matrix, np.ndarray):
            raise TypeError("an archive of arrays")
        return matrix

    matrix = _loaded(path, n_rows, load, "an array saved by numpy.save")
    step = max(_BLOCK // max(matrix.shape[1], 1), 1)
    for start in range(0, n_rows, step):
        is_good = in_range(matrix[start : start + step]).all(axis=1)
        if not is_good.all():
            raise _out_of_range(path, start + int(np.argmin(is_good)) + 1)
    return matrix


def read_npz(path: str | Path, n_rows: int) -> sp.csr_array:
    """A sparse matrix with one row per node."""

    def load(path: Path) -> Any:
        with path.open("rb") as file:
            matrix = sp.load_npz(file)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # bad indices would crash later on
        return matrix

    matrix = sp.csr_array(_loaded(path, n_rows, load, "a matrix saved by scipy.sparse.save_npz"))
    matrix.sum_duplicates()
    is_good = in_range(matrix.data)
    if not is_good.all():
        raise _out_of_range(path, int(np.searchsorted(matrix.indptr, np.argmin(is_good), "right")))
    return matrix


def in_range(values: np.ndarray) -> np.ndarray:
    """Which numbers are finite, and small enough to be squared."""
    return (values <= LARGEST) & (values >= -LARGEST)


def _out_of_range(path: str | Path, row: int) -> ValueError:
    return ValueError(f"{path} has a number in row {row} that is NaN, infinite or far too large")


def _loaded(path: str | Path, n_rows: int, load: Callable[[Path], Any], what: str) -> Any:
    """A matrix of real numbers with so many rows; whatever a damaged file sets off in numpy and
    scipy becomes one sentence."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            matrix = load(Path(path))
    except Exception as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            message = f"{path} holds Python objects, which are never loaded; save numbers"
        else:
            message = f"{path} is not {what}, or is damaged"
        raise ValueError(message) from None
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds {matrix.dtype}; features are real numbers")
    if matrix.ndim != 2:
        raise ValueError(f"{path} has shape {matrix.shape}; features are a matrix, a row per node")
    if matrix.shape[0] != n_rows:
        raise ValueError(
            f"{path} has {matrix.shape[0]} rows but the nodes file has {n_rows}; "
            "its rows are the nodes in the order of that file"
        )
    return matrix
