"""Groups of labels that are left out together, so that what is left is in the same proportions."""

from __future__ import annotations

import numpy as np

__all__ = ["STAY", "dealt_groups", "growth"]

STAY = -1  # the group of labels that are never left out: the only ones of their class


def dealt_groups(targets: np.ndarray, order: np.ndarray, turn: int = 0) -> np.ndarray:
    """The group of each label: labels are dealt out class by class, about one of each to a group.

    ``order`` says in which order those of a class are dealt. It should follow from what the labels
    are and not from where they stand, or nodes in another order would be grouped otherwise.
    ``turn`` is for another grouping of the same labels.
    """
    classes, counts = np.unique(targets, return_counts=True)
    n_groups = _count(len(targets), len(classes))
    groups = np.full(len(targets), STAY)
    offset = 0
    for place, (name, count) in enumerate(zip(classes, counts, strict=True)):
        if count < 2:
            continue
        members = np.flatnonzero(targets == name)
        members = members[np.argsort(order[members], kind="stable")]
        groups[members] = (np.arange(count) + offset + turn * place) % n_groups
        offset += count
    return groups


def growth(targets: np.ndarray) -> float:
    """By how much all labels are more than those that are left without a group."""
    n_groups = _count(len(targets), len(np.unique(targets)))
    return n_groups / (n_groups - 1)


def _count(n_labels: int, n_classes: int) -> int:
    return max(round(n_labels / n_classes), 2)
