"""GraphGPClassifier and GraphGPRegressor: the model behind scikit-learn's conventions.

This is the one place where graph, preprocessing, filter, kernel, likelihood, inducing
variables and engine are put together. It holds no maths of its own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from nodegp import inference
from nodegp.calibration import fit_temperature, tempered
from nodegp.features import LazyRows, Preprocessor
from nodegp.filters import Bags, Filter, Identity, NeighbourMean
from nodegp.graph import Graph, check_nodes
from nodegp.inducing import Inducing, choose
from nodegp.kernels import RBF, Kernel, Polynomial
from nodegp.labels import as_labels, check_confidence, encode, is_labelled
from nodegp.likelihoods import Bernoulli, Gaussian, Likelihood, RobustMax, Softmax
from nodegp.linalg import threads_for
from nodegp.neighbours import joined_graph, table_graph
from nodegp.posterior import Marginals, leave_one_out, sample_joint

FILTERS = {"mean": NeighbourMean, "identity": Identity}
LIKELIHOODS = {"robustmax": RobustMax, "softmax": Softmax, "bernoulli": Bernoulli}
ENGINES = {"dual": inference.Dual, "adam": inference.Adam}
# Entries of the largest array that a prediction makes, (nodes touched, inducing variables): 2 GiB.
_CROSS_BUDGET = 1 << 28


class _GraphGP(BaseEstimator):
    """What classifier and regressor share: fitting, and predicting h."""

    def __init__(
        self,
        kernel: Kernel | None = None,
        filter: Filter | str | None = None,
        likelihood: Likelihood | str | None = None,
        features: str = "auto",
        center: bool = False,
        inducing: Inducing | str = "auto",
        n_inducing: int | None = None,
        engine: inference.Engine | str = "dual",
        unlabelled: Any = -1,
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

    # --- fitting ----------------------------------------------------------------------------

    def _fit_posterior(
        self,
        graph: Graph,
        labelled: np.ndarray,
        targets: np.ndarray,
        confidence: np.ndarray,
        kernel: Kernel,
        likelihood: Likelihood,
        n_latents: int,
    ) -> inference.Fit:
        """Fit q at the labelled nodes and set the fitted attributes that both kinds share."""
        rng = _generator(self.random_state)
        like = torch.zeros((), dtype=_dtype(self.dtype), device=_device(self.device))
        if not isinstance(kernel, Kernel):
            raise ValueError(f"kernel must be a Kernel object or None, got {kernel!r}")
        self.filter_ = _component(self.filter, FILTERS, NeighbourMean, Filter, "filter")
        rows = self._rows(graph)
        bags = self.filter_.bags(graph, rows, labelled)
        self.inducing_ = choose(self.inducing, self.n_inducing, len(labelled))
        problem = inference.Problem(
            kernel=kernel,
            likelihood=likelihood,
            projector=self.inducing_.prepare(kernel, bags, rows, like, rng),
            y=torch.from_numpy(targets).to(like.device),
            confidence=torch.from_numpy(confidence).to(like),
            n_latents=n_latents,
            rng=rng,
        )
        fit = self._engine().fit(problem, self._report)
        self.posterior_ = fit.posterior
        self.kernel_ = fit.posterior.kernel
        self.likelihood_ = fit.likelihood
        self.elbo_ = fit.elbo
        self.elbo_trace_ = fit.elbo_trace
        self.n_iter_ = fit.n_iter
        self.converged_ = fit.converged
        self.jitter_ = fit.jitter
        self.labelled_ = labelled
        if not fit.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in {fit.n_iter} iterations "
                f"(elbo {fit.elbo:.4f}); {fit.advice}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return fit

    def _engine(self) -> inference.Engine:
        engine = _component(self.engine, ENGINES, inference.Dual, inference.Engine, "engine")
        changes = {"max_iter": self.max_iter, "tol": self.tol}
        return replace(engine, **{k: v for k, v in changes.items() if v is not None})

    def _start(self, X: Any, y: Any) -> tuple[Graph, np.ndarray, np.ndarray]:
        """The graph to fit, the labels as an array, and where there are any."""
        if self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be at least 1, got {self.n_neighbors}")
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if isinstance(X, Graph):
            self.n_features_in_ = X.n_features
            n_nodes, raw = X.n_nodes, X.features
        else:
            raw = _table(validate_data(self, X, accept_sparse="csr", dtype="numeric"))
            n_nodes = raw.shape[0]
        y = column_or_1d(as_labels(y), warn=True, dtype=None)
        if len(y) != n_nodes:
            raise ValueError(
                f"y has {len(y)} entries for {n_nodes} nodes; give one per node, with "
                f"{self.unlabelled!r} where there is no label"
            )
        self.preprocessor_ = Preprocessor.fit(raw, self.features, self.center)
        self.features_ = self.preprocessor_.kind
        self.table_ = not isinstance(X, Graph)
        if self.table_:
            rows = self.preprocessor_.rows_of(raw, n_nodes)
            X = table_graph(raw, rows, self.n_neighbors)
        self.graph_ = X
        mask = is_labelled(y, self.unlabelled)
        if not mask.any():
            raise ValueError(
                "y has no labels at all: every entry is "
                f"{self.unlabelled!r}, None or NaN. Label at least one node."
            )
        return X, y, np.flatnonzero(mask)

    def _report(self, line: str) -> None:
        if self.verbose:
            print(line, file=sys.stderr, flush=True)

    # --- predicting -------------------------------------------------------------------------

    def predict_latent(
        self, X: Any = None, nodes: Any = None, cov: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the latent values h.

        Parameters
        ----------
        X : Graph, or a table if the model was fitted on one; default the graph fitted on
            It may have nodes and edges that the model has not seen.
        nodes : node numbers or mask, optional
            Which nodes to answer for; all by default.
        cov : bool
            Joint covariance over the nodes, (latents, nodes, nodes), in place of variances.

        Returns
        -------
        mean : (nodes, latents)
        variance : (nodes, latents), or (latents, nodes, nodes)
        """
        graph, nodes = self._asked(X, nodes)
        if cov:
            mean, covariance = self.posterior_.joint(self._bags(graph, nodes))
            return mean.numpy(), covariance.numpy()
        marginals = self._marginals(graph, nodes)
        return marginals.mean.numpy(), marginals.var.numpy()

    def sample_latent(
        self, X: Any = None, nodes: Any = None, n_samples: int = 1, random_state: Any = None
    ) -> np.ndarray:
        """Draws of h from the joint posterior, shape (n_samples, nodes, latents)."""
        graph, nodes = self._asked(X, nodes)
        mean, covariance = self.posterior_.joint(self._bags(graph, nodes))
        return sample_joint(mean, covariance, n_samples, _generator(random_state)).numpy()

    def _asked(self, X: Any, nodes: Any) -> tuple[Graph, np.ndarray]:
        """The graph and node numbers that a prediction is about."""
        check_is_fitted(self, "posterior_")
        if X is None:
            if self.graph_ is None:
                raise ValueError(
                    "this model was saved without its graph; pass a Graph to predict on, or "
                    "save with include_graph=True"
                )
            return self.graph_, check_nodes(nodes, self.graph_.n_nodes)
        if isinstance(X, Graph):
            return X, check_nodes(nodes, X.n_nodes)
        if not self.table_:
            raise TypeError(
                f"the model was fitted on a Graph; predict on a nodegp.Graph too, not on a "
                f"{type(X).__name__}"
            )
        raw = _table(validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False))
        rows = self.preprocessor_.rows_of(raw, raw.shape[0])
        known = self.graph_
        graph = joined_graph(known, self._rows(known), raw, rows, self.n_neighbors)
        return graph, known.n_nodes + check_nodes(nodes, raw.shape[0])

    def _rows(self, graph: Graph) -> LazyRows:
        return self.preprocessor_.rows_of(graph.features, graph.n_nodes)

    def _bags(self, graph: Graph, nodes: np.ndarray) -> Bags:
        return self.filter_.bags(graph, self._rows(graph), nodes)

    def _marginal_blocks(self, graph: Graph, nodes: np.ndarray) -> Iterator[Marginals]:
        """q(h) at the nodes in order, in blocks whose covariances with u fit in memory."""
        if len(nodes) == 0:
            empty = torch.zeros(0, self.posterior_.n_latents, dtype=torch.float64)
            yield Marginals(empty, empty)
            return
        rows_allowed = max(_CROSS_BUDGET // self.posterior_.n_inducing, 1)
        touched = 1 + np.diff(graph.adjacency.indptr)[nodes]
        one_block = min(graph.n_nodes, touched.sum()) <= rows_allowed
        block = np.zeros(len(nodes), int) if one_block else np.cumsum(touched) // rows_allowed
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(nodes)], strict=True):
            yield self.posterior_.marginals(self._bags(graph, nodes[start:stop]))

    def _threads(self, nodes: np.ndarray) -> Any:
        # Twenty nodes cost about what one row and column of a factorisation does.
        return threads_for(max(self.posterior_.n_inducing, len(nodes) // 20))

    def _marginals(self, graph: Graph, nodes: np.ndarray) -> Marginals:
        with self._threads(nodes):
            parts = list(self._marginal_blocks(graph, nodes))
        return Marginals(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def save(self, path: str | Path, include_graph: bool = False) -> None:
        """Write the fitted model to one file; ``nodegp.load(path)`` reads it back.

        The graph is left out unless asked for (a model fitted on a table needs its rows to
        find neighbours, so there it is always included).
        """
        from nodegp.persistence import save

        save(self, path, include_graph)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class GraphGPClassifier(ClassifierMixin, _GraphGP):
    """Bayesian classification of the nodes of a graph (Ng, Colombo & Silva 2018).

    Parameters
    ----------
    kernel : Kernel, optional
        Base kernel on features; by default the paper's ``(<x, x'> + offset)^3`` with the
        offset learnt (and a learnt variance where the likelihood can tell: softmax, bernoulli).
    filter : "mean" (the paper's neighbourhood mean, the default), "identity", or a Filter
    likelihood : "robustmax" (default), "softmax", "bernoulli" (two classes), or a Likelihood
    features : "auto", "tfidf", "l2", "standardise" or "raw"
        Preprocessing; "auto" takes TF-IDF for sparse counts, unit rows for other sparse
        non-negative features, and standardises the rest. ``features_`` says which.
    center : bool
        Also subtract the mean row. Sparse features stay sparse.
    inducing : "auto", "labelled", "points", or an Inducing
        "labelled" has no sparse approximation; "points" scales to many labels.
    n_inducing : int, optional
        How many points.
    engine : "dual" (default), "adam" (the paper's), or an Engine
    calibrate : "auto", "loo" or None
        "loo" fits a temperature on leave-one-out predictions; "auto" does, unless preset is
        "paper". It never changes which class is likeliest.
    preset : None or "paper"
        "paper" is the paper's model for whatever is not given: cubic kernel with the offset
        learnt, neighbourhood mean, robust-max, no calibration. The engine is its own choice.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    n_neighbors : int
        For plain tables: neighbours in the graph that is built.
    max_iter, tol : optional
        Passed to the engine in place of its own.
    device, dtype : optional
        Where and in which precision the linear algebra runs; "cpu" and "float64".
    random_state : int, Generator or RandomState, optional
    verbose : int
        1 prints progress to standard error.

    Attributes
    ----------
    classes_, kernel_, filter_, likelihood_, inducing_, features_, preprocessor_ : what was used
    posterior_ : q and what it needs
    labelled_ : numbers of the labelled nodes
    loo_proba_ : (labels, classes) leave-one-out probabilities, in the order of ``labelled_``
    temperature_ : 1.0 unless calibrated
    elbo_, elbo_trace_, n_iter_, converged_, jitter_ : how the fit went
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        filter: Filter | str | None = None,
        likelihood: Likelihood | str | None = None,
        features: str = "auto",
        center: bool = False,
        inducing: Inducing | str = "auto",
        n_inducing: int | None = None,
        engine: inference.Engine | str = "dual",
        calibrate: str | None = "auto",
        preset: str | None = None,
        unlabelled: Any = -1,
        n_neighbors: int = 10,
        max_iter: int | None = None,
        tol: float | None = None,
        device: str | None = None,
        dtype: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        super().__init__(
            kernel=kernel,
            filter=filter,
            likelihood=likelihood,
            features=features,
            center=center,
            inducing=inducing,
            n_inducing=n_inducing,
            engine=engine,
            unlabelled=unlabelled,
            n_neighbors=n_neighbors,
            max_iter=max_iter,
            tol=tol,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
        )
        self.calibrate = calibrate
        self.preset = preset

    def fit(self, X: Any, y: Any, *, label_confidence: Any = None, classes: Any = None) -> Self:
        """Fit to a graph whose nodes are partly labelled.

        Parameters
        ----------
        X : Graph, or a feature matrix (from which a nearest-neighbour graph is built)
        y : one entry per node
            Class labels, numbers or strings; ``unlabelled``, None or NaN where there is none.
        label_confidence : one entry per node, optional
            The probability that the label is right, in (0, 1]; entries of unlabelled nodes
            are ignored.
        classes : sequence, optional
            All classes there are, if some have no label yet.
        """
        if self.calibrate not in (None, "loo", "auto"):
            raise ValueError(f"calibrate must be 'auto', 'loo' or None, got {self.calibrate!r}")
        if self.preset not in (None, "paper"):
            raise ValueError(f"preset must be 'paper' or None, got {self.preset!r}")
        graph, y, labelled = self._start(X, y)
        check_classification_targets(y[labelled])
        self.classes_, targets = encode(y[labelled], classes)
        n_classes = len(self.classes_)
        likelihood = _component(self.likelihood, LIKELIHOODS, RobustMax, Likelihood, "likelihood")
        if not likelihood.classifies:
            raise ValueError(f"likelihood {likelihood!r} is for regression: use GraphGPRegressor")
        confidence = check_confidence(label_confidence, graph.n_nodes, labelled)
        # Less than an even chance would be evidence for the other classes; it says nothing.
        confidence = np.maximum(confidence, 1.0 / max(n_classes, 2))
        with threads_for(len(labelled)):
            fit = self._fit_posterior(
                graph,
                labelled,
                targets.astype(np.int64),
                confidence,
                self.kernel or _default_kernel(likelihood),
                likelihood,
                likelihood.n_latents(n_classes),
            )
            without = leave_one_out(fit.labels, fit.explained, fit.sites)
            plain = self._probabilities(without)
        automatic = self.calibrate == "auto" and self.preset is None
        calibrated = self.calibrate == "loo" or automatic
        self.temperature_ = fit_temperature(plain, targets) if calibrated else 1.0
        self.loo_proba_ = tempered(plain, self.temperature_)
        return self

    def predict_proba(self, X: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities, shape (nodes, classes), in the order of ``classes_``.

        ``X`` and ``nodes`` as in :meth:`predict_latent`.
        """
        graph, nodes = self._asked(X, nodes)
        with self._threads(nodes):
            blocks = [self._probabilities(m) for m in self._marginal_blocks(graph, nodes)]
        return tempered(np.concatenate(blocks), self.temperature_)

    def predict(self, X: Any = None, nodes: Any = None) -> np.ndarray:
        """The most probable class of each node."""
        proba = self.predict_proba(X, nodes)
        return self.classes_[proba.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the nodes that have a label in ``y``."""
        check_is_fitted(self, "posterior_")
        y = column_or_1d(as_labels(y), dtype=None)
        known = np.flatnonzero(is_labelled(y, self.unlabelled))
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        _check_scored(known, y, X)
        unknown = [v for v in np.unique(y[known]).tolist() if v not in set(self.classes_.tolist())]
        if unknown:
            warnings.warn(
                f"classes {unknown[:5]} were not among the labels fitted on; "
                "their nodes count as wrong",
                stacklevel=2,
            )
        return float(np.average(self.predict(X, known) == y[known], weights=weight))

    def _probabilities(self, marginals: Marginals) -> np.ndarray:
        """Class probabilities, a bounded number of nodes at a time."""
        step = max((1 << 22) // (20 * marginals.mean.shape[1] ** 2), 1)
        blocks = zip(*(part.split(step) for part in marginals), strict=True)
        with torch.no_grad():
            parts = [self.likelihood_.predict(mean.double(), var.double()) for mean, var in blocks]
        proba = torch.cat(parts) if parts else torch.zeros(0, len(self.classes_))
        return (
            proba[:, : len(self.classes_)].numpy()
            if len(self.classes_) > 1
            else np.ones((len(proba), 1))
        )


class GraphGPRegressor(RegressorMixin, _GraphGP):
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
        super().__init__(
            kernel=kernel,
            filter=filter,
            likelihood=likelihood,
            features=features,
            center=center,
            inducing=inducing,
            n_inducing=n_inducing,
            engine=engine,
            unlabelled=unlabelled,
            n_neighbors=n_neighbors,
            max_iter=max_iter,
            tol=tol,
            device=device,
            dtype=dtype,
            random_state=random_state,
            verbose=verbose,
        )

    def fit(self, X: Any, y: Any, *, label_confidence: Any = None) -> Self:
        """Fit to a graph some of whose nodes have a target; NaN where there is none."""
        graph, y, labelled = self._start(X, y)
        targets = y[labelled].astype(np.float64)
        if not np.isfinite(targets).all():
            raise ValueError("y contains infinity; targets must be finite, or NaN for none")
        self.target_mean_ = float(targets.mean())
        self.target_scale_ = float(targets.std()) or 1.0
        likelihood = _component(
            self.likelihood, {"gaussian": Gaussian}, Gaussian, Likelihood, "likelihood"
        )
        if likelihood.classifies:
            raise ValueError(f"likelihood {likelihood!r} is for classes: use GraphGPClassifier")
        like = _dtype(self.dtype)
        standard = (targets - self.target_mean_) / self.target_scale_
        with threads_for(len(labelled)):
            fit = self._fit_posterior(
                graph,
                labelled,
                standard.astype(_numpy_dtype(like)),
                check_confidence(label_confidence, graph.n_nodes, labelled),
                self.kernel or RBF(),
                likelihood,
                1,
            )
        without = leave_one_out(fit.labels, fit.explained, fit.sites)
        self.loo_mean_, self.loo_std_ = self._in_units(without)
        return self

    def predict(self, X: Any = None, nodes: Any = None, return_std: bool = False) -> Any:
        """Predictive mean of each node, and the standard deviation of an observation there
        (noise included) if asked for."""
        graph, nodes = self._asked(X, nodes)
        mean, std = self._in_units(self._marginals(graph, nodes))
        return (mean, std) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 over the nodes that have a target in ``y``."""
        from sklearn.metrics import r2_score

        check_is_fitted(self, "posterior_")
        y = column_or_1d(y, dtype=None)
        known = np.flatnonzero(is_labelled(y, self.unlabelled))
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        _check_scored(known, y, X)
        return float(r2_score(y[known], self.predict(X, known), sample_weight=weight))

    def _in_units(self, marginals: Marginals) -> tuple[np.ndarray, np.ndarray]:
        noise = float(self.likelihood_.parameters()["noise"])
        mean = marginals.mean[:, 0].double().numpy() * self.target_scale_ + self.target_mean_
        return mean, np.sqrt(marginals.var[:, 0].double().numpy() + noise) * self.target_scale_


def _default_kernel(likelihood: Likelihood) -> Kernel:
    # Robust-max only compares latents, so their common scale cannot be learnt from it.
    fixed = ("variance",) if isinstance(likelihood, RobustMax) else ()
    return Polynomial(3, 1.0, 5.0, fixed=fixed)


def _component(value: Any, names: dict[str, Any], default: Any, kind: type, what: str) -> Any:
    """A part of the model given as an object, by name, or not at all."""
    if value is None:
        return default()
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in names:
        return names[value]()
    raise ValueError(
        f"{what} must be one of {list(names)} or a {kind.__name__} object, got {value!r}"
    )


def _check_scored(known: np.ndarray, y: np.ndarray, X: Any) -> None:
    n_nodes = X.n_nodes if isinstance(X, Graph) else None if X is None else np.shape(X)[0]
    if n_nodes is not None and len(y) != n_nodes:
        raise ValueError(f"y has {len(y)} entries for {n_nodes} nodes")
    if not len(known):
        raise ValueError("y has no labels to score against")


def _table(raw: Any) -> Any:
    """A checked table as the features of a graph."""
    kind = raw.data.dtype if hasattr(raw, "indptr") else raw.dtype
    return raw if kind in (np.float32, np.float64) else raw.astype(np.float64)


def _generator(seed: Any) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, np.random.RandomState):
        return np.random.default_rng(seed.randint(2**31 - 1))
    return np.random.default_rng(seed)


def _device(name: str | None) -> torch.device:
    try:
        return torch.device(name or "cpu")
    except RuntimeError as error:
        raise ValueError(f"device {name!r} is not one that torch knows: {error}") from None


def _dtype(name: str | None) -> torch.dtype:
    dtypes = {None: torch.float64, "float64": torch.float64, "float32": torch.float32}
    if name not in dtypes:
        raise ValueError(f"dtype must be 'float64' or 'float32', got {name!r}")
    return dtypes[name]


def _numpy_dtype(dtype: torch.dtype) -> type:
    return np.float32 if dtype == torch.float32 else np.float64
