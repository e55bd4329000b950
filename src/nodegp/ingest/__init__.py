"""Tables of any size into stored graphs; see :mod:`nodegp.ingest.preparation`."""

from nodegp.ingest.preparation import Preparation, prepare

__all__ = ["Preparation", "prepare"]
