"""Feature matrices in files of numpy (.npy, dense) and scipy (.npz, sparse), never unpickled."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

_BLOCK = 1 << 22  # entries checked at a time
_DAMAGE = (ValueError, OSError, EOFError, SyntaxError, zipfile.BadZipFile, zlib.error)


def read_npy(path: str | Path, n_rows: int) -> np.ndarray:
    """A dense matrix, mapped into memory rather than read, with one row per node."""
    path = _existing(path)
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGE as error:
        raise _refused(path, "an array saved by numpy.save", error) from None
    if not isinstance(matrix, np.ndarray):
        raise ValueError(f"{path} is not an array saved by numpy.save, but an archive of them")
    _check(path, matrix, matrix.dtype, n_rows)
    step = max(_BLOCK // max(matrix.shape[1], 1), 1)
    for start in range(0, n_rows, step):
        finite = np.isfinite(matrix[start : start + step]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite)) + 1
            raise ValueError(f"{path} has a NaN or infinite number in row {row}")
    return matrix


def read_npz(path: str | Path, n_rows: int) -> sp.csr_array:
    """A sparse matrix with one row per node."""
    path = _existing(path)
    try:
        with path.open("rb") as file:
            matrix = sp.load_npz(file)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # bad indices would crash later on
    except (*_DAMAGE, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise _refused(path, "a matrix saved by scipy.sparse.save_npz", error) from None
    _check(path, matrix, matrix.dtype, n_rows)
    matrix = sp.csr_array(matrix)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        row = int(np.searchsorted(matrix.indptr, np.argmin(np.isfinite(matrix.data)), "right"))
        raise ValueError(f"{path} has a NaN or infinite number in row {row}")
    return matrix


def _existing(path: str | Path) -> Path:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return Path(path)


def _refused(path: Path, what: str, error: Exception) -> ValueError:
    if "Object arrays" in str(error) or "Python objects" in str(error):
        return ValueError(f"{path} holds Python objects, which are never loaded; save numbers")
    return ValueError(f"{path} is not {what}, or is damaged")


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
