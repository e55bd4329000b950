"""Strategies of active learning that others published, or that brought nothing when measured.

They are listed in ``nodegp.active.STRATEGIES`` by being imported. The library does that by an entry
point when it is asked for a strategy that it does not know: ``nodegp query --strategy s2`` works
wherever this package is installed.
"""

from nodegp_paper.strategies.bald import BALD
from nodegp_paper.strategies.eer import EER
from nodegp_paper.strategies.gpeer import GPEER
from nodegp_paper.strategies.s2 import S2

__all__ = ["BALD", "EER", "GPEER", "S2"]
