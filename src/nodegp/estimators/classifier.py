"""GraphGPClassifier: classes of nodes, behind scikit-learn's conventions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nodegp import inference
from nodegp.calibration import fit_temperature, tempered
from nodegp.estimators.base import GraphGP, all_or_nothing, component, labelled_accuracy
from nodegp.filters import Filter
from nodegp.inducing import Inducing
from nodegp.kernels import Kernel, Polynomial
from nodegp.labels import check_confidence, encode
from nodegp.likelihoods import Bernoulli, Likelihood, RobustMax, Softmax
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
        likelihood = component(self.likelihood, LIKELIHOODS, RobustMax, Likelihood, "likelihood")
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
            without = leave_one_out(fit.labels, fit.explained, fit.kept, fit.alpha)
            plain = self._probabilities(without)
        automatic = self.calibrate == "auto" and self.preset is None
        calibrated = self.calibrate == "loo" or automatic
        self.temperature_ = fit_temperature(plain, targets, confidence) if calibrated else 1.0
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
        return labelled_accuracy(self, X, y, sample_weight)

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


def _default_kernel(likelihood: Likelihood) -> Kernel:
    # A likelihood that only compares latents cannot tell their common scale.
    fixed = ("variance",) if likelihood.scale_invariant else ()
    return Polynomial(3, 1.0, 5.0, fixed=fixed)
