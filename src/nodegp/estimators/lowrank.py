"""How much of the prior the low-rank form of a filter leaves out, by comparison with the whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nodegp.covariance import covariance
from nodegp.filters import LowRankBags, SeveralBags

_SAMPLE = 100


class LowRankError(NamedTuple):
    """Shares of the prior that are left out: between 0, nothing, and 1, everything."""

    variance: float  # of the variance of h
    difference: float  # of the variance of h_m - h_n for two nodes, which tells them apart


def low_rank_error(kernel: Any, bags: Any) -> LowRankError:
    """Measured at these bags, two at least, with all of their pairs of rows."""
    if len(bags) < 2:
        raise ValueError(
            f"the error of a low-rank form is measured at two nodes at least, got {len(bags)}"
        )
    whole = _exact(bags)
    with torch.no_grad():
        exact, shown = covariance(kernel, whole, whole), covariance(kernel, bags, bags)
    left_out = exact - shown
    return LowRankError(
        _share(_total(left_out), _total(exact)), _share(_spread(left_out), _spread(exact))
    )


def some_of(nodes: np.ndarray) -> np.ndarray:
    """A few nodes, evenly over all of them."""
    if len(nodes) <= _SAMPLE:
        return nodes
    return nodes[np.linspace(0, len(nodes) - 1, _SAMPLE).astype(np.intp)]


def _exact(bags: Any) -> Any:
    if isinstance(bags, SeveralBags):
        return SeveralBags(tuple(_exact(part) for part in bags.parts))
    return bags.exact if isinstance(bags, LowRankBags) else bags


def _total(covariances: Tensor) -> float:
    return float(covariances.diagonal().sum())


def _spread(covariances: Tensor) -> float:
    """The variances of all differences, summed, up to a factor."""
    return _total(covariances) - float(covariances.mean(0).sum())


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0
