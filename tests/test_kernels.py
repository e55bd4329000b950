"""Kernels: a contract that every one must keep, compositions, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from conftest import KERNELS, TOLERANCE, concrete
from nodegp.kernels import (
    RBF,
    ArcCosine,
    Constant,
    Cosine,
    Kernel,
    Linear,
    Matern,
    Polynomial,
    Product,
    Scaled,
    Sum,
    Tile,
)


def tile_of(X, Y=None) -> Tile:
    X = torch.as_tensor(X, dtype=torch.float64)
    Y = X if Y is None else torch.as_tensor(Y, dtype=torch.float64)
    return Tile(X @ Y.mT, (X * X).sum(1)[:, None], (Y * Y).sum(1)[None, :])


def points(n=6, d=3, seed=0):
    """Random points, then one of them again, its opposite, and zero twice."""
    X = np.random.default_rng(seed).standard_normal((n, d))
    return np.vstack([X, X[:1], -X[1:2], np.zeros((2, d))])


def slope(function, value, step=1e-5):
    """Central difference with Richardson's correction: error of order step^4."""

    def central(h):
        return (function(value + h) - function(value - h)) / (2 * h)

    return (4 * central(step / 2) - central(step)) / 3


# --- contract -------------------------------------------------------------------------------


def test_no_kernel_dodges_the_contract():
    assert {type(kernel) for kernel, _ in KERNELS.values()} == set(concrete(Kernel, "__call__"))


@pytest.mark.parametrize("name", KERNELS)
class TestContract:
    def test_is_the_loop(self, name):
        kernel, twin = KERNELS[name]
        X, Y = points(), points(4, seed=1)
        values = kernel(tile_of(X, Y))
        assert values.dtype == torch.float64
        assert values.shape == (10, 8)
        np.testing.assert_allclose(
            values.numpy(), reference.gram(twin, X, Y), rtol=TOLERANCE[name], atol=TOLERANCE[name]
        )

    @pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
    def test_gram_is_symmetric_and_positive_semi_definite(self, name, scale):
        kernel, _ = KERNELS[name]
        K = kernel(tile_of(scale * points(12))).numpy()
        np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=0)
        largest = max(np.abs(K).max(), 1.0)
        assert np.linalg.eigvalsh(K / largest).min() >= -1e-8

    def test_transposed_tile(self, name):
        kernel, _ = KERNELS[name]
        tile = tile_of(points(), points(4, seed=1))
        np.testing.assert_allclose(
            kernel(tile.transposed()).numpy(), kernel(tile).numpy().T, rtol=1e-13, atol=1e-13
        )

    def test_diagonal(self, name):
        """A tile of single pairs gives the diagonal of the whole tile: shapes are free."""
        kernel, twin = KERNELS[name]
        X = points()
        norms = torch.from_numpy((X * X).sum(1))
        diagonal = kernel(Tile(norms, norms, norms)).numpy()
        np.testing.assert_allclose(
            diagonal, kernel(tile_of(X)).diagonal().numpy(), rtol=0, atol=1e2 * TOLERANCE[name]
        )
        expected = [twin(x, x) for x in X]
        np.testing.assert_allclose(diagonal, expected, rtol=TOLERANCE[name], atol=TOLERANCE[name])

    def test_batches_of_tiles(self, name):
        kernel, _ = KERNELS[name]
        tiles = [tile_of(points(seed=s)) for s in range(3)]
        batch = Tile(
            *(torch.stack([getattr(t, f) for t in tiles]) for f in ("inner", "left", "right"))
        )
        for k, tile in enumerate(tiles):
            np.testing.assert_allclose(kernel(batch)[k].numpy(), kernel(tile).numpy(), rtol=1e-13)

    def test_coefficients_reproduce_the_kernel(self, name):
        kernel, _ = KERNELS[name]
        coefficients = kernel.coefficients()
        polynomial = {"constant", "linear", "nested-polynomial"}
        assert (coefficients is not None) == (name in polynomial or name.startswith("polynomial"))
        if coefficients is None:
            return
        tile = tile_of(points())
        total = sum(a * tile.inner**k for k, a in enumerate(coefficients))
        np.testing.assert_allclose(kernel(tile).numpy(), total.numpy(), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
    def test_gradient_in_every_hyper_parameter(self, name, factor):
        """Against finite differences, with equal points and zero rows among the points."""
        kernel, _ = KERNELS[name]
        tile = tile_of(points())
        start = {path: factor * value for path, value in kernel.parameters().items()}
        leaves = {
            path: torch.tensor(value, dtype=torch.float64, requires_grad=True)
            for path, value in start.items()
        }
        generator = torch.Generator().manual_seed(0)
        mixing = torch.randn(10, 10, dtype=torch.float64, generator=generator)
        (kernel.with_parameters(leaves)(tile) * mixing).sum().backward()
        for path, value in start.items():

            def values(v, path=path):
                return kernel.with_parameters(start | {path: v})(tile) * mixing

            slopes = slope(values, value, 1e-3 * value)
            exact = float(leaves[path].grad)
            assert abs(exact - float(slopes.sum())) <= 1e-8 * float(slopes.abs().sum()), path

    def test_gradient_in_the_coefficients(self, name):
        """Polynomials are fitted through their coefficients: those carry the gradient too."""
        kernel, _ = KERNELS[name]
        if kernel.coefficients() is None:
            pytest.skip("not a polynomial")
        start = kernel.parameters()
        leaves = {
            p: torch.tensor(v, dtype=torch.float64, requires_grad=True) for p, v in start.items()
        }
        changed = kernel.with_parameters(leaves)
        tile = tile_of(points())
        via = sum(a * tile.inner**k for k, a in enumerate(changed.coefficients())).sum()
        direct = changed(tile).sum()
        inputs = list(leaves.values())
        for a, b in zip(
            torch.autograd.grad(via, inputs), torch.autograd.grad(direct, inputs), strict=True
        ):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)

    def test_gradient_in_the_points_is_finite(self, name):
        """Inducing points move, and may lie on a node, on each other, or at zero."""
        kernel, _ = KERNELS[name]
        X = torch.from_numpy(points())
        Z = X.clone().requires_grad_()
        for tile in (tile_of(Z, X), tile_of(Z, Z)):
            total = kernel(tile).sum() + 0.0 * Z[0, 0]  # a constant kernel leaves Z unused
            (gradient,) = torch.autograd.grad(total, Z)
            assert torch.isfinite(gradient).all()

    def test_gradient_in_the_points(self, name):
        kernel, _ = KERNELS[name]
        X = torch.from_numpy(np.random.default_rng(3).standard_normal((5, 3)))
        Z = torch.from_numpy(np.random.default_rng(4).standard_normal((3, 3))).requires_grad_()
        assert torch.autograd.gradcheck(lambda z: kernel(tile_of(z, X)), (Z,), rtol=1e-5)
        assert torch.autograd.gradcheck(lambda z: kernel(tile_of(z, z)), (Z,), rtol=1e-5)

    def test_free_and_fixed(self, name):
        kernel, _ = KERNELS[name]
        assert kernel.free_parameters() == kernel.parameters()
        if kernel.positive:
            first = kernel.positive[0]
            held = replace(kernel, fixed=(first,))
            assert set(kernel.free_parameters()) - set(held.free_parameters()) == {first}
            assert held.parameters() == kernel.parameters()
            tile = tile_of(points())
            assert torch.equal(held(tile), kernel(tile)), "fixing changes no value"

    def test_own_hyper_parameters_are_checked(self, name):
        kernel, _ = KERNELS[name]
        for hyper in kernel.positive:
            for bad in (-1.0, float("nan"), float("inf"), 0.0):
                with pytest.raises(ValueError, match=hyper):
                    kernel.with_parameters({hyper: bad})


# --- single kernels -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Polynomial(degree=0), "degree must be a whole number >= 1, got 0"),
        (lambda: Polynomial(degree=-1), "degree"),
        (lambda: Polynomial(degree=2.5), "degree must be a whole number >= 1, got 2.5"),
        (lambda: Matern(nu=1.0), "nu must be 0.5, 1.5 or 2.5, got 1.0"),
        (lambda: ArcCosine(order=3), "order must be 0, 1 or 2, got 3"),
        (lambda: -1.0 * RBF(), "scale must be positive"),
        (lambda: 0 * RBF(), "scale=0"),
    ],
)
def test_invalid_settings(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize("degree", [3.0, np.int64(3), np.float64(3.0)])
def test_a_whole_degree_of_any_type_works(degree):
    """What the constructor accepts must be usable."""
    tile = tile_of(points())
    torch.testing.assert_close(Polynomial(degree)(tile), Polynomial(3)(tile))
    assert Polynomial(degree).coefficients() == Polynomial(3).coefficients()


def test_distance_of_equal_points_is_zero():
    """Also where rounding leaves something of |x|^2 + |x|^2 - 2 <x, x>."""
    X = torch.tensor([[1e4 / 3, 1.0 / 7]], dtype=torch.float64)
    inner = X @ X.mT
    tile = Tile(inner * (1 - 1e-15), inner, inner)
    assert float(tile.distance) == 0.0
    assert float(Tile(inner * (1 + 1e-15), inner, inner).squared_distance) == 0.0


def test_distances():
    X, Y = points(), points(4, seed=1)
    expected = [[reference.squared_distance(x, y) for y in Y] for x in X]
    np.testing.assert_allclose(tile_of(X, Y).squared_distance.numpy(), expected, atol=1e-13)
    np.testing.assert_allclose(tile_of(X, Y).distance.numpy(), np.sqrt(expected), atol=1e-7)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_gradient_at_distance_zero(nu):
    """d/dl exp(-r/l) has 0/0 forms at r = 0; the derivative there is zero."""
    lengthscale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    X = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    Matern(nu).with_parameters({"lengthscale": lengthscale})(tile_of(X)).sum().backward()
    assert float(lengthscale.grad) == 0.0
    assert torch.equal(X.grad, torch.zeros_like(X))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine_without_bias(order):
    """bias = 0 is the textbook kernel; zero rows then have no direction, and stay finite."""
    kernel = ArcCosine(order, bias=0.0, fixed=("bias",))
    X = np.random.default_rng(0).standard_normal((5, 3))
    twin = reference.gram(lambda x, y: reference.arc_cosine(x, y, order, bias=0.0), X, X)
    np.testing.assert_allclose(kernel(tile_of(X)).numpy(), twin, atol=1e-7 if order == 0 else 1e-10)
    weight = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    K = kernel.with_parameters({"weight": weight})(tile_of(points()))
    K.sum().backward()
    assert torch.isfinite(weight.grad)
    assert np.linalg.eigvalsh(K.detach().numpy()).min() >= -1e-8


def test_cosine_of_a_zero_row_is_zero():
    variance = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    K = Cosine().with_parameters({"variance": variance})(tile_of(points()))
    assert not K[-2:].any()
    np.testing.assert_allclose(K.diagonal()[:-2].detach().numpy(), 2.0)
    K.sum().backward()
    assert torch.isfinite(variance.grad)


@given(
    seed=st.integers(0, 10_000),
    name=st.sampled_from(sorted(KERNELS)),
    scale=st.floats(1e-2, 1e2),
    factor=st.floats(0.05, 20.0),
)
def test_positive_semi_definite_at_any_hyper_parameters(seed, name, scale, factor):
    kernel, _ = KERNELS[name]
    kernel = kernel.with_parameters({p: factor * v for p, v in kernel.parameters().items()})
    K = kernel(tile_of(scale * points(5, 2, seed))).numpy()
    assert np.isfinite(K).all()
    assert np.linalg.eigvalsh(K / max(np.abs(K).max(), 1e-300)).min() >= -1e-8


# --- compositions ---------------------------------------------------------------------------


def test_sums_and_products_are_flat():
    a, b, c = RBF(), Linear(), Constant()
    assert a + b + c == Sum((a, b, c)) == a + (b + c)
    assert a * b * c == Product((a, b, c)) == a * (b * c)
    assert a * b + c == Sum((Product((a, b)), c))


@pytest.mark.parametrize("number", [3, 3.0, np.float64(3.0), np.int64(3), np.float32(3.0)])
def test_scaling_from_either_side(number):
    assert number * RBF() == RBF() * number == Scaled(RBF(), 3.0)


@pytest.mark.parametrize("other", ["x", None, 1.0])
def test_only_kernels_add(other):
    with pytest.raises(TypeError):
        RBF() + other
    if other != 1.0:
        with pytest.raises(TypeError):
            RBF() * other


def test_values_of_compositions():
    tile = tile_of(points())
    a, b, c = RBF(2.0), Polynomial(2), Matern()
    torch.testing.assert_close((a + b * c)(tile), a(tile) + b(tile) * c(tile))
    torch.testing.assert_close((2.0 * (a + b) * c)(tile), 2.0 * (a(tile) + b(tile)) * c(tile))


def test_coefficients_of_compositions():
    """As polynomials in t: 2 (3 t) + (t + 1)^2 = 1 + 8 t + t^2, and so on."""
    square = Polynomial(2)
    assert (2.0 * Linear(3.0) + square).coefficients() == pytest.approx([1, 8, 1])
    assert (Linear(3.0) * square).coefficients() == pytest.approx([0, 3, 6, 3])
    assert (Constant(5.0) + Linear(2.0)).coefficients() == pytest.approx([5, 2])
    assert (Constant(5.0) * Constant(2.0)).coefficients() == pytest.approx([10])
    assert ((Linear() + Constant()) * (Linear() + Constant())).coefficients() == pytest.approx(
        square.coefficients()
    )


@pytest.mark.parametrize(
    "kernel", [RBF() + Linear(), RBF() * Linear(), 2.0 * RBF(), Linear() + Linear() * Cosine()]
)
def test_one_part_that_is_no_polynomial_is_enough(kernel):
    assert kernel.coefficients() is None


def test_gradients_reach_every_part():
    kernel = 2.0 * (RBF() + Linear() * Polynomial(2))
    leaves = {
        path: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for path, value in kernel.free_parameters().items()
    }
    assert len(leaves) == 1 + 2 + 1 + 2
    kernel.with_parameters(leaves)(tile_of(points())).sum().backward()
    assert all(leaf.grad is not None and float(leaf.grad) != 0 for leaf in leaves.values())
