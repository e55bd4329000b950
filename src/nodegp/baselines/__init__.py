"""Other people's methods behind one interface, to compare with: one method to a file.

``REGISTRY`` maps the short name of each to its class; the contract tests run over it.
"""

from nodegp.baselines.base import Baseline
from nodegp.baselines.gcn import GCN
from nodegp.baselines.ica import ICA
from nodegp.baselines.lp import LabelPropagation
from nodegp.baselines.manireg import ManifoldRegularisation
from nodegp.baselines.rgp import RelationalGP
from nodegp.baselines.semiemb import SemiEmb
from nodegp.baselines.xgp import MixedGraphGP

__all__ = [
    "GCN",
    "ICA",
    "REGISTRY",
    "Baseline",
    "LabelPropagation",
    "ManifoldRegularisation",
    "MixedGraphGP",
    "RelationalGP",
    "SemiEmb",
]

REGISTRY: dict[str, type[Baseline]] = {
    "gcn": GCN,
    "lp": LabelPropagation,
    "ica": ICA,
    "semiemb": SemiEmb,
    "manireg": ManifoldRegularisation,
    "rgp": RelationalGP,
    "xgp": MixedGraphGP,
}
