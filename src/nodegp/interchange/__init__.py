"""Objects of other libraries in and out: edge lists, networkx, PyTorch Geometric, dataframes.

The methods of :class:`~nodegp.graph.Graph` lead here. None of these libraries is imported before
it is asked for; whether an object is one of theirs is read off its type.

To let models take the graphs of another library as they are, write its :class:`Conversion` (object
to graph, and the labels that it holds) and list it in ``CONVERSIONS`` in ``recognise.py``; a
library for tables of predictions is listed in ``FRAMES`` in ``tables.py``.
"""

from nodegp.interchange.recognise import CONVERSIONS, Conversion, as_graph, node_labels
from nodegp.interchange.tables import FRAMES, as_frame, prediction_table

__all__ = [
    "CONVERSIONS",
    "FRAMES",
    "Conversion",
    "as_frame",
    "as_graph",
    "node_labels",
    "prediction_table",
]
