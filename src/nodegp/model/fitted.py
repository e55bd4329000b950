"""What every fitted model is: a posterior, what it was fitted to, and where it can be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from nodegp.budget import budget
from nodegp.declared import check_shapes, require
from nodegp.disk import GraphOnDisk
from nodegp.graph import Graph, check_nodes
from nodegp.inducing import Inducing, Labelled, Points, choose
from nodegp.inference import Dual, Engine, Fit, Problem, Warm
from nodegp.inference.shared import shares_precisions
from nodegp.labels import Observations
from nodegp.likelihoods import Likelihood
from nodegp.linalg import threads_for
from nodegp.model.explanation import Explanation, explain
from nodegp.model.recipe import Recipe
from nodegp.posterior import Marginals, Posterior
from nodegp.preprocessing import Preprocessor
from nodegp.prior import (
    Domain,
    OneFunction,
    Prior,
    SumInputs,
    SumPrior,
    WeightedRows,
    domain_of,
    kernels_of,
    learnt_filter,
)
from nodegp.prior.edges import LINKS
from nodegp.seeds import generator

__all__ = [
    "FEW_NODES",
    "Diagnostics",
    "FittedModel",
    "Report",
    "Settings",
    "fit_posterior",
    "silent",
]

Seed = int | np.random.Generator | np.random.RandomState | None
Report = Callable[[str], None]
M = TypeVar("M", bound="FittedModel")

# What a posterior says of all nodes of its graph, for as long as it lives: calibration asks first,
# and then those who read predictions, sets and doubts.
_everywhere: WeakKeyDictionary[Posterior, Marginals] = WeakKeyDictionary()
FEW_NODES = 20_000  # of which all marginals are worth having: calibration asks for them


def silent(line: str) -> None:
    """A report that nobody reads."""


@dataclass(frozen=True)
class Settings:
    """How a model is fitted, whatever it is made of."""

    inducing: Inducing | str = "auto"
    engine: Engine = field(default_factory=Dual)
    random_state: Seed = None

    def choose_inducing(
        self, likelihood: Likelihood, n_latents: int, n_labels: int, prior: Prior | None = None
    ) -> Inducing:
        """What u is. Left open, it is never points where h is a sum of functions: a sum that was
        chosen for few labels stays one when many have come in."""
        if self.inducing == "auto" and isinstance(prior, SumPrior):
            return Labelled()
        is_shared = isinstance(self.engine, Dual) and shares_precisions(likelihood, n_latents)
        return choose(self.inducing, n_labels, is_shared)

    def may_sum(self, likelihood: Likelihood, n_latents: int, n_labels: int) -> bool:
        """Whether h may be a sum of functions, of which inducing points are none."""
        return not isinstance(self.choose_inducing(likelihood, n_latents, n_labels), Points)


@dataclass(frozen=True)
class Diagnostics:
    """How a fit went."""

    elbo: float
    elbo_trace: np.ndarray
    n_iter: int
    converged: bool
    jitter: float
    advice: str  # what to do if it did not converge
    # For the next fit to start from:
    curvature: np.ndarray | None  # of the ELBO in the hyper-parameters
    start: dict[str, float]  # the hyper-parameters that the first fit began with


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A posterior with its observations; see the classifier and the regressor."""

    recipe: Recipe  # complete, with what was learnt
    settings: Settings
    preprocessor: Preprocessor
    graph: Graph | None  # None in a model that was saved without
    observations: Observations
    inducing: Inducing
    posterior: Posterior
    label_weights: np.ndarray  # (O, L) what each label adds to the latent means
    diagnostics: Diagnostics
    # Where the graph is gone: what the nodes it was fitted on are known by, if links to them count.
    known_by: dict[str, str]

    def __post_init__(self) -> None:
        nodes, _, confidence = self.observations
        sizes = {"O": len(nodes), "L": self.posterior.n_latents}
        check_shapes(self.observations, sizes, nodes="O", labels="O", confidence="O")
        check_shapes(self, sizes, label_weights="O L")
        require(np.array_equal(np.unique(nodes), nodes), "labelled nodes are not in their order")
        require(((confidence > 0) & (confidence <= 1)).all(), "a confidence is no probability")
        if self.graph is not None:
            check_nodes(nodes, self.graph.n_nodes)

    @property
    def prior(self) -> Prior:
        return self.posterior.prior

    @property
    def likelihood(self) -> Likelihood:
        return self.recipe.likelihood

    def domain(self, graph: Graph | None = None) -> Domain:
        """A graph with its features as this model sees them; by default the one fitted on."""
        graph = self.graph if graph is None else graph
        if graph is None:
            raise ValueError(
                "this model was saved without its graph: predict on a Graph that you pass, or save "
                "it with include_graph=True to predict, update and explain without one"
            )
        return domain_of(graph, self.preprocessor, stranger_to=self._strange_nodes(graph))

    def _strange_nodes(self, graph: Graph) -> int | None:
        """How many nodes the model knows by their links, if they are not the first of this graph:
        its nodes then have no links in common with labelled ones."""
        known = self._linked_nodes
        if known is None or graph is self.graph:
            return None
        if self.graph is not None:
            return None if graph.begins_like(self.graph) else known
        marks = graph.marks(known) if graph.n_nodes >= known else {}
        # Nodes have their names, where there are any; else they are known by their features.
        name = "ids" if "ids" in self.known_by and "ids" in marks else "features"
        return None if name in marks and marks[name] == self.known_by.get(name) else known

    @property
    def _linked_nodes(self) -> int | None:
        """How many nodes there were, if features of some function are links."""
        if not isinstance(self.prior, SumPrior):
            return None
        of_parts = zip(self.prior.parts, SumInputs.of(self.posterior.inducing).parts, strict=True)
        for part, inputs in of_parts:
            if isinstance(part, OneFunction) and part.relation == LINKS:
                return int(WeightedRows.of(inputs).in_memory().values.shape[1])
        return None

    # --- asking -------------------------------------------------------------------------------

    def marginals(self, domain: Domain, nodes: np.ndarray) -> Marginals:
        """q(h) at some nodes; of all nodes it was fitted on they are worked out once."""
        is_everyone = domain.graph is self.graph and np.array_equal(nodes, np.arange(len(nodes)))
        is_everyone = is_everyone and len(nodes) == domain.n_nodes
        if is_everyone and self.posterior in _everywhere:
            return _everywhere[self.posterior]
        with threads_for(self.posterior.n_inducing, len(nodes)):
            marginals = self.posterior.marginals(self.prior.at(domain, nodes))
        if is_everyone and marginals.mean.numel() <= budget.block:
            _everywhere[self.posterior] = marginals
        return marginals

    @property
    def known_marginals(self) -> Marginals | None:
        """q(h) at all nodes it was fitted on, if they were asked for."""
        return _everywhere.get(self.posterior)

    def joint(self, domain: Domain, nodes: np.ndarray) -> tuple[Tensor, Tensor]:
        """Mean (nodes, L) and covariance (L, nodes, nodes) of h over the nodes together."""
        if len(nodes) ** 2 * self.posterior.n_latents > budget.answer:
            raise ValueError(
                f"the joint covariance of {len(nodes)} nodes and {self.posterior.n_latents} "
                "latents is too large to hold; pass nodes= to ask about fewer"
            )
        return self.posterior.joint(self.prior.at(domain, nodes))

    def across(self, domain: Domain, nodes: np.ndarray, others: np.ndarray) -> Tensor:
        """Covariance of h at some nodes with h at others, (L, nodes, others)."""
        a, b = (self.prior.at(domain, side) for side in (nodes, others))
        return self.posterior.across(a, b)

    def explain(self, node: int, graph: Graph | None = None) -> Explanation:
        """Which labels and which neighbours made the prediction of one node."""
        labels = None
        if self.posterior.chol is not None:  # the labelled nodes are not the inducing variables
            if self.graph is None:
                raise ValueError(
                    "to explain this model takes the graph it was fitted on, and it was saved "
                    "without; save with include_graph=True"
                )
            labels = self.prior.at(self.domain(), self.observations.nodes)
        return explain(
            self.posterior,
            self.domain(graph),
            node,
            labels,
            self.observations.nodes,
            self.label_weights,
        )

    def variance_shares(self) -> list[float]:
        """For a sum of functions: the share of each in the prior variance of the labelled nodes,
        which says how much it mattered."""
        prior = self.prior
        if not isinstance(prior, SumPrior):
            raise TypeError(f"{type(self.recipe.filter).__name__} is no sum of filters")
        with torch.no_grad():
            parts = prior.variances(prior.at(self.domain(), self.observations.nodes))
        sizes = np.array([float(part.mean()) for part in parts])
        shares: list[float] = (sizes / sizes.sum()).tolist()
        return shares

    def jitter_share(self) -> float:
        """The jitter relative to the median prior variance of the inducing variables."""
        if not self.diagnostics.jitter:
            return 0.0
        variances = self.prior.var(self.posterior.inducing)
        return self.diagnostics.jitter / float(variances[variances > 0].median())

    def planning_prior(self, domain: Domain) -> Prior:
        """The prior to plan questions with."""
        return self.prior

    # --- the next model -----------------------------------------------------------------------

    def update(self, observations: Observations, report: Report = silent) -> Self:
        """The model of these observations, fitted from where this one ended."""
        raise NotImplementedError

    def without_graph(self) -> Self:
        known_by = self.known_by
        is_known = self._linked_nodes is not None or isinstance(self.graph, GraphOnDisk)
        if self.graph is not None and is_known:
            known_by = self.graph.marks(self.graph.n_nodes)
        return replace(self, graph=None, known_by=known_by)

    def with_graph(self, graph: Graph) -> Self:
        """The same with the graph that it was fitted on, where it was saved without."""
        marks = graph.marks(graph.n_nodes)
        name = "store" if isinstance(graph, GraphOnDisk) else "ids"
        if name in self.known_by and marks.get(name) != self.known_by[name]:
            raise ValueError(
                "this model was fitted on another graph: give the one that it was fitted on, or "
                "fit it again"
            )
        return replace(self, graph=graph)

    def warm(self, observations: Observations) -> Warm:
        """What this fit knows that the next can start from."""
        domain = self.domain()
        if domain.n_nodes <= FEW_NODES:  # mostly they were asked for; if not, it is a prediction
            everyone = self.marginals(domain, np.arange(domain.n_nodes))
            places = torch.from_numpy(observations.nodes)
            return Warm(Marginals(*(part[places] for part in everyone)), self.diagnostics.curvature)
        # In memory: their rows are kept, but for those of new labels.
        with threads_for(self.posterior.n_inducing, domain.n_nodes):
            inputs = self.prior.at(domain, observations.nodes).materialise()
        with threads_for(self.posterior.n_inducing):
            return Warm(self.posterior.marginals(inputs), self.diagnostics.curvature)

    def extended(self, kind: type[M], **own: object) -> M:
        """This with what a kind of model knows beyond it."""
        parts = {f.name: getattr(self, f.name) for f in fields(FittedModel)}
        return kind(**parts, **own)  # type: ignore[arg-type]


def fit_posterior(
    domain: Domain,
    recipe: Recipe,
    settings: Settings,
    observations: Observations,
    targets: np.ndarray,
    n_latents: int,
    report: Report,
    earlier: FittedModel | None = None,
    warm: Warm | None = None,
) -> tuple[Fit, FittedModel]:
    """q at the labelled nodes, found with an engine, and the model that it makes.

    ``earlier`` is the model whose hyper-parameters to start from, ``warm`` what its fit knew.
    """
    rng, template = generator(settings.random_state), settings.engine.template
    recipe = recipe.complete(domain.graph)
    prior = recipe.prior(domain) if earlier is None else earlier.prior
    inducing = settings.choose_inducing(recipe.likelihood, n_latents, len(targets), prior)
    if isinstance(inducing, Points):
        prior = prior.with_exact_lengths()
    had_points = earlier is not None and isinstance(earlier.inducing, Points)
    points = earlier.posterior.inducing if earlier is not None and had_points else None
    with threads_for(len(targets), domain.n_nodes):  # propagation along the edges
        projector = inducing.prepare(prior, domain, observations.nodes, template, rng, points)
    problem = Problem(
        prior=prior,
        likelihood=recipe.likelihood,
        projector=projector,
        y=torch.from_numpy(targets),
        confidence=torch.from_numpy(observations.confidence).to(template),
        n_latents=n_latents,
        rng=rng,
        warm=warm,
        hyperprior_mean=None if earlier is None else earlier.diagnostics.start,
        hyperprior_std=recipe.hyperprior_std,
    )
    start = problem.free_parameters() if earlier is None else earlier.diagnostics.start
    with threads_for(len(targets)):
        fit = settings.engine.fit(problem, report)
    if isinstance(domain.graph, GraphOnDisk) and recipe.filter.free_parameters():
        # What was learnt decides what predictions read: it is made and kept with the store now.
        fit.posterior.prior.prepare(domain)
    kernels = kernels_of(fit.posterior.prior)
    learnt = replace(
        recipe,
        filter=learnt_filter(recipe.filter, fit.posterior.prior),
        kernel=kernels if isinstance(fit.posterior.prior, SumPrior) else kernels[0],
        likelihood=fit.likelihood,
    )
    return fit, FittedModel(
        recipe=learnt,
        settings=settings,
        preprocessor=domain.preprocessor,
        graph=domain.graph,
        observations=observations,
        inducing=inducing,
        posterior=fit.posterior,
        label_weights=fit.alpha.double().numpy(),
        diagnostics=Diagnostics(
            fit.elbo,
            fit.elbo_trace,
            fit.n_iter,
            fit.converged,
            fit.jitter,
            fit.advice,
            fit.curvature,
            start,
        ),
        known_by={},
    )
