"""Preprocessing with a fitted state; sparse equals dense and is never made dense."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.feature_extraction.text import TfidfTransformer

import reference
from conftest import dense
from nodegp.budget import budget
from nodegp.features import FeatureRows
from nodegp.preprocessing import Preprocessor
from nodegp.rows import inner_products, inner_products_ragged

KINDS = ["raw", "l2", "sqrt", "sqrt-tfidf", "tfidf", "standardise"]


def counts(n=9, d=6, seed=0):
    """Sparse counts with a zero row, a column of zeros and a column that is always there."""
    generator = np.random.default_rng(seed)
    X = generator.poisson(0.6, (n, d)).astype(float)
    X[2] = 0.0
    X[:, 1] = 0.0
    X[:, 4] = 1.0
    X[2, 4] = 0.0
    return X


def reals(n=9, d=4, seed=0):
    X = np.random.default_rng(seed).normal(3.0, 2.0, (n, d))
    X[:, 2] = 0.1  # constant, and not a round number in binary
    return X


def transformed(fitted, raw):
    return dense(fitted.transform(raw, np.arange(raw.shape[0])))


@pytest.fixture
def never_dense(monkeypatch):
    """Call with a width: from then on no sparse matrix so wide can be made dense."""

    def forbid(width):
        monkeypatch.setattr(budget, "passing", 0)  # not even a small one in passing
        for kind in (sp.csr_array, sp.csc_array, sp.coo_array):
            for name in ("toarray", "todense"):
                original = getattr(kind, name)

                def guarded(self, *args, _original=original, **kwargs):
                    assert width not in self.shape, f"{self.shape} was made dense"
                    return _original(self, *args, **kwargs)

                monkeypatch.setattr(kind, name, guarded)

    return forbid


# --- each kind ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_tfidf_is_the_loop_and_scikit_learn(make):
    X = counts()
    result = transformed(Preprocessor.fit(make(X), "tfidf"), make(X))
    np.testing.assert_allclose(result, reference.tfidf(X), atol=1e-14)
    theirs = TfidfTransformer(smooth_idf=True).fit_transform(sp.csr_matrix(X)).toarray()
    np.testing.assert_allclose(result, theirs, atol=1e-14)


def test_stored_zeros_are_no_words():
    X = sp.csr_array(counts())
    stored = X.copy()
    stored.data[:3] = 0.0
    np.testing.assert_allclose(
        transformed(Preprocessor.fit(stored, "tfidf"), stored),
        reference.tfidf(stored.toarray()),
        atol=1e-14,
    )


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_l2_rows_have_length_one(make):
    X = counts()
    result = transformed(Preprocessor.fit(make(X), "l2"), make(X))
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(result, np.where(lengths > 0, X / np.maximum(lengths, 1e-9), 0.0))
    assert not result[2].any(), "a zero row stays zero"


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_standardised_columns(make):
    """Mean zero and variance 1 / D; a column that never varies becomes zero."""
    X = reals()
    result = transformed(Preprocessor.fit(make(X), "standardise"), make(X))
    varies = [0, 1, 3]
    np.testing.assert_allclose(result.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(result[:, varies].var(axis=0), 0.25, rtol=1e-12)
    np.testing.assert_array_equal(result[:, 2], np.zeros(9))


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_constant_column_in_single_precision(make):
    """Rounding in single precision must not pass for variation and be blown up."""
    X = np.full((50, 2), 0.1, dtype=np.float32)
    X[:, 1] = np.arange(50)
    fitted = Preprocessor.fit(make(X), "standardise")
    assert fitted.scale[0] == 0.0
    np.testing.assert_array_equal(transformed(fitted, make(X))[:, 0], np.zeros(50))


@pytest.mark.parametrize("mean", [0.0, 100.0, 1e6])
def test_standardise_far_from_zero(mean):
    """A year or an id as a feature: sparse storage must give what dense storage gives."""
    X = np.random.default_rng(0).normal(mean, 0.5, (40, 2))
    whole = Preprocessor.fit(X, "standardise")
    sparse = Preprocessor.fit(sp.csr_array(X), "standardise")
    np.testing.assert_allclose(whole.scale, 1.0 / (X.std(axis=0) * np.sqrt(2)), rtol=1e-9)
    np.testing.assert_allclose(sparse.scale, whole.scale, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_raw_and_others_with_centring(kind):
    X = counts()
    plain = transformed(Preprocessor.fit(X, kind), X)
    centred = transformed(Preprocessor.fit(X, kind, center=True), X)
    np.testing.assert_allclose(centred, plain - plain.mean(axis=0), atol=1e-14)
    if kind == "raw":
        np.testing.assert_array_equal(plain, X)


# --- sparse and dense -----------------------------------------------------------------------


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_equals_dense(kind, center, dtype):
    X = (counts(30, 8) * np.random.default_rng(1).uniform(0.5, 2.0, (30, 8))).astype(dtype)
    sparse = Preprocessor.fit(sp.csr_array(X), kind, center)
    from_array = Preprocessor.fit(X, kind, center)
    rows = sparse.transform(sp.csr_array(X), np.arange(30))
    assert rows.is_sparse
    expected = transformed(from_array, X)
    np.testing.assert_allclose(dense(rows), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        rows.squared_norms().numpy(), (expected**2).sum(axis=1), rtol=0, atol=1e-12
    )
    assert rows.squared_norms().dtype == torch.float64


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_is_never_made_dense(kind, center, never_dense):
    width = 50_021
    generator = np.random.default_rng(0)
    X = sp.random_array((300, width), density=1e-3, rng=generator, format="csr")
    never_dense(width)
    fitted = Preprocessor.fit(X, kind, center)
    rows = FeatureRows.of(fitted, X, 300).take(np.arange(0, 300, 3))
    assert isinstance(rows.values, sp.csr_array)
    assert rows.values.nnz <= X.nnz
    averaged = rows.combined(sp.csr_array(np.full((5, 100), 0.01)))
    assert averaged.is_sparse
    assert inner_products(rows, averaged).shape == (100, 5)
    assert inner_products_ragged(rows, np.array([40, 60])).shape == (40**2 + 60**2,)
    assert rows.squared_norms().shape == (100,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_raw_features_are_not_changed(kind, make):
    X = make(counts())
    before = X.copy()
    transformed(Preprocessor.fit(X, kind, center=True), X)
    if sp.issparse(X):
        np.testing.assert_array_equal(X.data, before.data)
        np.testing.assert_array_equal(X.indices, before.indices)
    else:
        np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_rows_give_the_same_fit(kind, make, monkeypatch):
    X = make(counts(20))
    whole = Preprocessor.fit(X, kind, center=True)
    monkeypatch.setattr(budget, "block", 3)
    blocks = Preprocessor.fit(X, kind, center=True)
    np.testing.assert_allclose(blocks.centre, whole.centre, atol=1e-14)
    if whole.scale is not None:
        np.testing.assert_allclose(blocks.scale, whole.scale, rtol=1e-12)


# --- auto -----------------------------------------------------------------------------------


def mostly_zero(values):
    X = np.zeros((20, 10))
    X[np.arange(20), np.arange(20) % 10] = values
    return X


@pytest.mark.parametrize("make", [np.array, sp.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize(
    ("X", "kind"),
    [
        (mostly_zero(1.0), "sqrt-tfidf"),  # binary
        (mostly_zero(np.arange(20) + 1.0), "sqrt-tfidf"),  # counts
        (mostly_zero(0.37), "l2"),  # weights already
        (mostly_zero(np.where(np.arange(20) % 2, 1.0, -1.0)), "standardise"),  # signs
        (np.random.default_rng(0).normal(size=(20, 10)), "standardise"),
        (np.ones((20, 10)), "standardise"),  # counts, but in every cell
        (np.zeros((20, 10)), "sqrt-tfidf"),  # nothing at all: anything but an error
    ],
)
def test_auto(make, X, kind):
    fitted = Preprocessor.fit(make(X), "auto")
    assert fitted.kind == kind
    asked = Preprocessor.fit(make(X), kind)
    np.testing.assert_array_equal(transformed(fitted, make(X)), transformed(asked, make(X)))
    assert np.isfinite(transformed(fitted, make(X))).all()


def test_stored_zeros_do_not_count_as_filled():
    X = sp.csr_array(np.ones((20, 10)))
    X.data[20:] = 0.0
    assert Preprocessor.fit(X, "auto").kind == "sqrt-tfidf"


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_sqrt_tfidf_is_the_root_of_tfidf(make):
    X = counts()
    whole = transformed(Preprocessor.fit(make(X), "tfidf"), make(X))
    rooted = np.sqrt(whole)
    norms = np.linalg.norm(rooted, axis=1, keepdims=True)
    roots = transformed(Preprocessor.fit(make(X), "sqrt-tfidf"), make(X))
    np.testing.assert_allclose(roots, rooted / np.where(norms > 0, norms, 1.0), atol=1e-14)
    # Of weights that are there already, nothing but the root.
    again = transformed(Preprocessor.fit(make(whole), "sqrt"), make(whole))
    np.testing.assert_allclose(again, roots, atol=1e-14)


@pytest.mark.parametrize("kind", ["sqrt-tfidf", "sqrt"])
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_no_roots_of_negative_values(make, kind):
    X = counts()
    fitted = Preprocessor.fit(make(X), kind)
    X[0, 0] = -1
    with pytest.raises(ValueError, match=f"preprocessing='{kind}' takes square roots"):
        Preprocessor.fit(make(X), kind, center=True)
    with pytest.raises(ValueError, match="negative values; use 'l2'"):
        transformed(fitted, make(X))
    rows = FeatureRows.of(fitted, make(X), len(X))
    for product, size in ((rows.transposed_times, len(X)), (rows.times, X.shape[1])):
        with pytest.raises(ValueError, match="negative values"):
            product(np.ones((size, 1)))
    if not rows.is_sparse:
        with pytest.raises(ValueError, match="negative values"):
            rows.columns(slice(0, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
class TestProductsWithAllRows:
    """Against the rows themselves, of all nodes and of some; in one block and in several."""

    @pytest.fixture(autouse=True, params=[1 << 22, 7], ids=["whole", "blocks"])
    def blocks(self, request, monkeypatch):
        monkeypatch.setattr(budget, "block", request.param)

    def check(self, found, expected, dtype):
        assert found.dtype == dtype
        atol = 1e-5 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(found, expected, atol=atol)

    def test_from_the_left(self, make, center, kind, dtype):
        X = make(counts())
        rows = FeatureRows.of(Preprocessor.fit(X, kind, center), X, X.shape[0])
        shown = transformed(rows.preprocessor, X)
        weights = np.random.default_rng(0).normal(size=(X.shape[0], 3)).astype(dtype)
        before = weights.copy()
        self.check(rows.transposed_times(weights), shown.T @ weights.astype(float), dtype)
        some = rows.select(np.array([4, 0, 4]))
        expected = shown[[4, 0, 4]].T @ weights[:3].astype(float)
        self.check(some.transposed_times(weights[:3]), expected, dtype)
        np.testing.assert_array_equal(weights, before)

    def test_from_the_right(self, make, center, kind, dtype):
        X = make(counts())
        rows = FeatureRows.of(Preprocessor.fit(X, kind, center), X, X.shape[0])
        shown = transformed(rows.preprocessor, X)
        columns = np.random.default_rng(0).normal(size=(X.shape[1], 3)).astype(dtype)
        before, expected = columns.copy(), shown @ columns.astype(float)
        self.check(rows.times(columns), expected, dtype)
        for part in (slice(2, 7), slice(8, 99), slice(3, 3)):
            self.check(rows.times(columns, part), expected[part], dtype)
        some = rows.select(np.array([4, 0, 4]))
        self.check(some.times(columns), expected[[4, 0, 4]], dtype)
        self.check(some.times(columns, slice(1, 3)), expected[[0, 4]], dtype)
        self.check(rows.times(np.asfortranarray(columns)), expected, dtype)
        self.check(rows.times(columns[:, :0]), expected[:, :0], dtype)
        np.testing.assert_array_equal(columns, before)

    def test_with_other_rows_and_themselves(self, make, center, kind, dtype):
        X = make(counts().astype(dtype))
        rows = FeatureRows.of(Preprocessor.fit(X, kind, center), X, X.shape[0])
        shown = transformed(rows.preprocessor, X)
        others = rows.take(np.array([3, 2, 8]))
        inner = rows.inner_with(others)
        np.testing.assert_allclose(inner(slice(1, 7)), (shown @ shown[[3, 2, 8]].T)[1:7], atol=1e-6)
        some = rows.select(np.array([4, 0, 4]))
        for found, expected in ((rows, shown), (some, shown[[4, 0, 4]])):
            lengths = found.squared_norms()
            np.testing.assert_allclose(lengths, (expected**2).sum(axis=1), atol=1e-12)

    def test_columns_of_dense_features(self, make, center, kind, dtype):
        if make is sp.csr_array:
            return  # those are never asked for a column
        for X in (counts().astype(dtype), np.asfortranarray(counts().astype(dtype))):
            rows = FeatureRows.of(Preprocessor.fit(X, kind, center), X, X.shape[0])
            shown, before = transformed(rows.preprocessor, X), X.copy()
            np.testing.assert_allclose(rows.columns(slice(1, 4)), shown[:, 1:4], atol=1e-12)
            some = rows.select(np.array([4, 0, 4]))
            np.testing.assert_allclose(some.columns(slice(2, 5)), shown[[4, 0, 4], 2:5], atol=1e-12)
            narrow = rows.narrow(6)
            np.testing.assert_allclose(narrow(slice(2, 5)), shown[2:5], atol=1e-12)
            assert rows.narrow(5) is None
            np.testing.assert_array_equal(X, before)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_no_warning_of_columns_that_must_not_be_written_to(make, kind, recwarn):
    """As those of a sketch: users of large graphs saw one of torch's."""
    X = make(counts())
    rows = FeatureRows.of(Preprocessor.fit(X, kind), X, X.shape[0])
    columns = np.ones((X.shape[1], 2))
    columns.flags.writeable = False
    torch.set_warn_always(True)
    try:
        rows.times(columns)
        rows.transposed_times(np.ones((X.shape[0], 2)))
    finally:
        torch.set_warn_always(False)
    assert not [warning for warning in recwarn if "not writable" in str(warning.message)]


def test_unknown_kind():
    with pytest.raises(ValueError, match=r"one of \['auto', .*got 'pca'"):
        Preprocessor.fit(counts(), "pca")


# --- fitted state ---------------------------------------------------------------------------


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_new_rows_get_the_fitted_state(kind, center, make):
    """A row's features do not depend on which other rows come with it."""
    old, new = counts(seed=0), counts(5, seed=1)
    fitted = Preprocessor.fit(make(old), kind, center)
    both = np.vstack([old, new])
    together = dense(FeatureRows.of(fitted, make(both), len(both)).take(np.arange(len(both))))
    np.testing.assert_allclose(together[: len(old)], transformed(fitted, make(old)))
    for n in range(len(new)):
        alone = dense(FeatureRows.of(fitted, make(new), len(new)).take(np.array([n])))
        np.testing.assert_allclose(together[len(old) + n], alone[0], atol=1e-15)
    if kind in ("tfidf", "standardise"):
        refitted = transformed(Preprocessor.fit(make(new), kind, center), make(new))
        assert not np.allclose(refitted, together[len(old) :])


@pytest.mark.parametrize("raw", [counts(d=7), sp.csr_array(counts(d=7))])
def test_wrong_width(raw):
    fitted = Preprocessor.fit(counts(d=6), "l2")
    with pytest.raises(ValueError, match="this graph has 7 features; the model was fitted with 6"):
        FeatureRows.of(fitted, raw, 9)


def test_features_where_there_were_none_and_none_where_there_were():
    with pytest.raises(ValueError, match="fitted with 6 features; this graph has none"):
        FeatureRows.of(Preprocessor.fit(counts()), None, 9)
    with pytest.raises(ValueError, match="without features; this one has 6"):
        FeatureRows.of(Preprocessor.fit(None), counts(), 9)


def test_no_features_are_one_hot():
    fitted = Preprocessor.fit(None)
    assert fitted.kind == "one-hot"
    rows = FeatureRows.of(fitted, None, 4).take(np.array([2, 0]))
    assert rows.is_sparse
    np.testing.assert_array_equal(dense(rows), np.eye(4)[[2, 0]])


def test_one_hot_rows_of_a_grown_graph():
    """Five nodes then, seven now: old nodes keep their place."""
    fitted = Preprocessor.fit(None)
    old = FeatureRows.of(fitted, None, 5).take(np.arange(5))
    new = FeatureRows.of(fitted, None, 7).take(np.arange(7))
    np.testing.assert_array_equal(inner_products(old, new).numpy(), np.eye(5, 7))
    np.testing.assert_array_equal(inner_products(new, old).numpy(), np.eye(7, 5))
    found = FeatureRows.of(fitted, None, 7).inner_with(old)(slice(0, 7))
    np.testing.assert_array_equal(found.numpy(), np.eye(7, 5))


def test_rows_are_taken_lazily_and_in_order():
    X = counts()
    rows = FeatureRows.of(Preprocessor.fit(X, "raw"), X, 9)
    chosen = rows.select(np.array([5, 1, 7]))
    assert isinstance(chosen, FeatureRows)
    assert (len(rows), len(chosen)) == (9, 3)
    np.testing.assert_array_equal(dense(chosen.take(np.array([2, 0]))), X[[7, 5]])
    twice = chosen.select(np.array([1, 1]))
    np.testing.assert_array_equal(dense(twice.take(np.arange(2))), X[[1, 1]])
