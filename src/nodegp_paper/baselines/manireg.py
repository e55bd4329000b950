"""Manifold regularisation: Belkin, Niyogi and Sindhwani (JMLR 2006).

*Manifold Regularization: A Geometric Framework for Learning from Labeled and Unlabeled Examples*.
Least squares on the features, with a penalty on functions that differ along the graph's edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import normalize

from nodegp.graph import Graph
from nodegp_paper.baselines.base import Baseline, Labels, check_number

__all__ = ["ManifoldRegularisation"]

KERNELS = ("linear", "rbf")
_LARGEST = 6_000  # rows of a dense system: 290 MB, and some ten seconds
_BLOCK = 1 << 22  # entries of the kernel at a time where new nodes are classified


class ManifoldRegularisation(Baseline):
    """Laplacian regularised least squares (LapRLS), each class against the rest.

    The function f of a class minimises, over the reproducing kernel Hilbert space of k,

        sum over labels (f(x_i) - y_i)^2  +  ambient |f|_k^2  +  intrinsic f^T L f,

    with y_i = 1 at the class's labels and -1 at the others, and L = D - W the Laplacian of the
    given graph (the paper makes one of nearest neighbours). That is the paper's objective times
    the number l of labels, so ``ambient`` is its gamma_A l and ``intrinsic`` its
    gamma_I l / (u + l)^2. The defaults are what it sets these to for handwritten digits, 0.005
    and 0.045; on random splits of Cora, Citeseer and Pubmed without the public test nodes, an
    ambient penalty up to two hundred times as large and an intrinsic one up to ten times made
    less than two points of difference.

    The kernel is <x, x'> + 1 on rows of unit length, as for text in the paper, or a Gaussian on
    such rows. The method needs the kernel matrix of all nodes by its definition. The linear
    kernel does not, if f is written in the weights of the features, which makes a system as
    large as there are features: that is why it is the default. The Gaussian, which can do better
    (76 against 65 per cent on such splits of Cora, 62 against 61 on Citeseer), is refused beyond
    6,000 nodes, and so is a linear one if there are more than 6,000 nodes and features.

    The probabilities are a softmax of the classes' functions: an order, not to be taken for more.
    A class without labels gets none. Once fitted, a node is classified by its features alone.

    Parameters
    ----------
    kernel : "linear" or "rbf"
    ambient, intrinsic : float
        Weights of the two penalties; ``ambient`` must be positive.
    lengthscale : float
        Of the Gaussian kernel exp(-|x - x'|^2 / (2 lengthscale^2)).
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : ignored
        Here so that all baselines can be made alike.

    Attributes
    ----------
    coefficients_ : a column to each class that has labels; a row to each feature and one for the
        constant, or a row to each node
    """

    name = "ManiReg"
    needs_features = True
    inductive = True
    deterministic = True

    def __init__(
        self,
        kernel: str = "linear",
        ambient: float = 0.005,
        intrinsic: float = 0.045,
        lengthscale: float = 1.0,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.ambient = ambient
        self.intrinsic = intrinsic
        self.lengthscale = lengthscale
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        self._check_parameters()
        self._seen, position = np.unique(labels.targets, return_inverse=True)
        targets = 2.0 * np.eye(len(self._seen))[position] - 1.0
        laplacian = sp.csr_array(sp.diags_array(graph.degrees) - graph.adjacency)
        rows = normalize(graph.features)
        # Whichever of the two systems is the smaller one: they have the same solution.
        self._by_weights = self.kernel == "linear" and graph.n_features < graph.n_nodes
        _check_size(graph, self._by_weights)
        if self._by_weights:
            self.coefficients_ = self._weights(rows, laplacian, labels.nodes, targets)
        else:
            self._rows = rows
            self.coefficients_ = self._expansion(
                self._kernel(rows), laplacian, labels.nodes, targets
            )
        return self._probabilities(rows)

    def _weights(
        self, rows: Any, laplacian: sp.csr_array, labelled: np.ndarray, targets: np.ndarray
    ) -> np.ndarray:
        """The weights w of f(x) = <w, x>: (X_l^T X_l + ambient + intrinsic X^T L X) w = X_l^T y."""
        X = _with_constant(rows)
        X_labelled = X[labelled]
        system = _dense(X_labelled.T @ X_labelled) + self.intrinsic * _dense(X.T @ (laplacian @ X))
        system[np.diag_indices_from(system)] += self.ambient
        return scipy.linalg.solve(system, X_labelled.T @ targets, assume_a="pos")

    def _expansion(
        self, K: np.ndarray, laplacian: sp.csr_array, labelled: np.ndarray, targets: np.ndarray
    ) -> np.ndarray:
        """The coefficients of f = sum_i a_i k(x_i, .): (J K + ambient + intrinsic L K) a = y,
        with J and y zero where there is no label."""
        system = self.intrinsic * (laplacian @ K)
        system[labelled] += K[labelled]
        system[np.diag_indices_from(system)] += self.ambient
        right = np.zeros((len(K), targets.shape[1]))
        right[labelled] = targets
        return scipy.linalg.solve(system, right)

    def _kernel(self, rows: Any) -> np.ndarray:
        """The kernel of these rows with those fitted on."""
        if self.kernel == "linear":
            return _dense(rows @ self._rows.T) + 1.0
        return rbf_kernel(rows, self._rows, gamma=0.5 / self.lengthscale**2)

    def _probabilities(self, rows: Any) -> np.ndarray:
        if self._by_weights:
            scores = _with_constant(rows) @ self.coefficients_
        else:
            step = max(_BLOCK // self._rows.shape[0], 1)
            blocks = [rows[start : start + step] for start in range(0, rows.shape[0], step)]
            scores = np.vstack([self._kernel(block) @ self.coefficients_ for block in blocks])
        proba = np.zeros((rows.shape[0], len(self.classes_)))
        proba[:, self._seen] = softmax(scores, axis=1)
        return proba

    def _proba_elsewhere(self, graph: Graph) -> np.ndarray:
        return self._probabilities(normalize(graph.features))

    def _check_parameters(self) -> None:
        if self.kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {list(KERNELS)}, got {self.kernel!r}")
        check_number("ambient", self.ambient, np.finfo(float).tiny)
        check_number("intrinsic", self.intrinsic, 0)
        check_number("lengthscale", self.lengthscale, np.finfo(float).tiny)


def _check_size(graph: Graph, by_weights: bool) -> None:
    size, of = (graph.n_features, "features") if by_weights else (graph.n_nodes, "nodes")
    if size > _LARGEST:
        raise ValueError(
            f"ManifoldRegularisation solves a dense system, here of {size:,} {of}, and takes at "
            f"most {_LARGEST:,}; use kernel='linear' with fewer features"
        )


def _with_constant(rows: Any) -> Any:
    ones = np.ones((rows.shape[0], 1))
    return sp.csr_array(sp.hstack([rows, ones])) if sp.issparse(rows) else np.hstack([rows, ones])


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix
