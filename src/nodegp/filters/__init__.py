"""Filters: how the values h of the nodes are made from the latent function f, h = F f.

A filter turns nodes into :class:`Bags`: row n of ``F`` (Eq. 10), cut to the nodes that it
touches, with those nodes' features. Everything downstream works on bags, so a filter of
another range, or one that acts on the features, needs no other change than a class here.
"""

from nodegp.filters.bags import Bags, SeveralBags
from nodegp.filters.base import Filter
from nodegp.filters.hops import Hops, Relations
from nodegp.filters.lowrank import KnownBags, LowRankBags
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
from nodegp.filters.rows import FilteredRows
from nodegp.filters.spectral import Spectral

__all__ = [
    "Bags",
    "Chebyshev",
    "Diffusion",
    "Filter",
    "FilteredRows",
    "Hops",
    "Identity",
    "InverseCosine",
    "KnownBags",
    "LowRankBags",
    "MaternFilter",
    "NeighbourMean",
    "PageRank",
    "Propagation",
    "RandomWalk",
    "RegularisedLaplacian",
    "Relations",
    "ResponseValue",
    "SeveralBags",
    "Spectral",
]
