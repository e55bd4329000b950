"""Products from disk are those in memory, to the bit, whatever a part looks like."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nodegp.disk import Threads, on_disk, using
from nodegp.disk.graph import StoredRows
from nodegp.operators import MemoryOperator, operator_of
from nodegp.store import index_dtype
from stores import awkward_graph, stored


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_are_equal_to_the_bit(tmp_path, self_loops, weighted, dtype):
    graph, _ = awkward_graph(weighted=weighted)
    store = stored(graph, tmp_path / "store")
    assert store.n_parts > 8
    sizes = [store.edges(part).nnz for part in range(store.n_parts)]
    assert max(sizes) > 300
    assert min(sizes) == 0  # the hub alone, and nodes without edges
    memory, disk = MemoryOperator(graph, self_loops), operator_of(on_disk(store), self_loops)
    generator = torch.Generator().manual_seed(0)
    for width in (1, 3, 16, 17, 40):
        columns, before = torch.randn(2, graph.n_nodes, width, generator=generator, dtype=dtype)
        for subtract in (None, before):
            copies = [None if subtract is None else subtract.clone() for _ in range(2)]
            expected = memory.matmul(columns, 2.0, copies[0])
            for threads in (1, 3):
                with using(threads):
                    copy = None if subtract is None else subtract.clone()
                    assert torch.equal(disk.matmul(columns, 2.0, copy), expected)
    assert memory.cost == disk.cost
    assert np.array_equal(memory.degrees, disk.degrees)


def test_rows_are_equal_to_the_bit(tmp_path):
    graph, _ = awkward_graph(weighted=True)
    disk = operator_of(on_disk(stored(graph, tmp_path / "store")), False)
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        rows = sp.random_array((5, graph.n_nodes), density=0.05, rng=rng).tocsr().astype(dtype)
        expected = MemoryOperator(graph, False).row_matmul(rows)
        found = disk.row_matmul(rows)
        assert found.dtype == expected.dtype
        assert np.array_equal(found.toarray(), expected.toarray())


def test_passes_are_counted(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    operator = operator_of(on_disk(store), False)
    assert operator is operator_of(on_disk(store), False)
    operator.matmul(torch.zeros(graph.n_nodes, 3))
    assert (operator.passes, operator.products) == (1.0, 3)
    operator.row_matmul(sp.csr_array(([1.0], ([0], [0])), shape=(1, graph.n_nodes)))
    assert operator.passes == 1.0 + 1 / store.n_parts


def test_rows_of_the_operator_are_made_once_and_again_where_they_are_damaged(tmp_path):
    graph, _ = awkward_graph()
    store = stored(graph, tmp_path / "store")
    operator = operator_of(on_disk(store), False)
    columns = torch.randn(graph.n_nodes, 4)
    expected = operator.matmul(columns)
    files = sorted((store.path / "work").glob("operator-*/*"))
    assert len(files) == store.n_parts
    times = [path.stat().st_mtime_ns for path in files]
    operator.matmul(columns)
    assert [path.stat().st_mtime_ns for path in files] == times
    files[0].write_bytes(files[0].read_bytes()[:-70])  # cut short
    files[2].write_bytes(files[1].read_bytes())  # another part's
    files[3].unlink()
    assert torch.equal(operator.matmul(columns), expected)
    assert [path.stat().st_mtime_ns != time for path, time in zip(files, times, strict=True)][
        :4
    ] == [True, False, True, True]


def test_some_rows_of_the_adjacency(tmp_path):
    graph, _ = awkward_graph(weighted=True)
    rows = StoredRows(stored(graph, tmp_path / "store"))
    nodes = np.array([880, 7, 3, 7, 500])
    assert np.array_equal(rows[nodes].toarray(), graph.adjacency[nodes].toarray())
    assert rows.nnz == graph.adjacency.nnz


def test_a_thread_that_fails_says_so():
    def fail(place):
        raise ValueError(f"task {place}")

    with pytest.raises(ValueError, match="task 0"):
        Threads(2).run(fail, [(0,), (1,)])


def test_numbers_of_nodes_past_two_billion_are_long():
    assert index_dtype(2**31 - 1) is np.int32
    assert index_dtype(2**31) is np.int64
