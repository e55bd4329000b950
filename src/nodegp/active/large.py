"""The Gaussian field on a component too large for a dense inverse.

Nothing of size n^2 is made. With C the covariance of the unlabelled nodes and d the degrees:

- a column of C, or its row sums, is one solve with the sparse Laplacian (conjugate gradients);
- the diagonal comes from draws z of the field, ``z = C B^T W^(1/2) q`` with the incidence matrix
  B, edge weights W and random signs q, whose second moments are C. Because
  ``C_kk = 1/d_k + (A C A)_kk / d_k^2``, only the second term is left to the draws;
- the diagonal of C^2 comes from ``s = C g`` with random signs g, likewise less its known part;
- with few labels the field's common level dominates C. So the part of both along one direction w,
  that of the row sums, is taken from ``C w`` (one solve more), and only the rest from draws;
- a label changes whatever was solved for by multiples of one column, so it stays that of the
  field.

The estimates' relative standard error is at most sqrt(2 / 64) = 18 per cent, and much less where
degrees are large; :meth:`LargeField.refine` then solves for the columns of the few nodes that
matter, so that these are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp

from nodegp.budget import blocks

__all__ = ["N_DRAWS", "LargeField", "conjugate_gradients"]

N_DRAWS = 64
_BLOCK = 32  # right-hand sides solved side by side
_DRAW_TOLERANCE = 1e-3  # far below the draws' own error
_COLUMN_TOLERANCE = 1e-7
_MAX_ITERATIONS = 10_000
# From so many new labels at once, new draws cost less than changing those there are.
_MANY = 32


class LargeField:
    """A component's field by sparse solves; methods as in :class:`nodegp.active.design.ExactField`.

    The draws have a seed of their own, so that the same questions get the same answers.
    """

    def __init__(self, nodes: np.ndarray, adjacency: sp.csr_array, level_variance: float):
        self.nodes = nodes
        self._adjacency = adjacency
        self._level_variance = level_variance
        self._degrees = np.asarray(adjacency.sum(axis=1)).ravel()
        self._laplacian = sp.csr_array(sp.diags_array(self._degrees) - adjacency)
        self._narrow = self._laplacian.astype(np.float32)
        self.forget()

    def forget(self) -> None:
        """Back to no labels."""
        self.labelled: list[int] = []  # places within the component
        self._start_again()

    def _start_again(self) -> None:
        # C times right-hand sides (n, r), and the sums of these (r,), by what they are for.
        self._products: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._estimates: dict[str, np.ndarray] = {}
        self._exact = np.zeros(0, dtype=np.int64)  # the places of the product "columns"

    def condition(self, places: Sequence[int]) -> None:
        """Take these as labelled too."""
        if len(places) > _MANY or "draws" not in self._products:
            self.labelled += places
            self._start_again()
            return
        for k in places:
            self._label(k)

    def _label(self, k: int) -> None:
        column = self.columns(np.array([k]))[0]
        for image, totals in self._products.values():
            along = column.astype(image.dtype)
            if self.labelled:  # C' = C - C e_k e_k^T C / C_kk
                image -= np.outer(along, image[k] / along[k])
            else:  # C was the pseudo-inverse P, and C'_ij = P_ij - P_ik - P_kj + P_kk
                image -= image[k] + np.outer(along - along[k], totals.astype(image.dtype))
        self._estimates.clear()
        self.labelled.append(k)

    # --- what the scores are made of ----------------------------------------------------------

    def sums(self) -> np.ndarray:
        """Row sums of C, (n,)."""
        n = len(self.nodes)
        sums = self._product("sums", lambda: np.ones((n, 1)))[:, 0]
        return sums if self.labelled else sums + n * self._level_variance

    def variances(self) -> np.ndarray:
        """Diagonal of C, (n,)."""
        exact = self._columns()[self._exact, np.arange(len(self._exact))]
        variances = self._estimated("variances", self._rough_variances, exact)
        return variances if self.labelled else variances + self._level_variance

    def squares(self) -> np.ndarray:
        """Diagonal of C^2, (n,)."""
        exact = np.einsum("ij,ij->j", self._columns(), self._columns())
        squares = self._estimated("squares", self._rough_squares, exact)
        return squares if self.labelled else squares + len(self.nodes) * self._level_variance**2

    def _estimated(
        self, name: str, estimate: Callable[[], np.ndarray], exact: np.ndarray
    ) -> np.ndarray:
        """An estimate, which is made once for the same labels, with what is known of it."""
        if name not in self._estimates:
            self._estimates[name] = estimate()
        values = self._estimates[name].copy()
        values[self._exact] = exact
        return values

    def _rough_variances(self) -> np.ndarray:
        n, d = len(self.nodes), self._degrees
        variances = np.full(n, 1.0 if self.labelled else 1.0 - 2.0 / n) / d
        draws = self._product("draws", self._draws)
        if self.labelled:
            w, image = self._direction()
            along = image @ w
            variances += self._around(image) ** 2 / (along * d * d)
            draws = draws - np.outer(image, w @ draws / along).astype(np.float32)
        around = self._around(draws)
        return variances + np.einsum("ij,ij->i", around, around) / (N_DRAWS * d * d)

    def _rough_squares(self) -> np.ndarray:
        signs, d = self._signs(), self._degrees
        images = self._product("signs", self._signs)
        variances = self.variances() - (0.0 if self.labelled else self._level_variance)
        # |C e_k|^2 = |C e_k - e_k / d_k|^2 + 2 C_kk / d_k - 1 / d_k^2, each less its part along w
        squares = 2.0 * variances / d - 1.0 / d**2
        rest = images - signs / d[:, None].astype(np.float32)
        if self.labelled:
            w, image = self._direction()
            rest -= np.outer(image, w @ signs).astype(np.float32)
            squares += image**2 - 2.0 * w * image / d
        return squares + np.einsum("ij,ij->i", rest, rest) / N_DRAWS

    def _direction(self) -> tuple[np.ndarray, np.ndarray]:
        """w and C w; w is that of the row sums when it was first asked for."""
        if "lead" not in self._products:
            self._w = self.sums() / np.linalg.norm(self.sums())
        return self._w, self._product("lead", lambda: self._w[:, None])[:, 0]

    def _around(self, x: np.ndarray) -> np.ndarray:
        """The adjacency matrix times x."""
        return self._adjacency.astype(x.dtype, copy=False) @ x

    def refine(self, places: np.ndarray) -> None:
        """Make variances and squares exact at these places, and no longer at others."""
        self._products["columns"] = self.columns(places).T.copy(), np.ones(len(places))
        self._exact = places

    def columns(self, places: np.ndarray) -> np.ndarray:
        """Columns of C, one per row, (places, n); before a label those of the pseudo-inverse."""
        missing = np.setdiff1d(places, self._exact)
        unit = np.equal.outer(np.arange(len(self.nodes)), missing)
        columns = np.hstack([self._columns(), self._solve(unit.astype(np.float64))])
        position = {k: j for j, k in enumerate([*self._exact.tolist(), *missing.tolist()])}
        return columns[:, [position[k] for k in places.tolist()]].T

    def _columns(self) -> np.ndarray:
        """Those at the places that are known exactly, (n, places)."""
        return self._product("columns", lambda: np.zeros((len(self.nodes), 0)))

    # --- solves -------------------------------------------------------------------------------

    def _product(self, name: str, right: Callable[[], np.ndarray]) -> np.ndarray:
        """C times right-hand sides; once there, it follows the labels."""
        if name not in self._products:
            matrix = right()
            self._products[name] = self._solve(matrix), matrix.sum(axis=0, dtype=np.float64)
        return self._products[name][0]

    def _draws(self) -> np.ndarray:
        """Right-hand sides B^T W^(1/2) q, whose solutions have the second moments C."""
        upper = sp.coo_array(sp.triu(self._adjacency))
        n_edges, root = upper.nnz, np.sqrt(upper.data).astype(np.float32)
        ends = np.concatenate([upper.row, upper.col]), np.tile(np.arange(n_edges), 2)
        values = np.concatenate([root, -root])
        incidence = sp.csr_array((values, ends), shape=(len(self.nodes), n_edges))
        rng = np.random.default_rng(0)
        widths = (min(_BLOCK, N_DRAWS - start) for start in range(0, N_DRAWS, _BLOCK))
        return np.hstack([incidence @ _random_signs(rng, (n_edges, width)) for width in widths])

    def _signs(self) -> np.ndarray:
        return _random_signs(np.random.default_rng(1), (len(self.nodes), N_DRAWS))

    def _solve(self, right: np.ndarray) -> np.ndarray:
        """C times the right-hand sides; before the first label, the pseudo-inverse times them."""
        rough = right.dtype == np.float32
        matrix = self._narrow if rough else self._laplacian
        tolerance = _DRAW_TOLERANCE if rough else _COLUMN_TOLERANCE
        solved = np.empty_like(right)
        for columns in blocks(right.shape[1], 1, _BLOCK):
            block = right[:, columns].copy()
            if self.labelled:
                block[self.labelled] = 0.0
            else:
                block -= block.mean(axis=0)
            solved[:, columns] = conjugate_gradients(
                matrix, self._degrees.astype(right.dtype), block, self.labelled, tolerance
            )
        return solved if self.labelled else solved - solved.mean(axis=0)


def conjugate_gradients(
    matrix: sp.csr_array,
    diagonal: np.ndarray,
    right: np.ndarray,
    fixed: Sequence[int],
    tolerance: float,
) -> np.ndarray:
    """Solve ``matrix x = right`` for several right-hand sides, with x zero at ``fixed``.

    The matrix is a Laplacian and ``diagonal`` its diagonal, by which the system is scaled. Stops
    when every residual is below ``tolerance`` of its right-hand side.
    """
    x = np.zeros_like(right)
    residual = right
    scaled = residual / diagonal[:, None]
    direction = scaled.copy()
    size = _inner(residual, scaled)
    enough = tolerance**2 * size
    for _ in range(_MAX_ITERATIONS):
        if (size <= enough).all():
            return x
        image = matrix @ direction
        image[fixed] = 0.0
        step = _ratio(size, _inner(direction, image)) * (size > enough)
        x += step * direction
        residual = residual - step * image
        scaled = residual / diagonal[:, None]
        before, size = size, _inner(residual, scaled)
        direction = scaled + _ratio(size, before) * direction
    raise ValueError(
        f"a solve with the graph's Laplacian did not converge in {_MAX_ITERATIONS:,} steps: the "
        "graph is a very long chain. Use strategy random, degree, entropy or margin"
    )


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", a, b)


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, and zero where b is: such a column is solved."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _random_signs(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return (2 * rng.integers(2, size=shape, dtype=np.int8) - 1).astype(np.float32)
