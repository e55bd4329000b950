"""GraphML, read by networkx."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from nodegp.datasets import Dataset
from nodegp.extras import to_install
from nodegp.graph import Graph
from nodegp.interchange.networkx import labels
from nodegp_paper.datasets.readers.classes import class_positions

__all__ = ["read_graphml"]


def read_graphml(
    path: Path, label: str | None = None, features: str | Sequence[str] | None = None
) -> Dataset:
    """The first graph of the file; ``label`` and ``features`` name node attributes."""
    G = _parsed(path)
    # networkx reads the defaults that a file declares, but leaves filling them in to us.
    for items, defaults in ((G.nodes, "node_default"), (G.edges, "edge_default")):
        for item in items:
            items[item].update({**G.graph.get(defaults, {}), **items[item]})
    try:
        graph = Graph.from_networkx(G, features)
        values = None if label is None else labels(G, label)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    y, class_names = class_positions(values or [None] * graph.n_nodes)
    return Dataset(path.name.partition(".")[0], graph, y, {}, class_names)


def _parsed(path: Path) -> Any:
    try:
        import networkx
    except ImportError as missing:
        raise ImportError(f"GraphML needs networkx: {to_install('interop')}") from missing
    try:
        return networkx.read_graphml(path)
    except ParseError as error:
        raise ValueError(
            f"{str(path)!r}, line {error.position[0]}: this is not XML ({error}); the file may be "
            "cut short"
        ) from None
    except Exception as error:  # of many kinds: the reader trusts its input
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"{str(path)!r} is no GraphML that networkx can read ({reason})") from None
