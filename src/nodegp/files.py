"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["check_place", "clear_unfinished", "open_atomically", "write_atomically"]

_BINARY = getattr(os, "O_BINARY", 0)  # only Windows tells text files apart


def check_place(path: Path) -> None:
    """Refuse a place where no file can be written, before hours of work are lost."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"no folder {str(path.parent)!r} to write {path.name!r} in")


def clear_unfinished(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder that no other writes to now."""
    for path in folder.glob(f".*.{'[0-9a-f]' * 16}"):
        path.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` so that a crash leaves either the old file or the new one."""
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place at ``path`` when all went well."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    # Not tempfile's: its files are for nobody else to read, and this one is to stay.
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    except OSError as error:
        error.filename = str(path)  # the name that the caller knows
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
