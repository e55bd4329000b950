"""Filters: how the values h of the nodes are made from the latent function f, h = F f.

A filter is settings and hyper-parameters; what a prior makes of it, with a kernel and features, is
in :mod:`nodegp.prior`. A new one is a class here and needs no other change.
"""

from nodegp.filters.base import Filter
from nodegp.filters.neighbourhood import Identity, NeighbourMean
from nodegp.filters.responses import (
    Chebyshev,
    Diffusion,
    InverseCosine,
    MaternFilter,
    PageRank,
    Propagation,
    RandomWalk,
    RegularisedLaplacian,
    ResponseValue,
)
from nodegp.filters.spectral import Spectral
from nodegp.filters.sums import AdditiveFilter, Relations, SumOfFilters, View, Views

__all__ = [
    "AdditiveFilter",
    "Chebyshev",
    "Diffusion",
    "Filter",
    "Identity",
    "InverseCosine",
    "MaternFilter",
    "NeighbourMean",
    "PageRank",
    "Propagation",
    "RandomWalk",
    "RegularisedLaplacian",
    "Relations",
    "ResponseValue",
    "Spectral",
    "SumOfFilters",
    "View",
    "Views",
]
