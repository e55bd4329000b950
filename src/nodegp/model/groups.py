"""Groups of labels that are left out together, so that what is left is in the same proportions."""

from __future__ import annotations

import numpy as np

__all__ = ["STAY", "dealt_groups", "growth"]

STAY = -1  # the group of labels that are never left out: the only ones of their class
# Labels in a group: one of each class of up to so many. With more, whether some classes lose a
# label and others none tilts little, and large groups are slow to leave out.
_LARGEST = 20
_SAME = 1e-5  # of the largest: what in an order differs by less does so by rounding


def dealt_groups(targets: np.ndarray, order: np.ndarray, turn: int = 0) -> np.ndarray:
    """The group of each label: labels are dealt out class by class, about one of each to a group.

    ``order`` says in which order those of a class are dealt, and classes too. It should follow from
    what the labelled nodes are: with their numbers or the names of classes in its place, nodes in
    another order or classes with other names would be grouped otherwise. ``turn`` is for another
    grouping of the same labels.
    """
    by_class = [np.flatnonzero(targets == name) for name in np.unique(targets)]
    n_groups = max(round(len(targets) / min(len(by_class), _LARGEST)), 2)
    groups = np.full(len(targets), STAY)
    order = np.round(order / max(_SAME * np.abs(order).max(initial=0.0), 1e-300))
    offset = 0
    dealt = [members for members in by_class if len(members) > 1]
    for place, members in enumerate(sorted(dealt, key=lambda members: order[members].min())):
        in_order = members[np.argsort(order[members], kind="stable")]
        groups[in_order] = (np.arange(len(members)) + offset + turn * place) % n_groups
        offset += len(members)
    return groups


def growth(targets: np.ndarray) -> float:
    """By how much the labels of a class are more than those that are left without a group."""
    per_class = max(round(len(targets) / len(np.unique(targets))), 2)
    return per_class / (per_class - 1)
