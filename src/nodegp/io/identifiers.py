"""Columns that name their row and say nothing of it: ids, row numbers, times of entry.

As a feature such a number would be taken for a measurement, and drown what there is to learn from.
"""

from __future__ import annotations

import re

import numpy as np

from nodegp.io.readers import numbers
from nodegp.io.tables import Table

__all__ = ["identifier"]

# A name that ends in a word for an id, as in facebook_id and userId; what pandas calls an index
# that it writes, and what it is called if it has no name.
_NAMED = re.compile(
    r"(^|[\W_])(id|ids|uid|uuid|guid|key|index|idx|rowid)$|[a-z0-9](Id|ID)$|^unnamed: \d+$|^\s*$"
)
_FEW = 20  # rows, of which all may differ by chance
_NEARLY_ALL = 0.98
_TIMES = (3e8, 4.2e9)  # seconds since 1970: from 1979 to 2103


def identifier(table: Table, name: str) -> str | None:
    """Why a column of numbers names its rows, or None if it seems to measure something."""
    if _NAMED.search(name) or _NAMED.search(name.lower()):
        return "named like an id"
    values = numbers(table, name)
    values = values[~np.isnan(values)]
    if len(values) < _FEW:
        return None
    steps = np.diff(values)
    if steps[0] != 0 and np.allclose(steps, steps[0], rtol=1e-9, atol=0.0):
        return "counts its rows"
    if (values != np.round(values)).any():
        return None
    share = len(np.unique(values)) / len(values)
    if share >= _NEARLY_ALL:
        return "whole numbers that nearly all differ, like an id"
    low, high = values.min(), values.max()
    units = (1.0, 1e3, 1e6, 1e9)  # seconds and their thousandths, and so on
    if share > 0.5 and any(_TIMES[0] * unit <= low <= high <= _TIMES[1] * unit for unit in units):
        return "points in time"
    return None
