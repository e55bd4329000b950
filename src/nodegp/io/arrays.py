"""Feature matrices in files of numpy (.npy, dense) and scipy (.npz, sparse), never unpickled."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["in_range", "read_npy", "read_npz"]

_BLOCK = 1 << 22  # entries checked at a time
LARGEST = np.float64(1e150)  # the square of anything larger is infinite


def read_npy(path: str | Path, n_rows: int) -> np.ndarray:
    """A dense matrix, mapped into memory rather than read, with one row per node."""
    path = _existing(path)
    with _opening(path, "an array saved by numpy.save"):
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(matrix, np.ndarray):
        raise ValueError(f"{path} is not an array saved by numpy.save, but an archive of them")
    _check(path, matrix, matrix.dtype, n_rows)
    step = max(_BLOCK // max(matrix.shape[1], 1), 1)
    for start in range(0, n_rows, step):
        good = in_range(matrix[start : start + step]).all(axis=1)
        if not good.all():
            raise _out_of_range(path, start + int(np.argmin(good)) + 1)
    return matrix


def read_npz(path: str | Path, n_rows: int) -> sp.csr_array:
    """A sparse matrix with one row per node."""
    path = _existing(path)
    with _opening(path, "a matrix saved by scipy.sparse.save_npz"), path.open("rb") as file:
        matrix = sp.load_npz(file)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # bad indices would crash later on
    _check(path, matrix, matrix.dtype, n_rows)
    matrix = sp.csr_array(matrix)
    matrix.sum_duplicates()
    good = in_range(matrix.data)
    if not good.all():
        raise _out_of_range(path, int(np.searchsorted(matrix.indptr, np.argmin(good), "right")))
    return matrix


def in_range(values: np.ndarray) -> np.ndarray:
    """Which numbers are finite, and small enough to be squared."""
    return (values <= LARGEST) & (values >= -LARGEST)


def _out_of_range(path: Path, row: int) -> ValueError:
    return ValueError(f"{path} has a number in row {row} that is NaN, infinite or far too large")


def _existing(path: str | Path) -> Path:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return Path(path)


@contextmanager
def _opening(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a damaged file sets off in numpy and scipy into one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            message = f"{path} holds Python objects, which are never loaded; save numbers"
        else:
            message = f"{path} is not {what}, or is damaged"
        raise ValueError(message) from None


def _check(path: Path, matrix: Any, dtype: np.dtype, n_rows: int) -> None:
    if dtype.kind not in "biuf":
        raise ValueError(f"{path} holds {dtype}; features are real numbers")
    if matrix.ndim != 2:
        raise ValueError(f"{path} has shape {matrix.shape}; features are a matrix, a row per node")
    if matrix.shape[0] != n_rows:
        raise ValueError(
            f"{path} has {matrix.shape[0]} rows but the nodes file has {n_rows}; "
            "its rows are the nodes in the order of that file"
        )
