"""A PyTorch Geometric Data, with its labels and masks, as a data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodegp.datasets import Dataset
from nodegp.graph import Graph
from nodegp.interchange.pyg import node_mask, node_targets

__all__ = ["from_pyg"]


def from_pyg(data: Any, name: str = "pyg", split: int = 0) -> Dataset:
    """A Data as a Dataset: ``y`` as class positions, the masks as splits.

    Classes keep their numbers, which are their names too; -1 and NaN mean no label. Where masks
    have a column for each of several splits, ``split`` says which to take.
    """
    graph = Graph.from_pyg(data)
    y = node_targets(data)
    if y.dtype.kind == "f":
        y = np.where(np.isnan(y), -1, y)
    positions = y.astype(np.int64)
    if (positions != y).any() or positions.min(initial=-1) < -1:
        raise ValueError("data.y must hold classes numbered from 0, and -1 or NaN for no label")
    masks = {part: node_mask(data, part, split) for part in ("train", "val", "test")}
    return Dataset(
        name,
        graph,
        positions,
        {part: np.flatnonzero(mask) for part, mask in masks.items() if mask is not None},
        tuple(str(c) for c in range(positions.max(initial=-1) + 1)),
    )
