"""How much memory is taken at a time: one object that everybody asks.

Numbers are entries of arrays, mostly of eight bytes. They bound what is made at once, never what
can be answered: larger problems are worked on in more pieces, or refused with what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Budget", "blocks", "budget", "bytes_of"]


@dataclass
class Budget:
    """Memory limits; to change one: ``budget.kept_bytes = 4 << 30``."""

    cached: int = 1 << 18  # worked on at a time where a processor's cache should hold it
    tile: int = 1 << 20  # of one Gram tile, and of the rows behind it
    block: int = 1 << 22  # in a pass over all nodes; of a tile that is kept for its gradient
    passing: int = 1 << 23  # of an array that is there for a moment
    fit: int = 1 << 24  # that a fit keeps from one value of its hyper-parameters to the next
    sample: int = 1 << 25  # of rows that inducing points are looked for among
    large: int = 1 << 27  # of the largest intermediate result
    answer: int = 1 << 28  # of the largest array that is given back: 2 GiB
    kept_bytes: int = 1 << 30  # of what is kept for the next question, for each graph


budget = Budget()


def blocks(n_rows: int, width: int, entries: int) -> Iterator[slice]:
    """Ranges of rows of a width that have about so many entries, and at least one row."""
    step = max(entries // max(width, 1), 1)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def bytes_of(size: int | str) -> int:
    """A number of bytes, which may be written as "4GiB", "500 MB" or "2G"."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b|i)?\s*", size.lower())
    if match is None:
        raise ValueError(f"{size!r} is no size of memory; write it as 4GiB or 500MB")
    number, unit, kind = match.groups()
    # 2G is what programs call 2 GiB; 2GB is what disks do.
    units = _UNITS if kind == "b" else _BINARY_UNITS
    return int(float(number) * units[unit])
