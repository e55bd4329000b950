"""Wide sparse features of tables: words, lists of features, and fewer columns in their place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

import nodegp
from nodegp.ingest.wide import singular_vectors
from nodegp.preprocessing import Preprocessor


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    words = [f"{a}{b}" for a in ("été", "maß", "word", "x_", "9") for b in range(8)]
    rows = [" ".join(rng.choice(words, rng.integers(1, 9))).title() for _ in range(50)]
    rows[7], rows[11] = "", "solitary a b, été0; été0!"
    return rows


@pytest.fixture
def edges():
    return pd.DataFrame({"from": [0, 1, 2], "to": [1, 2, 3]})


def counts_of(texts) -> np.ndarray:
    return CountVectorizer(dtype=np.float64, min_df=2).fit_transform(texts).toarray()


def test_words_are_counted_as_in_a_table_that_is_read_whole(tmp_path, texts, edges):
    """The same counts, in the order of hashes and not of the alphabet."""
    nodes = pd.DataFrame({"name": range(50), "t": texts})
    nodes.to_csv(tmp_path / "n.csv", index=False)
    store = nodegp.prepare(tmp_path / "n.csv", edges, tmp_path / "s", text=["t"])
    assert store.has_sparse_features
    assert not store.is_prepared
    found = store.features_of(0).toarray()
    expected = counts_of(texts)
    assert found.shape == expected.shape
    order = [np.lexsort(matrix[::-1]) for matrix in (found, expected)]
    assert np.array_equal(found[:, order[0]], expected[:, order[1]])
    assert store.column_statistics["sum"].sum() == expected.sum()


def test_lists_of_features(tmp_path, edges):
    lists = [[5, 2], [2], [], None, [9, 9, 5]]
    nodes = pa.table({"name": pa.array(range(5)), "has": pa.array(lists, pa.list_(pa.int32()))})
    pa.parquet.write_table(nodes, tmp_path / "n.parquet")
    store = nodegp.prepare(tmp_path / "n.parquet", edges, tmp_path / "s", part_entries=2)
    assert store.n_parts > 1
    rows = store.features_at(None).toarray()
    assert rows.tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 2]]
    for odd in ([[1], [-1, 2]], [[1], [2**40, 3]]):
        frame = pd.DataFrame({"name": [0, 1], "has": odd})
        with pytest.raises(ValueError, match="these go from 0 to"):
            nodegp.prepare(frame, pd.DataFrame({"a": [0], "b": [1]}), tmp_path / "t")


@pytest.mark.parametrize("n_vectors", [1, 4, 12])
def test_singular_vectors(n_vectors):
    """Against the whole decomposition, from blocks of any size."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, 12)))[0] for n in (200, 30))
    matrix = sp.csr_array(left * 0.8 ** np.arange(12) @ right.T)

    def blocks():
        return (matrix[n : n + 37] for n in range(0, 200, 37))

    found = singular_vectors(blocks, 30, n_vectors)
    assert found.shape == (30, n_vectors)
    np.testing.assert_allclose(found.T @ found, np.eye(n_vectors), atol=1e-9)
    overlap = np.abs(found.T @ right[:, :n_vectors])
    np.testing.assert_allclose(overlap, np.eye(n_vectors), atol=1e-4)


def test_reduced_words_keep_their_inner_products(tmp_path, texts, edges):
    nodes = pd.DataFrame({"name": range(50), "t": texts})
    store = nodegp.prepare(nodes, edges, tmp_path / "s", text=["t"], svd=1_000)
    counts = sp.csr_array(counts_of(texts))
    assert store.is_prepared
    assert store.feature_names is not None
    assert store.feature_names[:2] == ("svd 1", "svd 2")
    assert store.n_features == counts.shape[1]  # not more than there are
    rows = Preprocessor.fit(counts, "sqrt-tfidf").transform(counts, np.arange(50)).values.toarray()
    expected = rows @ rows.T
    expected /= np.trace(expected) / 50
    found = store.features_at(None).astype(float)
    np.testing.assert_allclose(found @ found.T, expected, atol=1e-5)
    few = nodegp.prepare(nodes, edges, tmp_path / "f", text=["t"], svd=3)
    best = np.linalg.svd(rows)[1]
    kept = np.linalg.norm(few.features_at(None), axis=0)
    np.testing.assert_allclose(kept / kept[0], best[:3] / best[0], rtol=1e-3)


def test_numbers_beside_reduced_words(tmp_path, texts, edges):
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((50, 2)) * 1e3 + 5e6
    nodes = pd.DataFrame({"name": range(50), "t": texts, "x": numbers[:, 0], "z": numbers[:, 1]})
    (tmp_path / "n").mkdir()
    nodes[:20].to_csv(tmp_path / "n" / "1.csv", index=False)
    nodes[20:].to_csv(tmp_path / "n" / "2.csv", index=False)
    store = nodegp.prepare(tmp_path / "n", edges, tmp_path / "s", text=["t"], svd=5, part_entries=2)
    assert store.n_parts > 1
    assert store.feature_names == ("x", "z", *(f"svd {n}" for n in range(1, 6)))
    rows = store.features_at(None).astype(float)
    assert (rows**2).sum() / 50 == pytest.approx(1.0, rel=1e-5)
    scaled = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    share = rows[:, :2] / scaled
    np.testing.assert_allclose(share, share[0, 0], rtol=1e-4)
    alone = nodegp.prepare(nodes[["name", "t"]], edges, tmp_path / "a", text=["t"], svd=5)
    ratio = rows[:, 2:] / np.where(alone.features_at(None) == 0, np.nan, alone.features_at(None))
    np.testing.assert_allclose(ratio[~np.isnan(ratio)], np.nanmedian(ratio), rtol=1e-2)


def test_texts_that_share_no_word(tmp_path, edges):
    nodes = pd.DataFrame({"name": range(4), "t": ["one", "two", "three", "four"]})
    with pytest.raises(ValueError, match="no word that two nodes share"):
        nodegp.prepare(nodes, edges, tmp_path / "s", text=["t"])
    nodes["n"] = [1.5, 2, 3, 4]
    with pytest.raises(ValueError, match="holds double, not text"):
        nodegp.prepare(nodes, edges, tmp_path / "t", text=["n"])


def test_only_the_commonest_words_are_kept(tmp_path, texts, edges, monkeypatch):
    monkeypatch.setattr("nodegp.ingest.wide.MOST_COLUMNS", 5)
    nodes = pd.DataFrame({"name": range(50), "t": texts})
    store = nodegp.prepare(nodes, edges, tmp_path / "s", text=["t"])
    n_with = np.sort((counts_of(texts) > 0).sum(axis=0))[::-1]
    assert np.sort(store.column_statistics["nnz"])[::-1].tolist() == n_with[:5].tolist()
