"""Graphs in files of GraphML, GEXF and GML, as a table of nodes and one of edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from nodegp.extras import to_install
from nodegp.io.records import table_of

__all__ = ["ENDINGS", "read_network"]

ENDINGS = (".graphml", ".gexf", ".gml")
SOURCE, TARGET = "source", "target"


def read_network(path: str | Path) -> tuple[pa.Table, pa.Table]:
    """A row per node, its name first (the column is ``id``, or ``node`` if an attribute has that
    name) and then its attributes; and a row per edge, its two ends first."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{path} is of no kind that can be read as a graph ({', '.join(ENDINGS)})")
    graph = _parsed(path)
    rows = graph.nodes(data=True)
    keys = {str(key) for _, data in rows for key in data}
    name = next(name for name in ("id", "node", "node id") if name not in keys)
    nodes = [{name: node, **{str(k): v for k, v in data.items()}} for node, data in rows]
    if not nodes:
        raise ValueError(f"{path} has no nodes")
    edges = [
        {**{str(k): v for k, v in data.items()}, SOURCE: source, TARGET: target}
        for source, target, data in graph.edges(data=True)
    ]
    ends = [SOURCE, TARGET]
    table = table_of(edges) if edges else pa.table({end: pa.array([], pa.string()) for end in ends})
    others = [column for column in table.column_names if column not in ends]
    return table_of(nodes), table.select([*ends, *others])


def _parsed(path: Path) -> Any:
    try:
        import networkx
    except ImportError as missing:
        raise ImportError(f"{path} needs networkx: {to_install('interop')}") from missing
    ending = path.suffix.lower()
    try:
        if ending == ".graphml":
            return networkx.read_graphml(path)
        if ending == ".gexf":
            return networkx.read_gexf(path)
        try:
            return networkx.read_gml(path)
        except networkx.NetworkXError:  # nodes without a label of their own
            return networkx.read_gml(path, label="id")
    except Exception:  # whatever a damaged file sets off in a parser
        raise ValueError(f"{path} is not a {ending[1:]} file, or is damaged") from None
