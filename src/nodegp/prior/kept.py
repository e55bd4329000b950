"""What is kept of rows from one question to the next, and how it grows by a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from nodegp.rows import Rows, inner_products

__all__ = ["KeptColumns", "KeptRows", "LabelledRows", "knowing", "taken"]


class KeptRows:
    """Rows at some nodes, and where each of them is."""

    def __init__(self, place: dict[int, int], values: sp.csr_array | np.ndarray):
        self.place, self.values = place, values

    def at(self, nodes: Iterable[int]) -> sp.csr_array | np.ndarray:
        return self.values[[self.place[n] for n in nodes]]

    def only(self, nodes: Iterable[int]) -> KeptRows:
        nodes = list(nodes)
        return KeptRows({n: j for j, n in enumerate(nodes)}, self.at(nodes))

    def with_rows(self, nodes: Sequence[int], rows: sp.csr_array | np.ndarray) -> KeptRows:
        place = self.place | {n: len(self.place) + j for j, n in enumerate(nodes)}
        both = (self.values, rows)
        joined = sp.vstack(both, format="csr") if sp.issparse(rows) else np.concatenate(both)
        return KeptRows(place, joined)

    @property
    def n_bytes(self) -> int:
        return self.values.nbytes if isinstance(self.values, np.ndarray) else 12 * self.values.nnz


class LabelledRows(NamedTuple):
    """The rows of some nodes, which know their inner products."""

    nodes: list[int]
    rows: Rows


def knowing(rows: Rows, nodes: np.ndarray, before: LabelledRows | None) -> LabelledRows:
    """The rows of some nodes with what is known of them, some of it from before."""
    place = {} if before is None else {n: j for j, n in enumerate(before.nodes)}
    there = np.array([place.get(n, -1) for n in nodes.tolist()], dtype=np.intp)
    old, new = np.flatnonzero(there >= 0), np.flatnonzero(there < 0)
    gram = None if before is None else before.rows.known_gram
    if before is None or gram is None or not len(old):
        rows = rows.knowing(inner_products(rows, rows), rows.fingerprints)
        return LabelledRows(nodes.tolist(), rows)
    result = np.empty((len(rows), len(rows)), gram.numpy().dtype)
    result[np.ix_(old, old)] = gram.numpy()[np.ix_(there[old], there[old])]
    some = rows.take(new)
    if len(new):
        products = inner_products(some, rows).numpy()
        result[new], result[:, new] = products, products.T
    marks = np.empty(len(rows), dtype=object)
    marks[old] = np.array(before.rows.fingerprints, dtype=object)[there[old]]
    marks[new] = some.fingerprints
    return LabelledRows(
        nodes.tolist(), rows.knowing(torch.from_numpy(result), tuple(marks.tolist()))
    )


class KeptColumns(NamedTuple):
    """Inner products with some rows, and which rows those are."""

    of: tuple[str, ...]
    values: np.ndarray


def taken(array: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Rows of an array, without a copy where they are all of them in order or a range of it."""
    if len(nodes) and nodes[-1] - nodes[0] + 1 == len(nodes) and (np.diff(nodes) == 1).all():
        return array[nodes[0] : nodes[-1] + 1]
    return array[nodes]
