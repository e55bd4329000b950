"""A user's files: tables of nodes and edges in, a graph with labels out.

:func:`read_tables` reads what a model is fitted on and returns with it the :class:`Encoder`
that turns later rows into the same features; :func:`join_tables` joins such rows to the graph;
:func:`read_labels` reads labels for a graph that is there already; ``nodegp.io.write`` writes
tables. The formats of tables, and how to add one, are in ``nodegp.io.formats``.
"""

from nodegp.io.encoder import Encoder
from nodegp.io.join import join_tables
from nodegp.io.labels import read_labels
from nodegp.io.load import Loaded, TableSource, read_tables
from nodegp.io.summary import Summary

__all__ = [
    "Encoder",
    "Loaded",
    "Summary",
    "TableSource",
    "join_tables",
    "read_labels",
    "read_tables",
]
