"""Graphs drawn at random, of any size, for scaling benchmarks and tests.

``synthetic`` draws communities with power-law degrees and features that tell of the community;
``hub_graph`` draws the worst case for memory, one node that is linked to all others. Both are
vectorised: a million nodes take seconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from nodegp.datasets import Dataset
from nodegp.graph import Graph
from nodegp_paper.datasets.splits import random_split

__all__ = ["hub_graph", "synthetic"]

N_TEST = 1000
_BLOCK = 65_536  # rows of dense features made at a time


def synthetic(
    n_nodes: int,
    n_classes: int = 5,
    mean_degree: float = 10,
    max_degree: int = 1000,
    homophily: float = 0.8,
    n_features: int = 100,
    feature_noise: float = 1.0,
    power: float = 2.5,
    sparse_features: bool = False,
    n_words: int | None = None,
    dtype: DTypeLike = np.float32,
    labels_per_class: int = 40,
    seed: int | np.random.Generator = 0,
) -> Dataset:
    """Communities with power-law degrees (a degree-corrected stochastic block model).

    Every node gets a class (all of one size) and a number of edge ends, drawn from a power law
    with exponent ``power`` and at most ``max_degree``; the ends are then paired at random, a share
    ``homophily`` of them within the class and the others across classes. Pairs that repeat or join
    a node to itself are dropped, so no degree exceeds ``max_degree`` and the mean is a little below
    ``mean_degree``.

    Dense features are Gaussian around class means of length about 1, with standard deviation
    ``feature_noise`` in every coordinate. Sparse ones are binary words: one in
    ``1 + feature_noise`` comes from the class's own part of the vocabulary, the others from all of
    it; ``n_words`` a node, by default a tenth of the vocabulary and at most 30. ``n_features=0``
    gives a graph without features.

    The training split has ``labels_per_class`` nodes of each class, the test split up to 1,000
    others, and "val" is empty.
    """
    most_edges = min(max_degree, n_nodes - 1)
    smallest_class = n_nodes // max(n_classes, 1)
    _refuse(
        (n_classes < 2, f"n_classes is {n_classes}; give at least 2"),
        (n_nodes < 2 * n_classes, f"n_nodes is {n_nodes}; give at least 2 per class"),
        (not 0 <= homophily <= 1, f"homophily is {homophily}; it is a share, from 0 to 1"),
        (power <= 2, f"power is {power}; at 2 or below the mean degree is not finite"),
        (n_features < 0, f"n_features is {n_features}; it cannot be negative"),
        (feature_noise < 0, f"feature_noise is {feature_noise}; it cannot be negative"),
        (
            not 0 < mean_degree <= most_edges,
            f"mean_degree is {mean_degree}; with {n_nodes} nodes and max_degree={max_degree} it "
            f"lies above 0 and at most at {most_edges}",
        ),
        (
            not 1 <= labels_per_class <= smallest_class,
            f"labels_per_class is {labels_per_class}, but a class may have {smallest_class} of the "
            f"{n_nodes} nodes; ask for at least 1 and at most that many, or draw more nodes",
        ),
    )
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_nodes) % n_classes)  # as many nodes in each class
    ends = _edge_ends(rng, n_nodes, mean_degree, most_edges, power)
    i, j = _pair(rng, ends, y, homophily)
    del ends
    adjacency = sp.coo_array((np.ones(len(i)), (i, j)), shape=(n_nodes, n_nodes))
    features = None
    if n_features and sparse_features:
        features = _word_features(rng, y, n_classes, n_features, feature_noise, n_words, dtype)
    elif n_features:
        features = _gaussian_features(rng, y, n_classes, n_features, feature_noise, dtype)
    data = _dataset("synthetic", adjacency, features, y, n_classes)
    split = random_split(data, labels_per_class, rng, exclude=None, n_test=N_TEST)
    return replace(data, splits=_splits(split["train"], split["test"]))


def hub_graph(
    degree: int,
    n_features: int = 100,
    n_labelled: int = 10,
    n_classes: int = 2,
    feature_noise: float = 1.0,
    label_hub: bool = True,
    dtype: DTypeLike = np.float32,
    seed: int | np.random.Generator = 0,
) -> Dataset:
    """One hub (node 0) with ``degree`` neighbours, ``n_labelled`` of which are labelled.

    The prior variance at the hub is a sum over ``(degree + 1)^2`` pairs of neighbours, which must
    not be held at once. With ``label_hub`` the hub is a training node too; the test split is the
    hub, if it is not labelled, and up to 1,000 leaves.
    """
    _refuse(
        (
            not 1 <= n_labelled <= degree,
            f"n_labelled is {n_labelled} and degree {degree}; "
            "the hub needs at least one neighbour, and at most all of them can be labelled",
        ),
        (
            n_classes < 2 or n_features < 1,
            f"n_classes is {n_classes} and n_features {n_features}; "
            "give at least 2 classes and 1 feature",
        ),
    )
    rng = np.random.default_rng(seed)
    n_nodes = degree + 1
    # Classes in turn, so that even a few labelled leaves hold them all.
    y = np.arange(n_nodes) % n_classes
    leaves = np.arange(1, n_nodes)
    adjacency = sp.coo_array(
        (np.ones(degree), (np.zeros(degree, dtype=np.int64), leaves)), shape=(n_nodes, n_nodes)
    )
    features = _gaussian_features(rng, y, n_classes, n_features, feature_noise, dtype)
    train, test = leaves[:n_labelled], leaves[n_labelled : n_labelled + N_TEST]
    if label_hub:
        train = np.insert(train, 0, 0)
    else:
        test = np.insert(test, 0, 0)
    data = _dataset("hub", adjacency, features, y, n_classes)
    return replace(data, splits=_splits(train, test))


def _dataset(
    name: str, adjacency: sp.coo_array, features: Any, y: NDArray[np.int64], n_classes: int
) -> Dataset:
    class_names = tuple(f"class {c}" for c in range(n_classes))
    return Dataset(name, Graph(adjacency, features), y, {}, class_names)


def _splits(train: NDArray[np.int64], test: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    return {"train": train, "val": np.zeros(0, dtype=np.int64), "test": test}


def _refuse(*problems: tuple[bool, str]) -> None:
    for is_wrong, message in problems:
        if is_wrong:
            raise ValueError(message + ".")


def _edge_ends(
    rng: np.random.Generator, n_nodes: int, mean_degree: float, max_degree: int, power: float
) -> NDArray[np.int64]:
    """How many edge ends each node has: power law, right mean, never above ``max_degree``."""
    weights = (1.0 - rng.random(n_nodes)) ** (-1.0 / (power - 1.0))  # Pareto, at least 1
    low, high = 0.0, float(max_degree)  # at `high` every node is at the cap
    for _ in range(60):  # bisect the scale whose capped mean is mean_degree
        scale = 0.5 * (low + high)
        if np.mean(np.minimum(scale * weights, max_degree)) < mean_degree:
            low = scale
        else:
            high = scale
    expected = np.minimum(high * weights, max_degree)
    return np.minimum(np.floor(expected + rng.random(n_nodes)).astype(np.int64), max_degree)


def _pair(
    rng: np.random.Generator, ends: NDArray[np.int64], y: NDArray[np.int64], homophily: float
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pair edge ends at random: a share ``homophily`` within classes, the others across them."""
    nodes = np.repeat(np.arange(len(ends), dtype=np.int32), ends)
    rng.shuffle(nodes)
    classes = y[nodes].astype(np.int16)
    is_within = rng.random(len(nodes)) < homophily

    inside = nodes[is_within]
    inside_class = classes[is_within]
    order = np.argsort(inside_class, kind="stable")  # random order within each class stays
    inside, inside_class = inside[order], inside_class[order]
    # Pair neighbours in the list by their place within the class; an odd one out stays alone.
    starts = np.searchsorted(inside_class, np.arange(inside_class.max(initial=0) + 1))
    place = np.arange(len(inside)) - starts[inside_class] if len(inside) else np.zeros(0, int)
    first = np.flatnonzero((place[:-1] % 2 == 0) & (inside_class[:-1] == inside_class[1:]))
    pairs = [(inside[first], inside[first + 1])]

    # Across classes: pair at random, keep what joins two classes, shuffle the rest again. A round
    # leaves about one in n_classes; what 30 rounds leave is of one class, and is dropped.
    rest, rest_class = nodes[~is_within], classes[~is_within]
    for _ in range(30):
        if len(rest) < 2:
            break
        order = rng.permutation(len(rest))[: len(rest) // 2 * 2].reshape(2, -1)
        across = rest_class[order[0]] != rest_class[order[1]]
        pairs.append((rest[order[0][across]], rest[order[1][across]]))
        again = order[:, ~across].ravel()
        rest, rest_class = rest[again], rest_class[again]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _gaussian_features(
    rng: np.random.Generator,
    y: NDArray[np.int64],
    n_classes: int,
    n_features: int,
    noise: float,
    dtype: DTypeLike,
) -> NDArray[np.floating]:
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype is {kind}; choose float32 or float64.")
    means = (rng.standard_normal((n_classes, n_features)) / np.sqrt(n_features)).astype(kind)
    features = np.empty((len(y), n_features), dtype=kind)
    for start in range(0, len(y), _BLOCK):  # in blocks: means[y] would be a second copy
        block = features[start : start + _BLOCK]
        rng.standard_normal(out=block, dtype=kind)
        block *= float(noise)  # a Python float keeps float32
        block += means[y[start : start + _BLOCK]]
    return features


def _word_features(
    rng: np.random.Generator,
    y: NDArray[np.int64],
    n_classes: int,
    n_features: int,
    noise: float,
    n_words: int | None,
    dtype: DTypeLike,
) -> sp.csr_array:
    """Binary words, so many draws to a node."""
    if n_features < n_classes:
        raise ValueError(
            f"n_features is {n_features}; sparse features need at least one word per class, "
            f"{n_classes} here."
        )
    if n_words is None:
        n_words = max(1, min(30, n_features // 10))
    elif n_words < 1:
        raise ValueError(f"n_words is {n_words}; give each node at least one.")
    own = n_features // n_classes
    vocabulary = rng.permutation(n_features).astype(np.int32)
    shape = (len(y), n_words)
    topical = (y[:, None] * own).astype(np.int32) + rng.integers(own, size=shape, dtype=np.int32)
    general = rng.integers(n_features, size=shape, dtype=np.int32)
    is_general = rng.random(shape, dtype=np.float32) < noise / (1.0 + noise)
    words = np.sort(vocabulary[np.where(is_general, general, topical)], axis=1)
    new = np.ones(shape, dtype=bool)
    new[:, 1:] = words[:, 1:] != words[:, :-1]  # a word drawn twice is one word
    indptr = np.concatenate([[0], np.cumsum(new.sum(axis=1))])
    indices = words[new]
    return sp.csr_array((np.ones(len(indices), dtype), indices, indptr), shape=(len(y), n_features))
