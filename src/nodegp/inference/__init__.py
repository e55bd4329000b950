"""Two ways to the same posterior: :class:`Dual` (the default) and :class:`Adam` (the paper's)."""

from nodegp.inference.adam import Adam
from nodegp.inference.base import Engine, Fit, Problem, Warm
from nodegp.inference.dual import Dual

__all__ = ["Adam", "Dual", "Engine", "Fit", "Problem", "Warm"]
