"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "FOLDER_LOCK",
    "check_place",
    "clear_unfinished",
    "lock",
    "lock_folder",
    "open_atomically",
    "write_atomically",
]

_SIGN = "[0-9a-f]" * 16  # what the name of a file ends in until it is whole
_JUST_MADE = 2.0  # seconds in which a writer has locked its file for sure
FOLDER_LOCK = ".lock"  # in a folder that one process at a time writes to
_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)  # of a lock, by another
_BINARY = getattr(os, "O_BINARY", 0)  # only Windows tells text files apart


def check_place(path: Path) -> None:
    """Refuse a place where no file can be written, before hours of work are lost."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"no folder {str(path.parent)!r} to write {path.name!r} in")


def clear_unfinished(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder that no other writes to now."""
    for path in folder.glob(f".*.{_SIGN}"):
        path.unlink(missing_ok=True)


def _clear_abandoned(path: Path) -> None:
    """Remove what writers of this file that were killed have left beside it."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{_SIGN}"):
        with suppress(OSError):  # a writer is at it, or it is not ours to remove
            if time.time() - left.stat().st_mtime > _JUST_MADE:
                with left.open("r+b") as file:
                    _lock(file)
                left.unlink()


def _lock(file: BinaryIO) -> None:
    """Hold a lock that ends with the file, or with the process; an error if another holds it."""
    try:
        import fcntl
    except ImportError:  # Windows, where a file that is open cannot be removed anyway
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock(handle: int) -> None:
    """Lock an open file for this process alone, until it is closed; OSError if another has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_folder(folder: Path) -> int:
    """Be the only process that writes to a folder: a lock that ends when the handle that this gives
    is closed, or with the process."""
    handle = os.open(folder / FOLDER_LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock(handle)
    except OSError as error:
        if error.errno not in _HELD:
            return handle  # a file system without locks
        os.close(handle)
        raise BlockingIOError(
            f"another process is writing {folder}; wait for it, or name another folder"
        ) from None
    return handle


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` so that a crash leaves either the old file or the new one."""
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place at ``path`` when all went well."""
    _clear_abandoned(path)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    # Not tempfile's: its files are for nobody else to read, and this one is to stay.
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    except OSError as error:
        error.filename = str(path)  # the name that the caller knows
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # a file system without locks
                _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
