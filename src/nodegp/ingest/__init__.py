"""Tables of any size into stored graphs; see :mod:`nodegp.ingest.prepare`."""

from nodegp.ingest.prepare import Preparation, prepare

__all__ = ["Preparation", "prepare"]
