"""Models that work but have not earned a place among the estimators: they may change or go.

What was measured of each is on its page of the documentation.
"""

from nodegp.experimental.stacked import StackedGraphGPClassifier

__all__ = ["StackedGraphGPClassifier"]
