"""Other people's methods behind one interface, to compare with: one method to a file.

``REGISTRY`` maps the short name of each to its class; the contract tests run over it.
"""

from nodegp.baselines.base import Baseline
from nodegp.baselines.gcn import GCN
from nodegp.baselines.lp import LabelPropagation

__all__ = ["GCN", "REGISTRY", "Baseline", "LabelPropagation"]

REGISTRY: dict[str, type[Baseline]] = {
    "gcn": GCN,
    "lp": LabelPropagation,
}
