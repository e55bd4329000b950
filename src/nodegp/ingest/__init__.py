"""Tables of any size into stored graphs; see :mod:`nodegp.ingest.preparation`."""

from nodegp.ingest.plan import size_in_words
from nodegp.ingest.preparation import Preparation, prepare

__all__ = ["Preparation", "prepare", "size_in_words"]
