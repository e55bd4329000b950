"""Arrays of every type to the estimators in Python, and what is right after.

Right is an error of ours that says what is wrong, or a fit: probabilities that are some, labels of
the type that was given, and a model that is the same when it was saved and read.
"""

from __future__ import annotations

import datetime
import linecache
import random
import tempfile
import traceback
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
import torch

N = 12
NAN = float("nan")
_DTYPES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64", "longdouble", "complex64", "complex128", "bool", "object", "str", "S4", "V8", ">i4",
    ">f8", ">f4", "datetime64[D]", "datetime64[ns]", "timedelta64[s]", [("a", float), ("b", int)],
)  # fmt: skip
Inputs = dict[str, Any]


def complaints(seed: str, folder: Path | None = None) -> tuple[str, list[str], str]:
    """How a case ended, what is wrong with it, and what it was."""
    rng = random.Random(seed)
    inputs, what = make(rng)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for kind in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        try:
            found, end = _used(inputs, rng), "fitted"
        except Exception as error:
            found, end = _about(error), "refused"
    slips = [w for w in warned if not issubclass(w.category, UserWarning)]
    return end, found + [f"{w.category.__name__}: {w.message}" for w in slips], what


def make(rng: random.Random) -> tuple[Inputs, str]:
    """Valid inputs, of which one or two are then of another type."""
    inputs: Inputs = {
        "estimator": rng.choice(["classifier", "classifier", "regressor"]),
        "adjacency": np.roll(np.eye(N), 1, axis=1) + np.roll(np.eye(N), 3, axis=1),
        "features": np.random.default_rng(rng.randrange(99)).standard_normal((N, 3)),
        "y": np.array([0, 1, 2] * 4),
        "ids": [f"n{i}" for i in range(N)],
        "confidence": None,
    }
    makers: dict[str, Callable[[Any, random.Random], Any]] = {
        "y": labels, "features": numbers, "adjacency": numbers, "ids": names,
        "confidence": lambda _, rng: confidence(rng),
    }  # fmt: skip
    notes = []
    for part in rng.sample(["y", "y", "y", "features", "adjacency", "ids", "confidence"], 2)[
        : rng.choice([1, 1, 2])
    ]:
        inputs[part] = makers[part](inputs[part], rng)
        notes.append(f"{part}={inputs[part]!r:.300}")
    return inputs, f"{inputs['estimator']} {'; '.join(notes)}"


# --- what is given --------------------------------------------------------------------------------


def labels(plain: Any, rng: random.Random) -> Any:
    """Labels of some type, with or without gaps."""
    codes = [rng.choice([0, 1, 2]) for _ in range(N)]
    dates = [datetime.date(2020, 1, 1 + c) for c in codes]
    items = rng.choice(
        [codes, codes, [float(c) for c in codes], [c / 3 for c in codes], [c > 0 for c in codes],
         ["abc"[c] for c in codes], [b"abc"[c : c + 1] for c in codes], dates,
         [Decimal(c) for c in codes], [Fraction(c, 2) for c in codes], [(c,) for c in codes],
         [np.int8(c) for c in codes], [np.bool_(c > 0) for c in codes],
         [np.str_("abc"[c]) for c in codes], [np.float16(c) for c in codes],
         [1j * c for c in codes], [pd.Timestamp(d) for d in dates],
         [np.datetime64(d) for d in dates], [2**70 + c for c in codes],
         [["a", 1, True][c] for c in codes], [[1, True, 2][c] for c in codes],
         [[1, 2.5, 3][c] for c in codes], [[c] for c in codes], [[c] * (c + 1) for c in codes]]
    )  # fmt: skip
    gap = rng.choice([None, None, NAN, "", -1, pd.NA, pd.NaT, np.datetime64("NaT"), np.nan])
    if rng.random() < 0.6:
        items = [gap if rng.random() < 0.3 else item for item in items]
    containers: list[Callable[[Any], Any]] = [
        list, tuple, _objects, _objects, np.array, pd.Series, lambda v: pd.Series(v, dtype=object),
        pd.Categorical, lambda v: pd.Series(v).convert_dtypes(),
        lambda v: pl.Series(v, strict=True),
        _arrow, torch.tensor, lambda v: np.array(v)[:, None],
        lambda v: pd.array(v, dtype="Int64"),
        lambda v: pd.array(v, dtype="boolean"), lambda v: pd.array(v, dtype="string"),
        lambda v: np.ma.masked_array(v, [i % 5 == 0 for i in range(N)]),
        lambda v: np.array(v).astype(rng.choice(_DTYPES)),
        lambda v: np.array(v, rng.choice(_DTYPES)),
        lambda v: {f"n{i}": item for i, item in enumerate(v)}, lambda v: v[:-1],
        lambda v: pd.Index(v),
        lambda v: pd.DataFrame({"y": v}), lambda v: np.array(v, np.dtypes.StringDType()),
        lambda v: pd.arrays.SparseArray(v), lambda v: np.array([v, v]), lambda v: v[0],
    ]  # fmt: skip
    return _contained(items, containers, rng)


def numbers(plain: np.ndarray, rng: random.Random) -> Any:
    """A matrix of some type, dense or sparse, with or without what is no number."""
    matrix: Any = np.abs(plain) if rng.random() < 0.5 else plain
    if rng.random() < 0.3:
        matrix = matrix.copy()
        matrix[rng.randrange(N), 0] = rng.choice([NAN, np.inf, 1e300, 1e-320, -1.0, 1e160, 1e30])
    with np.errstate(all="ignore"):
        matrix = matrix * rng.choice([1, 1, 1, 0, 100, 1e100, 1e-100, 1e200, 1e-200])
    dtype = rng.choice(_DTYPES)
    sparse = [sp.csr_array, sp.csc_array, sp.coo_array, sp.bsr_array, sp.dia_array, sp.lil_array,
              sp.dok_array, sp.csr_matrix, sp.coo_matrix]  # fmt: skip
    containers: list[Callable[[Any], Any]] = [
        lambda m: m.astype(dtype), lambda m: m.astype(dtype), lambda m: m.astype(dtype).tolist(),
        lambda m: rng.choice(sparse)(m.astype(dtype)), lambda m: rng.choice(sparse)(m),
        pd.DataFrame, lambda m: pd.DataFrame(m).convert_dtypes(), lambda m: pl.DataFrame(m),
        torch.tensor, lambda m: torch.tensor(m, requires_grad=True), np.asfortranarray,
        lambda m: m[::-1], lambda m: np.ma.masked_greater(m, 0.5), lambda m: m[:, :0],
        lambda m: m[0],
        lambda m: m[:-1], lambda m: m[:, :, None], lambda m: np.asmatrix(m),
        lambda m: {"a": m, "b": m.T},
        lambda m: _objects([*m.ravel(), None][1:]).reshape(m.shape), lambda m: pd.DataFrame(m > 0),
        lambda m: torch.tensor(m).to_sparse(), lambda m: m[0, 0],
        lambda m: np.longdouble(m) * 1e300 * 1e300,
    ]  # fmt: skip
    return _contained(matrix, containers, rng)


def names(plain: Any, rng: random.Random) -> Any:
    numbered = list(range(100, 100 + N))
    odd = rng.choice([None, NAN, "", 3.5, b"x", "n1", pd.NA, pd.NaT, (1, 2), 2**80, -5, True, 1j])
    items = rng.choice([plain, numbered, [float(i) for i in numbered], [i / 2 for i in numbered]])
    if rng.random() < 0.5:
        items = [*items[:-1], odd]
    containers: list[Callable[[Any], Any]] = [
        list, tuple, np.array, _objects, pd.Series, pd.Index, _arrow,
        lambda v: pl.Series(v, strict=True),
        lambda v: np.array(v).astype(rng.choice(_DTYPES)), lambda v: pd.Series(v).convert_dtypes(),
        lambda v: np.array(v)[:, None], lambda v: v[:-1],
        lambda v: np.array(v, np.dtypes.StringDType()),
        pd.Categorical, lambda v: pd.date_range("2020", periods=N), torch.tensor, lambda v: v[0],
    ]  # fmt: skip
    return _contained(items, containers, rng)


def confidence(rng: random.Random) -> Any:
    items = [rng.choice([0.6, 0.9, 1.0]) for _ in range(N)]
    if rng.random() < 0.5:
        items[rng.randrange(N)] = rng.choice(
            [None, NAN, 0, 1, 2, "0.5", "", pd.NA, True, 0.5j, b"1"]
        )
    containers: list[Callable[[Any], Any]] = [
        list, _objects, np.array, pd.Series, lambda v: pd.Series(v).convert_dtypes(), torch.tensor,
        lambda v: np.array(v).astype(rng.choice(_DTYPES)), lambda v: np.array(v)[:, None],
        lambda v: np.ma.masked_greater(np.array(v, float), 0.7), lambda v: v[:-1],
        lambda v: v[0], _arrow,
    ]  # fmt: skip
    return _contained(items, containers, rng)


def _objects(items: Any) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _arrow(items: Any) -> pa.Array:
    """An array of Arrow; an error where Arrow itself would end the process."""
    kinds = set(map(type, items))
    if np.bool_ in kinds and any(issubclass(kind, np.datetime64) for kind in kinds):
        raise TypeError("pyarrow crashes at numpy's dates beside its booleans")
    return pa.array(items)


def _contained(items: Any, containers: list[Callable[[Any], Any]], rng: random.Random) -> Any:
    """The items in a container that takes them."""
    for container in rng.sample(containers, len(containers)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return container(items)
        except Exception:  # this one does not take them
            continue
    return items


# --- what is right --------------------------------------------------------------------------------


def _about(error: Exception) -> list[str]:
    """Nothing, for an error that someone has raised on purpose, with a sentence."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    near = "".join(linecache.getline(last.filename, line) for line in (last.lineno or 0,))
    on_purpose = "raise" in near and ("nodegp" in last.filename or "sklearn/utils" in last.filename)
    good = isinstance(error, ValueError | TypeError) and on_purpose and 15 < len(str(error)) < 900
    where = f"{Path(last.filename).name}:{last.lineno}"
    return [] if good else [f"{type(error).__name__} at {where}: {str(error)[:200]}"]


def _used(inputs: Inputs, rng: random.Random) -> list[str]:
    """Fit, predict, save and load; what is wrong with what came out."""
    import nodegp

    graph = nodegp.Graph(inputs["adjacency"], inputs["features"], inputs["ids"])
    is_classifier = inputs["estimator"] == "classifier"
    kind = nodegp.GraphGPClassifier if is_classifier else nodegp.GraphGPRegressor
    model = kind(unlabelled=rng.choice([-1, -1, None]))
    model.fit(graph, inputs["y"], label_confidence=inputs["confidence"])
    found = _labelled(inputs["y"], model) if is_classifier else []
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m", include_graph=True)
        again = nodegp.load(Path(folder) / "m")
    for one in (model, again):
        found += _classes(one) if is_classifier else _finite(one.predict(return_std=True))
    values, same = (m.predict_proba() if is_classifier else m.predict() for m in (model, again))
    # Rows that a model has kept were made with those of labels alone: last digits are others.
    if not np.allclose(values, same, rtol=1e-12, atol=1e-13):
        found.append("predictions are others after saving and loading")
    if is_classifier:
        before, after = model.classes_, again.classes_
        if before.dtype.kind != after.dtype.kind or before.tolist() != after.tolist():
            found.append(f"classes {before!r} came back as {after!r}")
        model.update([3], [model.classes_[0]])
        found += _classes(model)
    return found


def _classes(model: Any) -> list[str]:
    proba, frame = model.predict_proba(), model.predict_frame(kind="pandas")
    found = [] if proba.min() >= 0 and np.allclose(proba.sum(1), 1) else ["no probabilities"]
    ids, expected = frame["id"].tolist(), model.graph_.ids.tolist()
    if model.graph_.ids.dtype == object and isinstance(ids[0], str):  # of several types: as text
        expected = [str(name) for name in expected]
    if ids != expected:
        found.append(f"ids {model.graph_.ids!r} became {ids}")
    if not set(frame["label"].tolist()) <= set(model.classes_.tolist()):
        found.append("the table has other labels")
    return found + _finite([proba])


def _finite(values: Any) -> list[str]:
    return [] if all(np.isfinite(part).all() for part in values) else ["NaN or infinite values"]


def _labelled(y: Any, model: Any) -> list[str]:
    """Whether the labels are those that were given, in their type, and gaps are none."""
    if isinstance(y, dict):
        y = list(y.values())
    if isinstance(y, pd.DataFrame):
        y = y["y"]
    method = next((m for m in ("to_pylist", "tolist", "to_list") if hasattr(y, m)), None)
    items = list(y) if method is None else getattr(y, method)()
    items = [item[0] if isinstance(item, list | tuple) else item for item in items]
    items = [item.item() if isinstance(item, np.generic) else item for item in items]
    is_gap = [
        item is None or item is pd.NA or item is pd.NaT or item == "" or item != item
        or (item == -1 and model.unlabelled == -1) for item in items
    ]  # fmt: skip
    given = {n: item for n, item in enumerate(items) if not is_gap[n]}
    kept = dict(zip(model.labelled_.tolist(), model.labels_.tolist(), strict=True))
    if given != kept:
        return [f"labels {list(given.values())[:6]} became {list(kept.values())[:6]}"]
    kinds = {type(item) for item in given.values()}
    kinds = {float} if kinds == {int, float} else kinds
    kept_kinds = {type(item) for item in kept.values()}
    return [] if kinds == kept_kinds else [f"labels of type {kinds} became {kept_kinds}"]
