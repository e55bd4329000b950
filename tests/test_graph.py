"""Graph: one rule for edges, inputs never changed, every bad input told apart."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nodegp.graph import Graph, check_nodes

A = np.array([[0, 2, 0, 0], [2, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=float)


def duplicated_csr(kind=sp.csr_array):
    """A csr matrix with repeated and unsorted column numbers: legal, but not canonical."""
    indptr = np.array([0, 3, 4, 4])
    indices = np.array([2, 1, 2, 0])
    data = np.array([1.0, 5.0, 3.0, 2.0])
    return kind((data, indices, indptr), shape=(3, 3))


# --- edges ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        np.array,
        np.ndarray.tolist,
        sp.csr_array,
        sp.csc_array,
        sp.coo_array,
        sp.lil_array,
        sp.dok_array,
        sp.csr_matrix,
        lambda a: a.astype(np.float32),
        lambda a: a.astype(np.int64),
        lambda a: sp.csr_array(a.astype(np.uint8)),
    ],
)
def test_every_form_of_the_same_graph(make):
    graph = Graph(make(A))
    assert isinstance(graph.adjacency, sp.csr_array)
    assert graph.adjacency.dtype == np.float64
    np.testing.assert_array_equal(graph.adjacency.toarray(), A)
    assert graph.n_nodes == 4
    assert graph.n_edges == 2
    np.testing.assert_array_equal(graph.degrees, [2.0, 3.0, 1.0, 0.0])


@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.coo_array])
def test_boolean_adjacency(make):
    graph = Graph(make(A > 0))
    np.testing.assert_array_equal(graph.adjacency.toarray(), (A > 0).astype(float))


def test_direction_takes_the_larger_weight():
    graph = Graph(np.array([[0, 2.0, 0], [7.0, 0, 0], [0, 0.5, 0]]))
    np.testing.assert_array_equal(
        graph.adjacency.toarray(), [[0, 7.0, 0], [7.0, 0, 0.5], [0, 0.5, 0]]
    )


def test_duplicates_take_the_largest_weight_and_are_not_added():
    row, col = [0, 0, 1, 0], [1, 1, 0, 1]
    graph = Graph(sp.coo_array(([1.0, 3.0, 2.0, 3.0], (row, col)), shape=(2, 2)))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 3.0], [3.0, 0]])
    assert graph.n_edges == 1


def test_duplicates_in_csr():
    graph = Graph(duplicated_csr())
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 5, 3], [5, 0, 0], [3, 0, 0]])


def test_self_loops_and_stored_zeros_are_dropped():
    stored = sp.coo_array(([4.0, 0.0, 1.0], ([0, 0, 1], [0, 1, 2])), shape=(3, 3))
    graph = Graph(stored)
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0, 0], [0, 0, 1], [0, 1, 0]])
    assert graph.adjacency.nnz == 2


def test_no_edges_and_no_nodes():
    graph = Graph(sp.csr_array((3, 3)))
    assert (graph.n_nodes, graph.n_edges) == (3, 0)
    np.testing.assert_array_equal(graph.degrees, np.zeros(3))
    assert Graph(np.zeros((0, 0))).n_nodes == 0


def test_a_large_graph_stays_sparse():
    """A million nodes: anything dense would be eight terabytes."""
    n = 1_000_000
    ring = np.arange(n)
    adjacency = sp.coo_array((np.ones(n), (ring, (ring + 1) % n)), shape=(n, n))
    features = sp.csr_array((n, 100_000))
    graph = Graph(adjacency, features)
    assert graph.n_edges == n
    assert sp.issparse(graph.features)
    np.testing.assert_array_equal(graph.degrees, np.full(n, 2.0))


edges = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.floats(0, 10, allow_subnormal=False)),
    max_size=30,
)


@given(edges=edges, kind=st.sampled_from([sp.coo_array, sp.csr_array, sp.csc_array]))
def test_undirected_loop_free_largest_weight(edges, kind):
    i, j, w = (list(v) for v in zip(*edges, strict=True)) if edges else ([], [], [])
    coo = sp.coo_array((np.array(w, dtype=float), (np.array(i, int), np.array(j, int))), (8, 8))
    if kind is not sp.coo_array:
        coo = kind(coo)  # adds duplicates up
        i, j, w = coo.tocoo().row, coo.tocoo().col, coo.tocoo().data
    expected = np.zeros((8, 8))
    for a, b, weight in zip(i, j, w, strict=True):
        if a != b:
            expected[a, b] = expected[b, a] = max(expected[a, b], weight)
    graph = Graph(coo)
    result = graph.adjacency.toarray()
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(result, result.T)
    assert not result.diagonal().any()
    assert graph.adjacency.has_canonical_format
    assert 2 * graph.n_edges == np.count_nonzero(result)


# --- the caller's arrays --------------------------------------------------------------------


def arrays_of(matrix):
    """Every buffer behind a matrix, copied."""
    if not sp.issparse(matrix):
        return [np.array(matrix)]
    names = ("row", "col", "data") if matrix.format == "coo" else ("indptr", "indices", "data")
    return [getattr(matrix, name).copy() for name in names]


LOOPS = A + np.eye(4)
ADJACENCIES = {
    "dense": LOOPS,
    "dense-int": LOOPS.astype(int),
    "dense-bool": LOOPS > 0,
    "csr": sp.csr_array(LOOPS),
    "csr-matrix": sp.csr_matrix(LOOPS),
    "csr-float32": sp.csr_array(LOOPS.astype(np.float32)),
    "csr-duplicates": duplicated_csr(),
    "csc": sp.csc_array(LOOPS),
    "coo": sp.coo_array(LOOPS),
    "coo-duplicates": sp.coo_array(([1.0, 3.0], ([0, 0], [1, 1])), shape=(2, 2)),
}


@pytest.mark.parametrize("name", ADJACENCIES)
def test_adjacency_is_never_changed(name):
    """The paper's own code wrote self-loops into the caller's matrix."""
    given_matrix = ADJACENCIES[name]
    before = arrays_of(given_matrix)
    graph = Graph(given_matrix)
    graph.adjacency.data[:] = 77.0  # nothing shared, either
    graph.adjacency.indices[:] = 0
    for old, new in zip(before, arrays_of(given_matrix), strict=True):
        np.testing.assert_array_equal(old, new)
        assert old.dtype == new.dtype


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_non_canonical_features_are_not_changed(kind):
    features = duplicated_csr(kind)
    before = arrays_of(features)
    graph = Graph(np.zeros((3, 3)), features)
    # Features, unlike edges, add up over duplicates, as scipy reads them.
    np.testing.assert_array_equal(graph.features.toarray(), [[0, 5, 4], [2, 0, 0], [0, 0, 0]])
    assert graph.features.has_canonical_format
    for old, new in zip(before, arrays_of(features), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", [n for n in ADJACENCIES if "duplicates" not in n])
def test_features_are_not_changed(name):
    features = ADJACENCIES[name]
    before = arrays_of(features)
    Graph(np.zeros((4, 4)), features)
    for old, new in zip(before, arrays_of(features), strict=True):
        np.testing.assert_array_equal(old, new)


def test_ids_are_copied():
    ids = np.array(["a", "b"])
    graph = Graph(np.zeros((2, 2)), ids=ids)
    ids[0] = "z"
    assert graph.ids.tolist() == ["a", "b"]


# --- features and ids -----------------------------------------------------------------------


def test_features_stay_as_they_are():
    dense = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert Graph(A, dense).features.dtype == np.float32
    sparse = Graph(A, sp.csc_array(dense)).features
    assert isinstance(sparse, sp.csr_array)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    assert Graph(A, dense).n_features == 2
    assert Graph(A).features is None
    assert Graph(A).n_features == 0


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16])
@pytest.mark.parametrize("sparse", [False, True])
def test_whole_numbers_become_floats(dtype, sparse):
    if sparse and dtype is np.float16:
        pytest.skip("scipy has no sparse float16")
    values = np.array([[1, 0], [0, 1], [1, 1], [0, 0]]).astype(dtype)
    features = Graph(A, sp.csr_array(values) if sparse else values).features
    assert features.dtype == np.float64


def test_ids_and_positions():
    graph = Graph(A, ids=["d", "a", "c", "b"])
    np.testing.assert_array_equal(graph.positions(["a", "d", "a"]), [1, 0, 1])
    np.testing.assert_array_equal(Graph(A, ids=[10, 20, 30, 40]).positions([30]), [2])
    with pytest.raises(ValueError, match=r"2 ids are not in the graph, first: \['x', 'y'\]"):
        graph.positions(["a", "x", "y"])
    with pytest.raises(ValueError, match="no ids"):
        Graph(A).positions(["a"])


def test_repr_says_what_it_is():
    assert repr(Graph(A, np.ones((4, 3)))) == "Graph(4 nodes, 2 edges, 3 features)"
    assert "no features" in repr(Graph(A))


# --- refusals -------------------------------------------------------------------------------


def with_entry(value, dtype=float):
    matrix = A.astype(dtype)
    matrix[0, 1] = value
    return matrix


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("adjacency", "error", "match"),
    [
        (with_entry(np.nan), ValueError, "adjacency has NaN or infinite"),
        (with_entry(np.inf), ValueError, "adjacency has NaN or infinite"),
        (with_entry(-3.0), ValueError, r"negative weights \(smallest -3\)"),
        (np.zeros((3, 4)), ValueError, r"square matrix, got shape \(3, 4\)"),
        (with_entry(1j, complex), TypeError, "real numbers"),
    ],
)
def test_bad_adjacency(adjacency, error, match, sparse):
    with pytest.raises(error, match=match):
        Graph(sp.csr_array(adjacency) if sparse else adjacency)


@pytest.mark.parametrize(
    ("adjacency", "error", "match"),
    [
        (np.array([[None, 1], [1, None]], dtype=object), TypeError, "numbers, got dtype object"),
        (np.array([["0", "1"], ["1", "0"]]), TypeError, "numbers, got dtype <U1"),
        (np.ones(4), ValueError, r"square matrix, got shape \(4,\)"),
        (np.ones((2, 2, 2)), ValueError, r"square matrix, got shape \(2, 2, 2\)"),
        (sp.coo_array(np.ones(4)), ValueError, r"square.*shape \(4,\)"),
        (None, (TypeError, ValueError), "adjacency must"),
    ],
)
def test_adjacency_that_is_no_matrix(adjacency, error, match):
    with pytest.raises(error, match=match):
        Graph(adjacency)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_must_be_finite(value, dtype, sparse):
    if sparse and dtype is np.float16:
        pytest.skip("scipy has no sparse float16")
    features = np.ones((4, 2), dtype=dtype)
    features[2, 1] = value
    with pytest.raises(ValueError, match="features have NaN or infinite values"):
        Graph(A, sp.csr_array(features) if sparse else features)


@pytest.mark.parametrize(
    ("features", "error", "match"),
    [
        (np.ones((3, 2)), ValueError, "3 rows but the graph has 4 nodes"),
        (sp.csr_array(np.ones((5, 2))), ValueError, "5 rows but the graph has 4 nodes"),
        (np.ones(4), ValueError, r"one row per node, got \(4,\)"),
        (np.ones((4, 2, 1)), ValueError, "one row per node"),
        (np.array([["a"]] * 4), TypeError, "real numbers, got dtype <U1"),
        (np.array([[None]] * 4), TypeError, "real numbers, got dtype object"),
        (np.ones((4, 2), dtype=complex), TypeError, "real numbers, got dtype complex128"),
        (sp.csr_array(np.ones((4, 2), dtype=complex)), TypeError, "real numbers"),
        (np.full((4, 1), np.datetime64("2020-01-01")), TypeError, "real numbers"),
    ],
)
def test_bad_features(features, error, match):
    with pytest.raises(error, match=match):
        Graph(A, features)


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        (["a", "b", "a", "c"], r"different; repeated: \['a'\]"),
        ([1, 2, 3], r"each of the 4 nodes once, got shape \(3,\)"),
        ([[1, 2], [3, 4]], r"each of the 4 nodes once, got shape \(2, 2\)"),
    ],
)
def test_bad_ids(ids, match):
    with pytest.raises(ValueError, match=match):
        Graph(A, ids=ids)


# --- check_nodes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ([2, 0, 2], [2, 0, 2]),
        (3, [3]),
        (np.array([1], dtype=np.uint8), [1]),
        ([True, False, False, True], [0, 3]),
        ([], []),
        (np.zeros(4, dtype=bool), []),
    ],
)
def test_nodes_as_numbers_or_mask(nodes, expected):
    result = check_nodes(nodes, 4)
    assert result.tolist() == expected
    assert np.issubdtype(result.dtype, np.integer)


@pytest.mark.parametrize(
    ("nodes", "match"),
    [
        ([4], r"0\.\.3, got 4\.\.4"),
        ([-1], r"0\.\.3, got -1"),
        ([0.5], "node numbers or a mask, got float64"),
        (["a"], "node numbers or a mask"),
        ([[0, 1]], r"shape \(1, 2\)"),
        ([True, False], r"mask needs shape \(4,\)"),
    ],
)
def test_bad_nodes(nodes, match):
    with pytest.raises(ValueError, match=match):
        check_nodes(nodes, 4)


def test_subgraph_keeps_order_edges_features_and_ids():
    adjacency = np.array([[0, 1, 2, 0], [0, 0, 0, 3], [0, 0, 0, 0], [0, 0, 0, 0]])
    graph = Graph(adjacency, features=np.arange(8.0).reshape(4, 2), ids=list("abcd"))
    part = graph.subgraph([3, 0, 1])
    np.testing.assert_array_equal(part.adjacency.toarray(), [[0, 0, 3], [0, 0, 1], [3, 1, 0]])
    np.testing.assert_array_equal(part.features, [[6, 7], [0, 1], [2, 3]])
    assert part.ids.tolist() == ["d", "a", "b"]
    assert graph.subgraph(np.array([True, False, True, False])).n_edges == 1


def test_largest_component():
    adjacency = np.zeros((7, 7))
    for i, j in [(0, 1), (2, 5), (5, 4), (3, 6)]:
        adjacency[i, j] = 1
    assert Graph(adjacency).largest_component().tolist() == [2, 4, 5]
    assert Graph(np.zeros((3, 3))).largest_component().tolist() == [0]


@pytest.mark.parametrize("dtype", ["float16", "longdouble", ">f8", "bool", "uint8"])
def test_numbers_of_any_type_are_taken(dtype):
    matrix = (np.ones((3, 3)) - np.eye(3)).astype(dtype)
    graph = Graph(matrix, matrix)
    assert graph.features.dtype == np.float64
    assert (graph.n_edges, graph.features.sum()) == (3, 6.0)


def test_masked_and_far_too_large_numbers_are_refused():
    ones = np.ones((2, 2))
    for bad, message in ((np.ma.masked_equal(ones, 1.0), "masked"), (ones * 1e200, "1e[+]150")):
        with pytest.raises(ValueError, match=f"features ha.*{message}"):
            Graph(ones, bad)
        with pytest.raises(ValueError, match=f"adjacency has.*{message}"):
            Graph(bad)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="no such numbers here")
def test_ids_of_a_type_that_no_file_keeps_are_refused():
    with pytest.raises(ValueError, match="ids must be text or numbers, got "):
        Graph(np.zeros((2, 2)), ids=np.array([1, 2], np.longdouble))
