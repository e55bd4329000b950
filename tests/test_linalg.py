"""Cholesky with jitter, and sparse products that torch can differentiate."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from threadpoolctl import ThreadpoolController

import nodegp
from nodegp.linalg import (
    JITTERS,
    NotPositiveDefiniteError,
    QuadraticForms,
    by_threads,
    cholesky,
    inverse_roots,
    ridge_inverse,
    solve_least_squares,
    sparse_matmul,
    sparse_product,
    threads_for,
    torch_sparse,
    weighted_gram,
)
from nodegp_paper.tensors import lower_times
from packages import run_code


def spd(n, seed=0, dtype=torch.float64):
    root = np.random.default_rng(seed).standard_normal((n, n))
    return torch.from_numpy(root @ root.T + n * np.eye(n)).to(dtype)


def test_this_is_the_only_home_of_jitter():
    """Nobody else adds to a diagonal, but the identity of I + ... that a formula has."""
    folder = Path(nodegp.__file__).parent
    added = re.compile(
        r"[-+] [^#]*\beye\(|\.diagonal\([^)]*\)\.add_\((?!1\.0\))|diag_indices|fill_diag"
    )
    lines = [
        f"{path.relative_to(folder)}: {line.strip()}"
        for path in folder.rglob("*.py")
        if path.name != "linalg.py"
        for line in path.read_text().splitlines()
        if added.search(line)
    ]
    assert not lines


def test_normal_equations_may_be_singular_or_nothing_at_all():
    rows = torch.tensor([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]], dtype=torch.float64)  # one direction
    right = rows @ torch.tensor([1.0, 2.0, 0.0], dtype=torch.float64)
    weights = solve_least_squares(rows @ rows.mT, right)
    torch.testing.assert_close(weights @ rows, rows[0], atol=1e-6, rtol=0)
    nothing = torch.zeros(2, 2, dtype=torch.float64)
    assert solve_least_squares(nothing, nothing[0]).tolist() == [0.0, 0.0]


def test_inverses_of_several_large_matrices_on_two_threads():
    """torch.linalg.inv of all of them at once ended in an error about pivots."""
    A = torch.randn(7, 640, 640, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    A = A @ A.mT
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        inverse = ridge_inverse(A, 1.0)
    finally:
        torch.set_num_threads(before)
    one = torch.eye(640, dtype=torch.float64)
    torch.testing.assert_close(inverse @ (A + one), one.expand(7, -1, -1), atol=1e-8, rtol=0)


def test_the_inverse_of_a_ridge_regression():
    K = spd(6)
    expected = np.linalg.inv(K.numpy() + 0.3 * np.eye(6))
    np.testing.assert_allclose(ridge_inverse(K, 0.3).numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_well_conditioned_is_exact_up_to_the_reported_jitter(dtype):
    K = spd(8, dtype=dtype)
    factor, jitter = cholesky(K)
    assert factor.dtype == dtype
    assert jitter == pytest.approx(JITTERS[dtype][0] * float(K.diagonal().mean()))
    rebuilt = factor @ factor.mT
    torch.testing.assert_close(rebuilt, K + jitter * torch.eye(8, dtype=dtype))
    assert torch.equal(factor, factor.tril())


def test_jitter_is_relative_to_the_diagonal():
    K = spd(5)
    factor, jitter = cholesky(K)
    large, large_jitter = cholesky(1e8 * K)
    assert large_jitter == pytest.approx(1e8 * jitter)
    torch.testing.assert_close(large, 1e4 * factor)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_singular_gets_a_jitter_that_is_reported(scale):
    """Duplicate nodes give equal rows: semi-definite, and not the user's fault."""
    points = np.random.default_rng(0).standard_normal((3, 2))
    points = np.vstack([points, points, points])
    K = torch.from_numpy(scale * (points @ points.T))
    factor, jitter = cholesky(K)
    assert jitter > 0
    error = factor @ factor.mT - K - jitter * torch.eye(9, dtype=torch.float64)
    assert float(error.abs().max()) < 1e-12 * scale
    assert torch.isfinite(factor).all()


def test_more_jitter_only_where_needed():
    """An eigenvalue of -3e-8 times the diagonal needs the third step, and no more."""
    vectors, _ = torch.linalg.qr(spd(4))
    values = torch.tensor([1.0, 1.0, 2.0, -3e-8], dtype=torch.float64)
    K = vectors @ torch.diag(values) @ vectors.mT
    _, jitter = cholesky(K)
    assert jitter == pytest.approx(1e-7 * float(K.diagonal().mean()))


def test_zero_matrix():
    factor, jitter = cholesky(torch.zeros(3, 3, dtype=torch.float64))
    assert jitter > 0
    torch.testing.assert_close(factor @ factor.mT, jitter * torch.eye(3, dtype=torch.float64))


def test_no_rows():
    factor, _ = cholesky(torch.zeros(0, 0, dtype=torch.float64))
    assert factor.shape == (0, 0)


def test_indefinite_is_refused_with_its_cause():
    K = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64)  # eigenvalues 3 and -1
    with pytest.raises(NotPositiveDefiniteError, match=r"prior of u.*-1\.00e\+00") as caught:
        cholesky(K, "prior of u")
    assert "float64" in str(caught.value), "says what to do"
    assert "2 x 2" in str(caught.value)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_not_finite_is_refused_with_its_cause(bad):
    K = spd(3)
    K[0, 1] = K[1, 0] = bad
    with pytest.raises(NotPositiveDefiniteError, match=r"prior of u has NaN or infinite.*overflow"):
        cholesky(K, "prior of u")


def test_the_error_is_a_value_error():
    assert issubclass(NotPositiveDefiniteError, ValueError)


def test_cholesky_gradient():
    def log_determinant(K):
        factor, _ = cholesky(0.5 * (K + K.mT))
        return factor.diagonal().log().sum()

    assert torch.autograd.gradcheck(log_determinant, (spd(4).requires_grad_(),))


def sparse_matrix(rows, columns, seed=0):
    generator = np.random.default_rng(seed)
    dense = generator.standard_normal((rows, columns)) * (generator.random((rows, columns)) < 0.5)
    return sp.csr_array(dense)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sparse_matmul_value(dtype):
    matrix = sparse_matrix(4, 6)
    dense = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    product = sparse_matmul(matrix, dense)
    assert product.dtype == dtype
    torch.testing.assert_close(product, torch.from_numpy(matrix.toarray()).to(dtype) @ dense)


def test_sparse_matmul_takes_transposed_views():
    matrix = sparse_matrix(4, 6)
    dense = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        sparse_matmul(matrix, dense.mT), torch.from_numpy(matrix.toarray()) @ dense.mT
    )


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (1, 5), (0, 3)])
def test_sparse_matmul_gradient(shape):
    matrix = sparse_matrix(*shape)
    generator = torch.Generator().manual_seed(0)
    dense = torch.randn(shape[1], 2, dtype=torch.float64, generator=generator).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: sparse_matmul(matrix, x), (dense,))
    # Also where what comes back is an expanded view, as from a sum.
    (gradient,) = torch.autograd.grad(sparse_matmul(matrix, dense).sum(), dense)
    expected = np.repeat(matrix.toarray().sum(0)[:, None], 2, axis=1)
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_column_of_a_sparse_product_does_not_depend_on_the_others(dtype):
    rng = np.random.default_rng(0)
    matrix = torch_sparse(sp.random_array((90, 90), density=0.3, format="csr", rng=rng), dtype)
    columns, subtract = torch.from_numpy(rng.standard_normal((2, 90, 70))).to(dtype)
    whole = sparse_product(matrix, columns, 2.0, subtract.clone())
    expected = 2.0 * matrix.to_dense() @ columns - subtract
    torch.testing.assert_close(whole, expected)
    for n in range(1, 70):
        some = columns[:, :n].contiguous(), 2.0
        of_some = sparse_product(matrix, *some, subtract[:, :n].clone())
        assert torch.equal(of_some, whole[:, :n]), n
        alone = sparse_product(matrix, *some, None)
        torch.testing.assert_close(alone, expected[:, :n] + subtract[:, :n])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_inverse_roots_and_their_products_are_finite(dtype):
    tiny = torch.finfo(dtype).tiny
    squares = torch.tensor([0.0, tiny / 8, tiny, 1e-30, 4.0], dtype=dtype, requires_grad=True)
    roots = inverse_roots(squares)
    assert (roots[:, None] * roots).isfinite().all()
    assert roots[:2].tolist() == [0.0, 0.0]
    torch.testing.assert_close(roots[3:].detach(), squares[3:].detach() ** -0.5)
    roots[[0, 1, 4]].sum().backward()
    torch.testing.assert_close(squares.grad[[0, 1, 4]], torch.tensor([0, 0, -1 / 16], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize(
    ("shape", "n_columns"), [((5, 7), 3), ((5, 7), 1), ((5, 7), 0), ((0, 7), 3), ((5, 0), 3)]
)
def test_sparse_products_with_rows_that_have_nothing(shape, n_columns, is_long, dtype):
    dense = np.zeros(shape)
    if dense.size:
        dense[[0, 0, 3], [1, 6, 2]] = 2.0, -1.0, 0.5  # rows 1, 2 and 4 are empty
    matrix = torch_sparse(sp.csr_array(dense), dtype)
    if is_long:  # indices of a matrix with more entries than short ones can count
        indices = matrix.crow_indices().long(), matrix.col_indices().long()
        matrix = torch.sparse_csr_tensor(*indices, matrix.values(), shape)
    rng = np.random.default_rng(0)
    columns = torch.from_numpy(rng.standard_normal((shape[1], n_columns))).to(dtype)
    subtract = torch.from_numpy(rng.standard_normal((shape[0], n_columns))).to(dtype)
    expected = torch.from_numpy(dense).to(dtype) @ columns
    torch.testing.assert_close(sparse_product(matrix, columns), expected)
    after = sparse_product(matrix, columns, -0.5, subtract.clone())
    torch.testing.assert_close(after, -0.5 * expected - subtract)


@pytest.mark.parametrize("size", [1, 5, 33, 130])
def test_lower_times_is_the_product_with_the_lower_triangle(size):
    generator = torch.Generator().manual_seed(size)
    full = torch.randn(3, size, size, dtype=torch.float64, generator=generator)
    W = torch.randn(size, 7, dtype=torch.float64, generator=generator)
    seed = torch.randn(3, size, 7, dtype=torch.float64, generator=generator)
    found = [t.clone().requires_grad_() for t in (full, W)]
    expected = [t.clone().requires_grad_() for t in (full, W)]
    a = lower_times(*found)
    b = expected[0].tril().mT @ expected[1]
    torch.testing.assert_close(a, b)
    a.backward(seed)
    b.backward(seed)
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("size", [1, 3, 33, 131])
def test_quadratic_forms_are_those_of_the_whole_matrices(size):
    rng = np.random.default_rng(size)
    S, w = rng.standard_normal((4, size, size)), rng.standard_normal((7, size))
    S = S + S.transpose(0, 2, 1)
    expected = [[w[n] @ S[k] @ w[n] for k in range(4)] for n in range(7)]
    result = QuadraticForms(torch.from_numpy(S))(torch.from_numpy(w))
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-10)


@pytest.mark.parametrize(("n_rows", "n_columns"), [(1, 1), (7, 3), (5000, 100), (4096, 49)])
def test_a_weighted_gram_matrix_is_the_product(n_rows, n_columns):
    rng = np.random.default_rng(0)
    rows, weights = rng.standard_normal((n_rows, n_columns)), rng.standard_normal(n_rows)
    result = weighted_gram(torch.from_numpy(rows), torch.from_numpy(weights)).numpy()
    np.testing.assert_allclose(result, rows.T @ (rows * weights[:, None]), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(result, result.T)


def test_numpy_leaves_the_processors_to_torch():
    """Two pools of threads in turn wait for one another at every change."""

    def of_numpy():
        pools = ThreadpoolController().info()
        return [pool["num_threads"] for pool in pools if pool["internal_api"] == "openblas"]

    before = of_numpy()
    for size in (1, 10_000):
        with threads_for(size):
            assert set(of_numpy()) <= {1}
        assert of_numpy() == before


@pytest.mark.parametrize("n_rows", [20, 150])
def test_several_matrices_on_several_threads_give_the_same_bits(n_rows):
    rows = torch.randn(5, n_rows, 2 * n_rows, dtype=torch.float64, generator=torch.manual_seed(0))
    matrices = rows @ rows.mT / n_rows
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        expected = ridge_inverse(matrices, 0.5)
        torch.set_num_threads(2)
        seen = set()

        def inverse(some):
            seen.add(threading.get_ident())
            return (ridge_inverse(some, 0.5),)

        with threads_for(n_rows), torch.no_grad():
            assert torch.get_num_threads() == 1
            assert torch.equal(ridge_inverse(matrices, 0.5), expected)
            (result,) = by_threads(lambda some: inverse(some), matrices)
        assert torch.equal(result, expected)
        assert len(seen) == (2 if n_rows > 112 else 1)  # small ones are not worth a thread
        with threads_for(n_rows):  # gradients are a thread's own: nothing is shared then
            again = by_threads(lambda some: (some * 2.0,), matrices.requires_grad_())[0]
        assert again.requires_grad
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_threads_of_its_own():
    """Those that factorise are kept, and are not there in a copy of the process."""
    code = """
import os, torch
from nodegp.linalg import ridge_inverse, threads_for

torch.set_num_threads(2)
matrices = 3.0 * torch.eye(130, dtype=torch.float64).expand(4, -1, -1)

def inverses():
    with threads_for(130), torch.no_grad():
        return ridge_inverse(matrices, 1.0)

assert float(inverses()[3, 5, 5]) == 0.25
child = os.fork()
if not child:
    os._exit(float(inverses()[3, 5, 5]) != 0.25)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_code(code).split() == ["0"]
