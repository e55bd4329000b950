"""Label propagation: the harmonic solution of Zhu, Ghahramani and Lafferty (ICML 2003).

*Semi-Supervised Learning Using Gaussian Fields and Harmonic Functions*. Features play no part.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from sklearn.exceptions import ConvergenceWarning

from nodegp.graph import Graph
from nodegp_paper.baselines.base import Baseline, Labels

__all__ = ["LabelPropagation"]

# Up to this many stored weights a factorisation is the faster solver on citation graphs (Cora 6 ms
# against 33, Citeseer 4 against 28); its fill-in outgrows them (Pubmed 570 ms against 190).
_FACTORISE = 12_000
# Of D^-1 times the residual. The error is at most this times the steps that a random walk takes to
# reach a label, so 1e-8 holds up to ten thousand steps.
_TOLERANCE = 1e-12


class LabelPropagation(Baseline):
    """Label propagation on the graph's weights, clamped at the labelled nodes.

    The probability of class c at an unlabelled node is that of a random walk from there reaching
    a label of class c first: the mean of the neighbours' values, f_u = D_uu^-1 (W_uu f_u + W_ul
    Y_l). Labelled nodes keep their label with certainty. There is nothing to tune and nothing
    random.

    Class-mass normalisation (their Section 4) scales each class so that its mass over the
    unlabelled nodes is in proportion to q_c, the number of its labels plus one, as in the authors'
    code. Our assumptions, where the paper says nothing:

    - nodes that no label reaches get the class prior, q normalised;
    - a class of ``classes=`` without any label has no mass to scale, so it stays at zero, except
      in that prior, where it never is the largest.

    Parameters
    ----------
    mass_normalisation : bool
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : ignored
        Here so that all baselines can be made alike.
    """

    name = "LP"
    deterministic = True

    def __init__(
        self, mass_normalisation: bool = True, unlabelled: Any = -1, random_state: Any = None
    ):
        self.mass_normalisation = mass_normalisation
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        one_hot = np.eye(len(self.classes_))[labels.targets]
        proportion = one_hot.sum(axis=0) + 1.0  # q, with the smoothing of the authors' code
        proba = np.tile(proportion / proportion.sum(), (graph.n_nodes, 1))
        proba[labels.nodes] = one_hot
        free = _reached(graph, labels.nodes)
        if len(free):
            harmonic = _harmonic(graph, free, labels.nodes, one_hot)
            if self.mass_normalisation:
                mass = harmonic.sum(axis=0)
                # A class without mass is zero everywhere, whatever it is divided by.
                harmonic = proportion * (harmonic / np.where(mass > 0, mass, 1.0))
            proba[free] = harmonic / harmonic.sum(axis=1, keepdims=True)
        return proba


def _reached(graph: Graph, labelled: np.ndarray) -> np.ndarray:
    """The unlabelled nodes with a path to a label."""
    n_components, component = connected_components(graph.adjacency, directed=False)
    reached = np.zeros(n_components, dtype=bool)
    reached[component[labelled]] = True
    free = reached[component]
    free[labelled] = False
    return np.flatnonzero(free)


def _harmonic(
    graph: Graph, free: np.ndarray, labelled: np.ndarray, one_hot: np.ndarray
) -> np.ndarray:
    """Solve (D_uu - W_uu) f_u = W_ul Y_l (Eq. 5), one column to a class."""
    rows = graph.adjacency[free]
    weights, boundary = sp.csr_array(rows[:, free]), rows[:, labelled] @ one_hot
    degrees = graph.degrees[free]
    solve = _factorised if weights.nnz <= _FACTORISE else _conjugate_gradients
    solution = solve(weights, degrees, boundary)
    # A row sums to one, but for rounding, unless the label's pull was lost in the degrees.
    if not np.allclose(solution.sum(axis=1), 1.0, rtol=0, atol=1e-4):
        raise ValueError(
            f"the weights of the graph, from {graph.adjacency.data.min():.1e} to "
            f"{graph.adjacency.data.max():.1e}, span too many orders of magnitude to propagate "
            "labels; drop the smallest ones"
        )
    return np.maximum(solution, 0.0)


def _factorised(weights: sp.csr_array, degrees: np.ndarray, boundary: np.ndarray) -> np.ndarray:
    laplacian = sp.csc_array(sp.diags_array(degrees) - weights)
    try:
        # Symmetric with a dominant diagonal: no pivoting, and an ordering that keeps it sparse.
        factor = splu(
            laplacian,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # singular to rounding
        return np.full(boundary.shape, np.nan)
    return factor.solve(boundary)


def _conjugate_gradients(
    weights: sp.csr_array, degrees: np.ndarray, boundary: np.ndarray
) -> np.ndarray:
    """All classes at once, on the system scaled by D^-1/2 from both sides (Jacobi)."""
    scale = 1.0 / np.sqrt(degrees)[:, None]
    scaled = sp.csr_array(sp.diags_array(scale.ravel()) @ weights @ sp.diags_array(scale.ravel()))
    residual = scale * boundary
    solution = np.zeros_like(residual)
    direction = residual.copy()
    squared = _column_products(residual, residual)
    for _ in range(10 * len(degrees)):
        step = direction - scaled @ direction
        length = _ratio(squared, _column_products(direction, step))
        solution += length * direction
        residual -= length * step
        if np.abs(scale * residual).max() < _TOLERANCE:
            break
        previous, squared = squared, _column_products(residual, residual)
        direction = residual + _ratio(squared, previous) * direction
    else:
        warnings.warn(
            f"label propagation stopped before it was accurate to {_TOLERANCE:g}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return scale * solution


def _column_products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("uc,uc->c", a, b)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below, and zero for a column that is solved already."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
