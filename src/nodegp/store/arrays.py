"""Arrays in files of their own: written whole or not at all, read into memory, known by a hash.

They are plain ``.npy`` files, which any other program can read. Of each are kept its size, the hash
of all of it, and a hash of its two ends: that one is quick enough to be looked at whenever a store
is opened, and tells a file from that of another part even where both are of one size.
"""

from __future__ import annotations

import errno
import io
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from nodegp.files import open_atomically

__all__ = [
    "REPAIR",
    "FileRecord",
    "StoreError",
    "hash_of_ends",
    "hash_of_file",
    "index_dtype",
    "read_array",
    "write_array",
    "write_blocks",
    "writing",
]

REPAIR = "copy the store again, or prepare it again"
_END = 1 << 12  # bytes of each end of a file that are looked at when a store is opened
_BLOCK = 1 << 24


class StoreError(ValueError):
    """A folder that is no store, or one that is damaged."""


@dataclass(frozen=True)
class FileRecord:
    """What a file is known by again."""

    bytes: int
    sha256: str
    ends: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def index_dtype(n_nodes: int) -> type[np.signedinteger]:
    """What numbers of nodes are stored in. Offsets of entries are always int64."""
    return np.int32 if n_nodes < 2**31 else np.int64


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one sentence that a disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        full = OSError(
            f"the disk of {path.parent} is full; make room and run the same again, which goes on "
            "where it was"
        )
        full.errno = error.errno
        raise full from None


def write_array(path: Path, array: np.ndarray) -> FileRecord:
    """Write an array as ``.npy``, in C order."""
    return write_blocks(path, array.dtype, array.shape, [array])


def write_blocks(
    path: Path, dtype: Any, shape: tuple[int, ...], blocks: Iterable[np.ndarray]
) -> FileRecord:
    """Write an array that comes in blocks of rows as one ``.npy``."""
    header, n_bytes = io.BytesIO(), 0
    said = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, said)
    digest = sha256(header.getvalue())
    with writing(path), open_atomically(path) as file:
        file.write(header.getvalue())
        for array in blocks:
            content = np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8).data
            n_bytes += len(content)
            for start in range(0, len(content), _BLOCK):
                block = content[start : start + _BLOCK]
                file.write(block)
                digest.update(block)
        if n_bytes != math.prod(shape) * np.dtype(dtype).itemsize:
            raise ValueError(f"{path}: {n_bytes} bytes are not an array of shape {shape}")
    return FileRecord(path.stat().st_size, digest.hexdigest(), hash_of_ends(path))


def read_array(path: Path, dtype: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Read an array into memory, of this type and shape (None: any length)."""
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing; {REPAIR}") from None
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(f"{path} cannot be read ({error}); {REPAIR}") from None
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, length) for length, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        raise StoreError(
            f"{path} holds {array.dtype} of shape {array.shape}, which does not go with the rest "
            f"of the store; {REPAIR}"
        )
    return array


def hash_of_ends(path: Path) -> str:
    """A hash of the first and the last bytes."""
    with path.open("rb") as file:
        digest = sha256(file.read(_END))
        file.seek(max(file.seek(0, io.SEEK_END) - _END, 0))
        digest.update(file.read(_END))
    return digest.hexdigest()[:16]


def hash_of_file(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
