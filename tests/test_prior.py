"""The one prior: every implementation against its dense definition, however it is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import concrete, dense, random_graph
from memory import without_proc
from nodegp.filters import Identity, NeighbourMean, Propagation, Relations, SumOfFilters
from nodegp.graph import Graph
from nodegp.kernels import RBF, Constant, Cosine, Linear, Polynomial
from nodegp.operators import operator_of
from nodegp.posterior import Posterior
from nodegp.preprocessing import Preprocessor
from nodegp.prior import (
    Domain,
    FilteredFeatures,
    FilteredFunction,
    Prior,
    SumPrior,
    make_prior,
    whole,
)
from nodegp.prior import domain as domain_module
from nodegp.prior import lengths as lengths_module
from nodegp.prior import rows as rows_module
from nodegp.prior.cache import ArrayCache
from nodegp.prior.edges import ALIKE, BOTH, LINKS
from packages import run_code

FORMS = ["dense", "sparse", "centred", "featureless"]
SKETCH = 24
COSINE = Cosine(1.7) + Constant(0.4)
FAR = Propagation(2, hub_discount=0.5)
SHARED = Propagation(1, self_loops=False, centred=True)


@pytest.fixture(params=["made", "carried"])
def way(request, monkeypatch):
    """Rows of nodes are made, or their inner products are carried over the graph."""
    monkeypatch.setattr(rows_module, "_FEW", 1000 if request.param == "made" else 0)
    return request.param


def domain_of(form: str, n: int = 14, d: int = 5, seed: int = 0) -> Domain:
    graph = random_graph(n, 0.3, d, seed, weighted=True, sparse=form != "dense")
    if form == "featureless":
        graph = Graph(graph.adjacency)
        return Domain(graph, Preprocessor.fit(None, n_nodes=n))
    return Domain(graph, Preprocessor.fit(graph.features, "raw", center=form == "centred"))


PRIORS: dict[str, Prior] = {
    "features": FilteredFeatures(COSINE, FAR),
    "features, sketched": FilteredFeatures(COSINE, FAR, None, SKETCH),
    "features, smooth": FilteredFeatures(RBF(1.3, 0.8), Propagation(1)),
    "features, linear": FilteredFeatures(Linear(0.7) + Constant(0.1), FAR),
    "averaged": FilteredFeatures(COSINE, Propagation(2, averaged=True)),
    "function": FilteredFunction(Polynomial(3, 0.9, 1.1), NeighbourMean()),
    "function, smooth": FilteredFunction(RBF(1.3, 0.8), NeighbourMean()),
    "identity": FilteredFunction(COSINE, Identity()),
    "sum": SumPrior(
        (FilteredFunction(COSINE, Identity()), FilteredFeatures(Cosine(0.6), FAR, None, SKETCH))
    ),
    "centred": FilteredFeatures(COSINE, Propagation(2, centred=True)),
    "centred, sketched": FilteredFeatures(
        COSINE, Propagation(2, hub_discount=0.5, centred=True), None, SKETCH
    ),
    "centred, smooth": FilteredFeatures(RBF(1.3, 0.8), SHARED),
    "centred, averaged": FilteredFeatures(COSINE, Propagation(2, averaged=True, centred=True)),
    "nodes alike": FilteredFeatures(COSINE, FAR, ALIKE),
    "nodes alike, sketched": FilteredFeatures(COSINE, FAR, ALIKE, SKETCH),
    "edges and nodes alike": FilteredFeatures(COSINE, FAR, BOTH),
    "links in common": FilteredFeatures(COSINE, SHARED, LINKS),
    "links in common, sketched": FilteredFeatures(COSINE, SHARED, LINKS, SKETCH),
    "views": SumPrior(
        (
            FilteredFunction(COSINE, Identity()),
            FilteredFeatures(Cosine(0.6), FAR),
            FilteredFeatures(Cosine(0.3), FAR, BOTH, SKETCH),
            FilteredFeatures(Cosine(0.2), SHARED, LINKS),
            FilteredFeatures(RBF(0.9, 0.7), FAR, ALIKE),
        )
    ),
}


# --- the dense definition, in loops ----------------------------------------------------------


def dense_filter(part: FilteredFunction | FilteredFeatures, graph: Graph) -> np.ndarray:
    n, A = graph.n_nodes, graph.adjacency.toarray()
    degree = A.sum(axis=1)
    if isinstance(part.filter, Identity):
        return np.eye(n)
    looped = A + np.eye(n)
    if isinstance(part.filter, NeighbourMean):
        return looped / looped.sum(axis=1, keepdims=True)
    if not part.filter.self_loops:
        looped = A
    totals = looped.sum(axis=1)
    roots = np.sqrt(np.outer(totals, totals))
    S = np.divide(looped, roots, out=np.zeros((n, n)), where=roots > 0)
    S += np.diag(totals == 0)  # who has nobody hears itself
    F = np.linalg.matrix_power(S, part.filter.steps)
    if part.filter.averaged:  # Eq. 15
        F = np.diag(1.0 / (1.0 + degree)) @ (np.diag(degree) + F)
    if part.filter.centred:
        leading = np.sqrt(np.where(degree > 0, totals, 0.0))
        F = F @ (np.eye(n) - np.outer(leading, leading) / (leading @ leading))
    return F @ np.diag((1.0 + degree) ** -part.filter.hub_discount)


def kernel_value(kernel, inner: float, left: float, right: float) -> float:
    """Each kernel of this file from an inner product and two squared lengths."""
    if hasattr(kernel, "terms"):
        return sum(kernel_value(term, inner, left, right) for term in kernel.terms)
    if isinstance(kernel, Constant):
        return kernel.variance
    if isinstance(kernel, Linear):
        return kernel.variance * inner
    if isinstance(kernel, Cosine):
        return kernel.variance * inner / math.sqrt(left * right) if left * right > 0 else 0.0
    if isinstance(kernel, RBF):
        squared = left + right - 2.0 * inner
        return kernel.variance * math.exp(-0.5 * squared / kernel.lengthscale**2)
    return (kernel.variance * inner + kernel.offset) ** kernel.degree


def definition(prior: Prior, domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """Covariances and variances of all nodes; estimated lengths are given to it."""
    if isinstance(prior, SumPrior):
        parts = [definition(part, domain) for part in prior.parts]
        return sum(K for K, _ in parts), sum(v for _, v in parts)
    domain = domain.relation(prior.relation)
    X = dense(domain.rows.take(np.arange(domain.n_nodes)))
    F, n = dense_filter(prior, domain.graph), domain.n_nodes
    K = np.zeros((n, n))
    if isinstance(prior, FilteredFeatures):
        rows = F @ X
        squared = (rows**2).sum(axis=1)
        if prior.sketch:
            signs = lengths_module.random_signs(X.shape[1], prior.sketch).astype(float)
            squared = ((rows @ signs) ** 2).sum(axis=1)
        for i in range(n):
            for j in range(n):
                K[i, j] = kernel_value(prior.kernel, rows[i] @ rows[j], squared[i], squared[j])
        return K, np.array([kernel_value(prior.kernel, s, s, s) for s in squared])
    for i in range(n):
        for j in range(n):
            for a in np.flatnonzero(F[i]):
                for b in np.flatnonzero(F[j]):
                    norms = X[a] @ X[a], X[b] @ X[b]
                    K[i, j] += F[i, a] * F[j, b] * kernel_value(prior.kernel, X[a] @ X[b], *norms)
    return K, K.diagonal().copy()


def close(actual, expected, tolerance=1e-8):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PRIORS)
def test_covariances_are_those_of_the_dense_definition(name, form, way):
    prior, domain = PRIORS[name], domain_of(form)
    K, variances = definition(prior, domain)
    everyone, few = np.arange(domain.n_nodes), np.array([7, 2, 11])
    a, b = prior.at(domain, everyone), prior.at(domain, few)
    with torch.no_grad():
        close(prior.cov(a, b), K[:, few])
        close(prior.cov(b, a), K[few])
        close(prior.cov(a, a), K)
        close(prior.var(a), variances)
        close(prior.cov(prior.to_learn(domain, few), b), K[np.ix_(few, few)])
        cross = prior.cross(a, b.materialise())
        close(torch.cat([cross.block(slice(0, 5)), cross.block(slice(5, 14))]), K[:, few])
        if (factors := cross.factors()) is not None:
            close(factors.left(slice(0, 14)) @ factors.right.mT, K[:, few])


@pytest.mark.parametrize("name", PRIORS)
def test_a_cache_follows_the_hyper_parameters(name):
    prior, domain = PRIORS[name], domain_of("sparse")
    inputs = prior.to_learn(domain, np.array([1, 4, 9]))
    kept_cov, kept_var = prior.cached_cov(inputs, inputs), prior.cached_var(inputs)
    changed = prior.with_parameters({k: 1.3 * v for k, v in prior.free_parameters().items()})
    for now in (prior, changed):
        close(kept_cov(now).detach(), now.cov(inputs, inputs).detach())
        close(kept_var(now).detach(), now.var(inputs).detach())


# Signs of a sketch are those of columns: where these are nodes, other nodes have them.
IN_ANY_ORDER = sorted(PRIORS.keys() - {"links in common, sketched"})


@given(seed=st.integers(0, 10_000), name=st.sampled_from(IN_ANY_ORDER))
def test_nodes_in_another_order_have_the_same_covariances(seed, name):
    prior, domain = PRIORS[name], domain_of("sparse", seed=seed % 7)
    order = np.random.default_rng(seed).permutation(domain.n_nodes)
    moved = Domain(domain.graph.subgraph(order), domain.preprocessor)
    everyone, few = np.arange(domain.n_nodes), np.array([0, 5])
    before = whole(prior.cross(prior.at(domain, order), prior.at(domain, order[few]).materialise()))
    after = whole(prior.cross(prior.at(moved, everyone), prior.at(moved, few).materialise()))
    close(after, before)
    close(prior.var(prior.at(moved, everyone)), prior.var(prior.at(domain, order)))


@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(PRIORS)))
def test_covariances_are_positive_semi_definite(seed, name):
    prior, domain = PRIORS[name], domain_of(FORMS[seed % 4], seed=seed)
    inputs = prior.at(domain, np.arange(domain.n_nodes))
    K = prior.cov(inputs, inputs)
    assert torch.linalg.eigvalsh(0.5 * (K + K.mT))[0] > -1e-8 * K.abs().max()


def test_new_nodes_leave_the_lengths_of_others_as_they_were():
    """Also on a graph without features, where a new node is a new column."""
    for form in ("sparse", "featureless"):
        domain = domain_of(form)
        A = sp.block_diag([domain.graph.adjacency, sp.csr_array((1, 1))])
        X = domain.graph.features
        grown = Graph(A, None if X is None else sp.vstack([X, sp.csr_array(np.ones((1, 5)))]))
        later = Domain(grown, domain.preprocessor)
        polynomial = FAR.polynomial()
        before = domain.sketches(polynomial, SKETCH)
        close(later.sketches(polynomial, SKETCH)[:-1], before)


def test_estimated_lengths_are_near_the_true_ones():
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((60, 60)) < 0.1, 1).astype(float)
    graph = Graph(A + A.T, sp.random_array((60, 900), density=0.05, rng=rng).tocsr())
    domain = Domain(graph, Preprocessor.fit(graph.features, "l2", center=True))
    exact = domain.squared_lengths(FAR.polynomial())
    estimate = (domain.sketches(FAR.polynomial(), lengths_module.WIDTH) ** 2).sum(axis=1)
    errors = np.sqrt(estimate / exact) - 1.0
    assert np.abs(errors).mean() < 0.05  # sqrt(1 / 2s) = 0.044, times sqrt(2 / pi)
    assert abs(errors.mean()) < 0.04


@pytest.mark.parametrize("form", FORMS)
def test_variances_beside_labels_are_those_of_the_covariance(form, way):
    """Where lengths are estimated: exact at the labels, and never below what these explain."""
    prior, domain = PRIORS["sum"], domain_of(form)
    labels, everyone = np.array([7, 2, 11, 3]), np.arange(domain.n_nodes)
    K, _ = definition(prior, domain)
    inputs = prior.at(domain, labels).materialise()
    found = prior.cross(prior.at(domain, everyone), inputs).variances().numpy()
    close(found[labels], K.diagonal()[labels], 1e-6)
    explained = K[:, labels] @ np.linalg.pinv(K[np.ix_(labels, labels)]) @ K[labels]
    assert (found >= explained.diagonal() - 1e-3).all()
    few = prior.cross(prior.at(domain, everyone[3:6]), inputs).variances()
    close(few, found[3:6], 1e-6)


def test_what_is_left_of_a_variance_is_estimated_without_bias():
    """The mean over many sketches is the exact variance, at nodes that no label explains."""
    domain, polynomial = domain_of("sparse", n=30, d=12), FAR.polynomial()
    exact = domain.squared_lengths(polynomial)
    rows = domain.filtered_rows(polynomial, np.arange(5))
    found = []
    for width in range(40, 240):  # each width has other signs
        sketched = domain.filtered_rows(polynomial, np.arange(5), width)
        many = rows_module.FilteredRows(domain, polynomial, np.arange(5, 30), width)
        inner = torch.from_numpy(domain.columns(polynomial, rows)[5:])
        sketches = torch.from_numpy(domain.sketches(polynomial, width)[5:])
        lengths = many.squared_norms()
        ratios = lengths_module.norm_ratios(
            inner.__getitem__, sketches.__getitem__, lengths, sketched
        )
        found.append((ratios * lengths).numpy())
    close(np.mean(found, axis=0), exact[5:], 0.05)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sketch", [0, SKETCH])
def test_the_operator_counts_what_the_plan_says(form, sketch, monkeypatch):
    monkeypatch.setattr(rows_module, "_FEW", 4)
    prior = FilteredFeatures(COSINE, FAR, None, sketch)
    for n_labels, n_asked in ((3, 14), (8, 14), (3, 4)):
        domain = domain_of(form)
        operator = operator_of(domain.graph, True)
        labels = prior.at(domain, np.arange(n_labels))
        before = operator.products
        labels.materialise()
        if form != "dense" or n_labels < 5:  # else F X was made as a whole, for what follows too
            before = operator.products
        asked = prior.at(domain, np.arange(14)[-n_asked:])
        prior.cross(asked, labels.materialise())
        prior.var(asked)
        assert operator.products - before == prior.products(asked, n_labels)


def test_one_more_label_is_one_more_column(monkeypatch):
    monkeypatch.setattr(rows_module, "_FEW", 0)
    prior, domain = FilteredFeatures(COSINE, FAR, None, SKETCH), domain_of("sparse")
    operator = operator_of(domain.graph, True)
    everyone = prior.at(domain, np.arange(14))
    first = whole(prior.cross(everyone, prior.at(domain, np.array([1, 5, 9])).materialise()))

    def products_of(nodes) -> int:
        inputs = prior.at(domain, np.array(nodes)).materialise()
        before = operator.products
        again = whole(prior.cross(everyone, inputs))
        known = [j for j, node in enumerate(nodes) if node in (1, 5, 9)]
        close(again[:, known], first[:, [(1, 5, 9).index(nodes[j]) for j in known]], 1e-14)
        return operator.products - before

    assert products_of([1, 5, 9]) == 0
    assert products_of([1, 3, 5, 9]) == FAR.order  # a label between the others
    assert products_of([9, 1]) == 0  # withdrawn, and in another order
    assert products_of([9, 1, 5]) == FAR.order  # what was withdrawn is gone


def test_what_is_kept_has_a_budget():
    kept = ArrayCache(100)
    kept.put("a", "first", 60)
    kept.put("b", "second", 30)
    assert kept.get("a") == "first"
    kept.put("c", "third", 40)  # the least recently used goes
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == ("first", None, "third")
    kept.put("d", "too large", 101)
    assert kept.get("d") is None
    assert kept.n_bytes == 100


def test_more_labels_than_features_is_weight_space(monkeypatch):
    """The posterior is the same, from matrices of the size of the features."""
    monkeypatch.setattr(rows_module, "_FEW", 0)
    domain = domain_of("dense", n=40, d=3)
    prior = SumPrior((FilteredFunction(COSINE, Identity()), FilteredFeatures(Cosine(0.6), FAR)))
    labelled = prior.at(domain, np.arange(12)).materialise()
    rng = np.random.default_rng(0)
    root = rng.normal(size=(2, 12, 12))
    q = Posterior(
        prior,
        labelled,
        None,
        torch.from_numpy(rng.normal(size=(2, 12))),
        torch.from_numpy(root @ root.transpose(0, 2, 1) / 200),
    )
    everyone = prior.at(domain, np.arange(40))
    factors = prior.cross(everyone, labelled).factors()
    assert factors is not None
    assert factors.right.shape == (12, 2 * 3 + 1)
    w = prior.cov(everyone, labelled)
    found = q.marginals(everyone)
    close(found.mean, (w @ q.mean.mT).numpy())
    explained = torch.einsum("nm,lmk,nk->nl", w, q.gain, w)
    close(found.var, (prior.var(everyone)[:, None] - explained).clamp_min(1e-12).numpy())


def test_one_kernel_for_a_sum_is_one_for_each_part():
    domain = domain_of("dense")
    prior = make_prior(SumOfFilters((Identity(), FAR)), RBF(), domain)
    assert isinstance(prior, SumPrior)
    assert list(prior.free_parameters()) == [
        f"parts[{j}].kernel.{name}" for j in (0, 1) for name in ("variance", "lengthscale")
    ]
    with pytest.raises(ValueError, match="one kernel, or one for each of them"):
        make_prior(SumOfFilters((Identity(), FAR)), (RBF(), RBF(), RBF()), domain)


def test_each_kind_of_edges_is_carried_over_its_own():
    graph = random_graph(12, 0.3, 4)
    other = random_graph(12, 0.3, 4, seed=5)
    kinds = Graph({"cites": graph.adjacency, "author": other.adjacency}, graph.features)
    domain = Domain(kinds, Preprocessor.fit(kinds.features, "raw"))
    fixed = Propagation(1)
    prior = make_prior(Relations(fixed), (Cosine(0.5), Cosine(0.3), Cosine(0.2)), domain)
    inputs = prior.at(domain, np.arange(12))
    parts = [
        FilteredFunction(Cosine(0.5), Identity()),
        FilteredFeatures(Cosine(0.3), fixed),
        FilteredFeatures(Cosine(0.2), fixed),
    ]
    alone = [Graph(g.adjacency, graph.features) for g in (graph, other, graph)]
    expected = sum(
        definition(part, Domain(g, domain.preprocessor))[0]
        for part, g in zip(parts, alone, strict=True)
    )
    close(prior.cov(inputs, inputs), expected)


def test_every_prior_is_tested_here():
    def leaves(prior: Prior) -> set[type]:
        parts = prior.parts if isinstance(prior, SumPrior) else ()
        return {type(prior)}.union(*(leaves(part) for part in parts))

    ours = {kind for kind in concrete(Prior, "cov") if kind.__module__.startswith("nodegp.prior")}
    assert ours == set().union(*(leaves(prior) for prior in PRIORS.values()))


def test_how_many_columns_estimate_lengths():
    width = lengths_module.sketch_width
    assert width(1_000, 1_000) == 0  # exact
    assert width(2_708, 1_433) == 0  # Cora
    assert width(19_717, 500) == 0
    assert width(20_000, 5_000) == lengths_module.WIDTH
    assert width(1_000_000, 100) == 0  # few columns are carried themselves
    assert width(100_000, 20_000) == lengths_module.WIDTH


MEMORY = """
import nodegp.estimators
from memory import mebibytes
from nodegp_paper.datasets import synthetic

libraries = mebibytes("VmRSS")

data = synthetic(30_000, mean_degree=8, n_features=30_000, sparse_features=True,
                 labels_per_class=20, n_words=10, feature_noise=4.0)
model = nodegp.GraphGPClassifier(filter="pagerank", random_state=0)
model.fit(data.graph, data.labels("train")).predict_proba(data.graph)
print(mebibytes("VmHWM") - libraries)
"""


@without_proc
def test_no_array_of_nodes_times_columns_is_made_of_sparse_features():
    """One in single precision would take 3.6 GB."""
    assert int(run_code(MEMORY)) < 900  # MiB


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_labels_long_gone_are_forgotten(form, monkeypatch):
    monkeypatch.setattr(domain_module, "_KEPT_ROWS", 2)
    domain, polynomial = domain_of(form, n=40), FAR.polynomial()
    expected = domain_of(form, n=40).filtered_rows(polynomial, np.arange(40), SKETCH)
    for start in range(0, 36, 2):
        nodes = np.array([start + 3, start, start + 1])
        rows = domain.filtered_rows(polynomial, nodes, SKETCH)
        close(rows.dense(), expected.dense()[nodes])
        close(rows.squared_norms(), expected.squared_norms()[nodes])
    width = expected.dense().shape[1]
    assert domain.cache.n_bytes <= 2 * 12 * (2 + 3 * 2 + 3) * (width + SKETCH)


def test_all_edges_of_a_graph_share_one_budget():
    domain = domain_of("sparse")
    for name in (ALIKE, BOTH, LINKS):
        assert domain.relation(name).cache is domain.cache
        assert domain.relation(name) != domain
    rows = [
        domain.relation(name).filtered_rows(FAR.polynomial(), np.arange(3)).dense()
        for name in (None, ALIKE, BOTH)
    ]
    assert not np.allclose(rows[0], rows[1]), "each has rows of its own"
    assert not np.allclose(rows[0], rows[2])
    assert not np.allclose(rows[1], rows[2])
