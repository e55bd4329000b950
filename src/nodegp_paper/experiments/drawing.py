"""What the figures of the experiments share: panels, legends, error bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nodegp.report import panels
from nodegp_paper.experiments.store import Record, select


def panels_of(
    records: list[Record], datasets: tuple[str, ...]
) -> tuple[Any, list[tuple[Any, str, list[Record]]]]:
    """A drawing with one panel for each data set that has records; its axes, name and records."""
    found = {name: select(records, dataset=name) for name in datasets}
    found = {name: runs for name, runs in found.items() if runs}
    drawing, axes = panels(len(found))
    for ax, name in zip(axes, found, strict=True):
        ax.set_title(name.capitalize())
    return drawing, [(ax, *pair) for ax, pair in zip(axes, found.items(), strict=True)]


def legend(drawing: Any) -> None:
    """One legend for all panels, beside none of the curves."""
    handles, labels = drawing.axes[0].get_legend_handles_labels()
    columns = 2 * len(drawing.axes)
    drawing.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


def standard_error(values: np.ndarray) -> np.ndarray:
    n = len(values)
    return values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(values.shape[1:])


def pooled(runs: Iterable[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Reliability of several runs' metrics together, bin by bin."""
    curves = [metrics["reliability"] for metrics in runs]
    count = np.array([curve["count"] for curve in curves], dtype=float)
    sums = []
    for name in ("confidence", "accuracy"):
        values = np.array([curve[name] for curve in curves], dtype=float)
        sums.append(np.nansum(values * count, axis=0))
    total = count.sum(axis=0)
    full = total >= 10
    return sums[0][full] / total[full], sums[1][full] / total[full]
