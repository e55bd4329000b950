"""Other people's methods behind one interface, to compare with: one method to a file.

``REGISTRY`` maps the short name of each to its class; the contract tests run over it.
"""

from nodegp.baselines.appnp import APPNP
from nodegp.baselines.base import Baseline
from nodegp.baselines.chebnet import ChebNet
from nodegp.baselines.dcnn import DCNN
from nodegp.baselines.deepwalk import DeepWalk
from nodegp.baselines.gcn import GCN
from nodegp.baselines.ica import ICA
from nodegp.baselines.logistic import FeatureLogistic
from nodegp.baselines.lp import LabelPropagation
from nodegp.baselines.manireg import ManifoldRegularisation
from nodegp.baselines.monet import MoNet
from nodegp.baselines.node2vec import Node2Vec
from nodegp.baselines.planetoid import PlanetoidI, PlanetoidT
from nodegp.baselines.rgp import RelationalGP
from nodegp.baselines.semiemb import SemiEmb
from nodegp.baselines.xgp import MixedGraphGP

__all__ = [
    "APPNP",
    "DCNN",
    "GCN",
    "ICA",
    "REGISTRY",
    "Baseline",
    "ChebNet",
    "DeepWalk",
    "FeatureLogistic",
    "LabelPropagation",
    "ManifoldRegularisation",
    "MixedGraphGP",
    "MoNet",
    "Node2Vec",
    "PlanetoidI",
    "PlanetoidT",
    "RelationalGP",
    "SemiEmb",
]

REGISTRY: dict[str, type[Baseline]] = {
    "gcn": GCN,
    "appnp": APPNP,
    "chebnet": ChebNet,
    "dcnn": DCNN,
    "monet": MoNet,
    "lp": LabelPropagation,
    "ica": ICA,
    "semiemb": SemiEmb,
    "manireg": ManifoldRegularisation,
    "rgp": RelationalGP,
    "xgp": MixedGraphGP,
    "deepwalk": DeepWalk,
    "node2vec": Node2Vec,
    "planetoid-t": PlanetoidT,
    "planetoid-i": PlanetoidI,
    "logistic": FeatureLogistic,
}
