"""What classifier and regressor share: putting a model together, fitting it, predicting h.

This is the one place where graph, preprocessing, filter, kernel, likelihood, inducing
variables and engine meet. It holds no maths of its own.
"""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from nodegp import inference
from nodegp.covariance import standing, variances
from nodegp.estimators.conventions import all_or_nothing
from nodegp.estimators.explanation import Explanation, explain
from nodegp.estimators.lowrank import LowRankError, low_rank_error, some_of
from nodegp.features import LazyRows, Preprocessor
from nodegp.filters import (
    Bags,
    Chebyshev,
    Diffusion,
    Filter,
    Identity,
    InverseCosine,
    MaternFilter,
    NeighbourMean,
    PageRank,
    Propagation,
    RandomWalk,
    RegularisedLaplacian,
)
from nodegp.filters.hops import Summed
from nodegp.graph import Graph, check_nodes
from nodegp.inducing import Inducing, Points, choose
from nodegp.interchange import as_graph, node_labels
from nodegp.kernels import Kernel
from nodegp.labels import Given, as_labels, check_confidence, is_labelled
from nodegp.likelihoods import Likelihood
from nodegp.linalg import threads_for
from nodegp.neighbours import joined_graph, table_graph
from nodegp.posterior import Marginals, Posterior, sample_joint
from nodegp.prior import SummedKernel, prior_at, settled
from nodegp.seeds import generator

FILTERS: dict[str, type[Filter]] = {
    "mean": NeighbourMean,
    "identity": Identity,
    "pagerank": PageRank,
    "propagation": Propagation,
    "laplacian": RegularisedLaplacian,
    "diffusion": Diffusion,
    "walk": RandomWalk,
    "cosine": InverseCosine,
    "matern": MaternFilter,
    "chebyshev": Chebyshev,
}
ENGINES = {"dual": inference.Dual, "adam": inference.Adam}
# Entries of the largest array that a prediction makes, (nodes touched, inducing variables): 2 GiB.
_CROSS_BUDGET = 1 << 28


class Parts(NamedTuple):
    """What a model is put together from."""

    filter: Filter
    kernel: Any  # a Kernel, or one for each term of a sum of filters
    likelihood: Likelihood


class GraphGP(BaseEstimator):
    """What classifier and regressor share: fitting, and predicting h."""

    # Parameters, which each kind sets in its own __init__ as scikit-learn wants it.
    filter: Filter | str | None
    features: str
    center: bool | None
    inducing: Inducing | str
    n_inducing: int | None
    engine: inference.Engine | str
    unlabelled: Any
    n_neighbors: int
    max_iter: int | None
    tol: float | None
    device: str | None
    dtype: str | None
    random_state: Any
    verbose: int

    # Set by fit; see GraphGPClassifier.
    graph_: Graph | None
    table_: bool
    preprocessor_: Preprocessor
    features_: str
    filter_: Filter
    posterior_: Posterior
    inducing_: Inducing
    labelled_: np.ndarray
    labels_: np.ndarray
    label_confidence_: np.ndarray
    label_weights_: np.ndarray
    curvature_: np.ndarray | None
    _advice: str
    start_: dict[str, float]

    # --- fitting ----------------------------------------------------------------------------

    def _fit_posterior(
        self,
        graph: Graph,
        given: Given,
        targets: np.ndarray,
        parts: Parts,
        n_latents: int,
        warm: inference.Warm | None = None,
    ) -> inference.Fit:
        """Fit q at the labelled nodes and set the fitted attributes that both kinds share.

        ``warm`` is what an earlier fit of this model knew.
        """
        rng = generator(self.random_state)
        like = torch.zeros((), dtype=torch_dtype(self.dtype), device=_device(self.device))
        kernel, labelled = parts.kernel, given.nodes
        if not isinstance(kernel, Kernel | SummedKernel):
            raise ValueError(f"kernel must be a Kernel object or None, got {kernel!r}")
        if warm is None:
            self.filter_ = parts.filter.prepared(graph, self._rows(graph))
        rows = self._rows(graph)
        prior, bags = prior_at(self.filter_, kernel, graph, rows, labelled)
        inputs = self.filter_.inputs(graph, rows)
        had_points = warm is not None and isinstance(self.inducing_, Points)
        earlier = self.posterior_.inducing if had_points else None
        self.inducing_ = choose(self.inducing, self.n_inducing, len(labelled))
        problem = inference.Problem(
            kernel=prior,
            likelihood=parts.likelihood,
            projector=self.inducing_.prepare(prior, bags, inputs, like, rng, earlier),
            y=torch.from_numpy(targets).to(like.device),
            confidence=torch.from_numpy(given.confidence).to(like),
            n_latents=n_latents,
            rng=rng,
            warm=warm,
            centre=None if warm is None else self.start_,
        )
        if warm is None:
            self.start_ = problem.free_parameters()
        fit = self._engine().fit(problem, self._report)
        self.kernel_, self.filter_, inducing = settled(
            fit.posterior.kernel, self.filter_, fit.posterior.inducing
        )
        inducing = standing(self.kernel_, inducing)
        self.posterior_ = replace(fit.posterior, kernel=self.kernel_, inducing=inducing)
        self.likelihood_ = fit.likelihood
        self.elbo_ = fit.elbo
        self.elbo_trace_ = fit.elbo_trace
        self.n_iter_ = fit.n_iter
        self.converged_ = fit.converged
        self.jitter_ = fit.jitter
        self.labelled_ = labelled
        self.label_confidence_ = given.confidence
        self.curvature_ = fit.curvature
        self.label_weights_ = fit.alpha.double().cpu().numpy()
        self._advice = fit.advice
        return fit

    def _check_converged(self) -> None:
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} did not converge in {self.n_iter_} iterations "
                f"(elbo {self.elbo_:.4f}); {self._advice}.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _engine(self) -> inference.Engine:
        engine = component(self.engine, ENGINES, inference.Dual, inference.Engine, "engine")
        changes = {"max_iter": self.max_iter, "tol": self.tol}
        return replace(engine, **{k: v for k, v in changes.items() if v is not None})

    def _start(self, X: Any, y: Any, label_confidence: Any) -> tuple[Graph, Given]:
        """The graph to fit, and what is known of its nodes."""
        if not isinstance(self.n_neighbors, Integral) or self.n_neighbors < 1:
            raise ValueError(
                f"n_neighbors must be a whole number of at least 1, got {self.n_neighbors!r}"
            )
        y, X = node_labels(X, y, self.unlabelled), as_graph(X)
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
        self.preprocessor_ = Preprocessor.fit(raw, self._kind(raw), self._centred(), n_nodes)
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
        labelled = np.flatnonzero(mask)
        confidence = check_confidence(label_confidence, n_nodes, labelled)
        return X, Given(labelled, y[labelled], confidence)

    def _kind(self, raw: Any) -> str:
        """How features are preprocessed."""
        return self.features

    def _centred(self) -> bool:
        return bool(self.center)

    @all_or_nothing
    def update(self, nodes: Any, labels: Any, *, label_confidence: Any = None) -> Self:
        """Fit again with more labels, starting from where the last fit ended.

        Much faster than a new fit, and ends at the same place (the "adam" engine keeps the
        hyper-parameters and starts q anew).

        Parameters
        ----------
        nodes : nodes of the graph fitted on, by number or by id, as in :meth:`predict_latent`
        labels : one for each; a node that had a label gets the new one
            ``unlabelled``, None or NaN takes a label back.
        label_confidence : one for each, optional
            The probability that the label is right, in (0, 1].
        """
        graph, nodes = self._asked(None, nodes)
        values = column_or_1d(np.atleast_1d(as_labels(labels)), dtype=None)
        if values.shape != nodes.shape:
            raise ValueError(f"there are {len(values)} labels for {len(nodes)} nodes")
        sure = np.ones(len(nodes)) if label_confidence is None else np.asarray(label_confidence)
        check_confidence(sure, len(nodes), np.arange(len(nodes)))
        # Of a node's labels the last counts, and none is left where that is no label.
        everyone = np.concatenate([self.labelled_, nodes])
        labels = np.concatenate([self.labels_, values])
        sure = np.concatenate([self.label_confidence_, sure])
        is_label = np.ones(len(everyone), dtype=bool)
        is_label[len(self.labelled_) :] = is_labelled(values, self.unlabelled)
        last = len(everyone) - 1 - np.unique(everyone[::-1], return_index=True)[1]
        last = last[is_label[last]]
        if not len(last):
            raise ValueError("no label would be left; a model needs at least one")
        given = Given(everyone[last], labels[last], sure[last])
        parts = Parts(self.filter_, self.kernel_, self.likelihood_)
        self._learn(graph, given, parts, warm=True)
        self._check_converged()
        return self

    def _warm(self, graph: Graph, labelled: np.ndarray) -> inference.Warm:
        """What this fit knows that the next can start from."""
        return inference.Warm(self._marginals(graph, labelled), self.curvature_)

    @abstractmethod
    def _learn(
        self, graph: Graph, given: Given, parts: Parts, classes: Any = None, warm: bool = False
    ) -> None:
        """Fit to these labels, from scratch or from where the last fit ended."""

    def explain(self, node: int | str, X: Any = None) -> Explanation:
        """Which labels and which neighbours made the prediction of one node.

        ``node`` by number or by id, and ``X``, as in :meth:`predict_latent`.
        """
        graph, nodes = self._asked(X, node)
        if len(nodes) != 1:
            raise ValueError(f"explain takes one node at a time, got {len(nodes)}")
        labels = None
        if self.posterior_.chol is not None:  # the labelled nodes are not the inducing variables
            if self.graph_ is None:
                raise ValueError(
                    "to explain this model takes the graph it was fitted on, and it was saved "
                    "without; save with include_graph=True"
                )
            labels = self._bags(self.graph_, self.labelled_)
        here = self._bags(graph, nodes)
        number = int(nodes[0])
        return explain(self.posterior_, number, here, labels, self.labelled_, self.label_weights_)

    @property
    def term_shares_(self) -> dict[str, float]:
        """For a filter that sums several: the share of each in the prior variance of the labelled
        nodes, which says how much it mattered."""
        check_is_fitted(self, "posterior_")
        if not isinstance(self.filter_, Summed):
            raise AttributeError(f"{type(self.filter_).__name__} is no sum of filters")
        graph, _ = self._asked(None, None)
        with torch.no_grad():
            parts = variances(self.posterior_.kernel, self._bags(graph, self.labelled_))
        sizes = np.array([float(part.mean()) for part in parts])
        names = [name for name, *_ in self.filter_.terms(graph)]
        return dict(zip(names, (sizes / sizes.sum()).tolist(), strict=True))

    def low_rank_error(self, X: Any = None, nodes: Any = None) -> LowRankError:
        """What the low-rank form of a filter leaves out of the prior, measured at some nodes.

        All pairs of nodes in their range are what it takes: a second or two for thousands of
        nodes, minutes for tens of thousands.

        Parameters
        ----------
        X : as in :meth:`predict_latent`
        nodes : at least two, optional
            By default up to 100 that are spread over the graph.
        """
        graph, asked = self._asked(X, nodes)
        some = some_of(asked) if nodes is None else asked
        return low_rank_error(self.kernel_, self._bags(graph, some))

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
        X : Graph, networkx graph, PyTorch Geometric Data, or a table if the model was fitted on one
            By default the graph fitted on. It may have nodes and edges that the model has not seen.
        nodes : node numbers, ids that are text, or a mask, optional
            Which nodes to answer for; all by default. A number is a node's place in the graph,
            even where ids are numbers too (``graph.positions(ids)`` gives places).
        cov : bool
            Joint covariance over the nodes, (latents, nodes, nodes), in place of variances.

        Returns
        -------
        mean : (nodes, latents)
        variance : (nodes, latents), or (latents, nodes, nodes)
        """
        graph, nodes = self._asked(X, nodes)
        if cov:
            mean, covariance = self._joint(graph, nodes)
            return mean.numpy(), covariance.numpy()
        marginals = self._marginals(graph, nodes)
        return marginals.mean.numpy(), marginals.var.numpy()

    def sample_latent(
        self, X: Any = None, nodes: Any = None, n_samples: int = 1, random_state: Any = None
    ) -> np.ndarray:
        """Draws of h from the joint posterior, shape (n_samples, nodes, latents)."""
        graph, nodes = self._asked(X, nodes)
        mean, covariance = self._joint(graph, nodes)
        return sample_joint(mean, covariance, n_samples, generator(random_state)).numpy()

    def _joint(self, graph: Graph, nodes: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        if len(nodes) ** 2 * self.posterior_.n_latents > _CROSS_BUDGET:
            raise ValueError(
                f"the joint covariance of {len(nodes)} nodes and {self.posterior_.n_latents} "
                "latents is too large to hold; pass nodes= to ask about fewer"
            )
        return self.posterior_.joint(self._bags(graph, nodes))

    def _asked(self, X: Any, nodes: Any) -> tuple[Graph, np.ndarray]:
        """The graph and node numbers that a prediction is about."""
        check_is_fitted(self, "posterior_")
        if X is None:
            if self.graph_ is None:
                raise ValueError(
                    "this model was saved without its graph; pass a Graph to predict on, or "
                    "save with include_graph=True"
                )
            return self.graph_, self.graph_.numbers(nodes)
        X = as_graph(X)
        if isinstance(X, Graph):
            return X, X.numbers(nodes)
        if not self.table_:
            raise TypeError(
                f"the model was fitted on a Graph; predict on a nodegp.Graph too, not on a "
                f"{type(X).__name__}"
            )
        raw = _table(validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False))
        rows = self.preprocessor_.rows_of(raw, raw.shape[0])
        known = self.graph_
        assert known is not None  # a table's rows are always kept
        graph = joined_graph(known, self._rows(known), raw, rows, self.n_neighbors)
        return graph, known.n_nodes + check_nodes(nodes, raw.shape[0])

    def _rows(self, graph: Graph) -> LazyRows:
        return self.preprocessor_.rows_of(graph.features, graph.n_nodes)

    def _bags(self, graph: Graph, nodes: np.ndarray) -> Bags:
        return self.filter_.bags(graph, self._rows(graph), nodes)

    def _planned(self, graph: Graph) -> tuple[Any, Filter]:
        """Kernel and filter to plan questions with."""
        return self.kernel_, self.filter_

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


def component(value: Any, names: dict[str, Any], default: Any, kind: type, what: str) -> Any:
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


def _table(raw: Any) -> Any:
    """A checked table as the features of a graph."""
    kind = raw.data.dtype if hasattr(raw, "indptr") else raw.dtype
    return raw if kind in (np.float32, np.float64) else raw.astype(np.float64)


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or "cpu")
    except RuntimeError as error:
        raise ValueError(f"device {name!r} is not one that torch knows: {error}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name!r} was asked for, but torch finds no CUDA here")
    return device


def torch_dtype(name: str | None) -> torch.dtype:
    dtypes = {None: torch.float64, "float64": torch.float64, "float32": torch.float32}
    if name not in dtypes:
        raise ValueError(f"dtype must be 'float64' or 'float32', got {name!r}")
    return dtypes[name]
