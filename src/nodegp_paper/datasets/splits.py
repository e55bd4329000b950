"""Random splits of a data set, to choose and compare on, without its public test labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodegp.datasets import Dataset

__all__ = ["random_split"]


def random_split(
    data: Dataset,
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
    free = data.y >= 0
    if exclude is not None:
        free &= data.labels(exclude) < 0
    rng = np.random.default_rng(seed)
    train = []
    for position, class_name in enumerate(data.class_names):
        nodes = np.flatnonzero(free & (data.y == position))
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
