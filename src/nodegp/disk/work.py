"""Arrays that are worked out from a stored graph and kept beside it, until they are not needed.

A file has a head with the types and shapes of its arrays, a mark of what it is and a checksum, and
appears under its name when it is whole: after a kill what is there can be used, and what is not is
made. It is read into memory of torch's, whose alignment is always the same: with another the last
digits of MKL's products differ.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
import zlib
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nodegp.store.arrays import StoreError, writing

__all__ = [
    "WORK",
    "DamagedWorkError",
    "is_whole",
    "map_array",
    "read_tensors",
    "work_folder",
    "write_tensors",
]

WORK = "work"
_MAGIC = b"nodegpw1"
_HEAD, _ALIGNED = 256, 64
_KINDS = {torch.float32: 1, torch.float64: 2, torch.int32: 3, torch.int64: 4}
_TYPES = {code: kind for kind, code in _KINDS.items()}


class DamagedWorkError(StoreError):
    """A file of the work folder that is not as it was written."""

    def __init__(self, path: Path, what: str):
        super().__init__(f"{path} {what}; remove {path.parent}, which is then made again")


def work_folder(store: Path, name: str) -> Path:
    """A folder for what is worked out from a stored graph."""
    folder = store / WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_tensors(path: Path, *tensors: Tensor, is_to_stay: bool = False) -> None:
    """Write arrays of one or two dimensions to a file. One that is to stay is on disk before it has
    its name; others are compared with their checksums when work goes on after a crash."""
    parts = [tensor.contiguous() for tensor in tensors]
    contents = [_bytes(part) for part in parts]
    shapes = b"".join(
        struct.pack("<iqq", _KINDS[part.dtype], part.shape[0], _width(part)) for part in parts
    )
    check = 0
    for content in contents:
        check = zlib.crc32(content, check)
    head = _MAGIC + _mark(path) + struct.pack("<Ii", check, len(parts)) + shapes
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        with writing(path):
            with temporary.open("wb") as file:
                file.write(head.ljust(_HEAD, b"\0"))
                for content in contents:
                    file.write(content)
                    file.write(b"\0" * (-len(content) % _ALIGNED))
                if is_to_stay:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_tensors(path: Path, verify: bool = False, into: Tensor | None = None) -> list[Tensor]:
    """The arrays of a file; ``verify`` compares the checksum too. With ``into`` the first is read
    to there."""
    try:
        with path.open("rb") as file:
            shapes, check = _head(path, file.read(_HEAD), os.fstat(file.fileno()).st_size)
            tensors, found = [], 0
            for kind, length, width in shapes:
                shape = (length,) if width < 0 else (length, width)
                tensor = torch.empty(shape, dtype=kind) if into is None else into
                if tuple(tensor.shape) != shape or tensor.dtype != kind:
                    raise DamagedWorkError(path, f"has an array of shape {shape}")
                content = _bytes(tensor)
                if file.readinto(content) != len(content):
                    raise DamagedWorkError(path, "is cut short")
                file.seek(-len(content) % _ALIGNED, os.SEEK_CUR)
                found = zlib.crc32(content, found) if verify else found
                tensors.append(tensor)
    except FileNotFoundError:
        raise DamagedWorkError(path, "is missing") from None
    if verify and found != check:
        raise DamagedWorkError(path, "is damaged")
    return tensors


def map_array(path: Path) -> np.ndarray:
    """The first array of a file, to take a few rows of."""
    try:
        with path.open("rb") as file:
            shapes, _ = _head(path, file.read(_HEAD), os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise DamagedWorkError(path, "is missing") from None
    kind, length, width = shapes[0]
    name = torch.empty(0, dtype=kind).numpy().dtype
    return np.memmap(path, name, "r", _HEAD, (length, width)) if length else np.empty((0, width))


def is_whole(path: Path, verify: bool = False) -> bool:
    """Whether a file is there, is what its name says, and is of its size; or not damaged either."""
    try:
        if verify:
            read_tensors(path, verify=True)
            return True
        with path.open("rb") as file:
            _head(path, file.read(_HEAD), os.fstat(file.fileno()).st_size)
    except (OSError, DamagedWorkError):
        return False
    return True


def _head(path: Path, head: bytes, n_bytes: int) -> tuple[list[tuple[torch.dtype, int, int]], int]:
    if len(head) < _HEAD or head[:8] != _MAGIC:
        raise DamagedWorkError(path, "is not what it should be")
    if head[8:16] != _mark(path):
        raise DamagedWorkError(path, "is another file under this name")
    check, count = struct.unpack_from("<Ii", head, 16)
    raw = [struct.unpack_from("<iqq", head, 24 + 20 * place) for place in range(count)]
    shapes = [(_TYPES[code], length, width) for code, length, width in raw]
    sizes = [kind.itemsize * length * max(width, 1) for kind, length, width in shapes]
    if n_bytes != _HEAD + sum(size + -size % _ALIGNED for size in sizes):
        raise DamagedWorkError(path, "is cut short")
    return shapes, check


def _mark(path: Path) -> bytes:
    """What a file is: its name and those of the two folders that it is in."""
    return sha256("/".join(path.parts[-3:]).encode()).digest()[:8]


def _width(tensor: Tensor) -> int:
    return tensor.shape[1] if tensor.dim() == 2 else -1


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.numpy().reshape(-1).view(np.uint8).data
