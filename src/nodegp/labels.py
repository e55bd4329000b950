"""Labels as users write them, and as the model wants them.

Unlabelled nodes are marked in the label vector itself: by a value of the user's choice (-1
unless told otherwise), and by None or NaN.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

__all__ = [
    "Observations",
    "as_labels",
    "check_confidence",
    "encode",
    "is_labelled",
    "merged_classes",
    "require_classes",
]


class Observations(NamedTuple):
    """What is known of some nodes, in the order of their numbers."""

    nodes: np.ndarray
    labels: np.ndarray
    confidence: np.ndarray  # the probability that a label is right

    def at(self, index: np.ndarray) -> Observations:
        return Observations(*(part[index] for part in self))

    def revised(
        self, nodes: np.ndarray, labels: np.ndarray, confidence: np.ndarray, unlabelled: Any
    ) -> Observations:
        """With labels that are new, changed, or taken back where a value means no label."""
        # Of a node's labels the last counts, and none is left where that is no label.
        parts = zip(self, (nodes, labels, confidence), strict=True)
        everyone = Observations(*(np.concatenate(part) for part in parts))
        is_label = np.ones(len(everyone.nodes), dtype=bool)
        is_label[len(self.nodes) :] = is_labelled(labels, unlabelled)
        last = len(is_label) - 1 - np.unique(everyone.nodes[::-1], return_index=True)[1]
        last = last[is_label[last]]
        if not len(last):
            raise ValueError("no label would be left; a model needs at least one")
        return everyone.at(last)


def as_labels(y: Any) -> Any:
    """A list of strings with None or NaN among them as an array that keeps them apart.

    Left to itself numpy would write NaN as the string "nan".
    """
    is_list = isinstance(y, list | tuple)
    if is_list and any(isinstance(v, str) for v in y):
        return np.array(y, dtype=object)
    if (is_list and None in y) or (isinstance(y, np.ndarray) and y.dtype.kind == "O"):
        values = np.array(y, dtype=object)
        if all(v is None or isinstance(v, Real) for v in values.ravel().tolist()):
            return values.astype(float)  # numbers and gaps: None becomes NaN
    return y


def is_labelled(y: np.ndarray, unlabelled: Any) -> np.ndarray:
    """Which entries of a label vector are labels."""
    missing = np.asarray(y != y, dtype=bool)  # NaN
    if y.dtype.kind == "O":
        missing |= np.array([value is None for value in y.tolist()], dtype=bool)
    if unlabelled is not None and not (isinstance(unlabelled, float) and np.isnan(unlabelled)):
        same = y == unlabelled
        # Comparing strings with a number gives one False, not an array of them.
        missing |= np.asarray(same, dtype=bool) if np.shape(same) == y.shape else False
    return ~missing


def require_classes(labels: np.ndarray) -> None:
    """Raise if labels are amounts rather than classes."""
    with warnings.catch_warnings():
        # Almost as many classes as labels is nothing odd here: one label each is how one begins.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(labels)


def encode(y: np.ndarray, classes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Class labels as sorted classes and positions among them.

    ``classes`` may list classes that no label has yet.
    """
    if classes is None:
        try:
            classes = np.unique(y)
        except TypeError:
            kinds = sorted({type(v).__name__ for v in y.tolist()})
            raise ValueError(
                f"labels mix types that cannot be compared ({', '.join(kinds)}); use one type"
            ) from None
    else:
        classes = np.unique(np.asarray(classes))
        unknown = _new_labels(classes, y)
        if unknown:
            raise ValueError(f"labels {unknown[:5]} are not among classes={classes.tolist()}")
    if classes.dtype == object and all(isinstance(v, str) for v in classes.tolist()):
        classes = classes.astype(str)
        y = y.astype(str)
    return classes, np.searchsorted(classes, y)


def merged_classes(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The classes there are, and those among the labels that are new."""
    new = _new_labels(classes, labels)
    if not new:
        return classes
    if {isinstance(v, str) for v in new} != {isinstance(v, str) for v in classes.tolist()}:
        raise ValueError(
            f"new labels {new[:5]} and the classes {classes.tolist()[:5]} are not of one type; "
            "write them the same way"
        )
    return np.unique(np.array([*classes.tolist(), *new]))


def _new_labels(classes: np.ndarray, labels: np.ndarray) -> list[Any]:
    """The labels that are none of the classes, each once."""
    names = set(classes.tolist())
    return [value for value in dict.fromkeys(labels.tolist()) if value not in names]


def check_confidence(confidence: Any, n_nodes: int, labelled: np.ndarray) -> np.ndarray:
    """How sure the expert was of each label; ones if not said."""
    if confidence is None:
        return np.ones(len(labelled))
    values = np.asarray(confidence, dtype=np.float64)
    if values.shape != (n_nodes,):
        raise ValueError(
            f"label_confidence needs one value per node, shape ({n_nodes},), got {values.shape}"
        )
    values = values[labelled]
    is_bad = ~((values > 0) & (values <= 1))
    if is_bad.any():
        raise ValueError(
            "label_confidence is the probability that a label is right, in (0, 1]; got "
            f"{values[is_bad][0]}"
        )
    return values
