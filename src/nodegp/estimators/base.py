"""What classifier and regressor share: adapting a fitted model to scikit-learn's conventions.

Parameters and inputs are checked and made into a model's parts here, and what it says goes back in
the form that users expect. It holds no maths, and no state but the model.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from nodegp import inference
from nodegp.component import as_component
from nodegp.disk import GraphOnDisk, on_disk
from nodegp.disk.preprocess import fit_preprocessor
from nodegp.estimators.stored import stored_observations
from nodegp.features import FeatureRows
from nodegp.filters import AdditiveFilter, Filter
from nodegp.graph import Graph, check_nodes
from nodegp.inducing import Inducing
from nodegp.interchange import as_graph, node_labels
from nodegp.labels import Observations, as_labels, check_confidence, is_labelled
from nodegp.likelihoods import Likelihood
from nodegp.model import Explanation, FittedModel, Recipe, Settings
from nodegp.model.recipe import Kernels
from nodegp.neighbours import Table, joined_graph, table_graph
from nodegp.posterior import sample_joint
from nodegp.preprocessing import Preprocessing
from nodegp.prior import Domain, domain_of
from nodegp.prior.stored import check_affordable
from nodegp.propagation import watched
from nodegp.seeds import generator
from nodegp.store import StoredGraph

__all__ = ["GraphGP", "fitted"]

_LARGE_JITTER = 1e-3  # of a prior variance: from here on probabilities show it


class fitted:
    """An attribute of the fitted model, as an attribute of its estimator."""

    def __init__(self, read: Callable[[Any], Any]):
        self._read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        if estimator is None:
            return self
        model = vars(estimator).get("model_")
        if model is None:
            raise NotFittedError(f"this {owner.__name__} has no {self._name} yet; call fit before")
        return self._read(model)


class Start(NamedTuple):
    """What ``fit`` was given, checked."""

    domain: Domain
    observations: Observations
    n_neighbors: int | None  # None unless it was a table
    described: dict[str, Any]  # attributes of scikit-learn that tell of the input


class GraphGP(BaseEstimator):
    """What classifier and regressor share: fitting, and predicting h."""

    # Parameters, which each kind sets in its own __init__ as scikit-learn wants it.
    recipe: Recipe | str | None
    kernel: Kernels | None
    filter: Filter | str | None
    likelihood: Likelihood | str | None
    preprocessing: Preprocessing | str | None
    inducing: Inducing | str
    engine: inference.Engine | str
    unlabelled: Any
    random_state: Any
    verbose: int

    model_: FittedModel
    n_neighbors_: int | None  # None unless it was fitted on a table

    graph_ = fitted(lambda model: model.graph)
    preprocessor_ = fitted(lambda model: model.preprocessor)
    preprocessing_ = fitted(lambda model: model.preprocessor.kind)
    recipe_ = fitted(lambda model: model.recipe)
    filter_ = fitted(lambda model: model.recipe.filter)
    prior_ = fitted(lambda model: model.prior)
    kernel_ = fitted(lambda model: model.recipe.kernel)
    likelihood_ = fitted(lambda model: model.recipe.likelihood)
    inducing_ = fitted(lambda model: model.inducing)
    posterior_ = fitted(lambda model: model.posterior)
    labelled_ = fitted(lambda model: model.observations.nodes)
    labels_ = fitted(lambda model: model.observations.labels)
    label_confidence_ = fitted(lambda model: model.observations.confidence)
    label_weights_ = fitted(lambda model: model.label_weights)
    elbo_ = fitted(lambda model: model.diagnostics.elbo)
    elbo_trace_ = fitted(lambda model: model.diagnostics.elbo_trace)
    n_iter_ = fitted(lambda model: model.diagnostics.n_iter)
    converged_ = fitted(lambda model: model.diagnostics.converged)
    jitter_ = fitted(lambda model: model.diagnostics.jitter)

    # --- fitting ----------------------------------------------------------------------------

    def _with_parts(self, recipe: Recipe, filter: Filter | str | None) -> Recipe:
        """A recipe with the parts that were given beside it in the place of its own."""
        parts: dict[str, Any] = {}
        if filter is not None:
            parts["filter"] = as_component(filter, Filter, "filter")
        if self.kernel is not None:
            parts["kernel"] = self.kernel
        if self.likelihood is not None:
            parts["likelihood"] = as_component(self.likelihood, Likelihood, "likelihood")
        if parts:
            parts["name"] = "custom"
        if isinstance(self.preprocessing, str):
            parts["preprocessing"] = replace(recipe.preprocessing, kind=self.preprocessing)
        elif self.preprocessing is not None:
            parts["preprocessing"] = self.preprocessing
        return replace(recipe, **parts)

    def _start(self, X: Any, y: Any, label_confidence: Any, recipe: Recipe) -> Start:
        """The graph to fit, and what is known of its nodes."""
        if isinstance(X, StoredGraph):
            return self._start_stored(on_disk(X), y, label_confidence, recipe)
        y, X = node_labels(X, y), as_graph(X)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        table = None if isinstance(X, Graph) else _as_table(X)
        if table is None:
            described = {"n_features_in_": X.n_features}
            n_nodes = X.n_nodes
        else:
            # On a copy: nothing of this estimator changes before the fit has succeeded.
            looked = clone(self)
            raw = _numbers(validate_data(looked, table.rows, accept_sparse="csr", dtype="numeric"))
            described = {k: v for k, v in vars(looked).items() if k.endswith("_in_")}
            n_nodes = raw.shape[0]
        y = column_or_1d(as_labels(y), warn=True, dtype=None)
        if len(y) != n_nodes:
            raise ValueError(
                f"y has {len(y)} entries for {n_nodes} nodes; give one per node, with "
                f"{self.unlabelled!r} where there is no label"
            )
        if table is None:
            preprocessor = recipe.preprocessing.fit_graph(X)
        else:
            preprocessor = recipe.preprocessing.fit(raw, n_nodes)
            rows = FeatureRows.of(preprocessor, raw, n_nodes)
            X = table_graph(raw, rows, table.n_neighbors)
        mask = is_labelled(y, self.unlabelled)
        if not mask.any():
            raise ValueError(
                "y has no labels at all: every entry is "
                f"{self.unlabelled!r}, None or NaN. Label at least one node."
            )
        labelled = np.flatnonzero(mask)
        confidence = check_confidence(label_confidence, n_nodes, labelled)
        observations = Observations(labelled, y[labelled], confidence)
        n_neighbors = None if table is None else table.n_neighbors
        return Start(Domain(X, preprocessor), observations, n_neighbors, described)

    def _start_stored(
        self, graph: GraphOnDisk, y: Any, label_confidence: Any, recipe: Recipe
    ) -> Start:
        """The same for a stored graph, with labels by id."""
        observations = stored_observations(graph, y, label_confidence, self.unlabelled)
        check_affordable(graph, len(observations.nodes))
        described = {"n_features_in_": graph.n_features}
        if graph.is_dense:
            preprocessor = fit_preprocessor(recipe.preprocessing, graph.store)
        else:
            preprocessor = recipe.preprocessing.fit(
                graph.features, graph.n_nodes, graph.is_prepared
            )
        return Start(domain_of(graph, preprocessor), observations, None, described)

    def _finish(self, model: FittedModel, start: Start) -> Self:
        """Take over a fitted model."""
        self.model_ = model
        self.n_neighbors_ = start.n_neighbors
        for name, value in start.described.items():
            setattr(self, name, value)
        self._check_fit()
        return self

    def _settings(self) -> Settings:
        engine = as_component(self.engine, inference.Engine, "engine")
        return Settings(self.inducing, engine, self.random_state)

    def _check_fit(self) -> None:
        """Warn of a fit that is not what was asked for."""
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} did not converge in {self.n_iter_} iterations "
                f"(elbo {self.elbo_:.4f}); {self.model_.diagnostics.advice}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        share = self.model_.jitter_share()
        if share >= _LARGE_JITTER:
            warnings.warn(
                f"{type(self).__name__} is ill-conditioned: a jitter of {self.jitter_:.1e} was "
                f"added to prior variances, {share:.1e} times their median, so that answers are "
                "rough and depend on the order of the nodes; bring the features to one scale "
                "(preprocessing='l2' or 'standardise'), or use inducing='labelled', which mostly "
                "needs no jitter.",
                stacklevel=4,
            )

    def update(self, nodes: Any, labels: Any, *, label_confidence: Any = None) -> Self:
        """Add, change or remove labels, starting from the last fit.

        Much faster than a new fit, with the same result (the "adam" engine keeps the
        hyper-parameters and restarts q).

        Parameters
        ----------
        nodes : nodes of the graph fitted on, by number or by id, as in :meth:`predict_latent`
        labels : one for each; they replace existing labels
            ``unlabelled``, None or NaN removes a label.
        label_confidence : one for each, optional
            The probability that the label is right, in (0, 1].
        """
        _, nodes = self._asked(None, nodes)
        values = column_or_1d(np.atleast_1d(as_labels(labels)), dtype=None)
        if values.shape != nodes.shape:
            raise ValueError(f"there are {len(values)} labels for {len(nodes)} nodes")
        sure = check_confidence(label_confidence, len(nodes), np.arange(len(nodes)))
        observations = self.model_.observations.revised(nodes, values, sure, self.unlabelled)
        with self._watched():
            self.model_ = self.model_.update(observations, self._report)
        self._check_fit()
        return self

    def explain(self, node: int | str, X: Any = None) -> Explanation:
        """The contributions of labels and of neighbours to the prediction of one node.

        ``node`` by number or by id, and ``X``, as in :meth:`predict_latent`.
        """
        domain, nodes = self._asked(X, node)
        if len(nodes) != 1:
            raise ValueError(f"explain takes one node at a time, got {len(nodes)}")
        return self.model_.explain(int(nodes[0]), domain.graph)

    @property
    def term_shares_(self) -> dict[str, float]:
        """For a sum of filters: the share of each in the prior variance of the labelled nodes, a
        measure of its importance."""
        check_is_fitted(self, "model_")
        if not isinstance(self.filter_, AdditiveFilter):
            raise AttributeError(f"{type(self.filter_).__name__} is no sum of filters")
        domain, _ = self._asked(None, None)
        names = [part.name for part in self.filter_.summands(domain.graph)]
        return dict(zip(names, self.model_.variance_shares(), strict=True))

    def _report(self, line: str) -> None:
        if self.verbose:
            print(line, file=sys.stderr, flush=True)

    def _watched(self) -> Any:
        """Where propagation that takes long may say so, if it is wished."""
        return watched(self._report) if self.verbose else nullcontext()

    # --- predicting -------------------------------------------------------------------------

    def predict_latent(
        self, X: Any = None, nodes: Any = None, cov: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the latent values h.

        Parameters
        ----------
        X : Graph, networkx graph, PyTorch Geometric Data, or a table if the model was fitted on one
            By default the graph fitted on. It may have nodes and edges that the model has not seen.
        nodes : node numbers, ids that are text, or a mask, optional
            The nodes to predict; all by default. A number is a node's position in the graph, even
            if ids are numbers too (``graph.positions(ids)`` converts them).
        cov : bool
            Return joint covariances (latents, nodes, nodes) instead of variances.

        Returns
        -------
        mean : (nodes, latents)
        variance : (nodes, latents), or (latents, nodes, nodes)
        """
        domain, nodes = self._asked(X, nodes)
        with self._watched():
            if cov:
                mean, covariance = self.model_.joint(domain, nodes)
                return mean.numpy(), covariance.numpy()
            marginals = self.model_.marginals(domain, nodes)
        # Copies: those of all nodes are kept for the next question.
        return marginals.mean.numpy().copy(), marginals.var.numpy().copy()

    def sample_latent(
        self, X: Any = None, nodes: Any = None, n_samples: int = 1, random_state: Any = None
    ) -> np.ndarray:
        """Draws of h from the joint posterior, shape (n_samples, nodes, latents)."""
        domain, nodes = self._asked(X, nodes)
        mean, covariance = self.model_.joint(domain, nodes)
        return sample_joint(mean, covariance, n_samples, generator(random_state)).numpy()

    def _asked(self, X: Any, nodes: Any) -> tuple[Domain, np.ndarray]:
        """The nodes that a prediction is about, and where they are."""
        check_is_fitted(self, "model_")
        if X is None:
            domain = self.model_.domain()
            return domain, domain.graph.numbers(nodes)
        X = on_disk(as_graph(X))
        if isinstance(X, Graph):
            domain = self.model_.domain(X)
            if domain.stranger_to is not None:
                warnings.warn(
                    f"the model also goes by links that nodes have in common, and this graph does "
                    f"not begin with the {domain.stranger_to} nodes it was fitted on: links are "
                    "left out here. Keep those nodes first and in their order, and put new ones "
                    "after them.",
                    stacklevel=3,
                )
            return domain, X.numbers(nodes)
        if self.n_neighbors_ is None:
            raise TypeError(
                f"the model was fitted on a Graph; predict on a nodegp.Graph too, not on a "
                f"{type(X).__name__}"
            )
        if isinstance(X, Table) and X.n_neighbors != self.n_neighbors_:
            raise ValueError(
                f"the model links a row to its {self.n_neighbors_} nearest; this Table says "
                f"{X.n_neighbors}"
            )
        rows = _as_table(X).rows
        raw = _numbers(validate_data(self, rows, accept_sparse="csr", dtype="numeric", reset=False))
        rows = FeatureRows.of(self.preprocessor_, raw, raw.shape[0])
        fitted_domain = self.model_.domain()  # a table's rows are always kept
        graph = joined_graph(fitted_domain.graph, fitted_domain.rows, raw, rows, self.n_neighbors_)
        return self.model_.domain(graph), fitted_domain.n_nodes + check_nodes(nodes, raw.shape[0])

    def save(self, path: str | Path, include_graph: bool = False) -> None:
        """Write the fitted model to one file; ``nodegp.load(path)`` reads it back.

        The graph is included only with ``include_graph=True`` (always if the model was fitted on a
        table, whose rows it needs to find neighbours).
        """
        from nodegp.persistence import save

        save(self, path, include_graph)

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _as_table(X: Any) -> Table:
    return X if isinstance(X, Table) else Table(X)


def _numbers(raw: Any) -> Any:
    """A checked table as the features of a graph."""
    kind = raw.data.dtype if hasattr(raw, "indptr") else raw.dtype
    return raw if kind in (np.float32, np.float64) else raw.astype(np.float64)
