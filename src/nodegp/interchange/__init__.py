"""Objects of other libraries in and out: edge lists, networkx, PyTorch Geometric, dataframes.

The methods of :class:`~nodegp.graph.Graph` lead here. None of these libraries is imported before
it is asked for; whether an object is one of theirs is read off its type.
"""

from nodegp.interchange.edges import from_edges
from nodegp.interchange.networkx import from_networkx, to_networkx
from nodegp.interchange.pyg import from_pyg, to_pyg
from nodegp.interchange.recognise import as_graph, node_labels
from nodegp.interchange.tables import as_frame, from_dataframes, prediction_table

__all__ = [
    "as_frame",
    "as_graph",
    "from_dataframes",
    "from_edges",
    "from_networkx",
    "from_pyg",
    "node_labels",
    "prediction_table",
    "to_networkx",
    "to_pyg",
]
