"""Stacked graph GPs as an estimator; the maths is in :mod:`nodegp_paper.stacked.layers`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from copy import copy
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nodegp.component import as_component
from nodegp.filters import Filter, PageRank
from nodegp.graph import Graph
from nodegp.interchange import node_labels
from nodegp.kernels import Kernel
from nodegp.likelihoods import Likelihood, Softmax
from nodegp.linalg import threads_for
from nodegp.posterior import Marginals
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain
from nodegp.seeds import generator
from nodegp_paper.estimator import NodeClassifier
from nodegp_paper.stacked.layers import draws, elbo
from nodegp_paper.stacked.spread import Spread
from nodegp_paper.stacked.start import default_kernels, layers_at_their_priors
from nodegp_paper.tensors import torch_generator

__all__ = ["StackedGraphGPClassifier"]

_REPORT_EVERY = 20
_BLOCK = 2000  # nodes at a time whose probabilities are worked out


class StackedGraphGPClassifier(NodeClassifier):
    """Layers of graph GPs for the classes of nodes: ``h_l = f_l(F h_{l-1})``. Experimental.

    Fitted by doubly stochastic variational inference (Salimbeni & Deisenroth 2017), with all nodes
    in every step.

    Parameters
    ----------
    n_layers : int
        Two or three; one is a graph GP with the filter on its features.
    width : int
        Functions in each layer but the last, and so the dimension of hidden values.
    kernel : Kernel, or one for each layer, optional
        By default linear in the first of several layers and RBF above.
    filter : Filter or its name, or one for each layer
        Applied to the inputs of a layer; its hyper-parameters stay as they are given.
    likelihood : "softmax" (default), "robustmax", "bernoulli" (two classes), or a Likelihood
    preprocessing, center : as in :class:`nodegp.Preprocessing`
    n_inducing : int
        Inducing points of each layer. All start from k-means; those of the first layer, which
        are as wide as the features, stay there.
    n_samples : int
        Draws of hidden values for each step.
    n_predictive : int
        Draws of hidden values that a prediction is the mean over.
    max_iter : int
        Steps of Adam.
    learning_rate : float
        Over the last half of the steps it falls to zero.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : int, Generator or RandomState, optional
    verbose : int
        1 prints progress to standard error.

    Attributes
    ----------
    classes_, kernels_, filters_, likelihood_, preprocessing_, preprocessor_ : what was used
    labelled_ : numbers of the labelled nodes
    graph_ : the graph fitted on
    layers_ : with the inducing points and q of each
    elbo_ : the bound at the end, from ``n_predictive`` draws
    elbo_trace_ : its estimates on the way, each the mean over 20 steps
    n_iter_ : steps taken
    """

    def __init__(
        self,
        n_layers: int = 2,
        width: int = 16,
        kernel: Kernel | Sequence[Kernel] | None = None,
        filter: Filter | str | Sequence[Filter | str] = "pagerank",
        likelihood: Likelihood | str | None = None,
        preprocessing: str = "auto",
        center: bool = False,
        n_inducing: int = 100,
        n_samples: int = 1,
        n_predictive: int = 20,
        max_iter: int = 300,
        learning_rate: float = 0.02,
        unlabelled: Any = -1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_layers = n_layers
        self.width = width
        self.kernel = kernel
        self.filter = filter
        self.likelihood = likelihood
        self.preprocessing = preprocessing
        self.center = center
        self.n_inducing = n_inducing
        self.n_samples = n_samples
        self.n_predictive = n_predictive
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.verbose = verbose

    # --- fitting ----------------------------------------------------------------------------

    def fit(self, graph: Any, y: Any = None, *, classes: Any = None) -> Self:
        """Fit to a graph whose nodes are partly labelled.

        Parameters
        ----------
        graph : Graph, networkx graph or PyTorch Geometric Data
        y : one entry per node
            As in :meth:`nodegp.GraphGPClassifier.fit`.
        classes : sequence, optional
            All classes there are, if some have no label yet.
        """
        learner = copy(self)
        learner._fit(graph, y, classes)
        self.__dict__.update(vars(learner))
        return self

    def _fit(self, graph: Any, y: Any, classes: Any) -> None:
        self._check_parameters()
        y = node_labels(graph, y)
        graph = self._checked_graph(graph)
        self.labelled_, positions = self._learn_classes(y, graph, classes)
        targets = torch.from_numpy(positions.astype(np.int64))
        self.likelihood_ = as_component(self.likelihood or Softmax(), Likelihood, "likelihood")
        if not self.likelihood_.classifies:
            raise ValueError(f"likelihood {self.likelihood_!r} is for regression, not for classes")
        self.filters_ = [
            as_component(f or PageRank(), Filter, "filter") for f in self._each(self.filter)
        ]
        self.preprocessor_ = Preprocessor.fit(
            graph.features, self.preprocessing, self.center, graph.n_nodes
        )
        self.preprocessing_ = self.preprocessor_.kind
        rng = generator(self.random_state)
        with threads_for(self.n_inducing):
            inputs, spreads = self._inputs(graph)
            self.layers_ = layers_at_their_priors(
                self._kernels(),
                inputs,
                spreads,
                self.width,
                self.likelihood_.n_latents(len(self.classes_)),
                self.n_inducing,
                rng,
            )
            self.prediction_seed_ = int(rng.integers(2**31 - 1))
            self._optimise(inputs, spreads, targets, torch_generator(rng))
        self.kernels_ = [
            layer.with_values(layer.log_parameters.exp().tolist()) for layer in self.layers_
        ]
        self.graph_ = graph

    def _optimise(
        self, inputs: Tensor, spreads: Sequence[Spread], targets: Tensor, noise: torch.Generator
    ) -> None:
        nodes = torch.from_numpy(self.labelled_)
        with torch.no_grad():  # the first layer's inputs and points never change
            first = self.layers_[0].see(inputs if spreads else inputs[nodes])
        variables = [variable for layer in self.layers_ for variable in layer.parameters()]
        optimiser = torch.optim.Adam(variables, lr=self.learning_rate)
        falling = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min(1.0, 2.0 * (1.0 - step / self.max_iter))
        )
        trace, recent = [], []
        for step in range(1, self.max_iter + 1):
            optimiser.zero_grad()
            drawn = draws(self.layers_, first, spreads, nodes, self.n_samples, noise)
            bound = elbo(self.layers_, self.likelihood_, targets, drawn)
            (-bound).backward()
            optimiser.step()
            falling.step()
            recent.append(float(bound.detach()))
            if step % _REPORT_EVERY == 0 or step == self.max_iter:
                trace.append(float(np.mean(recent)))
                recent = []
                if self.verbose:
                    print(f"step {step}  elbo {trace[-1]:.4f}", file=sys.stderr, flush=True)
        with torch.no_grad():
            drawn = self._draws(inputs, spreads, nodes)
            self.elbo_ = float(elbo(self.layers_, self.likelihood_, targets, drawn))
        if not np.isfinite(self.elbo_):
            raise ValueError("the fit diverged: its bound is not finite. Lower the learning_rate")
        self.elbo_trace_, self.n_iter_ = np.array(trace), self.max_iter

    def _check_parameters(self) -> None:
        for name in ("n_layers", "width", "n_inducing", "n_samples", "n_predictive", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if not isinstance(self.learning_rate, Real) or not 0 < self.learning_rate < np.inf:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate!r}")

    def _kernels(self) -> Sequence[Kernel]:
        if self.kernel is None:
            return default_kernels(self.n_layers)
        kernels = self._each(self.kernel)
        for kernel in kernels:
            if not isinstance(kernel, Kernel):
                raise ValueError(f"kernel must be a Kernel or one for each layer, got {kernel!r}")
        return kernels

    def _each(self, value: Any) -> list[Any]:
        """A setting for every layer, from one for all of them or one for each."""
        if not isinstance(value, list | tuple):
            return [value] * self.n_layers
        if len(value) != self.n_layers:
            raise ValueError(f"got {len(value)} settings for {self.n_layers} layers: {value!r}")
        return list(value)

    # --- predicting -------------------------------------------------------------------------

    @torch.no_grad()
    def predict_proba(self, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities, shape (nodes, classes), in the order of ``classes_``.

        The same question always gets the same answer: draws are made from one seed.

        Parameters
        ----------
        graph : as in :meth:`fit`, default the graph fitted on
            It may have nodes and edges that the model has not seen.
        nodes : node numbers, ids that are text, or a mask, optional
            Which nodes to answer for; all by default.
        """
        check_is_fitted(self)
        graph = self.graph_ if graph is None else self._checked_graph(graph)
        numbers = graph.numbers(nodes)
        if len(self.classes_) == 1 or not len(numbers):
            return np.ones((len(numbers), len(self.classes_)))
        with threads_for(self.n_inducing):
            inputs, spreads = self._inputs(graph)
            answers = [
                torch.cat([self.likelihood_.predict(*b) for b in _blocks(marginals)])
                for marginals in self._draws(inputs, spreads, torch.from_numpy(numbers))
            ]
        proba: np.ndarray = torch.stack(answers).mean(0).numpy()
        return proba

    def _inputs(self, graph: Graph) -> tuple[Tensor, list[Spread]]:
        """What goes into the first layer, and the filters of those above."""
        first, *above = [Spread(filter, graph) for filter in self.filters_]
        inputs = first.features(Domain(graph, self.preprocessor_))
        if inputs.shape[1] != self.preprocessor_.n_features:
            raise ValueError(
                f"the model was fitted on {self.preprocessor_.n_features} nodes without features, "
                f"and knows no others; this graph has {graph.n_nodes}"
            )
        return inputs, above

    def _draws(
        self, inputs: Tensor, spreads: Sequence[Spread], nodes: Tensor
    ) -> Iterator[Marginals]:
        first = self.layers_[0].see(inputs if spreads else inputs[nodes])
        noise = torch.Generator().manual_seed(self.prediction_seed_)
        return draws(self.layers_, first, spreads, nodes, self.n_predictive, noise)


def _blocks(marginals: Marginals) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(part.split(_BLOCK) for part in marginals), strict=True)
