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
            nodes = self._split(name)
            y[nodes] = self.y[nodes]
        return y

    def random_split(
        self,
        per_class: int,
        seed: int | np.random.Generator,
        exclude: str | None = "test",
        n_test: int = 1000,
        n_val: int = 0,
    ) -> dict[str, NDArray[np.int64]]:
        """Draw ``per_class`` training nodes per class and up to ``n_test`` evaluation nodes.

        Both come from the labelled nodes outside the public split ``exclude``, so that choices
        made on such splits have never seen the public test labels. With ``n_val``, so many "val"
        nodes are drawn as well, from what is left: the others stay the same.
        """
        if per_class < 1 or n_test < 0 or n_val < 0:
            raise ValueError(
                f"per_class is {per_class}, n_test {n_test} and n_val {n_val}; "
                "they must be at least 1, 0 and 0."
            )
        free = self.y >= 0
        if exclude is not None:
            free[self._split(exclude)] = False
        rng = np.random.default_rng(seed)
        train = []
        for position, class_name in enumerate(self.class_names):
            nodes = np.flatnonzero(free & (self.y == position))
            if len(nodes) < per_class:
                raise ValueError(
                    f"Class {class_name!r} has {len(nodes)} nodes to draw from, fewer than "
                    f"per_class={per_class}; ask for fewer."
                )
            train.append(rng.choice(nodes, per_class, replace=False))
        chosen = np.sort(np.concatenate(train))
        free[chosen] = False
        rest = np.flatnonzero(free)
        test = rng.choice(rest, min(n_test, len(rest)), replace=False)
        split = {"train": chosen, "test": np.sort(test)}
        if n_val:
            rest = np.setdiff1d(rest, test, assume_unique=True)
            if len(rest) < n_val:
                raise ValueError(
                    f"There are {len(rest)} nodes left for validation, fewer than n_val={n_val}; "
                    "ask for fewer, or for a smaller n_test."
                )
            split["val"] = np.sort(rng.choice(rest, n_val, replace=False))
        return split

    def _split(self, name: str) -> NDArray[np.int64]:
        if name not in self.splits:
            raise ValueError(
                f"{self.name!r} has no split named {name!r}; it has {_listed(self.splits)}."
            )
        return self.splits[name]


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
