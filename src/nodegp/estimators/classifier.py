"""GraphGPClassifier: classes of nodes, behind scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nodegp import inference
from nodegp.calibration import fit_temperature, set_threshold, tempered
from nodegp.estimators.base import GraphGP, component
from nodegp.estimators.conventions import all_or_nothing, labelled_accuracy
from nodegp.filters import Filter
from nodegp.graph import Graph
from nodegp.inducing import Inducing
from nodegp.interchange import as_frame, as_graph, prediction_table
from nodegp.kernels import Kernel, Polynomial
from nodegp.labels import check_confidence, encode, merged_classes, require_classes
from nodegp.likelihoods import Bernoulli, Likelihood, RobustMax, Softmax, entropy
from nodegp.linalg import threads_for
from nodegp.posterior import Marginals, leave_one_out

LIKELIHOODS = {"robustmax": RobustMax, "softmax": Softmax, "bernoulli": Bernoulli}


class GraphGPClassifier(ClassifierMixin, GraphGP):
    """Bayesian classification of the nodes of a graph (Ng, Colombo & Silva 2018).

    Parameters
    ----------
    kernel : Kernel, optional
        Base kernel on features; by default the paper's ``(<x, x'> + offset)^3`` with the
        offset learnt (and a learnt variance where the likelihood can tell: softmax, bernoulli).
    filter : "mean" (the paper's neighbourhood mean, the default), or another by name
        "identity", "pagerank", "propagation", "laplacian", "diffusion", "walk", "cosine", "matern",
        "chebyshev", or a Filter of :mod:`nodegp.filters`.
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
    labelled_, labels_, label_confidence_ : the labelled nodes' numbers and what was said of them
    label_weights_ : (labels, latents) what each label adds to the latent means, see ``explain``
    loo_proba_ : (labels, classes) leave-one-out probabilities, in the order of ``labelled_``
    temperature_ : 1.0 unless calibrated
    elbo_, elbo_trace_, n_iter_, converged_, jitter_ : how the fit went
    """

    classes_: np.ndarray

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
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, *, label_confidence: Any = None, classes: Any = None
    ) -> Self:
        """Fit to a graph whose nodes are partly labelled.

        Parameters
        ----------
        X : Graph, networkx graph, PyTorch Geometric Data, or a feature matrix
            From a feature matrix a nearest-neighbour graph is built.
        y : one entry per node
            Class labels, numbers or strings; ``unlabelled``, None or NaN where there is none. On a
            networkx graph also the name of a node attribute, or a dict node -> label. A Data has
            its own: ``data.y`` at the nodes of its ``train_mask``, or at all if it has none.
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
        confidence = check_confidence(label_confidence, graph.n_nodes, labelled)
        self._learn(graph, labelled, y[labelled], confidence, classes)
        return self

    def _learn(
        self,
        graph: Graph,
        labelled: np.ndarray,
        labels: np.ndarray,
        confidence: np.ndarray,
        classes: Any = None,
        warm: bool = False,
    ) -> None:
        earlier = None
        if warm:
            classes = merged_classes(self.classes_, labels)
            earlier = inference.Warm(None, None)  # of other latents, should there be a new class
            if len(classes) == len(self.classes_):
                earlier = self._warm(graph, labelled)
            kernel, likelihood = self.kernel_, self.likelihood_
        else:
            likelihood = component(
                self.likelihood, LIKELIHOODS, RobustMax, Likelihood, "likelihood"
            )
            if not likelihood.classifies:
                raise ValueError(
                    f"likelihood {likelihood!r} is for regression: use GraphGPRegressor"
                )
            kernel = self.kernel or _default_kernel(likelihood)
        require_classes(labels)
        self.classes_, targets = encode(labels, classes)
        self.labels_ = self.classes_[targets]
        n_classes = len(self.classes_)
        # Less than an even chance would be evidence for the other classes; it says nothing.
        confidence = np.maximum(confidence, 1.0 / max(n_classes, 2))
        with threads_for(len(labelled)):
            fit = self._fit_posterior(
                graph,
                labelled,
                targets.astype(np.int64),
                confidence,
                kernel,
                likelihood,
                likelihood.n_latents(n_classes),
                earlier,
            )
            without = leave_one_out(fit.labels, fit.explained, fit.kept, fit.alpha)
            plain = self._probabilities(without)
        automatic = self.calibrate == "auto" and self.preset is None
        calibrated = self.calibrate == "loo" or automatic
        self.temperature_ = fit_temperature(plain, targets, confidence) if calibrated else 1.0
        self.loo_proba_ = tempered(plain, self.temperature_)

    def predict_proba(self, X: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities, shape (nodes, classes), in the order of ``classes_``.

        ``X`` and ``nodes`` as in :meth:`predict_latent`.
        """
        graph, nodes = self._asked(X, nodes)
        with self._threads(nodes):
            blocks = [self._probabilities(m) for m in self._marginal_blocks(graph, nodes)]
        return tempered(np.concatenate(blocks), self.temperature_)

    def predict_set(self, X: Any = None, nodes: Any = None, coverage: float = 0.9) -> np.ndarray:
        """The classes that each node may have, as a mask of shape (nodes, classes).

        The likeliest class, and every other that is likely enough: how likely that is follows from
        the leave-one-out predictions, so that about a share ``coverage`` of the sets hold the true
        class. With fewer than ``1 / (1 - coverage)`` labels all classes are in.
        """
        y = np.searchsorted(self.classes_, self.labels_)
        threshold = set_threshold(self.loo_proba_, y, coverage)
        proba = self.predict_proba(X, nodes)
        return (proba >= threshold) | (proba >= proba.max(axis=1, keepdims=True))

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
        graph, nodes = self._asked(X, nodes)
        with self._threads(nodes):
            blocks = [self._predictive(m) for m in self._marginal_blocks(graph, nodes)]
        proba, information = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return _entropy(proba), information

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

    def predict_frame(self, X: Any = None, nodes: Any = None, kind: str = "pyarrow") -> Any:
        """Predictions as a table with a row per node: id, label, its probability, a column
        ``p(<class>)`` for each class, and ``entropy`` and ``information`` as in
        :meth:`predict_information`.

        ``X`` and ``nodes`` as in :meth:`predict_latent`; ``kind`` is "pyarrow", "pandas" or
        "polars". Without ids in the graph, the id is the node's number.
        """
        import pyarrow

        return as_frame(pyarrow.concat_tables(self.predict_frames(X, nodes)), kind)

    def predict_frames(self, X: Any = None, nodes: Any = None, rows: int = 50_000) -> Iterator[Any]:
        """The table of :meth:`predict_frame` in pieces of so many rows, to write a large one."""
        X = as_graph(X)
        graph, nodes = self._asked(X, nodes)
        ids = nodes if graph.ids is None else graph.ids[nodes]
        if X is not None and graph is not X:  # a table, whose rows stand after those fitted on
            ids = nodes - (graph.n_nodes - np.shape(X)[0])
        for start in range(0, max(len(nodes), 1), rows):
            some = slice(start, start + rows)
            with self._threads(nodes[some]):
                proba, information = self._predictive(self._marginals(graph, nodes[some]))
            extra = {"information": information}
            yield prediction_table(ids[some], self.classes_, proba, extra)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the nodes that have a label in ``y``."""
        check_is_fitted(self, "posterior_")
        return labelled_accuracy(self, X, y, sample_weight)

    def _probabilities(self, marginals: Marginals) -> np.ndarray:
        """Class probabilities without a temperature."""
        if len(self.classes_) == 1:
            return np.ones((len(marginals.mean), 1))
        return self._by_node(self.likelihood_.predict, marginals)

    def _predictive(self, marginals: Marginals) -> tuple[np.ndarray, np.ndarray]:
        """Class probabilities, and how much of their entropy more labels could resolve."""
        plain = self._probabilities(marginals)
        proba = tempered(plain, self.temperature_)
        if len(self.classes_) == 1:
            return proba, np.zeros(len(proba))
        left = self._by_node(self.likelihood_.expected_entropy, marginals)
        share = 1.0 - left / np.maximum(_entropy(plain), 1e-300)
        return proba, np.clip(share, 0.0, 1.0) * _entropy(proba)

    def _by_node(self, function: Any, marginals: Marginals) -> np.ndarray:
        """A function of means and variances, a bounded number of nodes at a time."""
        step = max((1 << 22) // (20 * marginals.mean.shape[1] ** 2), 1)
        blocks = zip(*(part.split(step) for part in marginals), strict=True)
        with torch.no_grad():
            parts = [function(mean.double(), var.double()) for mean, var in blocks]
        result: np.ndarray = torch.cat(parts).numpy()
        return result


def _entropy(proba: np.ndarray) -> np.ndarray:
    result: np.ndarray = entropy(torch.from_numpy(proba)).numpy()
    return result


def _default_kernel(likelihood: Likelihood) -> Kernel:
    # A likelihood that only compares latents cannot tell their common scale.
    fixed = ("variance",) if likelihood.scale_invariant else ()
    return Polynomial(3, 1.0, 5.0, fixed=fixed)
