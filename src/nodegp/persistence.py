"""Saving a fitted model to one file and reading it back, without pickle.

The file is in safetensors format: named arrays, and a JSON description among its metadata. A fitted
model is a tree of frozen values, and is written field by field as it stands; the graph goes along
on request, with what is known of its filtered features' lengths.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from nodegp.component import Component, UnknownComponentError, from_dict
from nodegp.declared import LARGEST, MismatchError, check_types, require
from nodegp.disk import GraphOnDisk, on_disk
from nodegp.estimators import GraphGPClassifier, GraphGPRegressor
from nodegp.files import check_place, write_atomically
from nodegp.gains import OwnClassGains, SiteGains
from nodegp.graph import Graph
from nodegp.labels import Observations
from nodegp.model import Diagnostics, FittedClassifier, FittedModel, FittedRegressor, Settings
from nodegp.model.regressor import Units
from nodegp.model.weighing import Score
from nodegp.posterior import Posterior
from nodegp.preprocessing import Preprocessor
from nodegp.prior import FilteredFeatures, OneFunction, SumInputs, SumPrior, WeightedRows
from nodegp.prior.edges import ALIKE, BOTH, is_derived, keep_derived
from nodegp.rows import Rows

__all__ = ["ModelFileError", "checksum", "is_model_file", "load", "save"]

FORMAT = "nodegp-model"
VERSION = 5

_ESTIMATORS: dict[str, Any] = {
    kind.__name__: kind for kind in (GraphGPClassifier, GraphGPRegressor)
}
_PARTS = {"estimator", "parameters", "n_neighbors", "input", "model", "alike", "lengths"}
_PARTS |= {"format", "version", "tables"}
# What a fitted model is made of, beside components, arrays and plain data.
_VALUES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Diagnostics,
        FittedClassifier,
        FittedRegressor,
        Graph,
        Observations,
        OwnClassGains,
        Posterior,
        Preprocessor,
        Rows,
        Score,
        Settings,
        SiteGains,
        SumInputs,
        Units,
        WeightedRows,
    )
}


class ModelFileError(ValueError):
    """A file that is no nodegp model, is damaged, or was written by a newer version."""

    def __init__(self, path: Path, what: str):
        super().__init__(f"{str(path)!r} {what}")


def save(
    model: Any,
    path: str | Path,
    include_graph: bool = False,
    tables: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted estimator. The file appears whole or not at all.

    ``tables`` says how the graph came out of a user's tables, in plain data and arrays. It is kept
    as it is; the model read back has it as ``tables_``, and keeps it when it is saved again.
    """
    if "model_" not in vars(model):
        raise ValueError("fit the model before saving it")
    check_place(Path(path))
    arrays = _Arrays({})
    fitted: FittedModel = model.model_
    keep_graph = include_graph or model.n_neighbors_ is not None
    if isinstance(fitted.graph, GraphOnDisk):
        keep_graph = False  # it has files of its own
    parts = {
        "estimator": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "n_neighbors": model.n_neighbors_,
        "input": {name: value for name, value in vars(model).items() if name.endswith("_in_")},
        "model": fitted if keep_graph else fitted.without_graph(),
        "alike": None,
        "lengths": [],
    }
    if keep_graph and fitted.graph is not None:
        if _relations(fitted) & {ALIKE, BOTH}:
            parts["alike"] = fitted.domain().relation(ALIKE).graph.adjacency
        parts["lengths"] = [domain.known_scale(*filtered) for filtered, domain in _scales(fitted)]
    description = {name: arrays.put(name, value) for name, value in parts.items()}
    description |= {"format": FORMAT, "version": VERSION}
    tables = getattr(model, "tables_", None) if tables is None else tables
    if tables is not None:
        description["tables"] = arrays.put("tables", dict(tables))
    description["checksum"] = checksum(description, arrays.stored)
    write_atomically(
        Path(path), to_bytes(arrays.stored, metadata={"nodegp": json.dumps(description)})
    )


def load(path: str | Path, graph: Any = None) -> Any:
    """Read an estimator written by :func:`save`. If the file does not contain the graph, ``graph``
    may be the one it was fitted on, in memory or stored."""
    model = _load(Path(path))
    if graph is not None:
        model.model_ = model.model_.with_graph(on_disk(graph))
    return model


def _load(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {str(path)!r}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ModelFileError(path, "is not a nodegp model, or is damaged or cut short") from error
    if "nodegp" not in metadata:
        raise ModelFileError(path, "is a safetensors file, but not a nodegp model")
    try:
        description = json.loads(metadata["nodegp"])
        version = int(description["version"]) if description.get("format") == FORMAT else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(path, "is damaged: its description is broken") from error
    if version is None:
        raise ModelFileError(path, "is not a nodegp model")
    if version > VERSION:
        remedy = f"; this nodegp reads up to {VERSION}. Update nodegp to read it."
        raise ModelFileError(path, f"has format version {version}{remedy}")
    if version < VERSION:
        remedy = "which this version does not read; fit the model again and save it."
        raise ModelFileError(path, f"has format version {version}, of an earlier nodegp, {remedy}")
    if description.pop("checksum", None) != checksum(description, stored):
        raise ModelFileError(path, "is damaged: it is not as it was written")
    try:
        return _rebuild(description, _Arrays(stored))
    except (UnknownComponentError, MismatchError) as error:
        raise ModelFileError(path, f"cannot be read: {error}") from error
    except Exception as error:  # whatever a description that makes no sense sets off
        kind = type(error).__name__
        raise ModelFileError(
            path, f"cannot be read, because it is damaged or of another version ({kind})"
        ) from error


def is_model_file(path: Path) -> bool:
    """Whether a file was written by :func:`save`, by the look of it."""
    try:
        with safe_open(str(path), framework="numpy") as file:
            return "nodegp" in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def checksum(description: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> int:
    """One changed bit in a number would go unnoticed otherwise, and give wrong predictions."""
    total = zlib.crc32(json.dumps(description).encode())
    for name in sorted(stored):
        array = stored[name]
        head = f"{name} {array.dtype.str} {array.shape}"
        total = zlib.crc32(array.reshape(-1).view(np.uint8).data, zlib.crc32(head.encode(), total))
    return total


def _rebuild(description: Mapping[str, Any], arrays: _Arrays) -> Any:
    parts = ("parameters", "input", "model", "alike", "lengths")
    parameters, looked_at, fitted, alike, lengths = (
        arrays.get(description[name]) for name in parts
    )
    require(description.keys() <= _PARTS, f"its parts are {sorted(description)}")
    kind = _ESTIMATORS[description["estimator"]]
    check_types(kind, parameters)
    model = kind(**parameters)
    require(isinstance(fitted, get_type_hints(kind)["model_"]), "its model is none, or another's")
    model.model_ = fitted
    model.n_neighbors_ = description["n_neighbors"]
    require(isinstance(model.n_neighbors_, int | None), "it does not say how many neighbours")
    require(looked_at.keys() <= {"n_features_in_", "feature_names_in_"}, "its input is unknown")
    vars(model).update(looked_at)
    _try(fitted)
    if alike is not None and fitted.graph is not None:
        require(alike.shape == fitted.graph.adjacency.shape, "nodes alike are of another graph")
        keep_derived(fitted.graph, fitted.domain().rows, alike)
    for (filtered, domain), scale in zip(_scales(fitted) if lengths else (), lengths, strict=True):
        if scale is not None:
            _, width = filtered
            shape = (domain.n_nodes, width) if width else (domain.n_nodes,)
            known = isinstance(scale, np.ndarray) and scale.dtype.kind == "f"
            require(known and scale.shape == shape, "lengths of filtered rows are of another graph")
            domain.put_scale(*filtered, scale)
    if "tables" in description:
        model.tables_ = arrays.get(description["tables"])
    return model


def _try(model: FittedModel) -> None:
    """Raise unless the parts of a model give a prediction, at a node of which nothing is known:
    a file may say of each what the others do not know."""
    relations = {name for name in _relations(model) if not is_derived(name)}
    width, is_featureless = model.preprocessor.n_features, model.preprocessor.kind == "one-hot"
    n_nodes = width if is_featureless else 1
    nothing = sp.csr_array((n_nodes, n_nodes))
    features = None if is_featureless else sp.csr_array((1, width))
    edges = dict.fromkeys(relations, nothing) or nothing
    values = model.joint(model.domain(Graph(edges, features)), np.arange(1))
    require(all(part.isfinite().all() for part in values), "it gives NaN or infinite values")
    if model.graph is not None:
        model.domain()  # whose features are checked against those fitted on
        require(relations <= set(model.graph.relations or ()), "kinds of edges are missing")


def _relations(model: FittedModel) -> set[str]:
    """The kinds of edges that a model looks along, beside the graph as it is."""
    parts = model.prior.parts if isinstance(model.prior, SumPrior) else (model.prior,)
    return {part.relation for part in parts if isinstance(part, OneFunction) and part.relation}


def _scales(model: FittedModel) -> Iterator[tuple[tuple[Any, Any], Any]]:
    """The filters and sketches whose rows have lengths worth keeping, and where those are."""
    for part in model.prior.parts if isinstance(model.prior, SumPrior) else (model.prior,):
        if isinstance(part, FilteredFeatures):
            yield (part.filter.polynomial(), part.sketch), part.where(model.domain())


class _Arrays:
    """Values as plain data and named arrays; a sparse matrix is three, text is its bytes and
    their ends."""

    def __init__(self, stored: dict[str, np.ndarray]) -> None:
        self.stored = stored

    def put(self, name: str, value: Any) -> Any:
        """Store the arrays of a value and return what to write in the description for it."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return None  # a stream that has moved on cannot be given back
        if isinstance(value, Component):
            return {"component": value.to_dict()}
        if isinstance(value, torch.Tensor):
            return {"tensor": self.put(name, value.detach().numpy())}
        if sp.issparse(value):
            for part in ("data", "indices", "indptr"):
                self.stored[f"{name}.{part}"] = np.ascontiguousarray(getattr(value, part))
            return {"sparse": name, "shape": list(value.shape)}
        if isinstance(value, np.ndarray):
            if value.dtype.kind in "OU":
                return self._put_text(name, value)
            self.stored[name] = np.ascontiguousarray(value)
            return {"array": name}
        if isinstance(value, dict):
            # As ASCII, since a key may have letters that the name of an array must not have.
            return {"dict": {k: self.put(f"{name}.{k!a}", item) for k, item in value.items()}}
        if type(value).__name__ in _VALUES:
            parts = {k: self.put(f"{name}.{k}", part) for k, part in _fields(value).items()}
            return {"type": type(value).__name__, "fields": parts}
        if isinstance(value, tuple | list):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [self.put(f"{name}.{j}", v) for j, v in enumerate(value)]}
        raise TypeError(f"cannot save {name}={value!r}")

    def _put_text(self, name: str, value: np.ndarray) -> dict[str, Any]:
        items, is_object = value.tolist(), value.dtype == object
        if not all(isinstance(item, str) for item in items):
            odd = [v for v in items if not isinstance(v, str | int | float | None)]
            if odd:
                raise ValueError(
                    f"{name} holds a {type(odd[0]).__name__} and cannot be saved; only text and "
                    "numbers can"
                )
            return {"strings": items, "object": is_object}
        # Not as JSON: a million ids would not fit in the header.
        encoded = [item.encode("utf-8", "surrogatepass") for item in items]
        self.stored[f"{name}.utf8"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        self.stored[f"{name}.ends"] = np.cumsum([len(item) for item in encoded], dtype=np.int64)
        return {"text": name, "object": is_object}

    def get(self, entry: Any) -> Any:
        """The value that :meth:`put` described."""
        match entry:
            case {"component": settings}:
                return from_dict(settings)
            case {"type": kind, "fields": parts}:
                values = {name: self.get(part) for name, part in parts.items()}
                check_types(_VALUES[kind], values)
                return _VALUES[kind](**values)
            case {"dict": items}:
                return {key: self.get(item) for key, item in items.items()}
            case {"tuple": items}:
                return tuple(self.get(item) for item in items)
            case {"list": items}:
                return [self.get(item) for item in items]
            case {"tensor": array}:
                return torch.from_numpy(self.get(array))
            case {"array": name}:
                return self._numbers(name)
            case {"sparse": name, "shape": shape}:
                parts = tuple(self._numbers(f"{name}.{p}") for p in ("data", "indices", "indptr"))
                matrix = sp.csr_array(parts, shape=tuple(shape))
                matrix.check_format(full_check=True)  # bad indices would crash the process
                return matrix
            case {"text": name, "object": is_object}:
                whole = self.stored[f"{name}.utf8"].tobytes()
                ends = self.stored[f"{name}.ends"].tolist()
                pieces = [whole[a:b] for a, b in zip([0, *ends], ends, strict=False)]
                items = [piece.decode("utf-8", "surrogatepass") for piece in pieces]
                return np.array(items, dtype=object if is_object else str)
            case {"strings": items, "object": is_object}:
                return np.array(items, dtype=object if is_object else str)
            case dict():
                raise ValueError(f"no value is described by {list(entry)}")
        return entry

    def _numbers(self, name: str) -> np.ndarray:
        array = self.stored[name]
        is_usable = array.dtype.kind != "f" or float(np.abs(array).max(initial=0.0)) <= LARGEST
        require(is_usable, f"{name} has NaN, infinite or far too large numbers")
        return array


def _fields(value: Any) -> dict[str, Any]:
    """What to build an equal value of: a graph's adjacency is made of its kinds of edges."""
    if isinstance(value, Graph):
        edges = value.relations or value.adjacency
        parts = {"adjacency": edges, "features": value.features, "ids": value.ids}
        return parts | {"is_prepared": value.is_prepared, "links_alike": value.links_alike}
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined]
    return {item.name: getattr(value, item.name) for item in fields(value)}
