"""GraphGPClassifier: classes of nodes, behind scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nodegp import inference
from nodegp.estimators.base import FILTERS, GraphGP, component, fitted
from nodegp.estimators.conventions import labelled_accuracy
from nodegp.features import kind_for
from nodegp.filters import Filter, NeighbourMean
from nodegp.inducing import Inducing
from nodegp.interchange import as_frame, as_graph, prediction_table
from nodegp.kernels import Kernel, Polynomial
from nodegp.likelihoods import Bernoulli, Likelihood, RobustMax, Softmax
from nodegp.model import FittedClassifier, fit_classifier
from nodegp.model.calibration import in_sets
from nodegp.model.classifier import array_entropy
from nodegp.model.recipes import Score, default_kernel
from nodegp.model.selection import select_classifier
from nodegp.posterior import Marginals
from nodegp.prior import make_prior

__all__ = ["LIKELIHOODS", "GraphGPClassifier"]

LIKELIHOODS = {"robustmax": RobustMax, "softmax": Softmax, "bernoulli": Bernoulli}


class GraphGPClassifier(ClassifierMixin, GraphGP):
    """Bayesian classification of the nodes of a graph (Ng, Colombo & Silva 2018).

    Parameters
    ----------
    kernel : Kernel, optional
        Base kernel on features; by default linear on rows of length one, and a bias. For a sum of
        filters, also a tuple with one for each.
    filter : "auto" (default), a name, or a Filter of :mod:`nodegp.filters`
        "auto" compares a short list (see docs/choices.md) by leave-one-out predictions, and keeps
        the scores in ``selection_``. Names: "mean" (the paper's), "identity", "pagerank",
        "propagation", "laplacian", "diffusion", "walk", "cosine", "matern", "chebyshev".
    likelihood : "softmax" (default), "robustmax", "bernoulli" (two classes), or a Likelihood
    features : "auto", "damped", "tfidf", "root", "l2", "standardise" or "raw"
        Preprocessing; "auto" takes the square root of TF-IDF for sparse counts ("damped"), square
        roots of other sparse non-negative features, and standardises the rest. Rows of roots have
        length one. If preset is "paper" there are no roots: "tfidf" and "l2". ``features_`` says
        which was taken.
    center : bool, optional
        Also subtract the mean row, as is done unless preset is "paper". Sparse features stay
        sparse.
    inducing : "auto", "labelled", "points", or an Inducing
        "labelled" has no sparse approximation; "points" scales to many labels.
    n_inducing : int, optional
        How many points.
    engine : "dual" (default), "adam" (the paper's), or an Engine
    calibrate : "auto", "loo" or None
        "loo" fits a temperature on leave-one-out predictions; "auto" does, unless preset is
        "paper". It never changes which class is likeliest.
    preset : None or "paper"
        "paper" is the paper's model for whatever is not given: ``(<x, x'> + offset)^3`` with the
        offset learnt (and a variance, where the likelihood can tell), neighbourhood mean,
        robust-max, no calibration. The engine is its own choice.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    n_neighbors : int
        For plain tables: neighbours in the graph that is built.
    max_iter, tol : optional
        Passed to the engine in place of its own.
    dtype : optional
        The precision of the linear algebra of a fit; "float64".
    random_state : int, Generator or RandomState, optional
    verbose : int
        1 prints progress to standard error.

    Attributes
    ----------
    model_ : the fitted model itself, a value that never changes
    classes_, kernel_, filter_, likelihood_, inducing_, features_, preprocessor_ : what was used
    prior_ : kernel and filter together, with what was learnt
    posterior_ : q and what it needs
    labelled_, labels_, label_confidence_ : the labelled nodes' numbers and what was said of them
    label_weights_ : (labels, latents) what each label adds to the latent means, see ``explain``
    loo_proba_ : (labels, classes) leave-one-out probabilities, in the order of ``labelled_``
    temperature_ : 1.0 unless calibrated
    selection_ : with filter "auto", how each recipe did; else empty
    elbo_, elbo_trace_, n_iter_, converged_, jitter_ : how the fit went
    """

    model_: FittedClassifier

    classes_ = fitted(lambda model: model.classes)
    loo_proba_ = fitted(lambda model: model.loo_proba)
    temperature_ = fitted(lambda model: model.temperature)

    @property
    def selection_(self) -> list[Score]:
        check_is_fitted(self, "model_")
        return list(self.model_.selection)

    def __init__(
        self,
        kernel: Kernel | tuple[Kernel, ...] | None = None,
        filter: Filter | str | None = None,
        likelihood: Likelihood | str | None = None,
        features: str = "auto",
        center: bool | None = None,
        inducing: Inducing | str = "auto",
        n_inducing: int | None = None,
        engine: inference.Engine | str = "dual",
        calibrate: str | None = "auto",
        preset: str | None = None,
        unlabelled: Any = -1,
        n_neighbors: int = 10,
        max_iter: int | None = None,
        tol: float | None = None,
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
        self.calibrate = calibrate
        self.preset = preset
        self.unlabelled = unlabelled
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, label_confidence: Any = None, classes: Any = None
    ) -> Self:
        """Fit to a graph whose nodes are partly labelled.

        Parameters
        ----------
        X : Graph, networkx graph, PyTorch Geometric Data, or a feature matrix
            From a feature matrix a nearest-neighbour graph is built.
        y : one entry per node
            Class labels, numbers or strings; ``unlabelled``, None or NaN where there is none. Or a
            dict id -> label (node number -> label if the Graph has no ids). On a networkx graph
            also the name of a node attribute. A Data has its own: ``data.y`` at the nodes of its
            ``train_mask``, or at all if it has none.
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
        start = self._start(X, y, label_confidence)
        likelihood = self._new_likelihood()
        kernel = self._new_kernel(likelihood)
        calibrate = self.calibrate == "loo" or (self.calibrate == "auto" and self.preset is None)
        settings = self._settings(likelihood, calibrate)
        domain, observations = start.domain, start.observations
        with self._watched():
            if self.filter == "auto" or (self.filter is None and self.preset is None):
                if isinstance(kernel, tuple):
                    raise ValueError("several kernels go with a sum of filters; name the filter")
                model = select_classifier(
                    domain, observations, kernel, settings, classes, self._report
                )
            else:
                kind = component(self.filter, FILTERS, NeighbourMean, Filter, "filter")
                kernel = kernel or default_kernel(kind, domain.graph, learnt=True)
                prior = make_prior(kind, kernel, domain)
                model = fit_classifier(
                    domain, observations, kind, prior, settings, classes, self._report
                )
        return self._finish(model, start)

    def _new_likelihood(self) -> Likelihood:
        usual = Softmax if self.preset is None else RobustMax
        likelihood = component(self.likelihood, LIKELIHOODS, usual, Likelihood, "likelihood")
        if not likelihood.classifies:
            raise ValueError(f"likelihood {likelihood!r} is for regression: use GraphGPRegressor")
        return likelihood

    def _new_kernel(self, likelihood: Likelihood) -> Kernel | tuple[Kernel, ...] | None:
        if self.kernel is not None or self.preset is None:
            return self.kernel
        # A likelihood that only compares latents cannot tell their common scale.
        fixed = ("variance",) if likelihood.scale_invariant else ()
        return Polynomial(3, 1.0, 5.0, fixed=fixed)

    def _kind(self, raw: Any) -> str:
        if self.features != "auto" or raw is None:
            return self.features
        kind = kind_for(raw)
        return ({"l2": "root"} if self.preset is None else {"damped": "tfidf"}).get(kind, kind)

    def _centred(self) -> bool:
        return self.preset is None if self.center is None else bool(self.center)

    def _engine(self) -> inference.Engine:
        engine = super()._engine()
        if isinstance(engine, inference.Dual) and self.engine == "dual":
            # Our own kernel starts where it should be; few labels would send it anywhere.
            own = self.preset is None and self.kernel is None
            return replace(engine, prior=1.0 if own else None)
        return engine

    def predict_proba(self, X: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities, shape (nodes, classes), in the order of ``classes_``.

        ``X`` and ``nodes`` as in :meth:`predict_latent`.
        """
        domain, nodes = self._asked(X, nodes)
        with self._watched():
            return self.model_.predict_proba(domain, nodes)

    def predict_set(self, X: Any = None, nodes: Any = None, coverage: float = 0.9) -> np.ndarray:
        """The classes that each node may have, as a mask of shape (nodes, classes).

        The likeliest class, and every other that is likely enough: how likely that is follows from
        the leave-one-out predictions, so that about a share ``coverage`` of the sets hold the true
        class. With fewer than ``1 / (1 - coverage) - 1`` labels all classes are in.
        """
        check_is_fitted(self, "model_")
        threshold = self.model_.set_threshold(coverage)
        return in_sets(self.predict_proba(X, nodes), threshold)

    def predict_information(
        self, X: Any = None, nodes: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """How doubtful each node is, and how much of that more labels could resolve, in nats.

        Returns
        -------
        entropy : (nodes,) of the class probabilities
        information : (nodes,)
            The part of it that is mutual information of label and latent values; the rest would
            stay if the latent values were known. Under robust-max all doubt but a constant is of
            the first kind, so this orders nodes as the entropy does; softmax tells them apart.

        A temperature flattens or sharpens the probabilities; the split is then in the proportion
        that it has without one.
        """
        domain, nodes = self._asked(X, nodes)
        with self._watched():
            proba, information = self.model_.predictive(self.model_.marginals(domain, nodes))
        return array_entropy(proba), information

    def sample_proba(
        self, X: Any = None, nodes: Any = None, n_samples: int = 1, random_state: Any = None
    ) -> np.ndarray:
        """Class probabilities given joint draws of the latent values, (n_samples, nodes, classes).

        Their mean over many draws is :meth:`predict_proba` without a temperature.
        """
        draws = torch.from_numpy(self.sample_latent(X, nodes, n_samples, random_state))
        proba: np.ndarray = self.likelihood_.given(draws.double()).numpy()
        return proba[..., : len(self.classes_)]

    def predict(self, X: Any = None, nodes: Any = None) -> np.ndarray:
        """The most probable class of each node."""
        proba = self.predict_proba(X, nodes)
        return self.classes_[proba.argmax(axis=1)]

    def predict_frame(
        self,
        X: Any = None,
        nodes: Any = None,
        kind: str = "pyarrow",
        *,
        coverage: float | None = None,
        abstain_below: float | None = None,
    ) -> Any:
        """Predictions as a table with a row per node: id, label, its probability, a column
        ``p(<class>)`` for each class, and ``entropy`` and ``information`` as in
        :meth:`predict_information`. Without ids in the graph, the id is the node's number.

        Parameters
        ----------
        X, nodes : as in :meth:`predict_latent`
        kind : "pyarrow", "pandas" or "polars"
        coverage : float, optional
            Adds a column ``set`` with the classes of :meth:`predict_set`, the likeliest first.
        abstain_below : float, optional
            No label where the likeliest class has less than this probability.
        """
        import pyarrow

        pieces = self.predict_frames(X, nodes, coverage=coverage, abstain_below=abstain_below)
        return as_frame(pyarrow.concat_tables(pieces), kind)

    def predict_frames(
        self,
        X: Any = None,
        nodes: Any = None,
        rows: int = 50_000,
        *,
        coverage: float | None = None,
        abstain_below: float | None = None,
    ) -> Iterator[Any]:
        """The table of :meth:`predict_frame` in pieces of so many rows, to write a large one."""
        X = as_graph(X)
        domain, nodes = self._asked(X, nodes)
        graph, model = domain.graph, self.model_
        ids = nodes if graph.ids is None else graph.ids[nodes]
        if X is not None and graph is not X:  # a table, whose rows stand after those fitted on
            ids = nodes - (graph.n_nodes - np.shape(X)[0])
        threshold = None if coverage is None else model.set_threshold(coverage)
        with self._watched():
            marginals = model.marginals(domain, nodes)
        for start in range(0, max(len(nodes), 1), rows):
            some = slice(start, start + rows)
            proba, information = model.predictive(Marginals(*(part[some] for part in marginals)))
            yield prediction_table(
                ids[some],
                model.classes,
                proba,
                {"information": information},
                sets=None if threshold is None else in_sets(proba, threshold),
                abstain_below=abstain_below,
            )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the nodes that have a label in ``y``."""
        check_is_fitted(self, "model_")
        return labelled_accuracy(self, X, y, sample_weight)
