"""GraphGPClassifier: classes of nodes, behind scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nodegp import inference
from nodegp.calibration import fit_temperature, in_sets, set_threshold, tempered
from nodegp.covariance import covariance
from nodegp.estimators.base import FILTERS, GraphGP, Parts, component
from nodegp.estimators.conventions import all_or_nothing, labelled_accuracy
from nodegp.estimators.recipes import (
    Recipe,
    Score,
    Trial,
    compare,
    recipes,
    squared_error,
    usual_kernel,
    with_many_labels,
)
from nodegp.features import kind_for
from nodegp.filters import Filter, NeighbourMean
from nodegp.graph import Graph
from nodegp.inducing import Inducing, Labelled, Points, choose
from nodegp.interchange import as_frame, as_graph, prediction_table
from nodegp.kernels import Kernel, Polynomial
from nodegp.labels import Given, encode, merged_classes, require_classes
from nodegp.likelihoods import Bernoulli, Likelihood, RobustMax, Softmax, entropy
from nodegp.linalg import threads_for
from nodegp.posterior import Marginals, leave_one_out
from nodegp.prior import prior_at

_FEWEST, _ENOUGH = 10, 200  # labels to choose a recipe by
_DRAWN = 1 << 19  # values that an expectation over latents makes at a time: what a cache holds
LIKELIHOODS = {"robustmax": RobustMax, "softmax": Softmax, "bernoulli": Bernoulli}


class GraphGPClassifier(ClassifierMixin, GraphGP):
    """Bayesian classification of the nodes of a graph (Ng, Colombo & Silva 2018).

    Parameters
    ----------
    kernel : Kernel, optional
        Base kernel on features; by default linear on rows of length one, and a bias.
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
    selection_ : with filter "auto", how each recipe did; else empty
    elbo_, elbo_trace_, n_iter_, converged_, jitter_ : how the fit went
    """

    classes_: np.ndarray
    selection_: list[Score]

    def __init__(
        self,
        kernel: Kernel | None = None,
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
        graph, given = self._start(X, y, label_confidence)
        likelihood = self._new_likelihood()
        self.selection_ = []
        if self.filter == "auto" or (self.filter is None and self.preset is None):
            self._select(graph, given, classes, likelihood)
        else:
            kind = component(self.filter, FILTERS, NeighbourMean, Filter, "filter")
            kernel = self._new_kernel(likelihood) or usual_kernel(kind, graph, learnt=True)
            self._learn(graph, given, Parts(kind, kernel, likelihood), classes)
        self._check_converged()
        return self

    def _new_likelihood(self) -> Likelihood:
        usual = Softmax if self.preset is None else RobustMax
        likelihood = component(self.likelihood, LIKELIHOODS, usual, Likelihood, "likelihood")
        if not likelihood.classifies:
            raise ValueError(f"likelihood {likelihood!r} is for regression: use GraphGPRegressor")
        return likelihood

    def _new_kernel(self, likelihood: Likelihood) -> Kernel | None:
        if self.kernel is not None or self.preset is None:
            return self.kernel
        # A likelihood that only compares latents cannot tell their common scale.
        fixed = ("variance",) if likelihood.scale_invariant else ()
        return Polynomial(3, 1.0, 5.0, fixed=fixed)

    def _select(self, graph: Graph, given: Given, classes: Any, likelihood: Likelihood) -> None:
        """Try the recipes on the labels, or on some if there are many, and take the best."""
        every, targets = encode(given.labels, classes)
        kernel, sums = self._new_kernel(likelihood), self._may_sum(len(targets))
        found = recipes(graph, self._rows(graph), len(targets) / len(every), kernel, sums)
        some = given
        if len(targets) > _ENOUGH:
            some = given.at(np.linspace(0, len(targets) - 1, _ENOUGH).astype(np.intp))
        if (np.bincount(targets)[targets] > 1).sum() < _FEWEST:
            found = found[:1]
        quick = isinstance(self._engine(), inference.Dual)

        def fitted(recipe: Recipe) -> GraphGPClassifier:
            model = copy(self)
            if not quick:
                model.set_params(engine="dual", max_iter=None, tol=None)
            model._learn(graph, some, Parts(recipe.filter, recipe.kernel, likelihood), every)
            return model

        first = fitted(found[0])
        errors = first._squared_errors(graph, found)
        models: list[GraphGPClassifier | None] = [first]
        for recipe, error in zip(found[1:], errors[1:], strict=True):
            is_worse = error is not None and errors[0] is not None and error >= errors[0]
            models.append(None if is_worse else fitted(recipe))
        self.selection_ = compare(
            found,
            [
                Trial(e, None, None) if m is None else Trial(e, m._label_scores(), m.elbo_)
                for e, m in zip(errors, models, strict=True)
            ],
        )
        best = next(j for j, score in enumerate(self.selection_) if score.chosen)
        for score in self.selection_:
            loss = "not known" if score.log_loss is None else f"{score.log_loss:.4f}"
            self._report(f"{score.name}: leave-one-out log loss {loss}")
        self._report(f"taken: {found[best].name}")
        taken = models[best]
        if quick and some is given and taken is not None:
            self.__dict__.update(taken.__dict__ | {"selection_": self.selection_})
        else:
            parts = Parts(found[best].filter, found[best].kernel, likelihood)
            self._learn(graph, given, parts, every)

    def _squared_errors(self, graph: Graph, found: list[Recipe]) -> list[float | None]:
        """Of least squares with the prior of each recipe, of which this model has the first: one
        that is behind there need not be tried. None where something is still to be learnt."""
        if len(found) == 1 or not isinstance(self.inducing_, Labelled):
            return [None] * len(found)
        y, rows = np.searchsorted(self.classes_, self.labels_), self._rows(graph)
        errors: list[float | None] = []
        for recipe in found:
            kernel, bags = self.posterior_.kernel, self.posterior_.inducing
            if errors:
                filter = recipe.filter.prepared(graph, rows)
                kernel, bags = prior_at(filter, recipe.kernel, graph, rows, self.labelled_)
            if kernel.free_parameters():
                errors.append(None)
                continue
            bags = bags.in_memory()
            with torch.no_grad():
                errors.append(squared_error(covariance(kernel, bags, bags), y))
        return errors

    def _may_sum(self, n_labels: int) -> bool:
        return not isinstance(choose(self.inducing, self.n_inducing, n_labels), Points)

    def _planned(self, graph: Graph) -> tuple[Any, Filter]:
        if not self.selection_:
            return super()._planned(graph)
        # How far features are carried follows the number of labels; a plan should not.
        chosen = next(score.name for score in self.selection_ if score.chosen)
        kernel, sums = self._new_kernel(self.likelihood_), self._may_sum(len(self.labelled_))
        recipe = with_many_labels(chosen, graph, self._rows(graph), kernel, sums)
        own = self.kernel_ if kernel is not None else recipe.kernel  # by the term, where it sums
        return own, recipe.filter.prepared(graph, self._rows(graph))

    def _label_scores(self) -> np.ndarray:
        """Leave-one-out log probabilities of the labels whose class has another."""
        y = np.searchsorted(self.classes_, self.labels_)
        told = np.bincount(y)[y] > 1
        scores: np.ndarray = np.log(np.maximum(self.loo_proba_[np.arange(len(y)), y], 1e-300))
        return scores[told]

    def _learn(
        self, graph: Graph, given: Given, parts: Parts, classes: Any = None, warm: bool = False
    ) -> None:
        earlier = None
        if warm:
            classes = merged_classes(self.classes_, given.labels)
            earlier = inference.Warm(None, None)  # of other latents, should there be a new class
            if len(classes) == len(self.classes_):
                earlier = self._warm(graph, given.nodes)
        require_classes(given.labels)
        self.classes_, targets = encode(given.labels, classes)
        self.labels_ = self.classes_[targets]
        n_classes = len(self.classes_)
        # Less than an even chance would be evidence for the other classes; it says nothing.
        confidence = np.maximum(given.confidence, 1.0 / max(n_classes, 2))
        given = given._replace(confidence=confidence)
        n_latents = parts.likelihood.n_latents(n_classes)
        with threads_for(len(targets)):
            fit = self._fit_posterior(
                graph, given, targets.astype(np.int64), parts, n_latents, earlier
            )
            without = leave_one_out(fit.labels, fit.explained, fit.kept, fit.alpha)
            plain = self._probabilities(without)
        automatic = self.calibrate == "auto" and self.preset is None
        self.temperature_ = 1.0
        if self.calibrate == "loo" or automatic:
            usual = self.likelihood_.usual_temperature
            self.temperature_ = fit_temperature(plain, targets, confidence, *usual)
        self.loo_proba_ = tempered(plain, self.temperature_)

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
        graph, nodes = self._asked(X, nodes)
        with self._threads(nodes):
            blocks = [self._probabilities(m) for m in self._marginal_blocks(graph, nodes)]
        return tempered(np.concatenate(blocks), self.temperature_)

    def predict_set(self, X: Any = None, nodes: Any = None, coverage: float = 0.9) -> np.ndarray:
        """The classes that each node may have, as a mask of shape (nodes, classes).

        The likeliest class, and every other that is likely enough: how likely that is follows from
        the leave-one-out predictions, so that about a share ``coverage`` of the sets hold the true
        class. With fewer than ``1 / (1 - coverage) - 1`` labels all classes are in.
        """
        check_is_fitted(self, "posterior_")
        threshold = self._set_threshold(coverage)
        return in_sets(self.predict_proba(X, nodes), threshold)

    def _set_threshold(self, coverage: float) -> float:
        y = np.searchsorted(self.classes_, self.labels_)
        return set_threshold(self.loo_proba_, y, coverage)

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
        graph, nodes = self._asked(X, nodes)
        ids = nodes if graph.ids is None else graph.ids[nodes]
        if X is not None and graph is not X:  # a table, whose rows stand after those fitted on
            ids = nodes - (graph.n_nodes - np.shape(X)[0])
        threshold = None if coverage is None else self._set_threshold(coverage)
        for start in range(0, max(len(nodes), 1), rows):
            some = slice(start, start + rows)
            with self._threads(nodes[some]):
                proba, information = self._predictive(self._marginals(graph, nodes[some]))
            yield prediction_table(
                ids[some],
                self.classes_,
                proba,
                {"information": information},
                sets=None if threshold is None else in_sets(proba, threshold),
                abstain_below=abstain_below,
            )

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
        n_latents = marginals.mean.shape[1]
        step = max(_DRAWN // (n_latents * max(20 * n_latents, 1024)), 1)
        blocks = zip(*(part.split(step) for part in marginals), strict=True)
        with torch.no_grad():
            parts = [function(mean.double(), var.double()) for mean, var in blocks]
        result: np.ndarray = torch.cat(parts).numpy()
        return result


def _entropy(proba: np.ndarray) -> np.ndarray:
    result: np.ndarray = entropy(torch.from_numpy(proba)).numpy()
    return result
