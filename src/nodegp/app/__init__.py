"""The application layer: what a front end needs, as data and without a word printed.

A :class:`Project` is a graph with labels and a model of it; the command line shows what it
answers, and so may a web page. Names are imported on first use, so that a front end starts at once.
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
