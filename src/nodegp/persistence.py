"""Saving a fitted model to one file and reading it back, without pickle.

The file is in safetensors format: named arrays, and a JSON description among its metadata. A fitted
model is a tree of frozen values, and is written field by field as it stands; the graph goes along
on request, with what is known of its filtered features' lengths.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from nodegp.component import Component, from_dict
from nodegp.estimators import GraphGPClassifier, GraphGPRegressor
from nodegp.files import check_place, write_atomically
from nodegp.graph import Graph
from nodegp.labels import Observations
from nodegp.model import Diagnostics, FittedClassifier, FittedModel, FittedRegressor, Settings
from nodegp.model.comparison import Score
from nodegp.model.regressor import Units
from nodegp.posterior import Posterior
from nodegp.preprocessing import Preprocessor
from nodegp.prior import FilteredFeatures, SumInputs, SumPrior, WeightedRows
from nodegp.rows import Rows

__all__ = ["ModelFileError", "load", "save"]

FORMAT = "nodegp-model"
VERSION = 2

_ESTIMATORS: dict[str, Any] = {
    kind.__name__: kind for kind in (GraphGPClassifier, GraphGPRegressor)
}
# What a fitted model is made of, beside components, arrays and plain data.
_VALUES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Diagnostics,
        FittedClassifier,
        FittedRegressor,
        Observations,
        Posterior,
        Preprocessor,
        Rows,
        Score,
        Settings,
        SumInputs,
        Units,
        WeightedRows,
    )
}


class ModelFileError(ValueError):
    """A file that is no nodegp model, is damaged, or was written by a newer version."""


def save(
    model: Any,
    path: str | Path,
    include_graph: bool = False,
    tables: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted estimator. The file appears whole or not at all.

    ``tables`` is plain data that says how the graph came out of a user's tables. It is kept as
    it is; the model read back has it as ``tables_``, and keeps it when it is saved again.
    """
    if "model_" not in vars(model):
        raise ValueError("fit the model before saving it")
    check_place(Path(path))
    arrays = _Arrays()
    fitted: FittedModel = model.model_
    keep_graph = include_graph or model.n_neighbors_ is not None
    looked_at = {k: v for k, v in vars(model).items() if k.endswith("_in_")}
    description: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(model).__name__,
        "parameters": {
            k: arrays.put(f"parameters.{k}", v) for k, v in model.get_params(deep=False).items()
        },
        "n_neighbors": model.n_neighbors_,
        "input": {k: arrays.put(k, v) for k, v in looked_at.items()},
        "model": arrays.put("model", fitted if keep_graph else fitted.without_graph()),
        "lengths": [],
    }
    if keep_graph and fitted.graph is not None:
        description["lengths"] = [
            arrays.put(
                f"lengths.{j}", part_domain.known_scale(part.filter.polynomial(), part.sketch)
            )
            for j, (part, part_domain) in enumerate(_with_lengths(fitted))
        ]
    tables = getattr(model, "tables_", None) if tables is None else tables
    if tables is not None:
        description["tables"] = tables
    description["checksum"] = _checksum(description, arrays.stored)
    write_atomically(
        Path(path), to_bytes(arrays.stored, metadata={"nodegp": json.dumps(description)})
    )


def load(path: str | Path) -> Any:
    """Read an estimator written by :func:`save`."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {str(path)!r}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ModelFileError(
            f"{str(path)!r} is not a nodegp model, or is damaged or cut short"
        ) from error
    if "nodegp" not in metadata:
        raise ModelFileError(f"{str(path)!r} is a safetensors file, but not a nodegp model")
    try:
        description = json.loads(metadata["nodegp"])
        version = int(description["version"]) if description.get("format") == FORMAT else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{str(path)!r} is damaged: its description is broken") from error
    if version is None:
        raise ModelFileError(f"{str(path)!r} is not a nodegp model")
    if version > VERSION:
        raise ModelFileError(
            f"{str(path)!r} has format version {version}; this nodegp reads up to {VERSION}. "
            "Update nodegp to read it."
        )
    if version < VERSION:
        raise ModelFileError(
            f"{str(path)!r} has format version {version}, of nodegp 0.1, which this version does "
            "not read; fit the model again and save it."
        )
    if description.pop("checksum", None) != _checksum(description, stored):
        raise ModelFileError(f"{str(path)!r} is damaged: it is not as it was written")
    try:
        return _rebuild(description, stored)
    except Exception as error:  # whatever a description that makes no sense sets off
        raise ModelFileError(
            f"{str(path)!r} cannot be read, because it is damaged or of another version "
            f"({type(error).__name__})"
        ) from error


def _checksum(description: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> int:
    """One changed bit in a number would go unnoticed otherwise, and give wrong predictions."""
    total = zlib.crc32(json.dumps(description).encode())
    for name in sorted(stored):
        array = stored[name]
        head = f"{name} {array.dtype.str} {array.shape}"
        total = zlib.crc32(array.reshape(-1).view(np.uint8).data, zlib.crc32(head.encode(), total))
    return total


def _rebuild(description: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> Any:
    parameters = {k: _get(v, stored) for k, v in description["parameters"].items()}
    model = _ESTIMATORS[description["estimator"]](**parameters)
    fitted = _get(description["model"], stored)
    if not isinstance(fitted, FittedModel):
        raise TypeError(f"a {type(fitted).__name__} is no model")
    model.model_ = fitted
    model.n_neighbors_ = description["n_neighbors"]
    for name, entry in description["input"].items():
        setattr(model, name, _get(entry, stored))
    if description["lengths"]:
        for (part, domain), entry in zip(
            _with_lengths(fitted), description["lengths"], strict=True
        ):
            if entry is not None:
                lengths = _get(entry, stored)
                domain.put_scale(part.filter.polynomial(), part.sketch, lengths)
    if "tables" in description:
        model.tables_ = description["tables"]
    return model


def _with_lengths(model: FittedModel) -> Iterator[tuple[FilteredFeatures, Any]]:
    """The parts of a model's prior whose rows have lengths worth keeping, and where those are."""
    parts = model.prior.parts if isinstance(model.prior, SumPrior) else (model.prior,)
    for part in parts:
        if isinstance(part, FilteredFeatures):
            yield part, part.where(model.domain())


class _Arrays:
    """Values as plain data and named arrays; a sparse matrix is three, text is its bytes and
    their ends."""

    def __init__(self) -> None:
        self.stored: dict[str, np.ndarray] = {}

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
        if isinstance(value, Graph):
            return self._put_graph(name, value)
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
            return {"dict": {k: self.put(f"{name}.{k}", v) for k, v in value.items()}}
        if type(value).__name__ in _VALUES:
            names = [f.name for f in fields(value)] if is_dataclass(value) else value._fields
            parts = {k: self.put(f"{name}.{k}", getattr(value, k)) for k in names}
            return {"type": type(value).__name__, "fields": parts}
        if isinstance(value, tuple | list):
            return {"tuple": [self.put(f"{name}.{j}", v) for j, v in enumerate(value)]}
        raise TypeError(f"cannot save {name}={value!r}")

    def _put_graph(self, name: str, graph: Graph) -> dict[str, Any]:
        relations = (graph.relations or {}).items()
        return {
            "graph": {
                "adjacency": self.put(f"{name}.adjacency", graph.adjacency),
                "features": self.put(f"{name}.features", graph.features),
                "ids": self.put(f"{name}.ids", graph.ids),
                "relations": {
                    kind: self.put(f"{name}.relation.{j}", matrix)
                    for j, (kind, matrix) in enumerate(relations)
                },
            }
        }

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


def _get(entry: Any, stored: Mapping[str, np.ndarray]) -> Any:
    """The value that :meth:`_Arrays.put` described."""
    if not isinstance(entry, dict):
        return entry
    (kind, *_) = entry
    return _READERS[kind](entry, stored)


def _get_value(entry: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> Any:
    parts = {name: _get(part, stored) for name, part in entry["fields"].items()}
    return _VALUES[entry["type"]](**parts)


def _get_graph(entry: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> Graph:
    parts = entry["graph"]
    edges = _get(parts["adjacency"], stored)
    if parts["relations"]:
        edges = {name: _get(matrix, stored) for name, matrix in parts["relations"].items()}
    return Graph(edges, *(_get(parts[k], stored) for k in ("features", "ids")))


def _get_text(entry: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> np.ndarray:
    whole = stored[f"{entry['text']}.utf8"].tobytes()
    ends = stored[f"{entry['text']}.ends"].tolist()
    pieces = [whole[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    items = [piece.decode("utf-8", "surrogatepass") for piece in pieces]
    return np.array(items, dtype=object if entry["object"] else str)


def _get_sparse(entry: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> sp.csr_array:
    parts = tuple(stored[f"{entry['sparse']}.{p}"] for p in ("data", "indices", "indptr"))
    matrix = sp.csr_array(parts, shape=tuple(entry["shape"]))
    matrix.check_format(full_check=True)  # indices out of range would crash the process
    return matrix


_READERS: dict[str, Any] = {
    "component": lambda entry, stored: from_dict(entry["component"]),
    "graph": _get_graph,
    "tensor": lambda entry, stored: torch.from_numpy(_get(entry["tensor"], stored)),
    "sparse": _get_sparse,
    "array": lambda entry, stored: stored[entry["array"]],
    "strings": lambda entry, stored: np.array(
        entry["strings"], dtype=object if entry["object"] else str
    ),
    "text": _get_text,
    "dict": lambda entry, stored: {k: _get(v, stored) for k, v in entry["dict"].items()},
    "tuple": lambda entry, stored: tuple(_get(v, stored) for v in entry["tuple"]),
    "type": _get_value,
}
