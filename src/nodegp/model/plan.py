"""What work on a stored graph takes, before it begins: passes over its edges, bytes, memory, time.

Times are rough: 20 million edges took 2.8 ns for each entry and column on one thread, of a machine
with two cores that was busy with other work, and a row of predictions 44 to 63 microseconds. That
bytes take a nanosecond is an assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from nodegp.disk import GraphOnDisk, workers
from nodegp.disk.filtered import block_width
from nodegp.disk.operator import ScaledParts
from nodegp.filters import Spectral, Views
from nodegp.model.recipe import Recipe
from nodegp.model.views import candidates
from nodegp.preprocessing import Preprocessor
from nodegp.prior import (
    Domain,
    FilteredFeatures,
    Prior,
    StoredDomain,
    SumPrior,
    domain_of,
    make_prior,
)
from nodegp.propagation import FilterPolynomial
from nodegp.store import StoredGraph

__all__ = ["Plan", "Step", "left_out_views", "plan_filters", "priors_to_weigh"]

_SECONDS_PER_PRODUCT = 2.8e-9  # of one entry with one column
_SECONDS_PER_BYTE = 1e-9  # read or written
_SECONDS_PER_NODE = 60e-6  # of a prediction
_PROCESS = 300 << 20  # bytes of Python, torch and this library


@dataclass(frozen=True)
class Step:
    """One filter, or what it takes to learn its hyper-parameters."""

    name: str
    order: int
    n_columns: int
    width: int  # columns at a time
    itemsize: int  # bytes of a number
    self_loops: bool
    is_made: bool
    is_kept: bool = True  # with the store; else only some rows are taken from it

    @property
    def passes(self) -> int:
        return 0 if self.is_made else self.order * -(-self.n_columns // self.width)

    @property
    def bytes_of_node(self) -> int:
        """What is in memory of each node: one level of columns, where others are files, or four."""
        return self.width * self.itemsize * (1 if self.is_kept else 4)


@dataclass(frozen=True)
class Plan:
    """What is to be done on a stored graph."""

    steps: tuple[Step, ...]
    passes: int
    bytes_read: int
    bytes_written: int
    memory: int
    seconds: float
    remarks: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """The same for people."""
        found = [
            (
                step.name,
                "is there already"
                if step.is_made
                else f"{_amount(step.order, 'hop')} of {_amount(step.n_columns, 'column')}, "
                f"{step.width} at a time",
            )
            for step in self.steps
        ]
        return [
            *found,
            ("passes over edges", f"{self.passes:,}"),
            ("to read", f"{self.bytes_read / 2**30:,.2f} GiB"),
            ("to write", f"{self.bytes_written / 2**30:,.2f} GiB"),
            (
                "memory",
                f"{self.memory / 2**30:,.2f} GiB of {workers().memory / 2**30:,.2f} allowed",
            ),
            ("time", f"about {_in_words(self.seconds)}"),
        ]

    def to_dict(self) -> dict[str, object]:
        steps = [vars(step) | {"passes": step.passes} for step in self.steps]
        numbers = {
            name: getattr(self, name)
            for name in ("passes", "bytes_read", "bytes_written", "memory", "seconds")
        }
        return {"filters": steps} | numbers | {"remarks": list(self.remarks)}


def plan_filters(
    graph: GraphOnDisk,
    preprocessor: Preprocessor,
    priors: Sequence[tuple[str, Prior]],
    n_labels: int,
    n_predictions: int = 0,
    is_open: bool = False,
) -> Plan:
    """What it takes to have the filtered features that some priors ask for, and to predict so many
    nodes with them; with none to predict, it is a fit, which may learn a filter first.
    ``is_open``: the priors are views that are to be weighed."""
    store, chosen, domain = graph.store, workers(), domain_of(graph, preprocessor)
    steps: dict[tuple[FilterPolynomial, bool, bool], Step] = {}
    for name, view, filter in _filters(priors, domain):
        polynomial = filter.polynomial()
        key, step = (polynomial, view.in_double), _step(view, name, polynomial, n_labels)
        is_learnt = n_predictions == 0 and bool(filter.free_parameters())
        if is_learnt and isinstance(view, StoredDomain):
            steps.setdefault((*key, False), _learning_step(view, name, polynomial, n_labels))
            step = replace(step, is_made=False)  # whatever is there is of another range
        steps.setdefault((*key, True), step)
    todo = [step for step in steps.values() if not step.is_made]
    kept = [step for step in todo if step.is_kept]
    passes = sum(step.passes for step in todo)
    # Rows of the operator, which are written once, whatever filters pass over them.
    edges = {
        (step.self_loops, step.itemsize): _operator_bytes(store, step)
        for step in todo
        if step.order
    }
    columns = sum(step.order * step.n_columns * step.itemsize for step in kept) * store.n_nodes
    answers = sum(2 * step.n_columns * step.itemsize for step in kept) * store.n_nodes
    read = sum(step.passes * _operator_bytes(store, step) for step in todo)
    read += 3 * columns + 2 * answers
    written = sum(edges.values()) + columns + answers
    width = max((step.bytes_of_node for step in todo), default=0)
    itemsize = max((step.itemsize for step in todo), default=4)
    largest = max((int(n) for n in np.diff(store.boundaries)), default=0)
    part = max(edges.values(), default=0) // max(store.n_parts, 1)
    part += 4 * largest * max(width, itemsize * domain.n_columns)
    memory = (
        chosen.n_places * (_PROCESS + 16 * store.n_nodes + store.n_nodes * width)
        + chosen.n_threads * part
    )
    products = sum(step.order * step.n_columns for step in todo) * store.n_entries
    seconds = products * _SECONDS_PER_PRODUCT + n_predictions * _SECONDS_PER_NODE
    seconds = seconds / chosen.n_threads + (read + written) * _SECONDS_PER_BYTE
    remarks = left_out_views(domain) if is_open else ()
    return Plan(tuple(steps.values()), passes, read, written, memory, seconds, remarks)


def priors_to_weigh(
    graph: GraphOnDisk, preprocessor: Preprocessor, recipe: Recipe, is_open: bool, per_class: float
) -> list[tuple[str, Prior]]:
    """The priors that a fit asks for: of each view, where they are to be weighed."""
    domain = domain_of(graph, preprocessor)
    if not is_open:
        return [(type(recipe.filter).__name__, recipe.prior(domain))]
    return [
        (look.view.name, make_prior(Views((look.view,)), (look.kernel,), domain))
        for look in candidates(domain, per_class)
    ]


def left_out_views(domain: Domain) -> tuple[str, ...]:
    """What the default leaves out on a stored graph, in words."""
    if not isinstance(domain.graph, GraphOnDisk) or domain.is_featureless:
        return ()
    curved = ", and curved ones, which take every label for every node"
    return (
        "views that a stored graph is too large for are left out: links in common and nodes alike, "
        f"which take all pairs of nodes{curved if domain.graph.is_dense else ''}",
    )


def _filters(
    priors: Sequence[tuple[str, Prior]], domain: Domain
) -> list[tuple[str, Domain, Spectral]]:
    """The filters that priors ask for, each with the nodes in the precision that it takes."""
    found = []
    for name, prior in priors:
        for part in prior.parts if isinstance(prior, SumPrior) else (prior,):
            if isinstance(part, FilteredFeatures):
                view = part.where(domain)
                is_kept = isinstance(view, StoredDomain)  # in one precision, whoever asks
                found.append((name, view.precise(False) if is_kept else view, part.filter))
    return found


def _operator_bytes(store: StoredGraph, step: Step) -> int:
    kind = torch.float32 if step.itemsize == 4 else torch.float64
    return ScaledParts(store, step.self_loops, kind).n_bytes


def _step(domain: Domain, name: str, polynomial: FilterPolynomial, n_labels: int) -> Step:
    order, n_columns = polynomial.order, domain.n_columns
    if isinstance(domain, StoredDomain):
        matrix, store = domain.matrix(polynomial), domain.graph.store
        width = block_width(store, n_columns, matrix.itemsize, workers())
        made = matrix.itemsize, polynomial.self_loops, matrix.is_made
        return Step(name, order, n_columns, width, *made)
    # Labels go out and come back.
    operator = domain.operator(polynomial.self_loops)
    first = next(iter(operator.column_blocks(max(n_labels, 1))))
    itemsize = np.dtype(domain.rows.precision).itemsize
    return Step(name, order, 2 * n_labels, first.stop, itemsize, polynomial.self_loops, False)


def _learning_step(
    domain: StoredDomain, name: str, polynomial: FilterPolynomial, n_labels: int
) -> Step:
    """Every term of a filter at the labelled nodes, in double precision."""
    from_labels = domain.indicators_are_cheaper(polynomial, n_labels, len(polynomial))
    n_columns = max(n_labels, 1) if from_labels else domain.n_columns
    first = next(iter(domain.operator(polynomial.self_loops).column_blocks(n_columns)))
    what = f"{name}, to learn it", polynomial.order, n_columns, first.stop
    return Step(*what, 8, polynomial.self_loops, is_made=False, is_kept=False)


def _amount(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return _amount(round(max(seconds, 1)), "second")
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
