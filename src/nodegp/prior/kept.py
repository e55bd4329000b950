"""What is kept of rows from one question to the next, and how it grows by a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from nodegp.rows import Rows, inner_products

__all__ = ["KeptColumns", "KeptRows", "LabelledRows", "grown_gram", "taken"]


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


def grown_gram(before: LabelledRows | None, rows: Rows, nodes: np.ndarray) -> Tensor:
    """Inner products of the rows of some nodes, of which others are known."""
    gram = None if before is None else before.rows.known_gram
    place = {} if before is None else {n: j for j, n in enumerate(before.nodes)}
    there = torch.tensor([place.get(n, -1) for n in nodes.tolist()], dtype=torch.int64)
    old, new = (there >= 0).nonzero()[:, 0], (there < 0).nonzero()[:, 0]
    if gram is None or not len(old):
        return inner_products(rows, rows)
    result = torch.empty(len(rows), len(rows), dtype=gram.dtype)
    result[old[:, None], old] = gram[there[old][:, None], there[old]]
    if len(new):
        products = inner_products(rows.take(new.numpy()), rows)
        result[new] = products
        result[:, new] = products.mT
    return result


class KeptColumns(NamedTuple):
    """Inner products with some rows, and which rows those are."""

    of: tuple[str, ...]
    values: np.ndarray


def taken(array: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Rows of an array, without a copy where they are all of them in order or a range of it."""
    if len(nodes) and nodes[-1] - nodes[0] + 1 == len(nodes) and (np.diff(nodes) == 1).all():
        return array[nodes[0] : nodes[-1] + 1]
    return array[nodes]
