"""Graphs on disk: a folder of parts that are read one at a time; see :mod:`nodegp.store.stored`."""

from nodegp.store.arrays import StoreError, index_dtype
from nodegp.store.memory import store_graph
from nodegp.store.stored import StoredGraph, open_store

__all__ = ["StoreError", "StoredGraph", "index_dtype", "open_store", "store_graph"]
