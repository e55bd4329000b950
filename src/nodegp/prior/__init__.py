"""The prior of h: one small interface, and the few ways to build one from filter and kernel."""

from nodegp.prior.base import Cross, Factors, Prior, whole
from nodegp.prior.build import bias_of, kernels_of, learnt_filter, make_prior
from nodegp.prior.domain import Domain
from nodegp.prior.functions import FilteredFeatures, FilteredFunction, OneFunction
from nodegp.prior.inputs import Inputs, SumInputs, WeightedRows
from nodegp.prior.stored import StoredDomain, domain_of
from nodegp.prior.sums import SumPrior

__all__ = [
    "Cross",
    "Domain",
    "Factors",
    "FilteredFeatures",
    "FilteredFunction",
    "Inputs",
    "OneFunction",
    "Prior",
    "StoredDomain",
    "SumInputs",
    "SumPrior",
    "WeightedRows",
    "bias_of",
    "domain_of",
    "kernels_of",
    "learnt_filter",
    "make_prior",
    "whole",
]
