"""Model files that a project can work with, and what they remember of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodegp.app.frontend import OptionError
from nodegp.declared import require
from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.io import Encoder
from nodegp.persistence import ModelFileError, load

__all__ = ["open_model", "shown_columns"]


def open_model(path: str | Path) -> tuple[GraphGPClassifier, dict[str, Any]]:
    """The classifier of a file that carries its graph, and what it says of its tables."""
    model = load(path)
    if not isinstance(model, GraphGPClassifier):
        raise ValueError(f"{path} holds a {type(model).__name__}; a project works with classifiers")
    if model.graph_ is None and "store" in model.model_.known_by:
        raise OptionError(
            f"{path} was fitted on a stored graph, which it does not carry: name the folder with "
            "`store`",
            "store",
        )
    if model.graph_ is None:
        raise ValueError(
            f"{path} was saved without its graph; save it with include_graph=True, or use "
            "`nodegp fit`"
        )
    tables = getattr(model, "tables_", {})
    try:
        _check(tables, model.graph_)
    except Exception as error:  # whatever a description that makes no sense sets off
        what = f"cannot be read: what it says of its tables is damaged ({type(error).__name__})"
        raise ModelFileError(Path(path), what) from error
    return model, tables


def shown_columns(tables: Mapping[str, Any], names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """What people are shown of each node, by column: these, or all that were remembered."""
    remembered: dict[str, np.ndarray] = tables.get("shown", {})
    for name in names or ():
        if name not in remembered:
            known = ", ".join(map(repr, remembered)) or "none"
            raise OptionError(
                f"`show`: the model remembers no column {name!r}, but {known}; name it in `show` "
                "when the model is fitted",
                "show",
            )
    return remembered if names is None else {name: remembered[name] for name in names}


def _check(tables: dict[str, Any], graph: Graph) -> None:
    names = [tables.get(use, use) for use in ("id", "label")]
    require(all(isinstance(name, str) for name in names), f"columns are {names}")
    if "encoder" in tables:
        n_columns = Encoder.from_dict(tables["encoder"]).n_columns
        require(n_columns == graph.n_features, f"{n_columns} columns, not {graph.n_features}")
    for name, values in tables.get("shown", {}).items():
        is_text = all(isinstance(value, str) for value in values)
        require(len(values) == graph.n_nodes and is_text, f"what is shown of {name}")
