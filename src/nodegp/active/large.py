"""The Gaussian field on a component too large for a dense inverse.

Nothing of size n^2 is made. With C the covariance of the unlabelled nodes and d the degrees:

- a column of C, or its row sums, is one solve with the sparse Laplacian (conjugate gradients);
- the diagonal comes from draws z of the field, ``z = C B^T W^(1/2) q`` with the incidence matrix
  B, edge weights W and random signs q, whose second moments are C. Because
  ``C_kk = 1/d_k + (A C A)_kk / d_k^2``, only the second term is left to the draws;
- the diagonal of C^2 comes from ``s = C g`` with random signs g, likewise less its known part;
- with few labels the field's common level dominates C. So the part of both along one direction w,
  that of the row sums, is taken from ``C w`` (one solve more), and only the rest from draws;
- a label changes all of this by multiples of one column, so it stays that of the field.

The estimates' relative standard error is at most sqrt(2 / 64) = 18 per cent, and much less where
degrees are large; :meth:`LargeField.refine` then solves for the columns of the few nodes that
matter, so that these are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

N_DRAWS = 64
_BLOCK = 32  # right-hand sides solved side by side
_DRAW_TOLERANCE = 1e-3  # far below the draws' own error
_COLUMN_TOLERANCE = 1e-7
_MAX_ITERATIONS = 10_000
# From so many new labels at once, new draws cost less than changing those there are.
_MANY = 32


class LargeField:
    """A component's field by sparse solves; see :class:`nodegp.active.field.Part`.

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
        self.labelled: list[int] = []
        self._start_again()

    def _start_again(self) -> None:
        self._sums: np.ndarray | None = None
        self._draws: np.ndarray | None = None  # (n, N_DRAWS), second moments C
        self._images: np.ndarray | None = None  # (n, N_DRAWS), C g
        self._lead: tuple[np.ndarray, np.ndarray] | None = None  # w and C w
        self._known: dict[int, np.ndarray] = {}  # columns of C by place
        self._forget_estimates()

    def _forget_estimates(self) -> None:
        self._rough_variances: np.ndarray | None = None
        self._rough_squares: np.ndarray | None = None

    def condition(self, places: Sequence[int]) -> None:
        if len(places) > _MANY or self._draws is None:
            self.labelled += places
            self._start_again()
            return
        for k in places:
            self._label(k)

    def _label(self, k: int) -> None:
        column = self.columns(np.array([k]))[0]
        self._forget_estimates()
        if not self.labelled:
            self._take_level_out(column, k)
            return
        assert self._draws is not None
        v = column / np.sqrt(column[k])
        narrow = v.astype(np.float32)
        self._draws -= np.outer(narrow, self._draws[k] / narrow[k])
        if self._sums is not None:
            self._sums -= v * v.sum()
        if self._images is not None:
            self._images -= np.outer(narrow, narrow @ self._signs())
        if self._lead is not None:
            w, image = self._lead
            self._lead = w, image - v * (v @ w)
        self._known = {j: c - v * v[j] for j, c in self._known.items() if j != k}
        self.labelled.append(k)

    def _take_level_out(self, column: np.ndarray, k: int) -> None:
        """The first label: what is left are differences from node k. ``column`` is that of the
        pseudo-inverse P, and C_ij = P_ij - P_ik - P_kj + P_kk."""
        assert self._draws is not None
        self._draws = self._draws - self._draws[k]
        self._sums = len(column) * (column[k] - column)
        if self._images is not None:
            narrow, signs = column.astype(np.float32), self._signs()
            total = signs.sum(axis=0)
            self._images += narrow[k] * total - narrow @ signs - np.outer(narrow, total)
        self._known = {j: c - column - c[k] + column[k] for j, c in self._known.items() if j != k}
        self.labelled.append(k)

    # --- what the scores are made of ----------------------------------------------------------

    def sums(self) -> np.ndarray:
        n = len(self.nodes)
        if not self.labelled:
            return np.full(n, n * self._level_variance)
        if self._sums is None:
            self._sums = self._solve(np.ones((n, 1)), _COLUMN_TOLERANCE)[:, 0]
        return self._sums

    def variances(self) -> np.ndarray:
        if self._rough_variances is None:
            self._rough_variances = self._estimated_variances()
        found = self._rough_variances.copy()
        for k, column in self._known.items():
            found[k] = column[k]
        return found if self.labelled else found + self._level_variance

    def squares(self) -> np.ndarray:
        if self._rough_squares is None:
            self._rough_squares = self._estimated_squares()
        found = self._rough_squares.copy()
        for k, column in self._known.items():
            found[k] = column @ column
        n = len(self.nodes)
        return found if self.labelled else found + n * self._level_variance**2

    def _estimated_variances(self) -> np.ndarray:
        if self._draws is None:
            self._draws = self._new_draws()
        n, d = len(self.nodes), self._degrees
        found = np.full(n, 1.0 if self.labelled else 1.0 - 2.0 / n) / d
        draws = self._draws
        if self.labelled:
            w, image = self._direction()
            along = image @ w
            found += self._around(image) ** 2 / (along * d * d)
            draws = draws - np.outer(image, w @ draws / along).astype(np.float32)
        around = self._around(draws)
        return found + np.einsum("ij,ij->i", around, around) / (N_DRAWS * d * d)

    def _estimated_squares(self) -> np.ndarray:
        signs, d = self._signs(), self._degrees
        if self._images is None:
            self._images = self._solve(signs, _DRAW_TOLERANCE)
        variances = self.variances() - (0.0 if self.labelled else self._level_variance)
        # |C e_k|^2 = |C e_k - e_k / d_k|^2 + 2 C_kk / d_k - 1 / d_k^2, each less its part along w
        found = 2.0 * variances / d - 1.0 / d**2
        rest = self._images - signs / d[:, None].astype(np.float32)
        if self.labelled:
            w, image = self._direction()
            rest -= np.outer(image, w @ signs).astype(np.float32)
            found += image**2 - 2.0 * w * image / d
        return found + np.einsum("ij,ij->i", rest, rest) / N_DRAWS

    def _direction(self) -> tuple[np.ndarray, np.ndarray]:
        if self._lead is None:
            w = self.sums() / np.linalg.norm(self.sums())
            self._lead = w, self._solve(w[:, None], _COLUMN_TOLERANCE)[:, 0]
        return self._lead

    def _around(self, x: np.ndarray) -> np.ndarray:
        """The adjacency matrix times x."""
        return self._adjacency.astype(x.dtype, copy=False) @ x

    def refine(self, places: np.ndarray) -> None:
        """Make variances and squares exact at these places, and no longer at others."""
        self._known = dict(zip(places.tolist(), self.columns(places), strict=True))

    def columns(self, places: np.ndarray) -> np.ndarray:
        missing = [k for k in places.tolist() if k not in self._known]
        unit = np.zeros((len(self.nodes), len(missing)))
        unit[missing, np.arange(len(missing))] = 1.0
        solved = dict(zip(missing, self._solve(unit, _COLUMN_TOLERANCE).T, strict=True))
        columns = self._known | solved
        return np.array([columns[k] for k in places.tolist()])

    # --- solves -------------------------------------------------------------------------------

    def _new_draws(self) -> np.ndarray:
        upper = sp.coo_array(sp.triu(self._adjacency))
        n_edges = upper.nnz
        root = np.sqrt(upper.data).astype(np.float32)
        edge = np.arange(n_edges)
        incidence = sp.csr_array(
            (
                np.concatenate([root, -root]),
                (np.concatenate([upper.row, upper.col]), np.concatenate([edge, edge])),
            ),
            shape=(len(self.nodes), n_edges),
        )
        rng = np.random.default_rng(0)
        draws = np.empty((len(self.nodes), N_DRAWS), dtype=np.float32)
        for start in range(0, N_DRAWS, _BLOCK):
            right = incidence @ _random_signs(rng, (n_edges, min(_BLOCK, N_DRAWS - start)))
            draws[:, start : start + _BLOCK] = self._solve(right, _DRAW_TOLERANCE)
        return draws

    def _signs(self) -> np.ndarray:
        return _random_signs(np.random.default_rng(1), (len(self.nodes), N_DRAWS))

    def _solve(self, right: np.ndarray, tolerance: float) -> np.ndarray:
        """C times the right-hand sides; before the first label, the pseudo-inverse times them."""
        matrix = self._narrow if right.dtype == np.float32 else self._laplacian
        solved = np.empty_like(right)
        for start in range(0, right.shape[1], _BLOCK):
            block = right[:, start : start + _BLOCK].copy()
            if self.labelled:
                block[self.labelled] = 0.0
            else:
                block -= block.mean(axis=0)
            found = conjugate_gradients(
                matrix, self._degrees.astype(right.dtype), block, self.labelled, tolerance
            )
            solved[:, start : start + _BLOCK] = found
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
