"""The paper's optimiser, as an engine of the library: ``engine="adam"``."""

from nodegp_paper.inference.adam import Adam

__all__ = ["Adam"]
