"""Labels as users write them, and as the model wants them.

Unlabelled nodes are marked in the label vector itself: by a value of the user's choice (-1
unless told otherwise), by None or NaN, and by empty text.
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
    "of_one_type",
    "require_classes",
]


_REMEDY = "write them as text, whole numbers, fractions, or True and False"


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
        before = self._replace(labels=self.labels.astype(object))  # or numbers become text
        parts = zip(before, (nodes, labels, confidence), strict=True)
        everyone = Observations(*(np.concatenate(part) for part in parts))
        is_label = np.ones(len(everyone.nodes), dtype=bool)
        is_label[len(self.nodes) :] = is_labelled(labels, unlabelled)
        last = len(is_label) - 1 - np.unique(everyone.nodes[::-1], return_index=True)[1]
        last = last[is_label[last]]
        if not len(last):
            raise ValueError("no label would be left; a model needs at least one")
        return everyone.at(last)


def as_labels(y: Any, what: str = "labels") -> np.ndarray:
    """Labels as an array: of one type, or of objects with None where there is no label.

    Left to itself numpy would write NaN among text as "nan", and whole numbers with gaps as
    fractions.
    """
    if np.ma.isMaskedArray(y) or not isinstance(getattr(y, "dtype", None), np.dtype):
        # Columns of pandas and polars that may have gaps, tensors.
        listed = next((m for m in ("tolist", "to_list", "to_pylist") if hasattr(y, m)), None)
        y = y if listed is None else getattr(y, listed)()
    is_mixed = isinstance(y, list | tuple) and len({type(value) for value in y}) > 1
    try:
        values = np.array(y, dtype=object) if is_mixed else np.asarray(y)
    except ValueError:  # of numpy: rows of several lengths
        raise ValueError(f"{what} must be one value for each node, not lists") from None
    if values.dtype.kind == "T":
        values = values.astype(object)
    if values.dtype.kind not in "biufUO" or (values.dtype.kind == "f" and values.itemsize > 8):
        raise ValueError(f"{what} of type {values.dtype} cannot be used; {_REMEDY}")
    if values.dtype.kind == "O":
        values = values.copy()
        values[_is_gap(values)] = None
    return values


def is_labelled(y: np.ndarray, unlabelled: Any) -> np.ndarray:
    """Which entries of a label vector are labels."""
    if y.dtype.kind == "O":
        missing = _is_gap(y)
    else:
        missing = y == "" if y.dtype.kind == "U" else y != y  # NaN
    if unlabelled is not None and not (isinstance(unlabelled, float) and np.isnan(unlabelled)):
        same = y == unlabelled
        # Comparing strings with a number gives one False, not an array of them.
        missing |= np.asarray(same, dtype=bool) if np.shape(same) == y.shape else False
    return ~missing


def _is_gap(values: np.ndarray) -> np.ndarray:
    """Where objects are None, NaN, empty text, or what pandas has in the place of these."""
    gaps = [
        value is None
        or (isinstance(value, str) and not value)
        or (isinstance(value, Real) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
        for value in values.ravel().tolist()
    ]
    return np.array(gaps, dtype=bool).reshape(values.shape)


def of_one_type(labels: np.ndarray) -> np.ndarray:
    """Labels without gaps as an array of text, whole numbers, fractions or booleans."""
    if labels.dtype.kind != "O":
        return labels
    items = labels.tolist()
    families = {_family(item) for item in items}
    kinds = ", ".join(sorted({type(item).__name__ for item in items}))
    if len(families) > 1:
        raise ValueError(f"labels mix types that cannot be compared ({kinds}); use one type")
    values = labels if "" in families else np.array(items)
    if values.dtype.kind not in "biufU":
        raise ValueError(f"labels of type {kinds} cannot be used; {_REMEDY}")
    return values


def _family(label: Any) -> str:
    """What labels can be compared with this one; nothing for one that is no label."""
    if isinstance(label, bool | np.bool_):
        return "boolean"
    return "text" if isinstance(label, str) else "number" if isinstance(label, Real) else ""


def require_classes(labels: np.ndarray) -> None:
    """Raise if labels are amounts rather than classes."""
    values = of_one_type(labels)
    if values.dtype.kind != "f":
        return
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        # Almost as many classes as labels is nothing odd here: one label each is how one begins.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(values)


def encode(y: np.ndarray, classes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Class labels as sorted classes and positions among them.

    ``classes`` may list classes that no label has yet.
    """
    y = of_one_type(y)
    if classes is None:
        classes = np.unique(y)
    else:
        classes = np.unique(of_one_type(as_labels(classes)))
        unknown = _new_labels(classes, y)
        if unknown:
            raise ValueError(f"labels {unknown[:5]} are not among classes={classes.tolist()}")
    return classes, np.searchsorted(classes, y)


def merged_classes(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The classes there are, and those among the labels that are new."""
    new = _new_labels(classes, labels)
    if not new:
        return classes
    if {_family(v) for v in new} != {_family(v) for v in classes.tolist()}:
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
    values = as_labels(confidence, "label_confidence")
    if values.shape != (n_nodes,):
        raise ValueError(
            f"label_confidence needs one value per node, shape ({n_nodes},), got {values.shape}"
        )
    values = values[labelled]
    bad = [v for v in values.tolist() if not (isinstance(v, int | float) and 0 < v <= 1)]
    if bad:
        raise ValueError(
            f"label_confidence is the probability that a label is right, in (0, 1]; got {bad[0]!r}"
        )
    return values.astype(np.float64)
