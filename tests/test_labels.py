"""Labels: which entries are labels, classes and their positions, confidences."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from nodegp import Graph, GraphGPClassifier, GraphGPRegressor
from nodegp.labels import as_labels, check_confidence, encode, is_labelled, merged_classes

NAN = float("nan")


@pytest.mark.parametrize(
    ("y", "unlabelled", "expected"),
    [
        (np.array([0, -1, 2]), -1, [True, False, True]),
        (np.array([0, -1, 2]), 0, [False, True, True]),  # -1 is a class of theirs
        (np.array([0, -1, 2]), None, [True, True, True]),
        (np.array([0, -1, 2]), NAN, [True, True, True]),
        (np.array([0.5, NAN, -1.0]), -1, [True, False, False]),
        (np.array([0.5, NAN, -1.0]), None, [True, False, True]),
        (np.array([0.5, NAN, -1.0]), NAN, [True, False, True]),
        (np.array([0.5, NAN, -1.0], dtype=np.float32), np.float64(NAN), [True, False, True]),
        (np.array(["a", "?", "b"]), "?", [True, False, True]),
        (np.array(["a", "?", "b"]), -1, [True, True, True]),
        (np.array(["a", "-1", "b"]), -1, [True, True, True]),  # a string is not a number
        (np.array(["a", None, "b"], dtype=object), -1, [True, False, True]),
        (np.array(["a", NAN, "?"], dtype=object), "?", [True, False, False]),
        (np.array([1, None, -1], dtype=object), -1, [True, False, False]),
        (np.array(["a", -1, None], dtype=object), -1, [True, False, False]),
        (np.array([True, False]), -1, [True, True]),
        (np.array([], dtype=int), -1, []),
        (np.array([3, 255], dtype=np.uint8), -1, [True, True]),
    ],
)
def test_what_is_a_label(y, unlabelled, expected):
    copy = y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labelled = is_labelled(y, unlabelled)
    assert labelled.dtype == bool
    assert labelled.tolist() == expected
    assert repr(y) == repr(copy), "the labels changed"


@pytest.mark.parametrize(
    ("y", "classes", "positions"),
    [
        (np.array([5, 2, 5, 9]), [2, 5, 9], [1, 0, 1, 2]),
        (np.array([1.0, 0.0]), [0.0, 1.0], [1, 0]),
        (np.array(["b", "a", "ccc"]), ["a", "b", "ccc"], [1, 0, 2]),
        (np.array(["b", "a", "ccc"], dtype=object), ["a", "b", "ccc"], [1, 0, 2]),
        (np.array([3, 1], dtype=object), [1, 3], [1, 0]),
        (np.array([True, False]), [False, True], [1, 0]),
        (np.array([-1, 1]), [-1, 1], [0, 1]),
    ],
)
def test_encode(y, classes, positions):
    found, codes = encode(y, None)
    assert found.tolist() == classes
    assert codes.tolist() == positions
    assert found[codes].tolist() == y.tolist(), "the codes lead back to the labels"


def test_strings_are_not_left_as_objects():
    """An array of objects cannot be saved without pickle."""
    found, _ = encode(np.array(["b", "a"], dtype=object), None)
    assert found.dtype.kind == "U"


@pytest.mark.parametrize(
    ("y", "classes", "expected", "positions"),
    [
        (np.array([2, 0]), [2, 1, 0, 3], [0, 1, 2, 3], [2, 0]),
        (np.array(["b"]), ["long", "b", "a"], ["a", "b", "long"], [1]),
        (np.array(["b", "a"], dtype=object), ["c", "b", "a"], ["a", "b", "c"], [1, 0]),
        (
            np.array(["b", "a"], dtype=object),
            np.array(["c", "b", "a"], dtype=object),
            ["a", "b", "c"],
            [1, 0],
        ),
        (np.array(["b", "a"]), np.array(["c", "b", "a"], dtype=object), ["a", "b", "c"], [1, 0]),
        (np.array([1, 1]), [1, 1, 0], [0, 1], [1, 1]),
    ],
)
def test_encode_with_classes_not_seen_yet(y, classes, expected, positions):
    found, codes = encode(y, classes)
    assert found.tolist() == expected
    assert codes.tolist() == positions


def test_labels_outside_the_classes():
    with pytest.raises(ValueError, match=r"labels \[7\] are not among classes=\[0, 1\]"):
        encode(np.array([0, 7]), [0, 1])
    with pytest.raises(ValueError, match=r"labels \['z'\]"):
        encode(np.array(["a", "z"], dtype=object), ["a", "b"])


@pytest.mark.parametrize("classes", [None, ["a", "b"]])
def test_mixed_types_are_refused_by_name(classes):
    with pytest.raises(ValueError, match=r"int, str|are not among"):
        encode(np.array(["a", 1], dtype=object), classes)


def test_confidence_defaults_to_certainty():
    np.testing.assert_array_equal(check_confidence(None, 5, np.array([1, 3])), [1.0, 1.0])


def test_confidence_is_read_at_the_labelled_nodes_only():
    """Elsewhere it has no meaning and may be anything."""
    values = check_confidence([NAN, 0.9, -5.0, 1, 0.0], 5, np.array([3, 1]))
    np.testing.assert_array_equal(values, [1.0, 0.9])


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.1, NAN, float("inf")])
def test_confidence_is_a_probability(bad):
    with pytest.raises(ValueError, match=r"in \(0, 1\]; got"):
        check_confidence([1.0, bad], 2, np.array([0, 1]))


@pytest.mark.parametrize("confidence", [[1.0], 0.9, [[1.0, 1.0]], [1.0] * 3])
def test_confidence_needs_one_value_per_node(confidence):
    with pytest.raises(ValueError, match=r"one value per node, shape \(2,\)"):
        check_confidence(confidence, 2, np.array([0, 1]))


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, None, 1], [0, 1]),
        ([0, NAN, 1], [0, 1]),
        (np.array([0, None, 1], dtype=object), [0, 1]),
        ([True, None, False], [False, True]),
        (["a", "", "b"], ["a", "b"]),
        (np.array(["a", "", "b"]), ["a", "b"]),
        (pd.array([0, None, 1], dtype="Int64"), [0, 1]),
        (pd.array([True, None, False], dtype="boolean"), [False, True]),
        (pd.Series(["a", None, "b"], dtype="string"), ["a", "b"]),
        (pd.Categorical(["a", None, "b"]), ["a", "b"]),
        (np.ma.masked_array([0, 7, 1], [False, True, False]), [0, 1]),
    ],
)
def test_labels_keep_their_type_beside_gaps(y, expected):
    labels = as_labels(y)
    assert is_labelled(labels, -1).tolist() == [True, False, True]
    classes = encode(labels[[0, 2]], None)[0].tolist()
    assert classes == expected
    assert [type(v) for v in classes] == [type(v) for v in expected]


@pytest.mark.parametrize(
    "y",
    [
        np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        np.array([1, 2], "timedelta64[s]"),
        np.array([0, 1], np.complex128),
        np.array([b"a", b"b"]),
        [datetime.date(2020, 1, 1), None],
        [Decimal(1), Decimal(2)],
    ],
)
@pytest.mark.parametrize("kind", [GraphGPClassifier, GraphGPRegressor])
def test_labels_that_no_file_could_keep_are_refused_at_fit(kind, y):
    with pytest.raises(ValueError, match=r"labels of type .* cannot be used; write them as text"):
        kind().fit(Graph(np.ones((2, 2))), y)


def test_a_number_does_not_become_text_among_new_classes():
    with pytest.raises(ValueError, match="not of one type"):
        merged_classes(np.array([False, True]), np.array([2], dtype=object))
    model = GraphGPClassifier().fit(Graph(np.ones((3, 3))), ["a", "b", None])
    with pytest.raises(ValueError, match=r"new labels \[1\]"):
        model.update([2], [1])
