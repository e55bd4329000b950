"""Other people's methods behind one interface, to compare with: one method to a file.

``REGISTRY`` maps the short name of each to its class. The contract tests, `nodegp evaluate
--compare` and Table 1 of `nodegp reproduce` run over it.
"""

from nodegp_paper.baselines.appnp import APPNP
from nodegp_paper.baselines.base import Baseline
from nodegp_paper.baselines.chebnet import ChebNet
from nodegp_paper.baselines.dcnn import DCNN
from nodegp_paper.baselines.deepwalk import DeepWalk
from nodegp_paper.baselines.gcn import GCN
from nodegp_paper.baselines.ica import ICA
from nodegp_paper.baselines.logistic import FeatureLogistic
from nodegp_paper.baselines.lp import LabelPropagation
from nodegp_paper.baselines.manireg import ManifoldRegularisation
from nodegp_paper.baselines.monet import MoNet
from nodegp_paper.baselines.node2vec import Node2Vec
from nodegp_paper.baselines.planetoid import PlanetoidI, PlanetoidT
from nodegp_paper.baselines.rgp import RelationalGP
from nodegp_paper.baselines.semiemb import SemiEmb
from nodegp_paper.baselines.xgp import MixedGraphGP

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

# A method is listed here and nowhere else. In the order of Table 1, which is the paper's and then
# what it does not have.
REGISTRY: dict[str, type[Baseline]] = {
    method.name.lower(): method
    for method in (
        GCN,
        APPNP,
        DCNN,
        MoNet,
        DeepWalk,
        PlanetoidT,
        PlanetoidI,
        ICA,
        LabelPropagation,
        SemiEmb,
        ManifoldRegularisation,
        Node2Vec,
        ChebNet,
        FeatureLogistic,
        RelationalGP,
        MixedGraphGP,
    )
}
