"""Two small tables as text, read as a user's files are, for the tests of readers."""

from __future__ import annotations

from nodegp.io import TableSource, read_tables

NODES = "paper,age,topic\nb,1.5,x\na,0.5,\nc,4,y\nd,2,x\n"
EDGES = "source,target\na,b\nb,c\n"


def read(nodes="nodes.csv", edges="edges.csv", **settings):
    return read_tables(TableSource(nodes, edges, **settings))


def linked(graph):
    """The edges as sorted pairs of ids."""
    coo = graph.adjacency.tocoo()
    pairs = zip(graph.ids[coo.row].tolist(), graph.ids[coo.col].tolist(), strict=True)
    return sorted(pair for pair in pairs if pair[0] < pair[1])
