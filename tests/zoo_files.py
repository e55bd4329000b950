"""Where the files of the zoo are, and a mark for the tests that need them."""

from __future__ import annotations

import pytest

from nodegp_paper.datasets.zoo import ZOO_NAMES, ZooFileMissing, zoo_file

__all__ = ["needs_zoo"]


def _is_there(name: str) -> bool:
    try:
        return zoo_file(name).is_file()
    except ZooFileMissing:
        return False


needs_zoo = pytest.mark.skipif(
    not all(map(_is_there, ZOO_NAMES)),
    reason='set NODEGP_DATA to a folder with acm.npz and so on in it, or with a folder "zoo" that '
    "has them inside or beside it, to run this",
)
