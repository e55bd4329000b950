"""A recipe: all that a model is made of, as data that can be printed, saved, compared and passed.

The two that have names are here, and what the default's parts are worth with so many labels. All
numbers were measured on random splits that leave the public test nodes out; the tables are in
docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np

from nodegp.component import Component
from nodegp.filters import AdditiveFilter, Filter, Identity, NeighbourMean, PageRank
from nodegp.graph import Graph
from nodegp.kernels import RBF, Constant, Cosine, Kernel, Polynomial
from nodegp.likelihoods import Gaussian, Likelihood, RobustMax, Softmax
from nodegp.preprocessing import Preprocessing
from nodegp.prior import Domain, Prior, make_prior

__all__ = [
    "DEFAULT",
    "DEFAULT_REGRESSION",
    "HUB_DISCOUNT",
    "MANY_LABELS",
    "REGRESSION",
    "Kernels",
    "Recipe",
    "bias_variance",
    "default_kernel",
    "far_neighbours",
    "paper_recipe",
    "prior_variance",
    "teleport",
    "with_bias",
]

Kernels = Kernel | tuple[Kernel, ...]  # one for each function, where h is a sum of several

# Prior variances of h: of what features say, and of a bias shared by all nodes; and the share of a
# node's own features in the first, where there is another.
_VARIANCE, _BIAS, _OWN = 1.75, 0.6, 0.15
_FEATURELESS_BIAS = 0.2  # the share of a bias that is left without features
_LARGEST = 3.0  # the first grows to this with the labels, which show more of h
_TELEPORTS = np.array([0.02, 0.03, 0.04, 0.06, 0.085])
MANY_LABELS = 20.0  # per class
_HYPERPRIOR = 1.0  # of the default kernel: the standard deviation of its logs
HUB_DISCOUNT = 0.5  # as a power of the degree


@dataclass(frozen=True)
class Recipe(Component):
    """Preprocessing, filter, kernel, likelihood and calibration that go together.

    Parameters
    ----------
    filter : Filter
    kernel : Kernel, or one for each function where h is a sum, optional
        By default a linear kernel on rows of length one plus a bias, with learnt variances.
    likelihood : Likelihood
    preprocessing : Preprocessing
    calibrate : bool
        Whether a temperature is fitted to leave-one-out predictions.
    hyperprior_std : float, optional
        Standard deviation of a normal prior on the logarithms of the hyper-parameters, around the
        values given here: with few labels the ELBO says little about them. It is 1 for the default
        kernel; without it, your own kernel has no such prior.
    name : str

    Examples
    --------
    >>> from nodegp.filters import PageRank
    >>> recipe = Recipe(PageRank(0.1), calibrate=False)
    >>> recipe.filter.teleport, recipe.likelihood
    (0.1, Softmax())
    """

    filter: Filter
    kernel: Kernels | None = None
    likelihood: Likelihood = field(default_factory=Softmax)
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    calibrate: bool = True
    hyperprior_std: float | None = None
    name: str = "custom"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in (
            ("filter", Filter),
            ("likelihood", Likelihood),
            ("preprocessing", Preprocessing),
        ):
            if not isinstance(getattr(self, name), kind):
                raise TypeError(
                    f"{name} must be a {kind.__name__} object, got {getattr(self, name)!r}"
                )
        if isinstance(self.kernel, list):
            object.__setattr__(self, "kernel", tuple(self.kernel))
        kernels = self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)
        if self.kernel is not None and not all(isinstance(k, Kernel) for k in kernels):
            raise TypeError(f"kernel must be a Kernel object, several or None, got {self.kernel!r}")
        if not isinstance(self.calibrate, bool):
            raise TypeError(f"calibrate must be True or False, got {self.calibrate!r}")
        std = self.hyperprior_std
        if std is not None and not (isinstance(std, Real) and std > 0):
            raise ValueError(f"hyperprior_std must be positive or None, got {std!r}")

    def complete(self, graph: Graph) -> Recipe:
        """The same with the default kernel written out, if none is given."""
        if self.kernel is not None:
            return self
        kernel = default_kernel(self.filter, graph, is_learnt=True)
        return replace(self, kernel=kernel, hyperprior_std=self.hyperprior_std or _HYPERPRIOR)

    def prior(self, domain: Domain) -> Prior:
        kernel = self.complete(domain.graph).kernel
        assert kernel is not None
        return make_prior(self.filter, kernel, domain)


# What every recipe that is compared for `recipe="auto"` shares; the filter stands for any.
DEFAULT = Recipe(Identity(), hyperprior_std=_HYPERPRIOR, name="auto")


def paper_recipe(likelihood: Likelihood | None = None) -> Recipe:
    """The published model: the neighbourhood mean of ``(<x, x'> + offset)^3`` with the offset
    learnt, TF-IDF, robust-max, no calibration. Under another likelihood, to be given here, the
    kernel's variance is learnt too."""
    likelihood = likelihood or RobustMax()
    # A likelihood that only compares latents cannot tell their common scale.
    fixed = ("variance",) if likelihood.scale_invariant else ()
    return Recipe(
        NeighbourMean(),
        Polynomial(3, 1.0, 5.0, fixed=fixed),
        likelihood,
        Preprocessing(center=False, counts="tfidf", weights="l2"),
        calibrate=False,
        name="paper",
    )


# What every view that is weighed for numbers shares; the filter stands for any.
DEFAULT_REGRESSION = Recipe(Identity(), None, Gaussian(), calibrate=False, name="auto")

# Of numbers with a filter that is named: a kernel whose hyper-parameters they can tell.
REGRESSION = Recipe(
    NeighbourMean(),
    RBF(),
    Gaussian(),
    Preprocessing(center=False, weights="l2"),
    calibrate=False,
    name="regression",
)


def far_neighbours(labels_per_class: float) -> PageRank:
    """The filter that most of a prediction rests on.

    All that is set by the number of labels has a few values only, so that what follows from the
    prior serves again when a label more has come in.
    """
    # With hundreds of labels some are near every hub, and show what it stands for.
    discount = HUB_DISCOUNT / max(labels_per_class / MANY_LABELS, 1.0) ** 2
    share = teleport(labels_per_class)
    order = round(2.0 / share**0.5)  # the same precision at every range
    return PageRank(share, order=order, hub_discount=round(discount, 1), fixed=("strength",))


def teleport(labels_per_class: float) -> float:
    """How far features are carried: the fewer the labels, the further each must reach."""
    wish = _TELEPORTS[-1] * np.sqrt(labels_per_class / MANY_LABELS)
    return float(_TELEPORTS[np.abs(np.log(_TELEPORTS / wish)).argmin()])


def prior_variance(labels_per_class: float) -> float:
    """That of what features say."""
    return float(np.clip(_VARIANCE * labels_per_class / MANY_LABELS, _VARIANCE, _LARGEST))


def bias_variance(labels_per_class: float, is_featureless: bool = False) -> float:
    """That of a bias: about in proportion to the labels per class, in the steps of teleport; and
    less without features, where edges alone tell classes apart by far less than one, and a
    temperature would make much of a bias."""
    share = (teleport(labels_per_class) / _TELEPORTS[-1]) ** 2
    return float(_BIAS * share * (_FEATURELESS_BIAS if is_featureless else 1.0))


def default_kernel(
    filter: Filter, graph: Graph, is_learnt: bool, variance: float = _VARIANCE, bias: float = _BIAS
) -> Kernels:
    """A linear kernel on rows of length one and a bias: one kernel for every filter.

    Without the length hubs do not count for more than others, and no scale is left to be found.
    The bias is what each class has everywhere. A handful of labels says little of that, and if an
    expert was asked about nodes of one kind, something wrong.
    """
    fixed = () if is_learnt else ("variance",)
    if not isinstance(filter, AdditiveFilter):
        return with_bias(Cosine(variance, fixed=fixed), bias, fixed)
    is_own = [isinstance(part.filter, Identity) for part in filter.summands(graph)]
    n_others = len(is_own) - sum(is_own)
    of_own = variance * (_OWN if n_others else 1.0)
    of_other = (variance - (of_own if any(is_own) else 0.0)) / max(n_others, 1)
    kernels: list[Kernel] = [Cosine(of_own if own else of_other, fixed=fixed) for own in is_own]
    return (with_bias(kernels[0], bias, fixed), *kernels[1:])


def with_bias(kernel: Kernel, variance: float, fixed: tuple[str, ...]) -> Kernel:
    return kernel + Constant(variance, fixed=fixed) if variance > 0 else kernel
