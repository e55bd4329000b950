"""What is kept of rows from one question to the next, and how it grows by a label."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count
from threading import Lock
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from nodegp.budget import budget
from nodegp.prior.cache import ArrayCache
from nodegp.rows import Rows, inner_products

__all__ = [
    "KeptColumns",
    "KeptRows",
    "LabelledRows",
    "check_size",
    "knowing",
    "row_marks",
    "taken",
]

_numbers = count()
_growing = Lock()


class KeptRows:
    """Rows at some nodes, in the order in which they came."""

    def __init__(
        self, nodes: np.ndarray, values: sp.csr_array | np.ndarray, room: _Room | None = None
    ):
        self.nodes, self.values = nodes, values
        self._place = {node: place for place, node in enumerate(nodes.tolist())}
        self._room = room

    def missing(self, nodes: np.ndarray) -> np.ndarray:
        """Those of some nodes that are not here."""
        return np.setdiff1d(nodes, self.nodes)

    def at(self, nodes: np.ndarray) -> sp.csr_array | np.ndarray:
        # A copy in any case: what is kept must not be changed through it.
        places = [self._place[node] for node in nodes.tolist()]
        is_sparse = sp.issparse(self.values)
        return self.values[places] if is_sparse else np.take(self.values, places, axis=0)

    def only(self, nodes: np.ndarray) -> KeptRows:
        nodes = np.intersect1d(nodes, self.nodes)
        return KeptRows(nodes, self.at(nodes))

    def with_rows(self, nodes: np.ndarray, rows: sp.csr_array | np.ndarray) -> KeptRows:
        """These, and after them those of other nodes."""
        n_old, every = len(self.nodes), np.concatenate([self.nodes, nodes])
        if sp.issparse(rows):
            return KeptRows(every, sp.vstack([self.values, rows], format="csr"))
        with _growing:
            room = self._room
            if room is None or room.n_taken != n_old or len(every) > len(room.values):
                n_rows = len(every) if n_old == 0 else len(every) + len(every) // 4 + 4
                room = _Room(np.empty((n_rows, rows.shape[1]), rows.dtype))
                room.values[:n_old] = self.values
            room.values[n_old : len(every)] = rows
            room.n_taken = len(every)
        return KeptRows(every, room.values[: len(every)], room)

    @property
    def n_bytes(self) -> int:
        values = self.values if self._room is None else self._room.values
        return values.nbytes if isinstance(values, np.ndarray) else 12 * values.nnz


class _Room:
    """Rows one after the other, with room for those of labels to come: copying all of them for each
    takes longer than what is done with them. Whoever has all that are taken may add to them."""

    def __init__(self, values: np.ndarray):
        self.values, self.n_taken = values, 0


class LabelledRows(NamedTuple):
    """The rows of some nodes, which know their inner products."""

    nodes: list[int]
    rows: Rows


def knowing(
    rows: Rows, nodes: np.ndarray, marks: tuple[str, ...], before: LabelledRows | None
) -> LabelledRows:
    """The rows of some nodes with what is known of them, some of it from before; ``marks`` are what
    they are known by."""
    place = {} if before is None else {n: j for j, n in enumerate(before.nodes)}
    there = np.array([place.get(n, -1) for n in nodes.tolist()], dtype=np.intp)
    old, new = np.flatnonzero(there >= 0), np.flatnonzero(there < 0)
    gram = None if before is None else before.rows.known_gram
    if gram is None or not len(old):
        return LabelledRows(nodes.tolist(), rows.knowing(inner_products(rows, rows), marks))
    result = np.empty((len(rows), len(rows)), gram.numpy().dtype)
    result[np.ix_(old, old)] = gram.numpy()[np.ix_(there[old], there[old])]
    if len(new):
        products = inner_products(rows.take(new), rows).numpy()
        result[new], result[:, new] = products, products.T
    return LabelledRows(nodes.tolist(), rows.knowing(torch.from_numpy(result), marks))


def row_marks(cache: ArrayCache, key: Hashable, nodes: np.ndarray) -> tuple[str, ...]:
    """What the rows of some nodes are known by, for one filter on one graph: a number that, as long
    as it is kept, no other has, and the nodes'."""
    if (number := cache.get(key)) is None:
        cache.put(key, number := next(_numbers), 8)
    return tuple(f"{number} {n}" for n in nodes.tolist())


class KeptColumns(NamedTuple):
    """Inner products with some rows, and which rows those are."""

    of: tuple[str, ...]
    values: np.ndarray


def taken(array: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Rows of an array, without a copy where they are all of them in order or a range of it."""
    if len(nodes) and nodes[-1] - nodes[0] + 1 == len(nodes) and (np.diff(nodes) == 1).all():
        return array[nodes[0] : nodes[-1] + 1]
    return array[nodes]


def check_size(n_rows: int, n_columns: int) -> None:
    """Refuse rows that would take too much memory."""
    if n_rows * n_columns > budget.answer:
        size = f"{n_rows * n_columns * 8 / 2**30:.0f} GiB ({n_columns} columns, dense)"
        raise ValueError(
            f"the filtered features of {n_rows} nodes would take {size}. Use fewer labels, or "
            "bring the features to fewer columns first, for instance with TruncatedSVD of "
            "scikit-learn."
        )
