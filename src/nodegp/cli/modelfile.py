"""Model files of the command line: a classifier with its graph, ids and table encoding."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.persistence import load, save


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A fitted classifier, and what is known of the tables it came from."""

    model: GraphGPClassifier
    tables: dict[str, Any]  # the encoder and the names of columns; empty if made in Python

    @property
    def graph(self) -> Graph:
        assert self.model.graph_ is not None  # `read` has seen to it
        return self.model.graph_

    @property
    def ids(self) -> np.ndarray:
        return ids_of(self.graph)

    @property
    def id_column(self) -> str:
        return self.tables.get("id", "id")

    @property
    def label_column(self) -> str:
        return self.tables.get("label", "label")

    @property
    def encoder(self) -> Any:
        """What turns later rows into features; an error if there is none."""
        from nodegp.io import Encoder

        if "encoder" not in self.tables:
            raise ValueError(
                "this model was not made by `nodegp fit`, so it does not know how to turn tables "
                "into its features; predict on new nodes in Python"
            )
        return Encoder.from_dict(self.tables["encoder"])

    def y(self) -> np.ndarray:
        """The labels fitted to, one entry per node, None where there is none."""
        y = np.full(self.graph.n_nodes, None, dtype=object)
        y[self.model.labelled_] = self.model.labels_
        return y

    def position(self, name: str) -> int:
        """The number of the node that a user calls by this name."""
        found = np.flatnonzero(self.ids.astype(str) == name)
        if not len(found):
            some = ", ".join(map(str, self.ids[:3]))
            raise ValueError(f"there is no node {name!r}; ids look like {some}")
        return int(found[0])

    def write(self, path: Path) -> None:
        save(self.model, path, include_graph=True, tables=self.tables or None)

    @classmethod
    def read(cls, path: Path) -> ModelFile:
        model = load(path)
        if not isinstance(model, GraphGPClassifier):
            raise ValueError(
                f"{path} holds a {type(model).__name__}; the command line works with classifiers"
            )
        if model.graph_ is None:
            raise ValueError(
                f"{path} was saved without its graph; save it with include_graph=True, or use "
                "`nodegp fit`"
            )
        return cls(model, getattr(model, "tables_", {}))


def ids_of(graph: Graph) -> np.ndarray:
    """The user's names of the nodes, or their numbers."""
    return np.arange(graph.n_nodes) if graph.ids is None else graph.ids
