"""What every data set looks like: a graph, labels, splits and class names, in one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodegp.graph import Graph

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph with labels, public splits and class names.

    ``graph`` carries the features as published (raw). ``y`` has one class position per node, -1
    where the data has no label. ``splits`` maps "train", "val" and "test" to node positions.
    """

    name: str
    graph: Graph
    y: NDArray[np.int64]
    splits: Mapping[str, NDArray[np.int64]]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.y.shape != (self.graph.n_nodes,):
            raise ValueError(
                f"y has shape {self.y.shape} but the graph has {self.graph.n_nodes} nodes; "
                "give one label per node, -1 where there is none."
            )
        if len(self.y) and not -1 <= self.y.min() <= self.y.max() < len(self.class_names):
            raise ValueError(
                f"y ranges from {self.y.min()} to {self.y.max()}, but there are "
                f"{len(self.class_names)} class names; labels are -1 or class positions."
            )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(nodes):,}" for name, nodes in self.splits.items())
        return (
            f"Dataset({self.name!r}: {self.graph.n_nodes:,} nodes, {self.graph.n_edges:,} edges, "
            f"{self.n_classes} classes; {sizes})"
        )

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    def labels(self, *splits: str) -> NDArray[np.int64]:
        """Labels of length N, -1 for every node outside the named splits."""
        if not splits:
            raise ValueError(f"Name at least one split: {_listed(self.splits)}.")
        y = np.full(len(self.y), -1, dtype=np.int64)
        for name in splits:
            if name not in self.splits:
                raise ValueError(
                    f"{self.name!r} has no split named {name!r}; it has {_listed(self.splits)}."
                )
            nodes = self.splits[name]
            y[nodes] = self.y[nodes]
        return y


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
