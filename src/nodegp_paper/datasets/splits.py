"""Random splits of a data set, to choose and compare on, without its public test labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nodegp.datasets import Dataset

__all__ = ["capped_split", "labels_per_class", "random_split", "without_small_classes"]

PUBLIC = "test"  # the split whose nodes random splits leave alone


def random_split(
    data: Dataset,
    per_class: int | Sequence[int],
    seed: int | np.random.Generator,
    exclude: str | None = PUBLIC,
    n_test: int = 1000,
    n_val: int = 0,
) -> dict[str, NDArray[np.int64]]:
    """Draw ``per_class`` training nodes per class and up to ``n_test`` evaluation nodes.

    A sequence has one number for each class. Both kinds come from the labelled nodes outside the
    public split ``exclude``, so that choices made on such splits have never seen the public test
    labels. With ``n_val``, so many "val" nodes are drawn as well, from what is left: the others
    stay the same.
    """
    sizes = list(per_class) if isinstance(per_class, Sequence) else [per_class] * data.n_classes
    if len(sizes) != data.n_classes:
        raise ValueError(
            f"per_class has {len(sizes)} numbers and there are {data.n_classes} classes; "
            "give one number for all, or one for each."
        )
    if min(sizes) < 1 or n_test < 0 or n_val < 0:
        raise ValueError(
            f"per_class is {per_class}, n_test {n_test} and n_val {n_val}; "
            "they must be at least 1, 0 and 0."
        )
    free = _free(data, exclude)
    rng = np.random.default_rng(seed)
    train = []
    for position, (class_name, size) in enumerate(zip(data.class_names, sizes, strict=True)):
        nodes = np.flatnonzero(free & (data.y == position))
        if len(nodes) < size:
            raise ValueError(
                f"Class {class_name!r} has {len(nodes)} nodes to draw from, fewer than "
                f"per_class={size}; ask for fewer."
            )
        train.append(rng.choice(nodes, size, replace=False))
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


def without_small_classes(data: Dataset, least: int = 6) -> Dataset:
    """The data set without its classes of fewer than ``least`` nodes: these nodes stay in the
    graph, but have no label to learn from or to be scored by."""
    sizes = np.bincount(data.y[data.y >= 0], minlength=data.n_classes)
    kept = np.flatnonzero(sizes >= least)
    positions = np.full(data.n_classes + 1, -1)  # the last is that of no label, -1
    positions[kept] = np.arange(len(kept))
    names = tuple(data.class_names[position] for position in kept)
    return replace(data, y=positions[data.y], class_names=names)


def labels_per_class(data: Dataset, per_class: int) -> list[int]:
    """``per_class``, or half of what there is to draw from where that is less."""
    free = _free(data, PUBLIC if PUBLIC in data.splits else None)
    sizes = np.bincount(data.y[free], minlength=data.n_classes)
    return [min(per_class, size // 2) for size in sizes.tolist()]


def capped_split(
    data: Dataset, per_class: int, seed: int, n_val: int = 0
) -> dict[str, NDArray[np.int64]]:
    """:func:`random_split` for graphs of any size, with or without a public split.

    Training nodes: :func:`labels_per_class`. Test nodes: all others with a label, outside the
    public test nodes where there are any. With ``n_val`` up to so many of these, and at most half,
    are validation nodes instead; the training nodes stay the same.
    """
    exclude = PUBLIC if PUBLIC in data.splits else None
    sizes = labels_per_class(data, per_class)
    rest = int(_free(data, exclude).sum()) - sum(sizes)
    n_val = min(n_val, rest // 2)
    return random_split(data, sizes, seed, exclude, rest - n_val, n_val)


def _free(data: Dataset, exclude: str | None) -> NDArray[np.bool_]:
    """Which nodes have a label and are outside the split that is to be left alone."""
    free = data.y >= 0
    if exclude is not None:
        free &= data.labels(exclude) < 0
    return free
