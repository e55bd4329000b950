"""Rows of features in their three forms, and inner products between them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import dense
from nodegp import rows as rows_module
from nodegp.budget import budget
from nodegp.preprocessing import Preprocessor
from nodegp.prior.kept import KeptRows
from nodegp.rows import (
    Rows,
    inner_products,
    inner_products_ragged,
    inner_products_stacked,
    ragged_pairs,
)

KINDS = ["raw", "l2", "sqrt", "sqrt-tfidf", "tfidf", "standardise"]


def transformed(fitted, raw):
    return dense(fitted.transform(raw, np.arange(raw.shape[0])))


# --- rows and their inner products ----------------------------------------------------------


def rows_of_form(form, n=7, d=5, seed=0):
    """Rows in one of their three forms, and what they stand for."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d)) * (generator.random((n, d)) < 0.6)
    X[1] = 0.0
    centre = generator.standard_normal(d)
    if form == "dense":
        return Rows(torch.from_numpy(X)), X
    if form == "sparse":
        return Rows(sp.csr_array(X)), X
    return Rows(sp.csr_array(X), centre), X - centre


FORMS = ["dense", "sparse", "centred"]


@pytest.mark.parametrize("left", FORMS)
@pytest.mark.parametrize("right", FORMS)
@pytest.mark.parametrize("dense_limit", [0, 1 << 23])
def test_inner_products(left, right, dense_limit, monkeypatch):
    """Whether or not the smaller side is made dense in passing."""
    monkeypatch.setattr(budget, "passing", dense_limit)
    a, A = rows_of_form(left, n=7, seed=0)
    b, B = rows_of_form(right, n=4, seed=1)
    inner = inner_products(a, b)
    assert inner.dtype == torch.float64
    np.testing.assert_allclose(inner.numpy(), A @ B.T, rtol=0, atol=1e-12)


def test_only_small_matrices_are_made_dense_in_passing(monkeypatch):
    rows = Rows(sp.csr_array((3, 1000)))
    made = []
    original = rows_module._dense_transpose
    monkeypatch.setattr(
        rows_module, "_dense_transpose", lambda m: made.append(m.shape) or original(m)
    )
    for limit, expected in ((2999, []), (3000, [(3, 1000)])):
        monkeypatch.setattr(budget, "passing", limit)
        inner_products(rows, rows)
        assert made == expected


@pytest.mark.parametrize("form", FORMS)
def test_inner_products_with_points_that_learn(form):
    rows, X = rows_of_form(form)
    points = torch.from_numpy(rows_of_form("dense", n=3, seed=2)[1]).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: inner_products(rows, Rows(z)), (points,))
    assert torch.autograd.gradcheck(lambda z: inner_products(Rows(z), rows), (points,))
    inner = inner_products(Rows(points), rows).detach().numpy()
    np.testing.assert_allclose(inner, points.detach().numpy() @ X.T, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_uncentred_rows_keep_every_distance(form):
    """For searching neighbours; sparse rows with the 32-bit indices that scikit-learn wants."""
    rows, X = rows_of_form(form)
    values = rows.uncentred()
    if sp.issparse(values):
        assert values.indices.dtype == values.indptr.dtype == np.int32
        values = values.toarray()
    np.testing.assert_allclose(values - values[0], X - X[0], atol=1e-14)


GROUPS = [[0, 1, 2], [1], [6, 3, 0, 6], [], [2, 2], [1, 1]]  # 1 is a row of zeros


def test_inner_products_stacked():
    """Groups may share rows, repeat one, and hold zero rows only."""
    rows, X = rows_of_form("dense")
    groups = np.array([[0, 1, 2], [1, 1, 1], [6, 3, 0], [2, 2, 5]])
    inner = inner_products_stacked(rows, groups).numpy()
    for g, group in enumerate(groups):
        np.testing.assert_allclose(inner[g], X[group] @ X[group].T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["sparse", "centred"])
@pytest.mark.parametrize("width", [5, 5000])
def test_inner_products_ragged(form, width):
    """Groups of any size one after the other; a width where columns are numbered anew too."""
    rows, X = rows_of_form(form, d=width)
    if width == 5000:  # a handful of entries in very many columns
        few = sp.csr_array(rows.values.multiply(np.arange(5000) % 1000 == 7))
        rows = Rows(few, rows.centre)
        X = dense(rows)
    sizes = np.array([len(group) for group in GROUPS])
    inner = inner_products_ragged(rows.take(np.concatenate(GROUPS).astype(int)), sizes).numpy()
    expected = [(X[group] @ X[group].T).ravel() for group in GROUPS if group]
    np.testing.assert_allclose(inner, np.concatenate(expected), rtol=1e-12, atol=1e-12)


def test_ragged_pairs():
    sizes = np.array([2, 0, 1, 3])
    left, right = ragged_pairs(sizes)
    expected, start = [], 0
    for size in sizes:
        expected += [(start + i, start + j) for i in range(size) for j in range(size)]
        start += size
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected


@pytest.mark.parametrize("sizes", [[2, 2], [4], [0, 4], []])
def test_ragged_zero_rows_only(sizes):
    sizes = np.array(sizes, dtype=np.int64)
    rows = Rows(sp.csr_array((int(sizes.sum()), 5)))
    np.testing.assert_array_equal(
        inner_products_ragged(rows, sizes).numpy(), np.zeros((sizes**2).sum())
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 3])
def test_rows_take_norms_and_dense(form, size):
    rows, X = rows_of_form(form)
    index = np.array([4, 1, 4])[:size]
    part = rows.take(index)
    assert len(part) == size
    np.testing.assert_allclose(dense(part), X[index], atol=1e-15)
    np.testing.assert_allclose(part.squared_norms().numpy(), (X[index] ** 2).sum(1), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_lengths_that_a_prior_defines(form):
    """They stand for the rows' own, go along with them, and change no inner product."""
    rows, X = rows_of_form(form)
    sketch = torch.arange(14.0, dtype=torch.float64).view(7, 2)
    scaled = Rows(rows.values, rows.centre, sketch)
    np.testing.assert_array_equal(scaled.squared_norms(), (sketch**2).sum(1))
    part = scaled.take(np.array([4, 1, 4]))
    np.testing.assert_array_equal(part.squared_norms(), [145.0, 13.0, 145.0])
    assert rows.sketches() is None
    np.testing.assert_array_equal(scaled.sketches()(slice(2, 4)), sketch[2:4])
    other, Y = rows_of_form("dense", n=3, seed=2)
    for source in (rows, scaled):
        inner = source.inner_with(other)
        np.testing.assert_allclose(inner(slice(1, 5)), X[1:5] @ Y.T, atol=1e-12)
    assert scaled.materialise() is scaled


@pytest.mark.parametrize("form", FORMS)
def test_rows_as_an_array_and_narrow_ones_in_ranges(form):
    rows, X = rows_of_form(form)
    np.testing.assert_allclose(rows.dense(), X, atol=1e-15)
    narrow = rows.narrow(5)
    assert (narrow is None) == (form != "dense")
    if narrow is not None:
        np.testing.assert_array_equal(narrow(slice(2, 4)), X[2:4])
    assert rows.narrow(4) is None
    if form != "centred":  # widened are those of a graph without features only
        np.testing.assert_array_equal(rows.dense(7), np.hstack([X, np.zeros((7, 2))]))


@pytest.mark.parametrize("form", FORMS)
def test_equal_rows_are_known_again(form):
    rows, X = rows_of_form(form)
    marks = rows.fingerprints
    assert len(set(marks)) == len(marks) == len(X)
    again = rows.take(np.array([4, 1, 4])).fingerprints
    assert again == (marks[4], marks[1], marks[4])
    changed, _ = rows_of_form(form, seed=1)
    assert not set(changed.fingerprints) & {mark for n, mark in enumerate(marks) if n != 1}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sums", ["one", "other", "almost one"])
def test_combined_rows(form, sums):
    rows, X = rows_of_form(form)
    weights = np.random.default_rng(3).uniform(0, 1, (3, 7)) * (np.arange(7) != 4)
    weights /= weights.sum(axis=1, keepdims=True)
    weights *= {"one": 1.0, "other": 1.7, "almost one": 1.0 + 5e-6}[sums]
    combined = rows.combined(sp.csr_array(weights))
    np.testing.assert_allclose(dense(combined), weights @ X, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        combined.squared_norms().numpy(), ((weights @ X) ** 2).sum(1), rtol=0, atol=1e-12
    )


@given(
    n=st.integers(1, 8),
    d=st.integers(1, 5),
    density=st.floats(0, 1),
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["auto", *KINDS]),
    center=st.booleans(),
)
def test_any_table_sparse_equals_dense(n, d, density, seed, kind, center):
    """Also one row, one column, all zeros; the answer is finite."""
    generator = np.random.default_rng(seed)
    X = generator.poisson(2.0, (n, d)) * (generator.random((n, d)) < density) * 1.0
    from_sparse, from_array = (
        transformed(Preprocessor.fit(make(X), kind, center), make(X))
        for make in (sp.csr_array, np.array)
    )
    assert np.isfinite(from_array).all()
    np.testing.assert_allclose(from_sparse, from_array, rtol=0, atol=1e-12)


def test_inner_products_of_rows_with_themselves_and_their_gradient():
    values = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def gram(x):
        rows = Rows(x)
        return inner_products(rows, rows)

    torch.testing.assert_close(gram(values), values @ values.mT)
    assert torch.autograd.gradcheck(gram, values.requires_grad_())


def test_inner_products_that_are_known_are_not_made_again():
    rows = Rows(torch.from_numpy(np.random.default_rng(0).random((4, 3))))
    gram = inner_products(rows, rows)
    knowing = rows.knowing(gram, rows.fingerprints)
    assert inner_products(knowing, knowing) is gram
    few = knowing.take(np.array([2, 0]))
    assert few.known_gram is None
    assert torch.equal(inner_products(few, knowing), few.values @ rows.values.mT)


def test_rows_of_links_of_a_graph_that_has_grown():
    values = np.random.default_rng(1).random((5, 7))
    values[:3, 4:] = 0.0
    narrow, wide = Rows(torch.from_numpy(values[:3, :4])), Rows(torch.from_numpy(values[3:]))
    expected = values[:3] @ values[3:].T
    assert inner_products(narrow, wide).numpy() == pytest.approx(expected)
    assert inner_products(wide, narrow).numpy() == pytest.approx(expected.T)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_kept_rows_grow_and_those_of_before_stay(form):
    """Two that grow from the same place do not write into each other."""
    values = np.random.default_rng(0).standard_normal((60, 4))
    nodes = np.array([7, 2, 40])
    kept = KeptRows(nodes[:0], form(values[nodes[:0]])).with_rows(nodes, form(values[nodes]))
    steps = [(kept, values)]

    def at(rows, some):
        found = rows.at(some)
        return found.toarray() if sp.issparse(found) else found

    for node in range(50, 60):
        new = np.array([node])
        assert kept.missing(np.append(kept.nodes, node)).tolist() == [node]
        grown = kept.with_rows(new, form(values[new]))
        steps += [(grown, values), (kept.with_rows(new, form(-values[new])), -values)]
        kept = grown
    for step, expected in steps:
        last = step.nodes[-1:]
        np.testing.assert_array_equal(at(step, last), expected[last])
        np.testing.assert_array_equal(at(step, step.nodes[-2::-1]), values[step.nodes[-2::-1]])
    some = kept.only(np.array([2, 55, 3]))
    assert some.nodes.tolist() == [2, 55]
    np.testing.assert_array_equal(at(some, np.array([55])), values[[55]])


def test_room_for_more_rows_is_used():
    """One more label does not copy the rows of all others."""
    kept = KeptRows(np.arange(0), np.zeros((0, 3))).with_rows(np.arange(5), np.ones((5, 3)))
    first = kept.with_rows(np.array([5]), np.ones((1, 3)))
    second = first.with_rows(np.array([6]), np.ones((1, 3)))
    assert np.shares_memory(first.values, second.values)
    assert second.n_bytes >= second.values.nbytes


def test_lengths_asked_for_without_gradients_do_not_lose_them():
    values = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    rows = Rows(values)
    with torch.no_grad():
        rows.squared_norms()
    rows.squared_norms().sum().backward()
    torch.testing.assert_close(values.grad, 2 * values.detach())
