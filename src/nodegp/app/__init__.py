"""The application layer for front ends: results are data, and nothing is printed.

A :class:`Project` is a graph with labels and a model of it; the command line prints its results,
and a web page can do the same. Names are imported on first use, so that a front end starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodegp.app.project import ModelOptions, OptionError, Progress, Project

__all__ = ["ModelOptions", "OptionError", "Progress", "Project"]

if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module 'nodegp.app' has no attribute {name!r}")
        return getattr(import_module("nodegp.app.project"), name)
