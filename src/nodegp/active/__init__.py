"""Active learning: which node to ask an expert about next.

:class:`ActiveLearner` runs the loop with any model that has ``fit`` and ``predict_proba``; an
:class:`Acquisition` chooses the nodes. :func:`suggest` chooses nodes once, with any of
``strategies()`` by name, and :func:`advice` says whether more labels are worthwhile.
"""

from nodegp.active.acquisition import STRATEGIES, Acquisition, Choice, Situation, strategies
from nodegp.active.design import SOPT, VOPT
from nodegp.active.gpvopt import GPVOPT, Hybrid
from nodegp.active.latent import PosteriorModel
from nodegp.active.learner import ActiveLearner, Step, suggest
from nodegp.active.simple import Degree, Entropy, Margin, Random
from nodegp.active.stopping import Advice, advice

__all__ = [
    "GPVOPT",
    "SOPT",
    "STRATEGIES",
    "VOPT",
    "Acquisition",
    "ActiveLearner",
    "Advice",
    "Choice",
    "Degree",
    "Entropy",
    "Hybrid",
    "Margin",
    "PosteriorModel",
    "Random",
    "Situation",
    "Step",
    "advice",
    "strategies",
    "suggest",
]
