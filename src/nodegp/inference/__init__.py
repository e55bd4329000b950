"""From a prior, a likelihood and labels to a posterior. :class:`Dual` is how; an :class:`Engine` of
another kind is a class of its own, such as the paper's in :mod:`nodegp_paper.inference`.
"""

from nodegp.inference.base import Engine, Fit, Problem, Warm
from nodegp.inference.dual import Dual
from nodegp.inference.left_out import leave_groups_out

__all__ = ["Dual", "Engine", "Fit", "Problem", "Warm", "leave_groups_out"]
