"""What other packages add to nodegp: commands, parts of models, baselines, data sets.

They say so by entry points, of which the library reads the names; it imports none of them by name.
`nodegp_paper`, which comes in the same wheel, is the first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

__all__ = ["baselines", "commands", "datasets", "load_components"]


def commands() -> dict[str, Any]:
    """Commands by name (group ``nodegp.commands``): functions that typer can make into commands,
    and typer's own apps of several."""
    return dict(_loaded("nodegp.commands"))


def baselines() -> dict[str, Callable[..., Any]]:
    """Makers of classifiers to compare with, by name: ``maker(random_state=, unlabelled=)`` has
    ``fit(graph, y, classes=)`` and ``predict_proba(graph)``. An entry of the group
    ``nodegp.baselines`` is a mapping of such names."""
    return _mappings("nodegp.baselines")


def datasets() -> dict[str, Callable[..., Any]]:
    """Loaders of data sets by name: ``loader(data_dir)`` gives a :class:`nodegp.datasets.Dataset`,
    where ``data_dir`` is a folder or None. An entry of the group ``nodegp.datasets`` is a mapping
    of such names."""
    return _mappings("nodegp.datasets")


@lru_cache
def load_components() -> None:
    """Import the modules of the group ``nodegp.components``, whose classes are known from then on
    by their names."""
    list(_loaded("nodegp.components"))


def _mappings(group: str) -> dict[str, Callable[..., Any]]:
    return {name: value for _, mapping in _loaded(group) for name, value in mapping.items()}


def _loaded(group: str) -> Iterator[tuple[str, Any]]:
    """What is under each entry; one that cannot be imported is warned of and left out."""
    for entry in entry_points(group=group):
        try:
            yield entry.name, entry.load()
        except ImportError as error:
            warnings.warn(
                f"the plug-in {entry.value} ({group}) cannot be imported and is left out: {error}",
                stacklevel=3,
            )
