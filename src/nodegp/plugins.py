"""What other packages add to nodegp: commands for its command line, methods to compare it with.

They say so by entry points, of which the library reads the names; it imports none of them by name.
`nodegp_paper`, which comes in the same wheel, is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

__all__ = ["baselines", "commands"]


def commands() -> dict[str, Callable[..., None]]:
    """Functions that typer can make into commands, by name (group ``nodegp.commands``)."""
    return {entry.name: entry.load() for entry in entry_points(group="nodegp.commands")}


def baselines() -> dict[str, Callable[..., Any]]:
    """Makers of classifiers to compare with, by name: ``maker(random_state=, unlabelled=)`` has
    ``fit(graph, y, classes=)`` and ``predict_proba(graph)``. An entry of the group
    ``nodegp.baselines`` is a mapping of such names."""
    every: dict[str, Callable[..., Any]] = {}
    for entry in entry_points(group="nodegp.baselines"):
        mapping: Mapping[str, Callable[..., Any]] = entry.load()
        every.update(mapping)
    return every
