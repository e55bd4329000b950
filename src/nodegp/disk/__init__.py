"""Work on stored graphs: products along their edges, and filtered features, from disk.

:func:`using` sets the workers and the memory limit.
"""

from nodegp.disk.graph import GraphOnDisk, StoreAddress, on_disk
from nodegp.disk.operator import StoredOperator
from nodegp.disk.workers import Threads, Workers, using, workers

__all__ = [
    "GraphOnDisk",
    "StoreAddress",
    "StoredOperator",
    "Threads",
    "Workers",
    "on_disk",
    "using",
    "workers",
]
