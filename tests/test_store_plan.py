"""What a graph takes that is too large for this machine, from its manifest alone: more than 2^31
entries, in arithmetic that must not overflow. docs/scale.md has the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nodegp.disk import on_disk, using
from nodegp.disk.operator import ScaledParts
from nodegp.filters import PageRank, Propagation
from nodegp.kernels import Cosine
from nodegp.model.plan import plan_filters
from nodegp.preprocessing import Preprocessor
from nodegp.prior import domain_of, make_prior
from nodegp.store import StoredGraph
from nodegp.store.manifest import FeatureKind, Manifest

N_NODES, N_EDGES = 111_000_000, 1_600_000_000


@pytest.fixture
def papers(tmp_path):
    """ogbn-papers100M, as far as its manifest goes."""
    boundaries = (*range(0, N_NODES, 72_000), N_NODES)
    features = FeatureKind("dense", 128, "float32", None, False)
    manifest = Manifest(
        N_NODES, N_EDGES, 2 * N_EDGES, boundaries, False, features, None, {}, {}
    ).sealed()  # fmt: skip
    return StoredGraph(tmp_path, manifest)


def plan_of(store):
    graph, preprocessor = on_disk(store), Preprocessor("raw", n_features=128)
    domain = domain_of(graph, preprocessor)
    filters = (PageRank(0.1, order=7, fixed=("strength",), self_loops=False), Propagation(2))
    priors = [(str(n), make_prior(filter, Cosine(), domain)) for n, filter in enumerate(filters)]
    return plan_filters(graph, preprocessor, priors, 1000, N_NODES)


@pytest.mark.parametrize(("memory", "width", "passes"), [(4, 1, 1152), (12, 13, 90), (64, 64, 18)])
def test_one_machine(papers, memory, width, passes):
    with using(8, memory=memory << 30):
        plan = plan_of(papers)
    assert [step.width for step in plan.steps] == [width, width]
    assert plan.passes == passes
    edges = ScaledParts(papers, False, torch.float32).n_bytes
    assert edges == 2 * N_EDGES * 8 + 4 * N_NODES > 2**34  # 26 GB
    column = 4 * N_NODES
    answers = 2 * 2 * 128 * column
    assert plan.bytes_read == passes * edges + 3 * 9 * 128 * column + 2 * answers
    # Rows of the operator are there with loops, as one of the filters takes them, and without.
    assert plan.bytes_written == 2 * edges + 9 * 128 * column + answers
    assert 0 < plan.memory <= memory << 30 or memory == 4
    assert type(plan.bytes_read) is int
    assert plan.seconds * 8 > 9 * 128 * 2 * N_EDGES * 2.8e-9


def test_too_little_memory_is_refused_with_the_least(papers):
    said = r"one column of 111,000,000 nodes takes 3\.45 GiB of memory .*, and 3\.00 are allowed"
    with using(8, memory=3 << 30), pytest.raises(ValueError, match=said):
        plan_of(papers)


def test_counts_and_places_are_wide_enough(papers):
    assert papers.n_entries == 3_200_000_000 > 2**31
    assert papers.boundaries.dtype == np.int64
    assert on_disk(papers).adjacency.nnz == papers.n_entries
    last = papers.part_of([0, N_NODES - 1])
    assert last.tolist() == [0, papers.n_parts - 1]
