"""Stacked graph GPs: they work, and did not earn a place in the library (docs/stacked.md)."""

from nodegp_paper.stacked.classifier import StackedGraphGPClassifier

__all__ = ["StackedGraphGPClassifier"]
