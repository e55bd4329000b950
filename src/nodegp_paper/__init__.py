"""The laboratory of nodegp: what is measured, and what it is measured against.

The paper's experiments and those beyond it, the baselines of its tables, strategies of active
learning by others, a kernel for GPyTorch, and a stacked model that did not earn a place in the
library. All of it is
built on public names of :mod:`nodegp`.
"""
