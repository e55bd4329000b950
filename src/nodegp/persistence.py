"""Saving a fitted model to one file and reading it back, without pickle.

The file is in safetensors format: named arrays, and a JSON description among its metadata.
It holds whatever predictions need (preprocessing, kernel, filter, likelihood, classes, the
inducing variables with their filter rows, q) and, on request, the graph.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from nodegp.component import Component, from_dict
from nodegp.estimators import GraphGPClassifier, GraphGPRegressor
from nodegp.estimators.recipes import Score
from nodegp.features import Preprocessor, Rows
from nodegp.files import check_place, write_atomically
from nodegp.filters import Bags, Filter, KnownBags, SeveralBags, Spectral
from nodegp.graph import Graph
from nodegp.posterior import Posterior

FORMAT = "nodegp-model"
VERSION = 1

_ESTIMATORS: dict[str, Any] = {
    "GraphGPClassifier": GraphGPClassifier,
    "GraphGPRegressor": GraphGPRegressor,
}
# Fitted attributes by how they are written; both kinds of estimator, where they have them.
_COMPONENTS = ("kernel_", "filter_", "likelihood_", "inducing_")
_SCALARS = (
    "elbo_",
    "n_iter_",
    "converged_",
    "jitter_",
    "features_",
    "n_features_in_",
    "table_",
    "temperature_",
    "start_",
    "selection_",
    "target_mean_",
    "target_scale_",
)
_ARRAYS = (
    "classes_",
    "labelled_",
    "labels_",
    "label_confidence_",
    "label_weights_",
    "curvature_",
    "elbo_trace_",
    "loo_proba_",
    "loo_mean_",
    "loo_std_",
)
_POSTERIOR = ("chol", "mean", "gain")
_OPTIONAL_ARRAYS = ("feature_names_in_",)


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
    if not hasattr(model, "posterior_"):
        raise ValueError("fit the model before saving it")
    check_place(Path(path))
    arrays = _Arrays()
    description: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(model).__name__,
        "parameters": {k: _plain(k, v) for k, v in model.get_params(deep=False).items()},
        "components": {name: getattr(model, name).to_dict() for name in _COMPONENTS},
        "scalars": {name: getattr(model, name) for name in _SCALARS if hasattr(model, name)},
        "arrays": {
            name: arrays.put(name, getattr(model, name))
            for name in (*_ARRAYS, *_OPTIONAL_ARRAYS)
            if hasattr(model, name)
        },
        "preprocessor": _describe_preprocessor(model.preprocessor_, arrays),
        "inducing": _describe_bags(model.posterior_.inducing, arrays),
        "landmarks": [
            _describe_bags(part.landmarks, arrays, f"landmarks.{j}")
            for j, part in enumerate(filter(_is_low_rank, model.filter_.parts()))
        ],
    }
    posterior = model.posterior_
    for name in _POSTERIOR:
        value = getattr(posterior, name)
        if value is not None:
            arrays.put(f"posterior.{name}", value.cpu().numpy())
    if (include_graph or model.table_) and model.graph_ is not None:
        graph = model.graph_
        description["graph"] = {
            "adjacency": arrays.put("graph.adjacency", graph.adjacency),
            "relations": {
                name: arrays.put(f"graph.relation.{j}", matrix)
                for j, (name, matrix) in enumerate((graph.relations or {}).items())
            },
            "features": arrays.put("graph.features", graph.features),
            "ids": arrays.put("graph.ids", graph.ids),
        }
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
    parameters = {k: _unplain(v) for k, v in description["parameters"].items()}
    model = _ESTIMATORS[description["estimator"]](**parameters)
    for name, data in description["components"].items():
        setattr(model, name, from_dict(data))
    landmarks = (_rebuild_bags(data, stored) for data in description.get("landmarks", ()))
    model.filter_ = model.filter_.with_parts(
        [
            replace(part, landmarks=next(landmarks)) if _is_low_rank(part) else part
            for part in model.filter_.parts()
        ]
    )
    for name, value in description["scalars"].items():
        setattr(model, name, value)
    if hasattr(model, "selection_"):
        model.selection_ = [Score(*row) for row in model.selection_]
    for name, entry in description["arrays"].items():
        setattr(model, name, _get(entry, stored))
    model.preprocessor_ = _rebuild_preprocessor(description["preprocessor"], stored)
    device = parameters.get("device") or "cpu"
    if device != "cpu" and not torch.cuda.is_available():
        device = "cpu"
    posterior: dict[str, Any] = {"chol": None} | {
        name: torch.from_numpy(stored[f"posterior.{name}"]).to(device)
        for name in _POSTERIOR
        if f"posterior.{name}" in stored
    }
    inducing = _rebuild_bags(description["inducing"], stored)
    model.posterior_ = Posterior(model.kernel_, inducing, **posterior)
    if "tables" in description:
        model.tables_ = description["tables"]
    model.graph_ = None
    if (graph := description.get("graph")) is not None:
        edges = _get(graph["adjacency"], stored)
        if graph.get("relations"):
            edges = {name: _get(entry, stored) for name, entry in graph["relations"].items()}
        model.graph_ = Graph(edges, *(_get(graph[k], stored) for k in ("features", "ids")))
    return model


class _Arrays:
    """Named arrays to be written; a sparse matrix is three, text is its bytes and their ends."""

    def __init__(self) -> None:
        self.stored: dict[str, np.ndarray] = {}

    def put(self, name: str, value: Any) -> Any:
        """Store a value and return what to write in the description to find it again."""
        if value is None:
            return None
        if sp.issparse(value):
            for part in ("data", "indices", "indptr"):
                self.stored[f"{name}.{part}"] = np.ascontiguousarray(getattr(value, part))
            return {"sparse": name, "shape": list(value.shape)}
        value = np.asarray(value)
        if value.dtype.kind in "OU":
            return self._put_text(name, value)
        self.stored[name] = np.ascontiguousarray(value)
        return {"array": name}

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
    if entry is None:
        return None
    if "strings" in entry:
        return np.array(entry["strings"], dtype=object if entry["object"] else str)
    if "text" in entry:
        whole = stored[f"{entry['text']}.utf8"].tobytes()
        ends = stored[f"{entry['text']}.ends"].tolist()
        pieces = [whole[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        items = [piece.decode("utf-8", "surrogatepass") for piece in pieces]
        return np.array(items, dtype=object if entry["object"] else str)
    if "sparse" in entry:
        parts = tuple(stored[f"{entry['sparse']}.{p}"] for p in ("data", "indices", "indptr"))
        matrix = sp.csr_array(parts, shape=tuple(entry["shape"]))
        matrix.check_format(full_check=True)  # indices out of range would crash the process
        return matrix
    return stored[entry["array"]]


def _describe_preprocessor(preprocessor: Preprocessor, arrays: _Arrays) -> dict[str, Any]:
    return {
        "kind": preprocessor.kind,
        "unit_rows": preprocessor.unit_rows,
        "n_features": preprocessor.n_features,
        "scale": arrays.put("preprocessor.scale", preprocessor.scale),
        "centre": arrays.put("preprocessor.centre", preprocessor.centre),
    }


def _rebuild_preprocessor(data: Mapping[str, Any], stored: Mapping[str, Any]) -> Preprocessor:
    settings = dict(data)
    for name in ("scale", "centre"):
        settings[name] = _get(settings[name], stored)
    return Preprocessor(**settings)


def _describe_bags(bags: Any, arrays: _Arrays, name: str = "inducing") -> dict[str, Any]:
    if isinstance(bags, SeveralBags):
        parts = enumerate(bags.parts)
        return {"parts": [_describe_bags(part, arrays, f"{name}.{j}") for j, part in parts]}
    if isinstance(bags, KnownBags):
        return {"features": arrays.put(f"{name}.features", bags.features.numpy())}
    rows = bags.in_memory().rows
    assert isinstance(rows, Rows)
    values = rows.values if rows.is_sparse else rows.values.numpy()
    return {
        "weights": arrays.put(f"{name}.weights", bags.weights),
        "values": arrays.put(f"{name}.values", values),
        "centre": arrays.put(f"{name}.centre", rows.centre),
    }


def _rebuild_bags(data: Mapping[str, Any], stored: Mapping[str, Any]) -> Any:
    if "parts" in data:
        return SeveralBags(tuple(_rebuild_bags(part, stored) for part in data["parts"]))
    if "features" in data:
        return KnownBags(torch.from_numpy(_get(data["features"], stored)))
    values = _get(data["values"], stored)
    if not sp.issparse(values):
        values = torch.from_numpy(values)
    return Bags(_get(data["weights"], stored), Rows(values, _get(data["centre"], stored)))


def _is_low_rank(part: Filter) -> TypeGuard[Spectral]:
    return isinstance(part, Spectral) and part.rank is not None


def _plain(name: str, value: Any) -> Any:
    """An estimator's parameter as JSON."""
    if isinstance(value, Component):
        return {"component": value.to_dict()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # a stream that has moved on cannot be given back
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"cannot save parameter {name}={value!r}")


def _unplain(value: Any) -> Any:
    return from_dict(value["component"]) if isinstance(value, dict) else value
