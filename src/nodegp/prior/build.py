"""From what users write, a filter and a kernel, to the prior that they make on a graph."""

from __future__ import annotations

from collections.abc import Sequence

from nodegp.filters import AdditiveFilter, Filter, Spectral
from nodegp.kernels import Kernel, Scaled
from nodegp.prior.base import Prior
from nodegp.prior.domain import Domain
from nodegp.prior.functions import FilteredFeatures, FilteredFunction, OneFunction
from nodegp.prior.lengths import sketch_width
from nodegp.prior.sums import SumPrior

__all__ = ["bias_of", "kernels_of", "learnt_filter", "make_prior"]


def make_prior(filter: Filter, kernel: Kernel | Sequence[Kernel], domain: Domain) -> Prior:
    """The prior of h. A sum of filters takes one kernel for each; a single kernel is copied for
    all, each with its own learnable scale."""
    if not isinstance(filter, AdditiveFilter):
        if not isinstance(kernel, Kernel):
            raise ValueError(f"kernel must be a Kernel object or None, got {kernel!r}")
        return _one(filter, kernel, None, domain)
    summands = filter.summands(domain.graph)
    if isinstance(kernel, Kernel):
        kernels: Sequence[Kernel] = [_scalable(kernel)] * len(summands)
    else:
        kernels = list(kernel)
    if len(kernels) != len(summands) or not all(isinstance(k, Kernel) for k in kernels):
        raise ValueError(
            f"{type(filter).__name__} sums {len(summands)} functions here: give one kernel, or one "
            f"for each of them, not {kernel!r}"
        )
    return SumPrior(
        tuple(
            _one(part.filter, own, part.relation, domain)
            for part, own in zip(summands, kernels, strict=True)
        )
    )


def learnt_filter(filter: Filter, prior: Prior) -> Filter:
    """The filter that a prior was made from, with what was learnt of it since."""
    if isinstance(prior, OneFunction):
        return prior.filter
    if isinstance(prior, SumPrior) and isinstance(filter, AdditiveFilter):
        return filter.learnt([p.filter for p in prior.parts if isinstance(p, OneFunction)])
    return filter


def kernels_of(prior: Prior) -> tuple[Kernel, ...]:
    """The kernel of each function of a prior."""
    parts = prior.parts if isinstance(prior, SumPrior) else (prior,)
    return tuple(part.kernel for part in parts if isinstance(part, OneFunction))


def bias_of(prior: Prior) -> float:
    """What its kernels add to all covariances alike: all that h at a node has in common with h at
    another to which neither features nor edges lead."""
    forms = [kernel.linear_form() for kernel in kernels_of(prior)]
    return float(sum(form.constant for form in forms if form is not None))


def _one(filter: Filter, kernel: Kernel, relation: str | None, domain: Domain) -> Prior:
    if isinstance(filter, Spectral) and filter.on == "features":
        sketch = 0
        if kernel.takes_any_lengths() and not domain.has_short_rows(filter.polynomial(), relation):
            sketch = sketch_width(domain.n_nodes, domain.n_columns)
        return FilteredFeatures(kernel, filter, relation, sketch)
    return FilteredFunction(kernel, filter, relation)


def _scalable(kernel: Kernel) -> Kernel:
    """A kernel whose scale can be learnt: that of each function must find its place."""
    return kernel if "variance" in kernel.free_parameters() else Scaled(kernel)
