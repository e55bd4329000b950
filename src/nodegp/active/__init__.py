"""Active learning: which node to ask an expert about next.

:class:`ActiveLearner` runs the loop with any model that has ``fit`` and ``predict_proba``; an
:class:`Acquisition` chooses the nodes.
"""

from nodegp.active.acquisition import Acquisition, Random, Situation
from nodegp.active.learner import ActiveLearner, Step
from nodegp.active.sopt import SOPT

__all__ = ["SOPT", "Acquisition", "ActiveLearner", "Random", "Situation", "Step"]
