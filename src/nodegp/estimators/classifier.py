"""GraphGPClassifier: classes of nodes, behind scikit-learn's conventions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nodegp import inference
from nodegp.budget import blocks
from nodegp.component import as_component
from nodegp.disk import on_disk
from nodegp.estimators.base import GraphGP, fitted
from nodegp.estimators.conventions import labelled_accuracy
from nodegp.filters import Filter
from nodegp.graph import Graph
from nodegp.inducing import Inducing
from nodegp.interchange import as_frame, as_graph, prediction_table
from nodegp.likelihoods import Likelihood
from nodegp.model import FittedClassifier, Recipe, fit_classifier, paper_recipe
from nodegp.model.calibration import in_sets
from nodegp.model.classifier import array_entropy, select_classifier
from nodegp.model.recipe import DEFAULT, Kernels
from nodegp.model.views import candidates, prepare_views
from nodegp.model.weighing import Score
from nodegp.posterior import Marginals
from nodegp.preprocessing import Preprocessing
from nodegp.prior import Domain

__all__ = ["GraphGPClassifier"]


class GraphGPClassifier(ClassifierMixin, GraphGP):
    """Gaussian process classification of the nodes of a graph.

    The default model is a sum of Gaussian processes, one for each of several views of the graph;
    ``recipe="paper"`` is the model of Ng, Colombo and Silva (NeurIPS 2018).

    Parameters
    ----------
    recipe : "auto" (default), "paper" or a Recipe
        The parts of the model. "auto" sums several views of the graph (see docs/choices.md), with
        weights from how well each predicts left-out labels (``selection_``). "paper" is the
        published model: kernel ``(<x, x'> + offset)^3`` with the offset learnt (and the variance,
        if the likelihood depends on it), neighbourhood mean, TF-IDF, robust-max, no calibration.
    kernel : Kernel, optional
        Kernel on features; replaces the recipe's. For a sum of filters it may be a tuple with one
        kernel for each.
    filter : a name, or a Filter, optional
        Replaces the recipe's filter; views are then not compared, unless it is "auto". Names:
        "mean" (the paper's), "identity", "pagerank", "propagation", "laplacian", "diffusion",
        "walk", "cosine", "matern", "chebyshev".
    likelihood : "softmax", "robustmax", "bernoulli" (two classes), or a Likelihood, optional
        Replaces the recipe's: softmax, or robust-max for "paper".
    preprocessing : a kind (see Preprocessing) or a Preprocessing, optional
        Replaces the recipe's; a kind alone does not change whether features are centred. By
        default the square root of TF-IDF for sparse counts and square roots of other sparse
        non-negative features, both with rows of length one, and standardised columns for the
        rest; all centred. ``preprocessing_`` is the one that was used.
    inducing : "auto", "labelled", "points", or an Inducing
        "labelled" uses no sparse approximation; "points" scales to many labels; "auto" uses points
        above 1,000 labels.
    engine : "dual" (default), "adam" (the paper's), or an Engine
    calibrate : bool, optional
        Whether to fit a temperature, class frequencies and class factors to leave-one-out
        predictions; by default as in the recipe: yes, except for "paper". The temperature never
        changes the predicted class; ``class_weights_`` and ``class_factors_`` may, where two
        classes are close.
    unlabelled : default -1
        The value in y for nodes without a label; None and NaN have the same meaning.
    random_state : int, Generator or RandomState, optional
    verbose : int
        1 prints progress to standard error.

    Attributes
    ----------
    model_ : the fitted model itself, which is immutable
    recipe_ : the complete recipe, with learnt hyper-parameters
    kernel_, filter_, likelihood_ : parts of the recipe
    classes_, inducing_, preprocessing_, preprocessor_ : what was used
    prior_ : kernel and filter together, with learnt hyper-parameters
    posterior_ : the variational posterior q
    labelled_, labels_, label_confidence_ : numbers of the labelled nodes, labels, confidences
    label_weights_ : (labels, latents) weight of each label in the latent means, see ``explain``
    loo_proba_ : (labels, classes) leave-one-out probabilities, in the order of ``labelled_``; each
        label is left out together with one of each other class, and has no influence on the
        weights of the views and the temperature that are used for it
    sampling_weights_ : (labels,) how many nodes each label represents, one on average
    temperature_ : 1.0 unless calibrated; predictions are averaged over values around it, as far
        as the labels leave it open
    class_weights_ : (classes,) frequency of a class among all nodes relative to that among the
        labels; ones unless calibrated
    class_factors_ : (classes,) above one for a class that leave-one-out predicts more rarely than
        it occurs among the labels, below one for the opposite; ones unless calibrated
    selection_ : name, weight and log loss of each view of the graph; empty if none were compared
    elbo_, n_iter_, converged_, jitter_ : diagnostics of the fit
    elbo_trace_ : the objective at each step: the ELBO, plus the log prior of the hyper-parameters
        where they have one

    Examples
    --------
    >>> import nodegp
    >>> data = nodegp.load_dataset("cora")
    >>> model = nodegp.GraphGPClassifier().fit(data.graph, data.labels("train"))
    >>> model.predict_proba(data.graph, nodes=[0, 1]).shape
    (2, 7)
    >>> model.score(data.graph, data.labels("test")) > 0.8
    True
    """

    model_: FittedClassifier

    classes_ = fitted(lambda model: model.classes)
    loo_proba_ = fitted(lambda model: model.loo_proba)
    sampling_weights_ = fitted(lambda model: model.sampling_weights)
    temperature_ = fitted(lambda model: model.temperature)
    class_weights_ = fitted(lambda model: model.class_weights)
    class_factors_ = fitted(lambda model: model.class_factors)

    @property
    def selection_(self) -> list[Score]:
        check_is_fitted(self, "model_")
        return list(self.model_.selection)

    def __init__(
        self,
        recipe: Recipe | str = "auto",
        kernel: Kernels | None = None,
        filter: Filter | str | None = None,
        likelihood: Likelihood | str | None = None,
        preprocessing: Preprocessing | str | None = None,
        inducing: Inducing | str = "auto",
        engine: inference.Engine | str = "dual",
        calibrate: bool | None = None,
        unlabelled: Any = -1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.recipe = recipe
        self.kernel = kernel
        self.filter = filter
        self.likelihood = likelihood
        self.preprocessing = preprocessing
        self.inducing = inducing
        self.engine = engine
        self.calibrate = calibrate
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, label_confidence: Any = None, classes: Any = None
    ) -> Self:
        """Fit to a graph with labels for some of its nodes.

        Parameters
        ----------
        X : Graph, networkx graph, PyTorch Geometric Data, or a feature matrix
            From a feature matrix a nearest-neighbour graph is built.
        y : one entry per node
            Class labels: whole numbers, strings or booleans; ``unlabelled``, None, NaN or an empty
            string for nodes without a label. Or a dict id -> label (node number -> label if the
            Graph has no ids), or on a networkx graph the name of a node attribute. For a Data it
            may be left out: then it is ``data.y`` at the nodes of ``train_mask``, or at all nodes
            if there is no mask.
        label_confidence : one entry per node, optional
            The probability that the label is right, in (0, 1]; entries of unlabelled nodes
            are ignored.
        classes : sequence, optional
            All classes, if some have no label yet.
        """
        recipe, is_open = self.parts()
        start = self._start(X, y, label_confidence, recipe)
        fit = select_classifier if is_open else fit_classifier
        with self._watched():
            model = fit(
                start.domain, start.observations, recipe, self._settings(), classes, self._report
            )
        self._finish(model, start)
        if len(model.classes) == 1:
            warnings.warn(
                f"every label is {model.classes.tolist()[0]!r}, so that is predicted for every "
                "node; label nodes of other classes too, or say which there are with classes=",
                stacklevel=2,
            )
        return self

    def prepare(self, graph: Graph, labels_per_class: float = 20.0) -> Self:
        """Do what fits on this graph need and no label has a say in: find nodes that are alike,
        and work out lengths of filtered features. It is kept with the graph. Without it the first
        fit does it, which takes seconds with thousands of nodes; with it, a person who waits for a
        first answer does not wait for that.

        ``labels_per_class`` is how many there will be, about: the default reaches further with few.
        """
        if not isinstance(graph, Graph):
            raise TypeError(
                f"prepare takes a nodegp.Graph, with which what it finds is kept; got "
                f"{type(graph).__name__}. Make one first, and fit on the same"
            )
        if not labels_per_class > 0:
            raise ValueError(f"labels_per_class must be positive, got {labels_per_class!r}")
        recipe, is_open = self.parts()
        domain = Domain(graph, recipe.preprocessing.fit_graph(graph))
        if is_open:
            prepare_views(domain, candidates(domain, labels_per_class))
        else:
            recipe.complete(graph).prior(domain).prepare(domain)
        return self

    def parts(self) -> tuple[Recipe, bool]:
        """What the model is to be made of, and whether its filter is to be chosen among several."""
        if self.calibrate not in (None, True, False):
            raise ValueError(f"calibrate must be True, False or None, got {self.calibrate!r}")
        if isinstance(self.recipe, Recipe):
            recipe = self.recipe
        elif self.recipe == "auto":
            # A kernel of ours starts where it should be; few labels would send it anywhere.
            recipe = DEFAULT if self.kernel is None else replace(DEFAULT, hyperprior_std=None)
        elif self.recipe == "paper":
            likelihood = self.likelihood
            if likelihood is not None:
                likelihood = as_component(likelihood, Likelihood, "likelihood")
            recipe = paper_recipe(likelihood)
        else:
            raise ValueError(
                f"recipe must be 'auto', 'paper' or a Recipe object, got {self.recipe!r}"
            )
        is_open = self.filter == "auto" or (self.recipe == "auto" and self.filter is None)
        recipe = self._with_parts(recipe, None if is_open else self.filter)
        if self.calibrate is not None:
            recipe = replace(recipe, calibrate=self.calibrate)
        if not recipe.likelihood.classifies:
            raise ValueError(
                f"likelihood {recipe.likelihood!r} is for regression: use GraphGPRegressor"
            )
        if is_open and isinstance(recipe.kernel, tuple):
            raise ValueError("several kernels go with a sum of filters; name the filter")
        return recipe, is_open

    def predict_proba(self, X: Any = None, nodes: Any = None) -> np.ndarray:
        """Class probabilities, shape (nodes, classes), in the order of ``classes_``.

        ``X`` and ``nodes`` as in :meth:`predict_latent`.
        """
        domain, nodes = self._asked(X, nodes)
        with self._watched():
            return self.model_.predict_proba(domain, nodes)

    def predict_set(self, X: Any = None, nodes: Any = None, coverage: float = 0.9) -> np.ndarray:
        """Prediction sets: a mask of shape (nodes, classes).

        A set contains the most probable class, and every class whose probability reaches a
        threshold. The threshold comes from the leave-one-out predictions, so that a share of about
        ``coverage`` of the sets contain the true class. With fewer than
        ``1 / (1 - coverage) - 1`` labels, sets contain all classes.
        """
        check_is_fitted(self, "model_")
        threshold = self.model_.set_threshold(coverage)
        return in_sets(self.predict_proba(X, nodes), threshold)

    def predict_information(
        self, X: Any = None, nodes: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Total uncertainty of each node, and its epistemic part, in nats.

        Returns
        -------
        entropy : (nodes,) of the class probabilities
        information : (nodes,)
            The mutual information of label and latent values (epistemic uncertainty), which more
            labels could remove; the rest of the entropy (aleatoric uncertainty) would remain if
            the latent values were known. Under robust-max the rest is a constant, so both rank the
            nodes alike; softmax separates them.

        With a temperature, the entropy is split in the same proportion as without it.
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
        proba: np.ndarray = self.likelihood_.class_probabilities(draws.double()).numpy()
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
            Adds a column ``set`` with the classes of :meth:`predict_set`, most probable first.
        abstain_below : float, optional
            No label where the most probable class has a lower probability than this.
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
        """The table of :meth:`predict_frame` in chunks of rows, to write a large one."""
        X = on_disk(as_graph(X))
        domain, nodes = self._asked(X, nodes)
        graph, model = domain.graph, self.model_
        ids = nodes if graph.ids is None else graph.ids[nodes]
        if X is not None and graph is not X:  # a table, whose rows stand after those fitted on
            ids = nodes - (graph.n_nodes - np.shape(X)[0])
        threshold = None if coverage is None else model.set_threshold(coverage)
        with self._watched():
            marginals = model.marginals(domain, nodes)
        for block in blocks(max(len(nodes), 1), 1, rows):
            proba, information = model.predictive(Marginals(*(part[block] for part in marginals)))
            yield prediction_table(
                ids[block],
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
