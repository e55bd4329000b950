"""GraphGPRegressor: real targets on nodes, behind scikit-learn's conventions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nodegp import inference
from nodegp.estimators.base import FILTERS, GraphGP, Parts, component, torch_dtype
from nodegp.estimators.conventions import all_or_nothing, check_scored, scored
from nodegp.filters import Filter, NeighbourMean
from nodegp.graph import Graph
from nodegp.inducing import Inducing
from nodegp.kernels import RBF, Kernel
from nodegp.labels import Given, as_labels, is_labelled
from nodegp.likelihoods import Gaussian, Likelihood
from nodegp.linalg import threads_for
from nodegp.posterior import Marginals, leave_one_out


class GraphGPRegressor(RegressorMixin, GraphGP):
    """Bayesian regression on the nodes of a graph: GraphGPClassifier's prior, Gaussian noise.

    Targets are standardised inside; everything is returned in their own units, except
    ``predict_latent`` and ``sample_latent``, which are in standard units
    (``target_mean_``, ``target_scale_``). Parameters are those of GraphGPClassifier that apply;
    unlabelled is NaN unless another value is given. The kernel is RBF by default, variance,
    lengthscale and noise learnt. ``loo_mean_`` and ``loo_std_`` are the leave-one-out
    predictions of the labelled nodes.
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        filter: Filter | str | None = None,
        likelihood: Likelihood | None = None,
        features: str = "auto",
        center: bool = False,
        inducing: Inducing | str = "auto",
        n_inducing: int | None = None,
        engine: inference.Engine | str = "dual",
        unlabelled: Any = None,
        n_neighbors: int = 10,
        max_iter: int | None = None,
        tol: float | None = None,
        device: str | None = None,
        dtype: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.kernel = kernel
        self.filter = filter
        self.likelihood = likelihood
        self.features = features
        self.center = center
        self.inducing = inducing
        self.n_inducing = n_inducing
        self.engine = engine
        self.unlabelled = unlabelled
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, label_confidence: Any = None) -> Self:
        """Fit to a graph some of whose nodes have a target; NaN where there is none."""
        graph, given = self._start(X, y, label_confidence)
        likelihood = component(
            self.likelihood, {"gaussian": Gaussian}, Gaussian, Likelihood, "likelihood"
        )
        if likelihood.classifies:
            raise ValueError(f"likelihood {likelihood!r} is for classes: use GraphGPClassifier")
        filter = component(self.filter, FILTERS, NeighbourMean, Filter, "filter")
        self._learn(graph, given, Parts(filter, self.kernel or RBF(), likelihood))
        self._check_converged()
        return self

    def _learn(
        self, graph: Graph, given: Given, parts: Parts, classes: Any = None, warm: bool = False
    ) -> None:
        targets = given.labels.astype(np.float64)
        if not np.isfinite(targets).all():
            raise ValueError("y contains infinity; targets must be finite, or NaN for none")
        earlier = self._warm(graph, given.nodes) if warm else None
        self.labels_ = targets
        self.target_mean_ = float(targets.mean())
        self.target_scale_ = float(targets.std()) or 1.0
        standard = (targets - self.target_mean_) / self.target_scale_
        like = torch_dtype(self.dtype)
        with threads_for(len(targets)):
            standard = standard.astype(_numpy_dtype(like))
            fit = self._fit_posterior(graph, given, standard, parts, 1, earlier)
        without = leave_one_out(fit.labels, fit.explained, fit.kept, fit.alpha)
        self.loo_mean_, self.loo_std_ = self._in_units(without)

    def predict(self, X: Any = None, nodes: Any = None, return_std: bool = False) -> Any:
        """Predictive mean of each node, and the standard deviation of an observation there
        (noise included) if asked for."""
        graph, nodes = self._asked(X, nodes)
        mean, std = self._in_units(self._marginals(graph, nodes))
        return (mean, std) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 over the nodes that have a target in ``y``."""
        check_is_fitted(self, "posterior_")
        X, y = scored(self, X, y)
        y = column_or_1d(as_labels(y), dtype=None)
        known = np.flatnonzero(is_labelled(y, self.unlabelled))
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        check_scored(known, y, X)
        return float(r2_score(y[known], self.predict(X, known), sample_weight=weight))

    def _in_units(self, marginals: Marginals) -> tuple[np.ndarray, np.ndarray]:
        noise = float(self.likelihood_.parameters()["noise"])
        mean = marginals.mean[:, 0].double().numpy() * self.target_scale_ + self.target_mean_
        return mean, np.sqrt(marginals.var[:, 0].double().numpy() + noise) * self.target_scale_


def _numpy_dtype(dtype: torch.dtype) -> type:
    return np.float32 if dtype == torch.float32 else np.float64
